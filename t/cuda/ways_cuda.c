/* SPDX-License-Identifier: MIT */
/*
 * The way of a trial (t/kernels/trial.h) on a CUDA device: an executable graph
 * on CUDA0, with its leaves in memory of the device. A trial with an operation
 * that CUDA0 does not compute is skipped. On the stand-in a finding about a
 * kernel is a failure, and arithmetic has the errors of a GPU's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dev/dev.h"
#include "gpu.h"
#include "graph/compile/compiled.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "kernels/trial.h"
#include "kernels/trial_ways.h"
#include "naive.h"
#include "tap.h"

#define MOST 64

static struct weir *weir;

/* Mistakes that the stand-in has counted. */
static unsigned long mistakes(void)
{
	struct fakecuda_counts counts = { 0 };

	if (fake.handle)
		fake.counts(&counts);
	return counts.findings + counts.misuse + counts.reused;
}

struct weir *ways_begin(void)
{
	open_driver();
	if (fake.handle) {
		/* So that the bounds hold on a GPU too. */
		fake.set("ROUGH", "1");
	}
	weir = open_cuda();
	if (!weir__dev_compute(gpu(weir)))
		skip_all(
			"CUDA0 does not compute: there was no nvcc, or the GPU is too old");
	return weir;
}

void ways_end(void)
{
	weir_close(weir);
	all_given_back("after the trials");
}

static bool is_computed(const struct weir_node *node)
{
	return node->op != WEIR_OP_LEAF && node->op != WEIR_OP_INPUT &&
	       node->op != WEIR_OP_VIEW;
}

int ways_supports(const struct weir_node *node)
{
	struct weir_operand src[16] = { 0 };
	struct weir_backend_node flat;

	weir__node_flat(node, &flat, src);
	return weir__dev_compute(gpu(weir))->supports(gpu(weir), &flat);
}

bool ways_refuse_alike(void)
{
	return false;
}

/* NULL: CUDA0 computes all nodes; else the first that it does not compute. */
static const struct weir_node *first_refused(const struct trial *t)
{
	for (size_t i = 0; i <= t->node->index; i++) {
		const struct weir_node *node = weir_graph_node(t->g, i);

		if (is_computed(node) && ways_supports(node) < 0)
			return node;
	}
	return NULL;
}

/* Buffers of leaves that were moved to the device. */
static struct weir_buf *moved[MOST];
static unsigned n_moved;

/* Move a leaf's buffer, with all tensors that are in it. */
static void leaf_move(struct trial *t, struct weir_buf *from)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_tensor bytes;
	int64_t n;

	must(weir_buf_info(from, &info));
	n = (int64_t)info.bytes;
	must(weir_tensor_init(&bytes, WEIR_DTYPE_U8, 1, &n));
	must(weir_tensors_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), &bytes, 1,
				&moved[n_moved]));
	must(weir_tensor_set(&bytes, 0, weir_buf_data(from), (size_t)n));
	for (size_t i = 0; i <= t->node->index; i++) {
		struct weir_node *node = weir_graph_node(t->g, i);

		if (node->t.buf != from)
			continue;
		node->t.buf = moved[n_moved];
		node->t.offset += bytes.offset;
	}
	n_moved++;
}

static void leaves_move(struct trial *t)
{
	for (size_t i = 0; i <= t->node->index; i++) {
		struct weir_node *node = weir_graph_node(t->g, i);

		if (node->op == WEIR_OP_LEAF && weir_buf_data(node->t.buf))
			leaf_move(t, node->t.buf);
	}
}

/* All bytes of a tensor, whose rows may have gaps. */
static void *bytes_of(const struct weir_tensor *t, size_t *ret_bytes)
{
	struct weir_tensor all;
	unsigned char *data;
	int64_t n;

	must(weir_tensor_bytes(t, ret_bytes));
	data = calloc(1, *ret_bytes + 1);
	if (!*ret_bytes)
		return data;
	n = (int64_t)*ret_bytes;
	must(weir_tensor_init(&all, WEIR_DTYPE_U8, 1, &n));
	all.buf = t->buf;
	all.offset = t->offset;
	must(weir_tensor_get(&all, 0, data, *ret_bytes));
	return data;
}

static void agree(struct trial *t, const struct weir_tensor *got, void *data,
		  const struct weir_operand *want)
{
	struct weir_operand o = { .data = data,
				  .dtype = got->dtype,
				  .ndim = got->ndim };
	struct naive_diff d;
	double *a, *b;

	memcpy(o.shape, got->shape, sizeof(o.shape));
	memcpy(o.stride, got->stride, sizeof(o.stride));
	d = naive_compare(&o, want);
	if (d.odd < 0 && d.nmse <= t->nmse)
		return;
	a = naive_doubles(&o);
	b = naive_doubles(want);
	d.at = d.odd >= 0 ? d.odd : d.at;
	snprintf(
		t->wrong, sizeof(t->wrong),
		"nmse %g of at most %g; element %lld of %lld is %.9g, not %.9g",
		d.nmse, t->nmse, (long long)d.at, (long long)naive_count(want),
		naive_count(want) ? a[d.at] : 0,
		naive_count(want) ? b[d.at] : 0);
	free(a);
	free(b);
}

/* 0, and the result; its bytes are freed by the caller. */
static int run_once(struct trial *t, struct weir_run *run,
		    struct weir_tensor *ret_got, void **ret_bytes,
		    size_t *ret_n)
{
	int r = weir_run_start(run);

	if (r >= 0)
		r = weir_run_wait(run, -1);
	if (r >= 0)
		r = weir_run_output(run, t->node, ret_got);
	if (r >= 0)
		*ret_bytes = bytes_of(ret_got, ret_n);
	return r;
}

/* The next run has the bytes @first, in another order of warps and blocks. */
static int run_again(struct trial *t, struct weir_run *run, const void *first)
{
	const char *order = getenv("FAKECUDA_ORDER");
	struct weir_tensor got;
	void *second = NULL;
	size_t n;
	int r;

	fake.set("ORDER", "4711");
	r = run_once(t, run, &got, &second, &n);
	fake.set("ORDER", order ? order : "0");
	if (r >= 0 && memcmp(first, second, n))
		snprintf(t->wrong, sizeof(t->wrong),
			 "a second run has other bits");
	free(second);
	return r;
}

static int run_exec(struct trial *t, const struct naive *want,
		    struct weir_exec *exec)
{
	struct weir_tensor got;
	struct weir_run *run;
	void *bytes = NULL;
	size_t n;
	int r = weir_run_new(exec, &run);

	if (r < 0)
		return r;
	r = run_once(t, run, &got, &bytes, &n);
	if (r >= 0 && !t->fails)
		agree(t, &got, bytes, naive_result(want, t->node));
	if (r >= 0 && t->again)
		r = run_again(t, run, bytes);
	snprintf(t->why, sizeof(t->why), "%s", r < 0 ? weir_error() : "");
	weir_run_free(run);
	free(bytes);
	return r;
}

/* Before nodes have addresses no less workspace is measured. */
static void measured(struct trial *t, struct weir_exec *exec)
{
	struct weir_exec_info info = { .size = sizeof(info) };
	const struct weir_backend_node *nodes[MOST];
	struct weir_backend_node flat[MOST];
	struct weir_operand src[MOST][16] = { 0 };
	size_t n = 0, bytes;

	for (size_t i = 0; i <= t->node->index && n < MOST; i++) {
		const struct weir_node *node = weir_graph_node(t->g, i);

		if (!is_computed(node))
			continue;
		weir__node_flat(node, &flat[n], src[n]);
		nodes[n] = &flat[n];
		n++;
	}
	must(weir__dev_compute(gpu(weir))->measure(gpu(weir), nodes, n, NULL,
						   &bytes));
	must(weir_exec_info(exec, &info));
	if (bytes < info.workspace)
		snprintf(t->wrong, sizeof(t->wrong),
			 "workspace of %llu bytes, measured were %zu",
			 (unsigned long long)info.workspace, bytes);
}

/* The scheduler is new: the graph is not the one that its hash is of. */
static void try_device(struct trial *t, const struct naive *want)
{
	struct weir_dev *dev = gpu(weir);
	unsigned long before = mistakes();
	struct weir_sched *sched;
	struct weir_exec *exec;

	if (!weir_graph_output(t->g, t->node))
		bail("no output");
	must(weir_sched_new(&dev, 1, NULL, &sched));
	t->err = weir_exec_new(sched, t->g, &exec);
	if (t->err) {
		snprintf(t->why, sizeof(t->why), "%s", weir_error());
	} else {
		measured(t, exec);
		t->err = run_exec(t, want, exec);
		weir_exec_free(exec);
	}
	weir_sched_free(sched);
	if (mistakes() != before)
		snprintf(t->wrong, sizeof(t->wrong), "%s; %s", fake.finding(),
			 fake.misuse());
}

void ways_try(struct trial *t)
{
	const struct weir_node *refused = first_refused(t);
	struct naive *want;

	snprintf(t->way, sizeof(t->way), "an executable graph on CUDA0");
	if (refused) {
		t->skipped = true;
		snprintf(t->why, sizeof(t->why), "%s", weir_error());
		return;
	}
	want = naive_new(t->g);
	if (naive_run(want) < 0 && !t->fails)
		bail("the evaluator failed at node %zu", naive_failed(want));
	leaves_move(t);
	try_device(t, want);
	while (n_moved)
		weir_buf_free(moved[--n_moved]);
	naive_free(want);
}
