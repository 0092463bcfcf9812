/* SPDX-License-Identifier: MIT */
#include "place/conflict_graph.h"

#include <errno.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

/* The height of the placed rectangles at each time: a tree of maxima. */
struct skyline {
	size_t leaves;  /* a power of two */
	uint64_t *max;  /* maximum of each node; node 1 is the root */
	uint64_t *over; /* set for a whole node at once; 0: not set */
};

/* @n moments (> 0), of height 0. -ENOMEM without a sentence. */
static int skyline_init(struct skyline *s, size_t n)
{
	s->leaves = 1;
	while (s->leaves < n)
		s->leaves *= 2;
	s->max = weir__calloc(4 * s->leaves, sizeof(*s->max));
	if (!s->max)
		return -ENOMEM;
	s->over = s->max + 2 * s->leaves;
	return 0;
}

static void skyline_free(struct skyline *s)
{
	weir__free(s->max);
	s->max = NULL;
}

/*
 * Raise the nodes above @node. A height that is set for a whole node is never
 * passed down: heights only grow, so the height of a moment is the maximum on
 * the way to its leaf.
 */
static void raise_above(struct skyline *s, size_t node, uint64_t height)
{
	while ((node /= 2) && s->max[node] < height)
		s->max[node] = height;
}

static void raise_node(struct skyline *s, size_t node, uint64_t height)
{
	s->max[node] = s->over[node] = height;
	raise_above(s, node, height);
}

/* Raise the moments [from, to) to @height, which is at least their maximum. */
static void skyline_raise(struct skyline *s, size_t from, size_t to,
			  uint64_t height)
{
	for (from += s->leaves, to += s->leaves; from < to;
	     from /= 2, to /= 2) {
		if (from & 1)
			raise_node(s, from++, height);
		if (to & 1)
			raise_node(s, --to, height);
	}
}

static uint64_t max_above(const struct skyline *s, size_t node, uint64_t max)
{
	while (node /= 2)
		if (max < s->over[node])
			max = s->over[node];
	return max;
}

/* The maximum of the moments [from, to). */
static uint64_t skyline_max(const struct skyline *s, size_t from, size_t to)
{
	uint64_t max = 0;

	from += s->leaves;
	to += s->leaves;
	/* What is set above the first and the last moment covers all. */
	max = max_above(s, from, max_above(s, to - 1, 0));
	for (; from < to; from /= 2, to /= 2) {
		if (from & 1) {
			max = max > s->max[from] ? max : s->max[from];
			from++;
		}
		if (to & 1) {
			to--;
			max = max > s->max[to] ? max : s->max[to];
		}
	}
	return max;
}

/* Conflicts that are listed at most; rectangles with too many become long. */
#define PAIRS(n) (((uint64_t)1 << 20) + 12 * (uint64_t)(n))

static int no_memory(size_t n)
{
	return weir__fail(-ENOMEM, "no memory to place %zu items", n);
}

/* Times as indices of rectangles: half-open, as the lifetimes are. */
static void graph_times(struct weir__conflict_graph *cg,
			const struct weir__rects *p,
			const struct weir__section *s)
{
	size_t from = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct weir__rect *rect = &p->rect[s->rect[i]];
		size_t low = i + 1, high = s->n;

		if (rect->lower != p->rect[s->rect[from]].lower)
			from = i;
		while (low < high) {
			size_t mid = low + (high - low) / 2;

			if (p->rect[s->rect[mid]].lower < rect->upper)
				low = mid + 1;
			else
				high = mid;
		}
		cg->rect[i].from = (uint32_t)from;
		cg->rect[i].to = (uint32_t)low;
	}
}

/* Links between the rectangles of the section. */
static void graph_links(struct weir__conflict_graph *cg, struct weir__rects *p,
			const struct weir__section *s)
{
	for (size_t i = 0; i < s->n; i++)
		p->rect[s->rect[i]].index = (uint32_t)i;
	/* Backwards: a next rectangle begins later than the one before it. */
	for (size_t i = s->n; i-- > 0;) {
		const struct weir__rect *source = &p->rect[s->rect[i]];
		struct weir__section_rect *rect = &cg->rect[i];

		rect->time = (uint64_t)source->upper - (uint64_t)source->lower;
		rect->next = source->next;
		if (source->next != WEIR__NO_RECT) {
			rect->next = p->rect[source->next].index;
			rect->time += cg->rect[rect->next].time;
		}
	}
}

static void graph_rects(struct weir__conflict_graph *cg, struct weir__rects *p,
			const struct weir__section *s)
{
	for (size_t i = 0; i < s->n; i++) {
		const struct weir__rect *rect = &p->rect[s->rect[i]];

		cg->rect[i].bytes = rect->bytes;
		cg->rect[i].align = rect->align;
		cg->rect[i].lowest = s->base;
		cg->rect[i].follows = rect->follows;
	}
	graph_times(cg, p, s);
	graph_links(cg, p, s);
}

/* Set the most bytes that live at one time of each rectangle's life. */
static int graph_pressure(struct weir__conflict_graph *cg)
{
	struct skyline live;
	int64_t *change = weir__calloc(cg->n + 1, sizeof(*change)), sum = 0;

	if (!change || skyline_init(&live, cg->n) < 0) {
		weir__free(change);
		return no_memory(cg->n);
	}
	for (size_t i = 0; i < cg->n; i++) {
		change[cg->rect[i].from] += (int64_t)cg->rect[i].bytes;
		change[cg->rect[i].to] -= (int64_t)cg->rect[i].bytes;
	}
	for (size_t i = 0; i < cg->n; i++) {
		sum += change[i];
		skyline_raise(&live, i, i + 1, (uint64_t)sum);
	}
	for (size_t i = cg->n; i-- > 0;) {
		struct weir__section_rect *rect = &cg->rect[i];

		rect->pressure = skyline_max(&live, rect->from, rect->to);
		if (rect->next != WEIR__NO_RECT &&
		    rect->pressure < cg->rect[rect->next].pressure)
			rect->pressure = cg->rect[rect->next].pressure;
	}
	skyline_free(&live);
	weir__free(change);
	return 0;
}

/*
 * Count rectangles that are not long: alive[i] of the earlier ones live when
 * rectangle i begins, and begun[i] come before it in the list. Returns the
 * number of conflicts, which is the sum of alive[].
 */
static uint64_t count_alive(const struct weir__conflict_graph *cg,
			    uint32_t *alive, uint32_t *begun)
{
	uint64_t pairs = 0;
	uint32_t sum = 0;

	for (size_t i = 0; i <= cg->n; i++)
		alive[i] = 0;
	for (size_t i = 0; i < cg->n; i++) {
		const struct weir__section_rect *rect = &cg->rect[i];

		begun[i] = i ? begun[i - 1] + !cg->rect[i - 1].is_long : 0;
		if (!rect->is_long) {
			alive[i]++;
			alive[rect->to]--; /* may wrap: sums are right */
		}
	}
	begun[cg->n] = cg->n ? begun[cg->n - 1] + !cg->rect[cg->n - 1].is_long
			     : 0;
	for (size_t i = 0; i < cg->n; i++) {
		uint32_t change = alive[i];

		/* Rectangles that end before rectangle i no longer live. */
		alive[i] = sum + change - (cg->rect[i].is_long ? 0 : 1);
		sum += change;
		if (!cg->rect[i].is_long)
			pairs += alive[i];
	}
	return pairs;
}

/*
 * Make the rectangles with the most conflicts long. False: all rectangles have
 * about the same number.
 */
static bool graph_mark_long(struct weir__conflict_graph *cg,
			    const uint32_t *alive, const uint32_t *begun,
			    uint64_t pairs)
{
	uint64_t mean = 2 * pairs / begun[cg->n];
	bool any = false;

	for (size_t i = 0; i < cg->n; i++) {
		struct weir__section_rect *rect = &cg->rect[i];
		uint64_t own = alive[i] + begun[rect->to] - begun[i];

		if (!rect->is_long && own > 2 * mean)
			any = rect->is_long = true;
	}
	return any;
}

/* Make linked rectangles long if one of them is. */
static void graph_mark_long_links(struct weir__conflict_graph *cg)
{
	for (size_t i = 0; i < cg->n; i++) {
		uint32_t j = (uint32_t)i;
		bool is_long = false;

		if (cg->rect[i].follows || cg->rect[i].next == WEIR__NO_RECT)
			continue;
		for (; j != WEIR__NO_RECT; j = cg->rect[j].next)
			is_long |= cg->rect[j].is_long;
		for (j = (uint32_t)i; j != WEIR__NO_RECT; j = cg->rect[j].next)
			cg->rect[j].is_long = is_long;
	}
}

/* List, for each rectangle, the earlier ones that live when it begins. */
static int graph_alive(struct weir__conflict_graph *cg, uint64_t pairs)
{
	uint32_t *now = weir__malloc(cg->n * sizeof(*now));
	size_t n_now = 0, at = 0;

	cg->alive = weir__malloc((pairs + 1) * sizeof(*cg->alive));
	if (!now || !cg->alive) {
		weir__free(now);
		return no_memory(cg->n);
	}
	for (size_t i = 0; i < cg->n; i++) {
		size_t kept = 0;

		cg->alive_at[i] = at;
		if (cg->rect[i].is_long)
			continue;
		for (size_t k = 0; k < n_now; k++)
			if (cg->rect[now[k]].to > i)
				now[kept++] = cg->alive[at++] = now[k];
		n_now = kept;
		now[n_now++] = (uint32_t)i;
	}
	cg->alive_at[cg->n] = at;
	weir__free(now);
	return 0;
}

static int key_order(const void *a, const void *b)
{
	const struct weir__rect_key *x = a, *y = b;

	if (x->first != y->first)
		return x->first > y->first ? -1 : 1;
	if (x->second != y->second)
		return x->second > y->second ? -1 : 1;
	return x->rect < y->rect ? -1 : x->rect > y->rect;
}

void weir__rect_keys_sort(struct weir__rect_key *key, size_t n)
{
	size_t i = 1;

	while (i < n && key_order(&key[i - 1], &key[i]) < 0)
		i++;
	if (i < n)
		qsort(key, n, sizeof(*key), key_order);
}

/* Place a long rectangle and those linked to it above all that were placed. */
static void long_place(struct weir__conflict_graph *cg,
		       const struct weir__rects *p, struct skyline *skyline,
		       uint32_t i)
{
	uint64_t at = cg->rect[i].lowest, top;
	uint32_t j;

	for (j = i; j != WEIR__NO_RECT; j = cg->rect[j].next) {
		top = skyline_max(skyline, cg->rect[j].from, cg->rect[j].to);
		if (at < top)
			at = top;
	}
	at = weir__rects_fit(p, at, cg->rect[i].bytes, cg->rect[i].align);
	for (j = i; j != WEIR__NO_RECT; j = cg->rect[j].next) {
		cg->long_at[j] = at;
		skyline_raise(skyline, cg->rect[j].from, cg->rect[j].to,
			      at + cg->rect[j].bytes);
	}
	if (cg->long_end < at + cg->rect[i].bytes)
		cg->long_end = at + cg->rect[i].bytes;
}

/* Place the long rectangles, the longest first. The others come above them. */
static int graph_place_long(struct weir__conflict_graph *cg,
			    const struct weir__rects *p)
{
	struct skyline skyline;
	struct weir__rect_key *key = weir__malloc(cg->n * sizeof(*key));
	size_t n = 0;

	if (!key || skyline_init(&skyline, cg->n) < 0) {
		weir__free(key);
		return no_memory(cg->n);
	}
	for (uint32_t i = 0; i < cg->n; i++) {
		const struct weir__section_rect *rect = &cg->rect[i];

		if (rect->is_long && !rect->follows)
			key[n++] = (struct weir__rect_key){ rect->time,
							    rect->bytes, i };
	}
	weir__rect_keys_sort(key, n);
	for (size_t i = 0; i < n; i++)
		long_place(cg, p, &skyline, key[i].rect);
	for (size_t i = 0; i < cg->n; i++) {
		struct weir__section_rect *rect = &cg->rect[i];
		uint64_t top = skyline_max(&skyline, rect->from, rect->to);

		if (rect->lowest < top)
			rect->lowest = top;
	}
	skyline_free(&skyline);
	weir__free(key);
	return 0;
}

/* Count the most conflicts of any rectangle and those linked to it. */
static void graph_count_most(struct weir__conflict_graph *cg)
{
	for (uint32_t i = 0; i < cg->n; i++) {
		size_t sum = 0;

		if (cg->rect[i].follows)
			continue;
		for (uint32_t j = i; j != WEIR__NO_RECT; j = cg->rect[j].next)
			sum += cg->alive_at[j + 1] - cg->alive_at[j] +
			       cg->rect[j].to - j;
		if (cg->most < sum)
			cg->most = sum;
	}
}

void weir__conflict_graph_clear_long(struct weir__conflict_graph *cg)
{
	for (size_t i = 0; i < cg->n; i++)
		cg->rect[i].is_long = false;
	cg->has_long = false;
}

/*
 * Decide which rectangles are long, until the others' conflicts can be listed.
 */
static int graph_conflicts(struct weir__conflict_graph *cg,
			   const struct weir__rects *p)
{
	uint32_t *alive = weir__malloc(2 * (cg->n + 1) * sizeof(*alive));
	uint64_t pairs;

	if (!alive)
		return no_memory(cg->n);
	while ((pairs = count_alive(cg, alive, alive + cg->n + 1)) >
		       PAIRS(cg->n) &&
	       !cg->dense) {
		if (!graph_mark_long(cg, alive, alive + cg->n + 1, pairs)) {
			weir__conflict_graph_clear_long(cg);
			cg->dense = true;
		}
		graph_mark_long_links(cg);
		cg->has_long = !cg->dense;
	}
	weir__free(alive);
	if (cg->dense)
		return 0;
	if (cg->has_long && graph_place_long(cg, p) < 0)
		return -ENOMEM;
	return graph_alive(cg, pairs);
}

int weir__conflict_graph_init(struct weir__conflict_graph *cg,
			      struct weir__rects *p,
			      const struct weir__section *s)
{
	int r;

	*cg = (struct weir__conflict_graph){ .n = s->n };
	cg->rect = weir__calloc(s->n, sizeof(*cg->rect));
	cg->range = weir__calloc(s->n, sizeof(*cg->range));
	cg->long_at = weir__calloc(s->n, sizeof(*cg->long_at));
	cg->alive_at = weir__calloc(s->n + 1, sizeof(*cg->alive_at));
	if (!cg->rect || !cg->range || !cg->long_at || !cg->alive_at)
		return no_memory(s->n);
	graph_rects(cg, p, s);
	r = graph_conflicts(cg, p);
	if (r < 0 || cg->dense)
		return r;
	r = graph_pressure(cg);
	if (r < 0)
		return r;
	graph_count_most(cg);
	return 0;
}

void weir__conflict_graph_free(struct weir__conflict_graph *cg)
{
	weir__free(cg->rect);
	weir__free(cg->range);
	weir__free(cg->long_at);
	weir__free(cg->alive_at);
	weir__free(cg->alive);
}
