/* SPDX-License-Identifier: MIT */
/*
 * Blocks that PyTorch frees: those that several streams use, and those that
 * cannot be freed yet.
 */
#include <errno.h>
#include <stdlib.h>

#include "torch.h"

/* A use of a block by another stream than its own. */
struct use {
	uint64_t addr;
	struct CUstream_st *cuda;
	_Atomic(struct use *) next;
};

/* A block that PyTorch has freed in @cuda, which failed. */
struct unfreed {
	uint64_t addr;
	struct CUstream_st *cuda;
	struct unfreed *next;
};

static _Atomic(struct use *) *uses_of(struct device *d, uint64_t addr)
{
	return &d->uses[weir__torch_hash(addr, USE_BITS)];
}

/* The lock is held. */
static bool use_known(struct device *d, uint64_t addr,
		      const struct CUstream_st *cuda)
{
	const struct use *u = *uses_of(d, addr);

	while (u && (u->addr != addr || u->cuda != cuda))
		u = u->next;
	return u;
}

int weir__torch_use(struct device *d, uint64_t addr, struct CUstream_st *cuda)
{
	_Atomic(struct use *) *list = uses_of(d, addr);
	struct use *u = calloc(1, sizeof(*u));

	if (!u)
		return weir__torch_no_memory();
	u->addr = addr;
	u->cuda = cuda;
	pthread_mutex_lock(&d->lock);
	if (use_known(d, addr, cuda)) {
		free(u);
	} else {
		u->next = *list;
		*list = u;
	}
	pthread_mutex_unlock(&d->lock);
	return 0;
}

/* The joint stream waits for the work that is now in @cuda. */
static int joint_wait(struct device *d, struct CUstream_st *cuda)
{
	struct weir_stream *s;
	int r = weir__torch_stream(d, cuda, &s);

	if (r < 0)
		return r;
	r = weir_stream_record(s, d->joined);
	if (r < 0 && weir__torch_recover(s))
		r = weir_stream_record(s, d->joined);
	return r < 0 ? r : weir_stream_wait(d->joint, d->joined);
}

/*
 * If other streams than @own use the block, let the joint stream wait for all
 * of them, and set *stream to it. The lock is held.
 */
static int uses_join(struct device *d, uint64_t addr, struct CUstream_st *own,
		     struct weir_stream **stream)
{
	bool joins = false;
	int r = 0;

	for (struct use *u = *uses_of(d, addr); r == 0 && u; u = u->next) {
		if (u->addr != addr || u->cuda == own)
			continue;
		if (!joins)
			r = joint_wait(d, own);
		if (r == 0)
			r = joint_wait(d, u->cuda);
		joins = true;
	}
	if (r == 0 && joins)
		*stream = d->joint;
	return r;
}

/* The block is free. The lock is held. */
static void uses_drop(struct device *d, uint64_t addr)
{
	_Atomic(struct use *) *at = uses_of(d, addr);
	struct use *u;

	while ((u = *at)) {
		if (u->addr != addr) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		free(u);
	}
}

/* Free a block that may have uses. They stay if that fails. */
static int used_free(struct device *d, const struct weir_block *block,
		     struct CUstream_st *own, struct weir_stream *s)
{
	int r;

	pthread_mutex_lock(&d->lock);
	r = uses_join(d, block->addr, own, &s);
	/* A joint stream that has failed makes no more waits. */
	if (r < 0 && weir__torch_recover(d->joint))
		r = uses_join(d, block->addr, own, &s);
	if (r == 0)
		r = weir_heap_free(block, s);
	if (r == 0)
		uses_drop(d, block->addr);
	pthread_mutex_unlock(&d->lock);
	return r;
}

int weir__torch_free(struct device *d, uint64_t addr, struct CUstream_st *cuda)
{
	struct weir_block block;
	struct weir_stream *s;
	int r = weir_heap_find(d->heap, addr, &block);

	if (r == 0)
		r = weir__torch_stream(d, cuda, &s);
	if (r < 0)
		return r;
	return atomic_load(uses_of(d, addr)) ? used_free(d, &block, cuda, s)
					     : weir_heap_free(&block, s);
}

static void unfreed_put(struct device *d, struct unfreed *b)
{
	b->next = NULL;
	pthread_mutex_lock(&d->lock);
	*d->unfreed_end = b;
	d->unfreed_end = &b->next;
	atomic_fetch_add(&d->n_unfreed, 1);
	pthread_mutex_unlock(&d->lock);
}

static struct unfreed *unfreed_take(struct device *d)
{
	struct unfreed *b;

	pthread_mutex_lock(&d->lock);
	b = d->unfreed;
	if (b) {
		d->unfreed = b->next;
		if (!d->unfreed)
			d->unfreed_end = &d->unfreed;
		atomic_fetch_sub(&d->n_unfreed, 1);
	}
	pthread_mutex_unlock(&d->lock);
	return b;
}

/* Without memory to remember the block it stays allocated for ever. */
void weir__torch_keep(struct device *d, uint64_t addr, struct CUstream_st *cuda)
{
	struct unfreed *b = calloc(1, sizeof(*b));

	if (!b)
		return;
	b->addr = addr;
	b->cuda = cuda;
	unfreed_put(d, b);
}

unsigned weir__torch_retry(struct device *d, unsigned most)
{
	unsigned n = atomic_load(&d->n_unfreed), freed = 0;
	struct unfreed *b;

	if (n > most)
		n = most;
	while (n-- && (b = unfreed_take(d))) {
		if (weir__torch_free(d, b->addr, b->cuda) < 0) {
			unfreed_put(d, b);
			continue;
		}
		free(b);
		freed++;
	}
	/* Nobody is told of these failures. */
	weir__torch_reason = NULL;
	return freed;
}
