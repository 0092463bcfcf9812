/* SPDX-License-Identifier: MIT */
/* One mapping of host memory: what is asked for, and what the kernel grants. */
#ifndef WEIR__ALLOC_PAGES_H
#define WEIR__ALLOC_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/numa.h"

enum weir__page_type {
	WEIR__PAGES_SMALL,
	WEIR__PAGES_TRANSPARENT, /* huge, if the kernel finds them */
	WEIR__PAGES_RESERVED,    /* huge, of the system's reserve: hugetlb */
	WEIR__PAGES_RESERVED_1G
};

struct weir__pages {
	/* Set before weir__pages_map(): */
	size_t len;               /* a multiple of its pages */
	struct weir__nodes nodes; /* none: any; emptied if binding fails */
	bool only;                /* fail if it cannot be bound to the nodes */
	bool shared;              /* keep the descriptor of its memfd */
	/* Only reserve addresses, at a multiple of 2 MiB: no access. */
	bool bare;
	enum weir__page_type type;
	/* Results: */
	unsigned char *addr;
	int fd;      /* memfd of shared pages, sealed against resizing; or -1 */
	bool huge;   /* the kernel grants huge pages */
	bool locked; /* reserved pages always are */
	bool eager;  /* an access may kill the process unless they are
			      backed first: see weir__pages_map */
	char why[160];     /* why not huge; after a failure: why it failed */
	char why_not[120]; /* why not bound or locked */
};

/* The size of a page of @type, which is also the alignment of the mapping. */
size_t weir__pages_size(enum weir__page_type type);
static inline bool weir__pages_reserved(const struct weir__pages *p)
{
	return p->type >= WEIR__PAGES_RESERVED;
}

/*
 * Map without touching a page. < 0: p->why says why, without a sentence.
 * Reserved pages are an account of the whole system; a cgroup, a cpuset or a
 * NUMA policy may still refuse one at its first touch, and then the kernel
 * sends SIGBUS. So p->eager is set: the caller backs all of p->len before
 * anyone uses the memory, and gives it up if that fails.
 */
int weir__pages_map(struct weir__pages *p);
void weir__pages_unmap(struct weir__pages *p);
/* -ENOMEM, -EPERM, ...: p->why_not says why; sets no sentence. */
int weir__pages_lock(struct weir__pages *p);
/* Hide the memory from the children of later forks, or show it, as at first. */
void weir__pages_hide(struct weir__pages *p, bool hidden);
/* The bytes after the first @backed that have no page yet. Visits each page. */
uint64_t weir__pages_missing(const struct weir__pages *p, size_t backed);
/* Back the first @bytes, on this thread, and raise *@backed step by step. */
int weir__pages_prefault(struct weir__pages *p, size_t *backed, size_t bytes);

#endif
