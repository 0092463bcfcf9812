/* SPDX-License-Identifier: MIT */
/*
 * An index of shards: {"metadata": {"total_size": N}, "weight_map": {tensor:
 * file}}. It decides what the model is: which files are opened, in the order
 * of their names, and which of their tensors belong to it.
 */
#ifndef WEIR__INDEX_H
#define WEIR__INDEX_H

#include "model/model.h"

#define WEIR__INDEX_MAX 100000000u /* bytes of its text, inclusive */
#define WEIR__MAX_SHARDS 100000u

struct weir__placed { /* a tensor of the weight_map */
	struct weir__str name;
	uint32_t shard;
	bool found;
};

struct weir__index {
	const char *file; /* for sentences */
	char *text;       /* names below point into it; not owned */
	struct weir__placed *placed;
	size_t n_placed, cap_placed;
	struct weir__names names; /* of placed */
	struct weir__str *shard;  /* sorted, after weir__index_parse */
	size_t n_shards, cap_shards;
	struct weir__names shards; /* of shard, while it is parsed */
	uint64_t total_size;
};

/*
 * Parse @text, which has @len bytes and a NUL, is written to and has to stay
 * until weir__index_fini. -EBADMSG. -EOPNOTSUPP: too many shards.
 */
int weir__index_parse(struct weir__index *x, const char *file, char *text,
		      size_t len, bool lenient);
void weir__index_fini(struct weir__index *x);

/*
 * Of the records [first, m->n_recs), which are those of shard @shard, keep
 * what the index places there; count the others as unlisted.
 */
void weir__index_keep(struct weir__index *x, struct weir_model *m, size_t first,
		      uint32_t shard);
/* -EBADMSG: a tensor is placed in a shard that does not have it. */
int weir__index_complete(const struct weir__index *x);

/* Read the index @file and open all its shards into @m. */
int weir__index_read(struct weir_model *m, struct weir_file *file,
		     bool lenient);

#endif
