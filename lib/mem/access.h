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
 * A range of a buffer that queued work will read or write. It is on the
 * buffer's list from weir__access_add() until weir__access_del().
 */
struct weir__access {
	struct weir__access *next, **link; /* link NULL: on no list */
	struct weir_buf *buf;              /* not a joined buffer: its member */
	uint64_t lo, hi;                   /* bytes [lo, hi) of buf */
	bool write;
	/*
	 * The kernel or a device writes by DMA (direct reads): children of
	 * fork(2) do not get the buffer meanwhile. Cleared before
	 * weir__access_del() if the write was orphaned and may still happen:
	 * the buffer then stays hidden for ever.
	 */
	bool dma;
	struct weir__source *src; /* referenced by the caller of _add */
	uint64_t number;
	/*
	 * For a source that has several numbers in the range (a load): the
	 * next number whose bytes overlap [lo, hi); false: no more. *@cursor is
	 * 0 at the first call, and then what the call before has set. NULL: the
	 * range has one number, @number.
	 */
	bool (*next_number)(struct weir__access *access, uint64_t lo,
			    uint64_t hi, uint64_t *cursor,
			    uint64_t *ret_number);
	void *arg; /* for next_number */
};

void weir__access_add(struct weir__access *access);
void weir__access_del(struct weir__access *access);
/*
 * For loops that add or remove an access of each of many buffers: the CPU starts
 * to fetch what a later call needs of @buf.
 */
void weir__access_prefetch(const struct weir_buf *buf);
/*
 * Block until the work that conflicts with an access to [lo, hi) of @buf, and
 * was queued before this call, is done or has failed; its failure is not an
 * error of this call. There is no time-out. -ENOMEM.
 */
int weir__buf_quiesce(struct weir_buf *buf, uint64_t lo, uint64_t hi,
		      bool write);

#endif
