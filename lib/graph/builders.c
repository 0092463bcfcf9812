/* SPDX-License-Identifier: MIT */
/*
 * The functions of ops.h, one for each operation: each fills in the parameters
 * of its operation, and makes the node by weir_graph_op().
 */
#include <weir/ops.h>

static struct weir_node *op1(struct weir_graph *g, enum weir_op op,
			     const void *params, size_t size,
			     struct weir_node *a)
{
	return weir_graph_op(g, op, params, size, &a, 1);
}

static struct weir_node *op2(struct weir_graph *g, enum weir_op op,
			     const void *params, size_t size,
			     struct weir_node *a, struct weir_node *b)
{
	struct weir_node *const src[] = { a, b };

	return weir_graph_op(g, op, params, size, src, 2);
}

static struct weir_node *op3(struct weir_graph *g, enum weir_op op,
			     const void *params, size_t size,
			     struct weir_node *a, struct weir_node *b,
			     struct weir_node *c)
{
	struct weir_node *const src[] = { a, b, c };

	return weir_graph_op(g, op, params, size, src, 3);
}

/* @dim is NULL if @ndim is 0; weir_graph_op() refuses too many dimensions. */
static void dims_set(int64_t to[WEIR_MAX_DIMS], const int64_t *dim,
		     unsigned ndim)
{
	for (unsigned i = 0; dim && i < ndim && i < WEIR_MAX_DIMS; i++)
		to[i] = dim[i];
}

struct weir_node *weir_view(struct weir_graph *g, struct weir_node *a,
			    unsigned ndim, const int64_t *shape,
			    const int64_t *stride, uint64_t offset)
{
	struct weir_op_view p = { .how = WEIR_VIEW_STRIDES,
				  .ndim = ndim,
				  .offset = offset };

	dims_set(p.shape, shape, ndim);
	dims_set(p.stride, stride, ndim);
	return op1(g, WEIR_OP_VIEW, &p, sizeof(p), a);
}

struct weir_node *weir_reshape(struct weir_graph *g, struct weir_node *a,
			       unsigned ndim, const int64_t *shape)
{
	struct weir_op_view p = { .how = WEIR_VIEW_RESHAPE, .ndim = ndim };

	dims_set(p.shape, shape, ndim);
	return op1(g, WEIR_OP_VIEW, &p, sizeof(p), a);
}

struct weir_node *weir_permute(struct weir_graph *g, struct weir_node *a,
			       unsigned ndim, const int64_t *dim)
{
	struct weir_op_view p = { .how = WEIR_VIEW_PERMUTE, .ndim = ndim };

	dims_set(p.shape, dim, ndim);
	return op1(g, WEIR_OP_VIEW, &p, sizeof(p), a);
}

struct weir_node *weir_transpose(struct weir_graph *g, struct weir_node *a)
{
	const struct weir_tensor *t = weir_node_tensor(a);
	unsigned n = t ? t->ndim : 0;
	int64_t dim[WEIR_MAX_DIMS];

	for (unsigned i = 0; i < n; i++)
		dim[i] = i;
	if (n >= 2) {
		dim[n - 1] = n - 2;
		dim[n - 2] = n - 1;
	}
	return weir_permute(g, a, n, n ? dim : NULL);
}

struct weir_node *weir_slice(struct weir_graph *g, struct weir_node *a,
			     unsigned dim, int64_t start, int64_t n)
{
	const struct weir_op_view p = { .how = WEIR_VIEW_SLICE,
					.ndim = 3,
					.shape = { dim, start, n } };

	return op1(g, WEIR_OP_VIEW, &p, sizeof(p), a);
}

struct weir_node *weir_get_rows(struct weir_graph *g, struct weir_node *a,
				struct weir_node *ids)
{
	return op2(g, WEIR_OP_GET_ROWS, NULL, 0, a, ids);
}

struct weir_node *weir_set_rows(struct weir_graph *g, struct weir_node *dst,
				struct weir_node *b, struct weir_node *ids)
{
	return op3(g, WEIR_OP_SET_ROWS, NULL, 0, dst, b, ids);
}

struct weir_node *weir_mul_mat(struct weir_graph *g, struct weir_node *a,
			       struct weir_node *b)
{
	return op2(g, WEIR_OP_MUL_MAT, NULL, 0, a, b);
}

struct weir_node *weir_mul_mat_id(struct weir_graph *g, struct weir_node *as,
				  struct weir_node *b, struct weir_node *ids)
{
	return op3(g, WEIR_OP_MUL_MAT_ID, NULL, 0, as, b, ids);
}

struct weir_node *weir_mul_mat_precision(struct weir_graph *g,
					 struct weir_node *a,
					 struct weir_node *b,
					 enum weir_precision precision)
{
	const struct weir_op_mul_mat p = { .precision = precision };

	return op2(g, WEIR_OP_MUL_MAT, &p, sizeof(p), a, b);
}

struct weir_node *weir_mul_mat_id_precision(struct weir_graph *g,
					    struct weir_node *as,
					    struct weir_node *b,
					    struct weir_node *ids,
					    enum weir_precision precision)
{
	const struct weir_op_mul_mat p = { .precision = precision };

	return op3(g, WEIR_OP_MUL_MAT_ID, &p, sizeof(p), as, b, ids);
}

struct weir_node *weir_add(struct weir_graph *g, struct weir_node *a,
			   struct weir_node *b)
{
	return op2(g, WEIR_OP_ADD, NULL, 0, a, b);
}

struct weir_node *weir_sub(struct weir_graph *g, struct weir_node *a,
			   struct weir_node *b)
{
	return op2(g, WEIR_OP_SUB, NULL, 0, a, b);
}

struct weir_node *weir_mul(struct weir_graph *g, struct weir_node *a,
			   struct weir_node *b)
{
	return op2(g, WEIR_OP_MUL, NULL, 0, a, b);
}

struct weir_node *weir_div(struct weir_graph *g, struct weir_node *a,
			   struct weir_node *b)
{
	return op2(g, WEIR_OP_DIV, NULL, 0, a, b);
}

struct weir_node *weir_scale(struct weir_graph *g, struct weir_node *a,
			     float scale, float bias)
{
	const struct weir_op_scale p = { .scale = scale, .bias = bias };

	return op1(g, WEIR_OP_SCALE, &p, sizeof(p), a);
}

struct weir_node *weir_sqr(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_SQR, NULL, 0, a);
}

struct weir_node *weir_silu(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_SILU, NULL, 0, a);
}

struct weir_node *weir_gelu(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_GELU, NULL, 0, a);
}

struct weir_node *weir_gelu_erf(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_GELU_ERF, NULL, 0, a);
}

struct weir_node *weir_relu(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_RELU, NULL, 0, a);
}

struct weir_node *weir_tanh(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_TANH, NULL, 0, a);
}

struct weir_node *weir_sigmoid(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_SIGMOID, NULL, 0, a);
}

struct weir_node *weir_exp(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_EXP, NULL, 0, a);
}

struct weir_node *weir_sqrt(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_SQRT, NULL, 0, a);
}

struct weir_node *weir_clamp(struct weir_graph *g, struct weir_node *a,
			     float min, float max)
{
	const struct weir_op_clamp p = { .min = min, .max = max };

	return op1(g, WEIR_OP_CLAMP, &p, sizeof(p), a);
}

struct weir_node *weir_swiglu(struct weir_graph *g, struct weir_node *gate,
			      struct weir_node *up)
{
	return op2(g, WEIR_OP_SWIGLU, NULL, 0, gate, up);
}

struct weir_node *weir_rms_norm(struct weir_graph *g, struct weir_node *a,
				float eps)
{
	const struct weir_op_norm p = { .eps = eps };

	return op1(g, WEIR_OP_RMS_NORM, &p, sizeof(p), a);
}

struct weir_node *weir_norm(struct weir_graph *g, struct weir_node *a,
			    float eps)
{
	const struct weir_op_norm p = { .eps = eps };

	return op1(g, WEIR_OP_NORM, &p, sizeof(p), a);
}

struct weir_node *weir_l2_norm(struct weir_graph *g, struct weir_node *a,
			       float eps)
{
	const struct weir_op_norm p = { .eps = eps };

	return op1(g, WEIR_OP_L2_NORM, &p, sizeof(p), a);
}

struct weir_node *weir_group_norm(struct weir_graph *g, struct weir_node *a,
				  uint32_t groups, float eps)
{
	const struct weir_op_group_norm p = { .groups = groups, .eps = eps };

	return op1(g, WEIR_OP_GROUP_NORM, &p, sizeof(p), a);
}

struct weir_node *weir_soft_max(struct weir_graph *g, struct weir_node *a,
				struct weir_node *mask, float scale,
				float max_bias)
{
	const struct weir_op_soft_max p = { .scale = scale,
					    .max_bias = max_bias };

	return op2(g, WEIR_OP_SOFT_MAX, &p, sizeof(p), a, mask);
}

struct weir_node *weir_soft_max_sinks(struct weir_graph *g, struct weir_node *a,
				      struct weir_node *mask,
				      struct weir_node *sinks, float scale,
				      float max_bias)
{
	const struct weir_op_soft_max p = { .scale = scale,
					    .max_bias = max_bias };

	return op3(g, WEIR_OP_SOFT_MAX, &p, sizeof(p), a, mask, sinks);
}

struct weir_node *weir_rope(struct weir_graph *g, struct weir_node *a,
			    struct weir_node *pos, struct weir_node *factors,
			    const struct weir_op_rope *rope)
{
	return op3(g, WEIR_OP_ROPE, rope, rope ? sizeof(*rope) : 0, a, pos,
		   factors);
}

struct weir_node *weir_attention(struct weir_graph *g, struct weir_node *q,
				 struct weir_node *k, struct weir_node *v,
				 struct weir_node *mask,
				 const struct weir_op_attention *attention)
{
	struct weir_node *const src[] = { q, k, v, mask };

	return weir_graph_op(g, WEIR_OP_ATTENTION, attention,
			     attention ? sizeof(*attention) : 0, src, 4);
}

struct weir_node *
weir_attention_sinks(struct weir_graph *g, struct weir_node *q,
		     struct weir_node *k, struct weir_node *v,
		     struct weir_node *mask, struct weir_node *sinks,
		     const struct weir_op_attention *attention)
{
	struct weir_node *const src[] = { q, k, v, mask, sinks };

	return weir_graph_op(g, WEIR_OP_ATTENTION, attention,
			     attention ? sizeof(*attention) : 0, src, 5);
}

struct weir_node *weir_attention_lengths(
	struct weir_graph *g, struct weir_node *q, struct weir_node *k,
	struct weir_node *v, struct weir_node *lengths, struct weir_node *pages,
	struct weir_node *sinks, const struct weir_op_attention *attention)
{
	struct weir_node *const src[] = {
		q, k, v, NULL, sinks, lengths, pages
	};

	return weir_graph_op(g, WEIR_OP_ATTENTION, attention,
			     attention ? sizeof(*attention) : 0, src, 7);
}

struct weir_node *weir_copy(struct weir_graph *g, struct weir_node *a,
			    struct weir_node *dst)
{
	return op2(g, WEIR_OP_COPY, NULL, 0, a, dst);
}

struct weir_node *weir_cont(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_CONT, NULL, 0, a);
}

struct weir_node *weir_cast(struct weir_graph *g, struct weir_node *a,
			    enum weir_dtype dtype)
{
	const struct weir_op_cont p = { .dtype = dtype };

	return op1(g, WEIR_OP_CONT, &p, sizeof(p), a);
}

struct weir_node *weir_concat(struct weir_graph *g, struct weir_node *a,
			      struct weir_node *b, unsigned dim)
{
	const struct weir_op_concat p = { .dim = dim };

	return op2(g, WEIR_OP_CONCAT, &p, sizeof(p), a, b);
}

struct weir_node *weir_repeat(struct weir_graph *g, struct weir_node *a,
			      unsigned ndim, const int64_t *shape)
{
	struct weir_op_repeat p = { .ndim = ndim };

	dims_set(p.shape, shape, ndim);
	return op1(g, WEIR_OP_REPEAT, &p, sizeof(p), a);
}

struct weir_node *weir_sum(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_SUM, NULL, 0, a);
}

struct weir_node *weir_sum_rows(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_SUM_ROWS, NULL, 0, a);
}

struct weir_node *weir_argmax(struct weir_graph *g, struct weir_node *a)
{
	return op1(g, WEIR_OP_ARGMAX, NULL, 0, a);
}

struct weir_node *weir_top_k(struct weir_graph *g, struct weir_node *a,
			     int64_t k)
{
	const struct weir_op_top_k p = { .k = k };

	return op1(g, WEIR_OP_TOP_K, &p, sizeof(p), a);
}

struct weir_node *weir_argsort(struct weir_graph *g, struct weir_node *a,
			       enum weir_sort_order order)
{
	const struct weir_op_argsort p = { .order = order };

	return op1(g, WEIR_OP_ARGSORT, &p, sizeof(p), a);
}

struct weir_node *weir_call(struct weir_graph *g,
			    const struct weir_op_call *call,
			    struct weir_node *const *src, unsigned n)
{
	return weir_graph_op(g, WEIR_OP_CALL, call, call ? sizeof(*call) : 0,
			     src, n);
}
