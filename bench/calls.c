/* SPDX-License-Identifier: MIT */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw.h"

static void *grown(void *list, size_t n, size_t each)
{
	list = realloc(list, n * each);
	if (!list)
		die("no memory for %zu calls", n);
	return list;
}

void calls_init(struct calls *c, const char *name)
{
	memset(c, 0, sizeof(*c));
	snprintf(c->name, sizeof(c->name), "%s", name);
	c->streams = 1;
}

void calls_free(struct calls *c)
{
	free(c->list);
	free(c->size_of);
	free(c->spare);
}

static void calls_add(struct calls *c, uint64_t size, uint32_t slot,
		      uint32_t stream)
{
	if (c->n == c->room) {
		c->room = c->room ? 2 * c->room : 4096;
		c->list = grown(c->list, c->room, sizeof(*c->list));
	}
	c->list[c->n++] = (struct call){ size, slot, stream };
	if (c->streams <= stream)
		c->streams = stream + 1;
}

static uint32_t slot_new(struct calls *c)
{
	if (c->n_spare)
		return c->spare[--c->n_spare];
	if (c->slots == c->slot_room) {
		c->slot_room = c->slot_room ? 2 * c->slot_room : 4096;
		c->size_of =
			grown(c->size_of, c->slot_room, sizeof(*c->size_of));
		c->spare = grown(c->spare, c->slot_room, sizeof(*c->spare));
	}
	return c->slots++;
}

uint32_t calls_alloc(struct calls *c, uint64_t size, uint32_t stream)
{
	uint32_t slot = slot_new(c);

	c->size_of[slot] = size;
	c->live += size;
	if (c->live > c->peak)
		c->peak = c->live;
	calls_add(c, size, slot, stream);
	return slot;
}

void calls_drop(struct calls *c, uint32_t slot, uint32_t stream)
{
	c->live -= c->size_of[slot];
	c->size_of[slot] = 0;
	c->spare[c->n_spare++] = slot;
	calls_add(c, 0, slot, stream);
}

void calls_end(struct calls *c)
{
	for (uint32_t i = 0; i < c->slots; i++)
		if (c->size_of[i])
			calls_drop(c, i, 0);
}

void calls_in_stream(struct calls *c)
{
	for (size_t i = 0; i < c->n; i++)
		c->list[i].stream = 1;
	c->streams = 2;
}
