/* SPDX-License-Identifier: MIT */
/*
 * Runs as CUDA graphs: built once, when nodes run again, and launched by one
 * call; and when there are none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/graph_runs.h"

/* Positions and inputs change from run to run: they are data. */
static void thousand_runs(void)
{
	unsigned long launches, graphs, kernels, built, added;
	unsigned right = 0;

	model_make(true);
	model_set(1, 0);
	has_str(lane().why, "", "a graph is expected before the first run");
	is_int(lane().kernels, 4, "the kernels of a lane are counted");
	kernels = fake.calls("cuLaunchKernel");
	must(run_once());
	is_int(fake.calls("cuLaunchKernel") - kernels, 4,
	       "the first run launches each kernel");
	has_str(lane().why, "when the same nodes run again",
		"and the reason is given");
	kernels = fake.calls("cuLaunchKernel");
	launches = fake.calls("cuGraphLaunch");
	graphs = fake.calls("cuGraphInstantiate") +
		 fake.calls("cuGraphInstantiateWithFlags");
	added = fake.calls("cuGraphAddKernelNode");
	for (int i = 0; i < 1000; i++) {
		model_set((float)i, i % 4);
		must(run_once());
		right += result() == (float)(2 * (3 * i + i));
	}
	is_int(right, 1000, "a thousand runs of a graph are right");
	is_int(fake.calls("cuLaunchKernel") - kernels, 0,
	       "they launch no kernel by itself");
	is_int(fake.calls("cuGraphLaunch") - launches, 1000,
	       "each is launched by one call");
	built = fake.calls("cuGraphInstantiate") +
		fake.calls("cuGraphInstantiateWithFlags") - graphs;
	is_int(built, 1, "the graph was built once");
	is_int(fake.calls("cuGraphAddKernelNode") - added, 4,
	       "and each kernel was added once");
	is_str(lane().why, "", "a lane that is a graph has no reason");
	is_int(lane().as_graph, 1000, "its works are counted");
	is_int(lane().directly, 1, "and those without a graph");
	run_free();
}

/* The whole cost of a step: what the host asks the driver for. */
static void calls_of_a_step(void)
{
	static const char *const other[] = {
		"cuMemsetD8Async",      "cuMemcpyDtoHAsync",
		"cuStreamWaitEvent",    "cuLaunchKernel",
		"cuMemHostAlloc",       "cuMemcpyHtoDAsync",
		"cuPointerGetAttribute"
	};
	unsigned long before = 0, after = 0, launches, records;

	model_make(true);
	model_set(1, 0);
	for (int i = 0; i < 3; i++)
		must(run_once());
	launches = fake.calls("cuGraphLaunch");
	records = fake.calls("cuEventRecord");
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		before += fake.calls(other[i]);
	for (int i = 0; i < 10; i++)
		must(run_once());
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		after += fake.calls(other[i]);
	is_int(fake.calls("cuGraphLaunch") - launches, 10,
	       "a step makes one call for its kernels and their status");
	is_int(fake.calls("cuEventRecord") - records, 10,
	       "it records one event");
	is_int(after - before, 0, "and queues nothing else");
	run_free();
}

static void indices(void)
{
	model_make(true);
	model_set(1, 2);
	must(run_once());
	model_set(1, 7);
	is_err(run_once(), -EINVAL, "index 7 at 0 is not one of 4 rows",
	       "an index out of range is found by a graph");
	model_set(5, 3);
	is_int(run_once(), 0, "the graph runs again afterwards");
	ok(result() == 40, "and its result is right");
	is_int(lane().as_graph, 2, "both were launched as a graph");
	run_free();
}

/* A product of @columns columns, and an operation on its result. */
static struct weir_lane product(int64_t columns)
{
	struct weir_node *a = input("a", WEIR_DTYPE_F32, 2, N);
	struct weir_node *b = input("b", WEIR_DTYPE_F32, columns, N);
	struct weir_lane l;

	run_make(weir_sqr(g, weir_mul_mat(g, a, b)));
	set(a, 2 * N, 1);
	set(b, (size_t)columns * N, 1);
	for (int i = 0; i < 3; i++)
		must(run_once());
	l = lane();
	run_free();
	return l;
}

static void none(void)
{
	struct weir_lane l = product(16);

	is_int(l.as_graph, 2, "products of 16 columns are a graph");
	l = product(17);
	is_int(l.as_graph, 0, "products of 17 columns are a prompt, and none");
	has_str(l.why, "17 columns", "the reason is given");
	m.x = input("x", WEIR_DTYPE_F32, 1, N);
	run_make(weir_sqr(g, m.x));
	set(m.x, N, 1);
	has_str(lane().why, "one launch", "a single kernel is no graph");
	for (int i = 0; i < 3; i++)
		must(run_once());
	is_int(lane().as_graph, 0, "also when it runs again");
	run_free();
}

/* Parts of a graph are graphs of their own, few of which are kept. */
static void parts(void)
{
	struct weir_node *y;
	unsigned right = 0;

	m.x = y = input("x", WEIR_DTYPE_F32, 1, N);
	for (int i = 0; i < 100; i++)
		y = weir_scale(g, y, 1, 1);
	run_make(y);
	for (int k = 0; k < 4; k++) {
		set(m.x, N, (float)k);
		for (uint64_t i = 0; i < 50; i++) {
			must(weir_run_start_part(m.run, 1 + 2 * i, 2));
			must(weir_run_wait(m.run, -1));
		}
		right += result() == (float)(100 + k);
	}
	is_int(right, 4, "parts of a graph are right");
	is_int(lane().graphs, 16, "at most 16 of them become graphs");
	has_str(lane().why, "more than 16", "the reason is given");
	/* The first parts are forgotten. */
	for (int k = 0; k < 300; k++) {
		must(weir_run_start_part(m.run, 99, 2));
		must(weir_run_wait(m.run, -1));
	}
	is_int(lane().graphs, 17,
	       "a graph that was not used for long is "
	       "replaced");
	run_free();
}

static _Atomic bool queued;

static int cancel_when_queued(void *arg)
{
	(void)arg;
	while (!queued)
		usleep(100);
	weir_run_cancel(m.run);
	return 0;
}

/* The run is cancelled by the work before it. */
static void cancelled(void)
{
	struct weir_stream *s = gpu_stream(weir, "s", 0);
	unsigned long launches;

	model_make(true);
	model_set(1, 0);
	must(run_once());
	must(run_once());
	launches = fake.calls("cuGraphLaunch");
	must(weir_stream_call(s, cancel_when_queued, NULL));
	must(weir_stream_compute(s, m.run));
	queued = true;
	is_err(weir_run_wait(m.run, -1), -ECANCELED, "cancelled",
	       "a run is cancelled before its graph");
	is_int(fake.calls("cuGraphLaunch") - launches, 0,
	       "which is not launched");
	is_int(run_once(), 0, "it starts again");
	run_free();
	weir_stream_free(s);
}

/* Two devices of one GPU, or of two, each with graphs of its own. */
static void two_devices(const char *params, const char *second,
			const char *what)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_dev *devs[2];
	struct weir_node *y;
	unsigned right = 0;
	struct weir_lane l = { .size = sizeof(l) };

	weir = open_cuda();
	must(weir_dev_configure(weir, params, &devs[0]));
	must(weir_graph_new(&g));
	must(weir_dev_find(weir, second, &devs[1]));
	must(weir_sched_new(devs, 2, &o, &sched));
	pinned = true;
	m.x = input("x", WEIR_DTYPE_F32, 1, N);
	y = weir_node_set_name(weir_sqr(g, m.x), "there.1");
	y = weir_node_set_name(weir_scale(g, y, 2, 0), "there.2");
	y = weir_node_set_name(weir_add(g, y, m.x), "here.1");
	y = weir_node_set_name(weir_scale(g, y, 3, 0), "here.2");
	must(weir_sched_pin(sched, "there.*", devs[1]));
	must(weir_sched_pin(sched, "here.*", devs[0]));
	run_make(y);
	for (int i = 0; i < 4; i++) {
		set(m.x, N, (float)i);
		right += run_once() == 0 &&
			 result() == (float)(3 * (2 * i * i + i));
	}
	is_int(right, 4, "%s: runs are right", what);
	for (unsigned i = 0; i < 2; i++) {
		must(weir_exec_lane(m.exec, i, &l));
		ok(l.dev == devs[0] || l.dev == devs[1],
		   "%s: a lane has a device", what);
		is_int(l.as_graph, 3, "%s: its works become a graph", what);
	}
	is_err(weir_exec_lane(m.exec, 2, &l), -EINVAL, "lane 2 of 2",
	       "%s: there are two lanes", what);
	run_free();
	end();
	pinned = false;
}

/* A cancelled run computes a graph to its end, so it is bounded. */
static void long_ones(void)
{
	static const char zeros[1 << 20];
	const unsigned n = 40;
	struct weir_node *y;

	/* 1 MiB is read and written by each of 40 kernels. */
	fake.set("MEM", "67108864");
	fake.set("DRY", "1");
	begin_as("CUDA0:fuse=no");
	m.x = y = input("x", WEIR_DTYPE_F32, 1024, 256);
	for (unsigned i = 0; i < n; i++)
		y = weir_scale(g, y, 1, 1);
	run_make(y);
	must(weir_run_input(m.run, m.x, zeros, sizeof(zeros)));
	has_str(lane().why, "0.0781 GiB",
		"that operations take long is known before they run");
	for (int i = 0; i < 3; i++)
		must(run_once());
	is_int(lane().as_graph, 0, "operations that take long are no graph");
	has_str(lane().why, "at most the 0.0625 GiB", "the reason is given");
	for (int i = 0; i < 3; i++) {
		must(weir_run_start_part(m.run, 0, n / 2));
		must(weir_run_wait(m.run, -1));
		must(weir_run_start_part(m.run, n / 2, n / 2));
		must(weir_run_wait(m.run, -1));
	}
	is_int(lane().graphs, 2, "the halves of them are graphs");
	run_free();
	end();
	fake.set("DRY", "0");
	fake.set("MEM", "8589934592");
}

static void switched_off(void)
{
	begin_as("CUDA0:graphs=no");
	model_make(true);
	model_set(2, 0);
	for (int i = 0; i < 3; i++)
		must(run_once());
	ok(result() == 16, "graphs=no: runs are right");
	is_int(lane().as_graph, 0, "graphs=no: there are no graphs");
	has_str(lane().why, "graphs=no", "graphs=no: the reason is given");
	run_free();
	end();
}

int main(void)
{
	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	begin_as(NULL);
	need_compute(cuda);
	plan(0);
	thousand_runs();
	calls_of_a_step();
	indices();
	none();
	parts();
	cancelled();
	end();
	long_ones();
	switched_off();
	two_devices("CUDA0:virtual=2", "CUDA0-1", "two devices of a GPU");
	two_devices("CUDA0:graphs=yes", "CUDA1", "two GPUs");
	all_given_back("after all");
	return done_testing();
}
