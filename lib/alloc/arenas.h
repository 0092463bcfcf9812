/* SPDX-License-Identifier: MIT */
/*
 * The arenas of a root, for the files that take them (arena.c) and find room
 * for them (room.c).
 */
#ifndef WEIR__ARENAS_H
#define WEIR__ARENAS_H

#include <pthread.h>
#include <stdatomic.h>

#include "alloc/arena.h"
#include "core/root.h"

/*
 * One mapping: on the live list while a buffer uses it, then on the kept list
 * (oldest first), until it is used again or unmapped. A parked arena is on no
 * list.
 */
struct weir__arena {
	struct weir__arena *next, **link;
	struct weir__pages pages;
	size_t backed;                /* kept: bytes known to be backed */
	struct weir_backend_mem *mem; /* live: that of the buffer */
	bool parked, relock; /* its pages are released; they were locked */
	/* Reserved addresses, whose pages are bare: addresses.c. */
	size_t committed; /* bytes that have memory */
	bool prefault;    /* commit backs them with pages */
};

/* The arenas of a root. */
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
	uint64_t peak; /* the most that used has been */
};

/* Sets of page types, by which kept arenas are chosen. */
#define PAGES_IN_RAM (1u << WEIR__PAGES_SMALL | 1u << WEIR__PAGES_TRANSPARENT)
#define PAGES_ANY (~0u)

/* The arenas of the root; NULL: none were made yet. */
static inline struct weir__arenas *weir__arenas_of(struct weir *weir)
{
	return (struct weir__arenas *)atomic_load(
		&weir->part[WEIR__PART_ALLOC]);
}

/* The bytes that count towards the budget. */
static inline size_t weir__arena_bytes(const struct weir__arena *a)
{
	return a->pages.bare ? a->committed : a->pages.len;
}

/* Get the arenas of the root, made at the first call. */
int weir__arenas_get(struct weir *weir, struct weir__arenas **ret_all);
/* Find the nodes that @req asks for; none: any. */
int weir__arena_nodes(const struct weir__arena_req *req,
		      struct weir__nodes *nodes);

/* The caller of what follows holds the lock. */

/* Count @bytes more towards the budget. */
static inline void weir__arenas_count(struct weir__arenas *all, uint64_t bytes)
{
	all->used += bytes;
	if (all->used > all->peak)
		all->peak = all->used;
}

void weir__arena_add_live(struct weir__arenas *all, struct weir__arena *a);
void weir__arena_remove_live(struct weir__arenas *all, struct weir__arena *a);
/*
 * The arena with pages of @types that was kept first, or NULL.
 */
struct weir__arena *weir__arena_oldest(const struct weir__arenas *all,
				       unsigned types);
/* Unmap a kept arena. */
void weir__arena_drop(struct weir__arenas *all, struct weir__arena *a);

/*
 * Make sure that the budget has room for @len more bytes. Kept arenas are
 * unmapped before the answer is no. -ENOMEM with a sentence.
 */
int weir__room_in_budget(struct weir__arenas *all, size_t len);
/*
 * Make sure that RAM suffices for @len bytes of new mappings. Kept arenas are
 * unmapped before the answer is no, oldest first. -ENOMEM with a sentence.
 */
int weir__room_in_ram(struct weir__arenas *all, size_t len);
/*
 * Make sure that the nodes of @want have room, if they do not after kept arenas
 * were unmapped: memory that is bound to them is refused (-ENOMEM), because the
 * kernel would kill a process at the first touch. Other memory comes from
 * further nodes, and want->why_not says so.
 */
int weir__room_on_nodes(struct weir__arenas *all, struct weir__pages *want);

#endif
