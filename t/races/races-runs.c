/* SPDX-License-Identifier: MIT */
/*
 * WEIR_DEBUG=races and runs of graphs: leaves that streams write, results that
 * streams read, observers, runs one after another.
 */
#include <stdlib.h>

#include "files.h"
#include "racing.h"

#define N 64 /* elements of F32: 256 bytes */

static struct weir_graph *g;
static struct weir_sched *sched;
static struct weir_exec *exec;
static struct weir_run *run;
static struct weir_node *in, *mid, *out;
static struct weir_tensor leaf; /* t, as numbers */
static float host[N];

/*
 * out = 2 * (leaf + in), with the leaf in t; after @event if that is not NULL.
 */
static void build(struct weir_event *event, const struct weir_sched_opts *opts)
{
	struct weir_dev *cpu = cpu_of(weir);
	int64_t n = N;

	must(weir_tensor_init(&leaf, WEIR_DTYPE_F32, 1, &n));
	must(weir_tensor_place(&leaf, t.buf, 0));
	leaf.name = "leaf";
	must(weir_graph_new(&g));
	in = weir_graph_input(g, "in", WEIR_DTYPE_F32, 1, &n);
	mid = weir_add(g, weir_graph_leaf(g, &leaf, event), in);
	if (opts && opts->observe)
		mid = weir_graph_observe(g, mid);
	out = weir_graph_output(g, weir_scale(g, mid, 2, 0));
	must(weir_sched_new(&cpu, 1, opts, &sched));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, in, host, sizeof(host)));
}

static void destroy(void)
{
	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
}

static struct weir_tensor result(void)
{
	struct weir_tensor r;

	must(weir_run_output(run, out, &r));
	return r;
}

static void leaf_without_event(void)
{
	set_up();
	build(NULL, NULL);
	must(weir_stream_set(a, &leaf, 0, host, sizeof(host)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	destroy();
	expect_race(
		"the run on CPU step 1 (add) reads bytes [0, 256) of 'leaf', which stream 'a' operation 1 (set) writes, and nothing orders the two: the run on CPU needs to wait for stream 'a' operation 1",
		"a leaf that a stream writes, without its event");
}

static void leaf_with_event(bool done, const char *title)
{
	set_up();
	build(ev, NULL);
	for (int i = 0; i < 3; i++) {
		must(weir_stream_set(a, &leaf, 0, host, sizeof(host)));
		must(weir_stream_record(a, ev));
		if (done)
			usleep(20000);
		must(weir_run_start(run));
		must(weir_run_wait(run, -1));
	}
	destroy();
	expect_no_race(title);
}

static void result_without_wait(void)
{
	struct weir_tensor r;

	set_up();
	build(NULL, NULL);
	must(weir_run_start(run));
	r = result();
	usleep(50000);
	must(weir_stream_get(b, &r, 0, host, sizeof(host)));
	must(weir_run_wait(run, -1));
	must(weir_stream_sync(b, -1));
	destroy();
	is_int(reports(1), 1,
	       "a result that a stream reads without a wait: one report");
	has_str(said, "which the run on CPU step 2 (scale) writes",
		"a result that is read without a wait: the step that writes it");
	tear_down();
}

static void start_while_read(void)
{
	struct weir_tensor r;

	set_up();
	build(NULL, NULL);
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	r = result();
	must(weir_stream_get(b, &r, 0, host, sizeof(host)));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	must(weir_stream_sync(b, -1));
	destroy();
	is_int(reports(1), 1,
	       "a run that overwrites a result which is read: one report");
	has_str(said, "the run on CPU needs to wait for stream 'b' operation 1",
		"a run that overwrites a result which is read: the missing wait");
	tear_down();
}

static void results_in_order(void)
{
	struct weir_tensor r;

	set_up();
	build(NULL, NULL);
	for (int i = 0; i < 5; i++) {
		must(weir_run_start(run));
		must(weir_run_record(run, ev));
		must(weir_stream_wait(b, ev));
		r = result();
		must(weir_stream_get(b, &r, 0, host, sizeof(host)));
		must(weir_stream_record(b, ev));
		must(weir_event_wait(ev, -1));
	}
	destroy();
	expect_no_race("a stream that waits for a run may read its result");
}

static void host_reads(void)
{
	struct weir_run_report report = { .size = sizeof(report) };
	struct weir_tensor r;

	set_up();
	build(NULL, NULL);
	must(weir_run_start(run));
	r = result();
	must(weir_tensor_get(&r, 0, host, sizeof(host)));
	must(weir_stream_get(b, &r, 0, host, sizeof(host)));
	must(weir_stream_sync(b, -1));
	must(weir_run_start(run));
	while (weir_run_report(run, &report) == 0 && report.running)
		usleep(100);
	r = result();
	must(weir_stream_get(b, &r, 0, host, sizeof(host)));
	must(weir_stream_sync(b, -1));
	must(weir_run_wait(run, -1));
	destroy();
	expect_no_race(
		"the program may read a result, or ask whether the run has ended");
}

static void in_a_stream(void)
{
	struct weir_tensor r;

	set_up();
	build(NULL, NULL);
	for (int i = 0; i < 3; i++) {
		must(weir_stream_set(a, &leaf, 0, host, sizeof(host)));
		must(weir_stream_compute(a, run));
		r = result();
		must(weir_stream_get(a, &r, 0, host, sizeof(host)));
		must(weir_stream_sync(a, -1));
		must(weir_stream_compute(b, run));
		must(weir_run_wait(run, -1));
	}
	destroy();
	expect_no_race("a run is ordered with other operations of its stream");
}

static int read_in_b(void *arg, struct weir_run *of, uint64_t node,
		     const struct weir_tensor *seen)
{
	(void)of;
	(void)node;
	must(weir_stream_get(b, seen, 0, host, sizeof(host)));
	return arg ? weir_stream_sync(b, -1) : 0;
}

/* The memory of mid gets the result, in place. */
static void observed(bool waits, const char *title)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;

	set_up();
	o.observe = read_in_b;
	o.observe_arg = waits ? &o : NULL;
	build(NULL, &o);
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	must(weir_stream_sync(b, -1));
	destroy();
	if (waits) {
		expect_no_race(title);
		return;
	}
	is_int(reports(1), 1, "%s: one report", title);
	has_str(said, "step 2 (scale) writes",
		"%s: the step that overwrites it", title);
	tear_down();
}

static void several_runs(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_run *other;

	set_up();
	o.copies = 2;
	build(NULL, &o);
	must(weir_run_new(exec, &other));
	must(weir_run_input(other, in, host, sizeof(host)));
	for (int i = 0; i < 5; i++) {
		must(weir_run_start(run));
		must(weir_run_start(other));
		must(weir_run_wait(run, -1));
		must(weir_run_input(run, in, host, sizeof(host)));
		must(weir_run_wait(other, -1));
		must(weir_run_input_tensor(other, in, &leaf, NULL));
	}
	must(weir_run_start(other));
	must(weir_run_wait(other, -1));
	weir_run_free(other);
	destroy();
	expect_no_race(
		"runs of one executable graph, which share results, do not race");
}

/* Programs that compute token by token make a graph each time. */
static void many_graphs(void)
{
	struct weir_tensor r;

	set_up();
	for (int i = 0; i < 300; i++) {
		build(NULL, NULL);
		must(weir_run_start(run));
		must(weir_run_wait(run, -1));
		r = result();
		must(weir_stream_get(b, &r, 0, host, sizeof(host)));
		must(weir_stream_sync(b, -1));
		destroy();
	}
	expect_no_race("more runs than the checker can tell apart do not race");
}

#define LAYERS 8
#define WIDE 128
#define WEIGHT ((uint64_t)WIDE * WIDE * sizeof(float))

/* Products with weights in @file, most of which their nodes read from there. */
static void build_fed(struct weir_file *file)
{
	const int64_t shape[] = { WIDE, WIDE }, one_row[] = { 1, WIDE };
	uint64_t weights = 5 * (WEIGHT + 4096);
	struct weir_sched_opts o = { .size = sizeof(o), .weights = &weights };
	static float zeros[WIDE];
	struct weir_dev *cpu = cpu_of(weir);
	struct weir_tensor w;

	must(weir_tensor_init(&w, WEIR_DTYPE_F32, 2, shape));
	must(weir_graph_new(&g));
	in = out = weir_graph_input(g, "in", WEIR_DTYPE_F32, 2, one_row);
	for (unsigned i = 0; i < LAYERS; i++)
		out = weir_mul_mat(
			g, weir_graph_leaf_file(g, &w, file, i * WEIGHT), out);
	weir_graph_output(g, out);
	must(weir_sched_new(&cpu, 1, &o, &sched));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, in, zeros, sizeof(zeros)));
	/* Weights that stay in memory are not read again. */
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
}

/* A stream writes to the file after a run has read it, waited for or not. */
static void file_written(bool waits, const char *title)
{
	struct weir_file_opts o = WEIR_FILE_OPTS_INIT;
	void *zeros = calloc(LAYERS, WEIGHT);
	struct weir_file *file;

	set_up();
	files_bytes("weights.bin", zeros, LAYERS * WEIGHT);
	free(zeros);
	o.flags = WEIR_FILE_WRITE;
	must(weir_file_open(weir, files_path("weights.bin"), &o, &file));
	build_fed(file);
	/*
	 * A call would order what follows after the run: it ends unseen, at
	 * last.
	 */
	for (unsigned ms = 50; ms < 5000 && !reports(0);
	     ms *= waits ? 100 : 2) {
		must(weir_run_start(run));
		if (waits)
			must(weir_run_wait(run, -1));
		usleep(ms * 1000);
		for (unsigned i = 0; i < LAYERS; i++)
			must(weir_stream_write(a, file, i * WEIGHT, &t, 0,
					       256));
		must(weir_stream_sync(a, -1));
		must(weir_run_wait(run, -1));
	}
	destroy();
	weir_file_close(file);
	if (waits) {
		expect_no_race(title);
		return;
	}
	reports(1);
	has_str(said, "(mul_mat) reads", "%s: the report names the node",
		title);
	tear_down();
}

static void racing(void)
{
	leaf_without_event();
	result_without_wait();
	start_while_read();
	observed(false, "an observer that does not wait for what reads");
	file_written(false, "a file that is written after a run");
}

int main(void)
{
	plan(0);
	files_begin();
	setenv("WEIR_DEBUG", "races", 1);
	if (may_race())
		racing();
	leaf_with_event(false, "a leaf with its event does not race");
	leaf_with_event(true,
			"a leaf with an event that is done does not race");
	results_in_order();
	host_reads();
	in_a_stream();
	observed(true, "an observer that waits for what reads the result");
	several_runs();
	many_graphs();
	file_written(
		true,
		"a file that is written after a run was waited for does not race");
	return done_testing();
}
