/* SPDX-License-Identifier: MIT */
#include "fork_calls.h"

static int ignore(void *arg, const struct weir_compared *compared)
{
	(void)arg, (void)compared;
	return 0;
}

/* A graph is plain memory; only a leaf of the parent's memory is refused. */
static void graphs(const struct fork_objects *o)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct weir_tensor placed = { .buf = o->buf, .dtype = WEIR_DTYPE_U8 };
	struct weir_node *a, *b;
	struct weir_graph *g, *copy;
	struct weir_buf *memory;
	uint64_t hash[2];

	returns(0, weir_graph_new, &g);
	a = weir_graph_input(g, "a", WEIR_DTYPE_F32, 0, NULL);
	fork_made("weir_graph_input");
	b = weir_graph_op(g, WEIR_OP_SQR, NULL, 0, &a, 1);
	fork_made("weir_graph_op");
	returns(b, weir_graph_output, g, b);
	returns(b, weir_graph_observe, g, b);
	returns(b, weir_graph_node, g, 1);
	returns(2, weir_graph_count, g);
	returns(0, weir_graph_fingerprint, g, hash);
	fails(weir_graph_copy, g, o->buft, &copy, &memory);
	fails(weir_graph_compare, o->dev, o->dev, g, NULL, ignore, NULL);
	returns(a, weir_node_source, b, 0);
	returns(b, weir_node_set_name, b, "b");
	returns(0, weir_node_info, b, &info);
	fork_check("weir_node_tensor", weir_node_tensor(b)->ndim, 0);
	fork_made("weir_node_tensor");
	returns(NULL, weir_graph_leaf, g, &placed, NULL);
	fails(weir_graph_error, g, NULL);
	ends(weir_graph_reset, g);
	returns(NULL, weir_graph_leaf_file, g, &placed, o->file, 0);
	returns(NULL, weir_graph_constant, g, a);
	ends(weir_graph_free, g);
}

/* What the parent has made; graphs themselves have no root. */
static void schedules(const struct fork_objects *o)
{
	struct weir_sched_estimate estimate = { .size = sizeof(estimate) };
	struct weir_rates rates = { sizeof(rates), 1, 1, 1 };
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_run_report report = { .size = sizeof(report) };
	struct weir_transfer transfer = { .size = sizeof(transfer) };
	struct weir_split split = { .size = sizeof(split) };
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
	fails(weir_exec_info, o->schedule, &info);
	fails(weir_exec_explain, o->schedule, 0, &place);
	fails(weir_exec_split, o->schedule, 0, &split);
	fails(weir_exec_transfer, o->schedule, 0, &transfer);
	fails(weir_run_new, o->schedule, &again);
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
	ends(weir_exec_free, o->schedule);
	ends(weir_sched_free, o->sched);
}

void fork_graphs(const struct fork_objects *o)
{
	graphs(o);
	schedules(o);
}
