/* SPDX-License-Identifier: MIT */
/*
 * Blocks by address, for weir_heap_find(): a hash table of the blocks that are
 * not in bins. The first weir_heap_find() makes it.
 *
 * Threads that have shards must not contend for one lock here, so the table
 * consists of stripes, each with a lock. All addresses of a MiB are in one
 * stripe, and a thread's span is usually larger. A block is added and removed
 * under the lock of its shard. Its links are members that otherwise only free
 * blocks use, so neither needs memory.
 */
#include "core/error.h"
#include "core/sys.h"
#include "heap/heap.h"

#define STRIPES 64u
#define STRIPE_SHIFT 20u /* log2 of the addresses that are in one stripe */
#define FIRST_BITS 6u

struct stripe {
	_Alignas(64) struct weir__lock lock; /* guards all members */
	unsigned bits;
	size_t n;
	uint32_t *list; /* 1 << bits; first block of each, or 0 */
};

struct weir__block_index {
	struct stripe stripe[STRIPES];
};

static uint64_t mix(uint64_t n)
{
	return n * 0x9e3779b97f4a7c15u;
}

static struct stripe *stripe_of(struct weir__block_index *x, uint64_t addr)
{
	return &x->stripe[mix(addr >> STRIPE_SHIFT) >> 32 & (STRIPES - 1)];
}

static uint32_t *list_of(const struct stripe *s, uint64_t addr)
{
	return &s->list[mix(addr) >> (64 - s->bits)];
}

/* Double the table. Without memory for that its lists become longer. */
static void stripe_grow(struct weir_heap *h, struct stripe *s)
{
	size_t n = (size_t)1 << s->bits;
	uint32_t *old = s->list, *to;
	uint32_t *lists = weir__calloc(n * 2, sizeof(*lists));

	if (!lists)
		return;
	s->list = lists;
	s->bits++;
	for (size_t i = 0; i < n; i++)
		while (old[i]) {
			struct weir__block *b = weir__heap_block(h, old[i]);

			old[i] = b->right;
			to = list_of(s, b->addr);
			b->right = *to;
			*to = b->self;
		}
	weir__free(old);
}

static void index_insert(struct weir_heap *h, struct weir__block_index *x,
			 struct weir__block *b)
{
	struct stripe *s = stripe_of(x, b->addr);
	uint32_t *list;

	weir__lock(&s->lock);
	if (s->n >> s->bits)
		stripe_grow(h, s);
	list = list_of(s, b->addr);
	b->right = *list;
	*list = b->self;
	s->n++;
	weir__unlock(&s->lock);
}

void weir__block_index_insert(struct weir_heap *h, struct weir__block *b)
{
	index_insert(h, weir__heap_index(h), b);
}

void weir__block_index_remove(struct weir_heap *h, struct weir__block *b)
{
	struct stripe *s = stripe_of(weir__heap_index(h), b->addr);
	uint32_t *link;

	weir__lock(&s->lock);
	link = list_of(s, b->addr);
	while (*link != b->self)
		link = &weir__heap_block(h, *link)->right;
	*link = b->right;
	s->n--;
	weir__unlock(&s->lock);
}

/* A block does not move, nor change its size, while it is in the table. */
bool weir__block_index_find(struct weir_heap *h, uint64_t addr,
			    struct weir_block *ret_block)
{
	struct stripe *s = stripe_of(weir__heap_index(h), addr);
	const struct weir__block *b = NULL;
	uint32_t i;
	bool found;

	weir__lock(&s->lock);
	for (i = *list_of(s, addr); i; i = b->right) {
		b = weir__heap_block(h, i);
		if (b->addr == addr)
			break;
	}
	found = i && weir__block_describe(h, b, ret_block);
	weir__unlock(&s->lock);
	return found;
}

static void index_free(struct weir__block_index *x)
{
	for (unsigned i = 0; i < STRIPES; i++)
		weir__free(x->stripe[i].list);
	weir__free(x);
}

static struct weir__block_index *index_new(bool membarrier)
{
	struct weir__block_index *x = weir__calloc_aligned(1, sizeof(*x));
	bool made = x;

	for (unsigned i = 0; made && i < STRIPES; i++) {
		struct stripe *s = &x->stripe[i];

		s->lock.membarrier = membarrier;
		s->bits = FIRST_BITS;
		s->list =
			weir__calloc((size_t)1 << FIRST_BITS, sizeof(*s->list));
		made = s->list;
	}
	if (made)
		return x;
	if (x)
		index_free(x);
	return NULL;
}

static void insert_region(struct weir_heap *h, struct weir__block_index *x,
			  const struct weir__region *region)
{
	struct weir__block *b;

	if (!region->bytes)
		return;
	for (uint32_t i = region->first; i; i = b->next) {
		b = weir__heap_block(h, i);
		if ((weir__block_tag(b) & 3) >= WEIR__BLOCK_USED)
			index_insert(h, x, b);
	}
}

int weir__block_index_make(struct weir_heap *h)
{
	struct weir__block_index *x = index_new(h->membarrier);

	if (!x)
		return weir__fail(-ENOMEM, "no memory for an index of %s",
				  h->label);
	for (unsigned i = 0; i < h->end_regions; i++)
		if (h->region[i])
			insert_region(h, x, h->region[i]);
	atomic_store_explicit(&h->index, x, memory_order_release);
	return 0;
}

void weir__block_index_free(struct weir_heap *h)
{
	struct weir__block_index *x = weir__heap_index(h);

	if (x)
		index_free(x);
}
