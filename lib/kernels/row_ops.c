/* SPDX-License-Identifier: MIT */
/* Rows that indices choose: get_rows, set_rows. */
#include <errno.h>
#include <string.h>

#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/walk.h"

#define lib weir__cpu_host

/* True if the rows of @t consist of whole blocks. */
static bool whole_rows(const struct weir_operand *t)
{
	const struct weir_dtype_info *info = lib->dtype(t->dtype);

	return info && weir__dim(t, 0) % info->block == 0;
}

/*
 * Return the index in ids for @w: the last dimension of ids is dimension 1 of a
 * result.
 */
static int64_t index_at(const struct weir__walk *w,
			const struct weir_operand *ids)
{
	const unsigned char *p = ids->data;
	int64_t wide;
	int32_t narrow;

	for (unsigned i = 0; i < ids->ndim; i++)
		p += w->index[i + 1] % weir__dim(ids, i) * weir__stride(ids, i);
	if (ids->dtype == WEIR_DTYPE_I64) {
		memcpy(&wide, p, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, p, sizeof(narrow));
	return narrow;
}

/* Return row @index of @t at the other dimensions of @w. */
static unsigned char *row_at(const struct weir__walk *w,
			     const struct weir_operand *t, int64_t index)
{
	struct weir__walk at = *w;

	at.index[1] = index;
	return weir__walk_at(&at, t);
}

static int index_check(const struct weir__kernel_run *run,
		       const struct weir__walk *w, int64_t index, int64_t rows)
{
	if (index >= 0 && index < rows)
		return 0;
	return weir__kernel_fail(run, -EINVAL,
				 "index %lld at %lld is not one of %lld rows",
				 (long long)index, (long long)w->index[1],
				 (long long)rows);
}

static int get_rows_supports(const struct weir_backend_node *node)
{
	uint32_t dtype = node->src[0].dtype;

	if (dtype != WEIR_DTYPE_I32 && dtype != WEIR_DTYPE_F32 &&
	    !weir__to_f32(dtype))
		return weir__kernel_refuse(node, "a is not converted to F32");
	if (!whole_rows(&node->src[0]))
		return weir__kernel_refuse(node, "rows are not whole blocks");
	return 0;
}

static void get_rows_plan(const struct weir_backend_node *node,
			  unsigned threads, struct weir__kernel_plan *ret)
{
	ret->cost = (uint64_t)weir__elements(&node->dst) / 2;
	ret->parts = weir__kernel_parts(
		ret->cost, (uint64_t)weir__rows(&node->dst), threads);
}

static void get_row(const struct weir_backend_convert *convert, void *d,
		    const void *a, size_t n)
{
	if (convert)
		convert->run(d, a, n / convert->block);
	else
		memcpy(d, a, n * sizeof(float));
}

/* Bytes of a row that a reader reads at once, on the stack of a thread. */
#define ROOM (8u << 10)

/* Get a row of a missing source, from byte @at on, in parts of whole blocks. */
static int read_through_row(const struct weir__kernel_run *run,
			    const struct weir_backend_convert *convert,
			    unsigned char *d, uint64_t at, size_t n)
{
	const struct weir_operand *a = &run->node->src[0];
	const struct weir_dtype_info *info = lib->dtype(a->dtype);
	struct weir_backend_reader *p = run->node->reader;
	_Alignas(64) unsigned char room[ROOM];
	size_t most = ROOM / info->bytes * info->bytes, elements;
	size_t left = n / info->block * info->bytes, bytes;
	int r = 0;

	for (; left; left -= bytes, at += bytes) {
		const unsigned char *got;

		bytes = left;
		got = weir__kernel_get(run, at, &bytes, room, most, &r);
		if (!got)
			return r;
		elements = bytes / info->bytes * info->block;
		get_row(convert, d, got, elements);
		d += elements * sizeof(float);
		if (got != room)
			p->put(p, got);
	}
	return 0;
}

/* True if rows are contiguous: they are read one by one. */
static bool get_rows_takes_reader(const struct weir_backend_node *node)
{
	(void)node;
	return true;
}

static int get_rows_run(const struct weir__kernel_run *run)
{
	const struct weir_backend_node *node = run->node;
	const struct weir_operand *a = &node->src[0], *dst = &node->dst;
	const struct weir_backend_convert *convert =
		dst->dtype == WEIR_DTYPE_F32 ? weir__to_f32(a->dtype) : NULL;
	bool read_through = weir__reads_through(node);
	size_t n = (size_t)weir__dim(dst, 0);
	struct weir__walk w;
	int64_t row, end = weir__kernel_rows(run, dst, &w, &row), index;
	int r;

	for (; row < end; row++, weir__walk_next(&w)) {
		index = index_at(&w, &node->src[1]);
		r = index_check(run, &w, index, weir__dim(a, 1));
		if (r < 0)
			return r;
		if (!read_through)
			get_row(convert, weir__walk_at(&w, dst),
				row_at(&w, a, index), n);
		else
			r = read_through_row(
				run, convert, weir__walk_at(&w, dst),
				(uintptr_t)row_at(&w, a, index) -
					(uintptr_t)node->reader->place,
				n);
		if (r < 0)
			return r;
	}
	return 0;
}

const struct weir__kernel weir__kernel_get_rows = {
	.op = WEIR_OP_GET_ROWS,
	.name = "get_rows",
	.supports = get_rows_supports,
	.plan = get_rows_plan,
	.run = get_rows_run,
	.takes_reader = get_rows_takes_reader,
};

static int set_rows_supports(const struct weir_backend_node *node)
{
	if (!weir__is_float(node->src[1].dtype))
		return weir__kernel_refuse(node, "b is not floating-point");
	if (!weir__encodes(node->dst.dtype))
		return weir__kernel_refuse(node, "no conversion to %s",
					   lib->dtype(node->dst.dtype)->name);
	if (!whole_rows(&node->dst))
		return weir__kernel_refuse(node, "rows are not whole blocks");
	return 0;
}

/*
 * Elements of a row that a part has at least: whole blocks of any dtype, whole
 * cache lines.
 */
#define COLUMNS 256

/*
 * A part is a range of columns of all rows: so no two threads write the same
 * row if its index is there twice.
 */
static void set_rows_plan(const struct weir_backend_node *node,
			  unsigned threads, struct weir__kernel_plan *ret)
{
	const struct weir_operand *b = &node->src[1];

	ret->cost = (uint64_t)weir__elements(b) / 2;
	ret->parts = weir__kernel_parts(
		ret->cost, (uint64_t)weir__dim(b, 0) / COLUMNS, threads);
}

/* Write the columns [@at, @end) of a row. */
static void set_row(const struct weir_backend_node *node, unsigned char *d,
		    const unsigned char *b, int64_t at, int64_t end)
{
	uint32_t to = node->dst.dtype, from = node->src[1].dtype;
	const struct weir_dtype_info *info = lib->dtype(to);
	int64_t stride = weir__stride(&node->src[1], 0), n;
	float tmp[WEIR__FLOATS];

	for (; at < end; at += n) {
		n = end - at < WEIR__FLOATS ? end - at : WEIR__FLOATS;
		weir__encode(to, d + at / info->block * info->bytes,
			     weir__floats_in(from, b + at * stride, stride,
					     (size_t)n, tmp),
			     (size_t)n);
	}
}

static int set_rows_run(const struct weir__kernel_run *run)
{
	const struct weir_backend_node *node = run->node;
	const struct weir_operand *dst = &node->dst, *b = &node->src[1];
	int64_t columns = weir__dim(b, 0), at, end, index;
	struct weir__walk w;
	int r;

	weir__kernel_range(run, (columns + COLUMNS - 1) / COLUMNS, &at, &end);
	at *= COLUMNS;
	end = end * COLUMNS < columns ? end * COLUMNS : columns;
	weir__walk_start(&w, b, 0);
	for (int64_t row = weir__rows(b); row > 0; row--) {
		index = index_at(&w, &node->src[2]);
		r = index_check(run, &w, index, weir__dim(dst, 1));
		if (r < 0)
			return r;
		set_row(node, row_at(&w, dst, index), weir__walk_at(&w, b), at,
			end);
		weir__walk_next(&w);
	}
	return 0;
}

const struct weir__kernel weir__kernel_set_rows = {
	.op = WEIR_OP_SET_ROWS,
	.name = "set_rows",
	.supports = set_rows_supports,
	.plan = set_rows_plan,
	.run = set_rows_run,
};
