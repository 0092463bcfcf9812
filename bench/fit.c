/* SPDX-License-Identifier: MIT */
#include "fit.h"

#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "raw.h"

#define MIB ((uint64_t)1 << 20)
#define BEST_ALIGN ((uint64_t)256)
#define TORCH_ALIGN ((uint64_t)512)
#define TORCH_SMALL MIB               /* the largest size of a small pool */
#define TORCH_SMALL_SEGMENT (2 * MIB) /* from which small blocks are split */
#define TORCH_MIDDLE (10 * MIB)       /* sizes below it are split from */
#define TORCH_MIDDLE_SEGMENT (20 * MIB)
#define TORCH_LARGE_ALIGN (2 * MIB) /* alignment of larger segments */

/* A block; those of a segment are linked in the order of addresses. */
struct block {
	uint64_t addr, size;
	struct block *below, *above;
	struct pool *pool;
	bool used;
};

/* The free blocks of a pool, sorted by size, then address. */
struct pool {
	struct block **free;
	size_t n, room;
	bool small;
};

struct fit {
	enum fit_rules rules;
	uint64_t capacity, reserved, height, next_addr;
	struct pool *pools; /* FIT_TORCH: two for each stream */
	uint32_t n_pools;
	struct block **slots;
};

/* The position of the first free block of at least this size and address. */
static size_t pool_at(const struct pool *p, uint64_t size, uint64_t addr)
{
	size_t low = 0, high = p->n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		const struct block *b = p->free[mid];

		if (b->size < size || (b->size == size && b->addr < addr))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void pool_insert(struct pool *p, struct block *b)
{
	size_t at = pool_at(p, b->size, b->addr);

	if (p->n == p->room) {
		p->room = p->room ? 2 * p->room : 256;
		p->free = realloc(p->free, p->room * sizeof(struct block *));
		if (!p->free)
			die("no memory for %zu free blocks", p->room);
	}
	memmove(p->free + at + 1, p->free + at,
		(p->n - at) * sizeof(struct block *));
	p->free[at] = b;
	p->n++;
	b->used = false;
}

static void pool_remove(struct pool *p, const struct block *b)
{
	size_t at = pool_at(p, b->size, b->addr);

	memmove(p->free + at, p->free + at + 1,
		(p->n - at - 1) * sizeof(struct block *));
	p->n--;
}

static struct block *block_new(struct pool *p, uint64_t addr, uint64_t size)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b)
		die("no memory for a block");
	b->pool = p;
	b->addr = addr;
	b->size = size;
	return b;
}

/* Cut @b to @size; the remainder is free. */
static void block_split(struct block *b, uint64_t size)
{
	struct block *rest = block_new(b->pool, b->addr + size, b->size - size);

	b->size = size;
	rest->below = b;
	rest->above = b->above;
	if (rest->above)
		rest->above->below = rest;
	b->above = rest;
	pool_insert(b->pool, rest);
}

/* Merge @b with the block above it; neither is in a pool. */
static void block_merge(struct block *b)
{
	struct block *above = b->above;

	b->size += above->size;
	b->above = above->above;
	if (b->above)
		b->above->below = b;
	free(above);
}

static void block_release(struct block *b)
{
	if (b->above && !b->above->used) {
		pool_remove(b->pool, b->above);
		block_merge(b);
	}
	if (b->below && !b->below->used) {
		b = b->below;
		pool_remove(b->pool, b);
		block_merge(b);
	}
	pool_insert(b->pool, b);
}

/* Return the pool's segments that are free as a whole; the bytes of them. */
static uint64_t pool_empty(struct pool *p)
{
	uint64_t bytes = 0;
	size_t kept = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct block *b = p->free[i];

		if (b->below || b->above) {
			p->free[kept++] = b;
			continue;
		}
		bytes += b->size;
		free(b);
	}
	p->n = kept;
	return bytes;
}

static uint64_t rounded(uint64_t size, uint64_t to)
{
	return (size + to - 1) / to * to;
}

/* The size of the segment that the published rules make for a block. */
static uint64_t torch_segment(uint64_t size)
{
	if (size <= TORCH_SMALL)
		return TORCH_SMALL_SEGMENT;
	return size < TORCH_MIDDLE ? TORCH_MIDDLE_SEGMENT
				   : rounded(size, TORCH_LARGE_ALIGN);
}

/* A new segment; if there is no room, once more without cached ones. */
static struct block *torch_reserve(struct fit *f, struct pool *p, uint64_t size)
{
	struct block *b;

	size = torch_segment(size);
	if (f->capacity - f->reserved < size)
		for (uint32_t i = 0; i < f->n_pools; i++)
			f->reserved -= pool_empty(&f->pools[i]);
	if (f->capacity - f->reserved < size)
		return NULL;
	b = block_new(p, f->next_addr, size);
	f->next_addr += size;
	f->reserved += size;
	if (f->height < f->reserved)
		f->height = f->reserved;
	return b;
}

static bool torch_splits(const struct block *b, uint64_t size)
{
	uint64_t rest = b->size - size;

	return b->pool->small ? rest >= TORCH_ALIGN : rest > TORCH_SMALL;
}

static struct block *fit_alloc(struct fit *f, uint64_t size, uint32_t stream)
{
	bool torch = f->rules == FIT_TORCH;
	struct pool *p = f->pools;
	struct block *b = NULL;
	size_t at;

	size = rounded(size, torch ? TORCH_ALIGN : BEST_ALIGN);
	if (torch)
		p += 2 * stream + (size <= TORCH_SMALL);
	at = pool_at(p, size, 0);
	if (at < p->n) {
		b = p->free[at];
		pool_remove(p, b);
	} else if (torch) {
		b = torch_reserve(f, p, size);
	}
	if (!b)
		return NULL;
	b->used = true;
	if (torch ? torch_splits(b, size) : b->size > size)
		block_split(b, size);
	if (!torch && f->height < b->addr + b->size)
		f->height = b->addr + b->size;
	return b;
}

static void fit_init(struct fit *f, const struct calls *c, enum fit_rules rules,
		     uint64_t capacity)
{
	memset(f, 0, sizeof(*f));
	f->rules = rules;
	f->capacity = capacity;
	f->n_pools = rules == FIT_TORCH ? 2 * c->streams : 1;
	f->pools = calloc(f->n_pools, sizeof(*f->pools));
	f->slots = calloc(c->slots, sizeof(struct block *));
	if (!f->pools || !f->slots)
		die("no memory for %u slots", c->slots);
	for (uint32_t i = 0; i < f->n_pools; i++)
		f->pools[i].small = i % 2;
	if (rules == FIT_BEST)
		pool_insert(f->pools, block_new(f->pools, 0, capacity));
}

static void fit_end(struct fit *f, uint32_t slots)
{
	for (uint32_t i = 0; i < slots; i++)
		if (f->slots[i])
			block_release(f->slots[i]);
	for (uint32_t i = 0; i < f->n_pools; i++) {
		pool_empty(&f->pools[i]);
		free(f->pools[i].free);
	}
	free(f->pools);
	free(f->slots);
}

struct fit_result fit_replay(const struct calls *c, enum fit_rules rules,
			     uint64_t capacity)
{
	struct fit_result ret = { .fits = true };
	struct fit f;

	fit_init(&f, c, rules, capacity);
	for (size_t i = 0; i < c->n && ret.fits; i++) {
		const struct call *call = &c->list[i];
		struct block **slot = &f.slots[call->slot];

		if (call->size) {
			*slot = fit_alloc(&f, call->size, call->stream);
			ret.fits = *slot;
		} else {
			block_release(*slot);
			*slot = NULL;
		}
	}
	ret.height = f.height;
	fit_end(&f, c->slots);
	return ret;
}

uint64_t fit_least(bool (*fits)(void *arg, uint64_t bytes), void *arg,
		   uint64_t low, uint64_t high)
{
	uint64_t step = low / 1000 + 1;

	while (high - low > step) {
		uint64_t mid = low + (high - low) / 2;

		if (fits(arg, mid))
			high = mid;
		else
			low = mid;
	}
	return high;
}
