/* SPDX-License-Identifier: MIT */
/*
 * Graphs whose leaves are in parked weights: a run never reads memory that is
 * not there. When the weights are back, the same runs have the same results.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/ops.h>

#include "gdev.h"
#include "sample.h"
#include "streams.h"

#define N 64
#define MANY (1 << 16)
#define ROUNDS 20

static char path[] = "/var/tmp/weir-graph-parked-XXXXXX";
static const struct sample_tensor tensors[] = {
	{ "a", "F32", N, 4 },
	{ "b", "F32", MANY, 4 },
	{ "c", "F32", MANY, 4 },
	{ "d", "F32", MANY, 4 },
};

static struct weir *weir;
static struct weir_dev *dev, *cpu;
static struct weir_weights *weights;

/* A graph x + w + ..., and a run of it. */
struct sum {
	struct weir_graph *g;
	struct weir_node *x, *y;
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
};

/* Each letter of @names is a tensor of the weights. */
static void sum_graph(struct sum *s, const char *names, bool constant)
{
	must(weir_graph_new(&s->g));
	for (; *names; names++) {
		const char name[] = { *names, 0 };
		const struct weir_tensor *t = weir_weights_find(weights, name);
		struct weir_node *w = weir_graph_leaf(s->g, t, NULL);

		if (constant)
			weir_graph_constant(s->g, w);
		if (!s->x)
			s->y = s->x = weir_graph_input(
				s->g, "x", WEIR_DTYPE_F32, 1, t->shape);
		s->y = weir_add(s->g, s->y, w);
	}
	weir_graph_output(s->g, s->y);
}

/* @limit: of the device's memory for constant leaves; 0: none. */
static void sum_new(struct sum *s, struct weir_dev *on, const char *names,
		    bool constant, uint64_t limit)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;

	if (limit)
		o.weights = &limit;
	sum_graph(s, names, constant);
	must(weir_sched_new(&on, 1, &o, &s->sched));
	must(weir_exec_new(s->sched, s->g, &s->exec));
	must(weir_run_new(s->exec, &s->run));
}

static void sum_free(struct sum *s)
{
	weir_run_free(s->run);
	weir_exec_free(s->exec);
	weir_sched_free(s->sched);
	weir_graph_free(s->g);
}

/* Start the run with @x, and wait for it. The last element, or an errno. */
static float sum_of(struct sum *s, float x, int *ret_err)
{
	static float in[MANY], out[MANY];
	struct weir_tensor t;
	uint64_t bytes = (uint64_t)weir_node_tensor(s->x)->shape[0] * 4;

	for (size_t i = 0; i < bytes / 4; i++)
		in[i] = x;
	*ret_err = weir_run_input(s->run, s->x, in, bytes);
	if (*ret_err >= 0)
		*ret_err = weir_run_start(s->run);
	if (*ret_err >= 0)
		*ret_err = weir_run_wait(s->run, -1);
	if (*ret_err >= 0)
		*ret_err = weir_run_output(s->run, s->y, &t);
	if (*ret_err >= 0)
		*ret_err = weir_tensor_get(&t, 0, out, bytes);
	return *ret_err >= 0 ? out[bytes / 4 - 1] : 0;
}

static void park(void)
{
	struct weir_park_opts o = WEIR_PARK_OPTS_INIT;

	o.folder = "/var/tmp";
	must(weir_weights_park(weights, &o));
}

static void fill(const char *name, size_t n, float value)
{
	static float data[MANY];

	for (size_t i = 0; i < n; i++)
		data[i] = value;
	must(weir_tensor_set(weir_weights_find(weights, name), 0, data, n * 4));
}

/* Six checks. */
static void runs(const char *what, struct weir_dev *on, const char *names,
		 bool constant, uint64_t limit)
{
	const float sum = 3 * (float)strlen(names);
	struct sum s = { 0 };
	int r;

	sum_new(&s, on, names, constant, limit);
	ok(sum_of(&s, 1, &r) == 1 + sum, "%s: a run has its result", what);
	must(weir_run_start(s.run));
	park();
	is_int(weir_run_wait(s.run, -1), 0,
	       "%s: weights are parked after a run that was started", what);
	sum_of(&s, 2, &r);
	is_err(r, -ENODATA, "is parked", "%s: then a run is refused", what);
	sum_of(&s, 2, &r);
	is_err(r, -ENODATA, "is parked", "%s: each time", what);
	must(weir_weights_unpark(weights, NULL));
	ok(sum_of(&s, 2, &r) == 2 + sum,
	   "%s: when they are back, it has its result", what);
	ok(sum_of(&s, 1, &r) == 1 + sum, "%s: and later ones too", what);
	sum_free(&s);
}

/*
 * A run that prefetches queues its copies while it runs, and after its end
 * those that the next run needs. Three checks.
 */
static void prefetches(bool wait, unsigned copy_us)
{
	struct sum s = { 0 };
	unsigned bad = 0, refused = 0, good = 0;
	int r;

	gdev.copy_us = copy_us;
	sum_new(&s, dev, "bcd", true, 2 * MANY * sizeof(float));
	for (int i = 0; i < ROUNDS; i++) {
		good += sum_of(&s, (float)i, &r) == (float)i + 9;
		must(weir_run_start(s.run));
		if (wait)
			must(weir_run_wait(s.run, -1));
		park();
		bad += weir_run_wait(s.run, -1) != 0;
		refused += weir_run_start(s.run) == -ENODATA;
		must(weir_weights_unpark(weights, NULL));
	}
	is_int(bad, 0, "each run of %d ends before its leaves are parked%s",
	       ROUNDS, wait ? ", and is waited for" : "");
	is_int(refused, ROUNDS, "each run over parked leaves is refused");
	is_int(good, ROUNDS, "each run after that has its result");
	gdev.copy_us = 0;
	sum_free(&s);
}

static void *park_thread(void *returned)
{
	park();
	atomic_store((_Atomic bool *)returned, true);
	return NULL;
}

/* Parking waits for a run that prefetches, and for no more than its end. */
static void cancelled(void)
{
	_Atomic bool returned = false;
	struct sum s = { 0 };
	pthread_t thread;
	int r;

	sum_new(&s, dev, "bcd", true, 2 * MANY * sizeof(float));
	must(sum_of(&s, 1, &r) == 10 ? 0 : -1);
	gdev.hold_at = 4; /* the second sum */
	must(weir_run_start(s.run));
	sem_wait(&gdev.held);
	must(-pthread_create(&thread, NULL, park_thread, &returned));
	usleep(20000);
	ok(!atomic_load(&returned), "parking waits for a run that prefetches");
	weir_run_cancel(s.run);
	sem_post(&gdev.go);
	pthread_join(thread, NULL);
	ok(atomic_load(&returned), "it returns when the run was cancelled");
	is_int(weir_run_wait(s.run, -1), -ECANCELED, "which the run says");
	must(weir_weights_unpark(weights, NULL));
	ok(sum_of(&s, 1, &r) == 10, "a run after that has its result");
	sum_free(&s);
}

/* A device that keeps a copy of a constant leaf does not need the weights. */
static void kept(void)
{
	struct sum s = { 0 };
	int r;

	sum_new(&s, dev, "a", true, 0);
	ok(sum_of(&s, 1, &r) == 4, "a device copies a constant leaf");
	park();
	ok(sum_of(&s, 2, &r) == 5,
	   "it computes with its copy while the weights are parked");
	must(weir_weights_unpark(weights, NULL));
	ok(sum_of(&s, 1, &r) == 4, "and when they are back");
	sum_free(&s);
}

/* A graph that is made and compiled while its weights are parked. */
static void made_meanwhile(void)
{
	struct sum s = { 0 };
	int r;

	park();
	sum_new(&s, cpu, "b", true, 0);
	sum_of(&s, 1, &r);
	is_err(r, -ENODATA, "is parked",
	       "a graph over parked weights is compiled, but not run");
	must(weir_weights_unpark(weights, NULL));
	ok(sum_of(&s, 1, &r) == 4, "it is run when they are back");
	sum_free(&s);
}

/* Runs wait for the event of the unpark, if their stream does. */
static void waits(void)
{
	struct weir_stream *stream;
	struct weir_event *event;
	struct sum s = { 0 };
	struct weir_tensor t;
	float x[N] = { 0 }, y[N];

	sum_new(&s, cpu, "a", false, 0);
	must(weir_stream_new(cpu, NULL, &stream));
	must(weir_event_new(weir, 0, &event));
	park();
	must(weir_weights_unpark(weights, event));
	must(weir_stream_wait(stream, event));
	must(weir_run_input(s.run, s.x, x, sizeof(x)));
	must(weir_stream_compute(stream, s.run));
	must(weir_stream_sync(stream, -1));
	must(weir_run_output(s.run, s.y, &t));
	must(weir_tensor_get(&t, 0, y, sizeof(y)));
	ok(y[0] == 3 && y[N - 1] == 3,
	   "a run in a stream that waits for the event has its result");
	weir_stream_free(stream);
	weir_event_free(event);
	sum_free(&s);
}

int main(void)
{
	int fd = mkstemp(path);
	struct weir_buft *huge;

	plan(3 * 6 + 4 * 3 + 4 + 3 + 2 + 1);
	close(fd);
	sample_write(path, tensors, 4, 0, 1);
	weir = gdev_open(&dev);
	must(weir_dev_find(weir, "CPU", &cpu));
	must(weir_dev_buft(cpu, WEIR_MEM_HUGE, &huge));
	must(weir_load_all(weir, path, huge, NULL, &weights));
	fill("a", N, 3);
	fill("b", MANY, 3);
	fill("c", MANY, 3);
	fill("d", MANY, 3);
	runs("on the CPU", cpu, "a", false, 0);
	runs("a constant leaf on the CPU", cpu, "a", true, 0);
	runs("leaves that are prefetched", dev, "bcd", true,
	     2 * MANY * sizeof(float));
	prefetches(false, 0);
	prefetches(true, 0);
	prefetches(false, 2000);
	prefetches(true, 2000);
	cancelled();
	kept();
	made_meanwhile();
	waits();
	weir_weights_free(weights);
	weir_close(weir);
	unlink(path);
	return done_testing();
}
