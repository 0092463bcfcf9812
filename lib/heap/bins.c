/* SPDX-License-Identifier: MIT */
#include "heap/bins.h"

#include <assert.h>

#include "core/error.h"
#include "core/sys.h"

void weir__heap_pieces_init(struct weir__heap_pieces *p, unsigned shift)
{
	*p = (struct weir__heap_pieces){ .shift = shift };
}

void weir__heap_pieces_fini(struct weir__heap_pieces *p)
{
	for (unsigned i = 0; i < WEIR__SLABS; i++)
		weir__free(atomic_load(&p->slab[i]));
}

static int slab_add(struct weir__heap_pieces *p, struct weir__spares *spares)
{
	uint32_t made = atomic_load(&p->made), n;
	struct weir__piece *slab;
	unsigned i = 0;

	while (i < WEIR__SLABS && atomic_load(&p->slab[i]))
		i++;
	if (i == WEIR__SLABS)
		return weir__fail(-ENOMEM, "%u pieces, the most of a heap",
				  made);
	n = 1u << (WEIR__SLAB_FIRST + i);
	slab = weir__calloc_aligned(n, sizeof(*slab));
	if (!slab)
		return weir__fail(-ENOMEM, "no memory for %u more pieces", n);
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

int weir__heap_pieces_reserve(struct weir__heap_pieces *p,
			      struct weir__spares *spares, unsigned n)
{
	return spares->n >= n ? 0 : slab_add(p, spares);
}

struct weir__piece *weir__piece_new(struct weir__heap_pieces *p,
				    struct weir__spares *spares)
{
	struct weir__piece *c = weir__piece(p, spares->first);

	assert(spares->n);
	spares->first = c->left;
	spares->n--;
	c->prev = c->next = 0;
	return c;
}

void weir__piece_drop(struct weir__spares *spares, struct weir__piece *c)
{
	weir__piece_set(c, WEIR__PIECE_UNUSED);
	c->left = spares->first;
	spares->first = c->self;
	spares->n++;
}

void weir__spares_move(struct weir__heap_pieces *p, struct weir__spares *from,
		       struct weir__spares *to, unsigned n)
{
	while (n--)
		weir__piece_drop(to, weir__piece_new(p, from));
}

struct weir__piece *weir__piece_split(struct weir__heap_pieces *p,
				      struct weir__spares *spares,
				      struct weir__piece *c, uint64_t bytes)
{
	struct weir__piece *rest = weir__piece_new(p, spares);

	rest->addr = c->addr + bytes;
	rest->bytes = c->bytes - bytes;
	rest->number = c->number;
	rest->lane = c->lane;
	rest->region = c->region;
	weir__piece_move(rest, weir__piece_shard(c));
	weir__piece_set(rest, weir__piece_tag(c) & 3);
	rest->prev = c->self;
	rest->next = c->next;
	if (c->next)
		weir__piece(p, c->next)->prev = rest->self;
	c->next = rest->self;
	c->bytes = bytes;
	return rest;
}

void weir__piece_join(struct weir__heap_pieces *p, struct weir__spares *spares,
		      struct weir__piece *c)
{
	struct weir__piece *next = weir__piece(p, c->next);

	c->bytes += next->bytes;
	if (next->number > c->number)
		c->number = next->number;
	c->next = next->next;
	if (c->next)
		weir__piece(p, c->next)->prev = c->self;
	weir__piece_drop(spares, next);
}

/*
 * The pieces of a bin are a treap: a search tree in the order of size and
 * address, and a heap in the order of a hash of their numbers, which keeps the
 * tree about as flat as a random one.
 */
static bool is_before(const struct weir__piece *a, const struct weir__piece *b)
{
	return a->bytes < b->bytes ||
	       (a->bytes == b->bytes && a->addr < b->addr);
}

static uint32_t rank_of(uint32_t number)
{
	return number * 0x9e3779b1u;
}

static void tree_add(const struct weir__heap_pieces *p, uint32_t *link,
		     struct weir__piece *c)
{
	uint32_t *left = &c->left, *right = &c->right, i;
	struct weir__piece *other;

	while (*link && rank_of(*link) > rank_of(c->self)) {
		other = weir__piece(p, *link);
		link = is_before(c, other) ? &other->left : &other->right;
	}
	/* It takes the place of a subtree, which it divides. */
	i = *link;
	*link = c->self;
	while (i) {
		other = weir__piece(p, i);
		if (is_before(other, c)) {
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

static void tree_del(const struct weir__heap_pieces *p, uint32_t *link,
		     const struct weir__piece *c)
{
	uint32_t left = c->left, right = c->right;
	struct weir__piece *other;

	while (*link != c->self) {
		other = weir__piece(p, *link);
		link = is_before(c, other) ? &other->left : &other->right;
	}
	/* Its subtrees, merged, take its place. */
	while (left && right) {
		if (rank_of(left) > rank_of(right)) {
			*link = left;
			link = &weir__piece(p, left)->right;
			left = *link;
		} else {
			*link = right;
			link = &weir__piece(p, right)->left;
			right = *link;
		}
	}
	*link = left ? left : right;
}

/* The first piece from (@bytes, @addr) on, or NULL. */
static struct weir__piece *tree_from(const struct weir__heap_pieces *p,
				     uint32_t root, uint64_t bytes,
				     uint64_t addr)
{
	struct weir__piece *best = NULL, *c;

	for (uint32_t i = root; i;) {
		c = weir__piece(p, i);
		if (c->bytes < bytes || (c->bytes == bytes && c->addr < addr)) {
			i = c->right;
		} else {
			best = c;
			i = c->left;
		}
	}
	return best;
}

void weir__bins_add(struct weir__heap_pieces *p, struct weir__bins *b,
		    struct weir__piece *c)
{
	struct weir__bin at = weir__bin_of(c->bytes >> p->shift);

	tree_add(p, &b->root[at.level][at.bin], c);
	b->second[at.level] |= 1ull << at.bin;
	b->first |= 1ull << at.level;
}

void weir__bins_del(struct weir__heap_pieces *p, struct weir__bins *b,
		    struct weir__piece *c)
{
	struct weir__bin at = weir__bin_of(c->bytes >> p->shift);

	tree_del(p, &b->root[at.level][at.bin], c);
	if (b->root[at.level][at.bin])
		return;
	b->second[at.level] &= ~(1ull << at.bin);
	if (!b->second[at.level])
		b->first &= ~(1ull << at.level);
}

/* The first bin with a piece after @at; 0: there is none. */
static uint32_t bins_next(const struct weir__bins *b, struct weir__bin at)
{
	uint64_t bits = b->second[at.level] & (~0ull << at.bin << 1);
	uint64_t levels = b->first & (~0ull << at.level << 1);

	if (!bits) {
		if (!levels)
			return 0;
		at.level = (unsigned)__builtin_ctzll(levels);
		bits = b->second[at.level];
	}
	return b->root[at.level][__builtin_ctzll(bits)];
}

/* The first piece from (@bytes, @addr) on, or NULL. */
static struct weir__piece *bins_from(const struct weir__heap_pieces *p,
				     const struct weir__bins *b, uint64_t bytes,
				     uint64_t addr)
{
	struct weir__bin at = weir__bin_of(bytes >> p->shift);
	struct weir__piece *c =
		tree_from(p, b->root[at.level][at.bin], bytes, addr);

	return c ? c : tree_from(p, bins_next(b, at), 0, 0);
}

struct weir__piece *weir__bins_find(const struct weir__heap_pieces *p,
				    const struct weir__bins *b, uint64_t bytes,
				    uint64_t align, unsigned most)
{
	uint64_t unit = 1ull << p->shift;
	struct weir__piece *c = bins_from(p, b, bytes, 0);

	while (c && !weir__piece_fits(c, bytes, align) && most--)
		c = bins_from(p, b, c->bytes, c->addr + 1);
	if (!c || weir__piece_fits(c, bytes, align))
		return c;
	/* Any piece that is larger by this fits. */
	return bins_from(p, b, bytes + align - unit, 0);
}

uint64_t weir__bins_largest(const struct weir__heap_pieces *p,
			    const struct weir__bins *b)
{
	const struct weir__piece *c = NULL;
	unsigned level;

	if (!b->first)
		return 0;
	level = 63u - (unsigned)__builtin_clzll(b->first);
	for (uint32_t i =
		     b->root[level][63 - __builtin_clzll(b->second[level])];
	     i; i = c->right)
		c = weir__piece(p, i);
	return c->bytes;
}
