/* SPDX-License-Identifier: MIT */
/*
 * Random graphs, run by executable graphs over 1 to 4 devices with 1 to 3
 * threads and random pins, and compared with the plain evaluator: outputs,
 * observed nodes and caches. WEIR_T_NODES is about how many nodes are made on
 * each kind of devices, WEIR_T_SEED the seed of the first graph; each graph has
 * the next one.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "kind.h"
#include "naive.h"
#include "random_graph.h"
#include "tap.h"

static struct weir *weir;
#define DEVS 4u
static struct weir_dev *dev[DEVS];
static unsigned n_devs;
/*
 * Schedulers of the first devices, 1 to n_devs; with a copy of inputs, and with
 * two and room for some of the constant leaves, so that the others are
 * prefetched.
 */
static struct weir_sched *sched[DEVS][2];
static const uint64_t weights[DEVS] = { 500, 500, 500, 500 };
static struct weir_stream *stream;
static struct random_graph r;
static struct naive *want; /* results that this run should have */
static uint64_t seed;
static char wrong[512]; /* the first difference of this graph, or "" */
static uint64_t compared, in_place, cancelled, transfers, lanes, prefetched;
static _Atomic uint64_t observed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* lock of @wrong */

static uint64_t number_from(const char *name, uint64_t other)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : other;
}

/* Every element is as near as it is known to be. */
static void compare(size_t i, const struct weir_tensor *t, const char *what)
{
	const struct weir_node *node = weir_graph_node(r.g, i);
	struct weir_operand got = naive_operand(t);
	double *a = naive_doubles(&got);
	double *b = naive_doubles(naive_result(want, node));
	struct known k = random_graph_known(&r, node);
	int64_t n = naive_count(&got);
	struct weir_node_info info = { .size = sizeof(info) };

	if (n != naive_count(naive_result(want, node)) ||
	    weir_node_info(node, &info) < 0)
		bail("another number of elements");
	for (int64_t e = 0; e < n && !wrong[0]; e++)
		if (!(fabs(a[e] - b[e]) <= k.err))
			snprintf(
				wrong, sizeof(wrong),
				"%s, node %zu (%s), element %lld of %lld: %.9g, not %.9g; they may differ by %g",
				what, i, info.op_name, (long long)e,
				(long long)n, a[e], b[e], k.err);
	compared += (uint64_t)n;
	free(a);
	free(b);
}

/* On threads of the library; the main thread waits for the run. */
static int see(void *arg, struct weir_run *run, uint64_t node,
	       const struct weir_tensor *t)
{
	(void)arg, (void)run;
	pthread_mutex_lock(&lock);
	compare(node, t, "observed");
	pthread_mutex_unlock(&lock);
	observed++;
	return 0;
}

static void inputs_set(struct weir_run *run, uint64_t round)
{
	unsigned char bytes[16384];
	size_t n;

	for (unsigned i = 0; i < r.n_inputs; i++) {
		const struct weir_node *node = r.input[i];

		if (weir_tensor_bytes(weir_node_tensor(node), &n) < 0 ||
		    n > sizeof(bytes))
			bail("an input is too large");
		random_graph_input(node, seed * 31 + round * 7 + i, bytes);
		naive_input(want, node, bytes);
		/* What the run does not compute has no use for it. */
		if (weir_run_input(run, node, bytes, n) < 0)
			bail("seed %llu: %s", (unsigned long long)seed,
			     weir_error());
	}
}

static void outputs_compare(struct weir_run *run)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct weir_tensor t;

	for (size_t i = 0; i < r.n && !wrong[0]; i++) {
		const struct weir_node *node = weir_graph_node(r.g, i);

		if (weir_node_info(node, &info) < 0)
			bail("%s", weir_error());
		if (info.flags & WEIR_NODE_OUTPUT) {
			if (weir_run_output(run, node, &t) < 0)
				bail("seed %llu: %s", (unsigned long long)seed,
				     weir_error());
			compare(i, &t, "output");
		} else if (r.cache[i] >= 0) {
			compare(i, weir_node_tensor(node), "cache");
		}
	}
}

/* By itself, or as an operation of a stream. */
static int start(struct weir_run *run)
{
	return n_devs > 1 || seed % 5 ? weir_run_start(run)
				      : weir_stream_compute(stream, run);
}

/* A run that was cancelled somewhere spoils nothing for the next one. */
static void run_cancelled(struct weir_run *run)
{
	int err;

	if (weir_run_start(run) < 0)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
	for (uint64_t spin = seed * 2654435761u % 50000; spin; spin--)
		__asm__ volatile("");
	if (weir_run_cancel(run) < 0)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
	err = weir_run_wait(run, -1);
	if (err < 0 && err != -ECANCELED)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
	cancelled += err < 0;
}

/* Once: the same inputs for both, and caches as they were at first. */
static void run_once(struct weir_run *run, uint64_t round)
{
	random_graph_caches(&r);
	want = naive_new(r.g);
	inputs_set(run, round);
	if (naive_run(want) < 0)
		bail("seed %llu: the evaluator failed at node %zu",
		     (unsigned long long)seed, naive_failed(want));
	if (round && seed % 4 == 0)
		run_cancelled(run);
	random_graph_caches(&r);
	if (start(run) < 0 || weir_run_wait(run, -1) < 0)
		snprintf(wrong, sizeof(wrong), "%s", weir_error());
	else
		outputs_compare(run);
	naive_free(want);
}

/* Names for some operations, and a pin for each name. */
static void pins_set(struct weir_sched *s, unsigned devs)
{
	struct weir_node_info info = { .size = sizeof(info) };
	uint64_t state = seed;
	char name[24];

	if (weir_sched_pin(s, NULL, NULL) < 0)
		bail("%s", weir_error());
	for (size_t i = 0; i < r.n; i++) {
		struct weir_node *node = weir_graph_node(r.g, i);

		state = state * 6364136223846793005u + 1442695040888963407u;
		if (weir_node_info(node, &info) < 0)
			bail("%s", weir_error());
		/* Writes go where their leaf is. */
		if (r.cache[i] >= 0 || !info.n_src || seed % 3 == 0)
			continue;
		snprintf(name, sizeof(name), "on %u",
			 (unsigned)(state >> 33) % devs);
		weir_node_set_name(node, name);
	}
	for (unsigned d = 0; d < devs; d++) {
		snprintf(name, sizeof(name), "on %u", d);
		if (weir_sched_pin(s, name, dev[d]) < 0)
			bail("%s", weir_error());
	}
}

/*
 * Use the scheduler that prefetches leaves for every second graph, but the
 * other one if the memory for leaves is too small for an operation.
 */
static struct weir_exec *exec_new(unsigned last)
{
	struct weir_exec *exec;
	int err = -EAGAIN;

	for (unsigned two = seed % 2 + 1; err < 0 && two-- > 0;) {
		if (last)
			pins_set(sched[last][two], last + 1);
		err = weir_exec_new(sched[last][two], r.g, &exec);
		if (err < 0 && (err != -ENOMEM || !two))
			bail("seed %llu: %s", (unsigned long long)seed,
			     weir_error());
	}
	return exec;
}

static void graph_run(void)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_threads threads = { .size = sizeof(threads),
					.count = 1 + (uint32_t)(seed % 3) };
	/* On all devices there are, or fewer, but on several if possible. */
	unsigned last = n_devs < 2 ? 0
				   : 1 + (unsigned)(seed / 2 % (n_devs - 1));
	struct weir_exec *exec;
	struct weir_run *run;

	if (weir_dev_set_threads(dev[0], &threads) < 0)
		bail("%s", weir_error());
	exec = exec_new(last);
	if (weir_exec_info(exec, &info) < 0 || weir_run_new(exec, &run) < 0)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
	in_place += info.in_place;
	transfers += info.transfers;
	lanes += info.lanes > 1;
	prefetched += info.prefetched > 0;
	for (uint64_t round = 0; round < 2 && !wrong[0]; round++)
		run_once(run, round);
	weir_run_free(run);
	weir_exec_free(exec);
}

/* Graphs of 1 to 400 nodes, of about @nodes nodes together. */
static void graphs(uint64_t nodes, const char *what)
{
	uint64_t done = 0, n = 0;

	for (seed = number_from("WEIR_T_SEED", 1); done < nodes && !wrong[0];
	     seed++, n++) {
		random_graph_make(&r, seed, 1 + seed * 2654435761u % 400);
		graph_run();
		done += r.n;
		if (n % 1000 == 999)
			tap_renew();
	}
	ok(!wrong[0], "random graphs give the results of the evaluator, %s",
	   what);
	if (wrong[0])
		diag("WEIR_T_SEED=%llu: %s", (unsigned long long)seed - 1,
		     wrong);
	diag("%llu graphs, %llu nodes, %llu in place, %llu elements compared, %llu over several devices, %llu transfers, %llu with prefetched leaves",
	     (unsigned long long)n, (unsigned long long)done,
	     (unsigned long long)in_place, (unsigned long long)compared,
	     (unsigned long long)lanes, (unsigned long long)transfers,
	     (unsigned long long)prefetched);
}

/* On as many devices as there are, whose first one has the parameters. */
static void on_devices(const char *params, const char *what, uint64_t nodes)
{
	struct weir_sched_opts opts = WEIR_SCHED_OPTS_INIT;
	struct weir_buft *buft[DEVS];
	char name[8] = "CPU";

	if (weir_open(NULL, &weir) < 0 ||
	    weir_dev_configure(weir, params, &dev[0]) < 0)
		bail("%s", weir_error());
	n_devs = 0;
	wrong[0] = 0;
	do {
		if (weir_dev_buft(dev[n_devs], WEIR_MEM_PLAIN, &buft[n_devs]) <
		    0)
			bail("%s", weir_error());
		n_devs++;
		snprintf(name, sizeof(name), "CPU%u", n_devs);
	} while (n_devs < DEVS && weir_dev_find(weir, name, &dev[n_devs]) == 0);
	opts.observe = see;
	for (unsigned i = 0; i < 2 * n_devs; i++) {
		opts.copies = 1 + i % 2;
		opts.weights = i % 2 ? weights : NULL;
		if (weir_sched_new(dev, 1 + i / 2, &opts,
				   &sched[i / 2][i % 2]) < 0)
			bail("%s", weir_error());
	}
	if (weir_stream_new(dev[0], NULL, &stream) < 0)
		bail("%s", weir_error());
	random_graph_begin(&r, buft, n_devs < 2 ? 1 : 2);
	graphs(nodes, what);
	random_graph_end(&r);
	weir_stream_free(stream);
	for (unsigned i = 0; i < 2 * n_devs; i++)
		weir_sched_free(sched[i / 2][i % 2]);
	weir_close(weir);
}

int main(void)
{
	uint64_t nodes = number_from("WEIR_T_NODES", 30000);

	plan(9);
	on_devices("CPU", "on one device", nodes);
	ok(!lanes, "one device has one lane");
	on_devices("CPU:devices=4", "on devices that share memory", nodes);
	ok(lanes, "graphs were computed by several devices");
	on_devices("CPU:devices=4,apart=1",
		   "on devices with memory of their own", nodes);
	ok(transfers, "bytes were copied between devices");
	if (nodes < 30000)
		skip(1, "few graphs have leaves that are prefetched");
	else
		ok(prefetched, "constant leaves were prefetched");
	ok(observed && in_place,
	   "observed nodes were reported, and results took the places of sources");
	ok(cancelled, "runs were cancelled before they ended");
	return done_testing();
}
