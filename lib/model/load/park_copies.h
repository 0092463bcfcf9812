/* SPDX-License-Identifier: MIT */
/*
 * Copies of parked weights: bytes that cannot be read again are kept in memory
 * or in a file, and streams bring them back.
 */
#ifndef WEIR__MODEL_PARK_COPIES_H
#define WEIR__MODEL_PARK_COPIES_H

#include <weir/park.h>

#include "model/load/weights.h"

/* Bytes of a buffer of the weights, and their place in the copies. */
struct weir__kept_range {
	struct weir_buf *buf;
	uint64_t at, bytes, copy_at;
	size_t stream;
	bool read_again; /* its bytes are read before they are brought back */
};

struct weir__parked {
	_Atomic uint32_t refs; /* of the weights, and of ways back */
	struct weir *weir;
	struct weir_buf *copy;  /* the copies, or NULL */
	struct weir_file *file; /* the file of the copies, or NULL */
	uint64_t room;          /* bytes of either */
	struct weir__kept_range *range;
	size_t n_ranges, max_ranges;
	bool *keep;  /* for each placement: it is not to be read again */
	bool *mixed; /* for each placement: it is read with its span */
	uint64_t released, copied, again;
	struct weir_stream **stream; /* of each device with copies */
	size_t n_streams, max_streams;
	struct weir_event *event; /* the end of the way back */
	_Atomic bool returning;   /* event is recorded */
	_Atomic bool stuck; /* memory without its bytes cannot be released */
};

/*
 * Decide which bytes of @w must be copied, and make the memory or the file for
 * them. Nothing is copied yet. -EINVAL: there is no page-locked memory.
 * -ENOMEM, -ENOSPC, and errors of open(2).
 */
int weir__parked_new(struct weir_weights *w, const struct weir_park_opts *o,
		     struct weir__parked **ret_parked);
/* Copy the bytes, and wait until that is done. */
int weir__parked_copy_out(struct weir__parked *p);
/*
 * Queue all that fills the memory of @w, which is allocated, and record the end
 * in p->event. After a failure some of it may be queued.
 */
int weir__parked_fill(struct weir__parked *p, struct weir_weights *w);
/* Wait until no copy is running any more. Returns the first failure. */
int weir__parked_sync(struct weir__parked *p);
/* Free the copies, whose bytes are back. Any thread; does not block. */
void weir__parked_drop_copies(struct weir__parked *p);
int weir__parked_no_memory(const struct weir_weights *w);

#endif
