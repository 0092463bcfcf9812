/* SPDX-License-Identifier: MIT */
/*
 * Blocks by address, for weir_heap_find(): a hash table with open addressing,
 * at most half full, of numbers of pieces that are not in bins. It exists from
 * the first weir_heap_find() on. Called with the heap's lock held.
 */
#include "core/error.h"
#include "core/sys.h"
#include "heap/heap.h"

#define FIRST_BITS 10u

struct weir__index {
	unsigned bits;
	size_t n;
	uint32_t *entry; /* 1 << bits; 0: empty */
};

static size_t entry_of(const struct weir__index *x, uint64_t addr)
{
	return addr * 0x9e3779b97f4a7c15u >> (64 - x->bits);
}

static size_t entry_next(const struct weir__index *x, size_t i)
{
	return (i + 1) & (((size_t)1 << x->bits) - 1);
}

static void entry_add(const struct weir_heap *h, struct weir__index *x,
		      uint32_t number)
{
	size_t i = entry_of(x, weir__heap_piece(h, number)->addr);

	while (x->entry[i])
		i = entry_next(x, i);
	x->entry[i] = number;
}

static int index_grow(struct weir_heap *h, struct weir__index *x)
{
	size_t n = (size_t)1 << x->bits;
	struct weir__index larger = { .bits = x->bits + 1, .n = x->n };

	larger.entry = weir__calloc(n * 2, sizeof(*larger.entry));
	if (!larger.entry)
		return weir__fail(-ENOMEM,
				  "no memory for an index of %zu blocks of %s",
				  n, h->label);
	for (size_t i = 0; x->entry && i < n; i++)
		if (x->entry[i])
			entry_add(h, &larger, x->entry[i]);
	weir__free(x->entry);
	*x = larger;
	return 0;
}

int weir__index_reserve(struct weir_heap *h)
{
	struct weir__index *x = h->index;

	if (!x || x->n + 1 <= (size_t)1 << (x->bits - 1))
		return 0;
	return index_grow(h, x);
}

void weir__index_add(struct weir_heap *h, const struct weir__piece *c)
{
	if (!h->index)
		return;
	entry_add(h, h->index, c->self);
	h->index->n++;
}

/* The index of the entry of the piece at @addr, or of an empty entry. */
static size_t entry_find(const struct weir_heap *h, const struct weir__index *x,
			 uint64_t addr)
{
	size_t i = entry_of(x, addr);

	while (x->entry[i] && weir__heap_piece(h, x->entry[i])->addr != addr)
		i = entry_next(x, i);
	return i;
}

/*
 * Later entries move into the hole, so that searches find them, unless the hole
 * is before the entry where their search begins.
 */
void weir__index_del(struct weir_heap *h, const struct weir__piece *c)
{
	struct weir__index *x = h->index;
	size_t hole, i, mask;

	if (!x)
		return;
	mask = ((size_t)1 << x->bits) - 1;
	hole = i = entry_find(h, x, c->addr);
	while (x->entry[i = entry_next(x, i)]) {
		uint64_t addr = weir__heap_piece(h, x->entry[i])->addr;

		if (((i - entry_of(x, addr)) & mask) < ((i - hole) & mask))
			continue;
		x->entry[hole] = x->entry[i];
		hole = i;
	}
	x->entry[hole] = 0;
	x->n--;
}

struct weir__piece *weir__index_find(struct weir_heap *h, uint64_t addr)
{
	uint32_t number = h->index->entry[entry_find(h, h->index, addr)];

	return number ? weir__heap_piece(h, number) : NULL;
}

static int add_region(struct weir_heap *h, const struct weir__region *region)
{
	const struct weir__piece *c;
	int r;

	if (!region->bytes)
		return 0;
	for (uint32_t i = region->first; i; i = c->next) {
		c = weir__heap_piece(h, i);
		if (weir__piece_is_free(c))
			continue;
		r = weir__index_reserve(h);
		if (r < 0)
			return r;
		weir__index_add(h, c);
	}
	return 0;
}

int weir__index_make(struct weir_heap *h)
{
	int r = 0;

	h->index = weir__calloc(1, sizeof(*h->index));
	if (!h->index)
		return weir__fail(-ENOMEM, "no memory for an index of %s",
				  h->label);
	h->index->bits = FIRST_BITS - 1;
	r = index_grow(h, h->index);
	for (unsigned i = 0; !r && i < h->end_regions; i++)
		if (h->region[i])
			r = add_region(h, h->region[i]);
	if (r < 0)
		weir__index_free(h);
	return r;
}

void weir__index_free(struct weir_heap *h)
{
	if (h->index)
		weir__free(h->index->entry);
	weir__free(h->index);
	h->index = NULL;
}
