/* SPDX-License-Identifier: MIT */
/* The table of operations, and what they cost. */
#include "graph/ops.h"

#include "core/util.h"
#include "mem/dtype.h"

#define F32 WEIR__IS_F32
#define I32 WEIR__IS_I32
#define INTEGER (WEIR__IS_I32 | WEIR__IS_I64)
#define FLOAT (WEIR__IS_F32 | WEIR__IS_F16 | WEIR__IS_BF16)
#define WEIGHT (FLOAT | WEIR__IS_QUANT)
#define HALF (WEIR__IS_F32 | WEIR__IS_F16)
#define ANY 0xffu
#define ROWS WEIR__FORM_ROWS
#define WHOLE WEIR__FORM_WHOLE
#define FREE WEIR__FORM_ANY

static uint64_t elements(const struct weir_tensor *t)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < t->ndim; i++)
		n *= (uint64_t)t->shape[i];
	return n;
}

static uint64_t bytes_of(const struct weir_tensor *t)
{
	const struct weir_dtype_info *info = weir__dtype(t->dtype);

	return elements(t) / info->block * info->bytes;
}

static uint64_t times(uint64_t a, uint64_t b)
{
	return weir__mul_over(a, b, &a) ? UINT64_MAX : a;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	return weir__add_over(a, b, &a) ? UINT64_MAX : a;
}

/* Each element of a product is the sum of K products. */
static uint64_t product_flops(const struct weir_node *node)
{
	uint64_t k = (uint64_t)weir__dim_back(&node->src[0]->t, 0);

	return times(times(2, k), elements(&node->t));
}

/* The most positions that a token of an attention attends to. */
static uint64_t attended(const struct weir_node *node)
{
	const struct weir_op_attention *p = node->params;
	uint64_t s = (uint64_t)weir__dim_back(&node->src[1]->t, 1);

	if (p->page)
		s = (uint64_t)weir__dim_back(&node->src[6]->t, 0) * p->page;
	return p->window && p->window < s ? p->window : s;
}

/* Each query and head needs S products of D, then S of Dv. */
static uint64_t attention_flops(const struct weir_node *node)
{
	const struct weir_tensor *q = &node->src[0]->t;
	uint64_t s = attended(node);

	return times(times(2, s), plus(elements(q), elements(&node->t)));
}

/* Sums and comparisons read each element of the source. */
static uint64_t source_flops(const struct weir_node *node)
{
	return elements(&node->src[0]->t);
}

#define ELEMENTWISE(name_, flops_)                                            \
	{                                                                     \
		.name = name_, .required = 1, .in_place = 1, .flops = flops_, \
		.arg = { { "a", FLOAT, FREE, 0 } }, .rule = weir__rule_same,  \
	}
#define REPEATED(name_)                                                    \
	{                                                                  \
		.name = name_, .required = 2, .in_place = 3, .flops = 1,   \
		.arg = { { "a", FLOAT, FREE, 0 }, { "b", F32, FREE, 0 } }, \
		.rule = weir__rule_repeated,                               \
	}
#define NORM(name_)                                                        \
	{                                                                  \
		.name = name_, .required = 1, .in_place = 1, .flops = 4,   \
		.params = sizeof(struct weir_op_norm),                     \
		.arg = { { "a", F32, ROWS, 1 } }, .rule = weir__rule_norm, \
	}

static const struct weir__op_info table[] = {
	/* clang-format off */
	[WEIR_OP_LEAF] = {
		.name = "leaf", .params = sizeof(struct weir__in_file),
	},
	[WEIR_OP_INPUT] = { .name = "input" },
	[WEIR_OP_VIEW] = {
		.name = "view", .required = 1, .flags = WEIR__OP_VIEWS,
		.params = sizeof(struct weir_op_view),
		.arg = { { "a", ANY, FREE, 0 } }, .rule = weir__rule_view,
	},
	[WEIR_OP_GET_ROWS] = {
		.name = "get_rows", .required = 2, .flops = 1,
		.arg = { { "a", WEIGHT | I32, ROWS, 2 },
			 { "ids", I32, FREE, 1 } },
		.rule = weir__rule_get_rows,
	},
	[WEIR_OP_SET_ROWS] = {
		.name = "set_rows", .required = 3, .flags = WEIR__OP_WRITES,
		.target = 0,
		.arg = { { "dst", WEIGHT, ROWS, 2 }, { "b", HALF, ROWS, 2 },
			 { "ids", INTEGER, FREE, 1 } },
		.rule = weir__rule_set_rows,
	},
	[WEIR_OP_MUL_MAT] = {
		.name = "mul_mat", .required = 2,
		.params = sizeof(struct weir_op_mul_mat),
		.arg = { { "a", WEIGHT, ROWS, 2 }, { "b", FLOAT, FREE, 2 } },
		.rule = weir__rule_mul_mat, .count = product_flops,
	},
	[WEIR_OP_MUL_MAT_ID] = {
		.name = "mul_mat_id", .required = 3,
		.params = sizeof(struct weir_op_mul_mat),
		.arg = { { "as", WEIGHT, ROWS, 3 }, { "b", FLOAT, FREE, 3 },
			 { "ids", I32, FREE, 2 } },
		.rule = weir__rule_mul_mat_id, .count = product_flops,
	},
	[WEIR_OP_ADD] = REPEATED("add"),
	[WEIR_OP_SUB] = REPEATED("sub"),
	[WEIR_OP_MUL] = REPEATED("mul"),
	[WEIR_OP_DIV] = REPEATED("div"),
	[WEIR_OP_SCALE] = {
		.name = "scale", .required = 1, .in_place = 1, .flops = 2,
		.params = sizeof(struct weir_op_scale),
		.arg = { { "a", FLOAT, FREE, 0 } }, .rule = weir__rule_scale,
	},
	[WEIR_OP_SQR] = ELEMENTWISE("sqr", 1),
	[WEIR_OP_SILU] = ELEMENTWISE("silu", 8),
	[WEIR_OP_GELU] = ELEMENTWISE("gelu", 12),
	[WEIR_OP_GELU_ERF] = ELEMENTWISE("gelu_erf", 12),
	[WEIR_OP_RELU] = ELEMENTWISE("relu", 1),
	[WEIR_OP_TANH] = ELEMENTWISE("tanh", 10),
	[WEIR_OP_SIGMOID] = ELEMENTWISE("sigmoid", 8),
	[WEIR_OP_EXP] = ELEMENTWISE("exp", 8),
	[WEIR_OP_SQRT] = ELEMENTWISE("sqrt", 1),
	[WEIR_OP_CLAMP] = {
		.name = "clamp", .required = 1, .in_place = 1, .flops = 2,
		.params = sizeof(struct weir_op_clamp),
		.arg = { { "a", FLOAT, FREE, 0 } }, .rule = weir__rule_clamp,
	},
	[WEIR_OP_SWIGLU] = {
		.name = "swiglu", .required = 2, .in_place = 3, .flops = 9,
		.arg = { { "gate", FLOAT, FREE, 0 }, { "up", FLOAT, FREE, 0 } },
		.rule = weir__rule_swiglu,
	},
	[WEIR_OP_RMS_NORM] = NORM("rms_norm"),
	[WEIR_OP_NORM] = NORM("norm"),
	[WEIR_OP_L2_NORM] = NORM("l2_norm"),
	[WEIR_OP_GROUP_NORM] = {
		.name = "group_norm", .required = 1, .in_place = 1, .flops = 4,
		.params = sizeof(struct weir_op_group_norm),
		.arg = { { "a", F32, WHOLE, 3 } },
		.rule = weir__rule_group_norm,
	},
	[WEIR_OP_SOFT_MAX] = {
		.name = "soft_max", .required = 1, .optional = 2,
		.in_place = 1, .flops = 10,
		.params = sizeof(struct weir_op_soft_max),
		.arg = { { "a", F32, WHOLE, 1 }, { "mask", HALF, ROWS, 2 },
			 { "sinks", F32, WHOLE, 1 } },
		.rule = weir__rule_soft_max,
	},
	[WEIR_OP_ROPE] = {
		.name = "rope", .required = 2, .optional = 1, .in_place = 1,
		.flops = 6, .params = sizeof(struct weir_op_rope),
		.arg = { { "a", HALF, ROWS, 3 }, { "pos", I32, WHOLE, 1 },
			 { "factors", F32, WHOLE, 1 } },
		.rule = weir__rule_rope,
	},
	[WEIR_OP_ATTENTION] = {
		.name = "attention", .required = 3, .optional = 4,
		.params = sizeof(struct weir_op_attention),
		.arg = { { "q", FLOAT, ROWS, 3 }, { "k", WEIGHT, ROWS, 3 },
			 { "v", WEIGHT, ROWS, 3 }, { "mask", HALF, ROWS, 2 },
			 { "sinks", F32, WHOLE, 1 },
			 { "lengths", I32, WHOLE, 1 },
			 { "pages", I32, ROWS, 2 } },
		.rule = weir__rule_attention, .count = attention_flops,
	},
	[WEIR_OP_COPY] = {
		.name = "copy", .required = 2, .flags = WEIR__OP_WRITES,
		.target = 1,
		.arg = { { "a", ANY, FREE, 0 }, { "dst", ANY, FREE, 0 } },
		.rule = weir__rule_copy,
	},
	[WEIR_OP_CONT] = {
		.name = "cont", .required = 1,
		.params = sizeof(struct weir_op_cont),
		.arg = { { "a", ANY, FREE, 0 } }, .rule = weir__rule_cont,
	},
	[WEIR_OP_CONCAT] = {
		.name = "concat", .required = 2,
		.params = sizeof(struct weir_op_concat),
		.arg = { { "a", ANY, FREE, 1 }, { "b", ANY, FREE, 1 } },
		.rule = weir__rule_concat,
	},
	[WEIR_OP_REPEAT] = {
		.name = "repeat", .required = 1,
		.params = sizeof(struct weir_op_repeat),
		.arg = { { "a", ANY, FREE, 0 } }, .rule = weir__rule_repeat,
	},
	[WEIR_OP_SUM] = {
		.name = "sum", .required = 1,
		.arg = { { "a", F32, FREE, 0 } },
		.rule = weir__rule_sum, .count = source_flops,
	},
	[WEIR_OP_SUM_ROWS] = {
		.name = "sum_rows", .required = 1,
		.arg = { { "a", F32, FREE, 1 } },
		.rule = weir__rule_sum_rows, .count = source_flops,
	},
	[WEIR_OP_ARGMAX] = {
		.name = "argmax", .required = 1,
		.arg = { { "a", F32, ROWS, 1 } },
		.rule = weir__rule_argmax, .count = source_flops,
	},
	[WEIR_OP_TOP_K] = {
		.name = "top_k", .required = 1,
		.params = sizeof(struct weir_op_top_k),
		.arg = { { "a", F32, ROWS, 1 } },
		.rule = weir__rule_top_k, .count = source_flops,
	},
	[WEIR_OP_ARGSORT] = {
		.name = "argsort", .required = 1,
		.params = sizeof(struct weir_op_argsort),
		.arg = { { "a", F32, ROWS, 1 } },
		.rule = weir__rule_argsort, .count = source_flops,
	},
	[WEIR_OP_CALL] = {
		.name = "call", .any = true,
		.params = sizeof(struct weir_op_call),
		.rule = weir__rule_call,
	},
	/* clang-format on */
};

const struct weir__op_info *weir__op_row(uint32_t op)
{
	return op < sizeof(table) / sizeof(table[0]) ? &table[op] : NULL;
}

uint64_t weir__op_flops(const struct weir_node *node)
{
	return node->row->count ? node->row->count(node)
				: times(node->row->flops, elements(&node->t));
}

/* The number of bytes that the node reads from source @i. */
static uint64_t bytes_read(const struct weir_node *node, uint32_t i)
{
	const struct weir_tensor *a = &node->src[i]->t, *ids;
	uint64_t rows, of;

	/* Only what the ids choose is read of matrices and tables. */
	if (i == 0 && node->op == WEIR_OP_GET_ROWS) {
		of = (uint64_t)weir__dim_back(a, 0);
		rows = of ? elements(&node->t) / of : 0;
		of = elements(a) / (of ? of : 1);
	} else if (i == 0 && node->op == WEIR_OP_MUL_MAT_ID) {
		ids = &node->src[2]->t;
		rows = elements(ids);
		of = (uint64_t)weir__dim_back(a, 2);
	} else {
		return bytes_of(a);
	}
	return rows < of ? bytes_of(a) / of * rows : bytes_of(a);
}

uint64_t weir__op_bytes(const struct weir_node *node)
{
	const struct weir__op_info *row = node->row;
	uint64_t sum = 0;

	if (!row->required && !row->any)
		return 0;
	if (row->flags & WEIR__OP_VIEWS)
		return 0;
	for (uint32_t i = 0; i < node->n_src; i++)
		if (node->src[i] &&
		    !(row->flags & WEIR__OP_WRITES && i == row->target))
			sum = plus(sum, bytes_read(node, i));
	/* set_rows writes as many rows as it reads. */
	return plus(sum, node->op == WEIR_OP_SET_ROWS
				 ? bytes_of(&node->src[1]->t)
				 : bytes_of(&node->t));
}
