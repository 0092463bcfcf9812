/* SPDX-License-Identifier: MIT */
/*
 * Weights from the inside: tensors, their buffers, and the arrival of the
 * load that fills them (the last one, if they were loaded several times).
 */
#ifndef WEIR__MODEL_WEIGHTS_H
#define WEIR__MODEL_WEIGHTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "model/arrival.h"
#include "model/model.h"
#include "model/plan.h"

struct weir_weights {
	_Atomic uint32_t refs;
	struct weir_model *model;
	struct weir__layout layout;
	struct weir_buf **buf;      /* layout.n_bufs, referenced */
	struct weir_tensor *tensor; /* layout.n */
	uint32_t *of_record;        /* record -> tensor + 1 */
	pthread_mutex_t lock;       /* guards arrival */
	struct weir__arrival *arrival;
};

/*
 * Take memory for the layout, which becomes the weights'. @model is
 * referenced.
 */
int weir__weights_new(struct weir_model *model, struct weir__layout *layout,
		      struct weir_weights **ret_weights);
/*
 * Can a load of @model with @layout fill @w again? -EINVAL: other tensors or
 * places. Names and entries stay those of the model that made them.
 */
int weir__weights_reuse(const struct weir_weights *w,
			const struct weir_model *model,
			const struct weir__layout *layout);
/* A new load fills them: -EBUSY while an earlier one does. */
int weir__weights_attach(struct weir_weights *w, struct weir__arrival *arrival);

#endif
