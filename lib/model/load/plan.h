/* SPDX-License-Identifier: MIT */
/*
 * A plan: which tensors of a model are loaded, and into which memory. A plan
 * has selections and targets. A selection is a call that chooses tensors by
 * name, and the library places them. A target is a tensor, or a slice of it,
 * whose exact place the program has chosen.
 *
 * A plan has no lock: while a thread changes it, no other thread may use it.
 *
 * A plan has an entry for each record of its model, and a program may make a
 * plan for each of 100,000 tensors. So a model keeps one freed plan, whose
 * entries are all 0, and the next plan of the model is that one.
 */
#ifndef WEIR__MODEL_PLAN_H
#define WEIR__MODEL_PLAN_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/plan.h>

#include "mem/buf.h"
#include "model/format/model.h"
#include "model/load/slice.h"

struct weir__expected;
struct weir__layout;

struct weir__selection {
	struct weir_buft *buft; /* type of the buffer; NULL: a sink */
	uint64_t align;         /* alignment of each tensor; 0: by dtype and
				   memory */
	struct weir_buf *buf;   /* a buffer of the program, referenced, or
				   NULL */
	uint64_t offset;
	enum weir_way way;
	uint32_t dtype; /* converted to this; WEIR_DTYPE_NONE: unchanged */
	bool sliced;    /* each tensor is sliced by slice */
	int32_t priority;
	struct weir_slice slice;
	uint64_t capacity;     /* most bytes of new memory; 0: no limit */
	uint32_t buf_flags;    /* WEIR_BUF_* of new memory */
	uint64_t tensors;      /* how many it has chosen */
	struct weir_sink sink; /* if buft is NULL: there is no memory */
};

/* A tensor, or a slice of it, and its exact place. */
struct weir__target {
	size_t record;
	uint32_t shard;
	enum weir_way way;
	int32_t priority;
	uint64_t off;         /* offset of its first byte in the file */
	uint64_t at;          /* offset in buf */
	struct weir_buf *buf; /* referenced; not joined: a member */
	/* Members of buf, which is not read again for each target of a load. */
	struct weir_buft *buft;
	unsigned char *base;
	bool foreign;
	uint64_t room; /* bytes of buf */
	struct weir__slice slice;
};

/*
 * The targets of a plan, in the order of the calls. They are shared with the
 * weights of its loads, and then constant: to add more the plan makes a copy.
 */
struct weir__targets {
	_Atomic uint32_t refs;
	size_t n, max;
	struct weir__target *item;
	struct weir_tensor *tensor; /* n tensors in item->buf, named as in the
				       model */
};

/*
 * What has chosen a record: this flag and the number of a selection, a target
 * alone, or nothing (0).
 */
#define WEIR__CHOSEN (1u << 31)
#define WEIR__CHOSEN_AS_TARGET 1u

struct weir_plan {
	struct weir__model_spare spare; /* while the model keeps the plan */
	struct weir_model *model;       /* referenced; NULL: a spare plan */
	uint64_t align; /* alignment of later selections that do not set it, or
			   0 */
	struct weir__selection *selection;
	unsigned n_selections;
	size_t max_selections;
	struct weir__targets *targets; /* the targets, or NULL if there are none
					  yet */
	struct weir__expected *expected; /* verify.h; referenced, or NULL */
	/* The layout of an earlier load of the plan, referenced, or NULL. */
	_Atomic(struct weir__layout *) layout;
	size_t n;          /* tensors that selections have chosen */
	size_t first;      /* no selection has chosen a record before it */
	uint32_t choice[]; /* what has chosen each record */
};

static inline size_t weir__plan_n_targets(const struct weir_plan *plan)
{
	return plan->targets ? plan->targets->n : 0;
}

/* True if a selection has chosen the record. */
static inline bool weir__plan_selects(const struct weir_plan *plan,
				      size_t record)
{
	return plan->choice[record] & WEIR__CHOSEN;
}

/* Return the number of the selection that has chosen the record. */
static inline uint32_t weir__plan_choice(const struct weir_plan *plan,
					 size_t record)
{
	return plan->choice[record] & ~WEIR__CHOSEN;
}

/* target.c. NULL is allowed. Any thread. */
struct weir__targets *weir__targets_ref(struct weir__targets *targets);
void weir__targets_put(struct weir__targets *targets);

/* Fail with -EINVAL, and a sentence, if @way is not an enum weir_way. */
int weir__plan_check_way(uint32_t way);
/*
 * Fail with -EINVAL, and a sentence, if @align is not 0 or a power of two up to
 * 4096.
 */
int weir__plan_check_align(uint64_t align);

/* Return the alignment in memory of a tensor of @dtype that @sel has chosen. */
uint64_t weir__selection_align(const struct weir__selection *sel,
			       enum weir_dtype dtype);
/*
 * Get the slice of a record that @sel has chosen, and its dtype in memory.
 * -EINVAL.
 */
int weir__selection_slice(const struct weir_model *model,
			  const struct weir__selection *sel, size_t record,
			  struct weir__slice *ret_slice,
			  enum weir_dtype *ret_dtype);
/* Make the tensor of such a record, not placed in a buffer. -EINVAL. */
int weir__selection_tensor(const struct weir_model *model,
			   const struct weir__selection *sel, size_t record,
			   struct weir_tensor *ret_tensor);

#endif
