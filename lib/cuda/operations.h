/* SPDX-License-Identifier: MIT */
/*
 * The operations that CUDA devices compute: one table, which says for each
 * which dtypes it takes, and how its launches are made. supports, prepare and
 * measure of the backend are all derived from it.
 */
#ifndef WEIR__CUDA_OPERATIONS_H
#define WEIR__CUDA_OPERATIONS_H

#include <stdbool.h>

#include "cuda/kernels/params.h"
#include <weir/backend.h>

struct weir__cuda_launches;

/* Sets of dtypes: bits. */
enum weir__cuda_dtypes {
	WEIR__CUDA_F32 = 1,
	WEIR__CUDA_F16 = 2,
	WEIR__CUDA_BF16 = 4,
	WEIR__CUDA_FLOATS = 7,
	WEIR__CUDA_I32 = 8,
	WEIR__CUDA_I64 = 16,
	WEIR__CUDA_INDICES = 24,
	WEIR__CUDA_Q8_0 = 32,
	WEIR__CUDA_Q4_0 = 64,
	WEIR__CUDA_QUANTS = 128,  /* all other quantised dtypes */
	WEIR__CUDA_WRITTEN = 103, /* floats, and those that copies write */
	WEIR__CUDA_STORED = 231   /* floats and quantised: weights */
};

#define WEIR__CUDA_MOST_SRC 7u

struct weir__cuda_operation {
	const char *name;
	/*
	 * The dtypes of the result and of each source, enum
	 * weir__cuda_dtypes; 0: any. Sources beyond these are refused.
	 */
	uint32_t dst, src[WEIR__CUDA_MOST_SRC];
	uint32_t n_src;
	/*
	 * What the sets do not say: 0, or weir__cuda_refuse(). Optional. Reads
	 * no data of tensors.
	 */
	int (*supports)(const struct weir_backend_node *node);
	/*
	 * Append the launches of the node by weir__cuda_launch_add(). Fails
	 * only if there is no memory. If @measures is set, only the size of the
	 * workspace is wanted, and addresses mean nothing.
	 */
	void (*plan)(struct weir__cuda_launches *l,
		     const struct weir_backend_node *node);
};

/* NULL: CUDA devices do not compute the operation. */
const struct weir__cuda_operation *weir__cuda_operation_find(uint32_t op);
/* Returns 0, or -EOPNOTSUPP with a sentence. */
int weir__cuda_operation_supports(const struct weir_backend_node *node);
/* -EOPNOTSUPP: the node's operation and dtypes, and the reason. */
int weir__cuda_refuse(const struct weir_backend_node *node, const char *fmt,
		      ...) __attribute__((format(printf, 2, 3)));

/* Dimensions from the last one, which is 0. */
static inline int64_t weir__cuda_dim(const struct weir_operand *t, unsigned i)
{
	return i < t->ndim ? t->shape[t->ndim - 1 - i] : 1;
}

static inline int64_t weir__cuda_stride(const struct weir_operand *t,
					unsigned i)
{
	return i < t->ndim ? t->stride[t->ndim - 1 - i] : 0;
}

/* True if @dtype is in the set, enum weir__cuda_dtypes. */
bool weir__cuda_is_one_of(uint32_t set, uint32_t dtype);
/* The product of the dimensions from @from on, which cannot overflow. */
uint64_t weir__cuda_outer(const struct weir_operand *t, unsigned from);
/* The tensor as kernels see it. data NULL: left out. */
struct weir__cuda_operand weir__cuda_operand(const struct weir_operand *t);
/* Source @i of the node; one that it does not have is left out. */
struct weir__cuda_operand
weir__cuda_source(const struct weir_backend_node *node, uint32_t i);
/*
 * Reduce the dimensions that a kernel walks: those of one element are removed,
 * and neighbours without a gap in any operand are joined. Operands without data
 * are ignored. Returns their number, at least 1.
 */
unsigned weir__cuda_join_dims(struct weir__cuda_operand *t[3]);
/* True if the rows of @t consist of whole blocks. */
bool weir__cuda_whole_rows(const struct weir_operand *t);

/* For kernels of several nodes: operation_rows.c, _products.c, _copies.c. */
struct weir__cuda_rope weir__cuda_rope_of(const struct weir_backend_node *node);
struct weir__cuda_product
weir__cuda_product_of(const struct weir_backend_node *node);
/* @number: its number in the segment + 1. */
struct weir__cuda_index
weir__cuda_set_rows_of(const struct weir_backend_node *node, uint64_t number);

/* operation_elements.c */
extern const struct weir__cuda_operation weir__cuda_op_add, weir__cuda_op_sub;
extern const struct weir__cuda_operation weir__cuda_op_mul, weir__cuda_op_div;
extern const struct weir__cuda_operation weir__cuda_op_scale, weir__cuda_op_sqr;
extern const struct weir__cuda_operation weir__cuda_op_silu, weir__cuda_op_gelu;
extern const struct weir__cuda_operation weir__cuda_op_gelu_erf;
extern const struct weir__cuda_operation weir__cuda_op_relu, weir__cuda_op_tanh;
extern const struct weir__cuda_operation weir__cuda_op_sigmoid,
	weir__cuda_op_exp;
extern const struct weir__cuda_operation weir__cuda_op_sqrt,
	weir__cuda_op_clamp;
extern const struct weir__cuda_operation weir__cuda_op_swiglu;

/* operation_rows.c */
extern const struct weir__cuda_operation weir__cuda_op_rms_norm,
	weir__cuda_op_norm;
extern const struct weir__cuda_operation weir__cuda_op_l2_norm,
	weir__cuda_op_group_norm;
extern const struct weir__cuda_operation weir__cuda_op_soft_max,
	weir__cuda_op_rope;
extern const struct weir__cuda_operation weir__cuda_op_sum;
extern const struct weir__cuda_operation weir__cuda_op_sum_rows;
extern const struct weir__cuda_operation weir__cuda_op_argmax;
/* operation_sort.c */
extern const struct weir__cuda_operation weir__cuda_op_top_k,
	weir__cuda_op_argsort;
/* operation_copies.c */
extern const struct weir__cuda_operation weir__cuda_op_copy, weir__cuda_op_cont;
extern const struct weir__cuda_operation weir__cuda_op_concat,
	weir__cuda_op_repeat;
extern const struct weir__cuda_operation weir__cuda_op_get_rows;
extern const struct weir__cuda_operation weir__cuda_op_set_rows;
/* operation_products.c */
extern const struct weir__cuda_operation weir__cuda_op_mul_mat;
extern const struct weir__cuda_operation weir__cuda_op_mul_mat_id;
/* operation_attention.c */
extern const struct weir__cuda_operation weir__cuda_op_attention;
/* Bytes of the workspace for columns of b, unless a few need more. */
#define WEIR__CUDA_ROOM (32 << 20)
/*
 * operation_matvec.c. Append the launches of a product of few columns, or of
 * more, some at a time; @chooses: of mul_mat_id. False: its rows cannot be read
 * so, or @precision is not that of these kernels; nothing was appended.
 */
bool weir__cuda_matvec_plan(struct weir__cuda_launches *l,
			    const struct weir__cuda_product *product,
			    bool chooses, uint32_t precision);

/*
 * A row of F32 that is added to each column of a product, and where the sums
 * go. row.data is 0 if a product has no bias.
 */
struct weir__cuda_bias {
	struct weir__cuda_operand row, sum;
};

/* True if weir__cuda_matvec_join() can add a bias of mul_mat's result. */
bool weir__cuda_matvec_adds(const struct weir__cuda_product *product,
			    const struct weir__cuda_bias *bias);
/* True if weir__cuda_matvec_join() can compute the product of mul_mat. */
bool weir__cuda_matvec_joins(const struct weir__cuda_product *product,
			     uint32_t precision);
/*
 * Append the launches of @n such products of one b, as few as possible. They
 * have the bits of those of weir__cuda_matvec_plan(), and are computed at once:
 * no result may overlap with anything else. @rounded, if it is not NULL: the
 * launch before them has written b as bytes there, as
 * weir__cuda_matvec_rounded() says for the first one, or some bytes after it.
 * Each product has a bias, or one without data.
 */
void weir__cuda_matvec_join(struct weir__cuda_launches *l,
			    const struct weir__cuda_product *product,
			    const struct weir__cuda_bias *bias, unsigned n,
			    const struct weir__cuda_rounded *rounded);
/* The bytes of b that such a product reads; pitch 0: it does not read bytes. */
struct weir__cuda_rounded
weir__cuda_matvec_rounded(struct weir__cuda_launches *l,
			  const struct weir__cuda_product *product);

/*
 * operation_attention.c: true if the launch of the node can write its result as
 * bytes too, a row for each token.
 */
bool weir__cuda_attention_rounds(const struct weir_backend_node *node);
/*
 * Append that launch of node number @number, counted from 1. The bytes are at
 * @rounded, or some bytes after it, which is then added.
 */
void weir__cuda_attention_rounded(struct weir__cuda_launches *l,
				  const struct weir_backend_node *node,
				  uint64_t number,
				  struct weir__cuda_rounded *rounded);

/*
 * operation_tiles.c: append the launches of a product of many columns. False:
 * tiles do not compute it, and nothing was appended.
 */
bool weir__cuda_tiles_mul_mat(struct weir__cuda_launches *l,
			      const struct weir_backend_node *node);
bool weir__cuda_tiles_mul_mat_id(struct weir__cuda_launches *l,
				 const struct weir_backend_node *node);

/*
 * operation_cublaslt.c: append the calls of a product of many columns. False:
 * cuBLASLt does not compute it, and no launch was appended.
 */
bool weir__cuda_cublaslt_mul_mat(struct weir__cuda_launches *l,
				 const struct weir_backend_node *node);

#endif
