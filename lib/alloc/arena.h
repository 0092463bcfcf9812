/* SPDX-License-Identifier: MIT */
/*
 * Arenas: host memory by mappings of its own, kept when it is given back,
 * because the first touch of a page costs more than everything else.
 *
 * A struct weir__mem that was filled here does not move, and its touched is
 * kept up to date, until it is given back.
 */
#ifndef WEIR__ALLOC_ARENA_H
#define WEIR__ALLOC_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/pages.h"
#include "dev/backend.h"

struct weir__arena_req {
	size_t bytes;  /* > 0 */
	uint32_t kind; /* WEIR_MEM_PLAIN, HUGE or LOCKED */
	int32_t node;  /* NUMA node, -1: any */
	bool strict;   /* an error rather than a lesser kind */
};

/*
 * Fill in @mem: page aligned, HUGE from 2 MiB on aligned to 2 MiB. What it is
 * less than asked for is in mem->why. Any thread; may block.
 * -ENOMEM: over what is available; both numbers are named. Strict:
 * -EOPNOTSUPP: no huge pages; the cause's own: not locked, not bound.
 */
int weir__arena_take(struct weir *weir, const struct weir__arena_req *req,
		     struct weir__mem *mem);
void weir__arena_give(struct weir *weir, struct weir__mem *mem);
/*
 * The same for pages that a device may still write to: they stay mapped for
 * ever, and are nobody's.
 */
void weir__arena_leak(struct weir *weir, struct weir__mem *mem);

/*
 * Hide it from the children of later forks, or show it to them, as it is after
 * weir__arena_take. Any thread, under any lock; for one arena one at a time.
 */
void weir__arena_hide(struct weir__mem *mem, bool hidden);

/*
 * Back the first @bytes of @mem with pages, on this thread. -ENOMEM and
 * others: as far as mem->touched.
 */
int weir__arena_touch(struct weir__mem *mem, size_t bytes);

#endif
