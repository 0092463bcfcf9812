/* SPDX-License-Identifier: MIT */
/* Text that a command reads whole, from a file or from stdin. */
#ifndef TOOLS_INFILE_H
#define TOOLS_INFILE_H

#include <stdbool.h>
#include <stddef.h>

/* Return the name of the file in sentences; "-" is stdin. */
const char *infile_name(const char *path);
/*
 * Read up to the end of the file, or up to the first block that has a NUL if
 * @stop_at_nul: then an endless device file ends too. Free @ret_text with
 * free(3). Returns 0, or EXIT_FAILURE after a line on stderr; over @max bytes
 * fail.
 */
int infile_read(const char *path, size_t max, bool stop_at_nul, char **ret_text,
		size_t *ret_n);

#endif
