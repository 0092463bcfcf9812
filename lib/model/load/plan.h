/* SPDX-License-Identifier: MIT */
/*
 * Plans and layouts.
 *
 * A plan records which put has chosen each record of a model, and the targets:
 * tensors whose exact place the caller has chosen. A layout is computed from
 * it, before any memory is allocated: the number and sizes of the buffers, the
 * place of each tensor, and the runs: neighbouring tensors that have the
 * distances of the file in one buffer. The same plan always has the same one, so
 * a layout of the caller's memory alone is kept until the plan changes. Other
 * layouts get the addresses of one load's new memory, and are made again.
 *
 * A plan is not locked: one thread at a time changes it, and none uses it then.
 *
 * A plan has an entry for each record of its model, and a program may make one
 * for each of 100,000 tensors. So a model keeps one freed plan, whose entries are
 * all 0, and the next plan of the model is that one.
 */
#ifndef WEIR__MODEL_PLAN_H
#define WEIR__MODEL_PLAN_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/plan.h>

#include "core/array.h"
#include "mem/buf.h"
#include "model/load/cut.h"
#include "model/format/model.h"

struct weir__put {
	struct weir_buft *buft; /* NULL: a sink */
	uint64_t align;
	struct weir_buf *buf; /* given by the caller, referenced; or NULL */
	uint64_t offset;
	enum weir_way way;
	uint32_t dtype; /* converted to this; WEIR_DTYPE_NONE: unchanged */
	bool sliced;    /* by slice */
	int32_t priority;
	struct weir_slice slice;
	uint64_t capacity;  /* most bytes of new memory; 0: no limit */
	uint32_t buf_flags; /* of new memory: WEIR_BUF_* */
	uint64_t tensors;
	struct weir_sink sink; /* its chunk is not NULL: there is no memory */
};

#define WEIR__CHOSEN_AS_TARGET UINT32_MAX

struct weir__spot { /* the place of a tensor, or of a slice of it */
	size_t record;
	uint32_t buf;   /* WEIR__NO_BUF: of a sink, whose number is in at */
	uint32_t cut;   /* as that of a run */
	uint64_t at;    /* in the buffer */
	uint64_t off;   /* of its first byte, in the file */
	uint64_t bytes; /* in memory, from its first to its last byte */
	uint64_t take;  /* of its data in the file, without gaps */
};

/* A tensor, or a slice of it, and its exact place. */
struct weir__target {
	struct weir__spot
		spot; /* in buf; its members buf and cut are not set */
	uint32_t shard;
	enum weir_way way;
	int32_t priority;
	struct weir_buf *buf; /* not a joined one: its member; referenced */
	/* Of buf; it is not read again for each target of a load. */
	struct weir_buft *buft;
	unsigned char *base;
	bool foreign;
	uint64_t room; /* its size */
	struct weir__cut cut;
};

/*
 * The targets of a plan, in the order of the calls. They are shared with the
 * weights of its loads, and then constant: to add more the plan makes a copy.
 */
struct weir__targets {
	_Atomic uint32_t refs;
	size_t n, max;
	struct weir__target *item;
	struct weir_tensor *tensor; /* n: in item->buf, named as in the model */
};

struct weir_plan {
	struct weir_model *model; /* referenced; NULL: a spare plan */
	uint64_t align; /* of later puts without one; 0: by dtype and memory */
	struct weir__put *put;
	unsigned n_puts;
	size_t max_puts;
	struct weir__targets *targets;         /* NULL: none yet */
	_Atomic(struct weir__layout *) layout; /* kept, referenced; or NULL */
	size_t n;                              /* tensors chosen by puts */
	size_t first;      /* no record before it is chosen by a put */
	uint32_t choice[]; /* for each record: the number of its put + 1, or
			      WEIR__CHOSEN_AS_TARGET, or 0 */
};

/*
 * Neighbouring tensors that have the distances of the file. A tensor that has
 * several rows or is converted has a run of its own.
 */
struct weir__run {
	uint32_t shard;
	uint32_t buf;      /* index in layout->buf */
	uint64_t off, len; /* in the file */
	uint64_t at;       /* in the buffer */
	size_t first, n;   /* its tensors: layout->order[first...] */
	enum weir_way way;
	int32_t priority;
	uint32_t spot; /* of its first tensor */
	uint32_t cut;  /* number + 1 of its cut in layout->cut; 0: plain */
};

struct weir__layout_buf {
	struct weir_buft *buft;
	struct weir_buf *given; /* by the caller; or NULL; referenced by put */
	unsigned char *base; /* its address; of a new buffer once it exists */
	uint64_t room;       /* bytes of given */
	uint64_t bytes;      /* to the end of the last tensor */
	uint32_t flags;      /* of new memory: WEIR_BUF_* */
	/*
	 * Tensors are placed as if new memory began at a multiple of align. If
	 * its kind guarantees less, weir__layout_bytes adds the difference, and
	 * the first lead bytes of the memory stay unused.
	 */
	uint64_t align, lead;
	uint32_t map_shard; /* of kind MAPPED: the file ... */
	uint64_t map_off;   /* ... and the offset where the mapping begins */
	size_t first, n;    /* its tensors: layout->order[first...] */
	bool foreign; /* the program's memory, not allocated by the library */
};

#define WEIR__NO_BUF UINT32_MAX

/* The tensors of a put that is a sink, which have no places. */
struct weir__layout_sink {
	struct weir_sink call;
	struct weir__run *run; /* in the order of the files; without buf, at */
	size_t n_runs, max_runs;
};

struct weir__layout_spots {
	struct weir__spot spot;
	size_t order;
};

struct weir__layout {
	_Atomic uint32_t refs;
	struct weir__spot *spot; /* n: of puts, by record; then of targets */
	size_t n;
	size_t *order; /* numbers of spots, by buffer and place; after spot[] */
	size_t n_order;
	struct weir__run *run; /* in the order of reading */
	size_t n_runs, max_runs;
	struct weir__layout_buf *buf;
	size_t n_bufs, max_bufs;
	size_t n_put_bufs; /* those of targets follow, by address */
	/*
	 * Rows may be interleaved: the most bytes, from its first to its last, of
	 * a tensor that ends after the next one begins. 0: there is none.
	 */
	uint64_t interleaved;
	struct weir__cut *cut; /* those that are not plain */
	size_t n_cuts, max_cuts;
	struct weir__layout_sink *sink;
	size_t n_sinks, max_sinks;
	_Atomic bool
		kept; /* by a plan: then it keeps spare, of an ended load */
	_Atomic(struct weir__load_arrays *) spare;
	/* Of the arrays above; order is after spot. */
	WEIR__ARRAY_ROOM(struct weir__layout_spots, 1) room_spots;
	WEIR__ARRAY_ROOM(struct weir__run, 1) room_run;
	WEIR__ARRAY_ROOM(struct weir__layout_buf, 1) room_buf;
};

static inline size_t weir__plan_n_targets(const struct weir_plan *plan)
{
	return plan->targets ? plan->targets->n : 0;
}
/* target.c. NULL is allowed. Any thread. */
struct weir__targets *weir__targets_ref(struct weir__targets *targets);
void weir__targets_put(struct weir__targets *targets);

/* Free the memory of a plan that a model has kept. NULL is allowed. */
void weir__plan_destroy(struct weir_plan *spare);

/* -EINVAL, with a sentence: not an enum weir_way. */
int weir__plan_check_way(uint32_t way);
/* The alignment of a tensor of @dtype in memory. */
uint64_t weir__put_align(const struct weir__put *put, enum weir_dtype dtype);
/* Its tensors are neither sliced nor converted. */
static inline bool weir__put_is_whole(const struct weir__put *put)
{
	return !put->sliced && put->dtype == WEIR_DTYPE_NONE;
}
/* The cut of a record that @put chooses, and its dtype in memory. -EINVAL. */
int weir__put_cut(const struct weir_model *m, const struct weir__put *put,
		  size_t record, struct weir__cut *ret_cut,
		  enum weir_dtype *ret_dtype);
/*
 * The tensor of spot @i of a layout of @plan, which is of a put, placed in @buf
 * (NULL: a sink's).
 */
int weir__plan_tensor(const struct weir_plan *plan,
		      const struct weir__layout *l, size_t i,
		      struct weir_buf *buf, struct weir_tensor *ret_tensor);

/*
 * -EINVAL: tensors would overlap. -ENOSPC: they do not fit the caller's buffer.
 * -ENOMEM. Never blocks.
 */
int weir__layout_get(struct weir_plan *plan, struct weir__layout **ret_layout);
/* arrays.c. NULL is allowed. */
void weir__load_arrays_free(struct weir__load_arrays *arrays);
/* Drop a reference. NULL is allowed. */
void weir__layout_put(struct weir__layout *l);
/* The plan changes: its layout will be another one. */
void weir__plan_changed(struct weir_plan *plan);
/*
 * overlap.c: -EINVAL: two tensors, of any puts, targets and buffers, would
 * share a byte, or a tensor would end after its buffer. weir__layout_get
 * checks every layout with it. Sets interleaved.
 */
int weir__layout_check(const struct weir_model *model, struct weir__layout *l);
/* runs.c: put the runs into the order of reading. -ENOMEM. */
int weir__layout_sort_runs(const struct weir_model *model,
			   struct weir__layout *l);
/* The spot of @cut of a record, without a place. */
struct weir__spot weir__spot_of(const struct weir_model *model, size_t record,
				const struct weir__cut *cut);
/* Keep @cut, unless it is plain: *ret_number is for a run and a spot. -ENOMEM. */
int weir__layout_keep_cut(struct weir__layout *l, const struct weir__cut *cut,
			  uint32_t *ret_number);
/* The cut of a run or a spot; NULL: it is plain. */
static inline const struct weir__cut *
weir__layout_cut(const struct weir__layout *l, uint32_t number)
{
	return number ? &l->cut[number - 1] : NULL;
}
/* The buffers have their lead: move the tensors of each by it. Once. */
void weir__layout_lead(struct weir__layout *l);
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
