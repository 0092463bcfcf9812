/* SPDX-License-Identifier: MIT */
/*
 * Operations of graphs: their parameters, and a function for each that makes
 * its node by weir_graph_op(). weir_ops(3) has the rules of shapes and dtypes.
 * Shapes are written with the outermost dimension first: in [.., R, C] C is
 * the last dimension, whose elements are neighbours in memory, and a row has C
 * elements. Dimensions of two sources are compared from the last one on; a
 * dimension that one of them lacks is treated as 1. Each function returns the
 * node, or NULL, and the graph keeps the failure (graph.h).
 */
#ifndef WEIR_OPS_H
#define WEIR_OPS_H

#include <weir/graph.h>

WEIR__BEGIN

/* How a struct weir_op_view describes the view. */
enum weir_view {
	WEIR_VIEW_STRIDES = 0, /* shape, stride and offset */
	WEIR_VIEW_RESHAPE = 1, /* shape */
	WEIR_VIEW_PERMUTE = 2, /* shape[i]: which dimension becomes i */
	WEIR_VIEW_SLICE = 3    /* indices [start, start + n) of dimension dim:
				  shape[0] is dim, shape[1] start, shape[2] n */
};
struct weir_op_view {
	uint32_t how;                  /* enum weir_view */
	uint32_t ndim;                 /* dimensions of the view; SLICE: 3 */
	int64_t shape[WEIR_MAX_DIMS];  /* elements */
	int64_t stride[WEIR_MAX_DIMS]; /* bytes, as in struct weir_tensor */
	uint64_t offset;               /* bytes from the source's first byte */
};

/*
 * How exact products are, and what their bits depend on. FAST is the fastest:
 * it may round b, and the way depends on the number of rows of b. INVARIANT is
 * as exact as FAST is with one row of b, and batch-invariant: the other rows,
 * or tokens, that are computed together with one do not change the bits of its
 * result. F32 is invariant too, and does not round b.
 * weir_mul_mat_precision(3) has bounds of the errors.
 */
enum weir_precision {
	WEIR_PRECISION_FAST = 0,
	WEIR_PRECISION_INVARIANT = 1,
	WEIR_PRECISION_F32 = 2
};
struct weir_op_mul_mat {    /* mul_mat_id has it, too */
	uint32_t precision; /* enum weir_precision */
};

struct weir_op_scale {
	float scale, bias; /* scale * x + bias */
};

struct weir_op_clamp {
	float min, max; /* may be infinite; min is at most max */
};

struct weir_op_norm { /* l2_norm has it, too */
	float eps;    /* 0 or more */
};

struct weir_op_group_norm {
	uint32_t groups; /* a divisor of C */
	float eps;       /* 0 or more */
};

struct weir_op_soft_max {
	float scale;    /* 0: 1 */
	float max_bias; /* greatest bias of ALiBi; 0: none */
};

enum weir_rope_mode {
	WEIR_ROPE_NORMAL = 0, /* pairs (2i, 2i + 1): GGUF files of Llama */
	WEIR_ROPE_NEOX = 1    /* pairs (i, i + n_dims / 2): Hugging Face */
};
struct weir_op_rope {
	uint32_t mode;     /* enum weir_rope_mode */
	uint32_t n_dims;   /* even; the rest of a row is copied. 0: all */
	float base;        /* 0: 10000 */
	float freq_scale;  /* 0: 1 */
	float ext_factor;  /* weight of extrapolation (YaRN); 0: none */
	float attn_factor; /* 0: 1 */
	float beta_fast;   /* 0: 32 */
	float beta_slow;   /* 0: 1 */
	uint32_t context;  /* length that the model was trained with; only used
			      if ext_factor is not 0 */
};

struct weir_op_attention {
	float scale;    /* 0: 1 / sqrt(D) */
	float max_bias; /* greatest bias of ALiBi; 0: none */
	float softcap;  /* w becomes softcap * tanh(w / softcap); 0: w is not
			   changed */
	uint32_t precision; /* enum weir_precision */
	uint32_t causal;    /* 1: no token attends to later ones */
	uint32_t window;    /* the number of positions that a token attends to,
			       its own included; needs causal. 0: no limit */
	uint32_t page;      /* positions of a page; 0: there are no pages */
};

struct weir_op_cont {
	uint32_t dtype; /* enum weir_dtype; 0: that of the source */
};

struct weir_op_concat {
	uint32_t dim;
};

struct weir_op_repeat {
	uint32_t ndim;
	uint32_t reserved; /* 0 */
	int64_t shape[WEIR_MAX_DIMS];
};

struct weir_op_top_k {
	int64_t k; /* 1 to C */
};

enum weir_sort_order {
	WEIR_SORT_ASCENDING = 0,
	WEIR_SORT_DESCENDING = 1
};
struct weir_op_argsort {
	uint32_t order; /* enum weir_sort_order */
};

/* A tensor in memory, as the function of CALL gets it. */
struct weir_operand {
	void *data; /* NULL: a source that was left out */
	uint32_t dtype, ndim;
	int64_t shape[WEIR_MAX_DIMS];
	int64_t stride[WEIR_MAX_DIMS]; /* bytes */
};
/*
 * An operation of the program: compute part @part of @parts parts of @dst from
 * the @n sources; the function decides what a part is. Several threads of the
 * library may call it at once, for different parts. It may not call weir. It
 * returns 0, or a negative errno, which ends the run.
 */
typedef int weir_call_fn(void *arg, const struct weir_operand *dst,
			 const struct weir_operand *src, unsigned n,
			 unsigned part, unsigned parts);
struct weir_op_call {
	weir_call_fn *fn;
	void *arg;
	uint32_t dtype, ndim;         /* those of the result */
	int64_t shape[WEIR_MAX_DIMS]; /* those of the result */
	uint32_t parts;               /* most parts; 0: any number */
	uint32_t reserved;            /* 0 */
};

/* The type of a member of an operation's parameters. */
enum weir_param_type {
	WEIR_PARAM_U32 = 0,
	WEIR_PARAM_U64 = 1,
	WEIR_PARAM_I64 = 2,
	WEIR_PARAM_F32 = 3,
	WEIR_PARAM_WORD = 4,  /* uint32_t: the number of a word of .words */
	WEIR_PARAM_DTYPE = 5, /* uint32_t: enum weir_dtype */
	WEIR_PARAM_DIMS = 6,  /* int64_t[WEIR_MAX_DIMS] */
	WEIR_PARAM_NDIM = 7,  /* uint32_t: how many members of the DIMS are
				 used */
	WEIR_PARAM_POINTER = 8
};
struct weir_op_param {
	const char *name;         /* "eps", as the member; NULL ends a list */
	uint32_t type;            /* enum weir_param_type */
	uint32_t offset;          /* bytes, in the struct of the parameters */
	const char *const *words; /* WORD: "fast", ..., NULL. Otherwise NULL */
};

#define WEIR_OP_SOURCES 8

/* An operation, for programs that make nodes by names. All is constant. */
struct weir_op_info {
	size_t size;         /* set by the caller */
	const char *name;    /* "mul_mat" */
	const char *summary; /* "b times a transposed: ..."; one line */
	const char *source[WEIR_OP_SOURCES]; /* "a", "b", ..., NULL */
	uint32_t required; /* number of sources that it needs */
	uint32_t optional; /* number of sources after them that may be NULL */
	uint32_t any;      /* 1: it takes any number of sources */
	uint32_t params_size; /* bytes of the struct of its parameters */
	const struct weir_op_param *params; /* a list, without reserved ones */
};
/*
 * Describe an operation. Operations have numbers from 0 on, without gaps, so
 * a program finds one by its name in a loop. weir_graph_op() does not make
 * LEAF and INPUT. -EINVAL: there is no operation @op, or the size is not set.
 */
WEIR_API int weir_op_info(enum weir_op op, struct weir_op_info *ret_info)
	WEIR_NONNULL(2);

/*
 * Views: the result has the bytes of @a. @stride and @offset are in bytes; the
 * view may not exceed the bytes of @a.
 */
WEIR_API struct weir_node *weir_view(struct weir_graph *g, struct weir_node *a,
				     unsigned ndim, const int64_t *shape,
				     const int64_t *stride, uint64_t offset)
	WEIR_NONNULL(1);

/* The elements of @a in the same order, in another shape. */
WEIR_API struct weir_node *weir_reshape(struct weir_graph *g,
					struct weir_node *a, unsigned ndim,
					const int64_t *shape) WEIR_NONNULL(1);

/* Dimension i of the result is dimension dim[i] of @a. */
WEIR_API struct weir_node *weir_permute(struct weir_graph *g,
					struct weir_node *a, unsigned ndim,
					const int64_t *dim) WEIR_NONNULL(1);

/* Exchange the last two dimensions. */
WEIR_API struct weir_node *weir_transpose(struct weir_graph *g,
					  struct weir_node *a) WEIR_NONNULL(1);

/* The indices [start, start + n) of dimension @dim. */
WEIR_API struct weir_node *weir_slice(struct weir_graph *g, struct weir_node *a,
				      unsigned dim, int64_t start, int64_t n)
	WEIR_NONNULL(1);

/* a [.., R, C], ids I32 [.., n] -> F32 (I32 if @a is I32) [.., n, C]. */
WEIR_API struct weir_node *weir_get_rows(struct weir_graph *g,
					 struct weir_node *a,
					 struct weir_node *ids) WEIR_NONNULL(1);

/*
 * Write rows of a leaf: row ids[i] of @dst [.., R, C] becomes row i of @b
 * [.., n, C], converted to the dtype of @dst. The result has the bytes of
 * @dst. -EINVAL: @b or @ids overlaps @dst, as far as that is known now.
 */
WEIR_API struct weir_node *weir_set_rows(struct weir_graph *g,
					 struct weir_node *dst,
					 struct weir_node *b,
					 struct weir_node *ids) WEIR_NONNULL(1);

/* a [.., M, K], b [.., N, K] -> F32 [.., N, M]: b times a transposed. */
WEIR_API struct weir_node *weir_mul_mat(struct weir_graph *g,
					struct weir_node *a,
					struct weir_node *b) WEIR_NONNULL(1);

/*
 * A product with chosen matrices: as [E, M, K], b [T, m, K], where m divides
 * n, ids I32 [T, n] -> F32 [T, n, M]; row (t, i) is row (t, i modulo m) of b
 * times matrix ids[t, i].
 */
WEIR_API struct weir_node *
weir_mul_mat_id(struct weir_graph *g, struct weir_node *as, struct weir_node *b,
		struct weir_node *ids) WEIR_NONNULL(1);

/* The same products with a precision; the calls above have FAST. */
WEIR_API struct weir_node *
weir_mul_mat_precision(struct weir_graph *g, struct weir_node *a,
		       struct weir_node *b, enum weir_precision precision)
	WEIR_NONNULL(1);

WEIR_API struct weir_node *
weir_mul_mat_id_precision(struct weir_graph *g, struct weir_node *as,
			  struct weir_node *b, struct weir_node *ids,
			  enum weir_precision precision) WEIR_NONNULL(1);

/*
 * Add, subtract, multiply or divide elements. @a is floating-point, @b is F32;
 * @b is repeated to the shape of @a, which is that of the result.
 */
WEIR_API struct weir_node *weir_add(struct weir_graph *g, struct weir_node *a,
				    struct weir_node *b) WEIR_NONNULL(1);

WEIR_API struct weir_node *weir_sub(struct weir_graph *g, struct weir_node *a,
				    struct weir_node *b) WEIR_NONNULL(1);

WEIR_API struct weir_node *weir_mul(struct weir_graph *g, struct weir_node *a,
				    struct weir_node *b) WEIR_NONNULL(1);

WEIR_API struct weir_node *weir_div(struct weir_graph *g, struct weir_node *a,
				    struct weir_node *b) WEIR_NONNULL(1);

/* scale * a + bias. */
WEIR_API struct weir_node *weir_scale(struct weir_graph *g, struct weir_node *a,
				      float scale, float bias) WEIR_NONNULL(1);

/* a * a. */
WEIR_API struct weir_node *weir_sqr(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

/* a / (1 + exp(-a)). */
WEIR_API struct weir_node *weir_silu(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

/*
 * GELU approximated with tanh, as GPT-2 and Gemma have it:
 * a / 2 * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 * a^3))).
 */
WEIR_API struct weir_node *weir_gelu(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

/* GELU itself, as BERT has it: a / 2 * (1 + erf(a / sqrt(2))). */
WEIR_API struct weir_node *weir_gelu_erf(struct weir_graph *g,
					 struct weir_node *a) WEIR_NONNULL(1);

/* a if it is greater than 0, else 0. A NaN stays NaN. */
WEIR_API struct weir_node *weir_relu(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

/* tanh(a), 1 / (1 + exp(-a)), exp(a), and the square root of a. */
WEIR_API struct weir_node *weir_tanh(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

WEIR_API struct weir_node *weir_sigmoid(struct weir_graph *g,
					struct weir_node *a) WEIR_NONNULL(1);

WEIR_API struct weir_node *weir_exp(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

WEIR_API struct weir_node *weir_sqrt(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

/* The nearest to a of the numbers from @min to @max. A NaN stays NaN. */
WEIR_API struct weir_node *weir_clamp(struct weir_graph *g, struct weir_node *a,
				      float min, float max) WEIR_NONNULL(1);

/* silu(gate) * up. */
WEIR_API struct weir_node *weir_swiglu(struct weir_graph *g,
				       struct weir_node *gate,
				       struct weir_node *up) WEIR_NONNULL(1);

/* a / sqrt(mean(a^2) + eps), with the mean of each row. */
WEIR_API struct weir_node *weir_rms_norm(struct weir_graph *g,
					 struct weir_node *a, float eps)
	WEIR_NONNULL(1);

/* (a - mean(a)) / sqrt(variance(a) + eps), with those of each row. */
WEIR_API struct weir_node *weir_norm(struct weir_graph *g, struct weir_node *a,
				     float eps) WEIR_NONNULL(1);

/* a / max(sqrt(sum(a^2)), eps), with the sum of each row. */
WEIR_API struct weir_node *weir_l2_norm(struct weir_graph *g,
					struct weir_node *a, float eps)
	WEIR_NONNULL(1);

/*
 * a [.., C, H, W]: as weir_norm(), with the mean and the variance of each of
 * @groups groups of C / @groups neighbouring channels.
 */
WEIR_API struct weir_node *weir_group_norm(struct weir_graph *g,
					   struct weir_node *a, uint32_t groups,
					   float eps) WEIR_NONNULL(1);

/*
 * softmax(scale * a + slope(h) * mask) of each row of a [.., H, T, S]; mask is
 * [.., T or more, S], or NULL.
 */
WEIR_API struct weir_node *weir_soft_max(struct weir_graph *g,
					 struct weir_node *a,
					 struct weir_node *mask, float scale,
					 float max_bias) WEIR_NONNULL(1);

/*
 * The same, as if each row of head h had one more element, sinks[h] of F32
 * [H], which is neither scaled nor masked, and whose result is dropped.
 */
WEIR_API struct weir_node *
weir_soft_max_sinks(struct weir_graph *g, struct weir_node *a,
		    struct weir_node *mask, struct weir_node *sinks,
		    float scale, float max_bias) WEIR_NONNULL(1);

/* Rotate a [.., T, heads, D] by pos I32 [T]; factors F32, or NULL. */
WEIR_API struct weir_node *
weir_rope(struct weir_graph *g, struct weir_node *a, struct weir_node *pos,
	  struct weir_node *factors, const struct weir_op_rope *rope)
	WEIR_NONNULL(1);

/*
 * q [.., H, T, D], k [.., Hk, S, D], v [.., Hk, S, Dv], mask [.., T or more,
 * S] or NULL -> F32 [.., T, H, Dv].
 */
WEIR_API struct weir_node *
weir_attention(struct weir_graph *g, struct weir_node *q, struct weir_node *k,
	       struct weir_node *v, struct weir_node *mask,
	       const struct weir_op_attention *attention) WEIR_NONNULL(1);

/* With the softmax of weir_soft_max_sinks(): sinks F32 [H] or NULL. */
WEIR_API struct weir_node *
weir_attention_sinks(struct weir_graph *g, struct weir_node *q,
		     struct weir_node *k, struct weir_node *v,
		     struct weir_node *mask, struct weir_node *sinks,
		     const struct weir_op_attention *attention) WEIR_NONNULL(1);

/*
 * Sequences with lengths of their own: lengths I32 [B], of the B sequences of
 * q, or NULL: all have S positions. With pages I32 [B, n], or NULL, all
 * sequences are in one k [Hk, S, D] and v: page pages[b, i], counted in rows of
 * attention->page positions, has positions i * page and up of sequence b. A run
 * fails with -EINVAL, the node and the index, if a length or a page that is
 * needed is out of range. Only positions that a token attends to are read.
 */
WEIR_API struct weir_node *weir_attention_lengths(
	struct weir_graph *g, struct weir_node *q, struct weir_node *k,
	struct weir_node *v, struct weir_node *lengths, struct weir_node *pages,
	struct weir_node *sinks, const struct weir_op_attention *attention)
	WEIR_NONNULL(1);

/*
 * Write the elements of @a, in their order, to @dst, a leaf or a view of one,
 * converted to its dtype. The result has the bytes of @dst. -EINVAL: @a
 * overlaps @dst, as far as that is known now.
 */
WEIR_API struct weir_node *weir_copy(struct weir_graph *g, struct weir_node *a,
				     struct weir_node *dst) WEIR_NONNULL(1);

/* A contiguous copy. */
WEIR_API struct weir_node *weir_cont(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

/* A contiguous copy, converted to @dtype. */
WEIR_API struct weir_node *weir_cast(struct weir_graph *g, struct weir_node *a,
				     enum weir_dtype dtype) WEIR_NONNULL(1);

/* @a and after it @b, along dimension @dim; all other dimensions are equal. */
WEIR_API struct weir_node *weir_concat(struct weir_graph *g,
				       struct weir_node *a, struct weir_node *b,
				       unsigned dim) WEIR_NONNULL(1);

/* @a repeated to @shape, whose dimensions are multiples of those of @a. */
WEIR_API struct weir_node *weir_repeat(struct weir_graph *g,
				       struct weir_node *a, unsigned ndim,
				       const int64_t *shape) WEIR_NONNULL(1);

/* The sum of all elements: F32 [1]. */
WEIR_API struct weir_node *weir_sum(struct weir_graph *g, struct weir_node *a)
	WEIR_NONNULL(1);

/* a [.., C] -> F32 [.., 1]. */
WEIR_API struct weir_node *weir_sum_rows(struct weir_graph *g,
					 struct weir_node *a) WEIR_NONNULL(1);

/* The index of the greatest element of each row: a [.., C] -> I32 [..]. */
WEIR_API struct weir_node *weir_argmax(struct weir_graph *g,
				       struct weir_node *a) WEIR_NONNULL(1);

/* The indices of the @k greatest of each row: a [.., C] -> I32 [.., k]. */
WEIR_API struct weir_node *weir_top_k(struct weir_graph *g, struct weir_node *a,
				      int64_t k) WEIR_NONNULL(1);

/*
 * The indices that sort each row: a [.., C] -> I32 [.., C]. The sort is stable,
 * and NaNs come last in both orders.
 */
WEIR_API struct weir_node *weir_argsort(struct weir_graph *g,
					struct weir_node *a,
					enum weir_sort_order order)
	WEIR_NONNULL(1);

/* An operation of the program, on any number of sources. */
WEIR_API struct weir_node *weir_call(struct weir_graph *g,
				     const struct weir_op_call *call,
				     struct weir_node *const *src, unsigned n)
	WEIR_NONNULL(1);

WEIR__END

#endif
