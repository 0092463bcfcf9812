/* SPDX-License-Identifier: MIT */
#include "graph/prefetch/imports.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "core/util.h"

typedef unsigned long long ull;

/*
 * An import has a long life if more others than this are first used between its
 * own first and last use.
 */
#define LONG_LIFE 4u
/*
 * An import is tiny if the largest prefetched one is at least this many times
 * larger.
 */
#define TINY 32u
/* A buffer is large if it has over 1 / RING_PART of the budget. */
#define RING_PART 4u

/*
 * An import, to be sorted by what it needs. While imports are chosen, the first
 * of several with the same bytes stands for all of them.
 */
struct sized_import {
	struct weir__sort_key key;
	uint32_t i;
	uint32_t reserved;
};

struct chooser {
	const struct weir__imports_in *in;
	struct weir__imports *out;
	struct sized_import *sized; /* those that are not kept already, the
				       largest first */
	uint32_t n_sized;
	uint32_t *live; /* prefetched imports in use at a step */
	bool *cheap;    /* set for the first of several: all are read by rows */
	unsigned factor; /* times the largest prefetched import: bytes of the
			    buffer */
	uint64_t left;   /* what is left of the budget */
	uint64_t most; /* bytes of prefetched imports that are in use at once */
	uint32_t step; /* the step at which they are in use */
};

uint64_t weir__import_need(const struct weir__imports_in *in, uint32_t i)
{
	return weir__up(in->bytes[i], in->align) +
	       (in->phase[i] == WEIR__IMPORTS_ANY ? 0 : WEIR__PAGE);
}

static uint32_t first_same(const struct weir__imports_in *in, uint32_t i)
{
	return in->same ? in->same[i] : i;
}

static bool is_by_rows(const struct weir__imports_in *in, uint32_t i)
{
	return in->by_rows && in->by_rows[i];
}

static void import_keep(struct chooser *c, uint32_t i)
{
	c->out->prefetched[i] = false;
	c->left -= weir__import_need(c->in, i);
}

/* The bytes of a buffer whose largest import has @largest bytes. */
static uint64_t buffer_cost(const struct chooser *c, uint64_t largest)
{
	uint64_t cost;

	if (c->in->buffer >= largest)
		return 0;
	return weir__mul_over(largest, c->factor, &cost) ? UINT64_MAX : cost;
}

/* True if there is room for @bytes beside the buffer. */
static bool has_room(const struct chooser *c, uint64_t bytes, uint64_t largest)
{
	uint64_t buffer = buffer_cost(c, largest);

	return buffer <= c->left && bytes <= c->left - buffer;
}

static uint64_t sized_need(const struct chooser *c, uint32_t k)
{
	return k < c->n_sized ? weir__import_need(c->in, c->sized[k].i) : 0;
}

/*
 * The first sorted import from @k on that is still prefetched; n_sized: none.
 */
static uint32_t skip_kept(const struct chooser *c, uint32_t k)
{
	while (k < c->n_sized && !c->out->prefetched[c->sized[k].i])
		k++;
	return k;
}

/* True if more than LONG_LIFE others are first used while @i is in use. */
static bool lives_long(const struct weir__imports_in *in, uint32_t i)
{
	return i + LONG_LIFE + 1 < in->n &&
	       in->first[i + LONG_LIFE + 1] <= in->last[i];
}

/*
 * True if the import has a long life, or if the same bytes were prefetched
 * before, all of them.
 */
static bool is_worth_more(const struct weir__imports_in *in, uint32_t i)
{
	uint32_t first = first_same(in, i);

	if (is_by_rows(in, i))
		return false;
	return (first != i && !is_by_rows(in, first)) || lives_long(in, i);
}

/*
 * Keep imports with a long life, and those that would be prefetched more than
 * once.
 */
static void keep_long(struct chooser *c)
{
	for (uint32_t k = 0; k < c->in->n; k++) {
		uint32_t i = first_same(c->in, k);
		uint64_t need = weir__import_need(c->in, i);

		if (!c->out->prefetched[i] || !is_worth_more(c->in, k))
			continue;
		/* The buffer has to have room for the largest of the others. */
		c->out->prefetched[i] = false;
		if (has_room(c, need, sized_need(c, skip_kept(c, 0))))
			c->left -= need;
		else
			c->out->prefetched[i] = true;
	}
}

/*
 * Keep all imports of the largest size, then those of the next smaller one,
 * while a buffer for them would be large. Returns the largest size that is
 * still prefetched.
 */
static uint64_t keep_large(struct chooser *c)
{
	uint32_t k = skip_kept(c, 0), end;
	uint64_t largest = sized_need(c, k), same;

	while (buffer_cost(c, largest) > c->in->budget / RING_PART) {
		same = 0;
		for (end = k; sized_need(c, end) == largest; end++)
			if (c->out->prefetched[c->sized[end].i])
				same += largest;
		end = skip_kept(c, end);
		if (!has_room(c, same, sized_need(c, end)))
			break;
		for (; k < end; k++)
			if (c->out->prefetched[c->sized[k].i])
				import_keep(c, c->sized[k].i);
		largest = sized_need(c, k);
	}
	return largest;
}

static void keep_tiny(struct chooser *c, uint64_t largest)
{
	for (uint32_t k = c->n_sized; k--;) {
		uint32_t i = c->sized[k].i;
		uint64_t need = sized_need(c, k);

		if (need > largest / TINY || !has_room(c, need, largest))
			return;
		if (c->out->prefetched[i])
			import_keep(c, i);
	}
}

/* Keep as many of the others as the budget allows, spread evenly. */
static void keep_share(struct chooser *c, uint64_t largest)
{
	uint64_t room = c->left - buffer_cost(c, largest), all = 0;
	double seen = 0, kept = 0, share;

	for (uint32_t i = 0; i < c->in->n; i++)
		if (c->out->prefetched[i] && first_same(c->in, i) == i &&
		    !c->cheap[i])
			all += weir__import_need(c->in, i);
	share = all ? (double)room / (double)all : 0;
	for (uint32_t i = 0; i < c->in->n; i++) {
		double need = (double)weir__import_need(c->in, i);

		if (!c->out->prefetched[i] || first_same(c->in, i) != i ||
		    c->cheap[i])
			continue;
		seen += need;
		if (kept + need > seen * share + 0.5)
			continue;
		kept += need;
		import_keep(c, i);
	}
}

/* The end of a live import in [at, at + bytes); 0: there is none. */
static uint64_t live_end(const struct chooser *c, uint32_t n, uint64_t at,
			 uint64_t bytes)
{
	uint64_t end = 0;

	for (uint32_t k = 0; k < n; k++) {
		uint64_t lo = c->out->offset[c->live[k]];
		uint64_t hi = lo + c->in->bytes[c->live[k]];

		if (lo < at + bytes && at < hi && hi > end)
			end = hi;
	}
	return end;
}

/* The first place from @at on with the alignment and phase of import @i. */
static uint64_t import_at(const struct weir__imports_in *in, uint32_t i,
			  uint64_t at)
{
	uint32_t phase = in->phase[i];

	return phase == WEIR__IMPORTS_ANY
		       ? weir__up(at, in->align)
		       : at + ((phase - at) & (WEIR__PAGE - 1));
}

/* Find a place for import @i after *@at, or at the front. False: none. */
static bool buffer_place(struct chooser *c, uint32_t i, uint32_t n_live,
			 uint64_t *at)
{
	uint64_t bytes = c->in->bytes[i], end;
	bool again = false;

	for (;;) {
		*at = import_at(c->in, i, *at);
		if (*at + bytes > c->out->buffer) {
			if (again)
				return false;
			again = true;
			*at = 0;
			continue;
		}
		end = live_end(c, n_live, *at, bytes);
		if (!end)
			return true;
		*at = end;
	}
}

/* Drop the live imports whose life ends before that of import @i begins. */
static uint32_t live_at(struct chooser *c, uint32_t i, uint32_t n)
{
	uint64_t bytes = c->in->bytes[i];
	uint32_t left = 0;

	for (uint32_t k = 0; k < n; k++)
		if (c->in->last[c->live[k]] >= c->in->first[i]) {
			c->live[left++] = c->live[k];
			bytes += c->in->bytes[c->live[k]];
		}
	if (bytes > c->most) {
		c->most = bytes;
		c->step = c->in->first[i];
	}
	return left;
}

/* Place all prefetched imports in order. False: the buffer is too small. */
static bool buffer_fill(struct chooser *c)
{
	uint32_t n_live = 0;
	uint64_t at = 0;

	for (uint32_t i = 0; i < c->in->n; i++) {
		c->out->offset[i] = 0;
		if (!c->out->prefetched[i] || is_by_rows(c->in, i))
			continue;
		n_live = live_at(c, i, n_live);
		if (!buffer_place(c, i, n_live, &at))
			return false;
		c->out->offset[i] = at;
		at += c->in->bytes[i];
		c->live[n_live++] = i;
	}
	return true;
}

/* The prefetched imports that count_need() counts. */
enum which {
	WHICH_ONCE,   /* all; those with the same bytes are counted once */
	WHICH_COSTLY, /* the same without those that are only read by rows */
	WHICH_PLACES  /* all that need a place in the buffer */
};

static bool is_counted(const struct chooser *c, enum which which, uint32_t i)
{
	if (!c->out->prefetched[i])
		return false;
	if (which == WHICH_PLACES)
		return !is_by_rows(c->in, i);
	return first_same(c->in, i) == i &&
	       !(which == WHICH_COSTLY && c->cheap[i]);
}

static uint64_t count_need(const struct chooser *c, enum which which)
{
	uint64_t need = 0;

	for (uint32_t i = 0; i < c->in->n; i++)
		if (is_counted(c, which, i) &&
		    weir__add_over(need, weir__import_need(c->in, i), &need))
			return UINT64_MAX;
	return need;
}

/*
 * Keep all imports, or all but some that are read by rows. False: they do not
 * fit, and nothing is kept.
 */
static bool keep_all(struct chooser *c)
{
	if (count_need(c, WHICH_COSTLY) > c->left)
		return false;
	for (uint32_t i = 0; i < c->in->n; i++)
		if (is_counted(c, WHICH_COSTLY, i))
			import_keep(c, i);
	for (uint32_t i = 0; i < c->in->n; i++)
		if (is_counted(c, WHICH_ONCE, i) &&
		    weir__import_need(c->in, i) <= c->left)
			import_keep(c, i);
	return true;
}

/*
 * Imports with the same bytes are kept or prefetched as the first of them is.
 */
static void follow_first(struct chooser *c)
{
	for (uint32_t i = 0; i < c->in->n; i++)
		c->out->prefetched[i] =
			c->out->prefetched[first_same(c->in, i)];
}

/* Begin again: all imports that are not kept already are prefetched. */
static void choose_begin(struct chooser *c, unsigned factor)
{
	c->factor = factor;
	c->left = c->in->budget;
	c->most = 0;
	for (uint32_t i = 0; i < c->in->n; i++)
		c->out->prefetched[i] = !c->in->is_kept || !c->in->is_kept[i];
}

/* Choose for a buffer of @factor; 0: it has all of the budget. */
static bool choose(struct chooser *c, unsigned factor)
{
	uint64_t largest, need;

	choose_begin(c, factor);
	if (keep_all(c)) {
		follow_first(c);
		c->out->buffer = 0;
		return buffer_fill(c);
	}
	if (!factor) {
		c->out->buffer = c->left;
		return buffer_fill(c);
	}
	keep_long(c);
	largest = keep_large(c);
	if (!has_room(c, 0, largest))
		return false;
	keep_tiny(c, largest);
	keep_share(c, largest);
	follow_first(c);
	need = count_need(c, WHICH_PLACES);
	c->out->buffer = c->left < need ? c->left : need;
	if (c->in->buffer >= largest)
		c->out->buffer = c->in->buffer;
	return buffer_fill(c);
}

/* Sort the imports that the choice is about, the largest first. */
static int sort_sizes(struct chooser *c)
{
	for (uint32_t i = 0; i < c->in->n; i++)
		c->cheap[i] = true;
	for (uint32_t i = 0; i < c->in->n; i++)
		if (!is_by_rows(c->in, i))
			c->cheap[first_same(c->in, i)] = false;
	for (uint32_t i = 0; i < c->in->n; i++)
		if (first_same(c->in, i) == i && !c->cheap[i] &&
		    (!c->in->is_kept || !c->in->is_kept[i]))
			c->sized[c->n_sized++] = (struct sized_import){
				.key = { ~weir__import_need(c->in, i), i },
				.i = i
			};
	return weir__sort(c->sized, c->n_sized, sizeof(*c->sized));
}

static int choose_any(struct chooser *c)
{
	for (unsigned factor = 4; factor--;)
		if (choose(c, factor))
			return 0;
	return weir__fail(
		-ENOMEM,
		"step %u needs %llu bytes of constant leaves at once, the limit leaves %llu for them",
		c->step, (ull)c->most, (ull)c->in->budget);
}

static void count_bytes(struct chooser *c)
{
	c->out->kept_bytes = c->out->prefetched_bytes = 0;
	for (uint32_t i = 0; i < c->in->n; i++)
		if (c->out->prefetched[i])
			c->out->prefetched_bytes += is_by_rows(c->in, i)
							    ? c->in->by_rows[i]
							    : c->in->bytes[i];
		else if (first_same(c->in, i) == i)
			c->out->kept_bytes += c->in->bytes[i];
}

int weir__imports(const struct weir__imports_in *in, struct weir__imports *ret)
{
	size_t n = in->n + (size_t)1; /* never 0 */
	struct weir__imports out = { 0 };
	struct chooser c = { .in = in, .out = &out };
	int r = -ENOMEM;

	out.prefetched = weir__array_alloc(n, sizeof(*out.prefetched));
	out.offset = weir__array_alloc(n, sizeof(*out.offset));
	c.live = weir__array_alloc(n, sizeof(*c.live));
	c.cheap = weir__array_alloc(n, sizeof(*c.cheap));
	c.sized = weir__array_alloc(n, sizeof(*c.sized));
	if (out.prefetched && out.offset && c.live && c.cheap && c.sized)
		r = sort_sizes(&c);
	r = r < 0 ? weir__fail(r, "no memory for %u constant leaves", in->n)
		  : choose_any(&c);
	weir__array_free(c.live);
	weir__array_free(c.cheap);
	weir__array_free(c.sized);
	if (r < 0) {
		weir__imports_free(&out);
		return r;
	}
	count_bytes(&c);
	*ret = out;
	return 0;
}

void weir__imports_free(struct weir__imports *imports)
{
	weir__array_free(imports->prefetched);
	weir__array_free(imports->offset);
	memset(imports, 0, sizeof(*imports));
}
