/* SPDX-License-Identifier: MIT */
#include "cuda/fuse.h"

#include <string.h>

#include "cuda/cuda.h"
#include "cuda/launches.h"
#include "cuda/operations.h"

#define MOST_PRODUCTS 3 /* that are computed at once */

/* The bytes from the first to the last one of an operand. */
struct extent {
	uintptr_t begin, end; /* equal: it has none */
};

static struct extent extent_of(const struct weir_operand *t)
{
	const struct weir_dtype_info *info = weir__cuda_host.dtype(t->dtype);
	uintptr_t lo = (uintptr_t)t->data, hi = lo;

	if (!t->data || !info || !weir__cuda_outer(t, 0))
		return (struct extent){ 0, 0 };
	for (unsigned i = 0; i < t->ndim; i++) {
		int64_t last = (t->shape[i] - 1) * t->stride[i];

		if (i + 1 == t->ndim)
			last = (t->shape[i] / info->block - 1) * t->stride[i];
		if (last < 0)
			lo -= (uintptr_t)-last;
		else
			hi += (uintptr_t)last;
	}
	return (struct extent){ lo, hi + info->bytes };
}

static bool overlap(const struct weir_operand *a, const struct weir_operand *b)
{
	struct extent x = extent_of(a), y = extent_of(b);

	return x.begin < y.end && y.begin < x.end;
}

static bool same_shape(const struct weir_operand *a,
		       const struct weir_operand *b)
{
	return a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, a->ndim * sizeof(a->shape[0]));
}

/* Each element of both is at one address. */
static bool same_place(const struct weir_operand *a,
		       const struct weir_operand *b)
{
	return a->data == b->data && a->dtype == b->dtype && same_shape(a, b) &&
	       !memcmp(a->stride, b->stride, a->ndim * sizeof(a->stride[0]));
}

/* @later may be written by the thread that has used @earlier before. */
static bool may_follow(const struct weir_operand *later,
		       const struct weir_operand *earlier)
{
	return !overlap(later, earlier) || same_place(later, earlier);
}

/* The @n nodes from @first on are computed by the launches from @launch on. */
static size_t group_made(struct weir__cuda_launches *l, size_t first, size_t n,
			 size_t launch)
{
	if (l->n > launch)
		l->group[first] = (struct weir__cuda_group){ n, launch, l->n };
	return n;
}

/* An addition of @add, if not NULL, and then @norm and @mul. */
static bool norm_fits(const struct weir_backend_node *add,
		      const struct weir_backend_node *norm,
		      const struct weir_backend_node *mul)
{
	const struct weir_operand *x = &norm->src[0], *y = &norm->dst;
	const struct weir_operand *scale = &mul->src[1], *z = &mul->dst;

	if (!same_place(&mul->src[0], y) || !same_shape(z, y) ||
	    weir__cuda_dim(scale, 0) != weir__cuda_dim(y, 0) ||
	    !may_follow(y, x) || !may_follow(z, x) || !may_follow(z, y) ||
	    !may_follow(z, scale) || overlap(scale, y))
		return false;
	if (!add)
		return true;
	for (unsigned i = 0; i < 2; i++)
		if (!same_shape(&add->src[i], x) ||
		    !may_follow(x, &add->src[i]) ||
		    !may_follow(y, &add->src[i]) ||
		    !may_follow(z, &add->src[i]))
			return false;
	return same_place(&add->dst, x) && !overlap(scale, x);
}

static bool is_op(const struct weir_backend_node *const *nodes, size_t n,
		  size_t i, uint32_t op)
{
	return i < n && nodes[i]->op == op;
}

/* True if the product and each of those before it can be computed at once. */
static bool product_fits(const struct weir_backend_node *const *nodes, size_t n)
{
	const struct weir_operand *dst = &nodes[n]->dst;

	if (overlap(dst, &nodes[n]->src[0]) || overlap(dst, &nodes[n]->src[1]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!same_place(&nodes[i]->src[1], &nodes[n]->src[1]) ||
		    overlap(dst, &nodes[i]->dst) ||
		    overlap(dst, &nodes[i]->src[0]) ||
		    overlap(&nodes[i]->dst, &nodes[n]->src[0]))
			return false;
	return true;
}

/* Products that can be computed at once. */
struct products {
	struct weir__cuda_product p[MOST_PRODUCTS];
	unsigned n;
};

static struct products products_at(const struct weir_backend_node *const *nodes,
				   size_t n, size_t i)
{
	struct products s = { .n = 0 };

	while (s.n < MOST_PRODUCTS &&
	       is_op(nodes, n, i + s.n, WEIR_OP_MUL_MAT)) {
		const struct weir_backend_node *node = nodes[i + s.n];
		const struct weir_op_mul_mat *o = node->params;

		s.p[s.n] = weir__cuda_product_of(node);
		if (!weir__cuda_matvec_joins(&s.p[s.n], o->precision) ||
		    !product_fits(nodes + i, s.n))
			break;
		s.n++;
	}
	return s;
}

/* Products of neighbours with one b: q, k and v, or gate and up. */
static size_t product_group(struct weir__cuda_launches *l,
			    const struct weir_backend_node *const *nodes,
			    size_t n, size_t i)
{
	struct products s = products_at(nodes, n, i);
	size_t launch = l->n;

	if (s.n < 2)
		return 0;
	weir__cuda_matvec_join(l, s.p, s.n, NULL);
	return group_made(l, i, s.n, launch);
}

/*
 * The products after node @i - 1, if they read bytes of its result, which its
 * kernel writes too: as @ret says.
 */
static struct products
products_of_bytes(struct weir__cuda_launches *l,
		  const struct weir_backend_node *const *nodes, size_t n,
		  size_t i, struct weir__cuda_rounded *ret)
{
	struct products s = products_at(nodes, n, i);

	if (s.n && nodes[i - 1]->dst.dtype == WEIR_DTYPE_F32 &&
	    same_place(&nodes[i - 1]->dst, &nodes[i]->src[1]))
		*ret = weir__cuda_matvec_rounded(l, s.p);
	if (!ret->pitch)
		s.n = 0;
	return s;
}

/* As many threads as the norm alone: the order of its sum. */
static void norm_add(struct weir__cuda_launches *l,
		     const struct weir__cuda_norm_mul *p)
{
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_rms_norm_mul,
			      weir__cuda_row_blocks(l, p->rows), 1,
			      weir__cuda_row_threads(p->columns), 0, p,
			      sizeof(*p));
}

/* Returns how many nodes the group at @i has; 0: there is none. */
static size_t norm_group(struct weir__cuda_launches *l,
			 const struct weir_backend_node *const *nodes, size_t n,
			 size_t i)
{
	const struct weir_backend_node *add = NULL, *norm, *mul;
	size_t first = i, launch = l->n;
	struct weir__cuda_norm_mul p;
	struct products s;

	if (is_op(nodes, n, i, WEIR_OP_ADD))
		add = nodes[i++];
	if (!is_op(nodes, n, i, WEIR_OP_RMS_NORM) ||
	    !is_op(nodes, n, i + 1, WEIR_OP_MUL))
		return 0;
	norm = nodes[i];
	mul = nodes[i + 1];
	if (!norm_fits(add, norm, mul))
		return 0;
	p = (struct weir__cuda_norm_mul){
		.rows = weir__cuda_outer(&norm->dst, 1),
		.columns = weir__cuda_dim(&norm->dst, 0),
		.eps = ((const struct weir_op_norm *)norm->params)->eps,
		.sum = weir__cuda_source(norm, 0),
		.norm = weir__cuda_operand(&norm->dst),
		.scale = weir__cuda_source(mul, 1),
		.dst = weir__cuda_operand(&mul->dst),
	};
	if (add) {
		p.a = weir__cuda_source(add, 0);
		p.b = weir__cuda_source(add, 1);
	}
	if (!p.columns)
		return 0;
	norm_add(l, &p);
	group_made(l, first, i + 2 - first, launch);
	launch = l->n;
	s = products_of_bytes(l, nodes, n, i + 2, &p.rounded);
	if (s.n) {
		norm_add(l, &p);
		weir__cuda_matvec_join(l, s.p, s.n, &p.rounded);
		l->longer[first] =
			(struct weir__cuda_group){ i + 2 + s.n - first, launch,
						   l->n };
	}
	return i + 2 - first;
}

/* @rows, the rotated k of one token, is written by block 1 alone. */
static bool rows_are_of(const struct weir_operand *rows,
			const struct weir_operand *rotated)
{
	struct extent x = extent_of(rows), y = extent_of(rotated);

	return x.begin >= y.begin && x.end <= y.end;
}

/*
 * Three blocks work at once: nothing that one of them writes is read or
 * written by another. Blocks 1 and 2 both read the index of k.
 */
static bool rope_fits(const struct weir_backend_node *const *nodes)
{
	/* Of each node: the block that has it. */
	static const unsigned block[4] = { 0, 1, 1, 2 };

	for (unsigned i = 0; i < 4; i++) {
		for (unsigned k = 0; k < 4; k++) {
			if (block[i] == block[k])
				continue;
			if (overlap(&nodes[i]->dst, &nodes[k]->dst))
				return false;
			for (uint32_t s = 0; s < nodes[k]->n_src; s++)
				if (overlap(&nodes[i]->dst, &nodes[k]->src[s]))
					return false;
		}
	}
	return rows_are_of(&nodes[2]->src[1], &nodes[1]->dst) &&
	       !overlap(&nodes[2]->dst, &nodes[1]->dst) &&
	       !overlap(&nodes[2]->src[2], &nodes[1]->dst) &&
	       !overlap(&nodes[2]->src[2], &nodes[2]->dst);
}

/* The tokens of a rope, or of set_rows. */
static bool is_one_token(const struct weir_backend_node *node)
{
	return node->op == WEIR_OP_ROPE
		       ? weir__cuda_outer(&node->dst, 2) == 1
		       : weir__cuda_outer(&node->src[1], 1) == 1;
}

static size_t rope_group(struct weir__cuda_launches *l,
			 const struct weir_backend_node *const *nodes, size_t n,
			 size_t i)
{
	static const uint32_t ops[4] = { WEIR_OP_ROPE, WEIR_OP_ROPE,
					 WEIR_OP_SET_ROWS, WEIR_OP_SET_ROWS };
	struct weir__cuda_rope_set p;
	size_t launch = l->n;

	for (size_t k = 0; k < 4; k++)
		if (!is_op(nodes, n, i + k, ops[k]) ||
		    !is_one_token(nodes[i + k]) ||
		    (k > 1 && !weir__cuda_is_one_of(WEIR__CUDA_FLOATS,
						    nodes[i + k]->dst.dtype)))
			return 0;
	if (!rope_fits(nodes + i))
		return 0;
	p.q = weir__cuda_rope_of(nodes[i]);
	p.k = weir__cuda_rope_of(nodes[i + 1]);
	p.set_k = weir__cuda_set_rows_of(nodes[i + 2], i + 3);
	p.set_v = weir__cuda_set_rows_of(nodes[i + 3], i + 4);
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_rope_set_rows, 3, 1,
			      WEIR__CUDA_THREADS, 0, &p, sizeof(p));
	return group_made(l, i, 4, launch);
}

/* swiglu, and products that read bytes of its result, which may be a group. */
static size_t swiglu_group(struct weir__cuda_launches *l,
			   const struct weir_backend_node *const *nodes,
			   size_t n, size_t i)
{
	const struct weir_backend_node *node = nodes[i];
	struct weir__cuda_swiglu p = { .rows = 0 };
	size_t launch = l->n;
	struct products s;

	if (node->op != WEIR_OP_SWIGLU ||
	    !same_shape(&node->src[0], &node->dst) ||
	    !same_shape(&node->src[1], &node->dst))
		return 0;
	s = products_of_bytes(l, nodes, n, i + 1, &p.rounded);
	if (!s.n)
		return 0;
	p.rows = weir__cuda_outer(&node->dst, 1);
	p.columns = weir__cuda_dim(&node->dst, 0);
	p.dst = weir__cuda_operand(&node->dst);
	p.a = weir__cuda_source(node, 0);
	p.b = weir__cuda_source(node, 1);
	weir__cuda_launch_add(
		l, WEIR__CUDA_KERNEL_swiglu_bytes,
		weir__cuda_blocks_for(l, p.rows * (uint64_t)p.columns), 1,
		WEIR__CUDA_THREADS, 0, &p, sizeof(p));
	weir__cuda_matvec_join(l, s.p, s.n, &p.rounded);
	group_made(l, i, 1 + s.n, launch);
	return 1;
}

/* The elements of @t are one after another. */
static bool is_dense(const struct weir_operand *t)
{
	int64_t bytes = (int64_t)weir__cuda_host.dtype(t->dtype)->bytes;

	for (unsigned i = t->ndim; i-- > 0; bytes *= t->shape[i])
		if (t->shape[i] != 1 && t->stride[i] != bytes)
			return false;
	return true;
}

/* @b, of floats, is a result of attention: a row has the heads of a token. */
static bool has_heads(const struct weir_operand *b,
		      const struct weir_operand *result)
{
	return b->data == result->data && b->dtype == result->dtype &&
	       is_dense(b) && is_dense(result) &&
	       weir__cuda_dim(b, 0) ==
		       weir__cuda_dim(result, 0) * weir__cuda_dim(result, 1) &&
	       weir__cuda_outer(b, 0) == weir__cuda_outer(result, 0);
}

/* Attention, and products that read its result as bytes. */
static size_t attention_group(struct weir__cuda_launches *l,
			      const struct weir_backend_node *const *nodes,
			      size_t n, size_t i)
{
	struct weir__cuda_rounded rounded;
	size_t launch = l->n;
	struct products s;

	if (nodes[i]->op != WEIR_OP_ATTENTION ||
	    !weir__cuda_attention_rounds(nodes[i]))
		return 0;
	s = products_at(nodes, n, i + 1);
	if (!s.n || !has_heads(&nodes[i + 1]->src[1], &nodes[i]->dst))
		return 0;
	rounded = weir__cuda_matvec_rounded(l, s.p);
	if (!rounded.pitch)
		return 0;
	weir__cuda_attention_rounded(l, nodes[i], i + 1, &rounded);
	weir__cuda_matvec_join(l, s.p, s.n, &rounded);
	group_made(l, i, 1 + s.n, launch);
	return 1;
}

void weir__cuda_fuse(struct weir__cuda_launches *l,
		     const struct weir_backend_node *const *nodes, size_t n)
{
	for (size_t i = 0; i < n && !l->err;) {
		size_t has = norm_group(l, nodes, n, i);

		if (!has)
			has = rope_group(l, nodes, n, i);
		if (!has)
			has = swiglu_group(l, nodes, n, i);
		if (!has)
			has = attention_group(l, nodes, n, i);
		if (!has)
			has = product_group(l, nodes, n, i);
		i += has ? has : 1;
	}
}
