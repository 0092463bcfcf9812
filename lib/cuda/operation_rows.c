/* SPDX-License-Identifier: MIT */
/* Norms, softmax, rope, sums, the greatest elements: whole rows. */
#include <math.h>

#include "cuda/launches.h"
#include "cuda/operations.h"

#define MOST_ROWS 65535u /* blocks; a block takes several rows if need be */

static uint64_t blocks_of(uint64_t rows)
{
	return rows < MOST_ROWS ? rows : MOST_ROWS;
}

/* A row of few elements needs no whole block of threads. */
static unsigned threads_of(int64_t elements)
{
	unsigned n = 32;

	while (n < WEIR__CUDA_THREADS && n < elements)
		n *= 2;
	return n;
}

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
		weir__cuda_launch_add(l, kernel, blocks_of(p->rows), 1,
				      threads_of(p->columns), 0, p, sizeof(*p));
}

static void norm_plan(struct weir__cuda_launches *l,
		      const struct weir_backend_node *node)
{
	const struct weir_op_norm *norm = node->params;
	struct weir__cuda_rows p = { .eps = norm->eps };

	rows_add(l, node,
		 node->op == WEIR_OP_NORM ? WEIR__CUDA_KERNEL_norm
					  : WEIR__CUDA_KERNEL_rms_norm,
		 &p);
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

static void rope_plan(struct weir__cuda_launches *l,
		      const struct weir_backend_node *node)
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
	if (weir__cuda_outer(&node->dst, 0))
		weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_rope,
				      blocks_of(p.tokens), 1,
				      threads_of(p.dst.dim[0] / 2), 0, &p,
				      sizeof(p));
}

static struct weir__cuda_reduce reduce_of(const struct weir_backend_node *node)
{
	return (struct weir__cuda_reduce){
		.rows = weir__cuda_outer(&node->src[0], 1),
		.columns = weir__cuda_dim(&node->src[0], 0),
		.k = 1,
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
	};
}

/* One block; of nothing it is 0. */
static void sum_plan(struct weir__cuda_launches *l,
		     const struct weir_backend_node *node)
{
	struct weir__cuda_reduce p = reduce_of(node);

	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_sum, 1, 1,
			      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
}

static void sum_rows_plan(struct weir__cuda_launches *l,
			  const struct weir_backend_node *node)
{
	struct weir__cuda_reduce p = reduce_of(node);

	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_sum_rows, blocks_of(p.rows),
			      1, threads_of(p.columns), 0, &p, sizeof(p));
}

/* The time of the kernel grows with k, and a long one ends the context. */
static int top_k_supports(const struct weir_backend_node *node)
{
	const struct weir_op_top_k *top = node->params;

	if (top->k <= 1024)
		return 0;
	return weir__cuda_refuse(node, "k is %lld, of at most 1024",
				 (long long)top->k);
}

static void top_k_plan(struct weir__cuda_launches *l,
		       const struct weir_backend_node *node)
{
	const struct weir_op_top_k *top = node->params;
	struct weir__cuda_reduce p = reduce_of(node);

	if (node->op == WEIR_OP_TOP_K)
		p.k = top->k;
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_top_k, blocks_of(p.rows), 1,
			      threads_of(p.columns), 0, &p, sizeof(p));
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
	.plan = top_k_plan,
};

const struct weir__cuda_operation weir__cuda_op_top_k = {
	.name = "top_k",
	.dst = WEIR__CUDA_I32,
	.src = { F32 },
	.n_src = 1,
	.supports = top_k_supports,
	.plan = top_k_plan,
};
