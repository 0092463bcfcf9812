/* SPDX-License-Identifier: MIT */
/* The table of kernels, and what all of them use. */
#include "kernels/kernels.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include <weir/tensor.h>

#define lib weir__cpu_host

const struct weir_backend_host *_Atomic weir__cpu_host;

static const struct weir__kernel *const table[] = {
	[WEIR_OP_GET_ROWS] = &weir__kernel_get_rows,
	[WEIR_OP_SET_ROWS] = &weir__kernel_set_rows,
	[WEIR_OP_MUL_MAT] = &weir__kernel_mul_mat,
	[WEIR_OP_MUL_MAT_ID] = &weir__kernel_mul_mat_id,
	[WEIR_OP_ADD] = &weir__kernel_add,
	[WEIR_OP_SUB] = &weir__kernel_sub,
	[WEIR_OP_MUL] = &weir__kernel_mul,
	[WEIR_OP_DIV] = &weir__kernel_div,
	[WEIR_OP_SCALE] = &weir__kernel_scale,
	[WEIR_OP_SQR] = &weir__kernel_sqr,
	[WEIR_OP_SILU] = &weir__kernel_silu,
	[WEIR_OP_GELU] = &weir__kernel_gelu,
	[WEIR_OP_GELU_ERF] = &weir__kernel_gelu_erf,
	[WEIR_OP_RELU] = &weir__kernel_relu,
	[WEIR_OP_TANH] = &weir__kernel_tanh,
	[WEIR_OP_SIGMOID] = &weir__kernel_sigmoid,
	[WEIR_OP_EXP] = &weir__kernel_exp,
	[WEIR_OP_SQRT] = &weir__kernel_sqrt,
	[WEIR_OP_CLAMP] = &weir__kernel_clamp,
	[WEIR_OP_SWIGLU] = &weir__kernel_swiglu,
	[WEIR_OP_RMS_NORM] = &weir__kernel_rms_norm,
	[WEIR_OP_NORM] = &weir__kernel_norm,
	[WEIR_OP_L2_NORM] = &weir__kernel_l2_norm,
	[WEIR_OP_GROUP_NORM] = &weir__kernel_group_norm,
	[WEIR_OP_SOFT_MAX] = &weir__kernel_soft_max,
	[WEIR_OP_ROPE] = &weir__kernel_rope,
	[WEIR_OP_ATTENTION] = &weir__kernel_attention,
	[WEIR_OP_COPY] = &weir__kernel_copy,
	[WEIR_OP_CONT] = &weir__kernel_cont,
	[WEIR_OP_CONCAT] = &weir__kernel_concat,
	[WEIR_OP_REPEAT] = &weir__kernel_repeat,
	[WEIR_OP_SUM] = &weir__kernel_sum,
	[WEIR_OP_SUM_ROWS] = &weir__kernel_sum_rows,
	[WEIR_OP_ARGMAX] = &weir__kernel_argmax,
	[WEIR_OP_TOP_K] = &weir__kernel_top_k,
	[WEIR_OP_ARGSORT] = &weir__kernel_argsort,
	[WEIR_OP_CALL] = &weir__kernel_call,
};

const struct weir__kernel *weir__kernel_find(uint32_t op)
{
	return op < sizeof(table) / sizeof(table[0]) ? table[op] : NULL;
}

static const char *op_name(uint32_t op)
{
	const struct weir__kernel *kernel = weir__kernel_find(op);

	return kernel ? kernel->name : "operation without a kernel";
}

/* Describe a node: "add 'sum' (F32, F32)". */
static void describe(const struct weir_backend_node *node, char *text,
		     size_t room)
{
	int at = snprintf(text, room, "%s '%.60s' (", op_name(node->op),
			  node->name ? node->name : "");

	for (uint32_t i = 0; i < node->n_src && i < 4; i++) {
		const struct weir_dtype_info *info =
			lib->dtype(node->src[i].dtype);

		if (info && at >= 0 && (size_t)at < room)
			at += snprintf(text + at, room - (size_t)at, "%s%s",
				       i ? ", " : "", info->name);
	}
	if (at >= 0 && (size_t)at < room)
		snprintf(text + at, room - (size_t)at, ")");
}

int weir__kernel_refuse(const struct weir_backend_node *node, const char *fmt,
			...)
{
	char what[160], reason[160];
	va_list args;

	describe(node, what, sizeof(what));
	va_start(args, fmt);
	vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	return lib->fail(-EOPNOTSUPP, "CPU: %s: %s", what, reason);
}

int weir__kernel_needs_f32(const struct weir_backend_node *node)
{
	return node->src[0].dtype == WEIR_DTYPE_F32
		       ? 0
		       : weir__kernel_refuse(node, "a is not F32");
}

int weir__kernel_fail(const struct weir__kernel_run *run, int err,
		      const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(run->why, WEIR__WHY, fmt, args);
	va_end(args);
	return err;
}

/* Before each read: a part may need many, and each may take long. */
const unsigned char *weir__kernel_get(const struct weir__kernel_run *run,
				      uint64_t at, size_t *n,
				      unsigned char *room, size_t room_bytes,
				      int *ret_err)
{
	struct weir_backend_reader *p = run->node->reader;

	if (run->stop && __atomic_load_n(run->stop, __ATOMIC_RELAXED)) {
		*ret_err = weir__kernel_fail(run, -ECANCELED, "stopped");
		return NULL;
	}
	return p->get(p, at, n, room, room_bytes, run->why, ret_err);
}

/* A part takes at least 2 us: a barrier of a team takes about 1 us. */
uint32_t weir__kernel_parts(uint64_t cost, uint64_t most, unsigned threads)
{
	const uint64_t least = 2000;
	uint64_t parts = cost / least;

	if (threads <= 1 || parts <= 1 || most <= 1)
		return 1;
	if (parts > (uint64_t)threads * 4)
		parts = (uint64_t)threads * 4;
	return (uint32_t)(parts < most ? parts : most);
}
