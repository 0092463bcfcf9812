/* SPDX-License-Identifier: MIT */
/*
 * Runs whose leaves are not there yet: late, failed, cancelled, in any order.
 */
#include <errno.h>

#include "gdev.h"
#include "streams.h"

#define LEAVES 3

static struct weir *weir;
static struct weir_dev *dev;
static struct weir_sched *sched;

/*
 * x + w0 + w1 + w2: nodes 0 is x, 1 to 3 the leaves, 4 to 6 the sums. Leaf i
 * has an event, which a stream that can be held records.
 */
struct late {
	struct weir_graph *g;
	struct weir_node *x, *out;
	struct weir_buf *buf[LEAVES];
	struct weir_event *event[LEAVES];
	struct weir_stream *stream[LEAVES];
	struct hold hold[LEAVES];
	struct weir_exec *exec;
	struct weir_run *run;
};

static void late_make(struct late *l)
{
	struct weir_node *w[LEAVES];
	float v[16] = { 1 };

	memset(l, 0, sizeof(*l));
	must(weir_graph_new(&l->g));
	l->x = gdev_input(l->g, "x", 16);
	for (int i = 0; i < LEAVES; i++) {
		l->event[i] = new_event(weir, 0);
		must(weir_stream_new(cpu_of(weir), NULL, &l->stream[i]));
		w[i] = gdev_leaf(l->g, dev, "w", 16, 10, l->event[i],
				 &l->buf[i]);
	}
	l->out = l->x;
	for (int i = 0; i < LEAVES; i++)
		l->out = weir_add(l->g, l->out, w[i]);
	weir_graph_output(l->g, l->out);
	must(weir_exec_new(sched, l->g, &l->exec));
	must(weir_run_new(l->exec, &l->run));
	must(weir_run_input(l->run, l->x, v, sizeof(v)));
	gdev_reset();
}

/* All streams have been released, and use their holds no longer. */
static void late_free(struct late *l)
{
	for (int i = 0; i < LEAVES; i++)
		weir_stream_sync(l->stream[i], -1);
	weir_run_free(l->run);
	weir_exec_free(l->exec);
	weir_graph_free(l->g);
	for (int i = 0; i < LEAVES; i++) {
		weir_event_free(l->event[i]);
		weir_stream_free(l->stream[i]);
		weir_buf_free(l->buf[i]);
	}
}

/* Hold the stream of leaf @i, whose event then ends with @result. */
static void hold(struct late *l, int i, int result)
{
	hold_stream(l->stream[i], &l->hold[i]);
	l->hold[i].result = result;
	must(weir_stream_record(l->stream[i], l->event[i]));
}

static void let(struct late *l, int i)
{
	release_stream(&l->hold[i]);
}

/* Until the run waits for its @n-th event. */
static void wait_waits(struct weir_run *run, uint64_t n)
{
	struct weir_run_report report = { .size = sizeof(report) };

	do {
		must(weir_run_report(run, &report));
		usleep(1000);
	} while (report.waits < n && report.running);
}

static void in_order(struct late *l)
{
	struct weir_run_report report = { .size = sizeof(report) };

	late_make(l);
	hold(l, 1, 0);
	hold(l, 2, 0);
	must(weir_run_start(l->run));
	wait_waits(l->run, 1);
	is_int(gdev.nodes, 1,
	       "operations before the first late leaf are computed at once");
	is_err(weir_run_wait(l->run, 20 * MS), -ETIMEDOUT, "",
	       "a run waits for a late leaf");
	((float *)weir_buf_data(l->buf[1]))[0] = 20;
	let(l, 1);
	wait_waits(l->run, 2);
	is_int(gdev.nodes, 2, "a run goes on to the next late leaf");
	let(l, 2);
	is_int(weir_run_wait(l->run, -1), 0,
	       "a run ends well after the last leaf has come");
	ok(gdev_output(l->run, l->out) == 41,
	   "a run reads the bytes that have come");
	is_int(gdev.works, 3, "a run is cut where it had to wait");
	must(weir_run_report(l->run, &report));
	ok(report.waits == 2 && report.wait_ns > 0 &&
		   report.wait_ns <= report.total_ns,
	   "the report has the time of waiting");
	must(weir_run_start(l->run));
	must(weir_run_wait(l->run, -1));
	is_int(gdev.works, 4, "a run is one work once all leaves have come");
	late_free(l);
}

static void out_of_order(struct late *l)
{
	late_make(l);
	for (int i = 0; i < LEAVES; i++)
		hold(l, i, 0);
	must(weir_run_start(l->run));
	wait_waits(l->run, 1);
	is_int(gdev.nodes, 0, "a run waits before its first operation");
	let(l, 2);
	let(l, 1);
	must(weir_stream_sync(l->stream[1], -1));
	must(weir_stream_sync(l->stream[2], -1));
	let(l, 0);
	must(weir_run_wait(l->run, -1));
	is_int(gdev.works, 1,
	       "leaves that have come meanwhile do not cut the run");
	ok(gdev_output(l->run, l->out) == 31, "leaves may come in any order");
	late_free(l);
}

static void fails(struct late *l)
{
	struct weir_stream *stream;

	late_make(l);
	hold(l, 1, -EBADF);
	must(weir_run_start(l->run));
	wait_waits(l->run, 1);
	let(l, 1);
	is_err(weir_run_wait(l->run, -1), -ECANCELED,
	       "not done after a failure: a stream of CPU: operation 1 (call): the host function returned -9",
	       "a run whose leaf fails has the sentence of the cause");
	is_int(gdev.nodes, 1, "nothing is computed after a leaf has failed");
	must(weir_run_start(l->run));
	is_err(weir_run_wait(l->run, -1), -ECANCELED, "returned -9",
	       "a run whose leaf had failed before ends in the same way");
	must(weir_stream_reset(l->stream[1]));
	must(weir_stream_record(l->stream[1], l->event[1]));
	must(weir_run_start(l->run));
	is_int(weir_run_wait(l->run, -1), 0,
	       "a run is started again when its leaf has come after all");
	ok(gdev_output(l->run, l->out) == 31,
	   "a run that is started again has its value");
	/* In a stream of the program. */
	must(weir_stream_new(dev, NULL, &stream));
	hold(l, 2, -EBADF);
	must(weir_stream_compute(stream, l->run));
	let(l, 2);
	is_err(weir_stream_sync(stream, -1), -ECANCELED, "returned -9",
	       "a stream fails with the leaf of its run");
	must(weir_stream_reset(stream));
	must(weir_stream_reset(l->stream[2]));
	must(weir_stream_record(l->stream[2], l->event[2]));
	must(weir_stream_compute(stream, l->run));
	is_int(weir_stream_sync(stream, -1), 0,
	       "a stream is used again after the leaf of a run has failed");
	weir_stream_free(stream);
	late_free(l);
}

/* Work of the stream that does not touch the run's memory need not wait. */
static void others_go_on(struct late *l)
{
	struct weir_stream *stream;
	struct weir_tensor other = { 0 };
	struct weir_event *event = new_event(weir, 0);
	struct weir_buf *buf = NULL;
	struct weir_graph *g;

	late_make(l);
	must(weir_graph_new(&g));
	other = *weir_node_tensor(
		gdev_leaf(g, dev, "other", 16, 0, NULL, &buf));
	must(weir_stream_new(dev, NULL, &stream));
	hold(l, 1, 0);
	must(weir_stream_compute(stream, l->run));
	must(weir_stream_fill(stream, &other, 0, 64, 0xff));
	must(weir_stream_record(stream, event));
	for (int i = 0; i < 5000 && !gdev.fills; i++)
		usleep(1000);
	is_int(*(uint8_t *)weir_buf_data(buf), 0xff,
	       "a stream goes on with other memory while its run waits");
	is_int(weir_event_query(event), 0,
	       "numbers of a stream are done in order, also after a run");
	let(l, 1);
	must(weir_stream_sync(stream, -1));
	ok(gdev_output(l->run, l->out) == 31,
	   "a run that waited in a stream has its value");
	weir_event_free(event);
	weir_stream_free(stream);
	weir_buf_free(buf);
	weir_graph_free(g);
	late_free(l);
}

static void cancelled(struct late *l)
{
	late_make(l);
	hold(l, 1, 0);
	must(weir_run_start(l->run));
	wait_waits(l->run, 1);
	must(weir_run_cancel(l->run));
	is_err(weir_run_wait(l->run, -1), -ECANCELED,
	       "the run was cancelled before step 1 of 3",
	       "a run that waits for a leaf is cancelled at once");
	let(l, 1);
	must(weir_stream_sync(l->stream[1], -1));
	is_int(gdev.nodes, 1, "nothing is computed when the leaf comes later");
	must(weir_run_start(l->run));
	is_int(weir_run_wait(l->run, -1), 0,
	       "a run that was cancelled is started again");
	late_free(l);
	late_make(l);
	hold(l, 1, 0);
	must(weir_run_start(l->run));
	wait_waits(l->run, 1);
	weir_run_free(l->run);
	is_int(weir_run_new(l->exec, &l->run), 0,
	       "a run that waits gives its copy back when it is freed");
	let(l, 1);
	late_free(l);
}

/* The events are those of the graph that took the executable graph again. */
static void taken_again(struct late *l)
{
	struct weir_event *old, *fresh = new_event(weir, 0);
	struct weir_exec *again;
	struct weir_node *w[LEAVES], *x, *y;
	struct weir_graph *g;
	float v[16] = { 1 };

	late_make(l);
	must(weir_graph_new(&g));
	y = x = gdev_input(g, "x", 16);
	for (int i = 0; i < LEAVES; i++)
		w[i] = gdev_leaf(g, dev, "w", 16, 10, i == 1 ? fresh : NULL,
				 &l->buf[i]);
	for (int i = 0; i < LEAVES; i++)
		y = weir_add(g, y, w[i]);
	weir_graph_output(g, y);
	must(weir_exec_new(sched, g, &again));
	weir_graph_free(g);
	weir_run_free(l->run);
	must(weir_run_new(again, &l->run));
	must(weir_run_input(l->run, l->x, v, sizeof(v)));
	old = l->event[1];
	hold(l, 0, 0); /* nobody waits for this one */
	l->event[1] = fresh;
	hold(l, 1, 0);
	must(weir_run_start(l->run));
	wait_waits(l->run, 1);
	is_int(gdev.nodes, 1,
	       "an executable graph that is taken again has the events of the new graph");
	let(l, 1);
	is_int(weir_run_wait(l->run, -1), 0,
	       "a run does not wait for events of an earlier equal graph");
	let(l, 0);
	weir_event_free(old);
	weir_exec_free(again);
	late_free(l);
}

/* Nodes 4 to 6 are the sums. */
static void parts(struct late *l)
{
	late_make(l);
	hold(l, 1, 0);
	must(weir_run_start_part(l->run, 0, 5));
	is_int(weir_run_wait(l->run, -1), 0,
	       "a part does not wait for leaves that only later parts use");
	must(weir_run_start_part(l->run, 5, 2));
	wait_waits(l->run, 1);
	is_int(gdev.nodes, 1, "a part waits for a leaf that it uses");
	let(l, 1);
	must(weir_run_wait(l->run, -1));
	ok(gdev_output(l->run, l->out) == 31,
	   "a part goes on when its leaf is there");
	hold(l, 0, 0);
	must(weir_run_start_part(l->run, 6, 1));
	wait_waits(l->run, 1);
	is_int(gdev.nodes, 3,
	       "a part waits for leaves of earlier parts that are late again");
	let(l, 0);
	is_int(weir_run_wait(l->run, -1), 0, "then it is computed");
	late_free(l);
}

/* Runs remember events that are done, until these are recorded again. */
static void recorded_again(struct late *l)
{
	late_make(l);
	hold(l, 1, 0);
	let(l, 1);
	must(weir_stream_sync(l->stream[1], -1));
	for (int i = 0; i < 2; i++) {
		must(weir_run_start(l->run));
		must(weir_run_wait(l->run, -1));
	}
	hold(l, 1, 0);
	must(weir_run_start(l->run));
	wait_waits(l->run, 1);
	is_err(weir_run_wait(l->run, 20 * MS), -ETIMEDOUT, "",
	       "a run waits for a leaf that was there, and is late again");
	let(l, 1);
	is_int(weir_run_wait(l->run, -1), 0, "then it goes on");
	late_free(l);
}

int main(void)
{
	static struct late l;

	plan(0);
	weir = gdev_open(&dev);
	must(weir_sched_new(&dev, 1, NULL, &sched));
	in_order(&l);
	out_of_order(&l);
	fails(&l);
	others_go_on(&l);
	cancelled(&l);
	taken_again(&l);
	parts(&l);
	recorded_again(&l);
	weir_sched_free(sched);
	weir_close(weir);
	is_int(gdev.bytes, 0, "all memory is given back");
	return done_testing();
}
