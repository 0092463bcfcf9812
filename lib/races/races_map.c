/* SPDX-License-Identifier: MIT */
#include "races/races_map.h"

#include <string.h>

#include "core/sys.h"

/* A place in the list: on each level the link that points past it. */
struct list_position {
	struct weir__races_range **link[WEIR__RACES_LEVELS];
};

static unsigned tower(struct weir__races_map *map)
{
	unsigned levels = 1;

	map->random = map->random * 1664525u + 1013904223u;
	for (uint32_t r = map->random >> 8;
	     !(r & 3) && levels < WEIR__RACES_LEVELS; r >>= 2)
		levels++;
	return levels;
}

/* True if all of @r is before byte @at of @space. */
static bool range_before(const struct weir__races_range *r, uint64_t space,
			 uint64_t at)
{
	return r->space != space ? r->space < space : r->hi <= at;
}

/* The first range that ends after byte @at, or NULL. */
static struct weir__races_range *range_find(struct weir__races_map *map,
					    uint64_t space, uint64_t at,
					    struct list_position *pos)
{
	struct weir__races_range **links = map->first, *next;

	for (unsigned i = WEIR__RACES_LEVELS; i--;) {
		while ((next = links[i]) && range_before(next, space, at))
			links = next->next;
		pos->link[i] = &links[i];
	}
	return *pos->link[0];
}

/* Insert a range at @pos, which then points to it. */
static struct weir__races_range *range_add(struct weir__races_map *map,
					   struct list_position *pos,
					   uint64_t space, uint64_t lo,
					   uint64_t hi)
{
	unsigned levels = tower(map);
	struct weir__races_range *r =
		weir__calloc(1, sizeof(*r) + levels * sizeof(*r->next));

	if (!r) {
		map->no_memory = true;
		return NULL;
	}
	r->space = space;
	r->lo = lo;
	r->hi = hi;
	r->write.actor = WEIR__RACES_NOBODY;
	r->levels = (uint8_t)levels;
	for (unsigned i = 0; i < levels; i++) {
		r->next[i] = *pos->link[i];
		*pos->link[i] = r;
	}
	map->n++;
	return r;
}

/* Delete @r, to which @pos points. */
static void range_del(struct weir__races_map *map, struct list_position *pos,
		      struct weir__races_range *r)
{
	for (unsigned i = 0; i < r->levels; i++)
		*pos->link[i] = r->next[i];
	map->n--;
	weir__free(r);
}

static void position_advance(struct list_position *pos,
			     struct weir__races_range *r)
{
	for (unsigned i = 0; i < r->levels; i++)
		pos->link[i] = &r->next[i];
}

static void position_begin(struct weir__races_map *map,
			   struct list_position *pos)
{
	for (unsigned i = 0; i < WEIR__RACES_LEVELS; i++)
		pos->link[i] = &map->first[i];
}

/* If a range has bytes on both sides of @at, split it there. */
static void range_split(struct weir__races_map *map, uint64_t space,
			uint64_t at)
{
	struct list_position pos;
	struct weir__races_range *r = range_find(map, space, at, &pos), *rest;

	if (!r || r->space != space || r->lo >= at)
		return;
	position_advance(&pos, r);
	rest = range_add(map, &pos, space, at, r->hi);
	if (!rest)
		return;
	rest->write = r->write;
	rest->n_reads = r->n_reads;
	memcpy(rest->read, r->read, sizeof(r->read));
	r->hi = at;
}

static bool is_in(const struct weir__races_range *r,
		  const struct weir__races_visit *v)
{
	return r && r->space == v->space && r->lo < v->hi;
}

static void range_look(const struct weir__races_range *r,
		       const struct weir__races_visit *v)
{
	uint64_t lo = r->lo > v->lo ? r->lo : v->lo;
	uint64_t hi = r->hi < v->hi ? r->hi : v->hi;

	if (r->write.actor != WEIR__RACES_NOBODY)
		v->conflict(v->arg, &r->write, true, lo, hi);
	for (unsigned i = 0; v->write && i < r->n_reads; i++)
		v->conflict(v->arg, &r->read[i], false, lo, hi);
}

/* The last read of an actor replaces its earlier ones. */
static void read_add(struct weir__races_range *r,
		     const struct weir__races_visit *v)
{
	unsigned i = 0;

	while (i < r->n_reads && r->read[i].actor != v->by.actor)
		i++;
	if (i == WEIR__RACES_READERS) {
		/* Forget a read that is old, or else the first. */
		for (i = 0; i < r->n_reads && !v->old(v->arg, &r->read[i]);)
			i++;
		i = i < r->n_reads ? i : 0;
		memmove(&r->read[i], &r->read[i + 1],
			(--r->n_reads - i) * sizeof(*r->read));
		i = r->n_reads;
	}
	r->read[i] = v->by;
	if (i == r->n_reads)
		r->n_reads++;
}

static void record_read(struct weir__races_map *map,
			const struct weir__races_visit *v)
{
	uint64_t at = v->lo;
	struct list_position pos;
	struct weir__races_range *r = range_find(map, v->space, at, &pos);

	while (at < v->hi) {
		if (!is_in(r, v) || r->lo > at)
			r = range_add(map, &pos, v->space, at,
				      is_in(r, v) ? r->lo : v->hi);
		if (!r)
			return;
		read_add(r, v);
		at = r->hi;
		position_advance(&pos, r);
		r = r->next[0];
	}
}

/* One range replaces all in [lo, hi). */
static void record_write(struct weir__races_map *map,
			 const struct weir__races_visit *v)
{
	struct list_position pos;
	struct weir__races_range *r = range_find(map, v->space, v->lo, &pos),
				 *next;

	if (!is_in(r, v))
		r = range_add(map, &pos, v->space, v->lo, v->hi);
	if (!r)
		return;
	r->lo = v->lo;
	r->write = v->by;
	r->n_reads = 0;
	position_advance(&pos, r);
	while (is_in(next = r->next[0], v))
		range_del(map, &pos, next);
	r->hi = v->hi;
}

void weir__races_map_visit(struct weir__races_map *map,
			   const struct weir__races_visit *v)
{
	struct list_position pos;
	struct weir__races_range *r = range_find(map, v->space, v->lo, &pos);

	for (; is_in(r, v); r = r->next[0])
		range_look(r, v);
	if (v->by.actor == WEIR__RACES_NOBODY)
		return;
	range_split(map, v->space, v->lo);
	range_split(map, v->space, v->hi);
	if (v->write)
		record_write(map, v);
	else
		record_read(map, v);
}

void weir__races_map_forget(struct weir__races_map *map, uint64_t space,
			    uint64_t lo, uint64_t hi)
{
	struct list_position pos;
	struct weir__races_range *r;

	if (lo >= hi)
		return;
	range_split(map, space, lo);
	range_split(map, space, hi);
	r = range_find(map, space, lo, &pos);
	while (r && r->space == space && r->lo < hi) {
		range_del(map, &pos, r);
		r = *pos.link[0];
	}
}

/* Returns true if nothing is left to remember. */
static bool range_prune(struct weir__races_range *r,
			bool (*old)(void *arg,
				    const struct weir__races_epoch *epoch),
			void *arg)
{
	unsigned n = 0;

	if (r->write.actor != WEIR__RACES_NOBODY && old(arg, &r->write))
		r->write.actor = WEIR__RACES_NOBODY;
	for (unsigned i = 0; i < r->n_reads; i++)
		if (!old(arg, &r->read[i]))
			r->read[n++] = r->read[i];
	r->n_reads = (uint8_t)n;
	return !n && r->write.actor == WEIR__RACES_NOBODY;
}

void weir__races_map_prune(struct weir__races_map *map, uint32_t most,
			   bool (*old)(void *arg,
				       const struct weir__races_epoch *epoch),
			   void *arg)
{
	struct list_position pos;
	struct weir__races_range *r;

	position_begin(map, &pos);
	for (r = map->first[0]; r; r = *pos.link[0])
		if (range_prune(r, old, arg))
			range_del(map, &pos, r);
		else
			position_advance(&pos, r);
	position_begin(map, &pos);
	while (map->n > most)
		range_del(map, &pos, map->first[0]);
}

static bool all_old(void *arg, const struct weir__races_epoch *epoch)
{
	(void)arg;
	(void)epoch;
	return true;
}

void weir__races_map_fini(struct weir__races_map *map)
{
	weir__races_map_prune(map, 0, all_old, NULL);
}
