/* SPDX-License-Identifier: MIT */
/*
 * A model that is split into files by their names alone:
 * NAME-00001-of-00003.gguf. Any of them may be opened; all are its shards, in
 * the order of their numbers. Each says in its metadata which file it is; the
 * reader of the format compares.
 */
#ifndef WEIR__SPLIT_H
#define WEIR__SPLIT_H

#include "model/format/model.h"

/* A name of a part. */
struct weir__part_name {
	const struct weir__format *format; /* format that has the suffix */
	size_t stem;        /* bytes of the name before "-00001-of-00003" */
	uint32_t no, count; /* number @no of @count, counted from 1 */
};

/* True if @name, which may be a path, is that of a part. Never blocks. */
bool weir__split_parse(const char *name, struct weir__part_name *ret_split);
/* True if both names are those of parts of one model. */
bool weir__split_same(const char *a, const char *b);

/*
 * Open and read all parts into @m, of which @file, whose path is @split, is
 * one. -ENOENT: one is missing. Blocks.
 */
int weir__split_read(struct weir_model *m, struct weir_file *file,
		     const struct weir__part_name *split, bool lenient);

#endif
