/* SPDX-License-Identifier: MIT */
#include "graph/compile/place_results.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "place/placement.h"

#define NONE WEIR__REACH_NONE

struct placing {
	const struct weir__place_in *in;
	struct weir__places out;
	struct weir_lifetime *life; /* lifetime of each item */
	uint32_t n;
};

/* The first source whose place the result of @i may take; NONE. */
static uint32_t over_of(const struct placing *x, uint32_t i)
{
	const struct weir__place_in *in = x->in;
	uint32_t first = in->in->src_at[i];

	for (uint32_t s = 0; first + s < in->in->src_at[i + 1] && s < 8; s++) {
		const struct weir_lifetime *life;
		uint32_t class;

		if (!(in->in_place[i] & 1u << s))
			continue;
		class = in->reach->alias[in->in->src[first + s]];
		if (x->out.item[class] == NONE)
			continue;
		life = &x->life[x->out.item[class]];
		if (life->memory == WEIR__IN_RESULTS(in->sync->lane[i]) &&
		    !(life->flags & (WEIR_PLACE_INPUT | WEIR_PLACE_OUTPUT)) &&
		    in->sync->until[class] == in->sync->step[i] + 1 &&
		    in->bytes[i] <= in->bytes[class])
			return class;
	}
	return NONE;
}

/* Add an item in the memory of copies, which shares its bytes with none. */
static uint32_t place_kept(struct placing *x, uint32_t lane, uint64_t bytes)
{
	x->life[x->n] = (struct weir_lifetime){ .lower = 0,
						.upper = 1,
						.bytes = bytes,
						.memory = WEIR__IN_COPY(lane),
						.flags = WEIR_PLACE_INPUT |
							 WEIR_PLACE_OUTPUT };
	return x->n++;
}

static void place_result(struct placing *x, uint32_t i)
{
	const struct weir__place_in *in = x->in;
	struct weir_lifetime *life = &x->life[x->n];

	*life = (struct weir_lifetime){ .lower = in->sync->step[i],
					.upper = in->sync->until[i],
					.bytes = in->bytes[i],
					.memory = WEIR__IN_RESULTS(
						in->sync->lane[i]) };
	/* Nothing is computed, or nothing is used. */
	if (life->upper <= life->lower)
		life->upper = life->lower + 1;
	if (in->reach->last[i] == NONE)
		life->flags = WEIR_PLACE_OUTPUT;
	x->out.over[i] = over_of(x, i);
	if (x->out.over[i] != NONE) {
		life->flags |= WEIR_PLACE_OVER;
		life->over = (uint64_t)x->out.item[x->out.over[i]];
	}
	x->out.item[i] = x->n++;
}

/* True if the class @i is in the memory of copies. */
static bool is_kept(const struct weir__place_in *in, uint32_t i)
{
	return in->marks[i] & WEIR__MARK_INPUT || in->sync->exported[i] ||
	       (in->copies && in->reach->last[i] == NONE);
}

static void place_items(struct placing *x)
{
	const struct weir__place_in *in = x->in;
	const struct weir__sync *o = in->sync;

	for (uint32_t i = 0; i < in->in->n; i++) {
		x->out.item[i] = NONE;
		x->out.over[i] = NONE;
		if (in->reach->alias[i] != i || in->marks[i] & WEIR__MARK_LEAF)
			continue;
		if (!in->reach->needed[i] && !(in->marks[i] & WEIR__MARK_INPUT))
			continue;
		if (is_kept(in, i))
			x->out.item[i] =
				place_kept(x, o->lane[i], in->bytes[i]);
		else
			place_result(x, i);
	}
	for (uint32_t k = 0; k < o->n_device_copies; k++)
		x->out.device_copy[k] =
			o->device_copy[k].kind == WEIR__DEVICE_COPY_IMPORT
				? NONE
				: place_kept(x, o->device_copy[k].lane,
					     in->device_copy_bytes[k]);
}

/* Forget each place that the planner did not give to the result after all. */
static void place_check_over(struct placing *x)
{
	const struct weir_placement *p = x->out.placement;
	uint32_t *over = x->out.over;

	for (uint32_t i = 0; i < x->in->in->n; i++)
		if (over[i] != NONE &&
		    weir_placement_offset(p, x->out.item[i]) !=
			    weir_placement_offset(p, x->out.item[over[i]]))
			over[i] = NONE;
}

static int place_alloc(struct placing *x)
{
	size_t n = (size_t)x->in->in->n + 1; /* never 0 */
	size_t device_copies = x->in->sync->n_device_copies;

	x->out.item = weir__array_alloc(n, sizeof(*x->out.item));
	x->out.over = weir__array_alloc(n, sizeof(*x->out.over));
	x->out.device_copy = weir__array_alloc(device_copies + 1,
					       sizeof(*x->out.device_copy));
	x->life = weir__array_alloc(n + device_copies, sizeof(*x->life));
	if (x->out.item && x->out.over && x->out.device_copy && x->life)
		return 0;
	return weir__fail(-ENOMEM, "no memory to place %u nodes", x->in->in->n);
}

int weir__place_nodes(const struct weir__place_in *in, struct weir__places *ret)
{
	struct weir_placement_opts o = { .size = sizeof(o),
					 .memory = in->memory,
					 .n_memories = 2 * in->sync->n_lanes,
					 .time_ns = in->time_ns };
	struct placing x = { .in = in };
	int r = place_alloc(&x);

	if (r == 0) {
		place_items(&x);
		r = weir__placement_new(x.life, x.n, &o, &x.out.placement);
	}
	if (r == 0)
		place_check_over(&x);
	weir__array_free(x.life);
	if (r < 0)
		weir__places_free(&x.out);
	else
		*ret = x.out;
	return r;
}

void weir__places_free(struct weir__places *places)
{
	weir_placement_free(places->placement);
	weir__array_free(places->item);
	weir__array_free(places->over);
	weir__array_free(places->device_copy);
	memset(places, 0, sizeof(*places));
}
