/* SPDX-License-Identifier: MIT */
/*
 * WEIR_DEBUG=races and runs over several devices: lanes that wait for each
 * other, and executable graphs from which such a wait was removed.
 */
#include "graph/exec/sched.h"
#include "racing.h"

#define N 64 /* elements of F32 */

static struct weir_graph *g;
static struct weir_sched *sched;
static struct weir_exec *exec;
static struct weir_run *run;
static struct weir_node *in, *out;
static float host[N];

/* A chain of operations, in turns on the two devices. */
static void build(uint32_t copies)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_node *node;
	struct weir_dev *dev[2];
	int64_t n = N;

	dev[0] = cpu_of(weir);
	must(weir_dev_find(weir, "CPU1", &dev[1]));
	o.copies = copies;
	must(weir_sched_new(dev, 2, &o, &sched));
	must(weir_sched_pin(sched, "odd", dev[1]));
	must(weir_sched_pin(sched, "even", dev[0]));
	must(weir_graph_new(&g));
	node = in = weir_graph_input(g, "in", WEIR_DTYPE_F32, 1, &n);
	for (int i = 0; i < 4; i++)
		node = weir_node_set_name(weir_sqr(g, node),
					  i % 2 ? "odd" : "even");
	out = weir_graph_output(g, node);
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
	devices = NULL;
}

static void read_result(struct weir_run *of, struct weir_stream *s)
{
	struct weir_tensor r;

	must(weir_run_output(of, out, &r));
	must(weir_run_record(of, ev));
	must(weir_stream_wait(s, ev));
	must(weir_stream_get(s, &r, 0, host, sizeof(host)));
}

static void in_order(const char *params, const char *title)
{
	devices = params;
	set_up();
	build(1);
	is_int(exec->compiled->n_lanes, 2, "a chain runs over two devices");
	for (int i = 0; i < 10; i++) {
		must(weir_run_start(run));
		read_result(run, b);
		must(weir_stream_sync(b, -1));
	}
	destroy();
	expect_no_race(title);
}

static void several(const char *params, const char *title)
{
	struct weir_run *other;

	devices = params;
	set_up();
	build(2);
	must(weir_run_new(exec, &other));
	must(weir_run_input(other, in, host, sizeof(host)));
	for (int i = 0; i < 10; i++) {
		must(weir_run_start(run));
		must(weir_run_start(other));
		read_result(run, b);
		read_result(other, b);
		must(weir_stream_sync(b, -1));
	}
	weir_run_free(other);
	destroy();
	expect_no_race(title);
}

/* Lane 1 reads what lane 0 computes, and does not wait for it. */
static void without_sync_point(void)
{
	devices = "CPU:devices=2";
	set_up();
	build(1);
	for (uint32_t i = 0; i < exec->compiled->lane[1].n_points; i++)
		if (exec->compiled->lane[1].point[i].kind == WEIR__SYNC_LANE)
			exec->compiled->lane[1].point[i].until = 0;
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	destroy();
	ok(reports(1) > 0, "a lane without its wait for another is reported");
	has_str(said, "the run on CPU1 step",
		"a lane without its wait: the report names the lane");
	has_str(said, "the run on CPU step",
		"a lane without its wait: the report names the other lane");
	tear_down();
}

/* The copies to lane 1 do not wait for lane 0. */
static void without_wait(void)
{
	devices = "CPU:devices=2,apart=1";
	set_up();
	build(1);
	ok(exec->compiled->n_transfers > 0, "memory that is apart is copied");
	for (uint32_t i = 0; i < exec->compiled->n_device_copies; i++)
		exec->compiled->wait[i * 2] = 0;
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	destroy();
	ok(reports(1) > 0, "a copy without its wait for a lane is reported");
	has_str(said, "(copy)", "a copy without its wait is named");
	tear_down();
}

/* A stream that waits for nothing reads the result. */
static void without_event(void)
{
	struct weir_tensor r;

	devices = "CPU:devices=2";
	set_up();
	build(1);
	must(weir_run_start(run));
	must(weir_run_output(run, out, &r));
	usleep(50000);
	must(weir_stream_get(b, &r, 0, host, sizeof(host)));
	must(weir_run_wait(run, -1));
	destroy();
	is_int(reports(1), 1,
	       "a lane's result without a wait is reported once");
	/* On a busy machine the stream may be first. */
	ok(strstr(said,
		  "stream 'b' needs to wait for the run on CPU1 step 2") ||
		   strstr(said, "the run on CPU1 needs to wait for stream 'b'"),
	   "a lane's result without a wait: the missing wait");
	tear_down();
}

static void racing(void)
{
	without_sync_point();
	without_wait();
	without_event();
}

int main(void)
{
	plan(0);
	setenv("WEIR_DEBUG", "races", 1);
	if (may_race())
		racing();
	in_order("CPU:devices=2", "lanes that share memory do not race");
	in_order("CPU:devices=2,apart=1", "lanes with copies do not race");
	several("CPU:devices=2",
		"runs over lanes that share memory do not race");
	several("CPU:devices=2,apart=1",
		"runs over lanes with copies do not race");
	return done_testing();
}
