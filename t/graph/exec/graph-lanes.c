/* SPDX-License-Identifier: MIT */
/*
 * The pass that gives lanes their steps and sync points, on random arrays:
 * lanes that only stop at their sync points, in any order, compute each node
 * after all that it needs, and none waits for ever.
 */
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "graph/compile/sync.h"
#include "tap.h"

#define MOST 80
#define DEVS 4
#define NONE WEIR__REACH_NONE

static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

/* Leaves, inputs, operations with two sources, views, and writes to leaves. */
struct net {
	struct weir__reach_in in;
	struct weir__reach reach;
	struct weir__sync sync;
	uint32_t src_at[MOST + 1], src[2 * MOST], of[MOST], writes[MOST];
	uint8_t flags[MOST], marks[MOST], dev[MOST];
	struct weir__span span[MOST];
	uint64_t usable[MOST], shares[DEVS];
	bool apart;
};

static void leaf_make(struct net *x, uint32_t i)
{
	x->flags[i] = WEIR__REACH_NO_WORK;
	if (rnd(3)) {
		uint64_t lo = 16 * (uint64_t)rnd(6);

		x->marks[i] = WEIR__MARK_LEAF;
		x->span[i] = (struct weir__span){ lo, lo + 16 + rnd(2) * 8 };
		/* Writes run on device 0, which uses all leaves. */
		x->usable[i] = x->apart ? 1 | rnd(1 << DEVS) : UINT64_MAX;
	} else {
		x->marks[i] = WEIR__MARK_INPUT;
	}
}

static void node_make(struct net *x, uint32_t i)
{
	uint32_t a = rnd(i), b = rnd(i), *edges = &x->src_at[i + 1];

	x->src[(*edges)++] = a;
	x->dev[i] = (uint8_t)rnd(DEVS);
	if (!rnd(5)) {
		x->flags[i] = WEIR__REACH_NO_WORK;
		x->of[i] = a;
		x->span[i] = x->span[a];
		return;
	}
	x->src[(*edges)++] = b;
	if (x->span[a].hi && !rnd(2)) {
		x->flags[i] = WEIR__REACH_ROOT;
		x->of[i] = a;
		x->writes[i] = 0;
		x->span[i] = x->span[a];
		x->dev[i] = 0;
	}
	if (!rnd(8))
		x->flags[i] |= WEIR__REACH_ROOT;
}

static void net_make(struct net *x)
{
	memset(x, 0, sizeof(*x));
	x->apart = rnd(2);
	x->in = (struct weir__reach_in){ .n = 4 + rnd(MOST - 4),
					 .src_at = x->src_at,
					 .src = x->src,
					 .flags = x->flags,
					 .of = x->of,
					 .writes = x->writes,
					 .span = x->span };
	for (uint32_t d = 0; d < DEVS; d++)
		x->shares[d] = x->apart ? UINT64_C(1) << d : UINT64_MAX;
	for (uint32_t i = 0; i < x->in.n; i++) {
		x->of[i] = i;
		x->writes[i] = NONE;
		x->src_at[i + 1] = x->src_at[i];
		if (i < 4 || !rnd(6))
			leaf_make(x, i);
		else
			node_make(x, i);
	}
	if (weir__reach(&x->in, &x->reach) < 0 ||
	    weir__sync(&(struct weir__sync_in){ .in = &x->in,
						.reach = &x->reach,
						.marks = x->marks,
						.dev = x->dev,
						.n_devs = DEVS,
						.usable = x->usable,
						.shares = x->shares },
		       &x->sync) < 0)
		bail("no memory");
}

/* How far each lane is. */
struct state {
	uint32_t step[DEVS], point[DEVS];
	bool done[MOST];
};

/* True if all lanes have computed what transfer @k waits for. */
static bool transferred(const struct net *x, const struct state *s, uint32_t k)
{
	const struct weir__sync *o = &x->sync;

	for (uint32_t l = 0; l < o->n_lanes; l++)
		if (s->step[l] < o->wait[k * o->n_lanes + l])
			return false;
	return true;
}

static bool passes(const struct net *x, const struct state *s,
		   const struct weir__sync_point *point)
{
	if (point->kind == WEIR__SYNC_LANE)
		return s->step[point->of] >= point->until;
	return point->kind != WEIR__SYNC_TRANSFER ||
	       transferred(x, s, point->of);
}

/* The computed node whose value @i has; NONE. */
static uint32_t made(const struct net *x, uint32_t i)
{
	while (x->flags[i] & WEIR__REACH_NO_WORK && x->of[i] != i)
		i = x->of[i];
	return x->flags[i] & WEIR__REACH_NO_WORK ? NONE : i;
}

/*
 * True if all that node @i reads is there, and all that has to come before it.
 */
static bool ready(const struct net *x, const struct state *s, uint32_t i)
{
	bool well = true;

	for (uint32_t e = x->src_at[i]; e < x->src_at[i + 1]; e++) {
		uint32_t p = made(x, x->src[e]);

		well &= p == NONE || s->done[p];
	}
	for (uint32_t b = x->reach.before_at[i]; b < x->reach.before_at[i + 1];
	     b++)
		well &= s->done[x->reach.before[b]];
	return well;
}

/* One sync point or step of lane @l. False: it cannot go on. */
static bool lane_move(const struct net *x, struct state *s, uint32_t l,
		      unsigned *wrong)
{
	const struct weir__sync *o = &x->sync;
	uint32_t point = o->point_at[l] + s->point[l], node;

	if (point < o->point_at[l + 1] && o->point[point].step == s->step[l]) {
		if (!passes(x, s, &o->point[point]))
			return false;
		s->point[l]++;
		return true;
	}
	if (s->step[l] == o->step_at[l + 1] - o->step_at[l])
		return false;
	node = o->node[o->step_at[l] + s->step[l]++];
	*wrong += !ready(x, s, node);
	s->done[node] = true;
	return true;
}

/* All lanes to their ends, in random order. Returns the steps that are left. */
static uint32_t lanes_run(const struct net *x, unsigned *wrong)
{
	const struct weir__sync *o = &x->sync;
	struct state s = { .step = { 0 } };
	uint32_t left = o->n, stuck = 0;

	while (stuck < 64 * o->n_lanes) {
		uint32_t l = rnd(o->n_lanes);

		stuck = lane_move(x, &s, l, wrong) ? 0 : stuck + 1;
	}
	for (uint32_t l = 0; l < o->n_lanes; l++)
		left -= s.step[l];
	return left;
}

/*
 * A source in memory that its reader cannot use has a device copy of its lane.
 */
static unsigned device_copies_wrong(const struct net *x)
{
	const struct weir__sync *o = &x->sync;
	unsigned wrong = 0;

	for (uint32_t i = 0; i < x->in.n; i++)
		for (uint32_t e = x->src_at[i]; e < x->src_at[i + 1]; e++) {
			uint32_t c = x->reach.alias[x->src[e]];
			uint64_t can =
				x->marks[c] & WEIR__MARK_LEAF
					? x->usable[c]
					: UINT64_C(1)
						  << o->lane_dev[o->lane[c]];
			bool device_copy = o->device_copy_of[e] != NONE;

			if (!weir__is_computed(&x->in, &x->reach, i))
				continue;
			if (!x->apart)
				can = UINT64_MAX;
			wrong += device_copy == (can >> x->dev[i] & 1);
			wrong += device_copy &&
				 (o->device_copy[o->device_copy_of[e]].node !=
					  c ||
				  o->device_copy[o->device_copy_of[e]].lane !=
					  o->lane[i]);
		}
	return wrong;
}

int main(void)
{
	const char *steps = getenv("WEIR_T_STEPS");
	unsigned n = steps ? (unsigned)atoi(steps) : 20000;
	unsigned wrong = 0, device_copies = 0, crossed = 0, transfers = 0;
	uint32_t left = 0;
	static struct net x;

	plan(5);
	seed = getenv("WEIR_T_SEED") ? (uint64_t)atoll(getenv("WEIR_T_SEED"))
				     : 1;
	diag("WEIR_T_SEED is %llu", (unsigned long long)seed);
	for (unsigned i = 0; i < n; i++) {
		net_make(&x);
		left += lanes_run(&x, &wrong);
		device_copies += device_copies_wrong(&x);
		for (uint32_t k = 0; k < x.sync.n_points; k++)
			crossed += x.sync.point[k].kind == WEIR__SYNC_LANE;
		for (uint32_t k = 0; k < x.sync.n_device_copies; k++)
			transfers += x.sync.device_copy[k].kind ==
				     WEIR__DEVICE_COPY_TRANSFER;
		weir__sync_free(&x.sync);
		weir__reach_free(&x.reach);
	}
	is_int(wrong, 0, "each node is computed after all that it needs");
	is_int(left, 0, "no lane waits for ever");
	is_int(device_copies, 0,
	       "what a lane cannot use where it is has a device copy, and nothing else");
	ok(crossed, "lanes waited for each other");
	ok(transfers, "there were transfers");
	return done_testing();
}
