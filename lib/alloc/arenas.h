/* SPDX-License-Identifier: MIT */
/* The arenas of a root, for arena.c and room.c. */
#ifndef WEIR__ALLOC_ARENAS_H
#define WEIR__ALLOC_ARENAS_H

#include <pthread.h>

#include "alloc/arena.h"
#include "alloc/pages.h"
#include "core/root.h"

/*
 * One mapping: on the live list while a buffer uses it, then on the kept list
 * (oldest first), until it is used again or unmapped.
 */
struct weir__arena {
	struct weir__arena *next, **link;
	struct weir__pages pages;
	size_t backed;                /* kept: bytes known to be backed */
	struct weir_backend_mem *mem; /* live: that of the buffer */
};

struct weir__arenas {
	struct weir__part part;
	struct weir *weir;
	pthread_mutex_t lock; /* guards what follows */
	struct weir__arena *live;
	size_t live_bytes; /* without reserved pages */
	struct weir__arena *kept, **kept_end;
	size_t kept_bytes;
	size_t keep;   /* limit of kept_bytes */
	uint64_t used; /* counted towards weir_opts.budget: all mappings, leaked
			  ones too, and what backends reserved */
};

/* The arenas of the root, made at the first call. */
int weir__arenas_get(struct weir *weir, struct weir__arenas **ret_all);

/* The functions below are called with all->lock. */

void weir__arenas_add_live(struct weir__arenas *all, struct weir__arena *a);
void weir__arenas_remove_live(struct weir__arenas *all, struct weir__arena *a);
/* Unmap and free an arena that is on no list. */
void weir__arena_destroy(struct weir__arenas *all, struct weir__arena *a);
/* Take the smallest that can serve @want off the kept list; NULL: none can. */
struct weir__arena *weir__arenas_find_kept(struct weir__arenas *all,
					   const struct weir__pages *want);

/* Sets of page types, to choose kept arenas. */
#define WEIR__PAGES_IN_RAM \
	(1u << WEIR__PAGES_SMALL | 1u << WEIR__PAGES_TRANSPARENT)
#define WEIR__PAGES_ANY (~0u)

/* The arena with pages of @types that was kept first, or NULL. */
struct weir__arena *weir__arenas_oldest(const struct weir__arenas *all,
					unsigned types);
/* The same, of those that count towards RLIMIT_MEMLOCK. */
struct weir__arena *weir__arenas_oldest_locked(const struct weir__arenas *all);
/* Unmap a kept arena. */
void weir__arenas_drop(struct weir__arenas *all, struct weir__arena *a);

/*
 * True if the budget has room for @len more bytes. Kept arenas are unmapped
 * before the answer is no. -ENOMEM with a sentence.
 */
int weir__room_in_budget(struct weir__arenas *all, size_t len);
/* The same for RAM: does it suffice for @len bytes of new mappings? */
int weir__room_in_ram(struct weir__arenas *all, size_t len);
/*
 * The same for the NUMA nodes of @want. -ENOMEM only if no other nodes may be
 * used.
 */
int weir__room_on_nodes(struct weir__arenas *all, struct weir__pages *want);

#endif
