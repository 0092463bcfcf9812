/* SPDX-License-Identifier: MIT */
#include "heap/tlsf.h"

#include <assert.h>
#include <limits.h>

#include "core/error.h"
#include "core/sys.h"

void weir__tlsf_init(struct weir__tlsf *t, unsigned shift)
{
	*t = (struct weir__tlsf){ .shift = shift };
}

void weir__tlsf_fini(struct weir__tlsf *t)
{
	for (unsigned i = 0; i < WEIR__SLABS; i++)
		weir__free(atomic_load(&t->slab[i]));
}

static int slab_add(struct weir__tlsf *t)
{
	uint32_t made = atomic_load(&t->made), n;
	struct weir__piece *slab;
	unsigned i = 0;

	while (i < WEIR__SLABS && atomic_load(&t->slab[i]))
		i++;
	if (i == WEIR__SLABS)
		return weir__fail(-ENOMEM, "%u pieces, the most of a heap",
				  made);
	n = 1u << (WEIR__SLAB_FIRST + i);
	slab = weir__calloc_aligned(n, sizeof(*slab));
	if (!slab)
		return weir__fail(-ENOMEM, "no memory for %u more pieces", n);
	atomic_store(&t->slab[i], slab);
	/* Lowest numbers are taken first; number 0 is not used. */
	for (uint32_t j = n; j-- > (made ? 0 : 1);) {
		slab[j].self = made + j;
		slab[j].older = t->spare;
		t->spare = slab[j].self;
		t->n_spare++;
	}
	atomic_store(&t->made, made + n);
	return 0;
}

int weir__tlsf_reserve(struct weir__tlsf *t, unsigned n)
{
	return t->n_spare >= n ? 0 : slab_add(t);
}

struct weir__piece *weir__piece_new(struct weir__tlsf *t)
{
	struct weir__piece *c = weir__piece(t, t->spare);

	assert(t->n_spare);
	t->spare = c->older;
	t->n_spare--;
	c->prev = c->next = 0;
	return c;
}

void weir__piece_drop(struct weir__tlsf *t, struct weir__piece *c)
{
	weir__piece_set(c, WEIR__PIECE_UNUSED);
	c->older = t->spare;
	t->spare = c->self;
	t->n_spare++;
}

struct weir__piece *weir__piece_split(struct weir__tlsf *t,
				      struct weir__piece *c, uint64_t bytes)
{
	struct weir__piece *rest = weir__piece_new(t);

	rest->addr = c->addr + bytes;
	rest->bytes = c->bytes - bytes;
	rest->number = c->number;
	rest->lane = c->lane;
	rest->region = c->region;
	weir__piece_set(rest, weir__piece_tag(c) & 3);
	rest->prev = c->self;
	rest->next = c->next;
	if (c->next)
		weir__piece(t, c->next)->prev = rest->self;
	c->next = rest->self;
	c->bytes = bytes;
	return rest;
}

void weir__piece_join(struct weir__tlsf *t, struct weir__piece *c)
{
	struct weir__piece *next = weir__piece(t, c->next);

	c->bytes += next->bytes;
	if (next->number > c->number)
		c->number = next->number;
	c->next = next->next;
	if (c->next)
		weir__piece(t, c->next)->prev = c->self;
	weir__piece_drop(t, next);
}

void weir__bins_add(struct weir__tlsf *t, struct weir__bins *b,
		    struct weir__piece *c)
{
	struct weir__bin at = weir__bin_of(c->bytes >> t->shift);
	uint32_t *head = &b->head[at.level][at.bin];

	c->older = *head;
	c->newer = 0;
	if (*head)
		weir__piece(t, *head)->newer = c->self;
	*head = c->self;
	b->second[at.level] |= 1ull << at.bin;
	b->first |= 1ull << at.level;
}

void weir__bins_del(struct weir__tlsf *t, struct weir__bins *b,
		    struct weir__piece *c)
{
	struct weir__bin at;

	if (c->older)
		weir__piece(t, c->older)->newer = c->newer;
	if (c->newer) {
		weir__piece(t, c->newer)->older = c->older;
		return;
	}
	at = weir__bin_of(c->bytes >> t->shift);
	b->head[at.level][at.bin] = c->older;
	if (c->older)
		return;
	b->second[at.level] &= ~(1ull << at.bin);
	if (!b->second[at.level])
		b->first &= ~(1ull << at.level);
}

/* The next bin with a piece, from *@at on. False: there is none. */
static bool bins_next(const struct weir__bins *b, struct weir__bin *at)
{
	uint64_t bits = b->second[at->level] & (~0ull << at->bin);

	if (!bits) {
		uint64_t levels = b->first & (~0ull << at->level) &
				  ~(1ull << at->level);

		if (!levels)
			return false;
		at->level = (unsigned)__builtin_ctzll(levels);
		bits = b->second[at->level];
	}
	at->bin = (unsigned)__builtin_ctzll(bits);
	return true;
}

static struct weir__piece *smallest(const struct weir__tlsf *t, uint32_t i,
				    uint64_t bytes, uint64_t align,
				    unsigned most)
{
	struct weir__piece *best = NULL, *c;

	for (unsigned n = 0; i && n < most; n++, i = c->older) {
		c = weir__piece(t, i);
		if ((best && c->bytes >= best->bytes) ||
		    !weir__piece_fits(c, bytes, align))
			continue;
		best = c;
		/* None in this bin is smaller. */
		if (c->bytes == bytes || c->bytes >> t->shift < 128)
			break;
	}
	return best;
}

/*
 * Pieces of the first bin may be too small, those of the second are not; the
 * places of either may be too small because of the alignment.
 */
static struct weir__piece *find_from(const struct weir__tlsf *t,
				     const struct weir__bins *b, uint64_t from,
				     uint64_t bytes, uint64_t align,
				     unsigned most)
{
	struct weir__bin at = weir__bin_of(from >> t->shift);
	struct weir__piece *c = NULL;

	for (unsigned tries = 0; !c && tries < (most == UINT_MAX ? most : 2);
	     tries++) {
		if (at.level == WEIR__LEVELS || !bins_next(b, &at))
			return NULL;
		c = smallest(t, b->head[at.level][at.bin], bytes, align, most);
		at.level += at.bin == 63;
		at.bin = (at.bin + 1) & 63;
	}
	return c;
}

struct weir__piece *weir__bins_find(const struct weir__tlsf *t,
				    const struct weir__bins *b, uint64_t bytes,
				    uint64_t align, unsigned most)
{
	uint64_t unit = 1ull << t->shift;
	struct weir__piece *c = find_from(t, b, bytes, bytes, align, most);

	if (c || align <= unit)
		return c;
	/* Any piece that is larger by this fits. */
	return find_from(t, b, bytes + align - unit, bytes, align, most);
}

uint64_t weir__bins_largest(const struct weir__tlsf *t,
			    const struct weir__bins *b)
{
	uint64_t most = 0;
	unsigned level, bin;

	if (!b->first)
		return 0;
	level = 63u - (unsigned)__builtin_clzll(b->first);
	bin = 63u - (unsigned)__builtin_clzll(b->second[level]);
	for (uint32_t i = b->head[level][bin]; i;) {
		const struct weir__piece *c = weir__piece(t, i);

		if (c->bytes > most)
			most = c->bytes;
		i = c->older;
	}
	return most;
}
