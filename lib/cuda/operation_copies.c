/* SPDX-License-Identifier: MIT */
/* Copies and conversions, and rows that indices choose. */
#include "cuda/cuda.h"
#include "cuda/launches.h"
#include "cuda/operations.h"

static const struct weir_dtype_info *dtype_of(const struct weir_operand *t)
{
	return weir__cuda_host.dtype(t->dtype);
}

/* As weir__cuda_operand, in units: the blocks of its dtype. */
static struct weir__cuda_operand in_units(const struct weir_operand *t)
{
	struct weir__cuda_operand o = weir__cuda_operand(t);

	o.dim[0] /= dtype_of(t)->block;
	return o;
}

static void units_add(struct weir__cuda_launches *l,
		      const struct weir_operand *dst,
		      const struct weir_operand *a, bool repeat)
{
	const struct weir_dtype_info *info = dtype_of(dst);
	struct weir__cuda_copy p = {
		.n = weir__cuda_outer(dst, 0) / info->block,
		.unit = info->bytes,
		.repeat = repeat,
		.dst = in_units(dst),
		.a = in_units(a),
	};

	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_copy_units,
			      weir__cuda_blocks_for(l, p.n), 1,
			      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
}

static int copy_supports(const struct weir_backend_node *node)
{
	const struct weir_operand *a = &node->src[0], *dst = &node->dst;

	if (!weir__cuda_whole_rows(a) || !weir__cuda_whole_rows(dst))
		return weir__cuda_refuse(node, "rows are not whole blocks");
	if (a->dtype == dst->dtype)
		return 0;
	if (!weir__cuda_is_one_of(WEIR__CUDA_STORED, a->dtype) ||
	    !weir__cuda_is_one_of(WEIR__CUDA_WRITTEN, dst->dtype))
		return weir__cuda_refuse(node, "no conversion to %s",
					 dtype_of(dst)->name);
	return 0;
}

/* True if elements are written as blocks: Q8_0 or Q4_0. */
static bool has_blocks(const struct weir_operand *t)
{
	return dtype_of(t)->block > 1;
}

static void blocks_add(struct weir__cuda_launches *l,
		       const struct weir_operand *dst,
		       const struct weir_operand *a)
{
	struct weir__cuda_copy p = {
		.n = weir__cuda_outer(dst, 0) / dtype_of(dst)->block,
		.dst = in_units(dst),
		.a = weir__cuda_operand(a),
	};

	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_copy_blocks,
			      weir__cuda_blocks_for(l, 32 * p.n), 1,
			      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
}

static void copy_plan(struct weir__cuda_launches *l,
		      const struct weir_backend_node *node)
{
	const struct weir_operand *a = &node->src[0], *dst = &node->dst;
	struct weir__cuda_copy p = {
		.n = weir__cuda_outer(dst, 0),
		.dst = weir__cuda_operand(dst),
		.a = weir__cuda_operand(a),
	};

	if (a->dtype == dst->dtype)
		units_add(l, dst, a, false);
	else if (has_blocks(dst))
		blocks_add(l, dst, a);
	else
		weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_copy_floats,
				      weir__cuda_blocks_for(l, p.n), 1,
				      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
}

static void concat_plan(struct weir__cuda_launches *l,
			const struct weir_backend_node *node)
{
	const struct weir_op_concat *c = node->params;
	int64_t at = 0;

	for (uint32_t i = 0; i < 2; i++) {
		const struct weir_operand *a = &node->src[i];
		struct weir_operand d = node->dst;
		int64_t units = at;

		if (c->dim + 1 == d.ndim)
			units /= dtype_of(&d)->block;
		if (d.data)
			d.data = (unsigned char *)d.data +
				 units * d.stride[c->dim];
		d.shape[c->dim] = a->shape[c->dim];
		units_add(l, &d, a, false);
		at += a->shape[c->dim];
	}
}

static void repeat_plan(struct weir__cuda_launches *l,
			const struct weir_backend_node *node)
{
	units_add(l, &node->dst, &node->src[0], true);
}

/* Their kernels may find an index that is out of range. */
static void index_add(struct weir__cuda_launches *l,
		      enum weir__cuda_kernel_id kernel, uint64_t threads,
		      struct weir__cuda_index *p)
{
	l->checks = true;
	p->node = l->n_nodes + 1;
	weir__cuda_launch_add(l, kernel, weir__cuda_blocks_for(l, threads), 1,
			      WEIR__CUDA_THREADS, 0, p, sizeof(*p));
}

static void get_rows_plan(struct weir__cuda_launches *l,
			  const struct weir_backend_node *node)
{
	struct weir__cuda_index p = {
		.n = weir__cuda_outer(&node->dst, 0),
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
		.ids = weir__cuda_source(node, 1),
	};

	index_add(l, WEIR__CUDA_KERNEL_get_rows, p.n, &p);
}

struct weir__cuda_index
weir__cuda_set_rows_of(const struct weir_backend_node *node, uint64_t number)
{
	const struct weir_operand *b = &node->src[1];
	struct weir__cuda_index p = {
		.node = number,
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_operand(b),
		.ids = weir__cuda_source(node, 2),
	};

	if (weir__cuda_outer(b, 0))
		p.n = weir__cuda_outer(b, 2) * (uint64_t)weir__cuda_dim(b, 0) /
		      dtype_of(&node->dst)->block;
	return p;
}

static void set_rows_plan(struct weir__cuda_launches *l,
			  const struct weir_backend_node *node)
{
	struct weir__cuda_index p = weir__cuda_set_rows_of(node, 0);

	if (has_blocks(&node->dst))
		index_add(l, WEIR__CUDA_KERNEL_set_rows_blocks, 32 * p.n, &p);
	else
		index_add(l, WEIR__CUDA_KERNEL_set_rows, p.n, &p);
}

static int whole_rows(const struct weir_backend_node *node)
{
	return weir__cuda_whole_rows(&node->src[0])
		       ? 0
		       : weir__cuda_refuse(node, "rows are not whole blocks");
}

const struct weir__cuda_operation weir__cuda_op_copy = {
	.name = "copy",
	.n_src = 2,
	.supports = copy_supports,
	.plan = copy_plan,
};

const struct weir__cuda_operation weir__cuda_op_cont = {
	.name = "cont",
	.n_src = 1,
	.supports = copy_supports,
	.plan = copy_plan,
};

const struct weir__cuda_operation weir__cuda_op_concat = {
	.name = "concat",
	.n_src = 2,
	.supports = copy_supports,
	.plan = concat_plan,
};

const struct weir__cuda_operation weir__cuda_op_repeat = {
	.name = "repeat",
	.n_src = 1,
	.supports = copy_supports,
	.plan = repeat_plan,
};

const struct weir__cuda_operation weir__cuda_op_get_rows = {
	.name = "get_rows",
	.dst = WEIR__CUDA_F32 | WEIR__CUDA_I32,
	.src = { WEIR__CUDA_STORED | WEIR__CUDA_I32, WEIR__CUDA_INDICES },
	.n_src = 2,
	.supports = whole_rows,
	.plan = get_rows_plan,
};

const struct weir__cuda_operation weir__cuda_op_set_rows = {
	.name = "set_rows",
	.dst = WEIR__CUDA_WRITTEN,
	.src = { WEIR__CUDA_WRITTEN, WEIR__CUDA_FLOATS, WEIR__CUDA_INDICES },
	.n_src = 3,
	.supports = whole_rows,
	.plan = set_rows_plan,
};
