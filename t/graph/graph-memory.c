/* SPDX-License-Identifier: MIT */
/* Each allocation of building a graph, and of a pass over it, fails once. */
#include <weir.h>

#include "graph/compile/reach.h"
#include "leaf.h"
#include "nomem.h"
#include "tap.h"

static struct weir_graph *g;

static int build(void)
{
	struct weir_node *x, *cache, *ids;
	int r = weir_graph_new(&g);

	if (r < 0)
		return r;
	cache = leaf(g, "cache", WEIR_DTYPE_F32, 2, 8, 4);
	ids = leaf(g, "ids", WEIR_DTYPE_I32, 1, 2);
	x = leaf(g, "x", WEIR_DTYPE_F32, 2, 2, 4);
	for (int i = 0; i < 300; i++)
		x = weir_node_set_name(weir_sqr(g, x), "a name");
	weir_set_rows(g, cache, x, ids);
	weir_graph_output(g, weir_add(g, x, weir_slice(g, cache, 0, 0, 2)));
	r = weir_graph_error(g, NULL);
	if (r < 0)
		weir_graph_free(g);
	return r;
}

static int build_all(void)
{
	int r = build();

	if (!r)
		weir_graph_free(g);
	return r;
}

static int pass(void)
{
	struct weir__reach_in in;
	struct weir__reach reach;
	int r = weir__reach_graph(g, &in);

	if (r < 0)
		return r;
	r = weir__reach(&in, &reach);
	weir__reach_in_free(&in);
	if (!r)
		weir__reach_free(&reach);
	return r;
}

static int build_again(void)
{
	struct weir_node *x;

	weir_graph_reset(g);
	x = leaf(g, "x", WEIR_DTYPE_F32, 1, 4);
	for (int i = 0; i < 300; i++)
		x = weir_sqr(g, x);
	return weir_graph_error(g, NULL);
}

int main(void)
{
	plan(10);
	nomem_each(build_all, 2, "building");
	if (build() < 0)
		bail("%s", weir_error());
	nomem_each(pass, 2, "reach");
	nomem_begin(1);
	is_int(build_again(), 0, "a graph is built again after a reset");
	ok(!nomem_end(), "building after a reset allocates nothing");
	weir_graph_free(g);
	return done_testing();
}
