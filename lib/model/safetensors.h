/* SPDX-License-Identifier: MIT */
/*
 * safetensors: a header of JSON, then the data.
 *
 *	u64 little-endian N; N bytes of JSON; the data section
 *
 * Reading a header takes three steps, each of which works on memory alone but
 * the first: weir__st_read gets the text, weir__st_parse makes records of it,
 * weir__ranges_check sees to it that the data section is covered exactly.
 */
#ifndef WEIR__SAFETENSORS_H
#define WEIR__SAFETENSORS_H

#include "model/model.h"

#define WEIR__ST_MIN 2u         /* bytes of a header: "{}" */
#define WEIR__ST_MAX 100000000u /* inclusive; the format's own limit */

/* The text of one header, and where it was found. */
struct weir__st {
	const char *file; /* for sentences */
	char *text;       /* @len bytes, then a NUL; written to */
	size_t len;
	uint64_t data_bytes; /* of the data section, which follows the text */
	uint32_t shard;
	bool lenient;
};

/*
 * What the first @n bytes (8 at least, if there are as many) of a file of
 * @bytes bytes say. *ret_len: of the header. -EBADMSG: no safetensors file can
 * begin so. -EOPNOTSUPP: it is of another format, which is named.
 */
int weir__st_head(const char *file, const unsigned char *head, size_t n,
		  uint64_t bytes, uint64_t *ret_len);

/* Add the tensors and the metadata of @st to @m. */
int weir__st_parse(struct weir_model *m, const struct weir__st *st);

/*
 * Check records [first, m->n_recs), whose off and bytes hold the two
 * data_offsets as the header gives them, and put there what a record has.
 * They are sorted by offset; those that begin and end at the same byte (they
 * are empty) stay in the order of the header. 1: that order is another one, so
 * records have changed their numbers.
 */
int weir__ranges_check(struct weir_model *m, size_t first,
		       const struct weir__st *st);

/* Read, parse and check shard @shard of @m, which is open. */
int weir__st_read(struct weir_model *m, uint32_t shard, bool lenient);

#endif
