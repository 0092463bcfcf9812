/* SPDX-License-Identifier: MIT */
/*
 * Objects of one size, close together in memory. A program may have one for
 * each of many tensors, between blocks of its own: then a loop over them misses
 * the TLB at each object if malloc(3) places them.
 */
#ifndef WEIR__SLAB_H
#define WEIR__SLAB_H

#include <pthread.h>
#include <stddef.h>

struct weir__slab_chunk;
struct weir__slab_hole;

struct weir__slab {
	pthread_mutex_t lock;          /* guards what follows */
	struct weir__slab_hole *holes; /* objects that were freed */
	struct weir__slab_chunk *chunks;
	size_t used; /* objects of the newest chunk that were ever in use */
	size_t live; /* objects in use */
};

void weir__slab_init(struct weir__slab *slab);
/* Free the memory of all objects, which have been freed. */
void weir__slab_fini(struct weir__slab *slab);
/*
 * Allocate an object of @size zeros, at the beginning of a line of the cache.
 * The size is the same in all calls. NULL: no memory. Any thread.
 */
void *weir__slab_alloc(struct weir__slab *slab, size_t size);
/*
 * Free an object. When no object is in use any more, the memory of all is freed
 * if it is more than one chunk.
 */
void weir__slab_free(struct weir__slab *slab, void *object);

#endif
