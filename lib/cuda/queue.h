/* SPDX-License-Identifier: MIT */
/* A queue from the inside: queue.c is its driver half, helper.c the other. */
#ifndef WEIR__CUDA_QUEUE_H
#define WEIR__CUDA_QUEUE_H

#include "cuda/cuda.h"

/* Work that the driver has, or that it refused; done in the order given. */
struct weir__cuda_flight {
	struct weir__cuda_flight *next;
	struct weir__work *work;
	CUevent event;   /* kept for use again */
	bool queued;     /* the driver has it */
	bool recorded;   /* so event tells of its end */
	CUresult err;    /* what the driver said of it, if not success */
	unsigned doubts; /* of the device's, when it was queued */
	struct weir__cuda_call *call; /* call.c: a host function */
};

struct weir__cuda_queue {
	struct weir__cuda *c;
	CUstream stream;
	bool ours;   /* we made the stream */
	bool native; /* its handle is known outside: nothing is held here */
	char name[16];

	pthread_mutex_t mark_lock; /* guards mark; taken last */
	CUevent mark;              /* what other queues wait for */

	pthread_mutex_t lock; /* guards what follows */
	struct weir__cuda_flight *first, **last;
	struct weir__cuda_flight *spare;
	unsigned out; /* works not done, but for the helper's functions */
	/* With the helper, oldest first: what may block, and what is behind. */
	struct weir__work *todo, **todo_end;
	unsigned helping; /* on todo, or in the helper's hands */
	pthread_cond_t more;
	bool started, closed;

	unsigned char *bounce; /* the helper's; NULL: none, or refused */
	bool no_bounce;
	CUevent bounced[2]; /* its halves are free again */
};

/*
 * Give @work to the driver, as the newest. q->lock is held. -ENOMEM: not
 * taken. What the driver refuses is taken, and done with what it said.
 */
int weir__cuda_to_driver(struct weir__cuda_queue *q, struct weir__work *work);
/*
 * The same for work of which the driver has been given all that it will be
 * (@queued: something, perhaps), or that failed with @err. @doubts: the
 * device's before that.
 */
int weir__cuda_track(struct weir__cuda_queue *q, struct weir__work *work,
		     unsigned doubts, bool queued, CUresult err);
/* The copy or fill itself; a context is current. */
CUresult weir__cuda_issue(struct weir__cuda_queue *q, struct weir__work *work);

/*
 * copy.c. SET, GET or COPY; a context is current. What fails may be there in
 * part if it has pieces.
 */
CUresult weir__cuda_copy(struct weir__cuda_queue *q,
			 const struct weir__work *work);

/* The same row by row, each by @copy, of rows that lie too far apart. */
typedef CUresult weir__cuda_copy_fn(struct weir__cuda_queue *q,
				    const struct weir__work *work);
CUresult weir__cuda_copy_each_row(struct weir__cuda_queue *q,
				  const struct weir__work *work,
				  weir__cuda_copy_fn *copy);
bool weir__cuda_pitch_fits(const struct weir__cuda *c,
			   const struct weir__work *work);

/* peer.c. Is the copy not within the queue's device? Then by this. */
bool weir__cuda_is_between(const struct weir__cuda_queue *q,
			   const struct weir__work *work);
CUresult weir__cuda_copy_between(struct weir__cuda_queue *q,
				 const struct weir__work *work);

/* call.c. Have the driver call the function of @work; a context is current. */
CUresult weir__cuda_call_launch(struct weir__cuda_queue *q,
				const struct weir__work *work,
				struct weir__cuda_call **ret_call);
/* It has ended: what the function returned, if that is < 0. */
int weir__cuda_call_end(struct weir__cuda_call *call);

/* helper.c. May the driver not be given it, since it would block? */
bool weir__cuda_blocks(struct weir__cuda *c, const struct weir__work *work);
/* Is it among host memory alone, so that no engine of the GPU is needed? */
bool weir__cuda_on_host(const struct weir__work *work);
void weir__cuda_run_on_host(const struct weir__work *work);
/* Leave it to the helper, which is started if need be. q->lock is held. */
int weir__cuda_to_helper(struct weir__cuda_queue *q, struct weir__work *work);
/* Free what the driver holds of the helper's. It is idle. */
void weir__cuda_helper_close(struct weir__cuda_queue *q);

#endif
