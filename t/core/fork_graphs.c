/* SPDX-License-Identifier: MIT */
#include "fork_calls.h"

#include <stdbool.h>

static int ignore(void *arg, const struct weir_compared *compared)
{
	(void)arg, (void)compared;
	return 0;
}

#define makes(name, ...)                                            \
	do {                                                        \
		fork_made(#name);                                   \
		fork_check(#name, name(__VA_ARGS__) != NULL, true); \
	} while (0)

static int call_nothing(void *arg, const struct weir_operand *dst,
			const struct weir_operand *src, unsigned n,
			unsigned part, unsigned parts)
{
	(void)arg, (void)dst, (void)src, (void)n, (void)part, (void)parts;
	return 0;
}

static struct weir_node *leaf(struct weir_graph *g, enum weir_dtype dtype,
			      unsigned ndim, const int64_t *shape)
{
	struct weir_tensor t = { 0 };

	if (weir_tensor_init(&t, dtype, ndim, shape) < 0)
		return NULL;
	return weir_graph_leaf(g, &t, NULL);
}

/* Operations that make views, choose rows, write, or multiply. */
static void views_and_products(struct weir_graph *g)
{
	static const int64_t size[3] = { 2, 4, 8 }, stride[3] = { 128, 32, 4 };
	static const int64_t order[3] = { 1, 0, 2 }, two[2] = { 2, 1 };
	struct weir_node *a = leaf(g, WEIR_DTYPE_F32, 3, size);
	struct weir_node *b = leaf(g, WEIR_DTYPE_F32, 2, &size[1]);
	struct weir_node *ids = leaf(g, WEIR_DTYPE_I32, 1, size);
	struct weir_node *chosen = leaf(g, WEIR_DTYPE_I32, 2, two);
	struct weir_node *rows =
		leaf(g, WEIR_DTYPE_F32, 2, (const int64_t[]){ 2, 8 });
	struct weir_node *one =
		leaf(g, WEIR_DTYPE_F32, 3, (const int64_t[]){ 2, 1, 8 });

	makes(weir_view, g, a, 3, size, stride, 0);
	makes(weir_reshape, g, a, 3, size);
	makes(weir_permute, g, a, 3, order);
	makes(weir_transpose, g, a);
	makes(weir_slice, g, a, 0, 0, 1);
	makes(weir_get_rows, g, b, ids);
	makes(weir_set_rows, g, b, rows, ids);
	makes(weir_mul_mat, g, b, a);
	makes(weir_mul_mat_precision, g, b, a, WEIR_PRECISION_F32);
	makes(weir_mul_mat_id, g, a, one, chosen);
	makes(weir_mul_mat_id_precision, g, a, one, chosen, WEIR_PRECISION_F32);
	makes(weir_copy, g, one,
	      leaf(g, WEIR_DTYPE_F32, 3, (const int64_t[]){ 2, 1, 8 }));
	makes(weir_cont, g, a);
	makes(weir_cast, g, a, WEIR_DTYPE_F16);
	makes(weir_concat, g, a, a, 0);
	makes(weir_repeat, g, b, 2, (const int64_t[]){ 8, 8 });
}

static void elements_and_rows(struct weir_graph *g)
{
	static const int64_t size[3] = { 2, 4, 8 };
	const struct weir_op_call call = { .fn = call_nothing,
					   .dtype = WEIR_DTYPE_F32,
					   .ndim = 1,
					   .shape = { 1 } };
	struct weir_node *a = leaf(g, WEIR_DTYPE_F32, 3, size);
	struct weir_node *heads = leaf(g, WEIR_DTYPE_F32, 1, size);
	struct weir_node *pos = leaf(g, WEIR_DTYPE_I32, 1, size);

	makes(weir_add, g, a, a);
	makes(weir_sub, g, a, a);
	makes(weir_mul, g, a, a);
	makes(weir_div, g, a, a);
	makes(weir_scale, g, a, 1, 0);
	makes(weir_sqr, g, a);
	makes(weir_silu, g, a);
	makes(weir_gelu, g, a);
	makes(weir_gelu_erf, g, a);
	makes(weir_relu, g, a);
	makes(weir_tanh, g, a);
	makes(weir_sigmoid, g, a);
	makes(weir_exp, g, a);
	makes(weir_sqrt, g, a);
	makes(weir_clamp, g, a, 0, 1);
	makes(weir_swiglu, g, a, a);
	makes(weir_rms_norm, g, a, 1);
	makes(weir_norm, g, a, 1);
	makes(weir_l2_norm, g, a, 1);
	makes(weir_group_norm, g, a, 2, 1);
	makes(weir_soft_max, g, a, NULL, 1, 0);
	makes(weir_soft_max_sinks, g, a, NULL, heads, 1, 0);
	makes(weir_rope, g, a, pos, NULL, NULL);
	makes(weir_attention, g, a, a, a, NULL, NULL);
	makes(weir_attention_sinks, g, a, a, a, NULL, heads, NULL);
	makes(weir_attention_lengths, g, a, a, a, NULL, NULL, heads, NULL);
	makes(weir_sum, g, a);
	makes(weir_sum_rows, g, a);
	makes(weir_argmax, g, a);
	makes(weir_top_k, g, a, 1);
	makes(weir_argsort, g, a, WEIR_SORT_ASCENDING);
	makes(weir_call, g, &call, &a, 1);
}

/* A graph is plain memory; only a leaf of the parent's memory is refused. */
static void graphs(const struct fork_objects *o)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct weir_op_info op = { .size = sizeof(op) };
	struct weir_tensor placed = { .buf = o->buf, .dtype = WEIR_DTYPE_U8 };
	struct weir_node *a, *b;
	struct weir_graph *g, *copy;
	struct weir_buf *memory;
	uint64_t hash[2];

	returns(0, weir_graph_new, &g);
	views_and_products(g);
	elements_and_rows(g);
	weir_graph_reset(g);
	a = weir_graph_input(g, "a", WEIR_DTYPE_F32, 0, NULL);
	fork_made("weir_graph_input");
	b = weir_graph_op(g, WEIR_OP_SQR, NULL, 0, &a, 1);
	fork_made("weir_graph_op");
	returns(b, weir_graph_output, g, b);
	returns(b, weir_graph_observe, g, b);
	returns(b, weir_graph_unmark, g, b);
	returns(b, weir_graph_node, g, 1);
	returns(2, weir_graph_count, g);
	returns(0, weir_graph_fingerprint, g, hash);
	fails(weir_graph_copy, g, o->buft, &copy, &memory);
	fails(weir_graph_compute, o->weir, g, NULL, 0, NULL);
	fails(weir_graph_compare, o->dev, o->dev, g, NULL, ignore, NULL);
	returns(a, weir_node_source, b, 0);
	returns(b, weir_node_set_name, b, "b");
	returns(0, weir_node_info, b, &info);
	returns(0, weir_op_info, WEIR_OP_SQR, &op);
	fork_check("weir_node_tensor", weir_node_tensor(b)->ndim, 0);
	fork_made("weir_node_tensor");
	returns(NULL, weir_graph_leaf, g, &placed, NULL);
	fails(weir_graph_error, g, NULL);
	ends(weir_graph_clear_error, g);
	ends(weir_graph_reset, g);
	returns(NULL, weir_graph_leaf_file, g, &placed, o->file, 0);
	returns(NULL, weir_graph_constant, g, a);
	ends(weir_graph_free, g);
}

/* What the parent has made; graphs themselves have no root. */
static void schedules(const struct fork_objects *o)
{
	struct weir_exec_info estimate = { .size = sizeof(estimate) };
	struct weir_rates rates = { sizeof(rates), 1, 1, 1 };
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_run_report report = { .size = sizeof(report) };
	struct weir_transfer transfer = { .size = sizeof(transfer) };
	struct weir_split split = { .size = sizeof(split) };
	struct weir_lane lane = { .size = sizeof(lane) };
	struct weir_node_place place = { .size = sizeof(place) };
	struct weir_node *x = weir_graph_node(o->graph, 0);
	struct weir_exec *other;
	struct weir_sched *fresh;
	struct weir_run *again;
	struct weir_tensor t;
	float value = 0;

	fails(weir_sched_new, &o->dev, 1, NULL, &fresh);
	fails(weir_sched_estimate, o->sched, o->graph, &estimate);
	fails(weir_sched_estimate_dev, o->sched, o->graph, 0, &estimate);
	fails(weir_sched_pin, o->sched, "*", o->dev);
	fails(weir_sched_rates, o->sched, 0, &rates);
	fails(weir_sched_set_rates, o->sched, 0, &rates);
	fails(weir_exec_new, o->sched, o->graph, &other);
	fails(weir_exec_info, o->exec, &info);
	fails(weir_exec_explain, o->exec, 0, &place);
	fails(weir_exec_split, o->exec, 0, &split);
	fails(weir_exec_lane, o->exec, 0, &lane);
	fails(weir_exec_transfer, o->exec, 0, &transfer);
	fails(weir_run_new, o->exec, &again);
	fails(weir_run_input, o->run, x, &value, sizeof(value));
	fails(weir_run_input_tensor, o->run, x, weir_node_tensor(x), NULL);
	fails(weir_run_start, o->run);
	fails(weir_run_start_part, o->run, 0, 1);
	fails(weir_stream_compute, o->stream, o->run);
	fails(weir_run_record, o->run, o->event);
	fails(weir_run_wait, o->run, -1);
	fails(weir_run_cancel, o->run);
	fails(weir_run_output, o->run, weir_graph_node(o->graph, 1), &t);
	fails(weir_run_report, o->run, &report);
	ends(weir_run_free, o->run);
	ends(weir_exec_free, o->exec);
	ends(weir_sched_free, o->sched);
}

void fork_graphs(const struct fork_objects *o)
{
	graphs(o);
	schedules(o);
}
