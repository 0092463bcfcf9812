/* SPDX-License-Identifier: MIT */
/* The test modules, as tests use them: copies in a directory of their own. */
#ifndef T_TESTMOD_H
#define T_TESTMOD_H

#include <weir.h>

/* A directory of this test, made at the first call and removed at its end. */
const char *modules_dir(void);

/*
 * Copy t/modules/weir-@from.so to @dir/weir-@as.so. The path is valid until
 * the next call.
 */
const char *module_copy(const char *from, const char *dir, const char *as);

/* A file with this text, which is no module. */
const char *module_text(const char *dir, const char *as, const char *text);

/*
 * A root that loads modules from @path and keeps what it logs, a line each, in
 * modules_log. Ends the test if that fails.
 */
struct weir *open_with_modules(const char *path, unsigned flags);
extern char modules_log[8192];

/* The same with a proper TEST backend, and with WEIR_MODULE_PATH. */
struct weir *open_with_good_module(void);

#endif
