/* SPDX-License-Identifier: MIT */
/*
 * Runs over two devices: the CPU, which uses all memory, and a test device,
 * which uses its own: results, failures, cancelling, runs that overlap.
 */
#include <errno.h>
#include <string.h>

#include "gdev.h"
#include "graph/exec/run.h"
#include "streams.h"

#define N 16

static struct weir *weir;
static struct weir_dev *dev[2]; /* CPU, GDEV0 */
static struct weir_sched *sched;
static int observed_err; /* error that the observer returns */
static _Atomic unsigned observed;

/*
 * out = ((x + w) * v + x) * w, of which the CPU computes the sum of x and w and
 * the last product. Nodes 0 to 2 are leaves and input, 3 to 6 are computed.
 */
struct both {
	struct weir_graph *g;
	struct weir_buf *buf[2];
	struct weir_node *x, *first, *second, *third, *out;
	struct weir_exec *exec;
	struct weir_run *run;
};

static struct weir_node *named(struct weir_node *node, const char *name)
{
	return weir_node_set_name(node, name);
}

static struct both both_make(struct weir_sched *s, struct weir_event *event)
{
	struct weir_node *w, *v;
	struct both b = { .g = NULL };

	must(weir_graph_new(&b.g));
	b.x = gdev_input(b.g, "x", N);
	w = gdev_leaf(b.g, dev[0], "w", N, 3, NULL, &b.buf[0]);
	v = gdev_leaf(b.g, dev[1], "v", N, 5, event, &b.buf[1]);
	b.first = named(weir_add(b.g, b.x, w), "on cpu");
	b.second = named(weir_mul(b.g, b.first, v), "on gdev");
	b.third = named(weir_add(b.g, b.second, b.x), "on gdev");
	b.out = named(weir_mul(b.g, b.third, w), "last");
	weir_graph_observe(b.g, b.second);
	weir_graph_output(b.g, b.out);
	must(weir_exec_new(s, b.g, &b.exec));
	must(weir_run_new(b.exec, &b.run));
	return b;
}

static float expected(float x)
{
	return ((x + 3) * 5 + x) * 3;
}

static void both_free(struct both *b)
{
	weir_run_free(b->run);
	weir_exec_free(b->exec);
	weir_graph_free(b->g);
	for (int i = 0; i < 2; i++)
		weir_buf_free(b->buf[i]);
}

static void computes(void)
{
	struct weir_run_report report = { .size = sizeof(report) };
	struct both b = both_make(sched, NULL);

	gdev_set(b.run, b.x, 2);
	must(weir_run_start(b.run));
	is_int(weir_run_wait(b.run, -1), 0, "a run over two devices ends well");
	ok(gdev_output(b.run, b.out) == expected(2),
	   "the output of a run over two devices has passed through both");
	must(weir_run_report(b.run, &report));
	ok(report.nodes == 4 && !report.running,
	   "the report of a run over two devices counts the nodes of both");
	gdev_set(b.run, b.x, 7);
	must(weir_run_start(b.run));
	must(weir_run_wait(b.run, -1));
	ok(gdev_output(b.run, b.out) == expected(7),
	   "a run over two devices is started again with new inputs");
	both_free(&b);
}

static void describes(void)
{
	struct both b = both_make(sched, NULL);
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_node_place place = { .size = sizeof(place) };
	struct weir_split split = { .size = sizeof(split) };
	struct weir_transfer transfer = { .size = sizeof(transfer) };

	must(weir_exec_info(b.exec, &info));
	ok(info.lanes == 2 && info.splits == 3 && info.transfers == 2,
	   "an executable graph counts its lanes, splits and transfers");
	is_int(info.transfer_bytes, N * sizeof(float),
	       "inputs do not count as bytes that each run copies");
	must(weir_exec_explain(b.exec, 4, &place));
	ok(place.dev == dev[1] && place.cause == WEIR_NODE_CAUSE_PINNED,
	   "a node says on which device it is computed, and why");
	must(weir_exec_split(b.exec, 1, &split));
	ok(split.dev == dev[1] && split.first == 4 && split.n == 2 &&
		   split.inputs == 2 && split.bytes == 2 * N * sizeof(float),
	   "a split has its device, its nodes, and what it needs");
	must(weir_exec_transfer(b.exec, 0, &transfer));
	ok(transfer.node == 3 && transfer.from == dev[0] &&
		   transfer.to == dev[1] &&
		   transfer.how == WEIR_TRANSFER_COPY &&
		   transfer.bytes == N * sizeof(float),
	   "a transfer has its node, its devices, and its bytes");
	must(weir_exec_transfer(b.exec, 1, &transfer));
	ok(transfer.node == 0 && !transfer.from &&
		   transfer.how == WEIR_TRANSFER_INPUT,
	   "an input that both devices read is set on both");
	is_err(weir_exec_split(b.exec, 3, &split), -EINVAL, "split 3 of 3",
	       "a split that does not exist is refused");
	is_err(weir_exec_transfer(b.exec, 2, &transfer), -EINVAL,
	       "transfer 2 of 2", "a transfer that does not exist is refused");
	both_free(&b);
}

static void estimates(void)
{
	struct both b = both_make(sched, NULL);
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_exec_info all = { .size = sizeof(all) };
	struct weir_exec_info e[2] = { { .size = sizeof(all) },
				       { .size = sizeof(all) } };
	uint64_t fingerprint[2];

	must(weir_exec_info(b.exec, &info));
	must(weir_sched_estimate(sched, b.g, &all));
	for (unsigned i = 0; i < 2; i++)
		must(weir_sched_estimate_dev(sched, b.g, i, &e[i]));
	must(weir_graph_fingerprint(b.g, fingerprint));
	ok(all.lanes == 2 && all.splits == 3 && all.transfers == 2 &&
		   all.transfer_bytes == N * sizeof(float) && !all.imports &&
		   !all.import_bytes,
	   "an estimate counts lanes, splits and transfers");
	ok(!memcmp(all.fingerprint, fingerprint, sizeof(fingerprint)) &&
		   !memcmp(info.fingerprint, fingerprint, sizeof(fingerprint)),
	   "an estimate has the fingerprint of the graph, as an executable graph");
	ok(all.nodes == 7 && all.copies && all.copies == info.copies,
	   "an estimate has the nodes of the graph and the copies of the scheduler");
	ok(info.taken == 1 && info.times && !all.taken && !all.times,
	   "no run has copies of an estimate, and no call has returned it");
	ok(e[0].lanes == 1 && e[1].lanes == 1 && e[0].splits == 2 &&
		   e[1].splits == 1,
	   "an estimate of a device has its one lane, and its splits");
	ok(e[0].transfers + e[1].transfers == all.transfers &&
		   e[0].transfer_bytes + e[1].transfer_bytes ==
			   all.transfer_bytes,
	   "transfers and their bytes are estimated for the device that needs them");
	ok(e[0].computed == 2 && e[1].computed == 2 && all.computed == 4 &&
		   e[0].bytes && e[1].bytes &&
		   e[0].bytes + e[1].bytes == all.bytes,
	   "an estimate is the sum of those of the devices");
	is_err(weir_sched_estimate_dev(sched, b.g, 2, &all), -EINVAL,
	       "device 2 of 2",
	       "there is no estimate for a device that the scheduler lacks");
	both_free(&b);
}

static void refuses(void)
{
	struct both b = both_make(sched, NULL);
	struct weir_stream *stream;

	gdev_set(b.run, b.x, 1);
	must(weir_stream_new(dev[0], NULL, &stream));
	is_err(weir_stream_compute(stream, b.run), -EOPNOTSUPP,
	       "computes on 2 devices",
	       "a run over two devices is no operation of a stream");
	is_err(weir_run_start_part(b.run, 0, 4), -EOPNOTSUPP,
	       "computes on 2 devices",
	       "a run over two devices is not started in parts");
	weir_stream_free(stream);
	both_free(&b);
}

/* After any end the run, and others, are as good as new. */
static void again(struct both *b, const char *what)
{
	struct both other = both_make(sched, NULL);
	struct weir_dev *none;

	gdev_reset();
	gdev_set(b->run, b->x, 4);
	weir_dev_find(weir, "none", &none);
	must(weir_run_start(b->run));
	has_str(weir_error(), "weir_dev_find: ",
		"a run that is started again after %s sets no sentence", what);
	is_int(weir_run_wait(b->run, -1), 0, "a run is started again after %s",
	       what);
	ok(gdev_output(b->run, b->out) == expected(4),
	   "a run that is started again has its result after %s", what);
	gdev_set(other.run, other.x, 3);
	must(weir_run_start(other.run));
	must(weir_run_wait(other.run, -1));
	ok(gdev_output(other.run, other.out) == expected(3),
	   "another run has its result after %s", what);
	both_free(&other);
}

static void fails(void)
{
	struct both b = both_make(sched, NULL);
	struct weir_event *event = new_event(weir, 0);

	gdev_set(b.run, b.x, 1);
	gdev.fail_with = -EIO;
	gdev.fail_at = 5;
	must(weir_run_start(b.run));
	must(weir_run_record(b.run, event));
	is_err(weir_run_wait(b.run, -1), -EIO, "node 5 (add 'on gdev')",
	       "a run ends with the failure of one of its devices");
	has_str(weir_error(), "GDEV0",
		"the sentence of that failure names the device");
	again(&b, "a failure");
	is_int(weir_event_query(event), -EIO,
	       "the event of a start that failed stays failed");
	weir_event_free(event);
	both_free(&b);
}

static void cancels(void)
{
	struct both b = both_make(sched, NULL);

	gdev_set(b.run, b.x, 1);
	gdev.hold_at = 4;
	must(weir_run_start(b.run));
	sem_wait(&gdev.held);
	is_err(weir_run_start(b.run), -EBUSY, "has not ended",
	       "a run is not started again while a device computes it");
	must(weir_run_cancel(b.run));
	sem_post(&gdev.go);
	is_err(weir_run_wait(b.run, -1), -ECANCELED, "cancelled",
	       "a run is cancelled while the other device waits");
	again(&b, "it was cancelled");
	both_free(&b);
}

static unsigned sets_until; /* number of the call that fails; 0: none fails */

int __real_weir__tensor_set(const struct weir_tensor *dst, size_t off,
			    const void *src, size_t n);
int __wrap_weir__tensor_set(const struct weir_tensor *dst, size_t off,
			    const void *src, size_t n);

int __wrap_weir__tensor_set(const struct weir_tensor *dst, size_t off,
			    const void *src, size_t n)
{
	if (sets_until && --sets_until == 0)
		return -EIO;
	return __real_weir__tensor_set(dst, off, src, n);
}

/* The input is on both devices, and the copy to the second one fails. */
static void input_fails(void)
{
	struct both b = both_make(sched, NULL);
	const float v[N] = { 9 };

	gdev_set(b.run, b.x, 2);
	is_err(weir_run_input(b.run, b.x, NULL, sizeof(v)), -EINVAL,
	       "64 bytes from NULL", "an input from NULL is refused");
	must(weir_run_start(b.run));
	must(weir_run_wait(b.run, -1));
	ok(gdev_output(b.run, b.out) == expected(2),
	   "an input keeps its value if a call for it is refused");
	sets_until = 2;
	is_int(weir_run_input(b.run, b.x, v, sizeof(v)), -EIO,
	       "an input is not copied to the second of two devices");
	is_err(weir_run_start(b.run), -EINVAL, "input 'x' F32 [16] is not set",
	       "a run is refused if its input was set on one device only");
	gdev_set(b.run, b.x, 3);
	must(weir_run_start(b.run));
	must(weir_run_wait(b.run, -1));
	ok(gdev_output(b.run, b.out) == expected(3),
	   "a run starts when its input was set again");
	both_free(&b);
}

/* Wait until @event, and then copy @t to both inputs. */
static void inputs_copy(struct weir_run *run, struct weir_node *const *in,
			const struct weir_tensor *t, struct weir_event *event)
{
	must(weir_run_input_tensor(run, in[0], t, event));
	must(weir_run_input_tensor(run, in[1], t, event));
}

/* Each device has an input, which a cancelled run waits for. */
static void inputs_again(void)
{
	struct weir_graph *g;
	struct weir_node *in[2], *a, *b;
	struct weir_buf *buf = NULL;
	const struct weir_tensor *t;
	struct weir_event *event = new_event(weir, 0);
	struct weir_stream *stream;
	struct weir_exec *exec;
	struct weir_run *run;
	struct hold hold;

	must(weir_graph_new(&g));
	in[0] = gdev_input(g, "x", N);
	in[1] = gdev_input(g, "y", N);
	a = named(weir_sqr(g, in[0]), "on cpu");
	b = named(weir_sqr(g, in[1]), "on gdev");
	b = weir_graph_output(g, named(weir_add(g, a, b), "on cpu"));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	t = weir_node_tensor(gdev_leaf(g, dev[0], "t", N, 3, NULL, &buf));
	must(weir_stream_new(cpu_of(weir), NULL, &stream));
	hold_stream(stream, &hold);
	must(weir_stream_record(stream, event));
	inputs_copy(run, in, t, event);
	must(weir_run_start(run));
	must(weir_run_cancel(run));
	release_stream(&hold);
	is_int(weir_run_wait(run, -1), -ECANCELED,
	       "a run that waits for its inputs is cancelled");
	inputs_copy(run, in, t, NULL);
	is_int(weir_run_start(run), 0,
	       "a run starts when the inputs of both devices were set again");
	must(weir_run_wait(run, -1));
	ok(gdev_output(run, b) == 18, "it computes with these inputs");
	weir_run_free(run);
	weir_exec_free(exec);
	weir_graph_free(g);
	weir_buf_free(buf);
	weir_stream_free(stream);
	weir_event_free(event);
}

/* The CPU has nothing more to do, the other device has not begun. */
static void ends_with_the_last(void)
{
	struct weir_run_report before = { .size = sizeof(before) };
	struct weir_run_report after = before;
	struct weir_graph *g;
	struct weir_node *x, *y;
	struct weir_exec *s;
	struct weir_run *run;

	must(weir_graph_new(&g));
	x = gdev_input(g, "x", N);
	weir_graph_output(g, named(weir_sqr(g, x), "on cpu"));
	y = weir_graph_output(g, named(weir_add(g, x, x), "on gdev"));
	must(weir_exec_new(sched, g, &s));
	must(weir_run_new(s, &run));
	gdev_set(run, x, 2);
	gdev.hold_at = 2;
	must(weir_run_start(run));
	sem_wait(&gdev.held);
	/* The operation of the other lane, and the end. */
	while (atomic_load(&run->running) > 2)
		usleep(1000);
	must(weir_run_report(run, &before));
	usleep(2000);
	must(weir_run_report(run, &after));
	ok(before.running && after.running,
	   "a run is running until its last device has ended");
	ok(after.total_ns > before.total_ns,
	   "the time of a run goes on until its last device has ended");
	sem_post(&gdev.go);
	must(weir_run_wait(run, -1));
	must(weir_run_report(run, &before));
	usleep(2000);
	must(weir_run_report(run, &after));
	ok(!before.running && after.total_ns == before.total_ns,
	   "the time of a run stops when it has been waited for");
	ok(gdev_output(run, y) == 4, "the device that ends last has computed");
	weir_run_free(run);
	weir_exec_free(s);
	weir_graph_free(g);
}

static void observer_ends(void)
{
	struct both b = both_make(sched, NULL);

	gdev_set(b.run, b.x, 1);
	observed = 0;
	observed_err = -EDOM;
	must(weir_run_start(b.run));
	is_err(weir_run_wait(b.run, -1), -EDOM, "the observer returned",
	       "an observer ends the run on all devices");
	is_int(observed, 1, "an observer that ends the run is called once");
	observed_err = 0;
	again(&b, "the observer has ended it");
	both_free(&b);
}

/* A leaf of the second device whose event fails. */
static void leaf_fails(void)
{
	struct weir_event *event = new_event(weir, 0);
	struct weir_stream *stream;
	struct hold hold;
	struct both b;

	must(weir_stream_new(cpu_of(weir), NULL, &stream));
	hold_stream(stream, &hold);
	hold.result = -EILSEQ;
	must(weir_stream_record(stream, event));
	b = both_make(sched, event);
	gdev_set(b.run, b.x, 1);
	must(weir_run_start(b.run));
	is_int(weir_run_wait(b.run, 20 * MS), -ETIMEDOUT,
	       "a run waits for a leaf of its second device");
	release_stream(&hold);
	is_err(weir_run_wait(b.run, -1), -ECANCELED, "not done after a failure",
	       "a run whose second device lacks a leaf is cancelled");
	weir_stream_sync(stream, -1);
	weir_stream_free(stream);
	both_free(&b);
	weir_event_free(event);
}

/*
 * The run is freed while the device holds it; its memory stays until it ends.
 */
static void freed(void)
{
	struct both b = both_make(sched, NULL);

	gdev_set(b.run, b.x, 1);
	gdev.hold_at = 4;
	must(weir_run_start(b.run));
	sem_wait(&gdev.held);
	both_free(&b);
	sem_post(&gdev.go);
	gdev_reset();
	b = both_make(sched, NULL);
	again(&b, "one that was freed while it ran");
	both_free(&b);
}

/* The second run computes on the CPU while the other device holds the first. */
static void overlaps(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_run_report report = { .size = sizeof(report) };
	struct weir_sched *two;
	struct weir_run *next;
	struct both b;

	o.copies = 2;
	must(weir_sched_new(dev, 2, &o, &two));
	must(weir_sched_pin(two, "*", dev[1]));
	must(weir_sched_pin(two, "on cpu", dev[0]));
	b = both_make(two, NULL);
	must(weir_run_new(b.exec, &next));
	gdev_set(b.run, b.x, 2);
	gdev_set(next, b.x, 9);
	gdev.hold_at = 4;
	must(weir_run_start(b.run));
	sem_wait(&gdev.held);
	gdev.hold_at = GDEV_NONE;
	must(weir_run_start(next));
	do
		must(weir_run_report(next, &report));
	while (report.nodes < 1);
	is_int(weir_run_wait(next, 20 * MS), -ETIMEDOUT,
	       "a second run begins on one device while the other computes the first");
	is_int(report.nodes, 1,
	       "a second run computes what the free device can");
	sem_post(&gdev.go);
	must(weir_run_wait(next, -1));
	ok(gdev_output(b.run, b.out) == expected(2) &&
		   gdev_output(next, b.out) == expected(9),
	   "runs that overlap have their own results");
	weir_run_free(next);
	both_free(&b);
	weir_sched_free(two);
}

static struct weir_sched *sched_new(const struct weir_sched_opts *o)
{
	struct weir_sched *s;

	must(weir_sched_new(dev, 2, o, &s));
	must(weir_sched_pin(s, "on cpu", dev[0]));
	must(weir_sched_pin(s, "on gdev", dev[1]));
	must(weir_sched_pin(s, "last", dev[0]));
	return s;
}

static void bytes_needed(const struct weir_graph *g, uint64_t ret[2])
{
	struct weir_sched *s = sched_new(NULL);
	struct weir_exec_info e = { .size = sizeof(e) };

	for (unsigned i = 0; i < 2; i++) {
		must(weir_sched_estimate_dev(s, g, i, &e));
		ret[i] = e.bytes;
	}
	weir_sched_free(s);
}

/* *@budget is a byte less than @g needs. */
static void limits(struct weir_sched_opts *o, uint64_t *budget,
		   const struct weir_graph *g, const char *sentence,
		   const char *what)
{
	struct weir_exec *exec;
	struct weir_sched *s = sched_new(o);

	is_err(weir_exec_new(s, g, &exec), -ENOMEM, sentence,
	       "a graph that needs a byte more than %s is refused", what);
	weir_sched_free(s);
	++*budget;
	s = sched_new(o);
	is_int(weir_exec_new(s, g, &exec), 0,
	       "a graph that needs all of %s is taken", what);
	weir_exec_free(exec);
	weir_sched_free(s);
}

static void budgets(void)
{
	struct both b = both_make(sched, NULL);
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	uint64_t need[2], each[2] = { 0 };
	char sentence[100];

	bytes_needed(b.g, need);
	o.budget = need[0] + need[1] - 1;
	snprintf(
		sentence, sizeof(sentence),
		"needs %llu bytes on CPU and others; executable graphs in use have 0",
		(unsigned long long)(need[0] + need[1]));
	limits(&o, &o.budget, b.g, sentence, "the budget of all devices");
	o.budget = 0;
	o.budgets = each;
	each[1] = need[1] - 1;
	snprintf(sentence, sizeof(sentence),
		 "needs %llu bytes on GDEV0; executable graphs in use have 0",
		 (unsigned long long)need[1]);
	limits(&o, &each[1], b.g, sentence, "the budget of a device");
	both_free(&b);
}

/* The second device waits for a leaf, the first for the second. */
static void closes_waiting(void)
{
	static struct hold hold; /* the worker may use it after this */
	struct weir_stream *stream;
	struct weir_event *event;
	struct weir_sched *s;
	struct both b;

	weir = gdev_open_timeout(&dev[1], 100 * MS);
	dev[0] = cpu_of(weir);
	event = new_event(weir, 0);
	must(weir_stream_new(dev[0], NULL, &stream));
	hold_stream(stream, &hold);
	must(weir_stream_record(stream, event));
	s = sched_new(NULL);
	b = both_make(s, event);
	gdev_set(b.run, b.x, 2);
	must(weir_run_start(b.run));
	weir_close(weir);
	is_err(weir_run_wait(b.run, -1), -ESHUTDOWN, "when the root was closed",
	       "a run whose devices wait has failed when its root is closed");
	release_stream(&hold);
	weir_event_free(event);
	weir_stream_free(stream);
	both_free(&b);
	weir_sched_free(s);
}

static int see(void *arg, struct weir_run *run, uint64_t node,
	       const struct weir_tensor *t)
{
	(void)arg, (void)run, (void)node, (void)t;
	observed++;
	return observed_err;
}

int main(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;

	plan(0);
	weir = gdev_open(&dev[1]);
	dev[0] = cpu_of(weir);
	o.observe = see;
	o.copies = 4;
	sched = sched_new(&o);
	computes();
	describes();
	estimates();
	budgets();
	refuses();
	fails();
	cancels();
	ends_with_the_last();
	input_fails();
	inputs_again();
	observer_ends();
	leaf_fails();
	freed();
	overlaps();
	weir_sched_free(sched);
	weir_close(weir);
	closes_waiting();
	return done_testing();
}
