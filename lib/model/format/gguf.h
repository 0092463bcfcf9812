/* SPDX-License-Identifier: MIT */
/*
 * GGUF, versions 2 and 3: a header of binary fields, then the data.
 *
 *	"GGUF", u32 version, i64 number of tensors, i64 number of pairs;
 *	the pairs of metadata, the infos of tensors, padding, the data section
 *
 * The length of a header is not known before its end, so it is read piece by
 * piece, into the model's text, where its strings and arrays stay: records and
 * values refer to them, and nothing is copied.
 */
#ifndef WEIR__GGUF_H
#define WEIR__GGUF_H

#include "model/format/format.h"

/* One file, and where its bytes come from. */
struct weir__gguf {
	const char *file;    /* its name, for sentences */
	uint64_t file_bytes; /* bytes of the whole file */
	/*
	 * The first @n_bytes bytes, in memory, with the whole header; unchanged
	 * by the parser. NULL: they are read from @from.
	 */
	const char *bytes;
	size_t n_bytes;
	struct weir_file *from;
	uint32_t shard; /* number of the file in the model */
	bool lenient;
};

extern const struct weir__format weir__gguf;
extern const struct weir__format_write weir__gguf_write; /* gguf_write.c */

/*
 * Add the tensors and the metadata of @g to @m, checked. Blocks only while it
 * reads from a file. -EBADMSG. -EOPNOTSUPP: another version or byte order, or
 * beyond our limits.
 */
int weir__gguf_parse(struct weir_model *m, const struct weir__gguf *g);

#endif
