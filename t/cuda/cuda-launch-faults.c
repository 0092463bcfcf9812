/* SPDX-License-Identifier: MIT */
/*
 * Each launch of a run, and each call that builds and launches its CUDA graph,
 * counted: the run is cancelled there, everything is closed there, the call
 * fails there, or its kernel faults. A failure is one sentence with the node,
 * nothing is left, a device is lost once, and another device goes on.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

#define N 32
#define NODES 5 /* and as many launches, if no two are one kernel */
#define DIRECT "CUDA0:fuse=no,graphs=no"
#define GRAPH "CUDA0:fuse=no"
#define RESULT (3.0f * 16)

/* What a run calls, in its order: each of them @n times. */
static const struct site {
	const char *params;
	const char *call;
	unsigned n;
	unsigned run; /* which run of the same nodes calls it, from 1 on */
} sites[] = {
	{ DIRECT, "cuMemsetD8Async", 1, 1 },
	{ DIRECT, "cuLaunchKernel", NODES, 1 },
	{ DIRECT, "cuMemcpyDtoHAsync", 1, 1 },
	{ GRAPH, "cuGraphCreate", 1, 2 },
	{ GRAPH, "cuGraphAddMemsetNode", 1, 2 },
	{ GRAPH, "cuGraphAddKernelNode", NODES, 2 },
	{ GRAPH, "cuGraphAddMemcpyNode", 1, 2 },
	{ GRAPH, "cuGraphInstantiate", 1, 2 },
	{ GRAPH, "cuGraphUpload", 1, 2 },
	{ GRAPH, "cuGraphLaunch", 1, 2 },
	{ GRAPH, "cuGraphLaunch", 1, 3 },
};
#define N_SITES (sizeof(sites) / sizeof(*sites))

/* The same graph on two devices, each with a run. */
static struct {
	struct weir *weir;
	struct weir_graph *g;
	struct weir_node *table, *ids, *y;
	struct weir_sched *sched[2];
	struct weir_exec *exec[2];
	struct weir_run *run[2];
} p;

/* The row of the table, doubled again and again: nodes 'step0' to 'step4'. */
static void graph_make(void)
{
	const int64_t shape[] = { 4, N }, one = 1;
	struct weir_node *node;
	char name[16];

	must(weir_graph_new(&p.g));
	p.table = weir_graph_input(p.g, "table", WEIR_DTYPE_F32, 2, shape);
	p.ids = weir_graph_input(p.g, "ids", WEIR_DTYPE_I32, 1, &one);
	node = weir_get_rows(p.g, p.table, p.ids);
	for (int i = 0; i < NODES; i++) {
		if (i)
			node = weir_scale(p.g, node, 2, 0);
		snprintf(name, sizeof(name), "step%d", i);
		weir_node_set_name(node, name);
	}
	p.y = weir_graph_output(p.g, node);
	must(weir_graph_error(p.g, NULL));
}

static void begin(const char *params)
{
	struct weir_dev *dev[2];

	memset(&p, 0, sizeof(p));
	p.weir = open_cuda();
	must(weir_dev_configure(p.weir, params, &dev[0]));
	must(weir_dev_find(p.weir, "CUDA1", &dev[1]));
	graph_make();
	for (int i = 0; i < 2; i++) {
		must(weir_sched_new(&dev[i], 1, NULL, &p.sched[i]));
		must(weir_exec_new(p.sched[i], p.g, &p.exec[i]));
		must(weir_run_new(p.exec[i], &p.run[i]));
	}
}

static void end(void)
{
	for (int i = 0; i < 2; i++) {
		weir_run_free(p.run[i]);
		weir_exec_free(p.exec[i]);
		weir_sched_free(p.sched[i]);
	}
	weir_graph_free(p.g);
	weir_close(p.weir);
}

static int start(int dev)
{
	float table[4 * N];
	int32_t id = 2;
	int r;

	for (int i = 0; i < 4 * N; i++)
		table[i] = 3;
	r = weir_run_input(p.run[dev], p.table, table, sizeof(table));
	if (r >= 0)
		r = weir_run_input(p.run[dev], p.ids, &id, sizeof(id));
	return r < 0 ? r : weir_run_start(p.run[dev]);
}

/* 1: the result is wrong. */
static int finish(int dev)
{
	struct weir_tensor t;
	float y[N];
	int r = weir_run_wait(p.run[dev], 60 * SEC);

	if (r >= 0)
		r = weir_run_output(p.run[dev], p.y, &t);
	if (r >= 0)
		r = weir_tensor_get(&t, 0, y, sizeof(y));
	return r < 0 ? r : y[0] != RESULT || y[N - 1] != RESULT;
}

static int compute(int dev)
{
	int r = start(dev);

	return r < 0 ? r : finish(dev);
}

/* All runs before the one that is to be disturbed. */
static bool run_before(const struct site *site)
{
	bool right = true;

	for (unsigned i = 1; i < site->run; i++)
		right = right && compute(0) == 0;
	return right;
}

static void *start_main(void *arg)
{
	(void)arg;
	if (start(0) < 0)
		bail("%s", weir_error());
	return NULL;
}

/* The graph is there: weir_run_start launches it itself. */
static bool is_by_caller(const struct site *site)
{
	return site->run == 3;
}

/* The armed call is made, after @struck others. False: not in 20 seconds. */
static bool is_struck(unsigned long struck)
{
	for (int i = 0; i < 20000 && fake.struck() == struck; i++)
		usleep(1000);
	return fake.struck() != struck;
}

/* Start the run, whose call number @nth of @site is stalled. */
static bool stalled(const struct site *site, unsigned nth, pthread_t *starter)
{
	unsigned long struck = fake.struck();

	fake.arm(site->call, nth, FAKECUDA_STALL, 0);
	if (pthread_create(starter, NULL, start_main, NULL))
		bail("no thread");
	if (!is_by_caller(site))
		pthread_join(*starter, NULL);
	return is_struck(struck);
}

static unsigned long launches(void)
{
	return fake.calls("cuLaunchKernel") + fake.calls("cuGraphLaunch");
}

/*
 * Cancelled there: what follows is not launched, and the next runs are right.
 * The last launch leaves nothing to be cancelled.
 */
static bool cancelled(const struct site *site, unsigned nth)
{
	const bool launch = strstr(site->call, "Launch");
	const bool last = launch ? nth == site->n
				 : !strcmp(site->call, "cuMemcpyDtoHAsync");
	unsigned long before;
	pthread_t starter;
	bool right;
	int r;

	begin(site->params);
	right = run_before(site);
	before = launches();
	right = stalled(site, nth, &starter) && right;
	must(weir_run_cancel(p.run[0]));
	fake.release();
	if (is_by_caller(site))
		pthread_join(starter, NULL);
	r = finish(0);
	right = right && (r == -ECANCELED || (last && r == 0));
	if (!last)
		right = right && launches() - before == (launch ? nth : 0);
	for (int i = 0; i < 3; i++)
		right = right && compute(0) == 0;
	right = right && compute(1) == 0 && !*cuda_log;
	if (!right)
		diag("%s %u: %d: %s\n%s", site->call, nth, r, weir_error(),
		     cuda_log);
	end();
	return right && !objects_left();
}

static void *release_soon(void *arg)
{
	(void)arg;
	usleep(2000);
	fake.release();
	return NULL;
}

/* Start the run. What call number @nth of @site launches does not end. */
static bool hung(const struct site *site, unsigned nth)
{
	unsigned long struck = fake.struck();

	fake.arm(site->call, nth, FAKECUDA_HANG, 0);
	return start(0) == 0 && is_struck(struck);
}

/*
 * Everything is freed and closed while the call is under way; or, if the
 * program itself makes it, so that it cannot do that, while the launch is.
 */
static bool closed(const struct site *site, unsigned nth)
{
	pthread_t thread, starter;
	bool right;

	begin(site->params);
	right = run_before(site) &&
		(is_by_caller(site) ? hung(site, nth)
				    : stalled(site, nth, &starter));
	if (pthread_create(&thread, NULL, release_soon, NULL))
		bail("no thread");
	end();
	pthread_join(thread, NULL);
	if (!right || *cuda_log)
		diag("%s %u: %s", site->call, nth, cuda_log);
	return right && !*cuda_log && !objects_left();
}

/* How often @text has @part. */
static unsigned times(const char *text, const char *part)
{
	unsigned n = 0;

	for (; (text = strstr(text, part)); text += strlen(part))
		n++;
	return n;
}

/* How a call fails, and what its name is in a sentence. */
struct failure {
	int mode, code, err;
	const char *word;
};

/* The last sentence is right for a call that has failed. */
static bool says(const struct site *site, unsigned nth, const struct failure *f)
{
	const char *text = weir_error();
	char node[16];

	snprintf(node, sizeof(node), "'step%u'", nth - 1);
	if (f->mode != FAKECUDA_LATE && strstr(site->call, "Launch") &&
	    times(text, node) != 1)
		return false;
	return times(text, f->word) == 1 && times(text, "CUDA0") &&
	       times(text, "weir_run_wait:") == 1 && !strchr(text, '\n');
}

/*
 * The call fails. A graph that cannot be built is no failure, unless the
 * error may be that of earlier work.
 */
static bool failed(const struct site *site, unsigned nth,
		   const struct failure *f)
{
	const bool builds = strstr(site->call, "cuGraph") &&
			    strcmp(site->call, "cuGraphLaunch") != 0;
	unsigned long struck;
	bool right, lost = f->err == -ENODEV;
	int r;

	begin(site->params);
	right = run_before(site);
	struck = fake.struck();
	fake.arm(site->call, nth, f->mode, f->code);
	r = compute(0);
	right = right && fake.struck() != struck;
	if (r == 0)
		right = right && builds && f->code == 2;
	else
		right = right && r == f->err && says(site, nth, f);
	if (!right)
		diag("%s %u, %d: %d: %s", site->call, nth, f->code, r,
		     weir_error());
	fake.disarm();
	for (int i = 0; i < 3; i++) {
		r = compute(0);
		right = right && r == (lost ? -ENODEV : 0);
	}
	right = right && compute(1) == 0 && times(cuda_log, "is lost") == lost;
	if (!right)
		diag("%s %u, %d, then %d: %s\n%s", site->call, nth, f->code, r,
		     weir_error(), cuda_log);
	end();
	return right && (lost || !objects_left()) && !*fake.misuse();
}

/* In a process of its own: a lost device leaves objects of the driver. */
static bool failed_apart(const struct site *site, unsigned nth,
			 const struct failure *f)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		_exit(failed(site, nth, f) ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

static void each_call(bool (*holds)(const struct site *site, unsigned nth),
		      const char *title)
{
	unsigned wrong = 0, n = 0;

	for (size_t i = 0; i < N_SITES; i++)
		for (unsigned nth = 1; nth <= sites[i].n; nth++, n++) {
			tap_renew();
			wrong += !holds(&sites[i], nth);
		}
	ok(n == 2 * NODES + 9 && !wrong, "%s: each of %u calls", title, n);
}

static void each_fails(const struct failure *f, const char *title)
{
	unsigned wrong = 0, n = 0;

	for (size_t i = 0; i < N_SITES; i++) {
		if (f->mode == FAKECUDA_LATE &&
		    strcmp(sites[i].call, "cuLaunchKernel") != 0 &&
		    strcmp(sites[i].call, "cuGraphLaunch") != 0)
			continue;
		for (unsigned nth = 1; nth <= sites[i].n; nth++, n++) {
			tap_renew();
			wrong += !failed_apart(&sites[i], nth, f);
		}
	}
	ok(n > NODES && !wrong, "%s: each of %u calls", title, n);
}

/* The calls of prepare and of a run's memory fail for want of memory. */
static bool no_memory(const char *call)
{
	struct weir_exec *exec;
	struct weir_run *run = NULL;
	struct weir_sched *sched;
	struct weir_dev *dev;
	unsigned long struck;
	bool right;
	int r;

	open_fake();
	memset(&p, 0, sizeof(p));
	p.weir = open_cuda();
	must(weir_dev_find(p.weir, "CUDA0", &dev));
	graph_make();
	must(weir_sched_new(&dev, 1, NULL, &sched));
	struck = fake.struck();
	fake.arm(call, 1, FAKECUDA_ONCE, 2);
	r = weir_exec_new(sched, p.g, &exec);
	right = r == -ENOMEM && fake.struck() != struck &&
		times(weir_error(), "CUDA_ERROR_OUT_OF_MEMORY") == 1 &&
		times(weir_error(), "CUDA0");
	if (!right)
		fprintf(stderr, "# %s: %d: %s\n", call, r, weir_error());
	fake.disarm();
	if (r < 0)
		must(weir_exec_new(sched, p.g, &exec));
	must(weir_run_new(exec, &run));
	p.run[0] = run;
	right = right && compute(0) == 0;
	p.exec[0] = exec;
	p.sched[0] = sched;
	end();
	return right && !objects_left();
}

/* Another graph, whose kernel is in an image that is not loaded yet. */
static void *prepare_main(void *arg)
{
	const int64_t shape[] = { 4, N };
	struct weir_exec *exec;
	struct weir_graph *g;

	(void)arg;
	must(weir_graph_new(&g));
	weir_graph_output(g,
			  weir_soft_max(g,
					weir_graph_input(g, "x", WEIR_DTYPE_F32,
							 2, shape),
					NULL, 1, 0));
	must(weir_exec_new(p.sched[0], g, &exec));
	weir_exec_free(exec);
	weir_graph_free(g);
	return NULL;
}

/* The driver loads kernels for long. Runs of the same scheduler go on. */
static void loading_takes_long(void)
{
	unsigned long struck;
	bool right = true;
	pthread_t thread;

	begin(GRAPH);
	struck = fake.struck();
	fake.arm("cuModuleLoadDataEx", 1, FAKECUDA_STALL, 0);
	if (pthread_create(&thread, NULL, prepare_main, NULL))
		bail("no thread");
	ok(is_struck(struck), "the driver loads kernels");
	for (int i = 0; i < 3; i++)
		right = right && compute(0) == 0 && compute(1) == 0;
	ok(right, "and runs of the same device and scheduler go on");
	fake.release();
	pthread_join(thread, NULL);
	end();
}

int main(void)
{
	static const char *const memory[] = { "cuMemAlloc",
					      "cuModuleLoadDataEx",
					      "cuModuleGetFunction",
					      "cuFuncLoad", "cuMemHostAlloc" };
	static const struct failure failures[] = {
		{ FAKECUDA_ONCE, 2, -ENOMEM, "CUDA_ERROR_OUT_OF_MEMORY" },
		{ FAKECUDA_ONCE, 999, -EIO, "CUDA_ERROR_UNKNOWN" },
		{ FAKECUDA_STICKY, 719, -ENODEV, "CUDA_ERROR_LAUNCH_FAILED" },
		{ FAKECUDA_LATE, 700, -ENODEV, "CUDA_ERROR_ILLEGAL_ADDRESS" },
	};
	static bool enough[5];

	setenv("FAKECUDA_DEVICES", "2", 1);
	need_compute_apart();
	plan(0);
	for (size_t i = 0; i < 5; i++)
		enough[i] = in_child(no_memory, memory[i]);
	open_fake();
	for (size_t i = 0; i < 5; i++)
		ok(enough[i],
		   "%s has no memory: the graph is not made executable, and then is",
		   memory[i]);
	each_fails(&failures[0], "it has no memory");
	each_fails(&failures[1], "an unknown error");
	each_fails(&failures[2], "the device is lost");
	each_fails(&failures[3], "its kernel faults");
	each_call(cancelled, "the run is cancelled");
	each_call(closed, "everything is closed");
	loading_takes_long();
	all_given_back("after all");
	return done_testing();
}
