/* SPDX-License-Identifier: MIT */
/*
 * The thread that ends a start of a run is late: the run is not running any
 * more, and the next start has ended before the end of the first one is
 * completed.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include <weir/ops.h>

#include "graph/exec/run.h"
#include "leaf.h"
#include "streams.h"

#define LAST 2 /* number of the last node */

static struct weir *weir;
static sem_t started, held, go;
static _Atomic(struct weir_run *) late; /* its first end is held; NULL: none */
static int observed_err;                /* error that the observer returns */

void __real_weir__progress_to(struct weir__progress *p, uint64_t number);
void __wrap_weir__progress_to(struct weir__progress *p, uint64_t number);

void __wrap_weir__progress_to(struct weir__progress *p, uint64_t number)
{
	struct weir_run *run = atomic_load(&late);

	if (run && p == run->end && number == 1 &&
	    atomic_exchange(&late, NULL)) {
		sem_post(&held);
		sem_wait(&go);
	}
	__real_weir__progress_to(p, number);
}

/*
 * The last node waits until nothing else of the run is left. Then the thread
 * that computes it ends the run. The next start does not need that thread,
 * because it fails at its first node.
 */
static int see(void *arg, struct weir_run *run, uint64_t node,
	       const struct weir_tensor *t)
{
	const struct timespec ms = { .tv_nsec = MS };

	(void)arg, (void)t;
	if (node != LAST)
		return observed_err;
	sem_wait(&started);
	while (atomic_load(&run->open_streams) > 1)
		nanosleep(&ms, NULL);
	return 0;
}

/* Each of two devices computes a node, which is observed. */
static struct weir_graph *build(void)
{
	const int64_t n = 16;
	struct weir_graph *g = graph_new();
	struct weir_node *x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 1, &n);
	struct weir_node *y = weir_add(g, x, x);

	weir_node_set_name(y, "first");
	weir_graph_observe(g, y);
	y = weir_mul(g, y, y);
	weir_node_set_name(y, "second");
	weir_graph_observe(g, y);
	weir_graph_output(g, y);
	must(weir_graph_error(g, NULL));
	return g;
}

/* Start the run, and return when it is not running, while its end is held. */
static void start_paused(struct weir_run *run, struct weir_event *end)
{
	struct weir_run_report report = { .size = sizeof(report) };

	atomic_store(&late, run);
	must(weir_run_start(run));
	must(weir_run_record(run, end));
	sem_post(&started);
	sem_wait(&held);
	must(weir_run_report(run, &report));
	if (report.running)
		bail("the run is running");
}

static void next_fails(struct weir_sched *sched)
{
	struct weir_event *end = new_event(weir, 0);
	struct weir_graph *g = build();
	const float x[16] = { 1 };
	struct weir_exec *s;
	struct weir_run *run;

	must(weir_exec_new(sched, g, &s));
	must(weir_run_new(s, &run));
	must(weir_run_input(run, weir_graph_node(g, 0), x, sizeof(x)));
	start_paused(run, end);
	observed_err = -EDOM;
	must(weir_run_start(run));
	is_err(weir_run_wait(run, -1), -EDOM, "the observer returned",
	       "a start fails while the end of the one before is late");
	is_int(weir_event_query(end), 1,
	       "a start that ended well has not failed with the next one");
	sem_post(&go);
	is_int(weir_event_query(end), 1,
	       "a start that ended well stays so when its late end comes");
	weir_run_free(run);
	weir_exec_free(s);
	weir_graph_free(g);
	weir_event_free(end);
}

/* The thread that ended one start is late, and the next start has ended. */
static void next_ends(void)
{
	struct weir__progress *p;

	must(weir__progress_new(weir, NULL, "start", &p));
	weir__progress_to(p, 2);
	weir__progress_to(p, 1);
	is_int(p->timeline.ops->state(&p->timeline, 2, NULL), 1,
	       "the end of a start that is reported late undoes no later end");
	weir__timeline_put(&p->timeline);
}

int main(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_sched *sched;
	struct weir_dev *dev[2];

	plan(4);
	sem_init(&started, 0, 0);
	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	weir = open_root(WEIR_IO_AUTO);
	must(weir_dev_configure(weir, "CPU:devices=2,apart=1", &dev[0]));
	must(weir_dev_find(weir, "CPU1", &dev[1]));
	o.observe = see;
	must(weir_sched_new(dev, 2, &o, &sched));
	must(weir_sched_pin(sched, "first", dev[0]));
	must(weir_sched_pin(sched, "second", dev[1]));
	next_fails(sched);
	next_ends();
	weir_sched_free(sched);
	weir_close(weir);
	return done_testing();
}
