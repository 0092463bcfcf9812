/* SPDX-License-Identifier: MIT */
#include "place/sections.h"

#include <stdlib.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/array.h"

/* A section is separated again so often, after its longest were placed. */
#define MAX_DEPTH 64

static int no_memory(size_t n)
{
	return weir__fail(-ENOMEM, "no memory to place %zu items", n);
}

struct moment {
	int64_t time;
	uint32_t piece;
};

static int moment_order(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->piece < y->piece ? -1 : x->piece > y->piece;
}

/* Most lists are given in the order of time. */
static void moments_sort(struct moment *m, size_t n)
{
	size_t i = 1;

	while (i < n && moment_order(&m[i - 1], &m[i]) < 0)
		i++;
	if (i < n)
		qsort(m, n, sizeof(*m), moment_order);
}

/*
 * The most bytes that live at one time. @by_lower: as in struct weir__sections.
 */
static int most_bytes(const struct weir__pieces *p, const uint32_t *by_lower,
		      size_t n, uint64_t *ret_bytes)
{
	struct moment *end = weir__malloc(n * sizeof(*end));
	uint64_t live = 0, most = 0;
	size_t ended = 0;

	if (!end)
		return no_memory(n);
	for (size_t i = 0; i < n; i++)
		end[i] = (struct moment){ p->piece[by_lower[i]].upper,
					  by_lower[i] };
	moments_sort(end, n);
	for (size_t i = 0; i < n; i++) {
		const struct weir__place_piece *piece = &p->piece[by_lower[i]];

		for (; end[ended].time <= piece->lower; ended++)
			live -= p->piece[end[ended].piece].bytes;
		live += piece->bytes;
		if (most < live)
			most = live;
	}
	weir__free(end);
	*ret_bytes = most;
	return 0;
}

static int sort_pieces(struct weir__sections *s, const struct weir__pieces *p)
{
	struct moment *begin = weir__malloc(p->n * sizeof(*begin));

	s->piece = weir__malloc(p->n * sizeof(*s->piece));
	if (!begin || !s->piece) {
		weir__free(begin);
		return no_memory(p->n);
	}
	for (uint32_t i = 0; i < p->n; i++)
		begin[i] = (struct moment){ p->piece[i].lower, i };
	moments_sort(begin, p->n);
	for (size_t i = 0; i < p->n; i++)
		s->piece[i] = begin[i].piece;
	weir__free(begin);
	return 0;
}

/* The end of the last piece that is linked to this one. */
static int64_t end_of(const struct weir__pieces *p,
		      const struct weir__place_piece *x)
{
	while (x->next != WEIR__NO_PIECE)
		x = &p->piece[x->next];
	return x->upper;
}

/* The number of pieces from @list[0] on that are one section. */
static size_t section_length(const struct weir__pieces *p, const uint32_t *list,
			     size_t n, int64_t *ret_upper)
{
	int64_t upper = end_of(p, &p->piece[list[0]]);
	size_t i;

	for (i = 1; i < n && p->piece[list[i]].lower < upper; i++) {
		const struct weir__place_piece *x = &p->piece[list[i]];

		/* A linked piece begins where the one before it ends. */
		if (!x->follows && upper < end_of(p, x))
			upper = end_of(p, x);
	}
	*ret_upper = upper;
	return i;
}

/*
 * Place the pieces that live as long as the section at its base, and remove
 * them from its list. Whatever is optimal for the others stays so above them,
 * as long as their bytes keep every alignment.
 */
static void section_peel(struct weir__pieces *p, struct weir__section *s,
			 int64_t upper)
{
	int64_t lower = p->piece[s->piece[0]].lower;
	uint64_t align = 1, base;
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (align < p->piece[s->piece[i]].align)
			align = p->piece[s->piece[i]].align;
	for (size_t i = 0; i < s->n; i++) {
		struct weir__place_piece *x = &p->piece[s->piece[i]];

		if (x->lower == lower && x->upper == upper &&
		    !(x->bytes & (align - 1))) {
			base = weir__pieces_fit(p, s->base, x->bytes, x->align);
			x->offset = base;
			s->base = base + x->bytes;
		} else {
			s->piece[kept++] = s->piece[i];
		}
	}
	s->n = kept;
}

static int section_add(struct weir__sections *all, const struct weir__pieces *p,
		       struct weir__section *s)
{
	struct weir__section *list =
		weir__grow(all->section, &all->max, all->n, sizeof(*list));
	int r;

	if (!list)
		return no_memory(p->n);
	all->section = list;
	r = most_bytes(p, s->piece, s->n, &s->bound);
	if (r < 0)
		return r;
	s->bound += s->base;
	list[all->n++] = *s;
	return 0;
}

static int separate(struct weir__sections *all, struct weir__pieces *p,
		    uint32_t *list, size_t n, uint64_t base, unsigned depth)
{
	int r = 0;

	while (n && !r) {
		struct weir__section s = { .piece = list, .base = base };
		int64_t upper;

		s.n = section_length(p, list, n, &upper);
		list += s.n;
		n -= s.n;
		section_peel(p, &s, upper);
		if (all->height < s.base)
			all->height = s.base;
		if (s.base != base && depth < MAX_DEPTH)
			r = separate(all, p, s.piece, s.n, s.base, depth + 1);
		else if (s.n)
			r = section_add(all, p, &s);
	}
	return r;
}

int weir__sections_make(struct weir__sections *s, struct weir__pieces *p)
{
	int r;

	*s = (struct weir__sections){ .n = 0 };
	if (!p->n)
		return 0;
	r = sort_pieces(s, p);
	return r ? r : separate(s, p, s->piece, p->n, 0, 0);
}

void weir__sections_free(struct weir__sections *s)
{
	weir__free(s->piece);
	weir__free(s->section);
}
