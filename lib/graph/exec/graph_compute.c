/* SPDX-License-Identifier: MIT */
/* A graph is computed now, by one call with all that it needs. */
#include <weir/stream.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "graph/exec/sched.h"
#include "graph/graph.h"
#include "mem/buf.h"
#include "mem/tensor.h"

typedef unsigned long long ull;

struct computation {
	struct weir *weir;
	const struct weir_graph *g;
	const struct weir_graph_io *io;
	size_t n;
	struct weir_graph_compute_opts opts;
	struct weir_dev *dev[WEIR__LANES]; /* chosen by default */
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
	struct weir_tensor *output; /* outputs: entries of @io that are one */
};

static int check_opts(struct computation *o,
		      const struct weir_graph_compute_opts *opts)
{
	int r = weir__opts_in(&o->opts, sizeof(o->opts), opts);

	if (r < 0)
		return r;
	if (o->opts.reserved)
		return weir__fail(-EINVAL, "reserved %u (must be 0)",
				  o->opts.reserved);
	if (!o->opts.devs != !o->opts.n_devs)
		return weir__fail(-EINVAL, "%u devices, %s list of them",
				  o->opts.n_devs, o->opts.devs ? "a" : "no");
	if (!o->opts.devs && o->opts.sched &&
	    (o->opts.sched->budgets || o->opts.sched->weights))
		return weir__fail(
			-EINVAL,
			"budgets or weights of devices, but no list of them");
	if (o->opts.devs && o->opts.devs[0] && o->opts.devs[0]->weir != o->weir)
		return weir__fail(-EINVAL, "%s is of another root",
				  o->opts.devs[0]->desc.name);
	return 0;
}

static int check_io(const struct computation *o)
{
	for (size_t i = 0; i < o->n; i++) {
		const struct weir_graph_io *io = &o->io[i];

		if (!io->node || io->node->graph != o->g)
			return weir__fail(
				-EINVAL,
				"the node of entry %zu is NULL, or of another graph",
				i);
		if (!io->in == !io->out)
			return weir__fail(
				-EINVAL,
				"entry %zu has %s bytes to set and to fetch", i,
				io->in ? "both" : "neither");
	}
	return 0;
}

static void add_dev(struct computation *o, struct weir_dev *dev)
{
	for (uint32_t i = 0; i < o->opts.n_devs; i++)
		if (o->dev[i] == dev)
			return;
	if (o->opts.n_devs < WEIR__LANES)
		o->dev[o->opts.n_devs++] = dev;
}

/* The devices whose memory has the leaves, and the CPU. */
static int default_devs(struct computation *o)
{
	struct weir_buf *member;
	uint64_t at;
	int r;

	for (size_t i = 0; i < o->g->n; i++) {
		const struct weir_node *node = o->g->node[i];

		if (node->op != WEIR_OP_LEAF || !node->t.buf)
			continue;
		r = weir__buf_range(node->t.buf, node->t.offset, 0, &member,
				    &at);
		if (r < 0)
			return r;
		add_dev(o, member->buft->dev);
	}
	add_dev(o, weir_dev_get(o->weir, 0));
	o->opts.devs = o->dev;
	return 0;
}

/*
 * The outputs of the run; those that do not fit are found before it is started.
 */
static int find_outputs(struct computation *o)
{
	for (size_t i = 0; i < o->n; i++) {
		const struct weir_graph_io *io = &o->io[i];
		uint64_t bytes;
		int r;

		if (!io->out)
			continue;
		r = weir_run_output(o->run, io->node, &o->output[i]);
		if (r == 0)
			r = weir__tensor_bytes(&o->output[i], &bytes);
		if (r == 0 && bytes != io->bytes)
			r = weir__fail(-EINVAL,
				       "output %s has %llu bytes, not %zu",
				       weir__tensor_describe(&o->output[i],
							     io->node->index),
				       (ull)bytes, io->bytes);
		if (r < 0)
			return r;
	}
	return 0;
}

static int compute(struct computation *o)
{
	int r;

	if ((r = weir_sched_new(o->opts.devs, o->opts.n_devs, o->opts.sched,
				&o->sched)) < 0 ||
	    (r = weir_exec_new(o->sched, o->g, &o->exec)) < 0 ||
	    (r = weir_run_new(o->exec, &o->run)) < 0 ||
	    (r = find_outputs(o)) < 0)
		return r;
	for (size_t i = 0; i < o->n && !r; i++)
		if (o->io[i].in)
			r = weir_run_input(o->run, o->io[i].node, o->io[i].in,
					   o->io[i].bytes);
	if (r < 0 || (r = weir_run_start(o->run)) < 0 ||
	    (r = weir_run_wait(o->run, -1)) < 0)
		return r;
	for (size_t i = 0; i < o->n && !r; i++)
		if (o->io[i].out && o->io[i].bytes)
			r = weir_tensor_get(&o->output[i], 0, o->io[i].out,
					    o->io[i].bytes);
	return r;
}

int weir_graph_compute(struct weir *weir, const struct weir_graph *g,
		       const struct weir_graph_io *io, size_t n,
		       const struct weir_graph_compute_opts *opts)
{
	struct computation o = { .weir = weir, .g = g, .io = io, .n = n };
	struct weir__error_saved saved;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r == 0 && n && !io)
		r = weir__fail(-EINVAL, "%zu entries, but no list of them", n);
	if (r == 0)
		r = check_opts(&o, opts);
	if (r == 0)
		r = weir_graph_error(g, NULL);
	if (r == 0)
		r = check_io(&o);
	if (r == 0 && !o.opts.devs)
		r = default_devs(&o);
	if (r < 0)
		return r;
	o.output = weir__calloc(n + !n, sizeof(*o.output));
	if (!o.output)
		return weir__fail(-ENOMEM, "no memory for %zu entries", n);
	r = compute(&o);
	weir__error_save(&saved);
	weir_run_free(o.run);
	weir_exec_free(o.exec);
	weir_sched_free(o.sched);
	weir__free(o.output);
	weir__error_restore(&saved);
	return r;
}
