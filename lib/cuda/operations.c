/* SPDX-License-Identifier: MIT */
#include "cuda/operations.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda.h"

static const struct weir__cuda_operation *const table[] = {
	[WEIR_OP_ADD] = &weir__cuda_op_add,
	[WEIR_OP_SUB] = &weir__cuda_op_sub,
	[WEIR_OP_MUL] = &weir__cuda_op_mul,
	[WEIR_OP_DIV] = &weir__cuda_op_div,
	[WEIR_OP_SCALE] = &weir__cuda_op_scale,
	[WEIR_OP_SQR] = &weir__cuda_op_sqr,
	[WEIR_OP_SILU] = &weir__cuda_op_silu,
	[WEIR_OP_GELU] = &weir__cuda_op_gelu,
	[WEIR_OP_GELU_ERF] = &weir__cuda_op_gelu_erf,
	[WEIR_OP_RELU] = &weir__cuda_op_relu,
	[WEIR_OP_TANH] = &weir__cuda_op_tanh,
	[WEIR_OP_SIGMOID] = &weir__cuda_op_sigmoid,
	[WEIR_OP_EXP] = &weir__cuda_op_exp,
	[WEIR_OP_SQRT] = &weir__cuda_op_sqrt,
	[WEIR_OP_CLAMP] = &weir__cuda_op_clamp,
	[WEIR_OP_SWIGLU] = &weir__cuda_op_swiglu,
	[WEIR_OP_RMS_NORM] = &weir__cuda_op_rms_norm,
	[WEIR_OP_NORM] = &weir__cuda_op_norm,
	[WEIR_OP_L2_NORM] = &weir__cuda_op_l2_norm,
	[WEIR_OP_GROUP_NORM] = &weir__cuda_op_group_norm,
	[WEIR_OP_SOFT_MAX] = &weir__cuda_op_soft_max,
	[WEIR_OP_ROPE] = &weir__cuda_op_rope,
	[WEIR_OP_COPY] = &weir__cuda_op_copy,
	[WEIR_OP_CONT] = &weir__cuda_op_cont,
	[WEIR_OP_CONCAT] = &weir__cuda_op_concat,
	[WEIR_OP_REPEAT] = &weir__cuda_op_repeat,
	[WEIR_OP_GET_ROWS] = &weir__cuda_op_get_rows,
	[WEIR_OP_SET_ROWS] = &weir__cuda_op_set_rows,
	[WEIR_OP_SUM] = &weir__cuda_op_sum,
	[WEIR_OP_SUM_ROWS] = &weir__cuda_op_sum_rows,
	[WEIR_OP_ARGMAX] = &weir__cuda_op_argmax,
	[WEIR_OP_TOP_K] = &weir__cuda_op_top_k,
	[WEIR_OP_ARGSORT] = &weir__cuda_op_argsort,
	[WEIR_OP_MUL_MAT_ID] = &weir__cuda_op_mul_mat_id,
	[WEIR_OP_MUL_MAT] = &weir__cuda_op_mul_mat,
	[WEIR_OP_ATTENTION] = &weir__cuda_op_attention,
};

/* The dtypes of the sets, in the order of their bits. */
static const uint32_t dtypes[] = {
	WEIR_DTYPE_F32, WEIR_DTYPE_F16,  WEIR_DTYPE_BF16, WEIR_DTYPE_I32,
	WEIR_DTYPE_I64, WEIR_DTYPE_Q8_0, WEIR_DTYPE_Q4_0,
};
#define N_DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

const struct weir__cuda_operation *weir__cuda_operation_find(uint32_t op)
{
	return op < sizeof(table) / sizeof(table[0]) ? table[op] : NULL;
}

static const char *dtype_name(uint32_t dtype)
{
	const struct weir_dtype_info *info = weir__cuda_host.dtype(dtype);

	return info ? info->name : "?";
}

/* Append to @text, which has @room bytes. */
static void append(char *text, size_t room, const char *more)
{
	size_t at = strlen(text);

	snprintf(text + at, room - at, "%s", more);
}

/* "add 'sum' (F32, F32)" */
static void describe(const struct weir_backend_node *node, char *text,
		     size_t room)
{
	const struct weir__cuda_operation *o =
		weir__cuda_operation_find(node->op);

	if (o)
		snprintf(text, room, "%s '%.60s' (", o->name,
			 node->name ? node->name : "");
	else
		snprintf(text, room, "operation %u '%.60s' (", node->op,
			 node->name ? node->name : "");
	for (uint32_t i = 0; i < node->n_src && i < WEIR__CUDA_MOST_SRC; i++) {
		append(text, room, i ? ", " : "");
		append(text, room, dtype_name(node->src[i].dtype));
	}
	append(text, room, ")");
}

int weir__cuda_refuse(const struct weir_backend_node *node, const char *fmt,
		      ...)
{
	char what[160], reason[160];
	va_list args;

	describe(node, what, sizeof(what));
	va_start(args, fmt);
	vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	return weir__cuda_host.fail(-EOPNOTSUPP, "CUDA: %s: %s", what, reason);
}

bool weir__cuda_is_one_of(uint32_t set, uint32_t dtype)
{
	for (unsigned i = 0; i < N_DTYPES; i++)
		if (dtypes[i] == dtype)
			return set & 1u << i;
	return set & WEIR__CUDA_QUANTS && dtype > WEIR_DTYPE_GGML;
}

static int refuse_dtype(const struct weir_backend_node *node, const char *what,
			uint32_t dtype, uint32_t set)
{
	char names[100] = "";

	for (unsigned i = 0; i < N_DTYPES; i++) {
		if (!(set & 1u << i))
			continue;
		append(names, sizeof(names), *names ? ", " : "");
		append(names, sizeof(names), dtype_name(dtypes[i]));
	}
	if (set & WEIR__CUDA_QUANTS)
		append(names, sizeof(names), ", or another quantised dtype");
	return weir__cuda_refuse(node, "%s is %s, not one of %s", what,
				 dtype_name(dtype), names);
}

/* A source that was left out has no dtype. */
int weir__cuda_operation_supports(const struct weir_backend_node *node)
{
	const struct weir__cuda_operation *o =
		weir__cuda_operation_find(node->op);
	char what[24];

	if (!o)
		return weir__cuda_refuse(node, "it has no kernel");
	if (node->n_src > o->n_src)
		return weir__cuda_refuse(node, "%u sources, of at most %u",
					 node->n_src, o->n_src);
	for (uint32_t i = 0; i < node->n_src; i++) {
		uint32_t dtype = node->src[i].dtype;

		snprintf(what, sizeof(what), "source %u", i);
		if (o->src[i] && dtype &&
		    !weir__cuda_is_one_of(o->src[i], dtype))
			return refuse_dtype(node, what, dtype, o->src[i]);
	}
	if (o->dst && !weir__cuda_is_one_of(o->dst, node->dst.dtype))
		return refuse_dtype(node, "the result", node->dst.dtype,
				    o->dst);
	return o->supports ? o->supports(node) : 0;
}

uint64_t weir__cuda_outer(const struct weir_operand *t, unsigned from)
{
	uint64_t n = 1;

	for (unsigned i = from; i < t->ndim; i++)
		if (!weir__cuda_dim(t, i))
			return 0;
	for (unsigned i = from; i < t->ndim; i++)
		n *= (uint64_t)weir__cuda_dim(t, i);
	return n;
}

/* True if an address or a stride is no multiple of the bytes of an element. */
static bool is_unaligned(const struct weir_operand *t)
{
	const struct weir_dtype_info *info = weir__cuda_host.dtype(t->dtype);
	uint64_t all = (uintptr_t)t->data;

	if (!info || info->block != 1)
		return true;
	for (unsigned i = 0; i < t->ndim; i++)
		all |= (uint64_t)t->stride[i];
	return all % info->bytes;
}

struct weir__cuda_operand weir__cuda_operand(const struct weir_operand *t)
{
	struct weir__cuda_operand o = { 0 };

	o.data = (uintptr_t)t->data;
	o.dtype = t->dtype;
	o.unaligned = is_unaligned(t);
	for (unsigned i = 0; i < WEIR__CUDA_DIMS; i++) {
		o.dim[i] = weir__cuda_dim(t, i);
		o.stride[i] = weir__cuda_stride(t, i);
	}
	return o;
}

struct weir__cuda_operand
weir__cuda_source(const struct weir_backend_node *node, uint32_t i)
{
	return i < node->n_src ? weir__cuda_operand(&node->src[i])
			       : (struct weir__cuda_operand){ 0 };
}

bool weir__cuda_whole_rows(const struct weir_operand *t)
{
	const struct weir_dtype_info *info = weir__cuda_host.dtype(t->dtype);

	return info && weir__cuda_dim(t, 0) % info->block == 0;
}

/* True if dimension @i of @t can be walked as one with the dimension before. */
static bool is_joined(const struct weir__cuda_operand *t, unsigned i,
		      const struct weir__cuda_operand *dst)
{
	return t->stride[i] == t->stride[i - 1] * t->dim[i - 1] &&
	       t->dim[i] == dst->dim[i] && t->dim[i - 1] == dst->dim[i - 1];
}

static void remove_dim(struct weir__cuda_operand *t, unsigned i, bool join)
{
	if (join)
		t->dim[i - 1] *= t->dim[i];
	for (; i + 1 < WEIR__CUDA_DIMS; i++) {
		t->dim[i] = t->dim[i + 1];
		t->stride[i] = t->stride[i + 1];
	}
	t->dim[i] = 1;
	t->stride[i] = 0;
}

unsigned weir__cuda_join_dims(struct weir__cuda_operand *t[3])
{
	unsigned n = WEIR__CUDA_DIMS;

	for (unsigned i = WEIR__CUDA_DIMS - 1; i > 0; i--) {
		bool join = true, one = t[0]->dim[i] == 1;

		for (unsigned k = 0; k < 3; k++)
			join = join &&
			       (!t[k]->data || is_joined(t[k], i, t[0]));
		if (!join && !one)
			continue;
		for (unsigned k = 0; k < 3; k++)
			remove_dim(t[k], i, !one);
		n--;
	}
	return n;
}
