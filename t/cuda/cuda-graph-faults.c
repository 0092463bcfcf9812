/* SPDX-License-Identifier: MIT */
/*
 * Runs as CUDA graphs if the driver fails, lacks calls or hangs, if the device
 * is lost, and after fork(2).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/graph_runs.h"

/* Each call that builds a graph fails in turn. */
static void building_fails(void)
{
	static const char *const calls[] = {
		"cuGraphCreate",        "cuGraphAddMemsetNode",
		"cuGraphAddKernelNode", "cuGraphAddMemcpyNode",
		"cuGraphInstantiate",   "cuGraphUpload"
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		unsigned right = 0;

		model_make(true);
		model_set(1, 0);
		must(run_once());
		fake.arm(calls[i], i == 2 ? 3 : 1, FAKECUDA_ONCE, 2);
		for (int k = 1; k < 4; k++) {
			model_set((float)k, 1);
			right += run_once() == 0 && result() == (float)(8 * k);
		}
		is_int(right, 3, "%s fails: kernels are launched one by one",
		       calls[i]);
		fake.disarm();
		has_str(lane().why, calls[i], "the call is named");
		has_str(lane().why, "OUT_OF_MEMORY", "with the reason");
		is_int(lane().graphs, 0, "and is not made again");
		run_free();
	}
}

/* The graph is built again some hundred runs later, if that may help. */
static void refused(int code, unsigned graphs, const char *what)
{
	model_make(true);
	model_set(1, 0);
	must(run_once());
	fake.arm("cuGraphInstantiate", 1, FAKECUDA_ONCE, code);
	for (int i = 0; i < 200; i++)
		must(run_once());
	fake.disarm();
	is_int(lane().graphs, 0, "%s: no graph is built for a time", what);
	for (int i = 0; i < 100; i++)
		must(run_once());
	is_int(lane().graphs, graphs, "%s: %s", what,
	       graphs ? "then it is tried again" : "nor later");
	ok(result() == 8, "%s: the runs are right", what);
	run_free();
}

static void launch_fails(void)
{
	model_make(true);
	model_set(1, 0);
	must(run_once());
	fake.arm("cuGraphLaunch", 2, FAKECUDA_ONCE, 701);
	must(run_once());
	is_err(run_once(), -EIO, "the CUDA graph",
	       "a graph that the driver refuses ends the run");
	fake.disarm();
	model_set(2, 0);
	is_int(run_once(), 0, "the next run launches kernel by kernel");
	ok(result() == 16, "and is right");
	has_str(lane().why, "cuGraphLaunch", "the reason is given");
	run_free();
}

static _Atomic bool released;

/* Ends a call that hangs, so that a test that waits for it fails, and ends. */
static void *release_later(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100 && !released; i++)
		usleep(100000);
	released = true;
	fake.release();
	return NULL;
}

/* The next @call hangs. release_at_last() ends that. */
static unsigned long hang(const char *call, pthread_t *thread)
{
	unsigned long struck = fake.struck();

	released = false;
	fake.arm(call, 1, FAKECUDA_HANG, 0);
	if (pthread_create(thread, NULL, release_later, NULL))
		bail("no thread");
	return struck;
}

static void wait_struck(unsigned long before)
{
	while (fake.struck() == before && !released)
		usleep(1000);
}

/* True if nothing has waited for the call that hangs. */
static bool release_at_last(pthread_t thread)
{
	bool waited = released;

	released = true;
	pthread_join(thread, NULL);
	fake.disarm();
	return !waited;
}

/* The driver may wait for what poll is to report: no lock is held meanwhile. */
static void building_hangs(void)
{
	unsigned long struck;
	pthread_t thread;
	uint64_t graphs;

	model_make(true);
	model_set(1, 0);
	must(run_once());
	struck = hang("cuGraphInstantiate", &thread);
	must(weir_run_start(m.run));
	wait_struck(struck);
	graphs = lane().graphs;
	ok(release_at_last(thread),
	   "while the driver builds a graph, its range is not locked");
	is_int(graphs, 0, "the graph is not there yet");
	must(weir_run_wait(m.run, -1));
	ok(result() == 8, "the run is right");
	is_int(lane().graphs, 1, "and its graph was built");
	run_free();
}

static void *make_other(void *arg)
{
	struct weir_node *x, *table, *ids;
	const int64_t one = 1, shape[] = { 4, N };
	struct weir_sched *other;
	struct weir_graph *graph;
	struct weir_exec *exec;

	(void)arg;
	must(weir_sched_new(&cuda, 1, NULL, &other));
	must(weir_graph_new(&graph));
	table = weir_graph_input(graph, "t", WEIR_DTYPE_F32, 2, shape);
	ids = weir_graph_input(graph, "i", WEIR_DTYPE_I32, 1, &one);
	x = weir_get_rows(graph, table, ids);
	weir_graph_output(graph, x);
	must(weir_exec_new(other, graph, &exec));
	weir_exec_free(exec);
	weir_graph_free(graph);
	weir_sched_free(other);
	return NULL;
}

/* Also not for places for what kernels find, which poll gives back. */
static void places_hang(void)
{
	unsigned long struck;
	pthread_t thread, other;

	struck = hang("cuMemHostAlloc", &thread);
	if (pthread_create(&other, NULL, make_other, NULL))
		bail("no thread");
	wait_struck(struck);
	model_make(true);
	model_set(1, 0);
	must(run_once());
	ok(release_at_last(thread),
	   "while the driver allocates places, runs take and return others");
	pthread_join(other, NULL);
	run_free();
}

/*
 * A child of fork(2) has the objects of a run with a CUDA graph, and may free
 * them: it makes no call about the graph, which remains the parent's.
 */
static void forks(void)
{
	static const char *const calls[] = { "cuGraphLaunch",
					     "cuGraphExecDestroy",
					     "cuGraphDestroy",
					     "cuLaunchKernel" };
	int status = 0;
	pid_t pid;

	model_make(true);
	model_set(1, 0);
	for (int i = 0; i < 3; i++)
		must(run_once());
	pid = fork();
	if (!pid) {
		unsigned long made = 0;
		int r;

		for (size_t i = 0; i < 4; i++)
			made -= fake.calls(calls[i]);
		r = weir_run_start(m.run);
		run_free();
		end();
		for (size_t i = 0; i < 4; i++)
			made += fake.calls(calls[i]);
		_exit(r >= 0 ? 1 : made ? 2 : 0);
	}
	ok(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0,
	   "a child of fork(2) neither launches nor destroys a graph");
	model_set(2, 0);
	is_int(run_once(), 0, "the parent's graph runs afterwards");
	ok(result() == 16, "and its result is right");
	is_int(lane().graphs, 1, "it was built once");
	is_int(lane().as_graph, 3, "and is still launched");
	run_free();
}

/* The driver's table is filled once for a process. */
static bool works_without(const char *entry)
{
	bool right;

	setenv("FAKECUDA_NO", entry, 1);
	open_driver();
	begin_as(NULL);
	model_make(true);
	model_set(2, 0);
	for (int i = 0; i < 3; i++)
		must(run_once());
	right = result() == 16 && lane().as_graph == 0 &&
		strstr(lane().why, "CUDA 12.0");
	run_free();
	end();
	return right;
}

static bool ends_when_lost(const char *call)
{
	bool right;

	open_fake();
	begin_as(NULL);
	model_make(true);
	model_set(1, 0);
	must(run_once());
	must(run_once());
	fake.arm(call, 1, FAKECUDA_STICKY, 700);
	right = run_once() == -ENODEV && strstr(weir_error(), "CUDA0");
	fake.disarm();
	run_free();
	end();
	return right;
}

int main(void)
{
	bool without, lost;

	if (getenv("WEIR_T_FAKECUDA") && !*getenv("WEIR_T_FAKECUDA"))
		skip_all("needs the stand-in driver");
	without = in_child(works_without, "cuGraphAddKernelNode") &&
		  in_child(works_without, "cuGraphLaunch");
	lost = in_child(ends_when_lost, "cuGraphLaunch");
	open_fake();
	begin_as(NULL);
	need_compute(cuda);
	plan(0);
	ok(without, "a driver without calls for graphs launches kernels");
	ok(lost, "a run on a device that is lost by a graph ends");
	building_fails();
	refused(2, 1, "no memory");
	refused(906, 1, "a capture");
	refused(801, 0, "what the driver cannot do");
	launch_fails();
	building_hangs();
	forks();
	end();
	begin_as(NULL);
	places_hang();
	end();
	all_given_back("after all");
	return done_testing();
}
