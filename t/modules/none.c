/* SPDX-License-Identifier: MIT */
/* A shared object that is no module: it has no entry symbol. */
extern int weir_test_none;
__attribute__((visibility("default"))) int weir_test_none = 1;
