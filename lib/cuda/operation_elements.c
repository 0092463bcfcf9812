/* SPDX-License-Identifier: MIT */
/* Operations on one element at a time. */
#include "cuda/launches.h"
#include "cuda/operations.h"

static void elements_plan(struct weir__cuda_launches *l,
			  const struct weir_backend_node *node)
{
	const struct weir_op_scale *scale = node->params;
	const struct weir_op_clamp *clamp = node->params;
	struct weir__cuda_elements p = {
		.n = weir__cuda_outer(&node->dst, 0),
		.op = node->op,
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
		.b = weir__cuda_source(node, 1),
	};
	struct weir__cuda_operand *all[3] = { &p.dst, &p.a, &p.b };

	if (node->op == WEIR_OP_SCALE) {
		p.scale = scale->scale;
		p.bias = scale->bias;
	}
	if (node->op == WEIR_OP_CLAMP) {
		p.min = clamp->min;
		p.max = clamp->max;
	}
	p.ndim = weir__cuda_join_dims(all);
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_elements,
			      weir__cuda_blocks_for(l, p.n), 1,
			      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
}

#define FLOATS WEIR__CUDA_FLOATS
#define ELEMENTS(name_, n_src_, b_)                                 \
	const struct weir__cuda_operation weir__cuda_op_##name_ = { \
		.name = #name_,                                     \
		.dst = FLOATS,                                      \
		.src = { FLOATS, b_ },                              \
		.n_src = n_src_,                                    \
		.plan = elements_plan,                              \
	};

ELEMENTS(add, 2, WEIR__CUDA_FLOATS)
ELEMENTS(sub, 2, WEIR__CUDA_FLOATS)
ELEMENTS(mul, 2, WEIR__CUDA_FLOATS)
ELEMENTS(div, 2, WEIR__CUDA_FLOATS)
ELEMENTS(scale, 1, 0)
ELEMENTS(sqr, 1, 0)
ELEMENTS(silu, 1, 0)
ELEMENTS(gelu, 1, 0)
ELEMENTS(gelu_erf, 1, 0)
ELEMENTS(relu, 1, 0)
ELEMENTS(tanh, 1, 0)
ELEMENTS(sigmoid, 1, 0)
ELEMENTS(exp, 1, 0)
ELEMENTS(sqrt, 1, 0)
ELEMENTS(clamp, 1, 0)
ELEMENTS(swiglu, 2, WEIR__CUDA_FLOATS)
