/* SPDX-License-Identifier: MIT */
/* weir_graph_compute: a graph computed by one call. */
#include <errno.h>
#include <string.h>

#include <weir/ops.h>

#include "gdev.h"
#include "streams.h"

#define N 16

static struct weir *weir;
static struct weir_dev *dev;
static struct weir_graph *g;
static struct weir_node *x, *w, *doubled, *sum;
static struct weir_buf *buf;
static float in[N], out[N];

/* The graph: x + w, where w is in memory of the device. */
static int compute(struct weir_graph_io *io, size_t n,
		   const struct weir_graph_compute_opts *opts)
{
	memset(out, 0, sizeof(out));
	return weir_graph_compute(weir, g, io, n, opts);
}

static struct weir_graph_io input(const struct weir_node *node)
{
	return (struct weir_graph_io){ .node = node,
				       .in = in,
				       .bytes = sizeof(in) };
}

static struct weir_graph_io output(const struct weir_node *node)
{
	return (struct weir_graph_io){ .node = node,
				       .out = out,
				       .bytes = sizeof(out) };
}

static void works(void)
{
	struct weir_graph_compute_opts o = WEIR_GRAPH_COMPUTE_OPTS_INIT;
	struct weir_graph_io io[] = { input(x), output(sum) };
	uint64_t before = gdev.bytes;
	unsigned nodes = gdev.nodes;

	is_int(compute(io, 2, NULL), 0, "a graph is computed by one call");
	ok(out[0] == 5 && out[N - 1] == 5, "the output is copied");
	ok(gdev.nodes > nodes, "the device that has the leaf computes");
	is_int((long long)(gdev.bytes - before), 0,
	       "the call gives its memory back");
	is_int(compute(io, 1, NULL), 0, "outputs may be left out");
	o.devs = &dev;
	o.n_devs = 1;
	is_int(compute(io, 2, &o), 0, "the program may choose the devices");
	ok(out[0] == 5, "the output is the same on the devices chosen");
}

/* A root whose device only has memory, and a graph of its own. */
static void memory_only(void)
{
	struct weir_graph_compute_opts o = WEIR_GRAPH_COMPUTE_OPTS_INIT;
	struct weir_graph_io io[2];
	struct weir_node *in_memory;
	struct weir_buf *leaf = NULL;
	struct weir_dev *memory;
	struct weir *root = gdev_open_memory(&memory);
	struct weir_graph *other;

	must(weir_graph_new(&other));
	io[0] = input(gdev_input(other, "x", N));
	in_memory = gdev_leaf(other, memory, "w", N, 3, NULL, &leaf);
	io[1] = output(weir_graph_output(
		other, weir_add(other, weir_graph_node(other, 0), in_memory)));
	memset(out, 0, sizeof(out));
	is_int(weir_graph_compute(root, other, io, 2, NULL), 0,
	       "the CPU computes where the device of a leaf does not");
	ok(out[0] == 4, "the CPU gets the leaf of a device");
	o.devs = &memory;
	o.n_devs = 1;
	is_err(weir_graph_compute(root, other, io, 2, &o), -EOPNOTSUPP,
	       "GDEV0 does not compute",
	       "devices of which none computes are refused");
	o.devs = &dev;
	is_err(weir_graph_compute(root, other, io, 2, &o), -EINVAL,
	       "GDEV0 is of another root",
	       "a device of another root is refused");
	weir_graph_free(other);
	weir_buf_free(leaf);
	weir_close(root);
}

static void wrong_io(void)
{
	struct weir_graph_io io[] = { input(x), output(sum) };
	struct weir_graph *other;

	is_err(compute(&io[1], 1, NULL), -EINVAL, "'x'",
	       "an input that is missing is refused");
	io[1].node = doubled;
	is_err(compute(io, 2, NULL), -EINVAL, "output",
	       "a node that is not marked as an output is refused");
	io[1] = output(sum);
	io[1].bytes--;
	is_err(compute(io, 2, NULL), -EINVAL, "has 64 bytes, not 63",
	       "an output of another size is refused with both numbers");
	io[1] = output(sum);
	io[0].bytes++;
	is_err(compute(io, 2, NULL), -EINVAL, "has 64 bytes, not 65",
	       "an input of another size is refused with both numbers");
	io[0] = input(w);
	is_err(compute(io, 2, NULL), -EINVAL, "no input",
	       "a leaf cannot be set as an input");
	io[0] = (struct weir_graph_io){ .node = x };
	is_err(compute(io, 2, NULL), -EINVAL, "entry 0 has neither",
	       "an entry without memory is refused");
	io[0] = input(x);
	io[0].out = out;
	is_err(compute(io, 2, NULL), -EINVAL, "entry 0 has both",
	       "an entry that is both is refused");
	must(weir_graph_new(&other));
	io[0] = input(gdev_input(other, "x", N));
	is_err(compute(io, 2, NULL), -EINVAL, "entry 0 is NULL, or of another",
	       "a node of another graph is refused");
	weir_graph_free(other);
	is_err(compute(NULL, 2, NULL), -EINVAL, "2 entries, but no list",
	       "entries without a list are refused");
	is_int((long long)out[0], 0, "a call that was refused writes nothing");
}

static void wrong_opts(void)
{
	struct weir_sched_opts s = WEIR_SCHED_OPTS_INIT;
	struct weir_graph_compute_opts o = WEIR_GRAPH_COMPUTE_OPTS_INIT;
	struct weir_graph_io io[] = { input(x), output(sum) };
	uint64_t limit[2] = { 8, 8 };

	o.sched = &s;
	s.budget = 8;
	is_err(compute(io, 2, &o), -ENOMEM, "budget of 8",
	       "a graph over the budget is refused");
	s.budget = 0;
	s.budgets = limit;
	is_err(compute(io, 2, &o), -EINVAL, "no list of them",
	       "budgets of devices need a list of devices");
	s.budgets = NULL;
	o.n_devs = 1;
	is_err(compute(io, 2, &o), -EINVAL, "1 devices, no list",
	       "a number of devices without a list is refused");
	o.n_devs = 0;
	o.reserved = 1;
	is_err(compute(io, 2, &o), -EINVAL, "reserved 1",
	       "a reserved option that is set is refused");
}

static void fails(void)
{
	struct weir_graph_io io[] = { input(x), output(sum) };
	uint64_t before = gdev.bytes;

	gdev.fail_with = -EIO;
	gdev.fail_at = 3;
	is_err(compute(io, 2, NULL), -EIO, "weir_run_wait",
	       "the failure of the run is that of the call");
	ok(out[0] == 0, "a run that fails writes no output");
	is_int((long long)(gdev.bytes - before), 0,
	       "a run that fails gives its memory back");
	gdev_reset();
	weir_sqr(g, NULL);
	is_err(compute(io, 2, NULL), -EINVAL, "sqr",
	       "the failure of the graph is that of the call");
}

int main(void)
{
	plan(0);
	weir = gdev_open(&dev);
	for (int i = 0; i < N; i++)
		in[i] = 1;
	must(weir_graph_new(&g));
	x = gdev_input(g, "x", N);
	w = gdev_leaf(g, dev, "w", N, 3, NULL, &buf);
	doubled = weir_add(g, x, x);
	sum = weir_graph_output(g, weir_add(g, doubled, w));
	works();
	memory_only();
	wrong_io();
	wrong_opts();
	fails();
	weir_graph_free(g);
	weir_buf_free(buf);
	weir_close(weir);
	is_int(gdev.bytes, 0, "all memory is given back");
	return done_testing();
}
