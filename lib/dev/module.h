/* SPDX-License-Identifier: MIT */
/* Checks of a module's file before it is loaded. registry.h has the search. */
#ifndef WEIR__MODULE_H
#define WEIR__MODULE_H

#include <limits.h>
#include <stdint.h>
#include <sys/stat.h>

struct weir;

/* elf.c. -ENOEXEC with a sentence: not a whole shared object. */
int weir__elf_check(int fd, uint64_t size);

/*
 * trust.c. If other users could have written the file of @st, which was opened
 * as @path, or have put it there, the log gets a line, and a strict root
 * returns
 * -EPERM with a sentence.
 */
int weir__module_trust(struct weir *weir, const char *path,
		       const struct stat *st);
/*
 * The path of the file without symbolic links. -ESTALE with a sentence: it is
 * not the file of @st any more.
 */
int weir__module_follow(const char *path, const struct stat *st,
			char real[static PATH_MAX]);

#endif
