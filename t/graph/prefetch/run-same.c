/* SPDX-License-Identifier: MIT */
/* Runs with several leaves of the same bytes, which are kept once. */
#include <string.h>

#include <weir/ops.h>

#include "files.h"
#include "leaf.h"
#include "streams.h"

#define N 128
#define PARTS 12
#define BYTES ((uint64_t)N * N * 4) /* bytes of a weight */
#define NEED (BYTES + 4096)

static struct weir *weir;
static struct weir_file *file;
static float numbers[PARTS * N * N], x[N];

static struct weir_node *weight(struct weir_graph *g, int part,
				struct weir_buf *buf)
{
	const int64_t shape[] = { N, N };
	struct weir_tensor t;

	must(weir_tensor_init(&t, WEIR_DTYPE_F32, 2, shape));
	if (!buf)
		return weir_graph_leaf_file(g, &t, file,
					    (uint64_t)part * BYTES);
	must(weir_tensor_place(&t, buf, (uint64_t)part * BYTES));
	return weir_graph_constant(g, weir_graph_leaf(g, &t, NULL));
}

/* Products with the parts of @list, each of which is a leaf of its own. */
static struct weir_graph *products(const int *list, int n, struct weir_buf *buf)
{
	const int64_t shape[] = { 1, N };
	struct weir_graph *g = graph_new();
	struct weir_node *y =
		weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, shape);

	for (int i = 0; i < n; i++) {
		y = weir_mul_mat(g, weight(g, list[i], buf), y);
		weir_node_set_name(y, "product");
		y = weir_rms_norm(g, y, 1e-5f);
		weir_node_set_name(y, "norm");
	}
	weir_graph_output(g, y);
	must(weir_graph_error(g, NULL));
	return g;
}

/* What a run computes, with @limit bytes for weights. */
struct outcome {
	struct weir_exec_info info;
	struct weir_exec_info guess;
	uint64_t kept, prefetched; /* bytes that the run reports */
	float y[N];
};

static struct outcome outcome_of(struct weir_sched *sched, struct weir_graph *g)
{
	struct weir_run_report report = { .size = sizeof(report) };
	struct outcome o = { .info.size = sizeof(o.info),
			     .guess.size = sizeof(o.guess) };
	struct weir_exec *s;
	struct weir_tensor t;
	struct weir_run *run;

	must(weir_sched_estimate(sched, g, &o.guess));
	must(weir_exec_new(sched, g, &s));
	must(weir_exec_info(s, &o.info));
	must(weir_run_new(s, &run));
	must(weir_run_input(run, weir_graph_node(g, 0), x, sizeof(x)));
	for (int i = 0; i < 3; i++) {
		must(weir_run_start(run));
		must(weir_run_wait(run, -1));
	}
	must(weir_run_report(run, &report));
	o.kept = report.kept;
	o.prefetched = report.prefetched;
	must(weir_run_output(run, weir_graph_node(g, weir_graph_count(g) - 1),
			     &t));
	must(weir_tensor_get(&t, 0, o.y, sizeof(o.y)));
	weir_run_free(run);
	weir_exec_free(s);
	return o;
}

static struct outcome limited(uint64_t limit, struct weir_graph *g)
{
	struct weir_sched_opts o = { .size = sizeof(o), .weights = &limit };
	struct weir_dev *dev = cpu_of(weir);
	struct weir_sched *sched;
	struct outcome ret;

	must(weir_sched_new(&dev, 1, &o, &sched));
	ret = outcome_of(sched, g);
	weir_sched_free(sched);
	return ret;
}

/* The first weight is used again at the end, as tied embeddings are. */
static void tied(void)
{
	static const int list[PARTS + 1] = { 0, 1, 2, 3,  4,  5, 6,
					     7, 8, 9, 10, 11, 0 };
	struct weir_graph *g = products(list, PARTS + 1, NULL);
	struct outcome want = limited(0, g), o;
	bool right = true;

	is_int(want.kept, PARTS * BYTES,
	       "weights with the same bytes are kept once");
	o = limited(PARTS * NEED, g);
	is_int(o.info.prefetched, 0,
	       "weights of which two are the same need a limit for one of them");
	ok(o.info.kept == PARTS * BYTES && o.guess.kept == o.info.kept &&
		   o.guess.prefetched == 0,
	   "an estimate counts weights with the same bytes once");
	is_int(o.guess.leaves, PARTS * BYTES,
	       "an estimate counts the bytes of two equal leaves once");
	ok(!memcmp(o.y, want.y, sizeof(o.y)),
	   "a run with weights that are kept once is right");
	for (uint64_t n = 1; n < PARTS; n++) {
		o = limited(n * NEED, g);
		right = right && !memcmp(o.y, want.y, sizeof(o.y)) &&
			o.prefetched == o.info.prefetched;
		if (n == PARTS / 2)
			is_int(o.info.kept + o.info.prefetched, PARTS * BYTES,
			       "a weight that is used twice is kept first");
	}
	ok(right, "runs with any limit are right when a weight is used twice");
	weir_graph_free(g);
}

/* One node reads two leaves with the same bytes. */
static void at_once(void)
{
	struct weir_graph *g = graph_new();
	const int64_t shape[] = { N, N };
	struct weir_node *y =
		weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, shape);
	struct weir_dev *dev = cpu_of(weir);
	uint64_t limit = 3 * NEED;
	struct weir_sched_opts o = { .size = sizeof(o), .weights = &limit };
	struct weir_run_report report = { .size = sizeof(report) };
	static float got[N * N], zeros[N * N];
	struct weir_exec *s;
	struct weir_sched *sched;
	struct weir_tensor t;
	struct weir_run *run;
	bool right = true;

	for (int i = 0; i < PARTS; i++)
		y = weir_add(g, y,
			     weir_mul(g, weight(g, i, NULL),
				      weight(g, i, NULL)));
	weir_graph_output(g, y);
	must(weir_sched_new(&dev, 1, &o, &sched));
	must(weir_exec_new(sched, g, &s));
	must(weir_run_new(s, &run));
	must(weir_run_input(run, weir_graph_node(g, 0), zeros, sizeof(zeros)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	must(weir_run_report(run, &report));
	is_int(report.kept + report.prefetched, PARTS * BYTES,
	       "two leaves of a node that have the same bytes are prefetched once");
	must(weir_run_output(run, y, &t));
	must(weir_tensor_get(&t, 0, got, sizeof(got)));
	for (int k = 0; k < N * N; k++) {
		float sum = 0;

		for (int i = 0; i < PARTS; i++)
			sum += numbers[i * N * N + k] * numbers[i * N * N + k];
		right = right && got[k] == sum;
	}
	ok(right, "a node reads the bytes of both of its leaves");
	weir_run_free(run);
	weir_exec_free(s);
	weir_sched_free(sched);
	weir_graph_free(g);
}

/*
 * The second device computes the products, and cannot use the weights' memory.
 */
static void placed_apart(void)
{
	static const int list[] = { 0, 1, 2, 0, 1, 2, 0 };
	const uint64_t limits[] = { 0, 3 * NEED };
	struct weir_sched_opts o = { .size = sizeof(o), .weights = limits };
	struct weir *before = weir;
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_dev *dev[2];
	struct weir_tensor t;
	struct outcome got, want;

	g = products(list, 7, NULL);
	want = limited(0, g);
	weir_graph_free(g);
	weir = open_root(WEIR_IO_AUTO);
	must(weir_dev_configure(weir, "CPU:devices=2,apart=1", &dev[0]));
	must(weir_dev_find(weir, "CPU1", &dev[1]));
	t = bytes(weir, sizeof(numbers));
	must(weir_tensor_set(&t, 0, numbers, sizeof(numbers)));
	g = products(list, 7, t.buf);
	must(weir_sched_new(dev, 2, &o, &sched));
	must(weir_sched_pin(sched, "product*", dev[1]));
	got = outcome_of(sched, g);
	is_int(got.guess.leaves, 3 * BYTES,
	       "placed leaves with the same bytes are counted once");
	ok(got.info.kept == 3 * BYTES && got.info.prefetched == 0 &&
		   got.prefetched == 0,
	   "leaves with the same bytes in memory of another device are kept once");
	is_mem(got.y, want.y, sizeof(got.y),
	       "a run with placed leaves that are kept once is right");
	weir_sched_free(sched);
	weir_graph_free(g);
	weir_buf_free(t.buf);
	weir_close(weir);
	weir = before;
}

int main(void)
{
	plan(12);
	files_begin();
	weir = open_root(WEIR_IO_AUTO);
	for (unsigned i = 0; i < PARTS * N * N; i++)
		numbers[i] = (float)((int)(i * 37 % 101) - 50) / 64;
	for (unsigned i = 0; i < N; i++)
		x[i] = (float)((int)(i * 29 % 53) - 26) / 32;
	files_bytes("same.bin", numbers, sizeof(numbers));
	must(weir_file_open(weir, files_path("same.bin"), NULL, &file));
	tied();
	at_once();
	placed_apart();
	weir_file_close(file);
	weir_close(weir);
	return done_testing();
}
