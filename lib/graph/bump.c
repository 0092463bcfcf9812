/* SPDX-License-Identifier: MIT */
#include "graph/bump.h"

#include <stdint.h>

#include "core/array.h"
#include "core/util.h"

/* The first chunk is for a small graph; each further one is larger. */
#define BUMP_FIRST ((size_t)32 << 10)
#define BUMP_MOST ((size_t)4 << 20)

struct weir__bump_chunk {
	struct weir__bump_chunk *next;
	size_t room;
	unsigned char bytes[] __attribute__((aligned(16)));
};

/* A new chunk with room for @n bytes, after the current one. */
static struct weir__bump_chunk *chunk_add(struct weir__bump *bump, size_t n)
{
	size_t room = bump->now ? 2 * bump->now->room : BUMP_FIRST;
	struct weir__bump_chunk *chunk;

	if (room > BUMP_MOST)
		room = BUMP_MOST;
	if (room < n)
		room = n;
	chunk = weir__array_alloc(sizeof(*chunk) + room, 1);
	if (!chunk)
		return NULL;
	chunk->room = room;
	if (bump->now) {
		chunk->next = bump->now->next;
		bump->now->next = chunk;
	} else {
		chunk->next = NULL;
		bump->first = chunk;
	}
	return chunk;
}

/* A kept chunk that is too small for @n stays unused until the reset. */
static struct weir__bump_chunk *chunk_next(struct weir__bump *bump, size_t n)
{
	struct weir__bump_chunk *next = bump->now ? bump->now->next : NULL;

	return next && next->room >= n ? next : chunk_add(bump, n);
}

void *weir__bump_take(struct weir__bump *bump, size_t n)
{
	struct weir__bump_chunk *chunk = bump->now;
	unsigned char *taken;

	if (n > SIZE_MAX / 4)
		return NULL;
	n = weir__up(n, 16);
	if (!chunk || chunk->room - bump->used < n) {
		chunk = chunk_next(bump, n);
		if (!chunk)
			return NULL;
		bump->now = chunk;
		bump->used = 0;
	}
	taken = chunk->bytes + bump->used;
	bump->used += n;
	return taken;
}

void weir__bump_reset(struct weir__bump *bump)
{
	bump->now = bump->first;
	bump->used = 0;
}

void weir__bump_free(struct weir__bump *bump)
{
	struct weir__bump_chunk *chunk = bump->first, *next;

	for (; chunk; chunk = next) {
		next = chunk->next;
		weir__array_free(chunk);
	}
	*bump = (struct weir__bump){ 0 };
}
