/* SPDX-License-Identifier: MIT */
/*
 * Runs that are cancelled, freed, forked, or whose root is closed, while the
 * device is at each node, or while they wait for a leaf.
 */
#include <errno.h>
#include <sys/wait.h>

#include "gdev.h"
#include "streams.h"

#define OPS 4

static struct weir *weir;
static struct weir_dev *dev;

/* ((x + w) squared ...): node 0 is x, 1 the leaf, 2 to 5 the operations. */
struct chain {
	struct weir_graph *g;
	struct weir_node *x, *out;
	struct weir_buf *buf;
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
};

static void chain_make(struct chain *c, struct weir_event *event)
{
	const float v[16] = { 1 };

	memset(c, 0, sizeof(*c));
	must(weir_graph_new(&c->g));
	c->x = gdev_input(c->g, "x", 16);
	c->out = weir_add(c->g, c->x,
			  gdev_leaf(c->g, dev, "w", 16, 1, event, &c->buf));
	for (int i = 1; i < OPS; i++)
		c->out = weir_sqr(c->g, c->out);
	weir_graph_output(c->g, c->out);
	must(weir_sched_new(&dev, 1, NULL, &c->sched));
	must(weir_exec_new(c->sched, c->g, &c->exec));
	must(weir_run_new(c->exec, &c->run));
	must(weir_run_input(c->run, c->x, v, sizeof(v)));
	gdev_reset();
}

static void chain_free(struct chain *c)
{
	weir_run_free(c->run);
	weir_exec_free(c->exec);
	weir_sched_free(c->sched);
	weir_graph_free(c->g);
	weir_buf_free(c->buf);
}

/* Start it; the device is held before operation @i. */
static void start_paused(struct chain *c, struct weir_stream *stream, int i)
{
	gdev.nodes = 0;
	gdev.hold_at = (uint64_t)i + 2;
	if (stream)
		must(weir_stream_compute(stream, c->run));
	else
		must(weir_run_start(c->run));
	sem_wait(&gdev.held);
}

static void cancels(struct weir_stream *stream, const char *where)
{
	unsigned wrong = 0;
	struct chain c;

	chain_make(&c, NULL);
	for (int i = 0; i < OPS; i++) {
		start_paused(&c, stream, i);
		must(weir_run_cancel(c.run));
		sem_post(&gdev.go);
		wrong += weir_run_wait(c.run, -1) != -ECANCELED;
		wrong += gdev.nodes != (unsigned)i;
		if (stream)
			must(weir_stream_reset(stream));
		must(stream ? weir_stream_compute(stream, c.run)
			    : weir_run_start(c.run));
		wrong += weir_run_wait(c.run, -1) != 0;
		wrong += gdev_output(c.run, c.out) != 256;
	}
	is_int(wrong, 0,
	       "a run %s is cancelled at each node, and started again", where);
	has_str(weir_error(), "the run was cancelled",
		"the sentence of a run %s says that it was cancelled", where);
	chain_free(&c);
}

/* The run's memory is in use until its work has ended. */
static void frees(void)
{
	unsigned wrong = 0;

	for (int i = 0; i < OPS; i++) {
		struct chain c;

		chain_make(&c, NULL);
		start_paused(&c, NULL, i);
		chain_free(&c);
		wrong += gdev.bytes == 0;
		sem_post(&gdev.go);
		for (int ms = 0; ms < 5000 && gdev.bytes; ms++)
			usleep(1000);
		wrong += gdev.bytes != 0 || gdev.nodes != (unsigned)i;
	}
	is_int(wrong, 0,
	       "a run is freed at each node, and its memory after its work");
}

static void pending(void)
{
	struct weir_stream *stream;
	struct hold hold;
	struct chain c;

	chain_make(&c, NULL);
	must(weir_stream_new(dev, NULL, &stream));
	hold_stream(stream, &hold);
	must(weir_stream_compute(stream, c.run));
	must(weir_run_cancel(c.run));
	release_stream(&hold);
	is_err(weir_run_wait(c.run, -1), -ECANCELED, "before step 0 of 4",
	       "a run that was cancelled while it was queued computes nothing");
	is_int(gdev.nodes, 0, "its operations did not begin");
	must(weir_stream_reset(stream));
	hold_stream(stream, &hold);
	must(weir_stream_compute(stream, c.run));
	weir_run_free(c.run);
	c.run = NULL;
	weir_stream_free(stream);
	chain_free(&c);
	ok(gdev.bytes > 0, "memory of a run that is queued stays");
	release_stream(&hold);
	for (int ms = 0; ms < 5000 && gdev.bytes; ms++)
		usleep(1000);
	is_int(gdev.bytes, 0,
	       "a run that is freed while it is queued gives its memory back");
}

/* weir_close() waits for what computes. */
static void closes(void)
{
	struct weir_dev *first_dev = dev;
	struct weir *first = weir;
	unsigned wrong = 0;

	for (int i = 0; i < OPS; i++) {
		struct chain c;

		weir = gdev_open(&dev);
		chain_make(&c, NULL);
		start_paused(&c, NULL, i);
		sem_post(&gdev.go);
		weir_close(weir);
		wrong += weir_run_wait(c.run, -1) != 0 || gdev.nodes != OPS;
		wrong += weir_run_start(c.run) != -ESHUTDOWN;
		chain_free(&c);
		wrong += gdev.bytes != 0;
	}
	is_int(wrong, 0, "a root is closed while a run is at each node");
	weir = first;
	dev = first_dev;
}

/* The stream that is held does not end before the deadline. */
static void closes_waiting(void)
{
	struct weir_dev *first_dev = dev;
	struct weir *first = weir;
	struct weir_stream *stream;
	struct weir_event *event;
	static struct hold hold; /* the worker may use it after this */
	struct chain c;

	weir = gdev_open_timeout(&dev, 100 * MS);
	event = new_event(weir, 0);
	must(weir_stream_new(cpu_of(weir), NULL, &stream));
	hold_stream(stream, &hold);
	must(weir_stream_record(stream, event));
	chain_make(&c, event);
	must(weir_run_start(c.run));
	weir_close(weir);
	is_err(weir_run_wait(c.run, -1), -ESHUTDOWN, "when the root was closed",
	       "a run that waits has failed when its root is closed");
	is_int(gdev.nodes, 0,
	       "a run that waits computes nothing after the close");
	release_stream(&hold);
	weir_event_free(event);
	weir_stream_free(stream);
	chain_free(&c);
	weir = first;
	dev = first_dev;
}

/* In a child a run cannot be used, and the parent's goes on. */
static void forks(void)
{
	struct chain c;
	int status = 0;
	pid_t pid;

	chain_make(&c, NULL);
	start_paused(&c, NULL, 1);
	pid = fork();
	if (!pid) {
		bool well = weir_run_wait(c.run, -1) == -EPERM &&
			    weir_run_start(c.run) == -EPERM &&
			    weir_run_cancel(c.run) == -EPERM;

		weir_run_free(c.run);
		weir_exec_free(c.exec);
		weir_sched_free(c.sched);
		_exit(!well);
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "a run of the parent cannot be used in a child");
	sem_post(&gdev.go);
	is_int(weir_run_wait(c.run, -1), 0, "a run goes on after a fork");
	ok(gdev_output(c.run, c.out) == 256,
	   "a run has its value after a fork");
	chain_free(&c);
}

int main(void)
{
	struct weir_stream *stream;

	plan(0);
	weir = gdev_open(&dev);
	must(weir_stream_new(dev, NULL, &stream));
	cancels(NULL, "of a scheduler's stream");
	cancels(stream, "in a stream");
	weir_stream_free(stream);
	frees();
	pending();
	closes();
	forks();
	closes_waiting();
	weir_close(weir);
	return done_testing();
}
