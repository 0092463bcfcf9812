/* SPDX-License-Identifier: MIT */
/* Executable graphs: what is computed, and where results are placed. */
#include <errno.h>
#include <string.h>

#include "gdev.h"
#include "leaf.h"
#include "streams.h"

static struct weir *weir;
static struct weir_dev *dev;
static struct weir_sched *sched;

static struct weir_exec *exec_of(const struct weir_graph *g)
{
	struct weir_exec *s;

	must(weir_exec_new(sched, g, &s));
	return s;
}

static struct weir_node_place place_of(const struct weir_exec *s,
				       const struct weir_node *node)
{
	struct weir_node_place place = { .size = sizeof(place) };
	struct weir_node_info info = { .size = sizeof(info) };

	must(weir_node_info(node, &info));
	must(weir_exec_explain(s, info.index, &place));
	return place;
}

static bool apart(const struct weir_node_place *a,
		  const struct weir_node_place *b)
{
	return a->where != b->where || a->offset + a->bytes <= b->offset ||
	       b->offset + b->bytes <= a->offset;
}

/* Run it with every input @x; the first element of @out. */
static float result(struct weir_exec *s, const struct weir_graph *g,
		    const struct weir_node *out, float x)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct weir_run *run;
	float value;

	must(weir_run_new(s, &run));
	for (size_t i = 0; i < weir_graph_count(g); i++) {
		const struct weir_node *node = weir_graph_node(g, i);

		must(weir_node_info(node, &info));
		if (info.op == WEIR_OP_INPUT)
			gdev_set(run, node, x);
	}
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	value = gdev_output(run, out);
	weir_run_free(run);
	return value;
}

static void in_place(void)
{
	struct weir_graph *g = graph_new();
	struct weir_node *x = gdev_input(g, "x", 16), *a, *b, *c, *d;
	struct weir_node_place pa, pb, pc, pd, px;
	struct weir_exec *s;

	a = weir_add(g, x, x);
	b = weir_sqr(g, a);
	c = weir_scale(g, b, 2, 1);
	d = weir_graph_output(g, weir_add(g, c, x));
	s = exec_of(g);
	px = place_of(s, x);
	pa = place_of(s, a);
	pb = place_of(s, b);
	pc = place_of(s, c);
	pd = place_of(s, d);
	is_int(px.where, WEIR_NODE_INPUTS,
	       "an input is in the memory of inputs");
	is_int(px.why, WEIR_NODE_KEPT, "an input is kept");
	is_int(pa.why, WEIR_NODE_PLANNED,
	       "a result does not take the place of an input");
	ok(pb.why == WEIR_NODE_IN_PLACE && pb.offset == pa.offset &&
		   pb.over == 1,
	   "a result takes the place of a source that is used for the last time");
	ok(pc.why == WEIR_NODE_IN_PLACE && pd.why == WEIR_NODE_IN_PLACE,
	   "an output may take the place of a source");
	is_int(pd.until, -1, "an output is kept");
	ok(pa.step == 0 && pd.step == 3 && pa.dev == dev && !px.dev,
	   "a place has the step and the device of its node");
	ok(result(s, g, d, 1) == 10, "results in place are right");
	weir_exec_free(s);
	weir_graph_free(g);
}

/* The graphs of a defect of ggml: equal counts and sizes, other edges. */
static void edges(void)
{
	struct weir_graph *g = graph_new();
	struct weir_node *x, *k, *a, *b, *d;
	struct weir_exec *first = NULL, *second;
	struct weir_buf *buf = NULL;
	float results[2];

	for (int i = 0; i < 2; i++) {
		weir_graph_reset(g);
		x = gdev_input(g, "x", 16);
		k = gdev_leaf(g, dev, "k", 16, 3, NULL, &buf);
		a = weir_add(g, x, k);
		b = weir_mul(g, a, k);
		d = weir_graph_output(g, weir_add(g, b, i ? a : k));
		second = exec_of(g);
		results[i] = result(second, g, d, 2);
		if (i == 0)
			first = second;
	}
	ok(results[0] == 18 && results[1] == 20,
	   "a graph that differs in one edge gets an executable graph of its own");
	weir_exec_free(first);
	weir_exec_free(second);
	weir_graph_free(g);
	weir_buf_free(buf);
}

static void kept_apart(void)
{
	struct weir_graph *g = graph_new();
	struct weir_node *x = gdev_input(g, "x", 16), *node[8], *y;
	struct weir_node_place out, other;
	struct weir_exec *s;
	bool all_apart = true;

	y = weir_graph_output(g, weir_add(g, x, x));
	node[0] = weir_sqr(g, y);
	for (int i = 1; i < 8; i++)
		node[i] = weir_add(g, node[i - 1], y);
	weir_graph_output(g, node[7]);
	s = exec_of(g);
	out = place_of(s, y);
	for (int i = 0; i < 8; i++) {
		other = place_of(s, node[i]);
		all_apart &= apart(&out, &other);
	}
	ok(all_apart, "no later result shares bytes with an output");
	ok(result(s, g, y, 3) == 6,
	   "an output that others read keeps its value");
	weir_exec_free(s);
	weir_graph_free(g);
}

static void views_keep(void)
{
	const int64_t shape[] = { 4, 4 };
	struct weir_graph *g = graph_new();
	struct weir_node *x = gdev_input(g, "x", 16), *a, *row, *b, *c, *d, *t;
	struct weir_node_place pa, pb, pc;
	struct weir_exec *s;

	a = weir_reshape(g, weir_add(g, x, x), 2, shape);
	row = weir_slice(g, a, 0, 1, 1);
	b = weir_sqr(g, a);
	c = weir_graph_output(g, weir_add(g, b, row));
	s = exec_of(g);
	pa = place_of(s, a);
	pb = place_of(s, b);
	pc = place_of(s, c);
	ok(apart(&pa, &pb),
	   "a result is not in place while a view of the source is used later");
	is_int(pa.why, WEIR_NODE_VIEWS, "a view has the bytes of its source");
	is_int(pc.why, WEIR_NODE_IN_PLACE,
	       "a result takes the place of the source with its layout");
	ok(result(s, g, c, 1) == 6, "results beside views are right");
	weir_exec_free(s);
	weir_graph_reset(g);
	x = gdev_input(g, "x", 16);
	a = weir_reshape(g, weir_sqr(g, x), 2, shape);
	t = weir_transpose(g, a);
	d = weir_graph_output(g, weir_add(g, a, t));
	s = exec_of(g);
	pa = place_of(s, a);
	pb = place_of(s, d);
	ok(apart(&pa, &pb),
	   "a result is not in place if another source has the bytes in another layout");
	weir_exec_free(s);
	weir_graph_free(g);
}

static void what_is_computed(void)
{
	struct weir_graph *g = graph_new();
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_node *x = gdev_input(g, "x", 16), *unused, *y;
	struct weir_exec *s;
	const int64_t none = 0;
	struct weir_node *empty;

	unused = weir_sqr(g, x);
	y = weir_graph_output(g, weir_add(g, x, x));
	empty = weir_graph_input(g, "empty", WEIR_DTYPE_F32, 1, &none);
	weir_graph_output(g, weir_sqr(g, empty));
	s = exec_of(g);
	must(weir_exec_info(s, &info));
	is_int(info.computed, 1,
	       "what no output needs is not computed, nor what is empty");
	is_int(info.nodes, 5, "an executable graph has all nodes of its graph");
	is_int(place_of(s, unused).why, WEIR_NODE_NOT_NEEDED,
	       "the place of a node says that nothing needs it");
	ok(result(s, g, y, 2) == 4, "a graph with an empty tensor runs");
	is_err(weir_exec_explain(s, 5, &(struct weir_node_place){ .size = 8 }),
	       -EINVAL, "node 5 of 5",
	       "a node that does not exist has no place");
	weir_exec_free(s);
	weir_graph_reset(g);
	s = exec_of(g);
	must(weir_exec_info(s, &info));
	is_int(info.bytes, 0,
	       "an empty graph has an executable graph without memory");
	weir_exec_free(s);
	weir_graph_free(g);
}

/* Ask for nodes that are not there. */
static void questions(void)
{
	struct weir_graph *g = graph_new();
	struct weir_node *x = gdev_input(g, "x", 24), *y;
	struct weir_node_place place = { .size = sizeof(place) };
	struct weir_exec_info before = { .size = sizeof(before) }, after;
	struct weir_exec *s;
	unsigned refused = 0;

	y = weir_graph_output(g, weir_sqr(g, x));
	gdev_input(g, "spare", 24);
	s = exec_of(g);
	ok(place_of(s, x).needed && place_of(s, y).needed &&
		   !place_of(s, weir_graph_node(g, 2)).needed,
	   "the place of a node says whether a run needs it");
	must(weir_exec_info(s, &before));
	after = before;
	for (uint64_t i = 3; i < 1000; i++)
		refused += weir_exec_explain(s, i, &place) == -EINVAL;
	is_int(refused, 997, "places of nodes that are not there are refused");
	must(weir_exec_info(s, &after));
	ok(!memcmp(&before, &after, sizeof(after)) && result(s, g, y, 2) == 4,
	   "an executable graph is as it was after 997 questions that it refused");
	weir_exec_free(s);
	weir_graph_free(g);
}

static void writes(void)
{
	const int64_t shape[] = { 4, 4 };
	struct weir_graph *g = graph_new();
	struct weir_node *cache, *rows, *x, *ids, *after, *before, *y;
	struct weir_buf *buf = NULL;
	struct weir_node_place place;
	struct weir_exec *s;
	const int64_t two = 2, in[] = { 2, 4 };
	float data[8], *cached;
	int32_t id[2] = { 3, 1 };
	struct weir_run *run;
	struct weir_tensor t;

	cache = gdev_leaf(g, dev, "cache", 16, 1, NULL, &buf);
	cached = weir_tensor_data(weir_node_tensor(cache));
	cache = weir_reshape(g, cache, 2, shape);
	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, in);
	ids = weir_graph_input(g, "ids", WEIR_DTYPE_I32, 1, &two);
	before = weir_graph_output(g, weir_scale(g, cache, 2, 0));
	rows = weir_set_rows(g, cache, x, ids);
	after = weir_graph_output(g, weir_scale(g, rows, 3, 0));
	y = weir_graph_output(g, weir_slice(g, rows, 0, 3, 1));
	s = exec_of(g);
	place = place_of(s, rows);
	ok(place.where == WEIR_NODE_LEAF && place.why == WEIR_NODE_WRITES,
	   "a write is in its leaf");
	must(weir_run_new(s, &run));
	for (int i = 0; i < 8; i++)
		data[i] = 5;
	must(weir_run_input(run, x, data, sizeof(data)));
	must(weir_run_input(run, ids, id, sizeof(id)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	ok(cached[0] == 1 && cached[4] == 5 && cached[12] == 5,
	   "a run writes rows of a leaf");
	must(weir_run_output(run, before, &t));
	ok(((float *)weir_tensor_data(&t))[4] == 2,
	   "a read that comes before a write sees the old bytes");
	must(weir_run_output(run, after, &t));
	ok(((float *)weir_tensor_data(&t))[4] == 15,
	   "a read of the result of a write sees the new bytes");
	must(weir_run_output(run, y, &t));
	ok(weir_tensor_data(&t) == cached + 12,
	   "an output that is stored in a leaf is at its place there");
	weir_run_free(run);
	weir_exec_free(s);
	weir_graph_free(g);
	weir_buf_free(buf);
}

static void refusals(void)
{
	struct weir_graph *g = graph_new();
	struct weir_node *x = gdev_input(g, "x", 16), *w;
	struct weir_exec *s;
	struct weir_tensor t;
	struct weir_buft *plain;
	struct weir_buf *buf = NULL;
	int64_t shape = 16;

	weir_node_set_name(weir_sqr(g, x), "sq");
	weir_graph_output(g, weir_graph_node(g, 1));
	gdev.refuse = WEIR_OP_SQR;
	is_err(weir_exec_new(sched, g, &s), -EOPNOTSUPP,
	       "node 1 (sqr 'sq'): GDEV0 has no kernel of F32",
	       "an operation that the device lacks is refused with its node");
	gdev_reset();
	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &shape));
	t.name = "w";
	w = weir_graph_leaf(g, &t, NULL);
	weir_graph_output(g, weir_add(g, x, w));
	is_err(weir_exec_new(sched, g, &s), -EINVAL,
	       "leaf 'w' F32 [16] is not placed",
	       "a leaf that is not placed is refused");
	is_int(gdev.allocs + gdev.prepares, 0,
	       "nothing is allocated or prepared for a graph that is refused");
	must(weir_dev_buft(cpu_of(weir), WEIR_MEM_PLAIN, &plain));
	must(weir_buf_alloc(plain, 64, NULL, &buf));
	must(weir_tensor_place(&t, buf, 0));
	weir_graph_reset(g);
	weir_graph_output(g, weir_sqr(g, weir_graph_leaf(g, &t, NULL)));
	is_err(weir_exec_new(sched, g, &s), -EINVAL,
	       "is in memory of CPU, GDEV0 computes",
	       "a leaf in memory of another device is refused");
	weir_graph_reset(g);
	weir_add(g, x, NULL);
	is_err(weir_exec_new(sched, g, &s), -EINVAL, "weir_graph_op: add",
	       "a graph with a failure has no executable graph, but its sentence");
	weir_buf_free(buf);
	weir_graph_free(g);
}

static void estimates(void)
{
	struct weir_exec_info e = { .size = sizeof(e) };
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_graph *g = graph_new();
	struct weir_node *x = gdev_input(g, "x", 16), *y, *w;
	struct weir_exec *s, *other;
	struct weir_tensor t;
	const int64_t shape = 16, large = 1 << 20;
	struct weir_graph *big = graph_new();
	uint64_t bytes;

	y = weir_graph_output(g, weir_add(g, weir_sqr(g, x), x));
	s = exec_of(g);
	ok(result(s, g, y, 2) == 6,
	   "an executable graph computes before an estimate");
	bytes = gdev.bytes;
	gdev_reset();
	gdev.measured = 1000;
	x = weir_graph_input(big, "x", WEIR_DTYPE_F32, 1, &large);
	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &large));
	w = weir_graph_leaf(big, &t, NULL);
	weir_graph_output(big, weir_add(big, weir_add(big, x, w), w));
	is_int(weir_sched_estimate(sched, big, &e), 0,
	       "a graph whose leaves are not placed is estimated");
	ok(e.results == 4 << 20 && e.inputs == 4 << 20 && e.leaves == 4 << 20 &&
		   e.workspace == 1000 && e.bytes == (8 << 20) + 1000,
	   "an estimate has the bytes of results, inputs, leaves and workspace");
	ok(e.nodes == 4 && e.computed == 2 && e.in_place == 1 &&
		   e.lowest == e.results,
	   "an estimate counts nodes, and those in place");
	ok(!gdev.allocs && !gdev.frees && !gdev.prepares && !gdev.releases &&
		   gdev.bytes == bytes,
	   "an estimate allocates, frees and prepares nothing");
	ok(result(s, g, y, 3) == 12,
	   "an estimate leaves an executable graph in use as it is");
	must(weir_exec_new(sched, g, &other));
	must(weir_exec_info(other, &info));
	is_int(info.times, 2,
	       "an executable graph is taken again after an estimate");
	(void)shape;
	weir_exec_free(other);
	weir_exec_free(s);
	gdev_reset();
	weir_graph_free(big);
	weir_graph_free(g);
}

/* ggml's scheduler aborts on more nodes than it was made for. */
static void many_nodes(void)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_graph *g = graph_new();
	struct weir_node *x = gdev_input(g, "x", 16), *y = x;
	struct weir_exec *s;

	for (int i = 0; i < 50000; i++)
		y = weir_add(g, y, x);
	weir_graph_output(g, y);
	s = exec_of(g);
	must(weir_exec_info(s, &info));
	ok(info.computed == 50000 && info.results == 64,
	   "a graph of 50,000 nodes has an executable graph");
	ok(result(s, g, y, 1) == 50001, "a graph of 50,000 nodes runs");
	weir_exec_free(s);
	weir_graph_free(g);
}

int main(void)
{
	plan(0);
	weir = gdev_open(&dev);
	must(weir_sched_new(&dev, 1, NULL, &sched));
	in_place();
	edges();
	kept_apart();
	views_keep();
	what_is_computed();
	questions();
	writes();
	refusals();
	estimates();
	many_nodes();
	weir_sched_free(sched);
	weir_close(weir);
	is_int(gdev.bytes, 0, "all memory is given back");
	return done_testing();
}
