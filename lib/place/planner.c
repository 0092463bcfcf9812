/* SPDX-License-Identifier: MIT */
#include "place/planner.h"

#include <stdlib.h>

#include "core/array.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/exact.h"
#include "place/greedy.h"

/* Independent problems: a section shares no moment of time with another. */
struct sections {
	struct weir__section *section;
	size_t n, max;
	uint32_t *rect;  /* all rectangles by lower: sections point here */
	uint64_t height; /* end of the rectangles that are in no section */
};

/* How often a section is separated again, after its longest were placed. */
#define MAX_DEPTH 64

static int no_memory(size_t n)
{
	return weir__fail(-ENOMEM, "no memory to place %zu items", n);
}

/* The beginning or the end of a rectangle. */
struct moment {
	int64_t time;
	uint32_t rect;
};

static int moment_order(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->rect < y->rect ? -1 : x->rect > y->rect;
}

/* Most lists are in the order of time already. */
static void moments_sort(struct moment *m, size_t n)
{
	size_t i = 1;

	while (i < n && moment_order(&m[i - 1], &m[i]) < 0)
		i++;
	if (i < n)
		qsort(m, n, sizeof(*m), moment_order);
}

/* The most bytes that live at one time. @by_lower: rectangles by lower. */
static int most_bytes(const struct weir__rects *p, const uint32_t *by_lower,
		      size_t n, uint64_t *ret_bytes)
{
	struct moment *end = weir__malloc(n * sizeof(*end));
	uint64_t live = 0, most = 0;
	size_t ended = 0;

	if (!end)
		return no_memory(n);
	for (size_t i = 0; i < n; i++)
		end[i] = (struct moment){ p->rect[by_lower[i]].upper,
					  by_lower[i] };
	moments_sort(end, n);
	for (size_t i = 0; i < n; i++) {
		const struct weir__rect *rect = &p->rect[by_lower[i]];

		for (; end[ended].time <= rect->lower; ended++)
			live -= p->rect[end[ended].rect].bytes;
		live += rect->bytes;
		if (most < live)
			most = live;
	}
	weir__free(end);
	*ret_bytes = most;
	return 0;
}

static int sort_rects_by_time(struct sections *s, const struct weir__rects *p)
{
	struct moment *begin = weir__malloc(p->n * sizeof(*begin));

	s->rect = weir__malloc(p->n * sizeof(*s->rect));
	if (!begin || !s->rect) {
		weir__free(begin);
		return no_memory(p->n);
	}
	for (uint32_t i = 0; i < p->n; i++)
		begin[i] = (struct moment){ p->rect[i].lower, i };
	moments_sort(begin, p->n);
	for (size_t i = 0; i < p->n; i++)
		s->rect[i] = begin[i].rect;
	weir__free(begin);
	return 0;
}

/* The end of the last rectangle that is linked to this one. */
static int64_t end_of(const struct weir__rects *p, const struct weir__rect *x)
{
	while (x->next != WEIR__NO_RECT)
		x = &p->rect[x->next];
	return x->upper;
}

/*
 * The number of rectangles, from the first of @list on, that are one section.
 */
static size_t section_length(const struct weir__rects *p, const uint32_t *list,
			     size_t n, int64_t *ret_upper)
{
	int64_t upper = end_of(p, &p->rect[list[0]]);
	size_t i;

	for (i = 1; i < n && p->rect[list[i]].lower < upper; i++) {
		const struct weir__rect *x = &p->rect[list[i]];

		/* A linked rectangle begins where the one before it ends. */
		if (!x->follows && upper < end_of(p, x))
			upper = end_of(p, x);
	}
	*ret_upper = upper;
	return i;
}

/*
 * Place the rectangles that live as long as the section at its base, and remove
 * them from its list. A placement that is optimal for the others is still
 * optimal above them, as long as their sizes are multiples of every alignment.
 */
static void section_place_longest(struct weir__rects *p,
				  struct weir__section *s, int64_t upper)
{
	int64_t lower = p->rect[s->rect[0]].lower;
	uint64_t align = 1, base;
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++)
		if (align < p->rect[s->rect[i]].align)
			align = p->rect[s->rect[i]].align;
	for (size_t i = 0; i < s->n; i++) {
		struct weir__rect *x = &p->rect[s->rect[i]];

		if (x->lower == lower && x->upper == upper &&
		    !(x->bytes & (align - 1))) {
			base = weir__rects_fit(p, s->base, x->bytes, x->align);
			x->offset = base;
			s->base = base + x->bytes;
		} else {
			s->rect[kept++] = s->rect[i];
		}
	}
	s->n = kept;
}

static int section_add(struct sections *all, const struct weir__rects *p,
		       struct weir__section *s)
{
	struct weir__section *list =
		weir__grow(all->section, &all->max, all->n, sizeof(*list));
	int r;

	if (!list)
		return no_memory(p->n);
	all->section = list;
	r = most_bytes(p, s->rect, s->n, &s->bound);
	if (r < 0)
		return r;
	s->bound += s->base;
	list[all->n++] = *s;
	return 0;
}

/* Separate the @n rectangles of @list into sections. */
static int separate(struct sections *all, struct weir__rects *p, uint32_t *list,
		    size_t n, uint64_t base, unsigned depth)
{
	int r = 0;

	while (n && !r) {
		struct weir__section s = { .rect = list, .base = base };
		int64_t upper;

		s.n = section_length(p, list, n, &upper);
		list += s.n;
		n -= s.n;
		section_place_longest(p, &s, upper);
		if (all->height < s.base)
			all->height = s.base;
		if (s.base != base && depth < MAX_DEPTH)
			r = separate(all, p, s.rect, s.n, s.base, depth + 1);
		else if (s.n)
			r = section_add(all, p, &s);
	}
	return r;
}

/*
 * Separate @p, and place the rectangles that live as long as a section. -ENOMEM
 * with a sentence. sections_free() is needed in any case.
 */
static int sections_make(struct sections *s, struct weir__rects *p)
{
	int r;

	*s = (struct sections){ .n = 0 };
	if (!p->n)
		return 0;
	r = sort_rects_by_time(s, p);
	return r ? r : separate(s, p, s->rect, p->n, 0, 0);
}

static void sections_free(struct sections *s)
{
	weir__free(s->rect);
	weir__free(s->section);
}

/*
 * A try by scans of n rectangles examines at most n^2 / 2 of them, in about two
 * nanoseconds each. This is enough for all seven tries of 20,000 rectangles,
 * which take three seconds at most, and for one try of 52,000.
 */
#define SCANS ((uint64_t)7 * 20000 * 20000 / 2)

/* The highest section; NULL: there is none. */
static struct weir__section *highest(const struct sections *all)
{
	struct weir__section *s = NULL;

	for (size_t i = 0; i < all->n; i++)
		if (!s || s->height < all->section[i].height)
			s = &all->section[i];
	return s;
}

/* The height and the bound of all sections. */
static void result_update(struct weir__planner_result *result,
			  const struct sections *all)
{
	result->height = result->bound = all->height;
	for (size_t i = 0; i < all->n; i++) {
		const struct weir__section *s = &all->section[i];

		if (result->height < s->height)
			result->height = s->height;
		if (result->bound < s->bound)
			result->bound = s->bound;
	}
}

/* A section need not be lower than the bound of another. */
static int run_greedy(struct weir__rects *p, struct sections *all,
		      struct weir__planner_result *result)
{
	int r = 0;

	p->scan_budget = SCANS;
	result_update(result, all);
	for (size_t i = 0; i < all->n && !r; i++)
		r = weir__greedy_place(p, &all->section[i], result->bound);
	result_update(result, all);
	return r;
}

/*
 * Search for a placement of the section that ends at @enough at most; s->base:
 * minimise.
 */
static int section_search(struct weir__rects *p, struct weir__section *s,
			  const struct weir__planner_opts *opts,
			  uint64_t enough, uint64_t *nodes)
{
	struct weir__exact_opts o = { .capacity = enough - s->base,
				      .deadline = opts->deadline,
				      .threads = opts->threads };
	struct weir__exact_item *item = weir__malloc(s->n * sizeof(*item));
	uint64_t *offset = weir__malloc(s->n * sizeof(*offset));
	struct weir__exact_result result;
	int r = item && offset ? 0 : -ENOMEM;

	for (size_t i = 0; i < s->n && !r; i++) {
		const struct weir__rect *x = &p->rect[s->rect[i]];

		item[i] = (struct weir__exact_item){ x->lower, x->upper,
						     x->bytes, x->align, 0 };
		/* The greedy planner has set the index of each rectangle. */
		if (x->next != WEIR__NO_RECT)
			item[i].next = (size_t)p->rect[x->next].index + 1;
		offset[i] = x->offset - s->base;
	}
	if (!r)
		r = weir__exact_place(item, s->n, &o, offset, &result);
	else
		weir__fail(r, "no memory to search for places of %zu items",
			   s->n);
	for (size_t i = 0; i < s->n && !r; i++)
		p->rect[s->rect[i]].offset = s->base + offset[i];
	if (!r) {
		*nodes += result.nodes;
		s->height = s->base + result.height;
		if (s->bound < s->base + result.bound)
			s->bound = s->base + result.bound;
	}
	weir__free(item);
	weir__free(offset);
	return r;
}

/*
 * Search for a lower placement of the highest section, until it was searched:
 * the lower sections do not matter. Sections with too many rectangles keep the
 * placement of the greedy planner.
 */
static int run_exact(struct weir__rects *p, struct sections *all,
		     const struct weir__planner_opts *opts,
		     struct weir__planner_result *result)
{
	struct weir__section *s;
	int r = 0;

	while (!r && (s = highest(all)) && !s->searched &&
	       s->n <= WEIR__EXACT_ITEMS && weir__now() < opts->deadline) {
		uint64_t enough = result->bound > opts->enough ? result->bound
							       : opts->enough;
		bool minimise = enough <= s->bound;

		if (s->height <= enough ||
		    (opts->capacity && result->bound > opts->capacity))
			break;
		r = section_search(p, s, opts, minimise ? s->base : enough,
				   &result->nodes);
		/* If it cannot be so low, the next search minimises. */
		s->searched = minimise;
		result_update(result, all);
	}
	return r;
}

static int place_once(struct weir__rects *p,
		      const struct weir__planner_opts *opts,
		      struct weir__planner_result *ret)
{
	struct sections all;
	int r = sections_make(&all, p);

	if (!r)
		r = run_greedy(p, &all, ret);
	if (!r && opts->deadline && !p->stride)
		r = run_exact(p, &all, opts, ret);
	sections_free(&all);
	return r;
}

int weir__rects_place(struct weir__rects *p,
		      const struct weir__planner_opts *opts,
		      struct weir__planner_result *ret)
{
	struct weir__planner_result result = { .nodes = 0 };
	int r = place_once(p, opts, &result);

	if (!r && opts->max && result.height > opts->max) {
		uint64_t bound = result.bound;

		p->stride = weir__down(opts->max, p->align);
		r = place_once(p, opts, &result);
		result.bound = bound;
	}
	if (!r)
		*ret = result;
	return r;
}
