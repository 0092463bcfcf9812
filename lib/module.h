/* SPDX-License-Identifier: MIT */
#ifndef WEIR__MODULE_H
#define WEIR__MODULE_H

#include <stdint.h>

/* -ENOEXEC with a sentence: dlopen(3) should not see it. */
int weir__elf_check(const char *path, uint64_t size);

#endif
