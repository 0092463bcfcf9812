/* SPDX-License-Identifier: MIT */
/*
 * Each allocation of a thread fails once, from a scheduler to the end of a run:
 * the call fails with -ENOMEM, and what was made before works. Once a run has
 * been started it allocates nothing.
 */
#include <errno.h>

#include "gdev.h"
#include "nomem.h"
#include "streams.h"

static struct weir *weir;
static struct weir_dev *dev;
static struct weir_stream *stream;
static struct weir_graph *graph;
static struct weir_node *x, *out;
static struct weir_event *event;

struct pass {
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
};

static int pass_make(struct pass *p)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	int r;

	o.copies = 2;
	if ((r = weir_sched_new(&dev, 1, &o, &p->sched)) < 0 ||
	    (r = weir_exec_new(p->sched, graph, &p->exec)) < 0)
		return r;
	return weir_run_new(p->exec, &p->run);
}

static int pass_run(struct pass *p)
{
	struct weir_exec_info e = { .size = sizeof(e) };
	const float v[16] = { 2 };
	struct weir_tensor t;
	int r;

	if ((r = weir_sched_estimate(p->sched, graph, &e)) < 0 ||
	    (r = weir_run_input(p->run, x, v, sizeof(v))) < 0 ||
	    (r = weir_run_input_tensor(
		     p->run, x, weir_node_tensor(weir_graph_node(graph, 1)),
		     NULL)) < 0 ||
	    (r = weir_run_start(p->run)) < 0 ||
	    (r = weir_run_wait(p->run, -1)) < 0 ||
	    (r = weir_stream_compute(stream, p->run)) < 0 ||
	    (r = weir_run_wait(p->run, -1)) < 0)
		return r;
	r = weir_run_output(p->run, out, &t);
	return r == 0 && gdev_value(&t) != 18 ? -EILSEQ : r;
}

static void pass_end(struct pass *p)
{
	weir_run_free(p->run);
	weir_exec_free(p->exec);
	weir_sched_free(p->sched);
}

static void each_fails(void)
{
	unsigned n = 0, wrong = 0;
	bool failed;
	int r;

	do {
		struct pass p = { 0 };

		nomem_begin(++n);
		r = pass_make(&p);
		if (r == 0)
			r = pass_run(&p);
		failed = nomem_end();
		if (r < 0 &&
		    (r != -ENOMEM || !strstr(weir_error(), "memory"))) {
			diag("allocation %u: %d, %s", n, r, weir_error());
			wrong++;
		}
		/* What was made before the failure is complete. */
		if (r < 0 && p.run && pass_run(&p) < 0) {
			diag("allocation %u: %s", n, weir_error());
			wrong++;
		}
		pass_end(&p);
	} while (failed && n < 1000);
	ok(n > 20 && n < 1000, "%u allocations fail one after another", n);
	is_int(wrong, 0,
	       "each failure is -ENOMEM, and the same calls then work");
}

static void runs_allocate_nothing(void)
{
	struct pass p = { 0 };
	const float v[16] = { 2 };
	int r = 0;

	must(pass_make(&p));
	must(pass_run(&p));
	nomem_begin(1);
	for (int i = 0; i < 10 && !r; i++)
		if ((r = weir_run_input(p.run, x, v, sizeof(v))) < 0 ||
		    (r = weir_run_start(p.run)) < 0 ||
		    (r = weir_run_record(p.run, event)) < 0 ||
		    (r = weir_run_wait(p.run, -1)) < 0 ||
		    (r = weir_stream_compute(stream, p.run)) < 0 ||
		    (r = weir_run_wait(p.run, -1)) < 0)
			diag("%s", weir_error());
	ok(!nomem_end() && r == 0,
	   "a run that was started before allocates nothing");
	pass_end(&p);
}

int main(void)
{
	struct weir_buf *buf[4] = { 0 };
	struct weir_node *w[4];

	plan(0);
	weir = gdev_open(&dev);
	gdev.workspace = 256;
	event = new_event(weir, 0);
	must(weir_stream_new(dev, NULL, &stream));
	must(weir_graph_new(&graph));
	x = gdev_input(graph, "x", 16);
	for (int i = 0; i < 4; i++)
		w[i] = gdev_leaf(graph, dev, "w", 16, 2, event, &buf[i]);
	out = weir_scale(graph, x, 1, 0);
	for (int i = 0; i < 4; i++)
		out = weir_add(graph, weir_add(graph, out, w[i]), w[i]);
	weir_graph_output(graph, out);
	each_fails();
	runs_allocate_nothing();
	weir_stream_free(stream);
	weir_event_free(event);
	weir_graph_free(graph);
	for (int i = 0; i < 4; i++)
		weir_buf_free(buf[i]);
	weir_close(weir);
	is_int(gdev.bytes, 0, "all memory is given back");
	return done_testing();
}
