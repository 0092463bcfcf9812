/* SPDX-License-Identifier: MIT */
/* Views: shapes, strides and offsets, views of views, bounds, refusals. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "leaf.h"
#include "tap.h"

#define DIMS(...)           \
	(const int64_t[])   \
	{                   \
		__VA_ARGS__ \
	}

static struct weir_graph *g;

/* "[2, 3] / 12, 4 @ 0": shape, strides, offset in the storage. */
static const char *view_of(const struct weir_node *node)
{
	static char text[256];
	const struct weir_tensor *t = weir_node_tensor(node);
	size_t at = 0;

	if (!t)
		return weir_graph_error(g, NULL) ? weir_error() : "NULL";
	at += (size_t)snprintf(text, sizeof(text), "[");
	for (uint32_t i = 0; i < t->ndim; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%lld",
				       i ? ", " : "", (long long)t->shape[i]);
	at += (size_t)snprintf(text + at, sizeof(text) - at, "] /");
	for (uint32_t i = 0; i < t->ndim; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%lld",
				       i ? ", " : " ", (long long)t->stride[i]);
	snprintf(text + at, sizeof(text) - at, " @ %llu",
		 (unsigned long long)t->offset);
	return text;
}

static struct weir_node *matrix(void)
{
	weir_graph_reset(g);
	return leaf(g, "m", WEIR_DTYPE_F32, 2, 4, 6);
}

static struct weir_node *blocks(void)
{
	weir_graph_reset(g);
	return leaf(g, "q", WEIR_DTYPE_Q8_0, 2, 4, 64);
}

static void simple(void)
{
	struct weir_node *m = matrix();

	is_str(view_of(weir_reshape(g, m, 3, DIMS(2, 2, 6))),
	       "[2, 2, 6] / 48, 24, 4 @ 0", "a reshape has the new shape");
	is_str(view_of(weir_reshape(g, m, 1, DIMS(24))), "[24] / 4 @ 0",
	       "a reshape may have fewer dimensions");
	is_str(view_of(weir_permute(g, m, 2, DIMS(1, 0))), "[6, 4] / 4, 24 @ 0",
	       "a permutation moves shape and strides");
	is_str(view_of(weir_transpose(g, m)), "[6, 4] / 4, 24 @ 0",
	       "a transposed matrix is permuted");
	is_str(view_of(weir_slice(g, m, 0, 1, 2)), "[2, 6] / 24, 4 @ 24",
	       "a slice of rows begins at its first row");
	is_str(view_of(weir_slice(g, m, 1, 2, 3)), "[4, 3] / 24, 4 @ 8",
	       "a slice of columns keeps the strides");
	is_str(view_of(weir_slice(g, m, 0, 4, 0)), "[0, 6] / 24, 4 @ 0",
	       "an empty slice may begin at the end");
	is_str(view_of(weir_view(g, m, 2, DIMS(3, 2), DIMS(24, 8), 4)),
	       "[3, 2] / 24, 8 @ 4", "a view has the strides it is given");
	is_str(view_of(weir_reshape(g, F32(g, 0, 0), 2, DIMS(1, 1))),
	       "[1, 1] / 4, 4 @ 0", "one element has any shape of ones");
}

static void of_views(void)
{
	struct weir_node *m = matrix(), *v = weir_slice(g, m, 1, 2, 4);

	is_str(view_of(weir_slice(g, v, 0, 2, 2)), "[2, 4] / 24, 4 @ 56",
	       "offsets of views of views add up");
	is_str(view_of(weir_reshape(g, v, 3, DIMS(4, 2, 2))),
	       "[4, 2, 2] / 24, 8, 4 @ 8",
	       "rows of a slice can be cut without a copy");
	is_str(view_of(weir_reshape(g, v, 3, DIMS(2, 2, 4))),
	       "[2, 2, 4] / 48, 24, 4 @ 8",
	       "rows of a slice can be grouped without a copy");
	is_str(view_of(weir_transpose(g, weir_transpose(g, m))),
	       "[4, 6] / 24, 4 @ 0", "transposing twice changes nothing");
	has_str(view_of(weir_reshape(g, v, 1, DIMS(16))),
		"reshape to [16] needs a copy",
		"rows of a slice cannot be joined without a copy");
	v = weir_slice(g, matrix(), 0, 1, 2);
	has_str(view_of(weir_view(g, v, 1, DIMS(13), DIMS(4), 0)),
		"view of 52 bytes from byte 0 on, the source has 48",
		"a view of a view is bounded by it, not by the leaf");
}

static void bounds(void)
{
	has_str(view_of(weir_view(g, matrix(), 1, DIMS(2), DIMS(4), 92)),
		"view of 8 bytes from byte 92 on, the source has 96: a 'm' F32 [4, 6]",
		"a view that exceeds its source is refused, with both numbers");
	has_str(view_of(weir_view(g, matrix(), 1, DIMS(1), DIMS(4),
				  UINT64_MAX - 3)),
		"the source has 96", "an offset near 2^64 does not wrap");
	has_str(view_of(weir_view(g, matrix(), 2, DIMS(INT64_MAX / 8, 2),
				  DIMS(INT64_MAX - 7, 4), 0)),
		"over 2^63 - 1 bytes", "strides that overflow are refused");
	has_str(view_of(weir_slice(g, matrix(), 0, 3, 2)),
		"slice of 2 elements from 3 on, dimension 0 has 4",
		"a slice that exceeds its dimension is refused");
	has_str(view_of(weir_slice(g, matrix(), 0, 1, INT64_MAX)),
		"dimension 0 has 4", "a slice of 2^63 - 1 elements is refused");
	has_str(view_of(weir_slice(g, matrix(), 2, 0, 1)),
		"slice of dimension 2 of 2",
		"a slice of a dimension that is not there is refused");
	has_str(view_of(weir_slice(g, matrix(), 0, -1, 1)),
		"1 elements from -1 on", "a slice from before 0 is refused");
}

static void refused(void)
{
	struct weir_op_view p = { .how = 9, .ndim = 1, .shape = { 1 } };
	struct weir_node *m;

	has_str(view_of(weir_reshape(g, matrix(), 2, DIMS(5, 5))),
		"reshape to [5, 5]: 25 elements, the source has 24",
		"a reshape to another number of elements is refused");
	has_str(view_of(weir_reshape(g, matrix(), 9,
				     DIMS(1, 1, 1, 1, 1, 1, 1, 1, 24))),
		"9 dimensions, at most 8", "nine dimensions are refused");
	has_str(view_of(weir_permute(g, matrix(), 2, DIMS(0, 0))),
		"permute [0, 0]: each dimension once",
		"a permutation has each dimension once");
	has_str(view_of(weir_permute(g, matrix(), 2, DIMS(0, 2))),
		"each dimension once", "a permutation has no other dimension");
	has_str(view_of(weir_permute(g, matrix(), 3, DIMS(0, 1, 2))),
		"permute 3 dimensions of 2",
		"a permutation has all dimensions");
	has_str(view_of(weir_view(g, matrix(), 1, DIMS(2), DIMS(0), 0)),
		"stride 0 of 0, not a positive multiple of 4",
		"a stride of 0 is refused");
	has_str(view_of(weir_view(g, matrix(), 1, DIMS(2), DIMS(6), 0)),
		"stride 0 of 6, not a positive multiple of 4",
		"a stride of half elements is refused");
	has_str(view_of(weir_view(g, matrix(), 1, DIMS(2), DIMS(4), 2)),
		"offset 2, not a multiple of 4",
		"an offset of half an element is refused");
	m = matrix();
	has_str(view_of(weir_graph_op(g, WEIR_OP_VIEW, &p, sizeof(p), &m, 1)),
		"9 is not an enum weir_view", "an unknown view is refused");
}

static void quantised(void)
{
	struct weir_node *q = blocks();

	is_str(view_of(weir_slice(g, q, 1, 32, 32)), "[4, 32] / 68, 34 @ 34",
	       "a slice of whole blocks is a view");
	is_str(view_of(weir_reshape(g, q, 3, DIMS(2, 2, 64))),
	       "[2, 2, 64] / 136, 68, 34 @ 0",
	       "outer dimensions of blocks are reshaped");
	q = weir_slice(g, q, 1, 32, 32);
	is_str(view_of(weir_reshape(g, q, 3, DIMS(2, 2, 32))),
	       "[2, 2, 32] / 136, 68, 34 @ 34",
	       "a slice of blocks is reshaped in whole blocks");
	has_str(view_of(weir_slice(g, blocks(), 1, 16, 32)),
		"not whole blocks of 32", "half a block is no slice");
	has_str(view_of(weir_reshape(g, blocks(), 2, DIMS(16, 16))),
		"rows are not whole blocks of 32",
		"a reshape to rows of half blocks is refused");
	has_str(view_of(weir_transpose(g, blocks())),
		"blocks of 32 elements stay in the last dimension",
		"blocks are not transposed");
}

/* A leaf whose rows have the same bytes. */
static struct weir_node *repeated(void)
{
	const int64_t shape[] = { 3, 4 };
	struct weir_tensor t;

	weir_graph_reset(g);
	if (weir_tensor_init(&t, WEIR_DTYPE_F32, 2, shape) < 0)
		bail("%s", weir_error());
	t.stride[0] = 0;
	return weir_graph_leaf(g, &t, NULL);
}

static void repeated_rows(void)
{
	is_str(view_of(weir_slice(g, repeated(), 1, 1, 2)), "[3, 2] / 0, 4 @ 4",
	       "rows with the same bytes are sliced");
	has_str(view_of(weir_transpose(g, repeated())),
		"the last dimension of the view, [4, 3], would have a stride",
		"rows with the same bytes are not transposed");
	has_str(view_of(weir_reshape(g, weir_slice(g, repeated(), 1, 0, 1), 1,
				     DIMS(3))),
		"would have a stride of 0",
		"a reshape to a stride of 0 in the last dimension is refused");
}

int main(void)
{
	plan(40);
	g = graph_new();
	simple();
	of_views();
	bounds();
	refused();
	quantised();
	repeated_rows();
	weir_graph_free(g);
	return done_testing();
}
