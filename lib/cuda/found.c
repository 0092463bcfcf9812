/* SPDX-License-Identifier: MIT */
#include "cuda/found.h"

#include <string.h>

#include "cuda/cuda.h"

#define drv weir__cuda_drv
#define SLAB 63u /* places of an allocation, about a page */

/* Memory of places; they are freed together. */
struct weir__cuda_found_slab {
	struct weir__cuda_found_slab *next;
	struct weir__cuda_found place[SLAB];
};

/*
 * found_lock is not held while the driver allocates: poll takes it to give
 * places back.
 */
static CUresult slab_add(struct weir__cuda *c)
{
	struct weir__cuda_found_slab *slab;
	void *ptr;
	CUresult r = drv.cuMemHostAlloc(&ptr, sizeof(*slab),
					CU_MEMHOSTALLOC_PORTABLE);

	if (r)
		return r;
	slab = ptr;
	pthread_mutex_lock(&c->found_lock);
	slab->next = c->found_slabs;
	c->found_slabs = slab;
	for (unsigned i = 0; i < SLAB; i++) {
		slab->place[i].next = c->found;
		c->found = &slab->place[i];
	}
	pthread_mutex_unlock(&c->found_lock);
	return CUDA_SUCCESS;
}

CUresult weir__cuda_found_reserve(struct weir__cuda *c)
{
	bool some;

	pthread_mutex_lock(&c->found_lock);
	some = c->found;
	pthread_mutex_unlock(&c->found_lock);
	return some ? CUDA_SUCCESS : slab_add(c);
}

/* An unused place, or NULL. */
static struct weir__cuda_found *found_pop(struct weir__cuda *c)
{
	struct weir__cuda_found *f;

	pthread_mutex_lock(&c->found_lock);
	f = c->found;
	if (f)
		c->found = f->next;
	pthread_mutex_unlock(&c->found_lock);
	return f;
}

CUresult weir__cuda_found_get(struct weir__cuda *c,
			      struct weir__cuda_found **ret)
{
	struct weir__cuda_found *f;
	CUresult r;

	/* Other threads may take all places of a slab first. */
	while (!(f = found_pop(c))) {
		r = slab_add(c);
		if (r)
			return r;
	}
	memset(f, 0, sizeof(*f));
	*ret = f;
	return CUDA_SUCCESS;
}

void weir__cuda_found_put(struct weir__cuda *c, struct weir__cuda_found *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&c->found_lock);
	f->next = c->found;
	c->found = f;
	pthread_mutex_unlock(&c->found_lock);
}

void weir__cuda_found_free(struct weir__cuda *c)
{
	struct weir__cuda_found_slab *slab = c->found_slabs, *next;

	for (; slab && !atomic_load(&c->lost); slab = next) {
		next = slab->next;
		weir__cuda_note(c, drv.cuMemFreeHost(slab));
	}
	c->found_slabs = NULL;
	c->found = NULL;
}
