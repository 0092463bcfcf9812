/* SPDX-License-Identifier: MIT */
#ifndef WEIR__MODULE_H
#define WEIR__MODULE_H

#include <stdint.h>
#include <sys/stat.h>

struct weir;

/* elf.c. -ENOEXEC with a sentence: dlopen(3) should not see it. */
int weir__elf_check(int fd, uint64_t size);

/*
 * trust.c. Could others have written the file of @st, which was opened as
 * @path, or have put it there? The log is told, or, where modules are strict,
 * -EPERM with a sentence.
 */
int weir__module_trust(struct weir *weir, const char *path,
		       const struct stat *st);

#endif
