/* SPDX-License-Identifier: MIT */
/*
 * Accesses: the ranges of a buffer that queued work will read or write, so
 * that blocking calls can wait for the work that they conflict with.
 */
#ifndef WEIR__ACCESS_H
#define WEIR__ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/source.h"

struct weir_buf;

/*
 * A range of a buffer that queued work will read or write: on the buffer's
 * list from weir__access_add() until weir__access_del(). Blocking calls wait
 * for those that they conflict with.
 */
struct weir__access {
	struct weir__access *next, **link; /* link NULL: on no list */
	struct weir_buf *buf;              /* the member that it is in */
	uint64_t lo, hi;                   /* bytes of that member */
	bool write;
	/*
	 * The kernel or a device writes past the page tables (direct reads): a
	 * child of fork(2) does not get the buffer meanwhile. Cleared before
	 * weir__access_del() if such a write was lost and may still come.
	 */
	bool dma;
	struct weir__source *src; /* held by who added it */
	uint64_t number;
	/*
	 * A source whose numbers lie side by side in the range (a load): the
	 * next number >= @from that touches [lo, hi), false: none. NULL: only
	 * @number.
	 */
	bool (*next_number)(struct weir__access *access, uint64_t lo,
			    uint64_t hi, uint64_t from, uint64_t *ret_number);
	void *arg; /* for next_number */
};

void weir__access_add(struct weir__access *access);
void weir__access_del(struct weir__access *access);
/*
 * Block until queued work that conflicts with the access to [lo, hi) of the
 * member @buf is done or has failed (which is not an error here). -ETIMEDOUT
 * never: waits for ever.
 */
int weir__buf_quiesce(struct weir_buf *buf, uint64_t lo, uint64_t hi,
		      bool write);

#endif
