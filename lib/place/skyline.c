/* SPDX-License-Identifier: MIT */
#include "place/skyline.h"

#include <errno.h>

#include "core/sys.h"

int weir__skyline_init(struct weir__skyline *s, size_t n)
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

void weir__skyline_free(struct weir__skyline *s)
{
	weir__free(s->max);
	s->max = NULL;
}

/*
 * A height that is set for a whole node is never passed down: heights only
 * grow, so the height of a moment is the maximum on the way to its leaf.
 */
static void raise_above(struct weir__skyline *s, size_t node, uint64_t height)
{
	while ((node /= 2) && s->max[node] < height)
		s->max[node] = height;
}

static void raise_node(struct weir__skyline *s, size_t node, uint64_t height)
{
	s->max[node] = s->over[node] = height;
	raise_above(s, node, height);
}

void weir__skyline_raise(struct weir__skyline *s, size_t from, size_t to,
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

static uint64_t max_above(const struct weir__skyline *s, size_t node,
			  uint64_t max)
{
	while (node /= 2)
		if (max < s->over[node])
			max = s->over[node];
	return max;
}

uint64_t weir__skyline_max(const struct weir__skyline *s, size_t from,
			   size_t to)
{
	uint64_t max = 0;

	from += s->leaves;
	to += s->leaves;
	/* Boxes above the first and the last moment are above all nodes. */
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
