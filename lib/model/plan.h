/* SPDX-License-Identifier: MIT */
/*
 * Plans and layouts from the inside.
 *
 * A plan remembers which put has chosen each record of a model. A layout is
 * what follows from it without touching memory: how many buffers of which
 * size, where each tensor lies, and the runs: bytes that lie side by side in
 * one file and in one buffer. Layouts are made anew for each load and each
 * estimate; the same plan gives the same layout.
 */
#ifndef WEIR__MODEL_PLAN_H
#define WEIR__MODEL_PLAN_H

#include <stdint.h>

#include "mem/buf.h"
#include "model/model.h"

struct weir__put {
	struct weir_buft *buft;
	uint64_t align;
	struct weir_buf *buf; /* given, referenced; or NULL */
	uint64_t offset;
	enum weir_way way;
	uint64_t tensors;
};

struct weir_plan {
	struct weir_model *model;
	uint32_t *choice; /* for each record: number of its put + 1, or 0 */
	struct weir__put *put;
	unsigned n_puts;
	size_t max_puts;
	size_t n; /* tensors chosen */
};

struct weir__run {
	uint32_t shard;
	uint32_t buf;      /* index in layout->buf */
	uint64_t off, len; /* in the file */
	uint64_t at;       /* in the buffer */
	size_t first, n;   /* its tensors: layout->order[first...] */
	enum weir_way way;
};

struct weir__layout_buf {
	struct weir_buft *buft;
	struct weir_buf *given; /* the plan's, then the weights'; or NULL */
	uint64_t bytes;         /* to the end of the last tensor */
	/*
	 * New memory: its first tensors are placed as if it began at a multiple
	 * of align. More than the kind promises is allocated with that many
	 * bytes more, of which the first lead are left out.
	 */
	uint64_t align, lead;
	uint32_t map_shard; /* of kind MAPPED: the file ... */
	uint64_t map_off;   /* ... and where the mapping begins */
	size_t first, n;    /* its tensors: layout->order[first...] */
};

struct weir__spot { /* where a tensor is */
	size_t record;
	uint32_t buf;
	uint64_t at;
};

struct weir__layout {
	struct weir__spot *spot; /* n, by record */
	size_t n;
	size_t *order; /* spots by buffer and place */
	size_t n_order;
	struct weir__run *run;
	size_t n_runs, max_runs;
	struct weir__layout_buf *buf;
	size_t n_bufs, max_bufs;
};

/*
 * -EINVAL: tensors would lie over each other; -ENOSPC: they do not fit a buffer
 * that was given. Never blocks.
 */
int weir__layout_make(const struct weir_plan *plan, struct weir__layout *l);
/*
 * -EINVAL: two tensors, of whatever puts and buffers, would share a byte, or
 * one would reach out of its buffer. No load begins before this has been asked.
 */
int weir__layout_check(const struct weir_model *model,
		       const struct weir__layout *l);
/* Memory has been taken: move what is in buffer i by lead[i] bytes. Once. */
void weir__layout_lead(struct weir__layout *l, const uint64_t *lead);
void weir__layout_free(struct weir__layout *l);
/* Bytes to be allocated for a new buffer. */
static inline uint64_t weir__layout_bytes(const struct weir__layout_buf *b)
{
	uint64_t has = b->buft->desc.align;

	return b->bytes && b->align > has ? b->bytes + b->align - has
					  : b->bytes;
}

/* Can @a fill the memory of @b? -EINVAL: tensors or places differ. */
int weir__layout_same(const struct weir__layout *a,
		      const struct weir__layout *b);

#endif
