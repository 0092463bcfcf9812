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

#include "model/format/model.h"

#define WEIR__HEAD_BYTES 512u /* a tar archive is recognised at byte 257 */

/* The first bytes of a file. */
struct weir__head {
	const char *file; /* its name, for sentences */
	const unsigned char *bytes;
	size_t n; /* WEIR__HEAD_BYTES, or the whole file if it is shorter */
	uint64_t file_bytes;
};

struct weir__bytes;

/* One of the files that a model is written to. */
struct weir__part_out {
	const size_t
		*order; /* its records, by number, in the order of the file */
	size_t n;
	uint32_t no, count; /* file @no, from 0, of @count */
};

/*
 * How files of a format are written. A model that is written has records, whose
 * offsets count from the beginning of the data section, names and metadata, and
 * no files. Constant; any thread.
 */
struct weir__format_write {
	/*
	 * Tensors are sorted so that those with larger alignments come first.
	 */
	bool by_alignment;
	bool pads; /* the last tensor is padded, too */
	bool utf8; /* strings of metadata must be UTF-8 */
	/* 0, or -EOPNOTSUPP, -EINVAL: the format cannot hold such a tensor. */
	int (*check)(const struct weir__str *name, uint32_t dtype,
		     unsigned ndim);
	/* The same for a pair of metadata. */
	int (*check_value)(const struct weir__str *key,
			   const struct weir__value *value);
	/*
	 * The alignment of @rec in the data section, or, with NULL, of the data
	 * section in the file: a power of two.
	 */
	uint64_t (*align)(const struct weir_model *m,
			  const struct weir__record *rec);
	/*
	 * Append the header of a file to @out, which is empty. -ENOMEM without
	 * a sentence. -EOPNOTSUPP: the format has a limit that the model
	 * exceeds.
	 */
	int (*header)(const struct weir_model *m,
		      const struct weir__part_out *part,
		      struct weir__bytes *out);
	/*
	 * The same for the index of the @n parts, which are the files of these
	 * names. NULL: files of one model are found by their names.
	 */
	int (*index)(const struct weir_model *m,
		     const struct weir__part_out *part, const char *const *file,
		     uint32_t n, struct weir__bytes *out);
};

/* A format. Constant; its functions are called by the thread that opens. */
struct weir__format {
	const char *name; /* weir_model_info.format */
	/*
	 * Used to find the one model in a directory: how names of its files
	 * end, and, or NULL, names of its indexes (shard_index.h).
	 */
	const char *suffix;
	const char *index_suffix;
	/* Files NAME-00001-of-00003<suffix> are one model (split_files.h). */
	bool split;
	/* True if @head begins a file of this format. Never blocks. */
	bool (*probe)(const struct weir__head *head);
	/*
	 * Read the header of shard @shard, whose file is open: append its pairs
	 * of metadata and its records, which are then in the order of their
	 * offsets (weir__header_end). The first format of the list also gets
	 * files that no probe has recognised, and says what is wrong. Blocks.
	 */
	int (*read)(struct weir_model *m, uint32_t shard,
		    const struct weir__head *head, bool lenient);
	const struct weir__format_write *write; /* NULL: it is only read */
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

/* The rules of a format for the places of tensors in one file. */
struct weir__ranges {
	const char *file;    /* its name, for sentences */
	const char *field;   /* the format's word for begin and end: the same */
	uint64_t data_at;    /* offset of the data section in the file */
	uint64_t data_bytes; /* its length */
	/*
	 * Tensors begin at multiples of this in the data section: a power of
	 * two up to 2^32. Padding up to the next multiple is not a gap.
	 */
	uint64_t align;
	bool gaps; /* there may be bytes between tensors that belong to none */
	bool tail; /* there may be bytes after the last tensor */
};

/*
 * Elements of a shape, multiplied in the order given: [0, 2^64-1, 2^64-1] is
 * empty, [2^64-1, 2^64-1, 0] is too large. True: 2^64 or more.
 */
bool weir__elements_over(const int64_t *shape, unsigned ndim, uint64_t *ret_n);

/*
 * A header while it is read: its records and pairs are appended to the model.
 * -ENOMEM comes without a sentence.
 */
struct weir__header {
	struct weir_model *m;
	struct weir__names names; /* names of its records */
	size_t first;             /* number of its first record */
	size_t first_meta;        /* number of its first pair */
};

/* Begin a header of about @n_names tensors. -ENOMEM. */
int weir__header_begin(struct weir__header *h, struct weir_model *m,
		       size_t n_names);
/*
 * Append @rec with the name @name and the shape @dims (rec->ndim dimensions, of
 * which at most WEIR_MAX_DIMS are read). @hash is from weir__names_ahead. If
 * the header has a record of that name, it is replaced: 1. 0: appended.
 * -ENOMEM. -EOPNOTSUPP: the model has too many tensors or dimensions.
 */
int weir__header_add(struct weir__header *h, const struct weir__str *name,
		     uint32_t hash, const uint64_t *dims,
		     struct weir__record *rec);
/* Give @rec, which has its ndim, the shape @dims; see above. */
int weir__record_set_shape(struct weir_model *m, const uint64_t *dims,
			   struct weir__record *rec);
/*
 * Append a pair with the key @key. The reader then sets its value, *ret_value,
 * before it appends the next pair. NULL: an earlier shard has the key, and its
 * value counts. 1: this header has the key already. -ENOMEM. -EOPNOTSUPP: too
 * many pairs.
 */
int weir__header_meta(struct weir__header *h, const struct weir__str *key,
		      struct weir__value **ret_value);
/*
 * End a header that was begun. Checks sizes and places of its records, and
 * sorts them by offset, unless @ranges is NULL because reading has failed. The
 * table of names becomes the model's if it is right and complete, or is freed.
 */
int weir__header_end(struct weir__header *h, const struct weir__ranges *ranges);

#endif
