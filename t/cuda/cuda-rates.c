/* SPDX-License-Identifier: MIT */
/*
 * The rates of a GPU: when they are measured, how often, and what a device has
 * that cannot be measured.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"

#define MOST 500 /* calls of a measurement */

static struct weir *weir;
static struct weir_dev *dev[2];
static struct weir_sched *sched;

static void begin(const char *params, const char *second)
{
	weir = open_cuda();
	dev[0] = gpu(weir);
	if (params)
		must(weir_dev_configure(weir, params, &dev[0]));
	must(weir_dev_find(weir, second, &dev[1]));
	must(weir_sched_new(dev, 2, NULL, &sched));
}

static void end(void)
{
	weir_sched_free(sched);
	weir_close(weir);
}

static struct weir_rates rates_of(unsigned i)
{
	struct weir_rates rates = { .size = sizeof(rates) };

	must(weir_sched_rates(sched, i, &rates));
	return rates;
}

static bool are_equal(struct weir_rates a, struct weir_rates b)
{
	return a.flops == b.flops && a.bytes == b.bytes && a.link == b.link;
}

/* Those of a GPU that is not measured. */
static bool are_common(struct weir_rates rates)
{
	return rates.flops == 2e13 && rates.bytes == 1e12 && rates.link == 2e10;
}

/* The first call of its name fails. */
static void fails(const char *call)
{
	unsigned long before;

	begin(NULL, "CPU");
	before = fake.struck();
	fake.arm(call, 1, FAKECUDA_ONCE, 2);
	ok(are_common(rates_of(0)),
	   "%s fails: the device has the rates of its type", call);
	is_int(fake.struck() - before, 1, "the call was made");
	fake.disarm();
	has_str(cuda_log, "CUDA0 has common rates, not its own",
		"the log says so");
	end();
}

/* There is memory for the product, not for the copies. */
static void little_memory(void)
{
	unsigned long before;

	begin(NULL, "CPU");
	before = fake.struck();
	fake.arm("cuMemAlloc", 3, FAKECUDA_FROM_THEN_ON, 2);
	ok(are_common(rates_of(0)),
	   "no memory: the device has the rates of its type");
	ok(fake.struck() > before, "there was none");
	fake.disarm();
	end();
}

static int compute_once(struct weir_dev *const *devs, unsigned n)
{
	const int64_t shape = 8;
	const float x[8] = { 1 };
	struct weir_graph *g;
	struct weir_exec *exec;
	struct weir_node *in;
	struct weir_sched *one;
	struct weir_run *run;
	int r;

	must(weir_graph_new(&g));
	must(weir_sched_new(devs, n, NULL, &one));
	in = weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, &shape);
	weir_graph_output(g, weir_sqr(g, in));
	must(weir_exec_new(one, g, &exec));
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, in, x, sizeof(x)));
	must(weir_run_start(run));
	r = weir_run_wait(run, -1);
	weir_run_free(run);
	weir_exec_free(exec);
	weir_sched_free(one);
	weir_graph_free(g);
	return r;
}

/*
 * In a process of its own, since what was measured once is kept: call @nth of
 * the driver fails. 0: it was made, and all went well; 1: there were less.
 */
static int one_fails(unsigned nth, int mode, int code)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		unsigned long before;
		struct weir_rates rates;

		begin(NULL, "CPU");
		before = fake.struck();
		fake.arm("*", nth, mode, code);
		rates = rates_of(0);
		fake.disarm();
		if (fake.struck() == before)
			_exit(1);
		if (!are_common(rates) &&
		    !(rates.flops > 0 && rates.bytes > 0 && rates.link > 0))
			_exit(2);
		if (mode == FAKECUDA_ONCE &&
		    compute_once((struct weir_dev *[]){ dev[0] }, 1) < 0)
			_exit(3);
		end();
		_exit(mode == FAKECUDA_ONCE && *fake.misuse() ? 4 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
}

static void each_fails(int mode, int code, const char *what)
{
	unsigned n = 0, wrong = 0;
	int r;

	while (n < MOST && (r = one_fails(n + 1, mode, code)) != 1) {
		if (r)
			diag("call %u: %d", n + 1, r);
		wrong += r != 0;
		n++;
	}
	ok(n > 20 && n < MOST && !wrong,
	   "%s while a device is measured: it has rates", what);
	diag("each of %u calls", n);
}

static void measured(void)
{
	unsigned long launches = fake.calls("cuLaunchKernel");
	struct weir_rates first;

	begin(NULL, "CPU");
	is_int(compute_once(dev, 1), 0, "one device computes");
	is_int(fake.calls("cuLaunchKernel") - launches, 1,
	       "and is not measured");
	is_int(compute_once(dev, 2), 0, "two devices compute");
	ok(fake.calls("cuLaunchKernel") - launches > 2, "they are measured");
	first = rates_of(0);
	ok(first.flops > 0 && first.bytes > 0 && first.link > 0 &&
		   !are_common(first),
	   "the rates are its own");
	launches = fake.calls("cuLaunchKernel");
	ok(are_equal(first, rates_of(0)), "a root has the same rates again");
	is_int(fake.calls("cuLaunchKernel") - launches, 0, "without measuring");
	end();
}

/* The rates in a root of its own, while copies are as fast as @rate says. */
static struct weir_rates rates_at(const char *rate, const char *params,
				  const char *second)
{
	struct weir_rates rates;

	fake.set("RATE", rate);
	begin(params, second);
	rates = rates_of(0);
	if (params && !are_equal(rates, rates_of(1)))
		rates.size = 0;
	end();
	fake.set("RATE", "0");
	return rates;
}

static bool is_best(struct weir_rates rates, struct weir_rates of)
{
	return rates.flops >= of.flops && rates.bytes >= of.bytes &&
	       rates.link >= of.link;
}

/* In a process of its own: a GPU that is busy at first, and later again. */
static bool best_of_three(const char *arg)
{
	struct weir_rates busy, idle, again, later;
	unsigned long launches;
	bool right;

	(void)arg;
	open_fake();
	busy = rates_at("1e6", NULL, "CPU");
	idle = rates_at("0", NULL, "CPU");
	again = rates_at("1e6", NULL, "CPU");
	launches = fake.calls("cuLaunchKernel");
	later = rates_at("0", NULL, "CPU");
	right = idle.link > 2 * busy.link && is_best(idle, busy) &&
		is_best(again, idle) && again.link == idle.link &&
		are_equal(later, again) &&
		fake.calls("cuLaunchKernel") == launches;
	if (!right)
		fprintf(stderr, "# link %g, %g, %g, %g\n", busy.link, idle.link,
			again.link, later.link);
	return right;
}

/* Two devices of a GPU, the first of which is measured. */
static bool devices_of_a_gpu(const char *arg)
{
	(void)arg;
	open_fake();
	return rates_at("0", "CUDA0:virtual=2", "CUDA0-1").size &&
	       rates_at("1e7", "CUDA0:virtual=2", "CUDA0-1").size;
}

/* The second measurement fails: what the first has found is kept. */
static bool kept_after_failure(const char *arg)
{
	struct weir_rates first, again;
	unsigned long before;

	(void)arg;
	open_fake();
	first = rates_at("0", NULL, "CPU");
	before = fake.struck();
	fake.arm("cuLaunchKernel", 1, FAKECUDA_ONCE, 2);
	again = rates_at("0", NULL, "CPU");
	return fake.struck() != before && are_equal(first, again) &&
	       !are_common(again) && !strstr(cuda_log, "common rates");
}

/* What a program does on a stream of its own. */
static struct {
	int (*new)(struct CUstream_st **ret, unsigned flags);
	int (*call)(struct CUstream_st *stream, void (*fn)(void *), void *arg);
	int (*free)(struct CUstream_st *stream);
	atomic_bool may_end, has_waited;
} program;

/* For 10 seconds at most. */
static void wait_for_program(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000 && !atomic_load(&program.may_end); i++)
		usleep(10000);
	atomic_store(&program.has_waited, true);
}

/* In a process of its own, since what was measured once is kept. */
static bool waits_for_nothing(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct CUstream_st *stream;
		bool waited;

		begin(NULL, "CPU");
		*(void **)&program.new = fake_symbol("cuStreamCreate");
		*(void **)&program.call = fake_symbol("cuLaunchHostFunc");
		*(void **)&program.free = fake_symbol("cuStreamDestroy_v2");
		enter_context();
		if (program.new(&stream, 1) ||
		    program.call(stream, wait_for_program, NULL))
			_exit(2);
		rates_of(0);
		waited = atomic_load(&program.has_waited);
		atomic_store(&program.may_end, true);
		if (program.free(stream))
			_exit(3);
		leave_context();
		end();
		_exit(waited || *fake.misuse());
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail("fork");
	return status == 0;
}

int main(void)
{
	static const char *const calls[] = {
		"cuStreamCreate", "cuMemAlloc",        "cuMemsetD8Async",
		"cuLaunchKernel", "cuMemcpyDtoDAsync", "cuMemcpyHtoDAsync",
	};
	bool best, equal, kept;

	need_compute_apart();
	best = in_child(best_of_three, NULL);
	equal = in_child(devices_of_a_gpu, NULL);
	kept = in_child(kept_after_failure, NULL);
	open_fake();
	plan(0);
	ok(best, "of three measurements the best rates are kept");
	ok(equal, "devices of one GPU have the same rates");
	ok(kept, "a later measurement that fails changes nothing");
	each_fails(FAKECUDA_ONCE, 2, "a call fails");
	each_fails(FAKECUDA_STICKY, 700, "the device is lost");
	ok(waits_for_nothing(),
	   "a measurement does not wait for other work of the context");
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		fails(calls[i]);
	little_memory();
	measured();
	all_given_back("after all");
	return done_testing();
}
