/* SPDX-License-Identifier: MIT */
/* Products. */
#include "cuda/launches.h"
#include "cuda/operations.h"

#define COLUMNS 4u /* of a warp: products.cu */
#define MOST_BLOCKS 0x7fffffffu

static int mul_mat_supports(const struct weir_backend_node *node)
{
	return weir__cuda_whole_rows(&node->src[0])
		       ? 0
		       : weir__cuda_refuse(node, "rows are not whole blocks");
}

static enum weir__cuda_kernel_id kernel_of(uint32_t dtype)
{
	switch (dtype) {
	case WEIR_DTYPE_F16:
		return WEIR__CUDA_KERNEL_mul_mat_f16;
	case WEIR_DTYPE_BF16:
		return WEIR__CUDA_KERNEL_mul_mat_bf16;
	case WEIR_DTYPE_F32:
		return WEIR__CUDA_KERNEL_mul_mat_f32;
	default:
		return WEIR__CUDA_KERNEL_mul_mat_quants;
	}
}

struct weir__cuda_product
weir__cuda_product_of(const struct weir_backend_node *node)
{
	return (struct weir__cuda_product){
		.m = weir__cuda_dim(&node->src[0], 1),
		.n = weir__cuda_dim(&node->src[1], 1),
		.k = weir__cuda_dim(&node->src[0], 0),
		.batches = weir__cuda_outer(&node->dst, 2),
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
		.b = weir__cuda_source(node, 1),
	};
}

/* A warp for each row of a and group of columns. */
static void mul_mat_plan(struct weir__cuda_launches *l,
			 const struct weir_backend_node *node)
{
	struct weir__cuda_product p = weir__cuda_product_of(node);
	const struct weir_op_mul_mat *o = node->params;
	const uint64_t warps = WEIR__CUDA_THREADS / 32;
	uint64_t blocks = weir__cuda_outer(&node->dst, 0) ? p.batches : 0;

	if (weir__cuda_cublaslt_mul_mat(l, node) ||
	    weir__cuda_tiles_mul_mat(l, node) ||
	    weir__cuda_matvec_plan(l, &p, false, o->precision))
		return;
	blocks *= (uint64_t)p.m * (((uint64_t)p.n + COLUMNS - 1) / COLUMNS);
	blocks = blocks / warps + !!(blocks % warps);
	weir__cuda_launch_add(l, kernel_of(p.a.dtype),
			      blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, 1,
			      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
}

/* A warp for each row of a and column. */
static void mul_mat_id_plan(struct weir__cuda_launches *l,
			    const struct weir_backend_node *node)
{
	struct weir__cuda_product p = {
		.m = weir__cuda_dim(&node->dst, 0),
		.n = weir__cuda_dim(&node->dst, 1),
		.k = weir__cuda_dim(&node->src[0], 0),
		.batches = (uint64_t)weir__cuda_dim(&node->dst, 2),
		.node = l->n_nodes + 1,
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
		.b = weir__cuda_source(node, 1),
		.ids = weir__cuda_source(node, 2),
	};
	const struct weir_op_mul_mat *o = node->params;
	const uint64_t warps = WEIR__CUDA_THREADS / 32;
	uint64_t blocks = weir__cuda_outer(&node->dst, 0);

	l->checks = true;
	if (weir__cuda_tiles_mul_mat_id(l, node) ||
	    weir__cuda_matvec_plan(l, &p, true, o->precision))
		return;
	blocks = blocks / warps + !!(blocks % warps);
	weir__cuda_launch_add(l, kernel_of(p.a.dtype),
			      blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, 1,
			      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
}

#define FLOATS WEIR__CUDA_FLOATS
#define STORED WEIR__CUDA_STORED

const struct weir__cuda_operation weir__cuda_op_mul_mat = {
	.name = "mul_mat",
	.dst = WEIR__CUDA_F32,
	.src = { STORED, FLOATS },
	.n_src = 2,
	.supports = mul_mat_supports,
	.plan = mul_mat_plan,
};

const struct weir__cuda_operation weir__cuda_op_mul_mat_id = {
	.name = "mul_mat_id",
	.dst = WEIR__CUDA_F32,
	.src = { STORED, FLOATS, WEIR__CUDA_I32 },
	.n_src = 3,
	.supports = mul_mat_supports,
	.plan = mul_mat_id_plan,
};
