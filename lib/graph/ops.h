/* SPDX-License-Identifier: MIT */
/*
 * The table of operations. An operation is one row here, one rule in shapes.c,
 * its section of weir_ops(3), and a kernel in each backend that has it.
 */
#ifndef WEIR__GRAPH_OPS_H
#define WEIR__GRAPH_OPS_H

#include <stdbool.h>

#include <weir/ops.h>

#include "graph/graph.h"

#define WEIR__OP_ARGS 7u

/* Dtypes that a source may have. */
#define WEIR__IS_F32 0x01u
#define WEIR__IS_F16 0x02u
#define WEIR__IS_BF16 0x04u
#define WEIR__IS_I32 0x08u
#define WEIR__IS_I64 0x10u
#define WEIR__IS_QUANT 0x20u /* quantised, of GGML */
#define WEIR__IS_OTHER 0x40u

/* How a source must be in memory. */
enum weir__form {
	WEIR__FORM_ANY,
	WEIR__FORM_ROWS, /* elements of a row are neighbours */
	WEIR__FORM_WHOLE /* contiguous */
};

struct weir__arg {
	const char *name;
	uint8_t dtypes; /* WEIR__IS_* */
	uint8_t form;   /* enum weir__form */
	uint8_t dims;   /* at least */
};

#define WEIR__OP_VIEWS 0x01u  /* the result has the bytes of source 0 */
#define WEIR__OP_WRITES 0x02u /* it writes a leaf: source .target */

struct weir__op_info {
	const char *name;
	uint8_t required, optional; /* number of sources */
	bool any;                   /* CALL: any number, all required */
	uint8_t flags;              /* WEIR__OP_* */
	uint8_t target;             /* the source that is written */
	uint8_t in_place; /* bit i: the result may take the place of source i */
	uint8_t flops;    /* flops of an element of the result */
	uint32_t params;  /* bytes of the parameters; a multiple of 4 */
	struct weir__arg arg[WEIR__OP_ARGS];
	/*
	 * Check parameters and shapes, fill in defaults, and set the result:
	 * m->t, and of a view its place in the storage. The number of sources,
	 * their dtypes and forms have been checked. < 0 with a sentence. NULL:
	 * not made by weir_graph_op().
	 */
	int (*rule)(struct weir__new_node *m);
	/* Used if the flops are not .flops for each element. */
	uint64_t (*count)(const struct weir_node *node);
};

/* The row of an enum weir_op; NULL: not an operation. */
const struct weir__op_info *weir__op_row(uint32_t op);

/*
 * Bytes that the node reads and writes, and its operations on elements: for
 * comparing devices, not exact. UINT64_MAX: more than 2^64 - 1.
 */
uint64_t weir__op_bytes(const struct weir_node *node);
uint64_t weir__op_flops(const struct weir_node *node);

/* -EINVAL: "mul_mat: " and the sentence, then the sources with their shapes. */
int weir__op_refuse(const struct weir__new_node *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The result is contiguous. Errors of weir_tensor_init(). */
int weir__op_result(struct weir__new_node *m, uint32_t dtype, unsigned ndim,
		    const int64_t *shape);

/* Dimension @i of @t, counted from the last; 1 if it does not have it. */
static inline int64_t weir__dim_back(const struct weir_tensor *t, unsigned i)
{
	return i < t->ndim ? t->shape[t->ndim - 1 - i] : 1;
}

/* The rules of table rows, in shapes.c and views.c. */
int weir__rule_view(struct weir__new_node *m);
int weir__rule_get_rows(struct weir__new_node *m);
int weir__rule_set_rows(struct weir__new_node *m);
int weir__rule_mul_mat(struct weir__new_node *m);
int weir__rule_mul_mat_id(struct weir__new_node *m);
int weir__rule_repeated(struct weir__new_node *m);
int weir__rule_same(struct weir__new_node *m);
int weir__rule_scale(struct weir__new_node *m);
int weir__rule_clamp(struct weir__new_node *m);
int weir__rule_swiglu(struct weir__new_node *m);
int weir__rule_norm(struct weir__new_node *m);
int weir__rule_group_norm(struct weir__new_node *m);
int weir__rule_soft_max(struct weir__new_node *m);
int weir__rule_rope(struct weir__new_node *m);
int weir__rule_attention(struct weir__new_node *m);
int weir__rule_copy(struct weir__new_node *m);
int weir__rule_cont(struct weir__new_node *m);
int weir__rule_concat(struct weir__new_node *m);
int weir__rule_repeat(struct weir__new_node *m);
int weir__rule_sum(struct weir__new_node *m);
int weir__rule_sum_rows(struct weir__new_node *m);
int weir__rule_argmax(struct weir__new_node *m);
int weir__rule_top_k(struct weir__new_node *m);
int weir__rule_argsort(struct weir__new_node *m);
int weir__rule_call(struct weir__new_node *m);

#endif
