/* SPDX-License-Identifier: MIT */
/* The operation that the program implements (weir_call). */
#include <errno.h>

#include "kernels/kernels.h"

/* The cost of a call is not known: each thread has a part. */
static void call_plan(const struct weir_backend_node *node, unsigned threads,
		      struct weir__kernel_plan *ret)
{
	const struct weir_op_call *p = node->params;

	ret->parts = threads;
	if (p->parts && p->parts < threads)
		ret->parts = p->parts;
}

static int call_run(const struct weir__kernel_run *run)
{
	const struct weir_backend_node *node = run->node;
	const struct weir_op_call *p = node->params;
	int r = p->fn(p->arg, &node->dst, node->src, node->n_src, run->part,
		      run->plan->parts);

	if (r >= 0)
		return 0;
	return weir__kernel_fail(run, r < -4095 ? -EIO : r,
				 "the function returned %d", r);
}

const struct weir__kernel weir__kernel_call = {
	.op = WEIR_OP_CALL,
	.name = "call",
	.plan = call_plan,
	.run = call_run,
};
