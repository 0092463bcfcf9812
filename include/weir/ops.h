/* SPDX-License-Identifier: MIT */
/*
 * Operations of graphs: their parameters, and a function for each that makes
 * its node by weir_graph_op(). weir_ops(3) has the rules of shapes and dtypes.
 * Shapes are written with the outermost dimension first: in [.., R, C] C is the
 * last dimension, whose elements are neighbours in memory, and a row has C
 * elements. If two sources differ in their number of dimensions, the last ones
 * belong together, and those that are missing are 1.
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
	uint32_t ndim;                 /* of the view; of SLICE: 3 */
	int64_t shape[WEIR_MAX_DIMS];  /* elements */
	int64_t stride[WEIR_MAX_DIMS]; /* bytes, as in struct weir_tensor */
	uint64_t offset;               /* bytes from the source's first */
};

/*
 * How exact products are, and what their bits depend on. FAST is the fastest: it
 * may round b, and the way depends on the number of columns (rows of b).
 * INVARIANT is as exact as FAST is with one column, and batch-invariant: what is
 * computed with a row, or a token, does not change the bits of its result. F32 is
 * invariant too, and rounds b nowhere. weir_mul_mat_precision(3) has bounds of
 * the errors.
 */
enum weir_precision {
	WEIR_PRECISION_FAST = 0,
	WEIR_PRECISION_INVARIANT = 1,
	WEIR_PRECISION_F32 = 2
};
struct weir_op_mul_mat {    /* of mul_mat_id too */
	uint32_t precision; /* enum weir_precision */
};

struct weir_op_scale {
	float scale, bias; /* scale * x + bias */
};

struct weir_op_norm {
	float eps; /* 0 or more */
};

struct weir_op_soft_max {
	float scale;    /* 0: 1 */
	float max_bias; /* of ALiBi; 0: none */
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
	float max_bias; /* of ALiBi; 0: none */
	float softcap;  /* w becomes softcap * tanh(w / softcap); 0: it stays */
	uint32_t precision; /* enum weir_precision */
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

/* A tensor in memory, as the function of CALL gets it. */
struct weir_operand {
	void *data; /* NULL: a source that was left out */
	uint32_t dtype, ndim;
	int64_t shape[WEIR_MAX_DIMS];
	int64_t stride[WEIR_MAX_DIMS]; /* bytes */
};
/*
 * The program's own operation: compute part @part of @parts, equal ones say, of
 * @dst from the @n sources. Several threads of the library may call it at once,
 * for different parts. It may not call weir. < 0: a negative errno, which ends
 * the run.
 */
typedef int weir_call_fn(void *arg, const struct weir_operand *dst,
			 const struct weir_operand *src, unsigned n,
			 unsigned part, unsigned parts);
struct weir_op_call {
	weir_call_fn *fn;
	void *arg;
	uint32_t dtype, ndim;         /* of the result */
	int64_t shape[WEIR_MAX_DIMS]; /* of the result */
	uint32_t parts;               /* most parts; 0: any number */
	uint32_t reserved;            /* 0 */
};

static inline struct weir_node *weir__op1(struct weir_graph *g, enum weir_op op,
					  const void *params, size_t size,
					  struct weir_node *a)
{
	return weir_graph_op(g, op, params, size, &a, 1);
}

static inline struct weir_node *weir__op2(struct weir_graph *g, enum weir_op op,
					  const void *params, size_t size,
					  struct weir_node *a,
					  struct weir_node *b)
{
	struct weir_node *src[2];

	src[0] = a;
	src[1] = b;
	return weir_graph_op(g, op, params, size, src, 2);
}

static inline struct weir_node *weir__op3(struct weir_graph *g, enum weir_op op,
					  const void *params, size_t size,
					  struct weir_node *a,
					  struct weir_node *b,
					  struct weir_node *c)
{
	struct weir_node *src[3];

	src[0] = a;
	src[1] = b;
	src[2] = c;
	return weir_graph_op(g, op, params, size, src, 3);
}

/* @dim is NULL if @ndim is 0; weir_graph_op() refuses too many dimensions. */
static inline void weir__op_dims(int64_t *to, const int64_t *dim, unsigned ndim)
{
	unsigned i;

	for (i = 0; i < WEIR_MAX_DIMS; i++)
		to[i] = dim && i < ndim ? dim[i] : 0;
}

/*
 * Views: the result has the bytes of @a. @stride and @offset are in bytes; the
 * view may not exceed the bytes of @a.
 */
static inline struct weir_node *
weir_view(struct weir_graph *g, struct weir_node *a, unsigned ndim,
	  const int64_t *shape, const int64_t *stride, uint64_t offset)
{
	struct weir_op_view p;

	p.how = WEIR_VIEW_STRIDES;
	p.ndim = ndim;
	weir__op_dims(p.shape, shape, ndim);
	weir__op_dims(p.stride, stride, ndim);
	p.offset = offset;
	return weir__op1(g, WEIR_OP_VIEW, &p, sizeof(p), a);
}

/* The elements of @a in the same order, in another shape. */
static inline struct weir_node *weir_reshape(struct weir_graph *g,
					     struct weir_node *a, unsigned ndim,
					     const int64_t *shape)
{
	struct weir_op_view p;

	p.how = WEIR_VIEW_RESHAPE;
	p.ndim = ndim;
	weir__op_dims(p.shape, shape, ndim);
	weir__op_dims(p.stride, NULL, 0);
	p.offset = 0;
	return weir__op1(g, WEIR_OP_VIEW, &p, sizeof(p), a);
}

/* Dimension i of the result is dimension dim[i] of @a. */
static inline struct weir_node *weir_permute(struct weir_graph *g,
					     struct weir_node *a, unsigned ndim,
					     const int64_t *dim)
{
	struct weir_op_view p;

	p.how = WEIR_VIEW_PERMUTE;
	p.ndim = ndim;
	weir__op_dims(p.shape, dim, ndim);
	weir__op_dims(p.stride, NULL, 0);
	p.offset = 0;
	return weir__op1(g, WEIR_OP_VIEW, &p, sizeof(p), a);
}

/* The last two dimensions change places. */
static inline struct weir_node *weir_transpose(struct weir_graph *g,
					       struct weir_node *a)
{
	const struct weir_tensor *t = weir_node_tensor(a);
	unsigned n = t ? t->ndim : 0, i;
	int64_t dim[WEIR_MAX_DIMS];

	for (i = 0; i < n; i++)
		dim[i] = i;
	if (n >= 2) {
		dim[n - 1] = n - 2;
		dim[n - 2] = n - 1;
	}
	return weir_permute(g, a, n, n ? dim : NULL);
}

/* The indices [start, start + n) of dimension @dim. */
static inline struct weir_node *weir_slice(struct weir_graph *g,
					   struct weir_node *a, unsigned dim,
					   int64_t start, int64_t n)
{
	struct weir_op_view p;

	p.how = WEIR_VIEW_SLICE;
	p.ndim = 3;
	weir__op_dims(p.shape, NULL, 0);
	p.shape[0] = dim;
	p.shape[1] = start;
	p.shape[2] = n;
	weir__op_dims(p.stride, NULL, 0);
	p.offset = 0;
	return weir__op1(g, WEIR_OP_VIEW, &p, sizeof(p), a);
}

/* a [.., R, C], ids I32 [.., n] -> F32 (I32 if @a is I32) [.., n, C]. */
static inline struct weir_node *
weir_get_rows(struct weir_graph *g, struct weir_node *a, struct weir_node *ids)
{
	return weir__op2(g, WEIR_OP_GET_ROWS, NULL, 0, a, ids);
}

/*
 * Write rows of a leaf: row ids[i] of @dst [.., R, C] becomes row i of @b
 * [.., n, C], converted to the dtype of @dst. The result has the bytes of @dst.
 * @b and @ids may not overlap @dst: -EINVAL where that is known now.
 */
static inline struct weir_node *weir_set_rows(struct weir_graph *g,
					      struct weir_node *dst,
					      struct weir_node *b,
					      struct weir_node *ids)
{
	return weir__op3(g, WEIR_OP_SET_ROWS, NULL, 0, dst, b, ids);
}

/* a [.., M, K], b [.., N, K] -> F32 [.., N, M]: b times a transposed. */
static inline struct weir_node *
weir_mul_mat(struct weir_graph *g, struct weir_node *a, struct weir_node *b)
{
	return weir__op2(g, WEIR_OP_MUL_MAT, NULL, 0, a, b);
}

/*
 * A product with chosen matrices: as [E, M, K], b [T, n or 1, K], ids I32
 * [T, n] -> F32 [T, n, M]; row (t, i) is b's times matrix ids[t, i].
 */
static inline struct weir_node *weir_mul_mat_id(struct weir_graph *g,
						struct weir_node *as,
						struct weir_node *b,
						struct weir_node *ids)
{
	return weir__op3(g, WEIR_OP_MUL_MAT_ID, NULL, 0, as, b, ids);
}

/* The same with an enum weir_precision; the calls above have FAST. */
static inline struct weir_node *
weir_mul_mat_precision(struct weir_graph *g, struct weir_node *a,
		       struct weir_node *b, enum weir_precision precision)
{
	struct weir_op_mul_mat p;

	p.precision = precision;
	return weir__op2(g, WEIR_OP_MUL_MAT, &p, sizeof(p), a, b);
}

static inline struct weir_node *
weir_mul_mat_id_precision(struct weir_graph *g, struct weir_node *as,
			  struct weir_node *b, struct weir_node *ids,
			  enum weir_precision precision)
{
	struct weir_op_mul_mat p;

	p.precision = precision;
	return weir__op3(g, WEIR_OP_MUL_MAT_ID, &p, sizeof(p), as, b, ids);
}

/* @b is repeated to the shape of @a, which the result has. */
static inline struct weir_node *
weir_add(struct weir_graph *g, struct weir_node *a, struct weir_node *b)
{
	return weir__op2(g, WEIR_OP_ADD, NULL, 0, a, b);
}

static inline struct weir_node *
weir_sub(struct weir_graph *g, struct weir_node *a, struct weir_node *b)
{
	return weir__op2(g, WEIR_OP_SUB, NULL, 0, a, b);
}

static inline struct weir_node *
weir_mul(struct weir_graph *g, struct weir_node *a, struct weir_node *b)
{
	return weir__op2(g, WEIR_OP_MUL, NULL, 0, a, b);
}

static inline struct weir_node *
weir_div(struct weir_graph *g, struct weir_node *a, struct weir_node *b)
{
	return weir__op2(g, WEIR_OP_DIV, NULL, 0, a, b);
}

/* scale * a + bias. */
static inline struct weir_node *
weir_scale(struct weir_graph *g, struct weir_node *a, float scale, float bias)
{
	struct weir_op_scale p;

	p.scale = scale;
	p.bias = bias;
	return weir__op1(g, WEIR_OP_SCALE, &p, sizeof(p), a);
}

/* a * a. */
static inline struct weir_node *weir_sqr(struct weir_graph *g,
					 struct weir_node *a)
{
	return weir__op1(g, WEIR_OP_SQR, NULL, 0, a);
}

/* a / (1 + exp(-a)). */
static inline struct weir_node *weir_silu(struct weir_graph *g,
					  struct weir_node *a)
{
	return weir__op1(g, WEIR_OP_SILU, NULL, 0, a);
}

/* a / 2 * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 * a^3))). */
static inline struct weir_node *weir_gelu(struct weir_graph *g,
					  struct weir_node *a)
{
	return weir__op1(g, WEIR_OP_GELU, NULL, 0, a);
}

/* silu(gate) * up. */
static inline struct weir_node *
weir_swiglu(struct weir_graph *g, struct weir_node *gate, struct weir_node *up)
{
	return weir__op2(g, WEIR_OP_SWIGLU, NULL, 0, gate, up);
}

/* Of each row: a / sqrt(mean(a^2) + eps). */
static inline struct weir_node *weir_rms_norm(struct weir_graph *g,
					      struct weir_node *a, float eps)
{
	struct weir_op_norm p;

	p.eps = eps;
	return weir__op1(g, WEIR_OP_RMS_NORM, &p, sizeof(p), a);
}

/* Of each row: (a - mean(a)) / sqrt(variance(a) + eps). */
static inline struct weir_node *weir_norm(struct weir_graph *g,
					  struct weir_node *a, float eps)
{
	struct weir_op_norm p;

	p.eps = eps;
	return weir__op1(g, WEIR_OP_NORM, &p, sizeof(p), a);
}

/* Of each row of a [.., H, T, S]: softmax(scale * a + slope(H) * mask). */
static inline struct weir_node *weir_soft_max(struct weir_graph *g,
					      struct weir_node *a,
					      struct weir_node *mask,
					      float scale, float max_bias)
{
	struct weir_op_soft_max p;

	p.scale = scale;
	p.max_bias = max_bias;
	return weir__op2(g, WEIR_OP_SOFT_MAX, &p, sizeof(p), a, mask);
}

/*
 * The same, as if each row of head h had one more element, sinks[h] of F32 [H],
 * which is neither scaled nor masked, and whose result is dropped.
 */
static inline struct weir_node *weir_soft_max_sinks(struct weir_graph *g,
						    struct weir_node *a,
						    struct weir_node *mask,
						    struct weir_node *sinks,
						    float scale, float max_bias)
{
	struct weir_op_soft_max p;

	p.scale = scale;
	p.max_bias = max_bias;
	return weir__op3(g, WEIR_OP_SOFT_MAX, &p, sizeof(p), a, mask, sinks);
}

/* Rotate a [.., T, heads, D] by pos I32 [T]; factors F32, or NULL. */
static inline struct weir_node *
weir_rope(struct weir_graph *g, struct weir_node *a, struct weir_node *pos,
	  struct weir_node *factors, const struct weir_op_rope *rope)
{
	return weir__op3(g, WEIR_OP_ROPE, rope, rope ? sizeof(*rope) : 0, a,
			 pos, factors);
}

/*
 * q [.., H, T, D], k [.., Hk, S, D], v [.., Hk, S, Dv], mask [.., T, S] or NULL
 * -> F32 [.., T, H, Dv].
 */
static inline struct weir_node *
weir_attention(struct weir_graph *g, struct weir_node *q, struct weir_node *k,
	       struct weir_node *v, struct weir_node *mask,
	       const struct weir_op_attention *attention)
{
	struct weir_node *src[4];

	src[0] = q;
	src[1] = k;
	src[2] = v;
	src[3] = mask;
	return weir_graph_op(g, WEIR_OP_ATTENTION, attention,
			     attention ? sizeof(*attention) : 0, src, 4);
}

/* With the softmax of weir_soft_max_sinks(): sinks F32 [H] or NULL. */
static inline struct weir_node *
weir_attention_sinks(struct weir_graph *g, struct weir_node *q,
		     struct weir_node *k, struct weir_node *v,
		     struct weir_node *mask, struct weir_node *sinks,
		     const struct weir_op_attention *attention)
{
	struct weir_node *src[5];

	src[0] = q;
	src[1] = k;
	src[2] = v;
	src[3] = mask;
	src[4] = sinks;
	return weir_graph_op(g, WEIR_OP_ATTENTION, attention,
			     attention ? sizeof(*attention) : 0, src, 5);
}

/*
 * Write the elements of @a, in their order, to @dst, a leaf or a view of one,
 * converted to its dtype. The result has the bytes of @dst. @a may not overlap
 * @dst: -EINVAL where that is known now.
 */
static inline struct weir_node *
weir_copy(struct weir_graph *g, struct weir_node *a, struct weir_node *dst)
{
	return weir__op2(g, WEIR_OP_COPY, NULL, 0, a, dst);
}

/* A contiguous copy. */
static inline struct weir_node *weir_cont(struct weir_graph *g,
					  struct weir_node *a)
{
	return weir__op1(g, WEIR_OP_CONT, NULL, 0, a);
}

/* A contiguous copy, converted to @dtype. */
static inline struct weir_node *
weir_cast(struct weir_graph *g, struct weir_node *a, enum weir_dtype dtype)
{
	struct weir_op_cont p;

	p.dtype = dtype;
	return weir__op1(g, WEIR_OP_CONT, &p, sizeof(p), a);
}

/* @a, and then @b, along dimension @dim; the others are equal. */
static inline struct weir_node *weir_concat(struct weir_graph *g,
					    struct weir_node *a,
					    struct weir_node *b, unsigned dim)
{
	struct weir_op_concat p;

	p.dim = dim;
	return weir__op2(g, WEIR_OP_CONCAT, &p, sizeof(p), a, b);
}

/* @a repeated to @shape, whose dimensions are multiples of those of @a. */
static inline struct weir_node *weir_repeat(struct weir_graph *g,
					    struct weir_node *a, unsigned ndim,
					    const int64_t *shape)
{
	struct weir_op_repeat p;

	p.ndim = ndim;
	p.reserved = 0;
	weir__op_dims(p.shape, shape, ndim);
	return weir__op1(g, WEIR_OP_REPEAT, &p, sizeof(p), a);
}

/* The sum of all elements: F32 [1]. */
static inline struct weir_node *weir_sum(struct weir_graph *g,
					 struct weir_node *a)
{
	return weir__op1(g, WEIR_OP_SUM, NULL, 0, a);
}

/* a [.., C] -> F32 [.., 1]. */
static inline struct weir_node *weir_sum_rows(struct weir_graph *g,
					      struct weir_node *a)
{
	return weir__op1(g, WEIR_OP_SUM_ROWS, NULL, 0, a);
}

/* The index of the greatest element of each row: a [.., C] -> I32 [..]. */
static inline struct weir_node *weir_argmax(struct weir_graph *g,
					    struct weir_node *a)
{
	return weir__op1(g, WEIR_OP_ARGMAX, NULL, 0, a);
}

/* The indices of the @k greatest of each row: a [.., C] -> I32 [.., k]. */
static inline struct weir_node *weir_top_k(struct weir_graph *g,
					   struct weir_node *a, int64_t k)
{
	struct weir_op_top_k p;

	p.k = k;
	return weir__op1(g, WEIR_OP_TOP_K, &p, sizeof(p), a);
}

/* The program's own operation, on any number of sources. */
static inline struct weir_node *weir_call(struct weir_graph *g,
					  const struct weir_op_call *call,
					  struct weir_node *const *src,
					  unsigned n)
{
	return weir_graph_op(g, WEIR_OP_CALL, call, call ? sizeof(*call) : 0,
			     src, n);
}

WEIR__END

#endif
