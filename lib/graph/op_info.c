/* SPDX-License-Identifier: MIT */
/*
 * What weir_op_info() says of operations, for programs that make nodes by
 * names. ops.c has the names, the sources and the rules.
 */
#include <stddef.h>

#include "core/util.h"
#include "graph/ops.h"

static const char *const view_words[] = { "strides", "reshape", "permute",
					  "slice", NULL };
static const char *const precision_words[] = { "fast", "invariant", "f32",
					       NULL };
static const char *const order_words[] = { "ascending", "descending", NULL };
static const char *const rope_words[] = { "normal", "neox", NULL };

#define PARAM(struct_, member, type_)                                          \
	{                                                                      \
#member, WEIR_PARAM_##type_, offsetof(struct struct_, member), \
			NULL                                                   \
	}
#define WORD(struct_, member, words_)                                       \
	{                                                                   \
#member, WEIR_PARAM_WORD, offsetof(struct struct_, member), \
			words_                                              \
	}
#define END                      \
	{                        \
		NULL, 0, 0, NULL \
	}

static const struct weir_op_param view_params[] = {
	WORD(weir_op_view, how, view_words), PARAM(weir_op_view, ndim, NDIM),
	PARAM(weir_op_view, shape, DIMS),    PARAM(weir_op_view, stride, DIMS),
	PARAM(weir_op_view, offset, U64),    END,
};

static const struct weir_op_param mul_mat_params[] = {
	WORD(weir_op_mul_mat, precision, precision_words),
	END,
};

static const struct weir_op_param scale_params[] = {
	PARAM(weir_op_scale, scale, F32),
	PARAM(weir_op_scale, bias, F32),
	END,
};

static const struct weir_op_param clamp_params[] = {
	PARAM(weir_op_clamp, min, F32),
	PARAM(weir_op_clamp, max, F32),
	END,
};

static const struct weir_op_param norm_params[] = {
	PARAM(weir_op_norm, eps, F32),
	END,
};

static const struct weir_op_param group_norm_params[] = {
	PARAM(weir_op_group_norm, groups, U32),
	PARAM(weir_op_group_norm, eps, F32),
	END,
};

static const struct weir_op_param soft_max_params[] = {
	PARAM(weir_op_soft_max, scale, F32),
	PARAM(weir_op_soft_max, max_bias, F32),
	END,
};

static const struct weir_op_param rope_params[] = {
	WORD(weir_op_rope, mode, rope_words),
	PARAM(weir_op_rope, n_dims, U32),
	PARAM(weir_op_rope, base, F32),
	PARAM(weir_op_rope, freq_scale, F32),
	PARAM(weir_op_rope, ext_factor, F32),
	PARAM(weir_op_rope, attn_factor, F32),
	PARAM(weir_op_rope, beta_fast, F32),
	PARAM(weir_op_rope, beta_slow, F32),
	PARAM(weir_op_rope, context, U32),
	END,
};

static const struct weir_op_param attention_params[] = {
	PARAM(weir_op_attention, scale, F32),
	PARAM(weir_op_attention, max_bias, F32),
	PARAM(weir_op_attention, softcap, F32),
	WORD(weir_op_attention, precision, precision_words),
	PARAM(weir_op_attention, causal, U32),
	PARAM(weir_op_attention, window, U32),
	PARAM(weir_op_attention, page, U32),
	END,
};

static const struct weir_op_param cont_params[] = {
	PARAM(weir_op_cont, dtype, DTYPE),
	END,
};

static const struct weir_op_param concat_params[] = {
	PARAM(weir_op_concat, dim, U32),
	END,
};

static const struct weir_op_param repeat_params[] = {
	PARAM(weir_op_repeat, ndim, NDIM),
	PARAM(weir_op_repeat, shape, DIMS),
	END,
};

static const struct weir_op_param top_k_params[] = {
	PARAM(weir_op_top_k, k, I64),
	END,
};

static const struct weir_op_param argsort_params[] = {
	WORD(weir_op_argsort, order, order_words),
	END,
};

static const struct weir_op_param call_params[] = {
	PARAM(weir_op_call, fn, POINTER),
	PARAM(weir_op_call, arg, POINTER),
	PARAM(weir_op_call, dtype, DTYPE),
	PARAM(weir_op_call, ndim, NDIM),
	PARAM(weir_op_call, shape, DIMS),
	PARAM(weir_op_call, parts, U32),
	END,
};

static const struct weir_op_param no_params[] = { END };

/* NULL params: none. */
static const struct {
	const char *summary;
	const struct weir_op_param *params;
} table[] = {
	[WEIR_OP_LEAF] = { "a tensor of the program", NULL },
	[WEIR_OP_INPUT] = { "a tensor that each run gets", NULL },
	[WEIR_OP_VIEW] = { "the bytes of a, with another shape", view_params },
	[WEIR_OP_GET_ROWS] = { "rows of a: a [.., R, C], ids I32 [.., n] -> "
			       "F32 (I32 if a is I32) [.., n, C]",
			       NULL },
	[WEIR_OP_SET_ROWS] = { "write rows of a leaf: row ids[i] of dst "
			       "[.., R, C] becomes row i of b [.., n, C]",
			       NULL },
	[WEIR_OP_MUL_MAT] = { "b times a transposed: a [.., M, K], "
			      "b [.., N, K] -> F32 [.., N, M]",
			      mul_mat_params },
	[WEIR_OP_MUL_MAT_ID] = { "products with chosen matrices: as [E, M, K], "
				 "b [T, m, K], ids I32 [T, n] -> F32 [T, n, M]",
				 mul_mat_params },
	[WEIR_OP_ADD] = { "a + b; b is repeated to the shape of a", NULL },
	[WEIR_OP_SUB] = { "a - b; b is repeated to the shape of a", NULL },
	[WEIR_OP_MUL] = { "a * b; b is repeated to the shape of a", NULL },
	[WEIR_OP_DIV] = { "a / b; b is repeated to the shape of a", NULL },
	[WEIR_OP_SCALE] = { "scale * a + bias", scale_params },
	[WEIR_OP_SQR] = { "a * a", NULL },
	[WEIR_OP_SILU] = { "a / (1 + exp(-a))", NULL },
	[WEIR_OP_GELU] = { "GELU of a, approximated with tanh", NULL },
	[WEIR_OP_GELU_ERF] = { "GELU of a: a / 2 * (1 + erf(a / sqrt(2)))",
			       NULL },
	[WEIR_OP_RELU] = { "a if it is greater than 0, else 0", NULL },
	[WEIR_OP_TANH] = { "tanh(a)", NULL },
	[WEIR_OP_SIGMOID] = { "1 / (1 + exp(-a))", NULL },
	[WEIR_OP_EXP] = { "exp(a)", NULL },
	[WEIR_OP_SQRT] = { "the square root of a", NULL },
	[WEIR_OP_CLAMP] = { "the nearest to a of the numbers from min to max",
			    clamp_params },
	[WEIR_OP_SWIGLU] = { "silu(gate) * up", NULL },
	[WEIR_OP_RMS_NORM] = { "a / sqrt(mean(a^2) + eps), by rows",
			       norm_params },
	[WEIR_OP_NORM] = { "(a - mean(a)) / sqrt(variance(a) + eps), by rows",
			   norm_params },
	[WEIR_OP_L2_NORM] = { "a / max(sqrt(sum(a^2)), eps), by rows",
			      norm_params },
	[WEIR_OP_GROUP_NORM] = { "a [.., C, H, W]: (a - mean(a)) / "
				 "sqrt(variance(a) + eps), by groups of C",
				 group_norm_params },
	[WEIR_OP_SOFT_MAX] = { "softmax(scale * a + mask), by rows; scale 0 "
			       "is 1",
			       soft_max_params },
	[WEIR_OP_ROPE] = { "rotate a [.., T, heads, D] by pos I32 [T]; 0 is "
			   "the default of a parameter",
			   rope_params },
	[WEIR_OP_ATTENTION] = { "q [.., H, T, D], k [.., Hk, S, D], "
				"v [.., Hk, S, Dv], mask [.., T, S], "
				"lengths I32 [B], pages I32 [B, n] -> "
				"F32 [.., T, H, Dv]; scale 0 is 1 / sqrt(D)",
				attention_params },
	[WEIR_OP_COPY] = { "write the elements of a to the leaf dst", NULL },
	[WEIR_OP_CONT] = { "a contiguous copy of a, converted to dtype",
			   cont_params },
	[WEIR_OP_CONCAT] = { "a and after it b, along dimension dim",
			     concat_params },
	[WEIR_OP_REPEAT] = { "a repeated to shape, multiples of its own",
			     repeat_params },
	[WEIR_OP_SUM] = { "the sum of all elements: F32 [1]", NULL },
	[WEIR_OP_SUM_ROWS] = { "sums of rows: a [.., C] -> F32 [.., 1]", NULL },
	[WEIR_OP_ARGMAX] = { "the index of the greatest element of each row: "
			     "a [.., C] -> I32 [..]",
			     NULL },
	[WEIR_OP_TOP_K] = { "the indices of the k greatest elements of each "
			    "row: a [.., C] -> I32 [.., k]",
			    top_k_params },
	[WEIR_OP_ARGSORT] = { "the indices that sort each row, NaNs last: "
			      "a [.., C] -> I32 [.., C]",
			      argsort_params },
	[WEIR_OP_CALL] = { "a function of the program", call_params },
};

int weir_op_info(enum weir_op op, struct weir_op_info *ret_info)
{
	const struct weir__op_info *row = weir__op_row(op);
	struct weir_op_info info = { .size = sizeof(info) };

	WEIR__ENTER();
	if (!row || op >= sizeof(table) / sizeof(table[0]))
		return weir__fail(-EINVAL, "operation %u is not known", op);
	info.name = row->name;
	info.summary = table[op].summary;
	for (unsigned i = 0; i < WEIR__OP_ARGS; i++)
		info.source[i] = row->arg[i].name;
	info.required = row->required;
	info.optional = row->optional;
	info.any = row->any;
	info.params = table[op].params ? table[op].params : no_params;
	info.params_size = table[op].params ? row->params : 0;
	return weir__info_out(ret_info, &info, sizeof(info));
}
