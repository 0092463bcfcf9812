/* SPDX-License-Identifier: MIT */
/*
 * Copies: copy, cont, concat, repeat. Elements keep their order, whatever the
 * shapes and strides of both sides. A part is a range of elements.
 */
#include <string.h>

#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/walk.h"

#define lib weir__cpu_host
#define CHUNK WEIR__FLOATS /* elements that are converted at a time */

/* A position in a tensor; it counts blocks of the dtype. */
struct cursor {
	struct weir__walk walk;
	const struct weir_dtype_info *info;
	int64_t columns, column; /* blocks of a row; the next one */
	int64_t stride;          /* bytes from a block to the next */
	unsigned char *row;
};

/* Start at block @at. A contiguous tensor is treated as one row. */
static void cursor_start(struct cursor *c, const struct weir_operand *t,
			 int64_t at)
{
	int64_t row;

	c->info = lib->dtype(t->dtype);
	c->columns = weir__dim(t, 0) / c->info->block;
	c->stride = weir__stride(t, 0);
	if (weir__contiguous(t, c->info->bytes, c->info->block)) {
		c->columns = weir__elements(t) / c->info->block;
		c->stride = c->info->bytes;
	}
	row = c->columns ? at / c->columns : 0;
	c->column = c->columns ? at % c->columns : 0;
	weir__walk_start(&c->walk, t, row);
	c->row = weir__walk_at(&c->walk, t);
}

/* Return the blocks up to the end of the row, at most @n. */
static int64_t cursor_left(const struct cursor *c, int64_t n)
{
	return n < c->columns - c->column ? n : c->columns - c->column;
}

/* The same for blocks that have no gap between them. */
static int64_t cursor_blocks(const struct cursor *c, int64_t n)
{
	return c->stride == (int64_t)c->info->bytes ? cursor_left(c, n) : 1;
}

static unsigned char *cursor_at(const struct cursor *c)
{
	return c->row + c->column * c->stride;
}

static void cursor_go(struct cursor *c, int64_t n)
{
	c->column += n;
	if (c->column < c->columns)
		return;
	c->column = 0;
	weir__walk_next(&c->walk);
	c->row = weir__walk_at(&c->walk, c->walk.of);
}

#define MOVE_STRIDED(bytes_)            \
	for (int64_t i = 0; i < n; i++) \
	memcpy(d + i * d_stride, s + i * s_stride, bytes_)
static void move_units(unsigned char *d, int64_t d_stride,
		       const unsigned char *s, int64_t s_stride, int64_t n,
		       size_t bytes)
{
	if (d_stride == (int64_t)bytes && s_stride == (int64_t)bytes)
		memcpy(d, s, (size_t)n * bytes);
	else if (bytes == 4)
		MOVE_STRIDED(4);
	else if (bytes == 2)
		MOVE_STRIDED(2);
	else
		MOVE_STRIDED(bytes);
}

/*
 * Copy the blocks [@at, @end) of @a to those of @dst, which has the same dtype.
 */
static void copy_blocks(const struct weir_operand *dst,
			const struct weir_operand *a, int64_t at, int64_t end)
{
	struct cursor d, s;

	if (at >= end)
		return;
	cursor_start(&d, dst, at);
	cursor_start(&s, a, at);
	for (int64_t n; at < end; at += n) {
		n = cursor_left(&d, cursor_left(&s, end - at));
		move_units(cursor_at(&d), d.stride, cursor_at(&s), s.stride, n,
			   d.info->bytes);
		cursor_go(&d, n);
		cursor_go(&s, n);
	}
}

/* Convert the next @n elements, whole blocks, to F32 at @tmp. */
static void read_floats(struct cursor *c, float *tmp, int64_t n)
{
	const struct weir_backend_convert *convert =
		weir__to_f32(c->walk.of->dtype);
	int64_t block = c->info->block, blocks;
	const float *x;

	for (; n > 0; n -= blocks * block, tmp += blocks * block) {
		blocks = block > 1 ? cursor_blocks(c, n / block)
				   : cursor_left(c, n);
		if (block > 1) {
			convert->run(tmp, cursor_at(c), (size_t)blocks);
		} else {
			x = weir__floats_in(c->walk.of->dtype, cursor_at(c),
					    c->stride, (size_t)blocks, tmp);
			if (x != tmp)
				memcpy(tmp, x, (size_t)blocks * sizeof(*tmp));
		}
		cursor_go(c, blocks);
	}
}

static void write_floats(struct cursor *c, const float *from, int64_t n)
{
	uint32_t dtype = c->walk.of->dtype;
	int64_t block = c->info->block, blocks;

	for (; n > 0; n -= blocks * block, from += blocks * block) {
		blocks = block > 1 ? cursor_blocks(c, n / block)
				   : cursor_left(c, n);
		if (block > 1 || c->stride == (int64_t)c->info->bytes)
			weir__encode(dtype, cursor_at(c), from,
				     (size_t)(blocks * block));
		else
			weir__floats_out(dtype, cursor_at(c), c->stride, from,
					 (size_t)blocks);
		cursor_go(c, blocks);
	}
}

/* Convert the elements [@at, @end), which are whole blocks of both dtypes. */
static void convert_elements(const struct weir_operand *dst,
			     const struct weir_operand *a, int64_t at,
			     int64_t end)
{
	float tmp[CHUNK];
	struct cursor d, s;

	if (at >= end)
		return;
	cursor_start(&d, dst, at / lib->dtype(dst->dtype)->block);
	cursor_start(&s, a, at / lib->dtype(a->dtype)->block);
	for (int64_t n; at < end; at += n) {
		n = end - at < CHUNK ? end - at : CHUNK;
		read_floats(&s, tmp, n);
		write_floats(&d, tmp, n);
	}
}

/*
 * Rows must consist of whole blocks, and the dtype to write must be one of
 * weir__encodes().
 */
static int copy_supports(const struct weir_backend_node *node)
{
	const struct weir_operand *a = &node->src[0], *dst = &node->dst;
	const struct weir_dtype_info *from = lib->dtype(a->dtype);
	const struct weir_dtype_info *to = lib->dtype(dst->dtype);

	if (weir__dim(a, 0) % from->block || weir__dim(dst, 0) % to->block)
		return weir__kernel_refuse(node, "rows are not whole blocks");
	if (a->dtype == dst->dtype)
		return 0;
	if (a->dtype != WEIR_DTYPE_F32 && !weir__to_f32(a->dtype))
		return weir__kernel_refuse(node, "a is not converted to F32");
	if (!weir__encodes(dst->dtype))
		return weir__kernel_refuse(node, "no conversion to %s",
					   to->name);
	return 0;
}

static void copy_plan(const struct weir_backend_node *node, unsigned threads,
		      struct weir__kernel_plan *ret)
{
	uint64_t n = (uint64_t)weir__elements(&node->dst);

	ret->cost = n / 2;
	ret->parts = weir__kernel_parts(ret->cost, n / CHUNK, threads);
}

static int copy_run(const struct weir__kernel_run *run)
{
	const struct weir_operand *a = &run->node->src[0],
				  *dst = &run->node->dst;
	int64_t n = weir__elements(dst), at, end;

	if (a->dtype == dst->dtype) {
		weir__kernel_range(run, n / lib->dtype(dst->dtype)->block, &at,
				   &end);
		copy_blocks(dst, a, at, end);
		return 0;
	}
	weir__kernel_range(run, (n + CHUNK - 1) / CHUNK, &at, &end);
	at *= CHUNK;
	end = end * CHUNK < n ? end * CHUNK : n;
	convert_elements(dst, a, at, end);
	return 0;
}

const struct weir__kernel weir__kernel_copy = {
	.op = WEIR_OP_COPY,
	.name = "copy",
	.supports = copy_supports,
	.plan = copy_plan,
	.run = copy_run,
};

const struct weir__kernel weir__kernel_cont = {
	.op = WEIR_OP_CONT,
	.name = "cont",
	.supports = copy_supports,
	.plan = copy_plan,
	.run = copy_run,
};

/*
 * Return the part of the result that source @i fills: from index @at of the
 * dimension.
 */
static struct weir_operand joined(const struct weir_backend_node *node,
				  uint32_t i, int64_t at)
{
	const struct weir_op_concat *p = node->params;
	struct weir_operand d = node->dst;

	if (p->dim + 1 == d.ndim)
		at /= lib->dtype(d.dtype)->block;
	d.data = (unsigned char *)d.data + at * d.stride[p->dim];
	d.shape[p->dim] = node->src[i].shape[p->dim];
	return d;
}

static int concat_run(const struct weir__kernel_run *run)
{
	const struct weir_backend_node *node = run->node;
	const struct weir_op_concat *p = node->params;
	int64_t before = 0, at, end;

	for (uint32_t i = 0; i < 2; i++) {
		const struct weir_operand *a = &node->src[i];
		struct weir_operand d = joined(node, i, before);

		weir__kernel_range(
			run, weir__elements(a) / lib->dtype(a->dtype)->block,
			&at, &end);
		copy_blocks(&d, a, at, end);
		before += a->shape[p->dim];
	}
	return 0;
}

const struct weir__kernel weir__kernel_concat = {
	.op = WEIR_OP_CONCAT,
	.name = "concat",
	.supports = copy_supports,
	.plan = copy_plan,
	.run = concat_run,
};

static void repeat_plan(const struct weir_backend_node *node, unsigned threads,
			struct weir__kernel_plan *ret)
{
	copy_plan(node, threads, ret);
	ret->parts = weir__kernel_parts(
		ret->cost, (uint64_t)weir__rows(&node->dst), threads);
}

static int repeat_run(const struct weir__kernel_run *run)
{
	const struct weir_operand *a = &run->node->src[0],
				  *dst = &run->node->dst;
	const struct weir_dtype_info *info = lib->dtype(dst->dtype);
	int64_t n = weir__dim(a, 0) / info->block;
	int64_t columns = weir__dim(dst, 0) / info->block;
	int64_t stride = weir__stride(dst, 0);
	struct weir__walk w;
	int64_t row, end = weir__kernel_rows(run, dst, &w, &row);

	for (; row < end; row++, weir__walk_next(&w))
		for (int64_t at = 0; at < columns; at += n)
			move_units(weir__walk_at(&w, dst) + at * stride, stride,
				   weir__walk_at(&w, a), weir__stride(a, 0), n,
				   info->bytes);
	return 0;
}

const struct weir__kernel weir__kernel_repeat = {
	.op = WEIR_OP_REPEAT,
	.name = "repeat",
	.supports = copy_supports,
	.plan = repeat_plan,
	.run = repeat_run,
};
