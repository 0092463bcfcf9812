/* SPDX-License-Identifier: MIT */
/*
 * The formats of model files, and what their readers share.
 *
 * formats.c lists them. The first bytes of a file decide its format, never its
 * name: weir__shard_read reads them, asks each format in the order of the list,
 * and calls the reader of the one that recognises them. README.md says how a
 * format is added.
 */
#ifndef WEIR__MODEL_FORMAT_H
#define WEIR__MODEL_FORMAT_H

#include "model/model.h"

#define WEIR__HEAD_BYTES 512u /* a tar archive is recognised at byte 257 */

/* The first bytes of a file. */
struct weir__head {
	const char *file; /* its name, for sentences */
	const unsigned char *bytes;
	size_t n; /* WEIR__HEAD_BYTES, or the whole file if it is shorter */
	uint64_t file_bytes;
};

/* A format. Constant; its functions are called by the thread that opens. */
struct weir__format {
	const char *name; /* weir_model_info.format */
	/*
	 * Used to find the one model in a directory: how names of its files end,
	 * and, or NULL, names of its indexes (index.h).
	 */
	const char *suffix;
	const char *index_suffix;
	/* Does a file of this format begin so? Never blocks. */
	bool (*probe)(const struct weir__head *head);
	/*
	 * Read the header of shard @shard, whose file is open: append its pairs
	 * of metadata and its records, which are then in the order of their
	 * offsets (weir__ranges_check). May read a file that probe has not
	 * recognised; then it says why it is none of the format. Blocks.
	 *
	 * Optional; NULL: a file that probe recognises is refused as not
	 * supported.
	 */
	int (*read)(struct weir_model *m, uint32_t shard,
		    const struct weir__head *head, bool lenient);
};

/* All formats, by preference in a directory. Ended by NULL, never empty. */
extern const struct weir__format *const weir__formats[];

/*
 * The format of a file that begins with @head; the first of the list if nothing
 * is recognised in it. -EOPNOTSUPP: it is something else, which the sentence
 * names. -EBADMSG: it is text.
 */
int weir__format_of(const struct weir__head *head,
		    const struct weir__format **ret_format);

/*
 * Read shard @shard of @m, which is open, with the reader of its format. The
 * first shard decides the format of the model, unless m->format is set.
 * -EOPNOTSUPP: the shard has another one.
 */
int weir__shard_read(struct weir_model *m, uint32_t shard, bool lenient);

/* Where the tensors of a shard may be. */
struct weir__ranges {
	const char *file;  /* for sentences ... */
	const char *field; /* ... as is the format's word for [begin, end] */
	uint64_t data_at;  /* where the data section begins in the file */
	uint64_t data_bytes;
	/*
	 * Each tensor begins at a multiple of this in the data section: a power
	 * of two up to 2^32. The padding that it takes is no gap.
	 */
	uint64_t align;
	bool gaps; /* bytes between tensors may belong to none */
	bool tail; /* ... and so may bytes after the last tensor */
};

/*
 * Check records [first, m->n_recs): sizes against shapes, places against
 * @ranges. Before the call off and bytes of a record are where the tensor begins
 * and ends in the data section; afterwards they are its offset in the file and
 * its length.
 *
 * The records are sorted by offset; those that begin and end at the same byte
 * (they are empty) stay in the order of the header. 1: the order has changed,
 * so a table of their names has wrong numbers. -EBADMSG. -EOPNOTSUPP: too many
 * dimensions.
 */
int weir__ranges_check(struct weir_model *m, size_t first,
		       const struct weir__ranges *ranges);

/*
 * One header while it is read: what a reader appends to the model. -ENOMEM comes
 * without a sentence.
 */
struct weir__header {
	struct weir_model *m;
	struct weir__names names; /* of its tensors */
	size_t first,
		first_meta; /* records and pairs before are of other shards */
};

/* @n_names: how many tensors are expected. -ENOMEM. */
int weir__header_begin(struct weir__header *h, struct weir_model *m,
		       size_t n_names);
/*
 * Append @rec, of @name and of the shape @dims; or replace the record of that
 * name that the header has. Of more than WEIR_MAX_DIMS dimensions only the first
 * are read. @hash: of weir__names_ahead. 0: appended. 1: replaced, so the name is
 * there twice. -ENOMEM. -EOPNOTSUPP: the model has too many.
 */
int weir__header_add(struct weir__header *h, const struct weir__str *name,
		     uint32_t hash, const uint64_t *dims,
		     struct weir__record *rec);
/*
 * The value of @key, for the reader to set before it adds the next pair; NULL: an
 * earlier shard has the key, and its value counts. 1: so has this header: the
 * key is there twice. -ENOMEM. -EOPNOTSUPP: too many pairs.
 */
int weir__header_meta(struct weir__header *h, const struct weir__str *key,
		      struct weir__value **ret_value);
/*
 * The header is complete: check its tensors by weir__ranges_check, and give the
 * names to the model if they are all that it has. NULL for @ranges: reading
 * failed. Frees what @h has.
 */
int weir__header_end(struct weir__header *h, const struct weir__ranges *ranges);

#endif
