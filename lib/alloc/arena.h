/* SPDX-License-Identifier: MIT */
/*
 * Arenas: mappings of host memory that are kept for reuse after the buffer is
 * freed, because the first touch of pages is the most expensive step.
 *
 * From take to give (or leak) the caller does not move its struct
 * weir_backend_mem, and keeps mem->backed up to date.
 */
#ifndef WEIR__ALLOC_ARENA_H
#define WEIR__ALLOC_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/pages.h"
#include <weir/backend.h>

struct weir__arena_req {
	size_t bytes;  /* > 0 */
	uint32_t kind; /* WEIR_MEM_PLAIN, HUGE, LOCKED, HBM or FAR */
	int32_t node; /* NUMA node; HBM and FAR: those nearest to it; -1: any */
	bool strict;  /* fail rather than grant a lesser kind */
	bool shared;  /* a memfd, which weir__arena_share() returns */
	/* Use huge pages that the system has reserved, of 2 MiB or of 1 GiB. */
	bool hugetlb, hugetlb_1g;
};

/*
 * Allocate memory and fill in @mem. It is aligned to pages, HUGE memory of at
 * least 2 MiB to 2 MiB. If less is granted than was asked for, mem->why says
 * why. Reserved pages are all backed. Any thread; may block. -ENOMEM: more than
 * is available, or than the root's budget has left, with both numbers.
 * -EOPNOTSUPP: no node has memory of this kind. With strict also -EOPNOTSUPP:
 * no huge pages;
 * -ENOMEM: more than the nodes have; or the errno of mlock(2) or mbind(2). With
 * shared also that of memfd_create(2).
 */
int weir__arena_take(struct weir *weir, const struct weir__arena_req *req,
		     struct weir_backend_mem *mem);
void weir__arena_give(struct weir *weir, struct weir_backend_mem *mem);
/*
 * Leak pages that a device may still write to, instead of giving them back:
 * they stay mapped for ever, and are no arena any more.
 */
void weir__arena_leak(struct weir *weir, struct weir_backend_mem *mem);

/*
 * Hide the memory from the children of later forks, or show it again (as after
 * weir__arena_take). Takes no lock; the caller serialises calls for one arena.
 */
void weir__arena_hide(struct weir_backend_mem *mem, bool hidden);

/*
 * Release the pages, which no longer count towards the budget; the addresses
 * stay reserved and cannot be accessed. Back them again, with undefined
 * contents: -ENOMEM as weir__arena_take, or the errno of mlock(2) or
 * mprotect(2), and the memory is still released. Only for memory that is
 * neither shared nor in reserved pages. weir__arena_give accepts released
 * memory.
 */
int weir__arena_park(struct weir *weir, struct weir_backend_mem *mem);
int weir__arena_unpark(struct weir *weir, struct weir_backend_mem *mem);

/*
 * Back the first @bytes of @mem with pages, on this thread. After an error,
 * such as -ENOMEM, mem->backed says how many are backed.
 */
int weir__arena_prefault(struct weir_backend_mem *mem, size_t bytes);
/* The same, by several threads if that is faster. */
int weir__arena_back(struct weir *weir, struct weir_backend_mem *mem,
		     size_t bytes);

/*
 * A new descriptor of the memfd of @mem, which is not kept when it is given
 * back. -EOPNOTSUPP: it was not taken with shared. -EMFILE.
 */
int weir__arena_share(struct weir *weir, const struct weir_backend_mem *mem,
		      int *ret_fd);

/*
 * Count @bytes of host memory that the driver of a device allocates towards the
 * budget, before it allocates them, and no longer, after it has freed them.
 * -ENOMEM.
 */
int weir__arena_reserve(struct weir *weir, size_t bytes);
void weir__arena_unreserve(struct weir *weir, size_t bytes);
/* The bytes by which the budget exceeds those in use; UINT64_MAX: no budget. */
uint64_t weir__arena_budget_left(struct weir *weir);
/*
 * The bytes that count towards the budget, whether there is one or not, and the
 * most that they have been since the root was opened.
 */
void weir__arena_in_use(struct weir *weir, uint64_t *ret_now,
			uint64_t *ret_peak);
/*
 * Bytes of RAM that can still be allocated, beside all that live arenas have
 * been promised; UINT64_MAX: not known. What the program does meanwhile may
 * change it.
 */
uint64_t weir__arena_ram_left(struct weir *weir);

#endif
