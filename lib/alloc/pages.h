/* SPDX-License-Identifier: MIT */
/* One mapping of host memory: what is asked for, and what the kernel grants. */
#ifndef WEIR__ALLOC_PAGES_H
#define WEIR__ALLOC_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/nodes.h"

struct weir__pages {
	/* Set before weir__pages_map: */
	size_t len;               /* a multiple of its pages */
	struct weir__nodes nodes; /* none: any; emptied if binding fails */
	bool only;                /* fail if it cannot be bound to the nodes */
	bool is_huge;             /* ask for huge pages, and align to them */
	/* Results: */
	unsigned char *addr;
	bool huge;         /* the kernel grants them */
	bool locked;       /* by weir__pages_lock */
	char why[96];      /* why not huge */
	char why_not[120]; /* why not bound or locked */
};

/* Map without touching. -ENOMEM and others, with a sentence. */
int weir__pages_map(struct weir__pages *p);
void weir__pages_unmap(struct weir__pages *p);
/* -ENOMEM, -EPERM, ...: p->why_not says why; sets no sentence. */
int weir__pages_lock(struct weir__pages *p);
/* Hide from, or show to, the children of later forks. At first: shown. */
void weir__pages_hide(struct weir__pages *p, bool hidden);
/* Bytes after the first @touched that have no page yet. Visits each page. */
uint64_t weir__pages_missing(const struct weir__pages *p, size_t touched);
/* Back the first @bytes, on this thread; raises *@touched as it goes on. */
int weir__pages_touch(struct weir__pages *p, _Atomic size_t *touched,
		      size_t bytes);

#endif
