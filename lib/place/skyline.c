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
static void skyline_raise(struct weir__skyline *s, size_t node, size_t begin,
			  size_t end, size_t from, size_t to, uint64_t height)
{
	size_t mid = begin + (end - begin) / 2;

	if (to <= begin || end <= from)
		return;
	if (s->max[node] < height)
		s->max[node] = height;
	if (from <= begin && end <= to) {
		s->over[node] = height;
		return;
	}
	skyline_raise(s, 2 * node, begin, mid, from, to, height);
	skyline_raise(s, 2 * node + 1, mid, end, from, to, height);
}

void weir__skyline_raise(struct weir__skyline *s, size_t from, size_t to,
			 uint64_t height)
{
	skyline_raise(s, 1, 0, s->leaves, from, to, height);
}

static uint64_t skyline_max(const struct weir__skyline *s, size_t node,
			    size_t begin, size_t end, size_t from, size_t to)
{
	size_t mid = begin + (end - begin) / 2;
	uint64_t left, right;

	if (to <= begin || end <= from)
		return 0;
	if (from <= begin && end <= to)
		return s->max[node];
	left = skyline_max(s, 2 * node, begin, mid, from, to);
	right = skyline_max(s, 2 * node + 1, mid, end, from, to);
	if (left < right)
		left = right;
	return left > s->over[node] ? left : s->over[node];
}

uint64_t weir__skyline_max(const struct weir__skyline *s, size_t from,
			   size_t to)
{
	return skyline_max(s, 1, 0, s->leaves, from, to);
}
