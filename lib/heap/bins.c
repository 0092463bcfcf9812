/* SPDX-License-Identifier: MIT */
#include "heap/bins.h"

#include <assert.h>

#include "core/error.h"
#include "core/sys.h"

void weir__block_table_init(struct weir__block_table *p, unsigned shift)
{
	*p = (struct weir__block_table){ .shift = shift };
}

void weir__block_table_fini(struct weir__block_table *p)
{
	for (unsigned i = 0; i < WEIR__SLABS; i++)
		weir__free(atomic_load(&p->slab[i]));
}

static int slab_add(struct weir__block_table *p, struct weir__spares *spares)
{
	uint32_t made = atomic_load(&p->made), n;
	struct weir__block *slab;
	unsigned i = 0;

	while (i < WEIR__SLABS && atomic_load(&p->slab[i]))
		i++;
	if (i == WEIR__SLABS)
		return weir__fail(-ENOMEM, "%u blocks, the most of a heap",
				  made);
	n = 1u << (WEIR__SLAB_FIRST + i);
	slab = weir__calloc_aligned(n, sizeof(*slab));
	if (!slab)
		return weir__fail(-ENOMEM, "no memory for %u more blocks", n);
	atomic_store(&p->slab[i], slab);
	/* Lowest numbers are taken first; number 0 is not used. */
	for (uint32_t j = n; j-- > (made ? 0 : 1);) {
		slab[j].self = made + j;
		slab[j].left = spares->first;
		spares->first = slab[j].self;
		spares->n++;
	}
	atomic_store(&p->made, made + n);
	return 0;
}

int weir__block_table_reserve(struct weir__block_table *p,
			      struct weir__spares *spares, unsigned n)
{
	return spares->n >= n ? 0 : slab_add(p, spares);
}

struct weir__block *weir__block_new(struct weir__block_table *p,
				    struct weir__spares *spares)
{
	struct weir__block *b = weir__block_at(p, spares->first);

	assert(spares->n);
	spares->first = b->left;
	spares->n--;
	b->prev = b->next = 0;
	return b;
}

void weir__block_drop(struct weir__spares *spares, struct weir__block *b)
{
	weir__block_set_state(b, WEIR__BLOCK_UNUSED);
	b->left = spares->first;
	spares->first = b->self;
	spares->n++;
}

void weir__spares_move(struct weir__block_table *p, struct weir__spares *from,
		       struct weir__spares *to, unsigned n)
{
	while (n--)
		weir__block_drop(to, weir__block_new(p, from));
}

struct weir__block *weir__block_split(struct weir__block_table *p,
				      struct weir__spares *spares,
				      struct weir__block *b, uint64_t bytes)
{
	struct weir__block *rest = weir__block_new(p, spares);

	rest->addr = b->addr + bytes;
	rest->bytes = b->bytes - bytes;
	rest->number = b->number;
	rest->bin = b->bin;
	rest->region = b->region;
	weir__block_set_shard(rest, weir__block_shard(b));
	weir__block_set_state(rest, weir__block_tag(b) & 3);
	rest->prev = b->self;
	rest->next = b->next;
	if (b->next)
		weir__block_at(p, b->next)->prev = rest->self;
	b->next = rest->self;
	b->bytes = bytes;
	return rest;
}

void weir__block_join(struct weir__block_table *p, struct weir__spares *spares,
		      struct weir__block *b)
{
	struct weir__block *next = weir__block_at(p, b->next);

	b->bytes += next->bytes;
	if (next->number > b->number)
		b->number = next->number;
	b->next = next->next;
	if (b->next)
		weir__block_at(p, b->next)->prev = b->self;
	weir__block_drop(spares, next);
}

/*
 * The blocks of a bin are a treap: a search tree in the order of size and
 * address, and a heap in the order of a hash of their numbers, which keeps the
 * tree about as flat as a random one.
 */
static bool is_before(const struct weir__block *a, const struct weir__block *b)
{
	return a->bytes < b->bytes ||
	       (a->bytes == b->bytes && a->addr < b->addr);
}

static uint32_t rank_of(uint32_t number)
{
	return number * 0x9e3779b1u;
}

static void tree_add(const struct weir__block_table *p, uint32_t *link,
		     struct weir__block *b)
{
	uint32_t *left = &b->left, *right = &b->right, i;
	struct weir__block *other;

	while (*link && rank_of(*link) > rank_of(b->self)) {
		other = weir__block_at(p, *link);
		link = is_before(b, other) ? &other->left : &other->right;
	}
	/* @b replaces a subtree, which becomes the two subtrees of @b. */
	i = *link;
	*link = b->self;
	while (i) {
		other = weir__block_at(p, i);
		if (is_before(other, b)) {
			*left = i;
			left = &other->right;
			i = *left;
		} else {
			*right = i;
			right = &other->left;
			i = *right;
		}
	}
	*left = *right = 0;
}

static void tree_del(const struct weir__block_table *p, uint32_t *link,
		     const struct weir__block *b)
{
	uint32_t left = b->left, right = b->right;
	struct weir__block *other;

	while (*link != b->self) {
		other = weir__block_at(p, *link);
		link = is_before(b, other) ? &other->left : &other->right;
	}
	/* Its two subtrees, merged, replace it. */
	while (left && right) {
		if (rank_of(left) > rank_of(right)) {
			*link = left;
			link = &weir__block_at(p, left)->right;
			left = *link;
		} else {
			*link = right;
			link = &weir__block_at(p, right)->left;
			right = *link;
		}
	}
	*link = left ? left : right;
}

/* The first block from (@bytes, @addr) on, or NULL. */
static struct weir__block *tree_from(const struct weir__block_table *p,
				     uint32_t root, uint64_t bytes,
				     uint64_t addr)
{
	struct weir__block *best = NULL, *b;

	for (uint32_t i = root; i;) {
		b = weir__block_at(p, i);
		if (b->bytes < bytes || (b->bytes == bytes && b->addr < addr)) {
			i = b->right;
		} else {
			best = b;
			i = b->left;
		}
	}
	return best;
}

void weir__size_bins_add(struct weir__block_table *p,
			 struct weir__size_bins *bins, struct weir__block *b)
{
	struct weir__size_bin at = weir__size_bin_of(b->bytes >> p->shift);

	tree_add(p, &bins->root[at.level][at.bin], b);
	bins->second[at.level] |= 1ull << at.bin;
	bins->first |= 1ull << at.level;
}

void weir__size_bins_del(struct weir__block_table *p,
			 struct weir__size_bins *bins, struct weir__block *b)
{
	struct weir__size_bin at = weir__size_bin_of(b->bytes >> p->shift);

	tree_del(p, &bins->root[at.level][at.bin], b);
	if (bins->root[at.level][at.bin])
		return;
	bins->second[at.level] &= ~(1ull << at.bin);
	if (!bins->second[at.level])
		bins->first &= ~(1ull << at.level);
}

/* The root of the first bin after @at that has blocks; 0: there is none. */
static uint32_t bins_next(const struct weir__size_bins *bins,
			  struct weir__size_bin at)
{
	uint64_t bits = bins->second[at.level] & (~0ull << at.bin << 1);
	uint64_t levels = bins->first & (~0ull << at.level << 1);

	if (!bits) {
		if (!levels)
			return 0;
		at.level = (unsigned)__builtin_ctzll(levels);
		bits = bins->second[at.level];
	}
	return bins->root[at.level][__builtin_ctzll(bits)];
}

/* The first block from (@bytes, @addr) on, or NULL. */
static struct weir__block *bins_from(const struct weir__block_table *p,
				     const struct weir__size_bins *bins,
				     uint64_t bytes, uint64_t addr)
{
	struct weir__size_bin at = weir__size_bin_of(bytes >> p->shift);
	struct weir__block *b =
		tree_from(p, bins->root[at.level][at.bin], bytes, addr);

	return b ? b : tree_from(p, bins_next(bins, at), 0, 0);
}

/* True if @bytes at a multiple of @align fit into the block. */
static bool block_fits(const struct weir__block *b, uint64_t bytes,
		       uint64_t align)
{
	uint64_t pad = -b->addr & (align - 1);

	return b->bytes >= bytes && b->bytes - bytes >= pad;
}

struct weir__block *weir__size_bins_find(const struct weir__block_table *p,
					 const struct weir__size_bins *bins,
					 uint64_t bytes, uint64_t align,
					 unsigned most)
{
	uint64_t unit = 1ull << p->shift;
	struct weir__block *b = bins_from(p, bins, bytes, 0);

	while (b && !block_fits(b, bytes, align) && most--)
		b = bins_from(p, bins, b->bytes, b->addr + 1);
	if (!b || block_fits(b, bytes, align))
		return b;
	/* A block of this size has room, whatever its address. */
	return bins_from(p, bins, bytes + align - unit, 0);
}

uint64_t weir__size_bins_largest(const struct weir__block_table *p,
				 const struct weir__size_bins *bins)
{
	const struct weir__block *b = NULL;
	unsigned level;

	if (!bins->first)
		return 0;
	level = 63u - (unsigned)__builtin_clzll(bins->first);
	for (uint32_t i = bins->root[level]
				    [63 - __builtin_clzll(bins->second[level])];
	     i; i = b->right)
		b = weir__block_at(p, i);
	return b->bytes;
}
