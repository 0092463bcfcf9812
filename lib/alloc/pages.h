/* SPDX-License-Identifier: MIT */
/* One mapping of host memory: how it is made, and what the kernel made of it. */
#ifndef WEIR__ALLOC_PAGES_H
#define WEIR__ALLOC_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__pages {
	/* Set before weir__pages_map: */
	size_t len;   /* a multiple of its pages */
	int32_t node; /* NUMA node, -1: any; or it could not be bound */
	bool only;    /* bound to it, or an error */
	bool is_huge; /* aligned to huge pages, which are asked for */
	/* What became of it: */
	unsigned char *addr;
	bool huge;         /* the kernel grants them */
	bool locked;       /* by weir__pages_lock */
	char why[96];      /* why not huge */
	char why_not[120]; /* why not bound or locked */
};

/* -ENOMEM and others, with a sentence. Nothing is touched yet. */
int weir__pages_map(struct weir__pages *p);
void weir__pages_unmap(struct weir__pages *p);
/* -ENOMEM, -EPERM, ...: p->why_not says why; no sentence. */
int weir__pages_lock(struct weir__pages *p);
/* From the children of later forks; new pages are not hidden. */
void weir__pages_hide(struct weir__pages *p, bool hidden);
/* Bytes behind the first @touched that take no RAM yet, page by page. */
uint64_t weir__pages_missing(const struct weir__pages *p, size_t touched);
/* Back the first @bytes, counting in @touched. On this thread. */
int weir__pages_touch(struct weir__pages *p, _Atomic size_t *touched,
		      size_t bytes);

#endif
