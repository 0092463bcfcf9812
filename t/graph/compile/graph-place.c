/* SPDX-License-Identifier: MIT */
/*
 * The passes that order and place, on random graphs: two results that are
 * needed at the same time share no byte, compared by plain loops.
 */
#include <stdlib.h>

#include "dev/dev.h"
#include "graph/exec/sched.h"
#include "leaf.h"
#include "streams.h"

#define NODES 60
#define NONE WEIR__REACH_NONE

static uint64_t seed;

static unsigned rnd(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

static struct weir_node *any(struct weir_graph *g)
{
	return weir_graph_node(g, rnd((unsigned)weir_graph_count(g)));
}

/* All nodes are of shape [4, 4], so all may be in place as far as that goes. */
static struct weir_graph *random_graph(void)
{
	const int64_t shape[] = { 4, 4 };
	struct weir_graph *g = graph_new();
	struct weir_node *node;

	weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, shape);
	leaf(g, "w", WEIR_DTYPE_F32, 2, 4, 4);
	for (unsigned n = 2 + rnd(NODES); weir_graph_count(g) < n;) {
		switch (rnd(6)) {
		case 0:
			node = weir_sqr(g, any(g));
			break;
		case 1:
			node = weir_reshape(g, any(g), 2, shape);
			break;
		case 2:
			node = weir_transpose(g, any(g));
			break;
		case 3:
			node = weir_scale(g, any(g), 2, 1);
			break;
		default:
			node = weir_add(g, any(g), any(g));
		}
		/* A view of a view may not be contiguous: then begin again. */
		if (weir_graph_error(g, NULL) < 0) {
			weir_graph_free(g);
			return NULL;
		}
		if (!rnd(8))
			weir_graph_output(g, node);
		if (!rnd(12))
			weir_graph_observe(g, node);
	}
	weir_graph_output(g, weir_graph_node(g, weir_graph_count(g) - 1));
	return g;
}

static bool computed(const struct weir__passes *d, uint32_t i)
{
	return d->reach.needed[i] && !(d->in.flags[i] & WEIR__REACH_NO_WORK);
}

/* The last step that needs the bytes of class @c; UINT32_MAX: kept. */
static uint32_t dies(const struct weir__passes *d, uint32_t c)
{
	uint32_t last = d->sync.step[c];

	for (uint32_t i = 0; i < d->in.n; i++) {
		const struct weir_node *node = d->g->node[i];

		if (!d->reach.needed[i])
			continue;
		if (d->reach.alias[i] == c && node->flags & WEIR_NODE_OUTPUT)
			return UINT32_MAX;
		if (d->reach.alias[i] == c &&
		    node->flags & WEIR_NODE_OBSERVED && !computed(d, i) &&
		    last < d->sync.step[i])
			last = d->sync.step[i];
		for (uint32_t s = 0; computed(d, i) && s < node->n_src; s++)
			if (d->reach.alias[node->src[s]->index] == c &&
			    last < d->sync.step[i])
				last = d->sync.step[i];
	}
	return last;
}

static uint64_t offset(const struct weir__passes *d, uint32_t c)
{
	return weir_placement_offset(d->places.placement, d->places.item[c]);
}

/* True if @b may be where @a is. */
static bool pair_well(const struct weir__passes *d, uint32_t a, uint32_t b)
{
	uint64_t p = offset(d, a), q = offset(d, b);
	uint32_t end = dies(d, a);

	if (p + d->bytes[a] <= q || q + d->bytes[b] <= p ||
	    end < d->sync.step[b])
		return true;
	return d->places.over[b] == a && p == q && end == d->sync.step[b];
}

static unsigned wrong_pairs(const struct weir__passes *d)
{
	unsigned wrong = 0;

	for (uint32_t b = 0; b < d->in.n; b++)
		for (uint32_t a = 0; a < b; a++)
			if (computed(d, a) && computed(d, b) &&
			    d->reach.alias[a] == a && d->reach.alias[b] == b)
				wrong += !pair_well(d, a, b);
	return wrong;
}

/* In place only where each source in that class has the result's layout. */
static unsigned wrong_layouts(const struct weir__passes *d)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < d->in.n; i++) {
		const struct weir_node *node = d->g->node[i];

		for (uint32_t s = 0; s < node->n_src; s++)
			if (d->places.over[i] != NONE &&
			    d->reach.alias[node->src[s]->index] ==
				    d->places.over[i])
				wrong += node->src[s]->t.stride[0] !=
					 node->t.stride[0];
	}
	return wrong;
}

int main(void)
{
	const char *steps = getenv("WEIR_T_STEPS"),
		   *from = getenv("WEIR_T_SEED");
	unsigned n = steps ? (unsigned)atoi(steps) : 3000, graphs = 0;
	unsigned wrong = 0, layouts = 0;
	uint64_t in_place = 0, outputs = 0;
	struct weir *weir = open_root(WEIR_IO_AUTO);
	struct weir_dev *dev = cpu_of(weir);
	struct weir_sched *sched;

	plan(4);
	seed = from ? (uint64_t)atoll(from) : 1;
	diag("WEIR_T_SEED is %llu", (unsigned long long)seed);
	must(weir_sched_new(&dev, 1, NULL, &sched));
	while (graphs < n) {
		struct weir_graph *g = random_graph();
		const struct weir__choice choice = { 0 };
		struct weir__passes d;

		if (!g)
			continue;
		must(weir__passes_run(sched->compiler, g, &choice, &d));
		wrong += wrong_pairs(&d);
		layouts += wrong_layouts(&d);
		in_place += d.sizes->in_place;
		for (uint32_t i = 0; i < d.in.n; i++)
			outputs += computed(&d, i) &&
				   dies(&d, d.reach.alias[i]) == UINT32_MAX;
		weir__passes_free(&d);
		weir_graph_free(g);
		graphs++;
	}
	is_int(wrong, 0,
	       "results that are needed at the same time share no bytes, in %u graphs",
	       graphs);
	is_int(layouts, 0, "results are in place of sources with their layout");
	ok(in_place > graphs, "%llu results are in place",
	   (unsigned long long)in_place);
	ok(outputs > graphs, "%llu results are kept",
	   (unsigned long long)outputs);
	weir_sched_free(sched);
	weir_close(weir);
	return done_testing();
}
