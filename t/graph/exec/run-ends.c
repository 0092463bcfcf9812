/* SPDX-License-Identifier: MIT */
/*
 * A run over several devices that its observer, an operation or the program
 * ends: it ends on all of them.
 */
#include <errno.h>

#include "streams.h"

#define NODES 6u /* on CPU and CPU1 in turn */

static struct weir *weir;
static struct weir_dev *devs[2];

/* What the operations did, and what is to happen. */
static struct happened {
	_Atomic unsigned computed[NODES];
	_Atomic int fail; /* error of operation 2 */
	_Atomic int observer;
	struct hold hold; /* operation 2 waits for it, if @holds */
	bool holds;
} happened;

static int step(void *arg, const struct weir_operand *dst,
		const struct weir_operand *src, unsigned n, unsigned part,
		unsigned parts)
{
	_Atomic unsigned *computed = arg;
	float *to = dst->data;

	(void)part, (void)parts;
	if (computed == &happened.computed[2] && happened.holds)
		hold_until_released(&happened.hold);
	if (computed == &happened.computed[2] && happened.fail)
		return happened.fail;
	*to = n ? *(float *)src[0].data + 1 : 1;
	(*computed)++;
	return 0;
}

static int observe(void *arg, struct weir_run *run, uint64_t node,
		   const struct weir_tensor *t)
{
	(void)arg, (void)run, (void)node, (void)t;
	/* Time for another device to go on, which it must not. */
	if (happened.observer)
		usleep(20000);
	return happened.observer;
}

static unsigned computed_from(unsigned first)
{
	unsigned n = 0;

	for (unsigned i = first; i < NODES; i++)
		n += happened.computed[i];
	return n;
}

/* A chain of calls; the first is observed. */
static struct weir_run *run_new(void)
{
	struct weir_sched_opts o = WEIR_SCHED_OPTS_INIT;
	struct weir_op_call call = { .fn = step,
				     .dtype = WEIR_DTYPE_F32,
				     .ndim = 1,
				     .shape = { 1 },
				     .parts = 1 };
	struct weir_exec *exec;
	struct weir_sched *sched;
	struct weir_graph *g;
	struct weir_node *x = NULL;
	struct weir_run *run;

	memset(&happened, 0, sizeof(happened));
	o.observe = observe;
	must(weir_graph_new(&g));
	must(weir_sched_new(devs, 2, &o, &sched));
	must(weir_sched_pin(sched, "odd", devs[1]));
	must(weir_sched_pin(sched, "even", devs[0]));
	for (unsigned i = 0; i < NODES; i++) {
		call.arg = &happened.computed[i];
		x = weir_graph_op(g, WEIR_OP_CALL, &call, sizeof(call), &x,
				  i ? 1 : 0);
		weir_node_set_name(x, i % 2 ? "odd" : "even");
		if (!i)
			weir_graph_observe(g, x);
	}
	weir_graph_output(g, x);
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	weir_exec_free(exec);
	weir_sched_free(sched);
	weir_graph_free(g);
	return run;
}

static float output_of(struct weir_run *run)
{
	/* The output is the last node. */
	struct weir_tensor t;
	struct weir_graph *g;
	struct weir_node *x = NULL;
	const int64_t one = 1;
	float value = 0;

	must(weir_graph_new(&g));
	for (unsigned i = 0; i < NODES; i++)
		x = weir_graph_input(g, NULL, WEIR_DTYPE_F32, 1, &one);
	must(weir_run_output(run, x, &t));
	must(weir_tensor_get(&t, 0, &value, sizeof(value)));
	weir_graph_free(g);
	return value;
}

static void well(const char *how)
{
	struct weir_run *run = run_new();

	must(weir_run_start(run));
	is_int(weir_run_wait(run, -1), 0,
	       "%s: a run over two devices in turn ends well", how);
	ok(output_of(run) == NODES && computed_from(0) == NODES,
	   "%s: each operation is computed once, after the one before", how);
	weir_run_free(run);
}

static void by_observer(const char *how)
{
	struct weir_run *run = run_new();

	happened.observer = -EPIPE;
	must(weir_run_start(run));
	is_err(weir_run_wait(run, -1), -EPIPE, "observer",
	       "%s: the run ends with what the observer returned", how);
	is_int(computed_from(1), 0,
	       "%s: no device computes after the observer has ended the run",
	       how);
	happened.observer = 0;
	must(weir_run_start(run));
	is_int(weir_run_wait(run, -1), 0,
	       "%s: a run that its observer ended can be started again", how);
	weir_run_free(run);
}

static void by_failure(const char *how)
{
	struct weir_run *run = run_new();

	happened.fail = -EDOM;
	must(weir_run_start(run));
	is_err(weir_run_wait(run, -1), -EDOM, "node 2",
	       "%s: the run ends with the failure of one device, and its node",
	       how);
	is_int(computed_from(3), 0,
	       "%s: no device computes after an operation of another has failed",
	       how);
	weir_run_free(run);
}

static void by_cancel(const char *how)
{
	struct weir_run *run = run_new();

	hold_init(&happened.hold, 0);
	happened.holds = true;
	must(weir_run_start(run));
	sem_wait(&happened.hold.entered);
	must(weir_run_cancel(run));
	release_stream(&happened.hold);
	is_int(weir_run_wait(run, -1), -ECANCELED,
	       "%s: a run over several devices can be cancelled", how);
	is_int(computed_from(3), 0,
	       "%s: no device computes after the run was cancelled", how);
	weir_run_free(run);
}

static void all(const char *params, const char *how)
{
	weir = open_root(0);
	must(weir_dev_configure(weir, params, &devs[0]));
	must(weir_dev_find(weir, "CPU1", &devs[1]));
	well(how);
	by_observer(how);
	by_failure(how);
	by_cancel(how);
	weir_close(weir);
}

int main(void)
{
	plan(2 * (2 + 3 + 2 + 2));
	all("CPU:devices=2", "memory is shared");
	all("CPU:devices=2,apart=1", "memory is apart");
	return 0;
}
