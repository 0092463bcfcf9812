/* SPDX-License-Identifier: MIT */
/*
 * Parts of a leaf that one device writes and another reads: apart, where it
 * reads from a copy of the leaf, and in shared memory.
 */
#include <weir/ops.h>

#include "leaf.h"
#include "streams.h"

#define W 4

static struct weir_dev *dev[2];
static struct weir *weir;
static struct weir_graph *g;
static struct weir_sched *sched;
static struct weir_exec *exec;
static struct weir_run *run;
static struct weir_tensor leaf_at;
static struct weir_node *in, *whole;
static float observed[W];

static struct weir_node *on(int i, struct weir_node *node)
{
	return weir_node_set_name(node, i ? "on1" : "on0");
}

/* 100 to 103, late. */
static int slow(void *arg, const struct weir_operand *dst,
		const struct weir_operand *src, unsigned n, unsigned part,
		unsigned parts)
{
	(void)arg;
	(void)src;
	(void)n;
	(void)parts;
	if (part)
		return 0;
	usleep(100000);
	for (int i = 0; i < W; i++)
		((float *)dst->data)[i] = 100 + (float)i;
	return 0;
}

static int see(void *arg, struct weir_run *of, uint64_t node,
	       const struct weir_tensor *t)
{
	(void)arg;
	(void)of;
	(void)node;
	memcpy(observed, weir_tensor_data(t), sizeof(observed));
	return 0;
}

static struct weir_node *row(int i)
{
	return weir_slice(g, whole, 0, i, 1);
}

/* A leaf of two rows in memory of the first device. */
static void begin(const char *params)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	const int64_t rows[] = { 2, W }, one[] = { 1, W };
	struct weir_buft *buft;
	struct weir_buf *buf;

	o.observe = see;
	must(weir_open(NULL, &weir));
	must(weir_dev_configure(weir, params, &dev[0]));
	must(weir_dev_find(weir, "CPU1", &dev[1]));
	must(weir_sched_new(dev, 2, &o, &sched));
	must(weir_sched_pin(sched, "on0", dev[0]));
	must(weir_sched_pin(sched, "on1", dev[1]));
	must(weir_dev_buft(dev[0], WEIR_MEM_PLAIN, &buft));
	must(weir_buf_alloc(buft, 4096, NULL, &buf));
	must(weir_tensor_init(&leaf_at, WEIR_DTYPE_F32, 2, rows));
	must(weir_tensor_place(&leaf_at, buf, 0));
	g = graph_new();
	whole = weir_graph_leaf(g, &leaf_at, NULL);
	in = weir_graph_input(g, "in", WEIR_DTYPE_F32, 2, one);
}

/* The first device writes the second row. */
static struct weir_node *write_row(void)
{
	struct weir_op_call call = { .fn = slow,
				     .dtype = WEIR_DTYPE_F32,
				     .ndim = 2,
				     .shape = { 1, W } };

	return on(0, weir_copy(g, on(0, weir_call(g, &call, &in, 1)), row(1)));
}

static void compute(void)
{
	static const float first[2 * W] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	must(weir_tensor_set(&leaf_at, 0, first, sizeof(first)));
	must(weir_run_input(run, in, first, W * sizeof(float)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
}

static bool is_written(const float *got)
{
	return got[0] == 100 && got[1] == 101 && got[2] == 102 && got[3] == 103;
}

static void end(void)
{
	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
	weir_buf_free(leaf_at.buf);
	weir_close(weir);
}

/* The second device has a copy of the leaf, made for its first row. */
static void read_after(bool result)
{
	struct weir_node *written, *last;
	struct weir_tensor out;
	float got[W];

	begin("CPU:devices=2,apart=1");
	written = write_row();
	weir_graph_output(g, on(1, weir_scale(g, row(0), 1, 0)));
	last = on(1, weir_scale(g, result ? written : row(1), 1, 0));
	weir_graph_output(g, last);
	compute();
	must(weir_run_output(run, last, &out));
	must(weir_tensor_get(&out, 0, got, sizeof(got)));
	ok(is_written(got),
	   "another device reads %s after it read another part of the leaf",
	   result ? "the result of a write" : "a part that was written");
	end();
}

/*
 * The second device uses the leaf first, and observes what the first one
 * writes.
 */
static void observe_after(void)
{
	begin("CPU:devices=2");
	weir_graph_output(g, on(1, weir_scale(g, row(0), 1, 0)));
	write_row();
	weir_graph_observe(g, row(1));
	compute();
	ok(is_written(observed),
	   "a view that is observed has what another device wrote before");
	end();
}

int main(void)
{
	plan(3);
	read_after(false);
	read_after(true);
	observe_after();
	return done_testing();
}
