/* SPDX-License-Identifier: MIT */
/*
 * Operations on one element at a time. Rows are computed in blocks of up to
 * WEIR__FLOATS elements, as F32. A part is a range of elements, wherever rows
 * begin.
 */
#include <string.h>

#include <weir/tensor.h>

#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/vec.h"
#include "kernels/walk.h"

#define BLOCK WEIR__FLOATS

static int float_supports(const struct weir_backend_node *node)
{
	for (uint32_t i = 0; i < node->n_src; i++)
		if (!weir__is_float(node->src[i].dtype))
			return weir__kernel_refuse(node, "not floating-point");
	return 0;
}

/* 4 bytes are read or written in 0.2 ns, about. */
static void plan_elements(const struct weir_backend_node *node,
			  unsigned threads, struct weir__kernel_plan *ret,
			  unsigned tenths)
{
	uint64_t n = (uint64_t)weir__elements(&node->dst);

	ret->cost = n / 10 * tenths;
	ret->parts = weir__kernel_parts(ret->cost, n / BLOCK, threads);
}

static void plan_simple(const struct weir_backend_node *node, unsigned threads,
			struct weir__kernel_plan *ret)
{
	plan_elements(node, threads, ret, 4);
}

static void plan_exp(const struct weir_backend_node *node, unsigned threads,
		     struct weir__kernel_plan *ret)
{
	plan_elements(node, threads, ret, 8);
}

/* Elements of a row that are computed at a time. */
struct element_block {
	unsigned char *p[3]; /* address of the first element in dst, a and b */
	int64_t column;      /* its column */
	size_t n;
};

/*
 * True if the rows of @t are arrays of F32. Those of a leaf may have any pitch.
 */
static bool is_direct(const struct weir_operand *t, int64_t columns)
{
	for (unsigned i = 1; i < t->ndim; i++)
		if (weir__stride(t, i) % (int64_t)sizeof(float))
			return false;
	return t->dtype == WEIR_DTYPE_F32 && weir__dim(t, 0) == columns &&
	       weir__stride(t, 0) == (int64_t)sizeof(float) &&
	       (uintptr_t)t->data % sizeof(float) == 0;
}

/*
 * Return the most elements of a block: any number, if none is copied or
 * converted.
 */
static int64_t block_most(const struct weir_backend_node *node)
{
	int64_t columns = weir__dim(&node->dst, 0);
	bool direct = is_direct(&node->dst, columns);

	for (uint32_t i = 0; i < node->n_src; i++)
		direct = direct && is_direct(&node->src[i], columns);
	return direct ? columns : BLOCK;
}

/* Call @each for the blocks of this part. */
static void each_block(const struct weir__kernel_run *run,
		       void (*each)(const struct weir__kernel_run *run,
				    const struct element_block *block))
{
	const struct weir_backend_node *node = run->node;
	const struct weir_operand *dst = &node->dst;
	int64_t at, end, columns = weir__dim(dst, 0), most = block_most(node);
	struct weir__walk w;
	struct element_block block;

	weir__kernel_range(run, weir__elements(dst), &at, &end);
	if (at == end)
		return;
	weir__walk_start(&w, dst, at / columns);
	block.column = at % columns;
	while (at < end) {
		int64_t n = columns - block.column;

		n = n < end - at ? n : end - at;
		block.n = (size_t)(n < most ? n : most);
		block.p[0] = weir__walk_at(&w, dst) +
			     block.column * weir__stride(dst, 0);
		for (uint32_t i = 0; i < node->n_src && i < 2; i++)
			block.p[i + 1] = weir__walk_at(&w, &node->src[i]);
		each(run, &block);
		at += (int64_t)block.n;
		block.column += (int64_t)block.n;
		if (block.column == columns) {
			block.column = 0;
			weir__walk_next(&w);
		}
	}
}

/* Return the block's elements of source @i, whose rows are not repeated. */
static const float *block_in(const struct weir_backend_node *node,
			     const struct element_block *block, unsigned i,
			     float *tmp)
{
	const struct weir_operand *t = &node->src[i];
	int64_t stride = weir__stride(t, 0);

	return weir__floats_in(t->dtype,
			       block->p[i + 1] + block->column * stride, stride,
			       block->n, tmp);
}

/* Return the block's elements of source 1, F32, whose rows are repeated. */
static const float *block_repeated(const struct weir_backend_node *node,
				   const struct element_block *block,
				   float *tmp)
{
	const struct weir_operand *t = &node->src[1];
	int64_t n = weir__dim(t, 0), stride = weir__stride(t, 0);
	int64_t at = block->column % n;

	if (n == weir__dim(&node->dst, 0))
		return block_in(node, block, 1, tmp);
	for (size_t i = 0; i < block->n; i++) {
		memcpy(&tmp[i], block->p[2] + at * stride, sizeof(*tmp));
		at = at + 1 < n ? at + 1 : 0;
	}
	return tmp;
}

static float *block_room(const struct weir_backend_node *node,
			 const struct element_block *block, float *tmp)
{
	return weir__floats_room(node->dst.dtype, block->p[0],
				 weir__stride(&node->dst, 0), tmp);
}

static void block_out(const struct weir_backend_node *node,
		      const struct element_block *block, const float *from)
{
	weir__floats_out(node->dst.dtype, block->p[0],
			 weir__stride(&node->dst, 0), from, block->n);
}

static void block_map1(const struct weir__kernel_run *run,
		       const struct element_block *block, weir__vec_map1 *map)
{
	float in[BLOCK], out[BLOCK], *d = block_room(run->node, block, out);

	map(d, block_in(run->node, block, 0, in), block->n);
	block_out(run->node, block, d);
}

static void block_map2(const struct weir__kernel_run *run,
		       const struct element_block *block, const float *b,
		       weir__vec_map2 *map)
{
	float in[BLOCK], out[BLOCK], *d = block_room(run->node, block, out);

	map(d, block_in(run->node, block, 0, in), b, block->n);
	block_out(run->node, block, d);
}

/* Define the kernel whose blocks name_block() computes. */
#define KERNEL(op_, name_, plan_)                                  \
	static int name_##_run(const struct weir__kernel_run *run) \
	{                                                          \
		each_block(run, name_##_block);                    \
		return 0;                                          \
	}                                                          \
	const struct weir__kernel weir__kernel_##name_ = {         \
		.op = WEIR_OP_##op_,                               \
		.name = #name_,                                    \
		.supports = float_supports,                        \
		.plan = plan_,                                     \
		.run = name_##_run,                                \
	};

#define MAP1(op_, name_)                                              \
	static void name_##_block(const struct weir__kernel_run *run, \
				  const struct element_block *block)  \
	{                                                             \
		block_map1(run, block, weir__vec()->name_);           \
	}                                                             \
	KERNEL(op_, name_, plan_exp)
MAP1(SQR, sqr)
MAP1(SILU, silu)
MAP1(GELU, gelu)
MAP1(GELU_ERF, gelu_erf)
MAP1(RELU, relu)
MAP1(TANH, tanh)
MAP1(SIGMOID, sigmoid)
MAP1(EXP, exp)
MAP1(SQRT, sqrt)

#define MAP2(op_, name_)                                                    \
	static void name_##_block(const struct weir__kernel_run *run,       \
				  const struct element_block *block)        \
	{                                                                   \
		float b[BLOCK];                                             \
                                                                            \
		block_map2(run, block, block_repeated(run->node, block, b), \
			   weir__vec()->name_);                             \
	}                                                                   \
	KERNEL(op_, name_, plan_simple)
MAP2(ADD, add)
MAP2(SUB, sub)
MAP2(MUL, mul)
MAP2(DIV, div)

static void swiglu_block(const struct weir__kernel_run *run,
			 const struct element_block *block)
{
	float up[BLOCK];

	block_map2(run, block, block_in(run->node, block, 1, up),
		   weir__vec()->swiglu);
}
KERNEL(SWIGLU, swiglu, plan_exp)

static void scale_block(const struct weir__kernel_run *run,
			const struct element_block *block)
{
	const struct weir_op_scale *p = run->node->params;
	float in[BLOCK], out[BLOCK], *d = block_room(run->node, block, out);

	weir__vec()->scale(d, block_in(run->node, block, 0, in), p->scale,
			   p->bias, block->n);
	block_out(run->node, block, d);
}
KERNEL(SCALE, scale, plan_simple)

static void clamp_block(const struct weir__kernel_run *run,
			const struct element_block *block)
{
	const struct weir_op_clamp *p = run->node->params;
	float in[BLOCK], out[BLOCK], *d = block_room(run->node, block, out);

	weir__vec()->clamp(d, block_in(run->node, block, 0, in), p->min, p->max,
			   block->n);
	block_out(run->node, block, d);
}
KERNEL(CLAMP, clamp, plan_simple)
