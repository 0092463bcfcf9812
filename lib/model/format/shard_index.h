/* SPDX-License-Identifier: MIT */
/*
 * An index of safetensors shards: {"metadata": {"total_size": N}, "weight_map":
 * {tensor: file}}. It decides which files are opened (in the order of their
 * names), and which of their tensors belong to the model.
 */
#ifndef WEIR__INDEX_H
#define WEIR__INDEX_H

#include "model/format/model.h"
#include "model/format/shards_ahead.h"

#define WEIR__INDEX_MAX 100000000u /* bytes of its text, inclusive */
#define WEIR__MAX_SHARDS 100000u

struct weir__index_entry { /* a tensor of the weight_map */
	struct weir__str name;
	uint32_t shard;
	bool found;
};

struct weir__index {
	struct weir_model *m; /* model whose memory it is, or NULL */
	uint64_t held;        /* bytes of it */
	const char *file;     /* name of the file, for sentences */
	char *text;           /* owned by the caller; names point into it */
	struct weir__index_entry *placed;
	size_t n_placed, cap_placed;
	struct weir__names names; /* names of placed */
	struct weir__str *shard;  /* sorted once weir__index_parse returns */
	size_t n_shards, cap_shards;
	struct weir__names shards; /* names of shard, until it is sorted */
	uint64_t total_size;
};

/*
 * Parse @text, the index of @m (NULL: its memory is not counted), which has
 * @len bytes and a NUL. It is written to, and must stay until weir__index_fini,
 * which is called whatever this returns. -EBADMSG.
 * -EOPNOTSUPP: too many shards.
 */
int weir__index_parse(struct weir__index *x, struct weir_model *m,
		      const char *file, char *text, size_t len, bool lenient);
void weir__index_fini(struct weir__index *x);

/*
 * Keep those of the records [first, m->n_recs), which are of shard @shard, that
 * the index places there, and count the others as unlisted.
 */
void weir__index_keep(struct weir__index *x, struct weir_model *m, size_t first,
		      uint32_t shard);
/* Fail with -EBADMSG if a tensor is placed in a shard that lacks it. */
int weir__index_complete(const struct weir__index *x);

/* Read the index @file, then open and read its shards into @m. Blocks. */
int weir__index_read(struct weir_model *m, struct weir_file *file,
		     bool lenient);
/*
 * Open the @n files @name in the folder of @by, which may be one of them, if
 * that is at a URL; else *@a is cleared. Blocks.
 */
void weir__shards_ahead(struct weir__opening *a, struct weir_model *m,
			struct weir_file *by, const struct weir__str *name,
			size_t n);
/*
 * Open the file @name, in the directory of @by, as shard @i of @n of
 * @m, or take it from @a. The sentences name @by, the file that requires it.
 * Blocks.
 */
int weir__shard_open(struct weir_model *m, const struct weir_file *by,
		     const struct weir__str *name, uint32_t i, size_t n,
		     struct weir__opening *a);

#endif
