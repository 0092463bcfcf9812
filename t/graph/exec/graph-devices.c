/* SPDX-License-Identifier: MIT */
/*
 * The pass that assigns nodes, for graphs and devices: what devices say that
 * they support, where leaves are, and the sentences for what cannot be
 * assigned.
 */
#include <errno.h>

#include "gdev.h"
#include "graph/compile/assign.h"
#include "graph/graph.h"
#include "graph/compile/sync.h"
#include "streams.h"

#define MOST 16u

static struct weir *weir;
static struct weir_dev *devs[2]; /* GDEV0, CPU */

static struct weir__reach_in in;
static struct weir__reach reach;
static struct weir__assign out;
static uint8_t marks[MOST], pin[MOST];
static uint64_t usable[MOST];

/* Leaves of gdev_leaf() are in memory of GDEV0. */
static int assign(const struct weir_graph *g)
{
	static const uint64_t shares[2] = { 1, 2 };
	static const struct weir_rates rates[2] = {
		{ sizeof(rates[0]), 1e9, 1e9, 1e9 },
		{ sizeof(rates[1]), 1e9, 1e9, 1e9 }
	};
	const struct weir__assign_in a = { .in = &in,
					   .reach = &reach,
					   .marks = marks,
					   .n_devs = 2,
					   .rates = rates,
					   .shares = shares,
					   .usable = usable,
					   .pin = pin };

	must(weir_graph_error(g, NULL));
	must(weir__reach_graph(g, &in));
	must(weir__reach(&in, &reach));
	for (size_t i = 0; i < g->n; i++) {
		bool leaf = g->node[i]->op == WEIR_OP_LEAF;

		marks[i] = leaf ? WEIR__MARK_LEAF : 0;
		if (g->node[i]->op == WEIR_OP_INPUT)
			marks[i] = WEIR__MARK_INPUT;
		usable[i] = leaf;
	}
	return weir__assign_graph(g, devs, &a, &out);
}

static void done(void)
{
	weir__assign_free(&out);
	weir__reach_free(&reach);
	weir__reach_in_free(&in);
}

static struct weir_graph *fresh(void)
{
	struct weir_graph *g;

	must(weir_graph_new(&g));
	memset(pin, WEIR__ASSIGN_NONE, sizeof(pin));
	gdev_reset();
	return g;
}

static void supported(void)
{
	struct weir_graph *g = fresh();
	struct weir_node *x = gdev_input(g, "x", 4), *y, *z;

	y = weir_sqr(g, x);
	z = weir_add(g, y, x);
	weir_graph_output(g, z);
	gdev.refuse = WEIR_OP_ADD;
	weir_dev_find(weir, "none", &devs[1]);
	must(assign(g));
	has_str(weir_error(), "no device 'none'",
		"a device that lacks an operation changes no sentence of the caller");
	ok(out.dev[z->index] == 1 &&
		   out.cause[z->index] == WEIR_NODE_CAUSE_ONLY,
	   "an operation that the first device lacks is computed on the second");
	done();
	weir_graph_free(g);
}

static void where_leaves_are(void)
{
	struct weir_graph *g = fresh();
	struct weir_node *x = gdev_input(g, "x", 4), *w, *y;
	struct weir_buf *buf = NULL;

	w = gdev_leaf(g, devs[0], "w", 4, 1, NULL, &buf);
	y = weir_add(g, x, w);
	weir_graph_output(g, y);
	must(assign(g));
	ok(out.dev[y->index] == 0 &&
		   out.cause[y->index] == WEIR_NODE_CAUSE_WEIGHTS &&
		   out.dev[w->index] == 0,
	   "a node is computed on the device whose memory has its leaf");
	done();
	weir_graph_free(g);
	weir_buf_free(buf);
}

static void no_device(void)
{
	struct weir_graph *g = fresh();
	struct weir_node *x = gdev_input(g, "x", 4);

	weir_graph_output(g, weir_node_set_name(weir_sqr(g, x), "y"));
	gdev.refuse = WEIR_OP_SQR;
	devs[1] = devs[0];
	is_err(assign(g), -EOPNOTSUPP,
	       "no device has node 1 (sqr 'y'); GDEV0: GDEV0 has no kernel of F32; GDEV0: GDEV0 has no kernel of F32",
	       "an operation that no device has is refused with all reasons");
	devs[1] = cpu_of(weir);
	done();
	weir_graph_free(g);
}

static void pin_refused(void)
{
	struct weir_graph *g = fresh();
	struct weir_node *x = gdev_input(g, "x", 4), *y = weir_sqr(g, x);

	weir_graph_output(g, weir_node_set_name(y, "y"));
	gdev.refuse = WEIR_OP_SQR;
	pin[y->index] = 0;
	is_err(assign(g), -EOPNOTSUPP,
	       "node 1 (sqr 'y') is pinned to GDEV0; GDEV0: GDEV0 has no kernel of F32",
	       "a pin to a device that lacks the operation says its reason");
	done();
	weir_graph_free(g);
}

static void write_refused(void)
{
	struct weir_graph *g = fresh();
	struct weir_node *x = gdev_input(g, "x", 4), *w, *copy;
	struct weir_buf *buf = NULL;

	w = gdev_leaf(g, devs[0], "w", 4, 1, NULL, &buf);
	copy = weir_copy(g, x, w);
	pin[copy->index] = 1;
	is_err(assign(g), -EOPNOTSUPP,
	       "node 2 (copy) is pinned to CPU, but writes leaf 'w' F32 [4] in memory of GDEV0, where CPU does not compute",
	       "a pin of a write to a device that cannot write the leaf is refused");
	done();
	pin[copy->index] = WEIR__ASSIGN_NONE;
	gdev.refuse = WEIR_OP_COPY;
	is_err(assign(g), -EOPNOTSUPP,
	       "node 2 (copy) writes leaf 'w' F32 [4] in memory of GDEV0, where no device that has the operation computes",
	       "a write is refused if no device that has it can write the leaf");
	done();
	weir_graph_free(g);
	weir_buf_free(buf);
}

int main(void)
{
	plan(2 + 1 + 1 + 1 + 2);
	weir = gdev_open(&devs[0]);
	devs[1] = cpu_of(weir);
	supported();
	where_leaves_are();
	no_device();
	pin_refused();
	write_refused();
	weir_close(weir);
	return 0;
}
