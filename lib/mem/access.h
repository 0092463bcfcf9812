/* SPDX-License-Identifier: MIT */
/*
 * Accesses: the ranges of a buffer that queued work will read or write, so
 * that blocking calls can wait for the work that they conflict with.
 */
#ifndef WEIR__ACCESS_H
#define WEIR__ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/timeline.h"

struct weir_buf;

/*
 * A range of a buffer that queued work will read or write. It is on the
 * buffer's list from weir__access_add() until weir__access_del().
 */
struct weir__access {
	struct weir__access *next,
		**link;       /* link is NULL if it is on no list */
	struct weir_buf *buf; /* a member, if the buffer is joined */
	uint64_t lo, hi;      /* bytes [lo, hi) of buf */
	bool write;
	/*
	 * True if the kernel or a device writes by DMA (direct reads): children
	 * of fork(2) do not get the buffer meanwhile. Cleared before
	 * weir__access_del() if the write was orphaned and may still happen:
	 * the buffer then stays hidden for ever.
	 */
	bool dma;
	struct weir__timeline *timeline; /* referenced by the caller of _add */
	uint64_t number;
};

void weir__access_add(struct weir__access *access);
void weir__access_del(struct weir__access *access);
/*
 * Count an access by DMA to the memory of @buf: one more if @hidden, else one
 * less. This is for work that has no access of each buffer.
 */
void weir__access_hide(struct weir_buf *buf, bool hidden);

/* The work that a blocking call has to wait for. */
struct weir__conflicts;
/* Make the call wait for @number of @tl too. Fails with -ENOMEM. */
int weir__conflicts_add(struct weir__conflicts *c, struct weir__timeline *tl,
			uint64_t number);

/*
 * The writes of one timeline (a load) to any number of buffers. Blocking calls
 * ask for those in their range, from weir__accesses_add() until
 * weir__accesses_del(). To add an access to each of thousands of buffers would
 * take longer than to read them.
 */
struct weir__accesses {
	struct weir__accesses *next, **link;
	/*
	 * Add the conflicts with an access to [lo, hi) of @buf, which is not
	 * joined. A lock of the root is held: takes no other.
	 */
	int (*find)(struct weir__accesses *accesses, const struct weir_buf *buf,
		    uint64_t lo, uint64_t hi, struct weir__conflicts *c);
};

void weir__accesses_add(struct weir *weir, struct weir__accesses *accesses);
void weir__accesses_del(struct weir *weir, struct weir__accesses *accesses);
/*
 * Block until the work that conflicts with an access to [lo, hi) of @buf, and
 * was queued before this call, is done or has failed; its failure is not an
 * error of this call. There is no time-out. Fails with -ENOMEM.
 */
int weir__buf_quiesce(struct weir_buf *buf, uint64_t lo, uint64_t hi,
		      bool write);

#endif
