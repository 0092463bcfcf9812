/* SPDX-License-Identifier: MIT */
/* Norms, softmax, rope, sums, the greatest element: whole rows. */
#include <math.h>

#include "cuda/launches.h"
#include "cuda/operations.h"

#define SUM_ELEMENTS 4096u /* that a block of sum has at least */
#define MOST_SUM_BLOCKS 512u

static void rows_add(struct weir__cuda_launches *l,
		     const struct weir_backend_node *node,
		     enum weir__cuda_kernel_id kernel,
		     struct weir__cuda_rows *p)
{
	p->rows = weir__cuda_outer(&node->dst, 1);
	p->columns = weir__cuda_dim(&node->dst, 0);
	p->dst = weir__cuda_operand(&node->dst);
	p->a = weir__cuda_source(node, 0);
	if (p->columns)
		weir__cuda_launch_add(l, kernel,
				      weir__cuda_row_blocks(l, p->rows), 1,
				      weir__cuda_row_threads(p->columns), 0, p,
				      sizeof(*p));
}

static void norm_plan(struct weir__cuda_launches *l,
		      const struct weir_backend_node *node)
{
	const struct weir_op_norm *norm = node->params;
	struct weir__cuda_rows p = { .eps = norm->eps };

	rows_add(l, node,
		 node->op == WEIR_OP_NORM      ? WEIR__CUDA_KERNEL_norm
		 : node->op == WEIR_OP_L2_NORM ? WEIR__CUDA_KERNEL_l2_norm
					       : WEIR__CUDA_KERNEL_rms_norm,
		 &p);
}

/* A group is a row: both tensors are contiguous. */
static void group_norm_plan(struct weir__cuda_launches *l,
			    const struct weir_backend_node *node)
{
	const struct weir_op_group_norm *o = node->params;
	struct weir_backend_node rows = *node;
	const struct weir_op_norm norm = { .eps = o->eps };
	struct weir_operand a = node->src[0];
	int64_t n = (int64_t)weir__cuda_outer(&a, 0);
	int64_t c = weir__cuda_dim(&a, 2) / o->groups * weir__cuda_dim(&a, 1) *
		    weir__cuda_dim(&a, 0);

	if (!n)
		return;
	a.ndim = 2;
	a.shape[0] = n / c;
	a.shape[1] = c;
	a.stride[0] = c * (int64_t)sizeof(float);
	a.stride[1] = sizeof(float);
	rows.op = WEIR_OP_NORM;
	rows.params = &norm;
	rows.src = &a;
	rows.dst = a;
	rows.dst.data = node->dst.data;
	norm_plan(l, &rows);
}

static void soft_max_plan(struct weir__cuda_launches *l,
			  const struct weir_backend_node *node)
{
	const struct weir_op_soft_max *s = node->params;
	struct weir__cuda_rows p = {
		.scale = s->scale,
		.max_bias = s->max_bias,
		.mask = weir__cuda_source(node, 1),
		.sinks = weir__cuda_source(node, 2),
	};

	rows_add(l, node, WEIR__CUDA_KERNEL_soft_max, &p);
}

/*
 * The index of the pair, as a fraction, whose angle turns @beta times in the
 * context.
 */
static double corrected_dim(const struct weir_op_rope *r, double beta)
{
	return r->n_dims * log(r->context / (beta * 2 * M_PI)) /
	       (2 * log((double)r->base));
}

struct weir__cuda_rope weir__cuda_rope_of(const struct weir_backend_node *node)
{
	const struct weir_op_rope *r = node->params;
	struct weir__cuda_rope p = {
		.tokens = weir__cuda_outer(&node->dst, 2),
		.neox = r->mode == WEIR_ROPE_NEOX,
		.n_dims = r->n_dims,
		.base_log2 = log2((double)r->base),
		.freq_scale = (double)r->freq_scale,
		.ext_factor = (double)r->ext_factor,
		.size = (double)r->attn_factor,
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
		.pos = weir__cuda_source(node, 1),
		.factors = weir__cuda_source(node, 2),
	};

	if (p.ext_factor != 0) {
		p.low = fmax(0, floor(corrected_dim(r, (double)r->beta_fast)));
		p.high = fmin(r->n_dims - 1.0,
			      ceil(corrected_dim(r, (double)r->beta_slow)));
		p.size *= 1 + 0.1 * log(1 / p.freq_scale);
	}
	return p;
}

static void rope_plan(struct weir__cuda_launches *l,
		      const struct weir_backend_node *node)
{
	struct weir__cuda_rope p = weir__cuda_rope_of(node);

	if (weir__cuda_outer(&node->dst, 0))
		weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_rope,
				      weir__cuda_row_blocks(l, p.tokens), 1,
				      weir__cuda_row_threads(p.dst.dim[0] / 2),
				      0, &p, sizeof(p));
}

static struct weir__cuda_reduce reduce_of(const struct weir_backend_node *node)
{
	return (struct weir__cuda_reduce){
		.rows = weir__cuda_outer(&node->src[0], 1),
		.columns = weir__cuda_dim(&node->src[0], 0),
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
	};
}

/*
 * The number of blocks, and so the order of the sum, depends on the number of
 * elements only. The sum of nothing is 0.
 */
static void sum_plan(struct weir__cuda_launches *l,
		     const struct weir_backend_node *node)
{
	struct weir__cuda_reduce p = reduce_of(node);
	struct weir__cuda_operand none[2] = { { 0 } };

	weir__cuda_join_dims(
		(struct weir__cuda_operand *[]){ &p.a, &none[0], &none[1] });
	p.blocks = weir__cuda_outer(&node->src[0], 0) / SUM_ELEMENTS;
	p.blocks = p.blocks < 1                 ? 1
		   : p.blocks > MOST_SUM_BLOCKS ? MOST_SUM_BLOCKS
						: p.blocks;
	if (p.blocks > 1)
		p.sums = weir__cuda_workspace(l, p.blocks * sizeof(double));
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_sum, p.blocks, 1,
			      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
	if (p.blocks > 1)
		weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_sum_blocks, 1, 1,
				      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
}

static void sum_rows_plan(struct weir__cuda_launches *l,
			  const struct weir_backend_node *node)
{
	struct weir__cuda_reduce p = reduce_of(node);

	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_sum_rows,
			      weir__cuda_row_blocks(l, p.rows), 1,
			      weir__cuda_row_threads(p.columns), 0, &p,
			      sizeof(p));
}

static void argmax_plan(struct weir__cuda_launches *l,
			const struct weir_backend_node *node)
{
	struct weir__cuda_reduce p = reduce_of(node);

	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_argmax,
			      weir__cuda_row_blocks(l, p.rows), 1,
			      weir__cuda_row_threads(p.columns), 0, &p,
			      sizeof(p));
}

#define F32 WEIR__CUDA_F32
#define FLOATS WEIR__CUDA_FLOATS

const struct weir__cuda_operation weir__cuda_op_rms_norm = {
	.name = "rms_norm",
	.dst = F32,
	.src = { F32 },
	.n_src = 1,
	.plan = norm_plan,
};

const struct weir__cuda_operation weir__cuda_op_norm = {
	.name = "norm",
	.dst = F32,
	.src = { F32 },
	.n_src = 1,
	.plan = norm_plan,
};

const struct weir__cuda_operation weir__cuda_op_l2_norm = {
	.name = "l2_norm",
	.dst = F32,
	.src = { F32 },
	.n_src = 1,
	.plan = norm_plan,
};

const struct weir__cuda_operation weir__cuda_op_group_norm = {
	.name = "group_norm",
	.dst = F32,
	.src = { F32 },
	.n_src = 1,
	.plan = group_norm_plan,
};

const struct weir__cuda_operation weir__cuda_op_soft_max = {
	.name = "soft_max",
	.dst = F32,
	.src = { F32, FLOATS, F32 },
	.n_src = 3,
	.plan = soft_max_plan,
};

const struct weir__cuda_operation weir__cuda_op_rope = {
	.name = "rope",
	.dst = FLOATS,
	.src = { FLOATS, WEIR__CUDA_I32, F32 },
	.n_src = 3,
	.plan = rope_plan,
};

const struct weir__cuda_operation weir__cuda_op_sum = {
	.name = "sum",
	.dst = F32,
	.src = { F32 },
	.n_src = 1,
	.plan = sum_plan,
};

const struct weir__cuda_operation weir__cuda_op_sum_rows = {
	.name = "sum_rows",
	.dst = F32,
	.src = { F32 },
	.n_src = 1,
	.plan = sum_rows_plan,
};

const struct weir__cuda_operation weir__cuda_op_argmax = {
	.name = "argmax",
	.dst = WEIR__CUDA_I32,
	.src = { F32 },
	.n_src = 1,
	.plan = argmax_plan,
};
