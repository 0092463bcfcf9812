/* SPDX-License-Identifier: MIT */
/*
 * Page-locked places to which the status of a run is copied: an index that a
 * kernel found out of range. A device keeps them for later runs, since freeing
 * page-locked memory waits for all work of the context.
 */
#ifndef WEIR__CUDA_FOUND_H
#define WEIR__CUDA_FOUND_H

#include "cuda/driver.h"
#include "cuda/kernels/params.h"

struct weir__cuda;

struct weir__cuda_found {
	struct weir__cuda_status status; /* first: the device writes it */
	struct weir__cuda_found *next;   /* of those that nothing uses */
};

/*
 * Allocate places unless some are unused, so that a run need not. A context is
 * current. Any thread; may block.
 */
CUresult weir__cuda_found_reserve(struct weir__cuda *c);
/* Take a place, all 0. A context is current. Any thread; may block. */
CUresult weir__cuda_found_get(struct weir__cuda *c,
			      struct weir__cuda_found **ret);
/*
 * Give it back: the device does not write to it any more. NULL is allowed. Any
 * thread; does not block.
 */
void weir__cuda_found_put(struct weir__cuda *c, struct weir__cuda_found *f);
/* Free all, while the device is not lost; a context is current. */
void weir__cuda_found_free(struct weir__cuda *c);

#endif
