/* SPDX-License-Identifier: MIT */
/* A queue. queue.c gives work to the driver, helper.c runs work on a thread. */
#ifndef WEIR__CUDA_QUEUE_H
#define WEIR__CUDA_QUEUE_H

#include "cuda/cuda.h"

struct weir__cuda_range;

/* The result of a COMPUTE work, read when the work ends. */
struct weir__cuda_computed {
	int res;                        /* -ECANCELED: it was stopped */
	struct weir__cuda_found *found; /* what kernels found, or NULL */
	struct weir__cuda_range *range; /* whose graph was launched, or NULL */
};

/*
 * Work that was given to the driver, which may have refused it. Flights end in
 * the order in which they were given.
 */
struct weir__cuda_flight {
	struct weir__cuda_flight *next;
	struct weir_backend_work *work;
	uint64_t number;         /* number of its work */
	CUevent event;           /* kept with the flight, and used again */
	bool submitted;          /* the driver has it, or a part of it */
	bool recorded;           /* event is recorded after it */
	CUresult err;            /* the driver's result for it, if no success */
	unsigned unknown_errors; /* those of the device when it was submitted */
	struct weir__cuda_call *call; /* queue.c: a host function, or NULL */
	struct weir__cuda_computed computed; /* COMPUTE */
};

struct weir__cuda_queue {
	struct weir__cuda *c;
	CUstream stream;
	bool owns_stream; /* not the caller's */
	bool native;      /* others have its handle, and it has no helper */
	char name[16];

	/*
	 * Guards tail_event and, with lock, the list of flights and what they
	 * have recorded; taken last.
	 */
	pthread_mutex_t tail_lock;
	CUevent tail_event; /* what other queues wait for */

	pthread_mutex_t lock; /* guards what follows */
	struct weir__cuda_flight *first, **last;
	struct weir__cuda_flight *spare;
	unsigned out; /* works not done; the helper's are not counted */
	/*
	 * Work for the helper, oldest first: some may block, the rest is later.
	 */
	struct weir_backend_work *todo, **todo_end;
	unsigned n_with_helper; /* on todo, or being done by the helper */
	pthread_cond_t more;
	bool started, closed;

	unsigned char *bounce; /* the helper's buffer; NULL: none */
	bool no_bounce;        /* the driver was asked once, and is not again */
	CUevent bounced[2];    /* recorded after the last copy of each half */
};

/*
 * Make a flight of @work, which was given to the driver already, perhaps in
 * part (@submitted), or which failed with @err. @unknown_errors: the device's
 * before that. @computed: of COMPUTE. q->lock is held. -ENOMEM: there is no
 * flight.
 */
int weir__cuda_track(struct weir__cuda_queue *q, struct weir_backend_work *work,
		     unsigned unknown_errors, bool submitted, CUresult err,
		     const struct weir__cuda_computed *computed);
/* A copy, fill or wait itself; a context is current. */
CUresult weir__cuda_issue(struct weir__cuda_queue *q,
			  struct weir_backend_work *work);

/*
 * copy.c. SET, GET or COPY; a context is current. Of a scatter copy that fails
 * some segments may have been queued.
 */
CUresult weir__cuda_copy(struct weir__cuda_queue *q,
			 const struct weir_backend_work *work);

/*
 * compute.c. Queue the launches of a COMPUTE work; a context is current. May
 * block, since a driver has room for some thousand launches. On failure some
 * may have been queued. *@ret is 0 before, or what is_short has made it.
 */
CUresult weir__cuda_compute(struct weir__cuda_queue *q,
			    struct weir_backend_work *work,
			    struct weir__cuda_computed *ret);
/*
 * True if that takes one call of the driver, which does not block. *@ret, 0
 * before, then has the graph that is to be launched, if it is one: pass it to
 * weir__cuda_compute(), or give it back by weir__cuda_computed(). Any thread.
 */
bool weir__cuda_compute_is_short(const struct weir_backend_work *work,
				 struct weir__cuda_computed *ret);
/*
 * The work has ended; @leaked: the device may still write to its memory.
 * Returns 0, -ECANCELED, or -EINVAL after writing what a kernel found.
 */
int weir__cuda_computed(struct weir__cuda *c, struct weir_backend_work *work,
			struct weir__cuda_computed *computed, bool leaked);

/* helper.c. True if the driver's call for @work would block. */
bool weir__cuda_blocks(struct weir__cuda *c,
		       const struct weir_backend_work *work);
/*
 * True if all its memory is host memory, so that no engine of the GPU is
 * needed.
 */
bool weir__cuda_on_host(const struct weir_backend_work *work);
void weir__cuda_run_on_host(const struct weir_backend_work *work);
/* Give @work to the helper, which the first work starts. q->lock is held. */
int weir__cuda_to_helper(struct weir__cuda_queue *q,
			 struct weir_backend_work *work);
/* Free the helper's events and bounce buffer. The helper is idle. */
void weir__cuda_helper_close(struct weir__cuda_queue *q);

#endif
