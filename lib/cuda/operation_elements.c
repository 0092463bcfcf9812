/* SPDX-License-Identifier: MIT */
/* Operations on one element at a time. */
#include "cuda/launches.h"
#include "cuda/operations.h"

/* True if dimension @i of @t can be walked as one with the dimension before. */
static bool is_joined(const struct weir__cuda_operand *t, unsigned i,
		      const struct weir__cuda_operand *dst)
{
	return t->stride[i] == t->stride[i - 1] * t->dim[i - 1] &&
	       t->dim[i] == dst->dim[i] && t->dim[i - 1] == dst->dim[i - 1];
}

static void remove_dim(struct weir__cuda_operand *t, unsigned i, bool join)
{
	if (join)
		t->dim[i - 1] *= t->dim[i];
	for (; i + 1 < WEIR__CUDA_DIMS; i++) {
		t->dim[i] = t->dim[i + 1];
		t->stride[i] = t->stride[i + 1];
	}
	t->dim[i] = 1;
	t->stride[i] = 0;
}

/*
 * Reduce the dimensions that a kernel walks: those of one element are removed,
 * and neighbours without a gap in any operand are joined. Returns their number,
 * at least 1.
 */
static unsigned join_dims(struct weir__cuda_operand *t[3])
{
	unsigned n = WEIR__CUDA_DIMS;

	for (unsigned i = WEIR__CUDA_DIMS - 1; i > 0; i--) {
		bool join = true, one = t[0]->dim[i] == 1;

		for (unsigned k = 0; k < 3; k++)
			join = join &&
			       (!t[k]->data || is_joined(t[k], i, t[0]));
		if (!join && !one)
			continue;
		for (unsigned k = 0; k < 3; k++)
			remove_dim(t[k], i, !one);
		n--;
	}
	return n;
}

static void elements_plan(struct weir__cuda_launches *l,
			  const struct weir_backend_node *node)
{
	const struct weir_op_scale *scale = node->params;
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
	p.ndim = join_dims(all);
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_elements,
			      weir__cuda_blocks_for(p.n), 1, WEIR__CUDA_THREADS,
			      0, &p, sizeof(p));
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
ELEMENTS(swiglu, 2, WEIR__CUDA_FLOATS)
