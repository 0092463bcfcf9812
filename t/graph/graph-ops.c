/* SPDX-License-Identifier: MIT */
/*
 * Every operation: the result of sources that fit, and the sentence about those
 * that do not. A row makes one node in an empty graph.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "leaf.h"
#include "tap.h"

#define D(...)              \
	(const int64_t[])   \
	{                   \
		__VA_ARGS__ \
	}
#define N(dtype, ndim, ...) \
	leaf(g, #dtype, WEIR_DTYPE_##dtype, ndim, __VA_ARGS__)

static struct weir_graph *g;

/* The form of @node, or the graph's sentence; then the graph is empty. */
static const char *got(struct weir_node *node)
{
	static char text[1024];

	snprintf(text, sizeof(text), "%s",
		 node                        ? form_of(node)
		 : weir_graph_error(g, NULL) ? weir_error()
					     : "NULL");
	weir_graph_reset(g);
	return text;
}

/* The node has this form; or the call fails with this part of a sentence. */
#define MAKES(node, form, title) is_str(got(node), form, title)
#define REFUSES(node, part, title) has_str(got(node), part, title)

static void mul_mat(void)
{
	MAKES(weir_mul_mat(g, N(F16, 2, 5, 32), N(F32, 2, 3, 32)), "F32 [3, 5]",
	      "mul_mat: [M, K] and [N, K] give [N, M]");
	MAKES(weir_mul_mat(g, N(Q4_0, 2, 5, 32), N(F32, 2, 3, 32)),
	      "F32 [3, 5]", "mul_mat: weights may be quantised");
	MAKES(weir_mul_mat(g, N(F16, 3, 2, 7, 4), N(F32, 3, 6, 3, 4)),
	      "F32 [6, 3, 7]",
	      "mul_mat: heads may be a multiple of those of a");
	MAKES(weir_mul_mat(g, N(F16, 2, 5, 4), N(F32, 4, 2, 3, 1, 4)),
	      "F32 [2, 3, 1, 5]", "mul_mat: outer dimensions are those of b");
	MAKES(weir_mul_mat(g, N(F32, 2, 5, 4), N(F32, 2, 0, 4)), "F32 [0, 5]",
	      "mul_mat: there may be no rows of b");
	REFUSES(weir_mul_mat(g, N(F32, 2, 5, 4), N(F32, 2, 3, 5)),
		"mul_mat: rows of 4 and 5 elements: a 'F32' F32 [5, 4], b 'F32' F32 [3, 5]",
		"mul_mat: K must agree");
	REFUSES(weir_mul_mat(g, N(F32, 3, 4, 5, 4), N(F32, 3, 6, 3, 4)),
		"no multiples", "mul_mat: 6 heads are no multiple of 4");
	REFUSES(weir_mul_mat(g, N(F32, 3, 0, 5, 4), N(F32, 3, 6, 3, 4)),
		"no multiples", "mul_mat: 6 heads are no multiple of 0");
	REFUSES(weir_mul_mat(g, weir_transpose(g, N(F32, 2, 4, 5)),
			     N(F32, 2, 3, 4)),
		"elements of a row of a must be neighbours",
		"mul_mat: a may not be transposed");
	MAKES(weir_mul_mat(g, N(F32, 2, 5, 4),
			   weir_transpose(g, N(F32, 2, 4, 3))),
	      "F32 [3, 5]", "mul_mat: b may be transposed");
	REFUSES(weir_mul_mat(g, N(I32, 2, 5, 4), N(F32, 2, 3, 4)),
		"a must be F32 or F16 or BF16 or quantised",
		"mul_mat: a is no I32");
	REFUSES(weir_mul_mat(g, N(F32, 2, 5, 32), N(Q8_0, 2, 3, 32)),
		"b must be F32 or F16 or BF16", "mul_mat: b is not quantised");
	REFUSES(weir_mul_mat(g, N(F32, 1, 4), N(F32, 2, 3, 4)),
		"a needs 2 dimensions", "mul_mat: a vector is refused");
}

static void mul_mat_id(void)
{
	MAKES(weir_mul_mat_id(g, N(F16, 3, 8, 5, 4), N(F32, 3, 3, 1, 4),
			      N(I32, 2, 3, 2)),
	      "F32 [3, 2, 5]", "mul_mat_id: b has one row for all experts");
	MAKES(weir_mul_mat_id(g, N(F16, 3, 8, 5, 4), N(F32, 3, 3, 2, 4),
			      N(I32, 2, 3, 2)),
	      "F32 [3, 2, 5]", "mul_mat_id: b has a row for each expert");
	REFUSES(weir_mul_mat_id(g, N(F16, 3, 8, 5, 4), N(F32, 3, 3, 2, 5),
				N(I32, 2, 3, 2)),
		"rows of 4 and 5", "mul_mat_id: K must agree");
	REFUSES(weir_mul_mat_id(g, N(F16, 3, 8, 5, 4), N(F32, 3, 4, 2, 4),
				N(I32, 2, 3, 2)),
		"ids for 3 tokens, b has 4", "mul_mat_id: tokens must agree");
	REFUSES(weir_mul_mat_id(g, N(F16, 3, 8, 5, 4), N(F32, 3, 3, 2, 4),
				N(I32, 2, 3, 3)),
		"3 ids of a token, no multiple of 2 rows",
		"mul_mat_id: ids are a multiple of the rows");
	REFUSES(weir_mul_mat_id(g, N(F16, 3, 8, 5, 4), N(F32, 3, 3, 2, 4),
				N(I64, 2, 3, 2)),
		"ids must be I32", "mul_mat_id: ids are I32");
	REFUSES(weir_mul_mat_id(g, N(F16, 4, 1, 8, 5, 4), N(F32, 3, 3, 2, 4),
				N(I32, 2, 3, 2)),
		"4, 3 and 2 dimensions, not 3, 3 and 2",
		"mul_mat_id: numbers of dimensions are fixed");
}

static void get_rows(void)
{
	MAKES(weir_get_rows(g, N(Q8_0, 2, 9, 32), N(I32, 1, 3)), "F32 [3, 32]",
	      "get_rows: rows become F32");
	MAKES(weir_get_rows(g, N(I32, 2, 9, 2), N(I32, 1, 3)), "I32 [3, 2]",
	      "get_rows: rows of I32 stay I32");
	MAKES(weir_get_rows(g, N(F32, 3, 4, 9, 2), N(I32, 2, 4, 3)),
	      "F32 [4, 3, 2]",
	      "get_rows: outer dimensions have ids of their own");
	REFUSES(weir_get_rows(g, N(F32, 3, 4, 9, 2), N(I32, 2, 5, 3)),
		"outer dimensions of a and ids differ",
		"get_rows: outer dimensions must agree");
	REFUSES(weir_get_rows(g, N(F32, 2, 9, 2), N(I64, 1, 3)),
		"ids must be I32", "get_rows: ids are I32");
	weir_get_rows(g, N(F32, 2, 9, 2), N(I32, 8, 1, 1, 1, 1, 1, 1, 1, 3));
	is_err(weir_graph_error(g, NULL), -EOPNOTSUPP,
	       "get_rows: the result would have 9 dimensions, at most 8",
	       "get_rows: no more than 8 dimensions");
	weir_graph_reset(g);
}

static void set_rows(void)
{
	const int64_t two[] = { 2, 4 };
	struct weir_node *dst = N(F16, 2, 9, 4);
	struct weir_node *to =
		weir_set_rows(g, dst, N(F32, 2, 3, 4), N(I64, 1, 3));

	ok(weir_node_tensor(to) && !weir_node_tensor(to)->name,
	   "set_rows: the result is a node of its own");
	MAKES(to, "F16 [9, 4]", "set_rows: the result is the destination");
	MAKES(weir_set_rows(g, N(Q8_0, 3, 2, 9, 32), N(F16, 3, 2, 3, 32),
			    N(I32, 1, 3)),
	      "Q8_0 [2, 9, 32]", "set_rows: ids are repeated");
	REFUSES(weir_set_rows(g, N(F32, 2, 9, 4), N(F32, 2, 3, 5),
			      N(I32, 1, 3)),
		"rows of 4 and 5", "set_rows: rows must agree");
	REFUSES(weir_set_rows(g, N(F32, 2, 9, 4), N(F32, 2, 3, 4),
			      N(I32, 1, 2)),
		"2 ids for 3 rows", "set_rows: each row has an id");
	REFUSES(weir_set_rows(g, N(F32, 3, 2, 9, 4), N(F32, 3, 1, 3, 4),
			      N(I32, 1, 3)),
		"outer dimensions of dst and b differ",
		"set_rows: outer dimensions must agree");
	REFUSES(weir_set_rows(g, N(F32, 3, 4, 9, 4), N(F32, 3, 4, 3, 4),
			      N(I32, 2, 3, 3)),
		"no multiples of those of ids",
		"set_rows: outer dimensions are multiples of those of ids");
	REFUSES(weir_set_rows(g, N(F32, 2, 9, 4), N(BF16, 2, 3, 4),
			      N(I32, 1, 3)),
		"b must be F32 or F16", "set_rows: b is F32 or F16");
	REFUSES(weir_set_rows(g, weir_sqr(g, N(F32, 2, 9, 4)), N(F32, 2, 3, 4),
			      N(I32, 1, 3)),
		"set_rows: dst is neither a leaf nor a view of one",
		"set_rows: a result is not written");
	REFUSES(weir_copy(g, N(F32, 2, 2, 4),
			  weir_graph_input(g, "in", WEIR_DTYPE_F32, 2, two)),
		"copy: dst is neither a leaf nor a view of one",
		"copy: an input is not written");
}

static void elementwise(void)
{
	MAKES(weir_add(g, N(F32, 3, 2, 3, 4), N(F32, 1, 4)), "F32 [2, 3, 4]",
	      "add: a vector is repeated");
	MAKES(weir_sub(g, N(F16, 2, 6, 4), N(F32, 2, 3, 2)), "F16 [6, 4]",
	      "sub: each dimension of b is repeated");
	MAKES(weir_mul(g, N(BF16, 2, 6, 4), N(F32, 3, 1, 6, 4)), "BF16 [6, 4]",
	      "mul: outer dimensions of b of 1 may exceed those of a");
	REFUSES(weir_div(g, N(F32, 2, 6, 4), N(F32, 2, 4, 4)),
		"div: dimensions of a are no multiples of those of b: a 'F32' F32 [6, 4], b 'F32' F32 [4, 4]",
		"div: 6 is no multiple of 4");
	REFUSES(weir_add(g, N(F32, 1, 4), N(F32, 2, 2, 4)), "no multiples",
		"add: a is not repeated");
	REFUSES(weir_add(g, N(F32, 1, 4), N(F16, 1, 4)), "b must be F32",
		"add: b is F32");
	MAKES(weir_scale(g, N(F16, 2, 3, 4), 2, 1), "F16 [3, 4]",
	      "scale: the result is like the source");
	REFUSES(weir_scale(g, N(F32, 1, 4), NAN, 0), "must be finite",
		"scale: NaN is refused");
	MAKES(weir_sqr(g, N(F32, 0, 0)), "F32 []", "sqr: one element");
	MAKES(weir_silu(g, weir_transpose(g, N(F32, 2, 3, 4))), "F32 [4, 3]",
	      "silu: the source may be transposed");
	MAKES(weir_gelu(g, N(BF16, 1, 3)), "BF16 [3]", "gelu: BF16");
	REFUSES(weir_gelu(g, N(I32, 1, 3)), "gelu: a must be F32",
		"gelu: no integers");
	MAKES(weir_gelu_erf(g, N(F16, 1, 3)), "F16 [3]", "gelu_erf: F16");
	MAKES(weir_relu(g, weir_transpose(g, N(F32, 2, 3, 4))), "F32 [4, 3]",
	      "relu: the source may be transposed");
	MAKES(weir_clamp(g, N(F16, 2, 3, 4), 0, INFINITY), "F16 [3, 4]",
	      "clamp: a limit may be infinite");
	REFUSES(weir_clamp(g, N(F32, 1, 4), 2, 1),
		"min 2 must be at most max 1", "clamp: min is not above max");
	REFUSES(weir_clamp(g, N(F32, 1, 4), NAN, 1), "must be at most",
		"clamp: a limit is not NaN");
	MAKES(weir_swiglu(g, N(F32, 2, 3, 4), N(F32, 2, 3, 4)), "F32 [3, 4]",
	      "swiglu: gate and up of one shape");
	REFUSES(weir_swiglu(g, N(F32, 2, 3, 4), N(F32, 1, 4)),
		"gate and up differ", "swiglu: up is not repeated");
	MAKES(weir_rms_norm(g, N(F32, 2, 3, 4), 0), "F32 [3, 4]",
	      "rms_norm: like the source");
	REFUSES(weir_rms_norm(g, N(F32, 2, 3, 4), -1),
		"eps -1 must be finite, 0 or more",
		"rms_norm: eps is not below 0");
	REFUSES(weir_norm(g, N(F32, 2, 3, 4), NAN), "eps",
		"norm: eps is not NaN");
	REFUSES(weir_l2_norm(g, N(F32, 2, 3, 4), -1), "eps -1",
		"l2_norm: eps is not below 0");
	MAKES(weir_group_norm(g, N(F32, 4, 2, 6, 3, 4), 3, 0),
	      "F32 [2, 6, 3, 4]", "group_norm: like the source");
	REFUSES(weir_group_norm(g, N(F32, 3, 6, 3, 4), 4, 0),
		"6 channels are not whole groups: 4",
		"group_norm: groups have the same number of channels");
	REFUSES(weir_group_norm(g, N(F32, 3, 6, 3, 4), 0, 0), "whole groups",
		"group_norm: there is a group");
	REFUSES(weir_group_norm(g, N(F32, 3, 6, 3, 4), 2, NAN), "eps",
		"group_norm: eps is not NaN");
	REFUSES(weir_group_norm(g, N(F32, 2, 3, 4), 1, 0), "3 dimensions",
		"group_norm: channels have two dimensions");
	REFUSES(weir_group_norm(g, weir_slice(g, N(F32, 3, 6, 3, 4), 1, 0, 2),
				2, 0),
		"a must be contiguous", "group_norm: a is contiguous");
	REFUSES(weir_norm(g, weir_transpose(g, N(F32, 2, 3, 4)), 1),
		"must be neighbours", "norm: rows are not transposed");
}

static void soft_max(void)
{
	MAKES(weir_soft_max(g, N(F32, 3, 8, 3, 5), NULL, 1, 0), "F32 [8, 3, 5]",
	      "soft_max: without a mask");
	MAKES(weir_soft_max(g, N(F32, 3, 8, 3, 5), N(F16, 2, 4, 5), 1, 8),
	      "F32 [8, 3, 5]", "soft_max: a mask may have more rows");
	MAKES(weir_soft_max(g, N(F32, 4, 2, 8, 3, 5), N(F32, 4, 2, 1, 3, 5), 1,
			    0),
	      "F32 [2, 8, 3, 5]", "soft_max: masks are repeated");
	REFUSES(weir_soft_max(g, N(F32, 3, 8, 3, 5), N(F16, 2, 2, 5), 1, 0),
		"mask of 2 rows of 5, needs 3 of 5",
		"soft_max: a mask has no fewer rows");
	REFUSES(weir_soft_max(g, N(F32, 3, 8, 3, 5), N(F16, 2, 3, 6), 1, 0),
		"mask of 3 rows of 6, needs 3 of 5",
		"soft_max: rows of a mask are as long");
	REFUSES(weir_soft_max(g, N(F32, 3, 8, 3, 5), N(F16, 3, 3, 3, 5), 1, 0),
		"no multiples of those of mask",
		"soft_max: 8 heads are no multiple of 3 masks");
	REFUSES(weir_soft_max(g, N(F32, 3, 8, 3, 5), NULL, 1, 8),
		"max_bias 8 needs a mask", "soft_max: ALiBi needs a mask");
	REFUSES(weir_soft_max(g, N(F32, 2, 3, 5), NULL, 1, -1), "max_bias -1",
		"soft_max: max_bias is not below 0");
	REFUSES(weir_soft_max(g, N(F32, 2, 3, 5), NULL, INFINITY, 0),
		"scale inf must be finite", "soft_max: scale is finite");
	REFUSES(weir_soft_max(g, weir_slice(g, N(F32, 2, 3, 5), 1, 0, 4), NULL,
			      1, 0),
		"a must be contiguous", "soft_max: a is contiguous");
}

static struct weir_node *attend_to(struct weir_node *sinks)
{
	return weir_attention_sinks(g, N(F32, 3, 8, 3, 4), N(F16, 3, 2, 5, 4),
				    N(F16, 3, 2, 5, 6), NULL, sinks, NULL);
}

static void sinks(void)
{
	MAKES(weir_soft_max_sinks(g, N(F32, 3, 8, 3, 5), NULL, N(F32, 1, 8), 1,
				  0),
	      "F32 [8, 3, 5]", "soft_max: sinks are one for each head");
	MAKES(weir_soft_max_sinks(g, N(F32, 2, 3, 5), N(F32, 2, 3, 5),
				  N(F32, 1, 1), 1, 0),
	      "F32 [3, 5]", "soft_max: a matrix has one sink");
	REFUSES(weir_soft_max_sinks(g, N(F32, 3, 8, 3, 5), NULL, N(F32, 1, 3),
				    1, 0),
		"sinks is not [8]", "soft_max: there is a sink for each head");
	REFUSES(weir_soft_max_sinks(g, N(F32, 3, 8, 3, 5), NULL,
				    N(F32, 2, 8, 1), 1, 0),
		"sinks is not [8]", "soft_max: sinks have one dimension");
	REFUSES(weir_soft_max_sinks(g, N(F32, 3, 8, 3, 5), NULL, N(F16, 1, 8),
				    1, 0),
		"sinks must be F32", "soft_max: sinks are F32");
	MAKES(attend_to(N(F32, 1, 8)), "F32 [3, 8, 6]",
	      "attention: sinks are one for each head of q");
	MAKES(attend_to(NULL), "F32 [3, 8, 6]",
	      "attention: sinks may be left out");
	REFUSES(attend_to(N(F32, 1, 2)), "sinks is not [8]",
		"attention: there is a sink for each head of q");
}

static struct weir_node *rope(struct weir_op_rope p)
{
	return weir_rope(g, N(F32, 3, 7, 2, 8), N(I32, 1, 7), NULL, &p);
}

static void ropes(void)
{
	struct weir_op_rope p = { 0 };

	MAKES(rope(p), "F32 [7, 2, 8]", "rope: parameters have defaults");
	MAKES(weir_rope(g, N(F16, 4, 3, 7, 2, 8), N(I32, 1, 7), N(F32, 1, 4),
			NULL),
	      "F16 [3, 7, 2, 8]", "rope: factors of half a row");
	REFUSES(weir_rope(g, N(F32, 3, 7, 2, 8), N(I32, 1, 6), NULL, NULL),
		"rope: pos is not [7]", "rope: each token has a position");
	REFUSES(weir_rope(g, N(F32, 3, 7, 2, 8), N(I32, 1, 7), N(F32, 1, 3),
			  NULL),
		"factors is not [4] or longer",
		"rope: factors are not shorter");
	REFUSES(weir_rope(g, N(F32, 3, 7, 2, 7), N(I32, 1, 7), NULL, NULL),
		"n_dims 7 must be even, and at most 7", "rope: rows are even");
	p.n_dims = 10;
	REFUSES(rope(p), "n_dims 10 must be even, and at most 8",
		"rope: n_dims does not exceed a row");
	p.n_dims = 4;
	MAKES(rope(p), "F32 [7, 2, 8]", "rope: n_dims may be less than a row");
	p.mode = 2;
	REFUSES(rope(p), "mode 2 is not", "rope: an unknown mode is refused");
	p = (struct weir_op_rope){ .base = -1 };
	REFUSES(rope(p), "must be finite and above 0",
		"rope: base is not below 0");
	p = (struct weir_op_rope){ .ext_factor = 1 };
	REFUSES(rope(p), "ext_factor 1 needs a context",
		"rope: YaRN needs a context");
}

static struct weir_node *attention(struct weir_op_attention p)
{
	return weir_attention(g, N(F32, 3, 8, 3, 4), N(F16, 3, 2, 5, 4),
			      N(F16, 3, 2, 5, 6), NULL, &p);
}

/* Check products and attention with a precision. */
static void precisions(void)
{
	const enum weir_precision wrong = (enum weir_precision)3;
	struct weir_op_attention p = { .precision = wrong };
	uint64_t fast[2], same[2];

	MAKES(weir_mul_mat_precision(g, N(F16, 2, 5, 4), N(F32, 2, 3, 4),
				     WEIR_PRECISION_INVARIANT),
	      "F32 [3, 5]", "mul_mat: invariant products have the same shape");
	REFUSES(weir_mul_mat_precision(g, N(F16, 2, 5, 4), N(F32, 2, 3, 4),
				       wrong),
		"mul_mat: precision 3, the last one is 2",
		"mul_mat: an unknown precision is refused");
	REFUSES(weir_mul_mat_id_precision(g, N(F16, 3, 8, 5, 4),
					  N(F32, 3, 3, 1, 4), N(I32, 2, 3, 2),
					  wrong),
		"mul_mat_id: precision 3, the last one is 2",
		"mul_mat_id: an unknown precision is refused");
	REFUSES(attention(p), "attention: precision 3, the last one is 2",
		"attention: an unknown precision is refused");
	weir_mul_mat(g, N(F16, 2, 5, 4), N(F32, 2, 3, 4));
	if (weir_graph_fingerprint(g, fast) < 0)
		bail("%s", weir_error());
	weir_graph_reset(g);
	weir_mul_mat_precision(g, N(F16, 2, 5, 4), N(F32, 2, 3, 4),
			       WEIR_PRECISION_INVARIANT);
	if (weir_graph_fingerprint(g, same) < 0)
		bail("%s", weir_error());
	weir_graph_reset(g);
	ok(memcmp(fast, same, sizeof(same)),
	   "mul_mat: the precision is part of the fingerprint");
}

/* 2 sequences of 3 tokens, with one k of 40 rows. */
static struct weir_node *paged(struct weir_node *lengths,
			       struct weir_node *pages, uint32_t page)
{
	struct weir_op_attention p = { .page = page };

	return weir_attention_lengths(g, N(F32, 4, 2, 8, 3, 4),
				      N(F16, 3, 2, 40, 4), N(F16, 3, 2, 40, 6),
				      lengths, pages, NULL, &p);
}

static void attention_lengths(void)
{
	struct weir_op_attention p = { .page = 10 };

	MAKES(paged(N(I32, 1, 2), N(I32, 2, 2, 3), 16), "F32 [2, 3, 8, 6]",
	      "attention: with pages sequences share k and v");
	MAKES(weir_attention_lengths(g, N(F32, 3, 8, 3, 4), N(F16, 3, 2, 5, 4),
				     N(F16, 3, 2, 5, 6), N(I32, 1, 1), NULL,
				     NULL, NULL),
	      "F32 [3, 8, 6]", "attention: one sequence has one length");
	REFUSES(paged(N(I32, 1, 3), N(I32, 2, 2, 3), 16), "lengths is not [2]",
		"attention: there is a length for each sequence");
	REFUSES(paged(N(I32, 1, 2), N(I32, 2, 3, 3), 16), "pages is not [2, n]",
		"attention: each sequence has pages");
	REFUSES(paged(N(I32, 1, 2), N(I32, 2, 2, 3), 0), "pages need page",
		"attention: pages have a size");
	REFUSES(paged(NULL, N(I32, 2, 2, 3), 16), "pages need lengths",
		"attention: pages need lengths");
	REFUSES(paged(N(I32, 1, 2), NULL, 16), "differ",
		"attention: without pages each sequence has its own k");
	REFUSES(attention(p), "page 10 needs pages",
		"attention: a page size needs pages");
	REFUSES(paged(N(I32, 1, 2), N(I32, 2, 2, 3), 1u << 30),
		"3 pages of 1073741824 positions, over 2^31 - 1",
		"attention: positions fit in I32");
	REFUSES(weir_attention_lengths(g, N(F32, 4, 2, 8, 3, 4),
				       N(F16, 4, 2, 2, 5, 4),
				       N(F16, 4, 2, 2, 5, 6), N(I32, 1, 2),
				       N(I32, 2, 2, 3), NULL, &p),
		"share one k and v",
		"attention: with pages k has no sequences");
}

static void attentions(void)
{
	struct weir_op_attention p = { 0 };

	MAKES(attention(p), "F32 [3, 8, 6]",
	      "attention: the result has tokens before heads");
	MAKES(weir_attention(g, N(F32, 4, 2, 8, 3, 4), N(F16, 4, 2, 2, 5, 4),
			     N(F16, 4, 2, 2, 5, 6), N(F16, 2, 3, 5), NULL),
	      "F32 [2, 3, 8, 6]", "attention: sequences with one mask");
	REFUSES(weir_attention(g, N(F32, 3, 8, 3, 4), N(F16, 3, 3, 5, 4),
			       N(F16, 3, 3, 5, 6), NULL, NULL),
		"8 heads, no multiple of 3",
		"attention: heads are a multiple of those of k");
	REFUSES(weir_attention(g, N(F32, 3, 8, 3, 4), N(F16, 3, 2, 5, 3),
			       N(F16, 3, 2, 5, 6), NULL, NULL),
		"rows of q and k have 4 and 3 elements",
		"attention: rows of q and k agree");
	REFUSES(weir_attention(g, N(F32, 3, 8, 3, 4), N(F16, 3, 2, 5, 4),
			       N(F16, 3, 2, 6, 6), NULL, NULL),
		"k and v differ in heads or positions",
		"attention: k and v have the same positions");
	REFUSES(weir_attention(g, N(F32, 4, 2, 8, 3, 4), N(F16, 3, 2, 5, 4),
			       N(F16, 3, 2, 5, 6), NULL, NULL),
		"outer dimensions of q, k and v differ",
		"attention: k has each sequence of q");
	REFUSES(weir_attention(g, N(F32, 3, 8, 3, 4), N(F16, 3, 2, 5, 4),
			       N(F16, 3, 2, 5, 6), N(F16, 2, 3, 4), NULL),
		"mask of 3 rows of 4, needs 3 of 5",
		"attention: the mask has all positions");
	p.softcap = -1;
	REFUSES(attention(p), "softcap -1",
		"attention: softcap is not below 0");
	p = (struct weir_op_attention){ .max_bias = 2 };
	REFUSES(attention(p), "max_bias 2 needs a mask",
		"attention: ALiBi needs a mask");
	p = (struct weir_op_attention){ .causal = 2 };
	REFUSES(attention(p), "causal 2 is not 0 or 1",
		"attention: causal is 0 or 1");
	p = (struct weir_op_attention){ .window = 5 };
	REFUSES(attention(p), "window 5 needs causal",
		"attention: a window is causal");
}

static void copies(void)
{
	MAKES(weir_copy(g, N(F32, 2, 3, 4), N(F16, 1, 12)), "F16 [12]",
	      "copy: shapes may differ, dtypes too");
	REFUSES(weir_copy(g, N(F32, 2, 3, 4), N(F32, 1, 11)),
		"12 elements, dst has 11", "copy: numbers of elements agree");
	REFUSES(weir_copy(g, N(I32, 1, 4), N(F32, 1, 4)),
		"I32 is not converted to F32",
		"copy: integers are not converted");
	MAKES(weir_copy(g, N(I32, 1, 4), N(I32, 1, 4)), "I32 [4]",
	      "copy: integers are copied");
	MAKES(weir_cont(g, weir_transpose(g, N(F16, 2, 3, 4))), "F16 [4, 3]",
	      "cont: a transposed matrix");
	MAKES(weir_cast(g, N(F32, 2, 3, 32), WEIR_DTYPE_Q8_0), "Q8_0 [3, 32]",
	      "cont: converts");
	REFUSES(weir_cast(g, N(F32, 2, 32, 3), WEIR_DTYPE_Q8_0),
		"rows of 3 elements are not whole blocks of 32",
		"cont: rows become whole blocks");
	REFUSES(weir_cast(g, N(F32, 1, 3), (enum weir_dtype)63),
		"63 is not a dtype", "cont: an unknown dtype is refused");
	REFUSES(weir_cast(g, N(F32, 1, 3), WEIR_DTYPE_U8),
		"F32 is not converted to U8", "cont: no other conversions");
	MAKES(weir_concat(g, N(F32, 2, 3, 4), N(F32, 2, 5, 4), 0), "F32 [8, 4]",
	      "concat: along dimension 0");
	REFUSES(weir_concat(g, N(F32, 2, 3, 4), N(F32, 2, 5, 4), 1),
		"dimension 0 is 3 and 5", "concat: the others are equal");
	REFUSES(weir_concat(g, N(F32, 1, 3), N(F32, 1, 4), 1),
		"dimension 1 of 1", "concat: the dimension exists");
	REFUSES(weir_concat(g, N(F32, 1, 3), N(F16, 1, 4), 0), "dtypes",
		"concat: one dtype");
	MAKES(weir_repeat(g, N(F32, 1, 4), 2, D(3, 8)), "F32 [3, 8]",
	      "repeat: new dimensions too");
	REFUSES(weir_repeat(g, N(F32, 2, 2, 4), 2, D(3, 8)),
		"shape [3, 8]: 3 is no multiple of 2",
		"repeat: dimensions are multiples");
	REFUSES(weir_repeat(g, N(F32, 2, 2, 4), 1, D(8)),
		"1 dimensions, needs 2 to 8", "repeat: no fewer dimensions");
	weir_repeat(g, N(F32, 1, 4), 9, D(1, 1, 1, 1, 1, 1, 1, 1, 4));
	is_err(weir_graph_error(g, NULL), -EOPNOTSUPP,
	       "repeat: the result would have 9 dimensions, at most 8",
	       "repeat: no more than 8 dimensions");
	weir_graph_reset(g);
	REFUSES(weir_repeat(g, N(F32, 1, 1), 2, D(INT64_MAX, INT64_MAX)),
		"repeat: the result: ", "repeat: a result that is too large");
}

/* A leaf of [n] F32 from element @at of @buf on. */
static struct weir_node *placed(struct weir_buf *buf, uint64_t at, int64_t n)
{
	struct weir_tensor t;

	if (weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &n) < 0 ||
	    weir_tensor_place(&t, buf, 4 * at) < 0)
		bail("%s", weir_error());
	return weir_graph_leaf(g, &t, NULL);
}

static struct weir_node *square(struct weir_node *leaf)
{
	return weir_reshape(g, leaf, 2, D(8, 8));
}

/*
 * Slices of one leaf, whose columns and rows are known though it is not placed.
 */
static void overlaps_in_leaf(void)
{
	struct weir_node *l = N(F32, 1, 64);

	REFUSES(weir_copy(g, weir_slice(g, l, 0, 0, 40),
			  weir_slice(g, l, 0, 5, 40)),
		"copy: a and dst overlap: ", "copy: parts of a leaf overlap");
	l = N(F32, 1, 64);
	MAKES(weir_copy(g, weir_slice(g, l, 0, 0, 32),
			weir_slice(g, l, 0, 32, 32)),
	      "F32 [32]", "copy: to another part of the same leaf");
	l = N(F32, 1, 64);
	REFUSES(weir_copy(g, l, l), "overlap", "copy: not to itself");
	l = N(F32, 2, 8, 8);
	REFUSES(weir_copy(g, weir_transpose(g, l), l), "overlap",
		"copy: a matrix is not transposed in place");
	l = N(F32, 2, 8, 8);
	MAKES(weir_copy(g, weir_slice(g, l, 1, 0, 4),
			weir_slice(g, l, 1, 4, 4)),
	      "F32 [8, 4]", "copy: columns between each other do not overlap");
	l = N(F32, 2, 8, 8);
	REFUSES(weir_copy(g, weir_slice(g, l, 1, 0, 4),
			  weir_slice(g, l, 1, 3, 4)),
		"overlap", "copy: columns that share one overlap");
	l = N(F32, 2, 8, 8);
	MAKES(weir_copy(g, weir_view(g, l, 1, D(7), D(36), 4),
			weir_view(g, l, 1, D(7), D(36), 0)),
	      "F32 [7]", "copy: a diagonal to the one beside it");
	l = N(F32, 2, 8, 8);
	REFUSES(weir_copy(g, weir_view(g, l, 1, D(8), D(36), 0),
			  weir_slice(g, l, 0, 5, 1)),
		"overlap", "copy: a diagonal crosses a row");
	l = N(F32, 2, 8, 8);
	REFUSES(weir_set_rows(g, l, l, N(I32, 1, 8)),
		"set_rows: b and dst overlap: ",
		"set_rows: not from its own rows");
	l = N(F32, 2, 8, 8);
	MAKES(weir_set_rows(g, weir_slice(g, l, 0, 0, 4),
			    weir_slice(g, l, 0, 4, 4), N(I32, 1, 4)),
	      "F32 [4, 8]", "set_rows: from other rows of its leaf");
	l = N(F32, 2, 8, 0);
	MAKES(weir_copy(g, l, l), "F32 [8, 0]",
	      "copy: without elements nothing overlaps");
}

/*
 * Two tensors of 54 bytes without strides, the second @apart after the first.
 */
static struct weir_node *copy_one_row(struct weir_buf *buf, uint64_t apart)
{
	struct weir_tensor t[2];

	for (int i = 0; i < 2; i++)
		if (weir_tensor_init(&t[i], WEIR_DTYPE_Q4_0, 2, D(2, 48)) < 0 ||
		    weir_tensor_place(&t[i], buf, (uint64_t)i * apart) < 0)
			bail("%s", weir_error());
	return weir_copy(g, weir_graph_leaf(g, &t[0], NULL),
			 weir_graph_leaf(g, &t[1], NULL));
}

static void overlaps_in_buffer(void)
{
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir *weir;

	if (weir_open(NULL, &weir) < 0 ||
	    weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN, &buft) < 0 ||
	    weir_buf_alloc(buft, 4096, NULL, &buf) < 0)
		bail("%s", weir_error());
	REFUSES(weir_copy(g, placed(buf, 0, 40), placed(buf, 39, 40)),
		"a and dst overlap", "copy: leaves of the same bytes overlap");
	MAKES(weir_copy(g, placed(buf, 0, 40), placed(buf, 40, 40)), "F32 [40]",
	      "copy: leaves side by side do not overlap");
	REFUSES(weir_copy(g, weir_transpose(g, square(placed(buf, 0, 64))),
			  square(placed(buf, 0, 64))),
		"overlap", "copy: views of two leaves overlap");
	REFUSES(weir_set_rows(g, square(placed(buf, 0, 64)),
			      square(placed(buf, 60, 64)), N(I32, 1, 8)),
		"b and dst overlap", "set_rows: leaves of the same bytes");
	REFUSES(copy_one_row(buf, 20), "a and dst overlap",
		"copy: leaves without strides overlap");
	MAKES(copy_one_row(buf, 54), "Q4_0 [2, 48]",
	      "copy: leaves without strides side by side do not overlap");
	weir_buf_free(buf);
	weir_close(weir);
}

static void sums(void)
{
	MAKES(weir_sum(g, N(F32, 2, 3, 4)), "F32 [1]", "sum: one element");
	REFUSES(weir_sum(g, N(F16, 1, 4)), "sum: a must be F32", "sum: of F32");
	MAKES(weir_sum_rows(g, N(F32, 2, 3, 4)), "F32 [3, 1]",
	      "sum_rows: one element of each row");
	REFUSES(weir_sum_rows(g, N(F32, 0, 0)), "a needs 1 dimensions",
		"sum_rows: there are rows");
	MAKES(weir_argmax(g, N(F32, 3, 2, 3, 4)), "I32 [2, 3]",
	      "argmax: an index of each row");
	REFUSES(weir_argmax(g, N(F32, 2, 3, 0)), "rows of 0 elements",
		"argmax: a row without elements is refused");
	MAKES(weir_top_k(g, N(F32, 2, 3, 4), 4), "I32 [3, 4]",
	      "top_k: k of each row");
	REFUSES(weir_top_k(g, N(F32, 2, 3, 4), 5), "k 5, not 1 to 4",
		"top_k: k does not exceed a row");
	REFUSES(weir_top_k(g, N(F32, 2, 3, 4), 0), "k 0, not 1 to 4",
		"top_k: k is at least 1");
	MAKES(weir_argsort(g, N(F32, 2, 3, 4), WEIR_SORT_DESCENDING),
	      "I32 [3, 4]", "argsort: an index for each element");
	REFUSES(weir_argsort(g, N(F32, 2, 3, 4), (enum weir_sort_order)2),
		"order 2, the last one is 1 (descending)",
		"argsort: there are two orders");
	REFUSES(weir_argsort(g, N(F32, 2, 3, 0), WEIR_SORT_ASCENDING),
		"rows of 0 elements", "argsort: rows have elements");
	REFUSES(weir_call(g, NULL, NULL, 0), "call: fn is NULL",
		"call: a function is needed");
}

int main(void)
{
	plan(0);
	g = graph_new();
	mul_mat();
	mul_mat_id();
	get_rows();
	set_rows();
	elementwise();
	soft_max();
	sinks();
	ropes();
	attentions();
	attention_lengths();
	precisions();
	copies();
	overlaps_in_leaf();
	overlaps_in_buffer();
	sums();
	weir_graph_free(g);
	return done_testing();
}
