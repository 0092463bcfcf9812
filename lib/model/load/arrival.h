/* SPDX-License-Identifier: MIT */
/*
 * The arrival of tensors: the timeline of a load.
 *
 * Number i is tensor i of the weights, number n is the load as a whole. For
 * each tensor the bytes that have not arrived or failed are counted down; at 0
 * its number is completed:
 *
 *	remaining > 0			on its way
 *	remaining == 0, no cause	arrived
 *	remaining == 0, a cause		failed
 *
 * Several reactors count down at once, without a lock; the end of the load
 * completes number n. Tensors that have arrived or failed are also queued for
 * weir_load_next (completions.h). The arrival is referenced by the load, its
 * events and the weights.
 */
#ifndef WEIR__MODEL_ARRIVAL_H
#define WEIR__MODEL_ARRIVAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/timeline.h"
#include "model/load/completions.h"

struct weir__cause { /* lives as long as the arrival */
	struct weir_failure failure;
	struct weir__cause *next;
};

#define WEIR__NONE_FAILED UINT64_MAX

struct weir__arrival {
	struct weir__timeline timeline;
	size_t n;
	/*
	 * Bytes of each tensor whose copy is not submitted to the driver yet,
	 * and the backend of all copies. NULL: tensors do not all go to one
	 * backend of devices.
	 */
	_Atomic uint64_t *unsubmitted;
	const struct weir_backend_queue_ops *copies_by;
	_Atomic(struct weir__cause *) causes; /* all, to be freed */
	_Atomic uint64_t first_failed;        /* number, or WEIR__NONE_FAILED */
	_Atomic bool leaked;   /* the kernel may still write to the memory */
	_Atomic bool finished; /* number n is done or failed */
	/* All reactors write what follows, so it is apart. */
	struct weir__completions ended;
	_Atomic size_t failed; /* tensors; also counted in ended.n_ended */
	struct weir__item {
		_Atomic uint64_t remaining;
		/* the cause of its failure, or NULL */
		_Atomic(const struct weir_failure *) cause;
	} item[]; /* n + 1; the cause of item n is of no tensor */
};

/* Make an arrival. -ENOMEM, without a sentence. */
int weir__arrival_new(struct weir *weir, size_t n, struct weir__arrival **ret);
static inline void weir__arrival_put(struct weir__arrival *a)
{
	if (a)
		weir__timeline_put(&a->timeline);
}

/*
 * @bytes of tensor @i have arrived, or have failed if @cause is not NULL. The
 * last bytes complete the tensor's number, which wakes its waiters; so 0 bytes
 * complete a tensor of which nothing remains. Any thread.
 */
void weir__arrival_add(struct weir__arrival *a, size_t i, uint64_t bytes,
		       const struct weir_failure *cause);
/*
 * Tensor @i will have failed when its last bytes are counted, or has. The first
 * cause stays, and the first number that fails. Any thread.
 */
void weir__arrival_blame(struct weir__arrival *a, uint64_t i,
			 const struct weir_failure *cause);
/*
 * Count also the bytes whose copies are not submitted to the driver: all
 * tensors are copied by queues of @by. Called before the job starts. -ENOMEM,
 * without a sentence.
 */
int weir__arrival_expect_copies(struct weir__arrival *a,
				const struct weir_backend_queue_ops *by);
/* Copies of @bytes of tensor @i are submitted to the driver. Any thread. */
void weir__arrival_submitted(struct weir__arrival *a, size_t i, uint64_t bytes);
/*
 * Fail the load for a cause that belongs to no tensor. The first cause is kept.
 */
void weir__arrival_fail(struct weir__arrival *a,
			const struct weir_failure *cause);
/* Fail the load and all its tensors: nothing has been read. */
void weir__arrival_fail_all(struct weir__arrival *a,
			    const struct weir_failure *cause);
/* The load has ended: complete number n. */
void weir__arrival_finish(struct weir__arrival *a);

/* Keep a failure as long as the arrival lives. Never NULL. Any thread. */
const struct weir_failure *weir__arrival_note(struct weir__arrival *a, int err,
					      int32_t native, uint64_t number,
					      const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

extern const struct weir_failure weir__cause_cancelled;
extern const struct weir_failure weir__cause_closed;

/*
 * Return the errno of number @i if it has failed, and its failure as
 * *ret_failure; else 0. For n it is that of the first number that failed.
 */
int weir__arrival_error(struct weir__arrival *a, uint64_t i,
			struct weir_failure *ret_failure);

#endif
