/* SPDX-License-Identifier: MIT */
/*
 * WEIR_DEBUG=races, and runs of graphs that CUDA0 computes: what their kernels
 * read and write, and streams of CUDA0 and of the CPU beside them. The first
 * runs of a graph launch each kernel, later ones a CUDA graph.
 */
#include "gpu.h"
#include "racing.h"

#define N 64     /* elements of F32: 256 bytes */
#define STARTS 3 /* the last one launches a CUDA graph */

static struct weir_stream *s; /* of CUDA0 */
static struct weir_graph *g;
static struct weir_sched *sched;
static struct weir_exec *exec;
static struct weir_run *run;
static struct weir_node *out;
static struct weir_tensor leaf;  /* on CUDA0 */
static struct weir_event *after; /* of the run */
static float host[N];

/* out = silu(2 * leaf); @waits: after ev. */
static void begin(bool waits)
{
	struct weir_node *node;
	struct weir_dev *dev;
	int64_t n = N;

	set_up();
	dev = gpu(weir);
	s = gpu_stream(weir, "s", 0);
	after = new_event(weir, 0);
	must(weir_tensor_init(&leaf, WEIR_DTYPE_F32, 1, &n));
	must(weir_tensor_place(&leaf, on_gpu(weir, sizeof(host)).buf, 0));
	leaf.name = "leaf";
	must(weir_graph_new(&g));
	node = weir_graph_leaf(g, &leaf, waits ? ev : NULL);
	out = weir_graph_output(g, weir_silu(g, weir_scale(g, node, 2, 0)));
	must(weir_sched_new(&dev, 1, NULL, &sched));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
}

static void end(void)
{
	must(weir_run_wait(run, -1));
	must(weir_stream_sync(s, -1));
	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
	weir_stream_free(s);
	weir_event_free(after);
	weir_buf_free(leaf.buf);
}

static void start_often(void)
{
	for (int i = 0; i < STARTS; i++) {
		must(weir_run_start(run));
		must(weir_run_wait(run, -1));
	}
}

static void write_leaf(void)
{
	must(weir_stream_set(s, &leaf, 0, host, sizeof(host)));
}

static void read_result(void)
{
	struct weir_tensor r;

	must(weir_run_output(run, out, &r));
	must(weir_stream_get(s, &r, 0, host, sizeof(host)));
}

/* Check that there is one report, which has both texts; tear down. */
static void expect(const char *access, const char *order, const char *title)
{
	is_int(reports(1), 1, "%s: there is one report", title);
	has_str(said, access, "%s: the report names both", title);
	has_str(said, order, "%s: the report names the order", title);
	tear_down();
}

static void leaf_without_event(bool often)
{
	begin(false);
	if (often)
		start_often();
	write_leaf();
	must(weir_run_start(run));
	end();
	expect("(scale) reads bytes [0, 256) of 'leaf', which stream 's' operation 1 (set) writes",
	       "the run on CUDA0 needs to wait for stream 's' operation 1",
	       often ? "a leaf that a stream writes before a CUDA graph reads it"
		     : "a leaf that a stream writes before a kernel reads it");
}

/* Which of the two accesses is reported depends on which is checked first. */
static void leaf_is_overwritten(void)
{
	begin(false);
	must(weir_run_start(run));
	usleep(20000);
	write_leaf();
	end();
	expect("(scale) reads", "nothing orders the two",
	       "a leaf that a stream overwrites while a run may read it");
}

static void result_without_wait(bool often)
{
	begin(false);
	if (often)
		start_often();
	must(weir_run_start(run));
	usleep(20000);
	read_result();
	end();
	expect("(silu) writes", "nothing orders the two",
	       often ? "a result of a CUDA graph that a stream reads without a wait"
		     : "a result of a kernel that a stream reads without a wait");
}

static void in_order(bool done, const char *title)
{
	begin(true);
	for (int i = 0; i < STARTS + 2; i++) {
		write_leaf();
		must(weir_stream_record(s, ev));
		if (done)
			usleep(5000);
		must(weir_run_start(run));
		must(weir_run_record(run, after));
		if (done)
			usleep(5000);
		must(weir_stream_wait(s, after));
		read_result();
		must(weir_stream_record(s, ev));
		must(weir_run_wait(run, -1));
	}
	end();
	expect_no_race(title);
}

int main(void)
{
	const char *build = getenv("builddir");
	char path[512];
	struct weir *probe;

	open_fake();
	snprintf(path, sizeof(path), "%s/lib/cuda/.libs", build ? build : ".");
	setenv("WEIR_MODULE_PATH", path, 1);
	probe = open_cuda();
	need_compute(gpu(probe));
	weir_close(probe);
	plan(0);
	setenv("WEIR_DEBUG", "races", 1);
	if (may_race()) {
		leaf_without_event(false);
		leaf_without_event(true);
		leaf_is_overwritten();
		result_without_wait(false);
		result_without_wait(true);
	}
	in_order(false, "a stream and runs on CUDA0 that wait do not race");
	in_order(true,
		 "a stream and runs on CUDA0 whose waits are over do not race");
	return done_testing();
}
