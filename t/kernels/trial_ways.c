/* SPDX-License-Identifier: MIT */
#include "trial_ways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/ops.h"
#include "kernels/kernels.h"
#include "naive.h"
#include "tap.h"
#include "trial.h"

static struct weir *weir;
static struct weir_sched *sched;

struct weir *ways_begin(void)
{
	struct weir_dev *cpu;

	if (weir_open(NULL, &weir) < 0)
		bail("%s", weir_error());
	cpu = weir_dev_get(weir, 0);
	if (weir_sched_new(&cpu, 1, NULL, &sched) < 0)
		bail("%s", weir_error());
	return weir;
}

void ways_end(void)
{
	weir_sched_free(sched);
	weir_close(weir);
}

bool ways_refuse_alike(void)
{
	return true;
}

/* A node as kernels see it. */
struct seen {
	struct weir_backend_node node;
	struct weir_operand src[8];
};

static void node_see(const struct naive *e, const struct weir_node *node,
		     struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	if (node->n_src > 8)
		bail("%u sources are too many", node->n_src);
	for (uint32_t i = 0; i < node->n_src; i++)
		if (node->src[i])
			seen->src[i] = *naive_result(e, node->src[i]);
	seen->node = (struct weir_backend_node){
		.size = sizeof(seen->node),
		.op = node->op,
		.n_src = node->n_src,
		.index = node->index,
		.name = node->t.name,
		.params = node->params,
		.params_size = node->row->params,
		.dst = *naive_result(e, node),
		.src = seen->src,
	};
}

/* @bytes bytes of NaNs, aligned to 64; never 0 of them. */
static void *odd_memory(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 64) & ~(size_t)63);

	if (!p)
		bail("no memory for %zu bytes", bytes);
	memset(p, 0xff, (bytes + 64) & ~(size_t)63);
	return p;
}

/* All parts of a phase, in random order. */
static int phase_run(const struct weir__kernel *kernel,
		     struct weir__kernel_run *run)
{
	uint32_t n = run->plan->parts, *order = odd_memory(n * sizeof(*order));
	int r = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = (uint32_t)random_below(i + 1);

		order[i] = order[k];
		order[k] = i;
	}
	for (uint32_t i = 0; !r && i < n; i++) {
		run->part = order[i];
		run->thread = (unsigned)random_below(run->threads);
		r = kernel->run(run);
	}
	free(order);
	return r;
}

static int kernel_run(const struct weir_backend_node *node, unsigned threads,
		      char why[WEIR__WHY])
{
	const struct weir__kernel *kernel = weir__kernel_find(node->op);
	struct weir__kernel_plan plan = { .phases = 1, .parts = 1 };
	struct weir__kernel_run run = {
		.node = node, .plan = &plan, .threads = threads, .why = why
	};
	int r;

	if (!kernel)
		bail("operation %u has no kernel", node->op);
	r = kernel->supports ? kernel->supports(node) : 0;
	if (r < 0) {
		snprintf(why, WEIR__WHY, "%s", weir_error());
		return r;
	}
	kernel->plan(node, threads, &plan);
	run.scratch = odd_memory(plan.scratch);
	run.shared = odd_memory(plan.shared);
	for (run.phase = 0; !r && run.phase < plan.phases; run.phase++)
		r = phase_run(kernel, &run);
	free(run.scratch);
	free(run.shared);
	return r;
}

static bool is_computed(const struct weir_node *node)
{
	return node->op != WEIR_OP_LEAF && node->op != WEIR_OP_INPUT &&
	       node->op != WEIR_OP_VIEW;
}

int ways_supports(const struct weir_node *node)
{
	const struct weir__kernel *kernel = weir__kernel_find(node->op);
	struct naive *e = naive_new(node->graph);
	struct seen seen;
	int r;

	if (!kernel)
		bail("operation %u has no kernel", node->op);
	node_see(e, node, &seen);
	r = kernel->supports ? kernel->supports(&seen.node) : 0;
	naive_free(e);
	return r;
}

static bool agree(struct trial *t, const struct weir_operand *got,
		  const struct weir_operand *want)
{
	struct naive_diff d = naive_compare(got, want);
	double *a, *b;

	if (d.odd < 0 && d.nmse <= t->nmse)
		return true;
	a = naive_doubles(got);
	b = naive_doubles(want);
	if (d.odd >= 0)
		d.at = d.odd;
	snprintf(
		t->wrong, sizeof(t->wrong),
		"nmse %g of at most %g; element %lld of %lld is %.9g, not %.9g",
		d.nmse, t->nmse, (long long)d.at, (long long)naive_count(want),
		naive_count(want) ? a[d.at] : 0,
		naive_count(want) ? b[d.at] : 0);
	free(a);
	free(b);
	return false;
}

/* Each kernel by itself; sources are what kernels before it computed. */
static int by_kernels(struct trial *t, unsigned threads, struct naive **ret)
{
	struct naive *e = *ret = naive_new(t->g);
	struct seen seen;
	size_t bytes;
	int r = 0;

	for (size_t i = 0; !r && i <= t->node->index; i++) {
		const struct weir_node *node = weir_graph_node(t->g, i);

		if (!is_computed(node))
			continue;
		node_see(e, node, &seen);
		if (node->storage == node) {
			if (weir_tensor_bytes(&node->t, &bytes) < 0)
				bail("%s", weir_error());
			memset(seen.node.dst.data, 0xff, bytes);
		}
		r = kernel_run(&seen.node, threads, t->why);
	}
	return r;
}

static void try_kernels(struct trial *t, const struct naive *want,
			unsigned threads)
{
	struct naive *got;

	snprintf(t->way, sizeof(t->way), "kernels, planned for %u threads",
		 threads);
	t->err = by_kernels(t, threads, &got);
	if (!t->err && !t->fails)
		agree(t, naive_result(got, t->node),
		      naive_result(want, t->node));
	naive_free(got);
}

/*
 * True if the result may be written over @src wherever @node has it as a
 * source.
 */
static bool may_take(const struct weir_node *node, const struct weir_node *src)
{
	for (uint32_t s = 0; s < node->n_src; s++)
		if (node->src[s] == src && !(node->row->in_place & 1u << s))
			return false;
	return true;
}

static bool same_layout(const struct weir_tensor *a,
			const struct weir_tensor *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape)) &&
	       !memcmp(a->stride, b->stride, a->ndim * sizeof(*a->stride));
}

/* The result in the place of source @i. */
static void try_in_place(struct trial *t, const struct naive *want, unsigned i)
{
	const struct weir_node *node = t->node;
	struct naive *got;
	struct seen seen;
	size_t bytes;

	snprintf(t->way, sizeof(t->way), "in the place of source %u", i);
	t->err = by_kernels(t, 1, &got);
	node_see(got, node, &seen);
	if (weir_tensor_bytes(&node->t, &bytes) < 0)
		bail("%s", weir_error());
	memcpy(seen.node.dst.data, seen.src[i].data, bytes);
	for (uint32_t s = 0; s < node->n_src; s++)
		if (node->src[s] == node->src[i])
			seen.src[s].data = seen.node.dst.data;
	if (!t->err)
		t->err = kernel_run(&seen.node, 3, t->why);
	if (!t->err)
		agree(t, &seen.node.dst, naive_result(want, node));
	naive_free(got);
}

/* Source 0 of a node, which is not at its address. */
struct hidden {
	struct weir_backend_reader of; /* first member */
	unsigned char *bytes;
	bool fails, mapped;
	int got; /* parts that were not given back */
};

static const unsigned char *hidden_get(struct weir_backend_reader *of,
				       uint64_t at, size_t *n,
				       unsigned char *room, size_t room_bytes,
				       char why[240], int *ret_err)
{
	struct hidden *h = (struct hidden *)of;

	if (h->fails) {
		snprintf(why, 240, "a disk that fails");
		*ret_err = -EIO;
		return NULL;
	}
	if (at > of->bytes || *n > of->bytes - at)
		bail("a read of %zu bytes at %llu, of %llu", *n,
		     (unsigned long long)at, (unsigned long long)of->bytes);
	if (h->mapped && random_below(3)) {
		h->got++;
		return h->bytes + at;
	}
	*n = *n < room_bytes ? *n : room_bytes;
	memcpy(room, h->bytes + at, *n);
	return room;
}

static void hidden_put(struct weir_backend_reader *of,
		       const unsigned char *bytes)
{
	struct hidden *h = (struct hidden *)of;

	if (bytes < h->bytes || bytes > h->bytes + of->bytes)
		bail("what was read to a node's memory was given back");
	h->got--;
}

/* The source begins @lead bytes after its place, which NaNs surround. */
static void hide(struct hidden *h, const struct weir_tensor *t,
		 struct weir_operand *src, size_t lead)
{
	size_t n;

	if (weir_tensor_bytes(t, &n) < 0)
		bail("%s", weir_error());
	h->of.bytes = lead + n;
	h->of.active = true;
	h->of.get = hidden_get;
	h->of.put = hidden_put;
	h->bytes = odd_memory(h->of.bytes);
	memcpy(h->bytes + lead, src->data, n);
	h->of.place = (unsigned char *)odd_memory(h->of.bytes + 128) + 64;
	src->data = h->of.place + lead;
}

static bool only_inside(const struct hidden *h)
{
	const unsigned char *p = h->of.place;

	for (size_t i = 0; i < 64; i++)
		if (p[(int)i - 64] != 0xff || p[h->of.bytes + i] != 0xff)
			return false;
	return true;
}

/* Source 0 comes from a reader. */
static void try_reader(struct trial *t, const struct naive *want, bool fails)
{
	const struct weir_node *node = t->node;
	const struct weir__kernel *kernel = weir__kernel_find(node->op);
	struct hidden h = { .fails = fails, .mapped = random_below(2) };
	struct naive *got;
	struct seen seen;
	int r;

	snprintf(t->way, sizeof(t->way), "source 0 from a reader");
	t->err = by_kernels(t, 1, &got);
	node_see(got, node, &seen);
	if (t->err || !kernel->takes_reader ||
	    !kernel->takes_reader(&seen.node)) {
		naive_free(got);
		return;
	}
	hide(&h, &node->src[0]->t, &seen.src[0], 64 * random_below(3));
	seen.node.reader = &h.of;
	r = kernel_run(&seen.node, 1 + (unsigned)random_below(4), t->why);
	if (fails && naive_count(&seen.node.dst) &&
	    (r != -EIO || strcmp(t->why, "a disk that fails") != 0))
		snprintf(t->wrong, sizeof(t->wrong), "the read failed, not it");
	else if (!fails && !(t->err = r))
		agree(t, &seen.node.dst, naive_result(want, node));
	if (h.got)
		snprintf(t->wrong, sizeof(t->wrong),
			 "%d parts were not given back", h.got);
	if (!only_inside(&h))
		snprintf(t->wrong, sizeof(t->wrong),
			 "bytes beside the place were written");
	free(h.of.place - 64);
	free(h.bytes);
	naive_free(got);
}

static int run_exec(struct trial *t, const struct naive *want,
		    struct weir_exec *exec)
{
	struct weir_operand got;
	struct weir_tensor tensor;
	struct weir_run *run;
	int r = weir_run_new(exec, &run);

	if (r < 0)
		return r;
	if ((r = weir_run_start(run)) < 0 || (r = weir_run_wait(run, -1)) < 0 ||
	    (r = weir_run_output(run, t->node, &tensor)) < 0)
		goto out;
	got = naive_operand(&tensor);
	agree(t, &got, naive_result(want, t->node));
out:
	weir_run_free(run);
	return r;
}

/* Last, since operations write to leaves. */
static void try_exec(struct trial *t, const struct naive *want)
{
	struct weir_exec *exec;

	snprintf(t->way, sizeof(t->way), "an executable graph");
	if (!weir_graph_output(t->g, t->node))
		bail("no output");
	t->err = weir_exec_new(sched, t->g, &exec);
	if (!t->err) {
		t->err = run_exec(t, want, exec);
		weir_exec_free(exec);
	}
	if (t->err)
		snprintf(t->why, sizeof(t->why), "%s", weir_error());
}

/* True if the result of the trial is known. */
static bool is_decided(const struct trial *t)
{
	return t->wrong[0] || (t->fails ? !t->err : t->err);
}

void ways_try(struct trial *t)
{
	struct naive *want = naive_new(t->g);
	const struct weir_node *node = t->node;

	if (naive_run(want) < 0 && !t->fails)
		bail("the evaluator failed at node %zu", naive_failed(want));
	try_kernels(t, want, 1);
	if (!is_decided(t))
		try_kernels(t, want, 3);
	for (uint32_t i = 0; i < node->n_src && !is_decided(t); i++)
		if (!t->fails && node->src[i] &&
		    node->row->in_place & 1u << i &&
		    may_take(node, node->src[i]) &&
		    same_layout(&node->t, &node->src[i]->t))
			try_in_place(t, want, i);
	for (int fails = 0; fails < 2 && !is_decided(t) && !t->fails; fails++)
		try_reader(t, want, fails);
	if (!is_decided(t))
		try_exec(t, want);
	naive_free(want);
}
