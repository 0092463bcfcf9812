/* SPDX-License-Identifier: MIT */
/*
 * Each driver call that a graph makes fails in turn: when it is made executable
 * (kernels are loaded, memory is allocated), in runs, and when it is freed. The
 * error is the driver's, a result without an error is right, and a run after
 * it is right if the device is not lost. Kernels that fault, and runs that are
 * cancelled or closed at every moment. Each way of failing has some of the
 * calls, or all of them if WEIR_T_EVERY is set.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

#define N 64
#define MOST 2000u /* calls that a part may make */

/* A graph on CUDA0 and the CPU, and the first failure of the armed part. */
struct life {
	struct weir *weir;
	struct weir_dev *dev[2];
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_node *x, *ids, *y;
	struct weir_exec *exec;
	struct weir_run *run;
	int err;
	char why[1024];
	unsigned wrong; /* results without an error that are wrong */
};

static bool works(struct life *l, int r)
{
	if (r >= 0)
		return true;
	if (!l->err) {
		l->err = r;
		snprintf(l->why, sizeof(l->why), "%s", weir_error());
	}
	return false;
}

/*
 * The sum of 2 * x + 1 over three rows: indices are checked, and the last node
 * is computed by the CPU.
 */
static void graph_make(struct life *l)
{
	struct weir_graph *g = l->g;
	struct weir_node *rows;
	const int64_t shape[] = { 4, N }, n = 3;

	l->x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, shape);
	l->ids = weir_graph_input(g, "ids", WEIR_DTYPE_I32, 1, &n);
	rows = weir_get_rows(g, l->x, l->ids);
	weir_node_set_name(rows, "first");
	l->y = weir_scale(g, weir_relu(g, rows), 2, 1);
	weir_node_set_name(l->y, "second");
	l->y = weir_sum(g, l->y);
	weir_node_set_name(l->y, "third");
	weir_graph_output(g, l->y);
	must(weir_graph_error(g, NULL));
	must(weir_sched_pin(l->sched, "first", l->dev[0]));
	must(weir_sched_pin(l->sched, "second", l->dev[0]));
	must(weir_sched_pin(l->sched, "third", l->dev[1]));
}

/* CUDA0 is not measured (cuda-rates.c), and is the faster of the two. */
static void begin(struct life *l)
{
	const struct weir_rates rates = { sizeof(rates), 2e13, 1e12, 2e10 };

	memset(l, 0, sizeof(*l));
	l->weir = open_cuda();
	l->dev[0] = gpu(l->weir);
	l->dev[1] = weir_dev_get(l->weir, 0);
	must(weir_sched_new(l->dev, 2, NULL, &l->sched));
	must(weir_sched_set_rates(l->sched, 0, &rates));
	must(weir_graph_new(&l->g));
	graph_make(l);
}

static void making(struct life *l)
{
	if (works(l, weir_exec_new(l->sched, l->g, &l->exec)))
		works(l, weir_run_new(l->exec, &l->run));
}

static int compute_once(struct life *l, float *ret)
{
	static const int32_t ids[] = { 2, 0, 2 };
	struct weir_tensor t;
	float x[4 * N];
	int r;

	for (int i = 0; i < 4 * N; i++)
		x[i] = 3;
	if ((r = weir_run_input(l->run, l->x, x, sizeof(x))) < 0 ||
	    (r = weir_run_input(l->run, l->ids, ids, sizeof(ids))) < 0 ||
	    (r = weir_run_start(l->run)) < 0 ||
	    (r = weir_run_wait(l->run, -1)) < 0 ||
	    (r = weir_run_output(l->run, l->y, &t)) < 0)
		return r;
	return weir_tensor_get(&t, 0, ret, sizeof(*ret));
}

/* Repeated runs may be launched in another way than the first one. */
static void computing(struct life *l)
{
	float sum = 0;

	for (int i = 0; l->run && i < 4; i++)
		if (works(l, compute_once(l, &sum)) &&
		    fabsf(sum - (2 * 3 + 1) * 3.0f * N) > 0.5f)
			l->wrong++;
}

static void freeing(struct life *l)
{
	weir_run_free(l->run);
	weir_exec_free(l->exec);
	weir_sched_free(l->sched);
	weir_graph_free(l->g);
	weir_close(l->weir);
}

static const struct {
	const char *name;
	void (*run)(struct life *l);
	unsigned least; /* driver calls that it makes, at least */
} parts[] = {
	{ "making", making, 8 },
	{ "computing", computing, 30 },
	{ "freeing", freeing, 8 },
};
enum {
	PARTS = sizeof(parts) / sizeof(parts[0]),
	MAKING = 0,
	COMPUTING,
	FREEING
};

/* Another device computes, whatever happened to CUDA0. */
static bool cpu_computes(struct life *l)
{
	struct weir_graph_compute_opts o = WEIR_GRAPH_COMPUTE_OPTS_INIT;
	const int64_t n = 1;
	const float in = 3;
	float out = 0;
	struct weir_graph_io io[2] = { { .in = &in, .bytes = 4 },
				       { .out = &out, .bytes = 4 } };
	struct weir_graph *g;
	int r;

	must(weir_graph_new(&g));
	io[0].node = weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, &n);
	io[1].node = weir_graph_output(g, weir_sqr(g, weir_graph_node(g, 0)));
	o.devs = &l->dev[1];
	o.n_devs = 1;
	r = weir_graph_compute(l->weir, g, io, 2, &o);
	weir_graph_free(g);
	return r == 0 && out == 9;
}

static bool is_lost(void)
{
	return strstr(cuda_log, "is lost") != NULL;
}

/* How often the log says that a device is lost. */
static unsigned losses(void)
{
	unsigned n = 0;

	for (const char *p = cuda_log; (p = strstr(p, "is lost")); p++)
		n++;
	return n;
}

/* After the armed part: what the device can still do. */
static void go_on(struct life *l)
{
	struct life after = *l;

	after.err = 0;
	if (!after.run)
		making(&after);
	computing(&after);
	if (!is_lost() && after.err) {
		diag("a later run: %s", after.why);
		l->wrong++;
	}
	l->wrong += after.wrong + !cpu_computes(l) + (losses() > 1);
	l->exec = after.exec;
	l->run = after.run;
}

/* One life in which driver call @nth of @part fails. True if it was made. */
static bool live(struct life *l, unsigned part, const char *call, unsigned nth,
		 int mode, int code)
{
	unsigned long before = fake.struck();
	bool met;

	begin(l);
	for (unsigned i = 0; i < part; i++)
		parts[i].run(l);
	fake.arm(call, nth, mode, code);
	parts[part].run(l);
	fake.disarm();
	met = fake.struck() != before;
	if (part != FREEING) {
		go_on(l);
		freeing(l);
	}
	return met;
}

/* True if errno and sentence are those of @code, or of a consequence of it. */
static bool is_right(const struct life *l, int code, const char *word)
{
	int want = code == 2 ? -ENOMEM : code == 1 ? -EINVAL : -EIO;

	if (!l->err)
		return true;
	return strstr(l->why, word) &&
	       (l->err == want || l->err == -ENODEV || l->err == -ECANCELED ||
		l->err == -EOPNOTSUPP);
}

enum {
	NOT_MET,
	MET,
	SHOWN,
	STRANGE
};

static int judge(unsigned part, const char *call, unsigned nth, int mode,
		 int code, const char *word)
{
	struct life l;
	bool met = live(&l, part, call, nth, mode, code);

	if (l.wrong || !is_right(&l, code, word)) {
		diag("%s, call %u of %s: %d, %u wrong: %s\n%s",
		     parts[part].name, nth, call, l.err, l.wrong, l.why,
		     cuda_log);
		return STRANGE;
	}
	return !met ? NOT_MET : l.err ? SHOWN : MET;
}

static int forked(unsigned part, const char *call, unsigned nth, int mode,
		  int code, const char *word)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(judge(part, call, nth, mode, code, word));
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	diag("%s, call %u: status %#x", parts[part].name, nth, status);
	return STRANGE;
}

/*
 * Every @step-th call, from @n on. @here: in this process, and nothing of the
 * driver is left each time.
 */
static void each_call(unsigned part, const char *call, unsigned n,
		      unsigned step, int mode, int code, const char *word,
		      bool here)
{
	static const char *const how[] = {
		[FAKECUDA_ONCE] = "once",
		[FAKECUDA_FROM_THEN_ON] = "with all later ones",
		[FAKECUDA_STICKY] = "for ever",
		[FAKECUDA_LATE] = "later",
	};
	unsigned least = call[0] == '*' ? parts[part].least : 1;
	unsigned tries = 0, shown = 0, strange = 0;
	unsigned long leaks = 0;
	int what;

	if (getenv("WEIR_T_EVERY"))
		n = step = 1;
	for (;; n += step) {
		tap_renew();
		what = here ? judge(part, call, n, mode, code, word)
			    : forked(part, call, n, mode, code, word);
		shown += what == SHOWN;
		strange += what == STRANGE;
		if (here)
			leaks += objects_left();
		if (what == NOT_MET || n >= MOST)
			break;
		tries++;
	}
	ok(n > least && n < MOST && !strange && !leaks,
	   "%s: %u of the calls (%s) fail %s with %s, and %u failures are right",
	   parts[part].name, tries, call, how[mode], word, shown);
	if (leaks)
		diag("%lu objects of the driver are left", leaks);
}

/* Cancelled, or freed and closed, after @us microseconds. */
static void interrupted(unsigned us, bool closes)
{
	struct life l;
	float sum = 0;

	begin(&l);
	making(&l);
	if (compute_once(&l, &sum) < 0)
		bail("%s", weir_error());
	fake.set("CALL", "300");
	must(weir_run_start(l.run));
	if (us)
		usleep(us);
	if (!closes) {
		int r;

		(void)weir_run_cancel(l.run);
		r = weir_run_wait(l.run, -1);
		fake.set("CALL", "0");
		if (r < 0 && r != -ECANCELED)
			l.wrong++;
		computing(&l);
		if (l.err || l.wrong)
			diag("after %u us: %s", us, l.why);
	}
	freeing(&l);
	fake.set("CALL", "0");
	if (l.err || l.wrong)
		bail("a run that was cancelled spoils the next one");
}

static void every_moment(void)
{
	unsigned long leaks = 0;

	for (unsigned us = 0; us < 6000; us += 400) {
		interrupted(us, false);
		interrupted(us, true);
		leaks += objects_left();
	}
	is_int(leaks, 0,
	       "runs are cancelled, or freed while they run, at every moment");
}

int main(void)
{
	static const char *const queued[] = { "cuLaunchKernel", "cuGraphLaunch",
					      "cuEventRecord",
					      "cuMemcpyDtoHAsync" };

	need_compute_apart();
	open_fake();
	plan(0);
	for (unsigned i = 0; i < PARTS; i++) {
		each_call(i, "*", 1, 7, FAKECUDA_STICKY, 700,
			  "CUDA_ERROR_ILLEGAL_ADDRESS", false);
		each_call(i, "*", 2, 11, FAKECUDA_FROM_THEN_ON, 999,
			  "CUDA_ERROR_UNKNOWN", false);
	}
	each_call(COMPUTING, "cuLaunchKernel", 1, 1, FAKECUDA_LATE, 700,
		  "CUDA_ERROR_ILLEGAL_ADDRESS", false);
	each_call(COMPUTING, "cuLaunchKernel", 1, 1, FAKECUDA_LATE, 719,
		  "CUDA_ERROR_LAUNCH_FAILED", false);
	/* A graph that the driver does not destroy is left: in a child. */
	each_call(COMPUTING, "*", 3, 7, FAKECUDA_ONCE, 2,
		  "CUDA_ERROR_OUT_OF_MEMORY", false);
	each_call(COMPUTING, "*", 5, 7, FAKECUDA_ONCE, 999,
		  "CUDA_ERROR_UNKNOWN", false);
	for (unsigned i = MAKING; i <= FREEING; i += FREEING) {
		each_call(i, "*", 3, 7, FAKECUDA_ONCE, 2,
			  "CUDA_ERROR_OUT_OF_MEMORY", true);
		each_call(i, "*", 5, 7, FAKECUDA_ONCE, 999,
			  "CUDA_ERROR_UNKNOWN", true);
	}
	for (unsigned i = 0; i < 4; i++)
		each_call(COMPUTING, queued[i], 1, 1, FAKECUDA_ONCE, 999,
			  "CUDA_ERROR_UNKNOWN", true);
	every_moment();
	all_given_back("after failed calls");
	return done_testing();
}
