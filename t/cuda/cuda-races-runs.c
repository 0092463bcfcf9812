/* SPDX-License-Identifier: MIT */
/*
 * WEIR_DEBUG=races, and runs of graphs on the CPU that wait for native streams,
 * or for which these wait.
 */
#include "gpu.h"
#include "racing.h"

#define N 64 /* elements of F32: 256 bytes */

static struct weir_stream *n; /* native */
static struct weir_graph *g;
static struct weir_sched *sched;
static struct weir_exec *exec;
static struct weir_run *run;
static float host[N];
static struct weir_node *out;
static struct weir_tensor leaf;  /* t, as numbers */
static struct weir_event *after; /* event of the run */

/* out = 2 * leaf; @waits: after ev. */
static void begin(bool waits)
{
	struct weir_dev *cpu;
	int64_t count = N;

	set_up();
	cpu = cpu_of(weir);
	n = gpu_stream(weir, "n", WEIR_STREAM_NATIVE);
	must(weir_tensor_init(&leaf, WEIR_DTYPE_F32, 1, &count));
	must(weir_tensor_place(&leaf, t.buf, 0));
	leaf.name = "leaf";
	after = new_event(weir, 0);
	must(weir_graph_new(&g));
	out = weir_graph_output(
		g, weir_scale(g, weir_graph_leaf(g, &leaf, waits ? ev : NULL),
			      2, 0));
	must(weir_sched_new(&cpu, 1, NULL, &sched));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
}

static void end(void)
{
	must(weir_run_wait(run, -1));
	must(weir_stream_sync(n, -1));
	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
	weir_stream_free(n);
	weir_event_free(after);
}

static void fill_leaf(void)
{
	must(weir_stream_fill(n, &leaf, 0, N * sizeof(float), 0));
}

static void use_result(void)
{
	struct weir_tensor r;

	must(weir_run_output(run, out, &r));
	must(weir_stream_get(n, &r, 0, host, sizeof(host)));
}

static void leaf_without_event(void)
{
	begin(false);
	fill_leaf();
	must(weir_run_start(run));
	end();
	is_int(reports(1), 1,
	       "a leaf that a native stream writes, without its event: one report");
	has_str(said,
		"the run on CPU needs to wait for stream 'n' operation 1; orders of native streams",
		"a leaf that a native stream writes: the missing wait, and the remark");
	tear_down();
}

static void result_without_event(void)
{
	begin(false);
	must(weir_run_start(run));
	usleep(20000);
	use_result();
	end();
	is_int(reports(1), 1,
	       "a result that a native stream reads without a wait: one report");
	has_str(said,
		"stream 'n' needs to wait for the run on CPU step 1; orders of native streams",
		"a result that a native stream reads: the missing wait, and the remark");
	tear_down();
}

static void with_events(bool done, const char *title)
{
	begin(true);
	for (int i = 0; i < 3; i++) {
		fill_leaf();
		must(weir_stream_record(n, ev));
		if (done)
			usleep(20000);
		must(weir_run_start(run));
		must(weir_run_record(run, after));
		if (done)
			usleep(20000);
		must(weir_stream_wait(n, after));
		use_result();
		must(weir_stream_record(n, ev));
		must(weir_run_wait(run, -1));
	}
	end();
	expect_no_race(title);
}

int main(void)
{
	const char *build = getenv("builddir");
	char path[512];

	open_fake();
	plan(0);
	snprintf(path, sizeof(path), "%s/lib/cuda/.libs", build ? build : ".");
	setenv("WEIR_MODULE_PATH", path, 1);
	setenv("WEIR_DEBUG", "races", 1);
	if (may_race()) {
		leaf_without_event();
		result_without_event();
	}
	with_events(false, "runs and a native stream that wait do not race");
	with_events(
		true,
		"runs and a native stream whose waits are over do not race");
	return done_testing();
}
