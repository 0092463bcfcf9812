/* SPDX-License-Identifier: MIT */
/*
 * Plans and layouts.
 *
 * A plan records which put has chosen each record of a model. A layout is
 * computed from it, before any memory is allocated: the number and sizes of the
 * buffers, the place of each tensor, and the runs: neighbouring tensors that
 * keep the file's layout in one buffer. Each load and each estimate computes
 * the layout again; the same plan always has the same one.
 *
 * A plan is not locked: one thread at a time changes it.
 */
#ifndef WEIR__MODEL_PLAN_H
#define WEIR__MODEL_PLAN_H

#include <stdint.h>

#include <weir/plan.h>

#include "mem/buf.h"
#include "model/model.h"

struct weir__put {
	struct weir_buft *buft;
	uint64_t align;
	struct weir_buf *buf; /* given by the caller, referenced; or NULL */
	uint64_t offset;
	enum weir_way way;
	uint64_t tensors;
};

struct weir_plan {
	struct weir_model *model;
	struct weir__put *put;
	unsigned n_puts;
	size_t max_puts;
	size_t n;          /* tensors chosen */
	size_t first;      /* no record before it is chosen */
	uint32_t choice[]; /* for each record: number of its put + 1, or 0 */
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
	struct weir_buf *given; /* by the caller; or NULL; referenced by put */
	uint64_t bytes;         /* to the end of the last tensor */
	/*
	 * Tensors are placed as if new memory began at a multiple of align. If
	 * its kind guarantees less, weir__layout_bytes adds the difference, and
	 * the first lead bytes of the memory stay unused.
	 */
	uint64_t align, lead;
	uint32_t map_shard; /* of kind MAPPED: the file ... */
	uint64_t map_off;   /* ... and the offset where the mapping begins */
	size_t first, n;    /* its tensors: layout->order[first...] */
};

struct weir__spot { /* the place of a tensor */
	size_t record;
	uint32_t buf;
	uint64_t at;
};

struct weir__layout {
	struct weir__spot *spot; /* n, by record */
	size_t n;
	size_t *order; /* numbers of spots, by buffer and place; after spot[] */
	size_t n_order;
	struct weir__run *run;
	size_t n_runs, max_runs;
	struct weir__layout_buf *buf;
	size_t n_bufs, max_bufs;
};

/*
 * -EINVAL: tensors would overlap. -ENOSPC: they do not fit the caller's buffer.
 * -ENOMEM. Never blocks.
 */
int weir__layout_make(const struct weir_plan *plan, struct weir__layout *l);
/*
 * -EINVAL: two tensors, of any puts and buffers, would share a byte, or a
 * tensor would end after its buffer. weir__layout_make checks every layout with
 * it.
 */
int weir__layout_check(const struct weir_model *model,
		       const struct weir__layout *l);
/* The buffers have their lead: move the tensors of each by it. Once. */
void weir__layout_lead(struct weir__layout *l);
void weir__layout_free(struct weir__layout *l);
/* Bytes to allocate for a new buffer. */
static inline uint64_t weir__layout_bytes(const struct weir__layout_buf *b)
{
	uint64_t has = b->buft->desc.align;

	return b->bytes && b->align > has ? b->bytes + b->align - has
					  : b->bytes;
}

/* Can a load with @a fill the memory of @b? -EINVAL: they differ. */
int weir__layout_same(const struct weir__layout *a,
		      const struct weir__layout *b);

#endif
