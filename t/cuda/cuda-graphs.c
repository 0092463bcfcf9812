/* SPDX-License-Identifier: MIT */
/*
 * Runs as CUDA graphs: built once, when nodes run again, and launched by one
 * call; when there are none; what happens if the driver fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

#define N 32

static struct weir *weir;
static struct weir_dev *cuda;
static struct weir_sched *sched;
static struct weir_graph *g;
static bool pinned; /* sched is the test's own */

/* A graph of some kernels, with an index that may be out of range. */
static struct model {
	struct weir_node *x, *ids, *table, *y;
	struct weir_exec *exec;
	struct weir_run *run;
} m;

/* One of its own for each test: it keeps compiled graphs, with their counts. */
static void sched_make(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;

	weir_sched_free(sched);
	must(weir_sched_new(&cuda, 1, &o, &sched));
}

static void begin_as(const char *params)
{
	weir = open_cuda();
	if (params)
		must(weir_dev_configure(weir, params, &cuda));
	else
		cuda = gpu(weir);
	must(weir_graph_new(&g));
	sched = NULL;
}

static void end(void)
{
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_close(weir);
}

static struct weir_node *input(const char *name, enum weir_dtype dtype,
			       int64_t rows, int64_t columns)
{
	const int64_t shape[] = { rows, columns };

	return weir_graph_input(g, name, dtype, 2, shape);
}

static void run_make(struct weir_node *out)
{
	if (!pinned)
		sched_make();
	weir_graph_output(g, out);
	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &m.exec));
	must(weir_run_new(m.exec, &m.run));
	m.y = out;
}

static void run_free(void)
{
	weir_run_free(m.run);
	weir_exec_free(m.exec);
	weir_graph_reset(g);
	m.run = NULL;
	m.exec = NULL;
}

/* y = ((table[ids] * x) + x) * 2 */
static void model_make(bool indices)
{
	const int64_t one = 1;
	struct weir_node *row;

	m.x = input("x", WEIR_DTYPE_F32, 1, N);
	m.table = input("table", WEIR_DTYPE_F32, 4, N);
	m.ids = weir_graph_input(g, "ids", WEIR_DTYPE_I32, 1, &one);
	row = indices ? weir_get_rows(g, m.table, m.ids) : weir_sqr(g, m.table);
	run_make(weir_scale(g, weir_add(g, weir_mul(g, row, m.x), m.x), 2, 0));
}

static void set(struct weir_node *node, size_t n, float value)
{
	float v[17 * N];

	for (size_t i = 0; i < n; i++)
		v[i] = value;
	must(weir_run_input(m.run, node, v, n * sizeof(float)));
}

static void model_set(float x, int32_t id)
{
	set(m.x, N, x);
	set(m.table, 4 * N, 3);
	must(weir_run_input(m.run, m.ids, &id, sizeof(id)));
}

static int run_once(void)
{
	must(weir_run_start(m.run));
	return weir_run_wait(m.run, -1);
}

static float result(void)
{
	struct weir_tensor t;
	float v;

	must(weir_run_output(m.run, m.y, &t));
	must(weir_tensor_get(&t, 0, &v, sizeof(v)));
	return v;
}

static struct weir_lane lane(void)
{
	struct weir_lane l = { .size = sizeof(l) };

	must(weir_exec_lane(m.exec, 0, &l));
	return l;
}

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

/* The driver's table is filled once for a process. */
static bool works_without(const char *entry)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		bool right;

		if (!freopen("/dev/null", "w", stdout))
			_exit(1);
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
		_exit(right ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/*
 * In a process of its own, since what the driver made on a lost device is
 * leaked.
 */
static bool ends_when_lost(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		bool right;

		if (!freopen("/dev/null", "w", stdout))
			_exit(1);
		open_fake();
		begin_as(NULL);
		model_make(true);
		model_set(1, 0);
		must(run_once());
		must(run_once());
		fake.arm("cuGraphLaunch", 1, FAKECUDA_STICKY, 700);
		right = run_once() == -ENODEV && strstr(weir_error(), "CUDA0");
		fake.disarm();
		run_free();
		end();
		_exit(right ? 0 : 1);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(void)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	bool without, lost;

	if (getenv("WEIR_T_FAKECUDA") && !*getenv("WEIR_T_FAKECUDA"))
		skip_all("needs the stand-in driver");
	without = works_without("cuGraphAddKernelNode") &&
		  works_without("cuGraphLaunch");
	lost = ends_when_lost();
	setenv("FAKECUDA_DEVICES", "2", 1);
	open_fake();
	begin_as(NULL);
	must(weir_dev_info(cuda, &info));
	if (!(info.caps & WEIR_CAP_COMPUTE))
		skip_all("CUDA0 does not compute: there was no nvcc");
	plan(0);
	ok(without, "a driver without calls for graphs launches kernels");
	ok(lost, "a run on a device that is lost by a graph ends");
	thousand_runs();
	calls_of_a_step();
	indices();
	none();
	parts();
	building_fails();
	refused(2, 1, "no memory");
	refused(906, 1, "a capture");
	refused(801, 0, "what the driver cannot do");
	launch_fails();
	building_hangs();
	cancelled();
	end();
	begin_as(NULL);
	places_hang();
	end();
	long_ones();
	switched_off();
	two_devices("CUDA0:virtual=2", "CUDA0-1", "two devices of a GPU");
	two_devices("CUDA0:graphs=yes", "CUDA1", "two GPUs");
	all_given_back("after all");
	return done_testing();
}
