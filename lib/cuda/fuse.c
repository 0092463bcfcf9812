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

	if (!t->data || !weir__cuda_outer(t, 0))
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

	if (!same_place(&mul->src[0], y) ||
	    weir__cuda_dim(scale, 0) != weir__cuda_dim(y, 0) ||
	    !may_follow(z, x) || overlap(scale, y))
		return false;
	if (!add)
		return true;
	for (unsigned i = 0; i < 2; i++)
		if (!may_follow(y, &add->src[i]) ||
		    !may_follow(z, &add->src[i]))
			return false;
	return same_place(&add->dst, x) && same_shape(&add->src[1], x) &&
	       !overlap(scale, x);
}

static bool is_op(const struct weir_backend_node *const *nodes, size_t n,
		  size_t i, uint32_t op)
{
	return i < n && nodes[i]->op == op;
}

/* Products that can be computed at once, some of them with a bias. */
struct products {
	struct weir__cuda_product p[MOST_PRODUCTS];
	struct weir__cuda_bias bias[MOST_PRODUCTS];
	/* Of each: the product, and the addition of its bias or NULL. */
	const struct weir_backend_node *node[MOST_PRODUCTS][2];
	unsigned n;
	size_t nodes;
};

/* No node writes what another one writes or reads. */
static bool are_apart(const struct weir_backend_node *const *x, size_t n_x,
		      const struct weir_backend_node *const *y, size_t n_y)
{
	for (size_t i = 0; i < n_x; i++)
		for (size_t k = 0; k < n_y; k++) {
			if (overlap(&x[i]->dst, &y[k]->dst))
				return false;
			for (uint32_t s = 0; s < y[k]->n_src; s++)
				if (overlap(&x[i]->dst, &y[k]->src[s]))
					return false;
			for (uint32_t s = 0; s < x[i]->n_src; s++)
				if (overlap(&y[k]->dst, &x[i]->src[s]))
					return false;
		}
	return true;
}

/* True if product @n and each of those before it can be computed at once. */
static bool product_fits(const struct products *s, unsigned n)
{
	const struct weir_backend_node *const *k = s->node[n];

	for (unsigned i = 0; i < n; i++) {
		const struct weir_backend_node *const *j = s->node[i];

		if (!same_place(&j[0]->src[1], &k[0]->src[1]) ||
		    !are_apart(j, j[1] ? 2 : 1, k, k[1] ? 2 : 1))
			return false;
	}
	return true;
}

/*
 * True if @add adds a bias to product @n: its thread can add it, also if the
 * sum takes the place of the product or of the bias.
 */
static bool bias_fits(struct products *s, unsigned n,
		      const struct weir_backend_node *add)
{
	const struct weir_backend_node *mul = s->node[n][0];
	const struct weir_operand *row = &add->src[1], *sum = &add->dst;
	struct weir__cuda_bias bias;

	if (!same_place(&add->src[0], &mul->dst) || overlap(row, &mul->dst) ||
	    overlap(sum, &mul->src[0]) || overlap(sum, &mul->src[1]))
		return false;
	bias.row = weir__cuda_operand(row);
	bias.sum = weir__cuda_operand(sum);
	if (!weir__cuda_matvec_adds(&s->p[n], &bias))
		return false;
	s->bias[n] = bias;
	return true;
}

static struct products products_at(const struct weir_backend_node *const *nodes,
				   size_t n, size_t i)
{
	struct products s = { .n = 0 };

	for (; s.n < MOST_PRODUCTS && is_op(nodes, n, i, WEIR_OP_MUL_MAT);
	     s.n++) {
		const struct weir_op_mul_mat *o = nodes[i]->params;
		const struct weir_backend_node **node = s.node[s.n];

		s.p[s.n] = weir__cuda_product_of(nodes[i]);
		if (!weir__cuda_matvec_joins(&s.p[s.n], o->precision))
			break;
		node[0] = nodes[i++];
		if (is_op(nodes, n, i, WEIR_OP_ADD) &&
		    bias_fits(&s, s.n, nodes[i]))
			node[1] = nodes[i++];
		if (!product_fits(&s, s.n))
			break;
		s.nodes += node[1] ? 2 : 1;
	}
	return s;
}

/* Neighbouring products of one b, and their biases: q, k, v; gate, up; o. */
static size_t product_group(struct weir__cuda_launches *l,
			    const struct weir_backend_node *const *nodes,
			    size_t n, size_t i)
{
	struct products s = products_at(nodes, n, i);
	size_t launch = l->n;

	if (s.nodes < 2)
		return 0;
	weir__cuda_matvec_join(l, s.p, s.bias, s.n, NULL);
	return group_made(l, i, s.nodes, launch);
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
		weir__cuda_matvec_join(l, s.p, s.bias, s.n, &p.rounded);
		l->longer[first] =
			(struct weir__cuda_group){ i + 2 + s.nodes - first,
						   launch, l->n };
	}
	return i + 2 - first;
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

/* Nodes that are computed by the same blocks: [rms_norm, mul,] rope. */
struct rotated {
	const struct weir_backend_node *const *nodes;
	size_t n; /* 0: they are not at this place */
	const struct weir_backend_node *norm, *mul, *rope;
};

/* False if rope also reads positions or factors that the norms write. */
static bool reads_only_heads(const struct rotated *r)
{
	for (uint32_t s = 1; s < r->rope->n_src; s++)
		if (overlap(&r->rope->src[s], &r->norm->dst) ||
		    overlap(&r->rope->src[s], &r->mul->dst))
			return false;
	return true;
}

/* Each head is normed and rotated by a block. */
static struct rotated rotated_at(const struct weir_backend_node *const *nodes,
				 size_t n, size_t i)
{
	struct rotated r = { .nodes = nodes + i };

	if (is_op(nodes, n, i, WEIR_OP_RMS_NORM) &&
	    is_op(nodes, n, i + 1, WEIR_OP_MUL)) {
		r.norm = nodes[i++];
		r.mul = nodes[i++];
	}
	if (!is_op(nodes, n, i, WEIR_OP_ROPE) ||
	    weir__cuda_outer(&nodes[i]->dst, 2) != 1)
		return r;
	r.rope = nodes[i];
	if (r.norm &&
	    (!norm_fits(NULL, r.norm, r.mul) || !reads_only_heads(&r) ||
	     !same_place(&r.rope->src[0], &r.mul->dst) ||
	     weir__cuda_outer(&r.mul->src[1], 1) != 1 ||
	     !may_follow(&r.rope->dst, &r.norm->src[0]) ||
	     !may_follow(&r.rope->dst, &r.norm->dst) ||
	     overlap(&r.rope->dst, &r.mul->src[1])))
		return r;
	r.n = r.norm ? 3 : 1;
	return r;
}

/* @set, set_rows of one token, reads the heads of @rope one after another. */
static bool sets_heads(const struct weir_backend_node *set,
		       const struct weir_backend_node *rope)
{
	const struct weir_operand *row = &set->src[1], *heads = &rope->dst;

	return row->data == heads->data && row->dtype == heads->dtype &&
	       is_dense(row) &&
	       weir__cuda_outer(row, 0) == weir__cuda_outer(heads, 0);
}

/* True if @node is set_rows of one token, to floats. */
static bool is_set_of_token(const struct weir_backend_node *node)
{
	return node->op == WEIR_OP_SET_ROWS &&
	       weir__cuda_outer(&node->src[1], 1) == 1 &&
	       weir__cuda_is_one_of(WEIR__CUDA_FLOATS, node->dst.dtype);
}

/*
 * Blocks work at once: nothing that those of q, of k or of v write is read or
 * written by others. Those of k and of v both read the index of k.
 */
static bool rope_fits(const struct rotated *q, const struct rotated *k,
		      const struct weir_backend_node *const *set)
{
	const struct weir_operand *set_k = &set[0]->dst;

	for (size_t i = 0; i < k->n; i++) {
		if (overlap(&set[0]->src[2], &k->nodes[i]->dst))
			return false;
		for (uint32_t s = 0; s < k->nodes[i]->n_src; s++)
			if (overlap(set_k, &k->nodes[i]->src[s]))
				return false;
	}
	return sets_heads(set[0], k->rope) &&
	       are_apart(q->nodes, q->n, k->nodes, k->n) &&
	       are_apart(q->nodes, q->n, set, 2) &&
	       are_apart(set + 1, 1, k->nodes, k->n) &&
	       are_apart(set + 1, 1, set, 1);
}

static struct weir__cuda_head_norm norm_of(const struct rotated *r)
{
	const struct weir_op_norm *o;

	if (!r->norm)
		return (struct weir__cuda_head_norm){ 0 };
	o = r->norm->params;
	return (struct weir__cuda_head_norm){
		.columns = weir__cuda_dim(&r->norm->dst, 0),
		.eps = o->eps,
		.a = weir__cuda_source(r->norm, 0),
		.norm = weir__cuda_operand(&r->norm->dst),
		.scale = weir__cuda_source(r->mul, 1),
	};
}

/* [Norms of the heads,] rope of q and k, set_rows of k and v. */
static size_t rope_group(struct weir__cuda_launches *l,
			 const struct weir_backend_node *const *nodes, size_t n,
			 size_t i)
{
	struct rotated q = rotated_at(nodes, n, i);
	struct rotated k = rotated_at(nodes, n, i + q.n);
	const size_t set = i + q.n + k.n;
	struct weir__cuda_rope_set p;
	size_t launch = l->n;
	int64_t d;

	/* Without q there is no k: it is looked for at the same node. */
	if (!k.n || set + 2 > n || !is_set_of_token(nodes[set]) ||
	    !is_set_of_token(nodes[set + 1]) || !rope_fits(&q, &k, nodes + set))
		return 0;
	d = weir__cuda_dim(&q.rope->dst, 0);
	if (d != weir__cuda_dim(&k.rope->dst, 0))
		return 0;
	p.q = weir__cuda_rope_of(q.rope);
	p.k = weir__cuda_rope_of(k.rope);
	p.norm_q = norm_of(&q);
	p.norm_k = norm_of(&k);
	p.set_k = weir__cuda_set_rows_of(nodes[set], set + 1);
	p.set_v = weir__cuda_set_rows_of(nodes[set + 1], set + 2);
	/* As many threads as the norms alone: the order of their sums. */
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_rope_set_rows,
			      (uint64_t)(weir__cuda_dim(&q.rope->dst, 1) +
					 weir__cuda_dim(&k.rope->dst, 1) + 1),
			      1, weir__cuda_row_threads(d), 0, &p, sizeof(p));
	return group_made(l, i, set + 2 - i, launch);
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

	if (node->op != WEIR_OP_SWIGLU)
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
	weir__cuda_matvec_join(l, s.p, s.bias, s.n, &p.rounded);
	group_made(l, i, 1 + s.nodes, launch);
	return 1;
}

/* @b, of floats, is a result of attention: a row has the heads of a token. */
static bool has_heads(const struct weir_operand *b,
		      const struct weir_operand *result)
{
	return b->data == result->data && b->dtype == result->dtype &&
	       is_dense(b) &&
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
	weir__cuda_matvec_join(l, s.p, s.bias, s.n, &rounded);
	group_made(l, i, 1 + s.nodes, launch);
	return 1;
}

void weir__cuda_fuse(struct weir__cuda_launches *l,
		     const struct weir_backend_node *const *nodes, size_t n)
{
	for (size_t i = 0; i < n && !l->err;) {
		size_t has = rope_group(l, nodes, n, i);

		if (!has)
			has = norm_group(l, nodes, n, i);
		if (!has)
			has = swiglu_group(l, nodes, n, i);
		if (!has)
			has = attention_group(l, nodes, n, i);
		if (!has)
			has = product_group(l, nodes, n, i);
		i += has ? has : 1;
	}
}
