/* SPDX-License-Identifier: MIT */
/* Random graphs are made, run, and compared. */
#include "random_run.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naive.h"
#include "random_graph.h"
#include "random_later.h"
#include "tap.h"

struct random_seen random_seen;

static const struct random_devices *on;
/*
 * Schedulers of the first devices, 1 to on->n; with a copy of inputs, and with
 * two and room for some of the constant leaves, so that the others are
 * prefetched.
 */
static struct weir_sched *sched[RANDOM_DEVS][2];
static const uint64_t weights[RANDOM_DEVS] = { 500, 500, 500, 500 };
static struct weir_stream *stream;
static struct random_graph r;
static struct naive *want; /* results that this run should have */
static uint64_t seed;
static char wrong[512]; /* the first difference of this graph, or "" */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* lock of @wrong */

uint64_t random_number_from(const char *name, uint64_t other)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : other;
}

/* The tensor in host memory; *@ret_copy is freed by the caller. */
static struct weir_operand in_host(const struct weir_tensor *t, void **ret_copy)
{
	struct weir_tensor host = *t, all;
	size_t bytes;
	int64_t n;

	*ret_copy = NULL;
	if (weir_tensor_data(t))
		return naive_operand(t);
	if (weir_tensor_bytes(t, &bytes) < 0)
		bail("%s", weir_error());
	n = (int64_t)bytes;
	if (weir_tensor_init(&all, WEIR_DTYPE_U8, 1, &n) < 0)
		bail("%s", weir_error());
	all.buf = t->buf;
	all.offset = t->offset;
	*ret_copy = malloc(bytes + 1);
	if (!*ret_copy)
		bail("no memory for %zu bytes", bytes);
	if (bytes && weir_tensor_get(&all, 0, *ret_copy, bytes) < 0)
		bail("%s", weir_error());
	host.buf = NULL;
	return naive_operand_at(&host, *ret_copy);
}

/* Every element is as near as it is known to be. */
static void compare(size_t i, const struct weir_tensor *t, const char *what)
{
	const struct weir_node *node = weir_graph_node(r.g, i);
	void *copy;
	struct weir_operand got = in_host(t, &copy);
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
	random_seen.compared += (uint64_t)n;
	free(a);
	free(b);
	free(copy);
}

/*
 * On threads of the library; the main thread waits for the run. It may not read
 * memory of a device.
 */
static int see(void *arg, struct weir_run *run, uint64_t node,
	       const struct weir_tensor *t)
{
	(void)arg, (void)run;
	pthread_mutex_lock(&lock);
	if (weir_tensor_data(t))
		compare(node, t, "observed");
	random_seen.observed++;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Copy it when its bytes have arrived. */
static void input_later(struct weir_run *run, unsigned i, const void *bytes)
{
	struct weir_tensor t = *weir_node_tensor(r.input[i]);

	random_graph_place(&r, i, &t);
	later_set(&t, bytes, r.input_event[i]);
	if (weir_run_input_tensor(run, r.input[i], &t, r.input_event[i]) < 0)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
}

/* Give the inputs bytes, half of them later; also some leaves. */
static void bytes_set(struct weir_run *run, uint64_t round)
{
	unsigned char bytes[16384];
	const void *later;
	size_t n;

	for (unsigned i = 0; i < r.n_later; i++) {
		later = random_graph_bytes(&r, r.later[i], seed + round + i);
		naive_input(want, r.later[i], later);
		later_set(weir_node_tensor(r.later[i]), later, r.leaf_event[i]);
	}
	for (unsigned i = 0; i < r.n_inputs; i++) {
		const struct weir_node *node = r.input[i];
		uint64_t with = seed * 31 + round * 7 + i;

		if (weir_tensor_bytes(weir_node_tensor(node), &n) < 0 ||
		    n > sizeof(bytes))
			bail("an input is too large");
		if ((seed + i) % 2) {
			later = random_graph_bytes(&r, node, with);
			naive_input(want, node, later);
			input_later(run, i, later);
			continue;
		}
		random_graph_input(node, with, bytes);
		naive_input(want, node, bytes);
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
	return on->n > 1 || seed % 5 ? weir_run_start(run)
				     : weir_stream_compute(stream, run);
}

/*
 * A run that was cancelled somewhere, perhaps before its bytes arrived, spoils
 * nothing for the next one.
 */
static void run_cancelled(struct weir_run *run)
{
	int err;

	if (weir_run_start(run) < 0)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
	if (seed % 8)
		later_arrive(seed);
	for (uint64_t spin = seed * 2654435761u % 50000; spin; spin--)
		__asm__ volatile("");
	if (weir_run_cancel(run) < 0)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
	later_arrive(0);
	err = weir_run_wait(run, -1);
	if (err < 0 && err != -ECANCELED)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
	random_seen.cancelled += err < 0;
	later_wait();
}

/* Once: the same inputs for both, and caches as they were at first. */
static void run_once(struct weir_run *run, uint64_t round)
{
	struct weir_run_report report = { .size = sizeof(report) };
	int err;

	random_graph_caches(&r);
	want = naive_new(r.g);
	bytes_set(run, round);
	if (naive_run(want) < 0)
		bail("seed %llu: the evaluator failed at node %zu",
		     (unsigned long long)seed, naive_failed(want));
	if (round && seed % 4 == 0) {
		run_cancelled(run);
		random_graph_caches(&r);
		bytes_set(run, round);
	}
	err = start(run);
	later_arrive(seed * 7 + round);
	if (err < 0 || weir_run_wait(run, -1) < 0)
		snprintf(wrong, sizeof(wrong), "%s", weir_error());
	later_wait();
	if (weir_run_report(run, &report) == 0)
		random_seen.waits += report.waits;
	if (!wrong[0])
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
		/* Writes go where their leaf is, and CALL to a CPU. */
		if (r.cache[i] >= 0 || !info.n_src || seed % 3 == 0 ||
		    (info.op == WEIR_OP_CALL && on->no_calls))
			continue;
		snprintf(name, sizeof(name), "on %u",
			 (unsigned)(state >> 33) % devs);
		weir_node_set_name(node, name);
	}
	for (unsigned d = 0; d < devs; d++) {
		snprintf(name, sizeof(name), "on %u", d);
		if (weir_sched_pin(s, name, on->dev[d]) < 0)
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
	unsigned last = on->n < 2 ? 0 : 1 + (unsigned)(seed / 2 % (on->n - 1));
	struct weir_exec *exec;
	struct weir_run *run;

	if (weir_dev_set_threads(on->dev[0], &threads) < 0)
		bail("%s", weir_error());
	exec = exec_new(last);
	if (weir_exec_info(exec, &info) < 0 || weir_run_new(exec, &run) < 0)
		bail("seed %llu: %s", (unsigned long long)seed, weir_error());
	random_seen.in_place += info.in_place;
	random_seen.transfers += info.transfers;
	random_seen.lanes += info.lanes > 1;
	random_seen.prefetched += info.prefetched > 0;
	for (uint64_t round = 0; round < 2 && !wrong[0]; round++)
		run_once(run, round);
	weir_run_free(run);
	weir_exec_free(exec);
}

/* Graphs of 1 to 400 nodes, of about @nodes nodes together. */
static void graphs(uint64_t nodes, const char *what)
{
	uint64_t done = 0, n = 0;

	for (seed = random_number_from("WEIR_T_SEED", 1);
	     done < nodes && !wrong[0]; seed++, n++) {
		random_graph_make(&r, seed, 1 + seed * 2654435761u % 400);
		if (on->begin)
			on->begin(seed);
		graph_run();
		if (on->finding && on->finding() && !wrong[0])
			snprintf(wrong, sizeof(wrong), "%s", on->finding());
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
	     (unsigned long long)random_seen.in_place,
	     (unsigned long long)random_seen.compared,
	     (unsigned long long)random_seen.lanes,
	     (unsigned long long)random_seen.transfers,
	     (unsigned long long)random_seen.prefetched);
}

void random_run(const struct random_devices *devices, uint64_t nodes,
		const char *what)
{
	struct weir_sched_opts opts = WEIR_SCHED_OPTS_INIT;

	on = devices;
	wrong[0] = 0;
	opts.observe = see;
	for (unsigned i = 0; i < 2 * on->n; i++) {
		opts.copies = 1 + i % 2;
		opts.weights = i % 2 ? weights : NULL;
		if (weir_sched_new(on->dev, 1 + i / 2, &opts,
				   &sched[i / 2][i % 2]) < 0)
			bail("%s", weir_error());
		for (unsigned k = 1; k < 1 + i / 2 && on->rates; k++)
			if (weir_sched_set_rates(sched[i / 2][i % 2], k,
						 on->rates) < 0)
				bail("%s", weir_error());
	}
	if (weir_stream_new(on->dev[0], NULL, &stream) < 0)
		bail("%s", weir_error());
	random_graph_begin(&r, on->weir, on->buft, on->n_bufts);
	/* The last memory is of the second device, or of the host. */
	later_begin(on->dev[on->buft[on->n_bufts - 1] != on->buft[0]]);
	graphs(nodes, what);
	later_end();
	random_graph_end(&r);
	weir_stream_free(stream);
	for (unsigned i = 0; i < 2 * on->n; i++)
		weir_sched_free(sched[i / 2][i % 2]);
}
