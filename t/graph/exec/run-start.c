/* SPDX-License-Identifier: MIT */
/* Runs: inputs, starts, results, reports, streams. */
#include <errno.h>
#include <string.h>

#include "gdev.h"
#include "leaf.h"
#include "streams.h"

static struct weir *weir;
static struct weir_dev *dev;
static struct weir_sched *sched;

static struct weir_run *new_run(const struct weir_graph *g)
{
	struct weir_exec *exec;
	struct weir_run *run;

	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	weir_exec_free(exec);
	return run;
}

/* (x + w) * w, and its input x. */
struct small {
	struct weir_graph *g;
	struct weir_buf *buf;
	struct weir_node *x, *w, *sum, *out;
};

static struct small small_graph(struct weir_event *event)
{
	struct small s = { .g = graph_new() };

	s.x = gdev_input(s.g, "x", 16);
	s.w = gdev_leaf(s.g, dev, "w", 16, 3, event, &s.buf);
	s.sum = weir_add(s.g, s.x, s.w);
	s.out = weir_graph_output(s.g, weir_mul(s.g, s.sum, s.w));
	return s;
}

static void small_free(struct small *s)
{
	weir_graph_free(s->g);
	weir_buf_free(s->buf);
}

static void computes(void)
{
	struct small s = small_graph(NULL);
	struct weir_run *run = new_run(s.g);
	struct weir_run_report report = { .size = sizeof(report) };

	gdev_reset();
	gdev_set(run, s.x, 2);
	must(weir_run_start(run));
	is_int(weir_run_wait(run, -1), 0, "a run ends well");
	ok(gdev_output(run, s.out) == 15, "the output of a run has its value");
	is_int(gdev.works, 1, "a run without holds is one work of the device");
	must(weir_run_report(run, &report));
	ok(report.nodes == 2 && report.works == 1 && !report.waits &&
		   !report.running && report.started == 1,
	   "the report counts nodes, works and waits");
	ok(report.total_ns >= report.compute_ns && report.compute_ns >= 0 &&
		   report.total_ns > 0,
	   "the report's times are parts of its total");
	gdev_set(run, s.x, 4);
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	ok(gdev_output(run, s.out) == 21,
	   "a run is started again with new inputs");
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	ok(gdev_output(run, s.out) == 21,
	   "an input keeps its value when the run is started again");
	weir_run_free(run);
	small_free(&s);
}

static void refuses(void)
{
	struct small s = small_graph(NULL);
	struct weir_run *run = new_run(s.g);
	struct weir_stream *cpu;
	struct weir_event *event = new_event(weir, 0);
	struct weir_tensor t;
	float v[17] = { 0 };

	is_err(weir_run_start(run), -EINVAL,
	       "weir_run_start: input 'x' F32 [16] is not set",
	       "a run whose input was not set is not started");
	is_err(weir_run_input(run, s.x, v, sizeof(v)), -EINVAL,
	       "input 'x' F32 [16] has 64 bytes, not 68",
	       "an input of another size is refused with both numbers");
	is_err(weir_run_input(run, s.w, v, 64), -EINVAL, "is no input",
	       "a leaf is not set as an input");
	is_err(weir_run_output(run, s.sum, &t), -EINVAL, "is no output",
	       "a node that is not marked has no output");
	is_err(weir_run_wait(run, 0), -EINVAL, "never started",
	       "there is no wait for a run that was never started");
	is_err(weir_run_record(run, event), -EINVAL, "never started",
	       "no event is recorded of a run that was never started");
	is_int(weir_run_cancel(run), 0,
	       "a run that is not running is cancelled");
	gdev_set(run, s.x, 1);
	must(weir_stream_new(cpu_of(weir), NULL, &cpu));
	is_err(weir_stream_compute(cpu, run), -EINVAL,
	       "the executable graph is for GDEV0",
	       "a stream of another device does not take a run");
	gdev.hold_at = 2;
	must(weir_run_start(run));
	sem_wait(&gdev.held);
	is_err(weir_run_start(run), -EBUSY, "has not ended",
	       "a run that has not ended is not started again");
	is_err(weir_run_input(run, s.x, v, 64), -EBUSY, "has not ended",
	       "no input is set while the run has not ended");
	is_err(weir_run_wait(run, 0), -ETIMEDOUT, "",
	       "a wait ends after its time-out");
	sem_post(&gdev.go);
	must(weir_run_wait(run, -1));
	weir_stream_free(cpu);
	weir_event_free(event);
	weir_run_free(run);
	small_free(&s);
}

/* Nothing has changed when an event is of another root. */
static void other_root(void)
{
	struct weir_run_report report = { .size = sizeof(report) };
	struct weir *other = open_root(WEIR_IO_AUTO);
	struct weir_event *event = new_event(other, 0);
	struct small s = small_graph(event);
	struct weir_run *run = new_run(s.g);

	gdev_set(run, s.x, 2);
	is_err(weir_run_start(run), -EINVAL, "another root",
	       "a run whose leaf has an event of another root is not started");
	must(weir_run_report(run, &report));
	ok(!report.running && !report.started && !report.total_ns,
	   "a run that was refused is not reported as running");
	weir_run_free(run);
	small_free(&s);
	weir_event_free(event);
	weir_close(other);
}

static void in_a_stream(void)
{
	struct small s = small_graph(NULL);
	struct weir_run *run = new_run(s.g);
	struct weir_event *event = new_event(weir, 0);
	struct weir_stream *stream;
	struct weir_tensor out, in = { 0 };
	float got[16] = { 0 };

	must(weir_stream_new(dev, NULL, &stream));
	gdev_set(run, s.x, 2);
	must(weir_run_output(run, s.out, &out));
	gdev.hold_at = 2;
	must(weir_stream_compute(stream, run));
	must(weir_stream_get(stream, &out, 0, got, sizeof(got)));
	sem_wait(&gdev.held);
	is_int(weir_run_record(run, event), 0, "a run in a stream is recorded");
	is_int(weir_event_query(event), 0,
	       "the event of a run is not done while it computes");
	ok(got[0] == 0, "a read of an output waits for the run in its stream");
	sem_post(&gdev.go);
	is_int(weir_stream_sync(stream, -1), 0, "a stream ends with its run");
	ok(got[0] == 15,
	   "a read that follows a run in its stream has the output");
	is_int(weir_event_query(event), 1,
	       "the event of a run that ended is done");
	/* The leaf is written in the stream, between two runs. */
	in = *weir_node_tensor(s.w);
	for (int i = 0; i < 16; i++)
		got[i] = 10;
	must(weir_stream_compute(stream, run));
	must(weir_stream_set(stream, &in, 0, got, sizeof(got)));
	must(weir_run_wait(run, -1));
	ok(gdev_output(run, s.out) == 15,
	   "a write of a leaf waits for the run before");
	must(weir_stream_compute(stream, run));
	must(weir_run_wait(run, -1));
	ok(gdev_output(run, s.out) == 120,
	   "a run waits for a write of its leaf");
	weir_stream_free(stream);
	weir_event_free(event);
	weir_run_free(run);
	small_free(&s);
}

static void input_tensors(void)
{
	struct small s = small_graph(NULL);
	struct weir_run *run = new_run(s.g);
	struct weir_stream *stream;
	struct weir_event *event = new_event(weir, 0);
	struct weir_buf *buf = NULL;
	const struct weir_tensor *t;
	struct weir_graph *g = graph_new();
	struct weir_tensor nowhere;
	struct hold hold;
	int err = -EBADF;

	t = weir_node_tensor(gdev_leaf(g, dev, "t", 16, 5, NULL, &buf));
	must(weir_stream_new(cpu_of(weir), NULL, &stream));
	is_int(weir_run_input_tensor(run, s.x, t, NULL), 0,
	       "an input is copied from a tensor");
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	ok(gdev_output(run, s.out) == 24,
	   "a run has an input that was a tensor");
	nowhere = *t;
	nowhere.buf = NULL;
	is_err(weir_run_input_tensor(run, s.x, &nowhere, NULL), -EINVAL,
	       "weir_run_input_tensor: tensor 't' is not placed",
	       "an input is not copied from a tensor without a place");
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	ok(gdev_output(run, s.out) == 24,
	   "an input keeps its value when another is refused");
	hold_init(&hold, 0);
	hold_stream(stream, &hold);
	must(weir_stream_record(stream, event));
	*(float *)weir_tensor_data(t) = 6;
	must(weir_run_input_tensor(run, s.x, t, event));
	must(weir_run_start(run));
	is_err(weir_run_wait(run, 50 * MS), -ETIMEDOUT, "",
	       "a run waits for the event of an input");
	*(float *)weir_tensor_data(t) = 7;
	release_stream(&hold);
	is_int(weir_run_wait(run, -1), 0,
	       "a run whose input is late ends well");
	ok(gdev_output(run, s.out) == 30, "an input is copied after its event");
	must(weir_stream_call(stream, fail_with, &err));
	weir_stream_sync(stream, -1);
	is_int(weir_stream_record(stream, event), -EBADF,
	       "the event of an input has failed");
	if (weir_run_input_tensor(run, s.x, t, event) == 0 &&
	    weir_run_start(run) == 0)
		weir_run_wait(run, -1);
	has_str(weir_error(), "not done after a failure: a stream",
		"a run whose input fails has the failure's sentence");
	is_err(weir_run_start(run), -EINVAL, "never set",
	       "an input that failed has to be set again");
	gdev_set(run, s.x, 1);
	must(weir_run_start(run));
	is_int(weir_run_wait(run, -1), 0,
	       "a run is started again after its input has failed");
	weir_run_free(run);
	weir_stream_free(stream);
	weir_event_free(event);
	weir_graph_free(g);
	weir_buf_free(buf);
	small_free(&s);
}

static void fails(void)
{
	struct small s = small_graph(NULL);
	struct weir_run *run = new_run(s.g);
	struct weir_event *event = new_event(weir, 0);
	struct weir_stream *stream;

	gdev_set(run, s.x, 2);
	gdev.fail_at = 3;
	must(weir_run_start(run));
	is_err(weir_run_wait(run, -1), -EIO,
	       "node 3 (mul): the test makes it fail",
	       "a run that fails names the operation and its node");
	must(weir_run_record(run, event));
	is_int(weir_event_query(event), -EIO,
	       "an event of a run that has failed has its errno");
	gdev.fail_at = GDEV_NONE;
	must(weir_run_start(run));
	is_int(weir_run_wait(run, -1), 0,
	       "a run is started again after a failure");
	is_int(weir_event_query(event), -EIO,
	       "the event of a failed run stays failed");
	must(weir_stream_new(dev, NULL, &stream));
	gdev.fail_at = 2;
	must(weir_stream_compute(stream, run));
	is_err(weir_run_wait(run, -1), -EIO, "node 2 (add)",
	       "a run in a stream fails");
	is_err(weir_stream_compute(stream, run), -ECANCELED,
	       "not done after a failure",
	       "a stream in which a run has failed takes no other run");
	gdev.fail_at = GDEV_NONE;
	must(weir_stream_reset(stream));
	must(weir_stream_compute(stream, run));
	is_int(weir_run_wait(run, -1), 0,
	       "a stream that was reset takes the run");
	weir_stream_free(stream);
	weir_event_free(event);
	weir_run_free(run);
	small_free(&s);
}

static void copies(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct small s = small_graph(NULL);
	struct weir_exec *exec;
	struct weir_sched *two;
	struct weir_run *run[2], *third;
	struct weir_tensor t[2];

	o.copies = 2;
	must(weir_sched_new(&dev, 1, &o, &two));
	must(weir_exec_new(two, s.g, &exec));
	for (int i = 0; i < 2; i++) {
		must(weir_run_new(exec, &run[i]));
		gdev_set(run[i], s.x, (float)i);
	}
	is_err(weir_run_new(exec, &third), -EAGAIN, "all 2 copies",
	       "there are as many runs at a time as copies");
	gdev.hold_at = 2;
	must(weir_run_start(run[0]));
	sem_wait(&gdev.held);
	must(weir_run_start(run[1]));
	is_err(weir_run_wait(run[1], 20 * MS), -ETIMEDOUT, "",
	       "runs of one executable graph use the results one after another");
	sem_post(&gdev.go);
	for (int i = 0; i < 2; i++) {
		must(weir_run_wait(run[i], -1));
		must(weir_run_output(run[i], s.out, &t[i]));
	}
	ok(gdev_value(&t[0]) == 9 && gdev_value(&t[1]) == 12,
	   "each copy has inputs and outputs of its own");
	weir_run_free(run[0]);
	is_int(weir_run_new(exec, &third), 0,
	       "the copy of a run that was freed is taken again");
	weir_run_free(third);
	weir_run_free(run[1]);
	weir_exec_free(exec);
	weir_sched_free(two);
	small_free(&s);
}

/* What the observer was called with. */
static struct {
	unsigned calls;
	uint64_t node[8];
	float value[8];
	int result;
} seen;

static int see(void *arg, struct weir_run *run, uint64_t node,
	       const struct weir_tensor *t)
{
	(void)run;
	(void)arg;
	seen.node[seen.calls] = node;
	seen.value[seen.calls++] = gdev_value(t);
	return seen.result;
}

static void observer(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct small s = small_graph(NULL);
	struct weir_sched *other = sched;
	struct weir_run *run;

	weir_graph_observe(s.g, s.sum);
	weir_graph_observe(s.g, s.x);
	weir_graph_observe(s.g, weir_slice(s.g, s.sum, 0, 4, 4));
	weir_graph_observe(s.g, s.w);
	o.observe = see;
	must(weir_sched_new(&dev, 1, &o, &sched));
	run = new_run(s.g);
	gdev_set(run, s.x, 2);
	gdev_reset();
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	is_int(seen.calls, 4, "the observer is called for each observed node");
	ok(seen.node[0] == 0 && seen.node[1] == 1 && seen.node[2] == 2 &&
		   seen.node[3] == 4,
	   "the observer gets the numbers of nodes in their order");
	ok(seen.value[0] == 2 && seen.value[1] == 3 && seen.value[2] == 5 &&
		   seen.value[3] == 5,
	   "the observer gets results, inputs, leaves and views");
	ok(gdev.works == 2 && gdev.log[0].n == 1 && gdev.log[1].first == 1,
	   "a run stops for its observer only");
	ok(gdev_output(run, s.out) == 15, "an observed run has its output");
	seen.result = -EPIPE;
	seen.calls = 0;
	gdev_reset();
	must(weir_run_start(run));
	is_err(weir_run_wait(run, -1), -EPIPE, "the observer returned",
	       "an observer ends the run with its errno");
	is_int(gdev.nodes, 0,
	       "nothing is computed after an observer has failed");
	weir_run_free(run);
	weir_sched_free(sched);
	sched = other;
	small_free(&s);
}

/* Nodes: x, w, the sum, the product. */
static void parts(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct small s = small_graph(NULL);
	struct weir_sched *other = sched;
	struct weir_run *run;

	weir_graph_observe(s.g, s.sum);
	weir_graph_observe(s.g, s.out);
	o.observe = see;
	must(weir_sched_new(&dev, 1, &o, &sched));
	run = new_run(s.g);
	gdev_reset();
	memset(&seen, 0, sizeof(seen));
	gdev_set(run, s.x, 2);
	must(weir_run_start_part(run, 0, 3));
	must(weir_run_wait(run, -1));
	ok(gdev.nodes == 1 && seen.calls == 1 && seen.node[0] == 2,
	   "a part computes and reports its own nodes only");
	must(weir_run_start_part(run, 3, 1));
	must(weir_run_wait(run, -1));
	ok(gdev.nodes == 2 && seen.calls == 2 && seen.node[1] == 3,
	   "the next part begins after the first");
	ok(gdev_output(run, s.out) == 15,
	   "parts in their order give the results of a whole run");
	must(weir_run_start_part(run, 4, 0));
	is_int(weir_run_wait(run, -1), 0, "a part may have no nodes");
	is_err(weir_run_start_part(run, 3, 2), -EINVAL,
	       "2 nodes from node 3 on: the graph has 4",
	       "a part with nodes that do not exist is refused");
	is_int(weir_run_start_part(run, 5, UINT64_MAX), -EINVAL,
	       "a part whose end wraps is refused");
	weir_run_free(run);
	weir_sched_free(sched);
	sched = other;
	small_free(&s);
}

int main(void)
{
	plan(0);
	weir = gdev_open(&dev);
	must(weir_sched_new(&dev, 1, NULL, &sched));
	computes();
	refuses();
	other_root();
	in_a_stream();
	input_tensors();
	fails();
	copies();
	observer();
	parts();
	weir_sched_free(sched);
	weir_close(weir);
	is_int(gdev.bytes, 0, "all memory is given back");
	return done_testing();
}
