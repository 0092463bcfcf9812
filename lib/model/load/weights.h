/* SPDX-License-Identifier: MIT */
/*
 * Weights: tensors, their buffers, and the arrival of the last load that fills
 * them. All that the lock does not guard is constant once weir_load_start
 * returns.
 */
#ifndef WEIR__MODEL_WEIGHTS_H
#define WEIR__MODEL_WEIGHTS_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/load.h>

#include "model/load/arrival.h"
#include "model/format/model.h"
#include "model/load/layout.h"

struct weir_weights {
	_Atomic uint32_t refs;
	struct weir_model *model;
	struct weir__layout *layout; /* referenced; of one load, or constant */
	size_t n_selected; /* tensors of selections; those of targets follow */
	struct weir_buf **buf; /* layout->n_bufs; after tensor[] */
	/* The plan's, with tensors. They reference their buffers. */
	struct weir__targets *targets;
	pthread_mutex_t lock; /* guards arrival, by_record and parking */
	struct weir__arrival *arrival;
	size_t *by_record; /* the targets, sorted; NULL until it is needed */
	/*
	 * park.c: what was kept of parked weights, or NULL; changed by the
	 * thread that has set parking.
	 */
	struct weir__parked *parked;
	bool parking; /* a thread parks or unparks them, or starts a load */
	bool targets_park; /* WEIR_PARK_TARGETS; changed like parked */
	struct weir_tensor tensor[]; /* n_selected */
};

static inline const struct weir_tensor *
weir__weights_tensor(const struct weir_weights *w, size_t i)
{
	return i < w->n_selected ? &w->tensor[i]
				 : &w->targets->tensor[i - w->n_selected];
}

/*
 * True if buffer @i is released when the weights are parked. Several buffers of
 * the layout may be parts of one that has targets: weir__weights_first().
 */
static inline bool weir__weights_park_buf(const struct weir_weights *w,
					  size_t i)
{
	const struct weir__layout_buf *b = &w->layout->buf[i];

	if (b->given &&
	    (!w->targets_park || i < w->layout->n_selected_bufs || b->foreign))
		return false;
	return b->buft->desc.kind != WEIR_MEM_MAPPED && w->buf[i]->bytes;
}

/* True if no buffer of the layout before @i is a part of the same one. */
static inline bool weir__weights_first(const struct weir_weights *w, size_t i)
{
	return !i || w->buf[i] != w->buf[i - 1];
}

/* The number of the tensor of that name, or WEIR__NONE. Any thread. */
size_t weir__weights_lookup(struct weir_weights *w, const char *name);

/*
 * Allocate the buffers of @layout, which is of @plan, and place the tensors.
 * The caller's reference to @layout is the weights' from now on, or dropped on
 * failure. The model is referenced, the plan is not. Blocks.
 */
int weir__weights_new(const struct weir_plan *plan, struct weir__layout *layout,
		      struct weir_weights **ret_weights);
/*
 * 0: a load of @model with @layout can fill @w again. -EINVAL: tensors or
 * places differ. -ESTALE: a mapped file was replaced. The weights keep the
 * names and entries of the model that made them.
 */
int weir__weights_reuse(const struct weir_weights *w,
			const struct weir_model *model,
			const struct weir__layout *layout);
/* park.c: drop what was kept of parked weights. NULL is allowed. */
void weir__parked_put(struct weir__parked *parked);
/*
 * park.c: allocate the memory of @w again, if they are parked, for a load into
 * it. The caller gets what was kept of them (NULL: they were not parked), and
 * returns it to let them be parked as before, or is done with it when the load
 * has started. Until then other threads that park or unpark them get -EBUSY.
 * -EBUSY: they are coming back, or another thread parks or unparks them, or
 * starts a load into them. -ENOMEM: they are still parked.
 */
int weir__parked_take(struct weir_weights *w, struct weir__parked **ret_parked);
void weir__parked_return(struct weir_weights *w, struct weir__parked *parked);
void weir__parked_done(struct weir_weights *w, struct weir__parked *parked);
/*
 * Make @arrival that of the weights. -EBUSY: an earlier load has not ended.
 * -EIO: it leaked the memory. Any thread.
 */
int weir__weights_attach(struct weir_weights *w, struct weir__arrival *arrival);

#endif
