/* SPDX-License-Identifier: MIT */
/*
 * The arrival of tensors: the source of a load's events.
 *
 * Number i is tensor i of the weights, number n is the load as a whole. Each
 * tensor counts the bytes that are still out; it has arrived, or failed with
 * its cause, when none is. The load, its events and the weights hold
 * references; it outlives them all.
 *
 *	bytes left > 0			on its way
 *	bytes left == 0, no cause	arrived
 *	bytes left == 0, a cause	failed
 *
 * Reactors move tensors, on several threads at once; the end of the load
 * moves number n.
 */
#ifndef WEIR__MODEL_ARRIVAL_H
#define WEIR__MODEL_ARRIVAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/source.h"

struct weir__cause { /* kept until the arrival goes */
	struct weir_failure failure;
	struct weir__cause *next;
};

struct weir__arrival {
	struct weir__source source;
	size_t n;
	_Atomic uint64_t *remaining;
	/* For each number; n: of a failure of the load beside its tensors. */
	_Atomic(const struct weir_failure *) *cause;
	/*
	 * Bytes whose copy is not with the driver yet, and the backend that
	 * they all go to. NULL: they do not go to one device backend.
	 */
	_Atomic uint64_t *not_in_driver;
	const struct weir__queue_ops *copies_by;
	_Atomic(struct weir__cause *) causes; /* all, to be freed */
	_Atomic uint64_t first; /* to fail: its number + 1; 0: none has */
	_Atomic bool leaked;    /* the kernel may still write to the memory */
	_Atomic bool finished;  /* number n */
	/* Written by all reactors, far from what they only read. */
	_Alignas(64) _Atomic uint64_t arrived;
	_Atomic uint64_t failed;
};

/* -ENOMEM, without a sentence. */
int weir__arrival_new(struct weir *weir, size_t n, struct weir__arrival **ret);
static inline void weir__arrival_put(struct weir__arrival *a)
{
	if (a)
		weir__source_put(&a->source);
}

/*
 * @bytes of tensor @i have come, or have failed for @cause (not NULL). Wakes
 * who waits for the tensor if they were the last.
 */
void weir__arrival_add(struct weir__arrival *a, size_t i, uint64_t bytes,
		       const struct weir_failure *cause);
/*
 * The copies of all tensors go to @by, which will be told. -ENOMEM, without a
 * sentence.
 */
int weir__arrival_expect_copies(struct weir__arrival *a,
				const struct weir__queue_ops *by);
/* The copies of @bytes of tensor @i are with the driver. */
void weir__arrival_in_driver(struct weir__arrival *a, size_t i, uint64_t bytes);
/* The load fails as a whole, its tensors apart. The first cause stays. */
void weir__arrival_fail(struct weir__arrival *a,
			const struct weir_failure *cause);
/* Nothing is out any more. */
void weir__arrival_finish(struct weir__arrival *a);

/* Note a failure down; it lives as long as the arrival. Never NULL. */
const struct weir_failure *weir__arrival_note(struct weir__arrival *a, int err,
					      int32_t native, uint64_t number,
					      const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

extern const struct weir_failure weir__cause_cancelled;
extern const struct weir_failure weir__cause_closed;

/*
 * How tensor @i, or for n the first to fail so far, failed: its errno, and
 * *ret_failure with its number; 0: it has not.
 */
int weir__arrival_error(struct weir__arrival *a, uint64_t i,
			struct weir_failure *ret_failure);

#endif
