/* SPDX-License-Identifier: MIT */
/*
 * Shards at URLs are opened several at once: one after another, each would take
 * a round trip to its server.
 */
#ifndef WEIR__SHARDS_AHEAD_H
#define WEIR__SHARDS_AHEAD_H

#include <stdbool.h>
#include <stddef.h>

#include "io/file.h"

/* Threads open files until there are no more, or one has failed. */
struct weir__opening {
	struct weir *weir;
	char **path;             /* NULL: no memory for it */
	struct weir_file **file; /* NULL: not opened, or taken */
	size_t n;
	_Atomic size_t next;
	_Atomic bool failed;
};

/*
 * Make room for @n paths, which the caller fills in, or files that it has
 * opened. -ENOMEM.
 */
int weir__opening_new(struct weir__opening *a, struct weir *weir, size_t n);
/*
 * Open the files, by this thread and others. Blocks. A file that fails is left
 * out, and so are those after it: the caller opens them one by one, and gets
 * the sentence of the first.
 */
void weir__opening_open(struct weir__opening *a);
/* Take the file of path @i. NULL: it was not opened. */
struct weir_file *weir__opening_take(struct weir__opening *a, size_t i);
/* Free the paths, and close what was not taken. Takes a cleared struct. */
void weir__opening_fini(struct weir__opening *a);

#endif
