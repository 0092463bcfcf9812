/* SPDX-License-Identifier: MIT */
#include "core/slab.h"

#include <string.h>

#include "core/sys.h"
#include "core/util.h"

#define LINE 64u
#define CHUNK_OBJECTS 32u

/* With AddressSanitizer each object is a block, so that it finds wrong uses. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define ONE_BY_ONE true
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define ONE_BY_ONE true
#endif
#ifndef ONE_BY_ONE
#define ONE_BY_ONE false
#endif

struct weir__slab_hole {
	struct weir__slab_hole *next;
};

struct weir__slab_chunk { /* the objects follow, from the next line on */
	struct weir__slab_chunk *next;
};

void weir__slab_init(struct weir__slab *slab)
{
	*slab = (struct weir__slab){ .used = CHUNK_OBJECTS };
	pthread_mutex_init(&slab->lock, NULL);
}

static void free_chunks(struct weir__slab_chunk *chunk)
{
	while (chunk) {
		struct weir__slab_chunk *next = chunk->next;

		weir__free(chunk);
		chunk = next;
	}
}

void weir__slab_fini(struct weir__slab *slab)
{
	free_chunks(slab->chunks);
	pthread_mutex_destroy(&slab->lock);
}

/* The lock is held. */
static void *take_object(struct weir__slab *slab, size_t size)
{
	struct weir__slab_hole *hole = slab->holes;

	if (hole) {
		slab->holes = hole->next;
		return memset(hole, 0, size);
	}
	if (slab->used == CHUNK_OBJECTS) {
		struct weir__slab_chunk *chunk =
			weir__calloc_aligned(1, LINE + CHUNK_OBJECTS * size);

		if (!chunk)
			return NULL;
		chunk->next = slab->chunks;
		slab->chunks = chunk;
		slab->used = 0;
	}
	return (char *)slab->chunks + LINE + slab->used++ * size;
}

void *weir__slab_alloc(struct weir__slab *slab, size_t size)
{
	void *object;

	if (ONE_BY_ONE)
		return weir__calloc_aligned(1, size);
	pthread_mutex_lock(&slab->lock);
	object = take_object(slab, weir__up(size, LINE));
	slab->live += object != NULL;
	pthread_mutex_unlock(&slab->lock);
	return object;
}

/* Returns all chunks if no object is in use and they are several. Locked. */
static struct weir__slab_chunk *take_chunks(struct weir__slab *slab)
{
	struct weir__slab_chunk *all = slab->chunks;

	if (slab->live || !all->next)
		return NULL;
	slab->chunks = NULL;
	slab->holes = NULL;
	slab->used = CHUNK_OBJECTS;
	return all;
}

void weir__slab_free(struct weir__slab *slab, void *object)
{
	struct weir__slab_hole *hole = object;
	struct weir__slab_chunk *unused;

	if (ONE_BY_ONE) {
		weir__free(object);
		return;
	}
	pthread_mutex_lock(&slab->lock);
	hole->next = slab->holes;
	slab->holes = hole;
	slab->live--;
	unused = take_chunks(slab);
	pthread_mutex_unlock(&slab->lock);
	free_chunks(unused);
}
