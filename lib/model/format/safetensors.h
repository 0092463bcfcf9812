/* SPDX-License-Identifier: MIT */
/*
 * safetensors: a header of JSON, then the data.
 *
 *	u64 little-endian N; N bytes of JSON; the data section
 *
 * A header is read in three steps. The first reads its text from the
 * file; the other two work on memory alone: weir__st_parse makes records from
 * the text, and weir__header_end requires that they cover the data section
 * exactly.
 */
#ifndef WEIR__SAFETENSORS_H
#define WEIR__SAFETENSORS_H

#include "model/format/format.h"

#define WEIR__ST_MIN 2u         /* bytes of a header: "{}" */
#define WEIR__ST_MAX 100000000u /* inclusive; the format's own limit */

/* The text of one header, and where it was found. */
struct weir__st {
	const char *file; /* name of the file, for sentences */
	char *text;       /* @len bytes, then a NUL; the parser changes them */
	size_t len;
	uint64_t data_bytes; /* bytes of the data section, which follows the
				text */
	uint32_t shard;
	bool lenient;
};

extern const struct weir__format weir__safetensors;
/* safetensors_write.c */
extern const struct weir__format_write weir__safetensors_write;

/*
 * Get the length of the header of a file that begins with @head. -EBADMSG: it
 * is longer or shorter than the format allows, or longer than the file.
 */
int weir__st_len(const struct weir__head *head, size_t *ret_len);

/* Check the tensors and the metadata of @st, and add them to @m. */
int weir__st_parse(struct weir_model *m, const struct weir__st *st);

#endif
