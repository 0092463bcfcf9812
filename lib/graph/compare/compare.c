/* SPDX-License-Identifier: MIT */
/*
 * Two devices compute a graph node by node. Each has a copy of the graph, and
 * memory for every result. A node is computed as a graph of its own, whose
 * sources are leaves: the tensors where the results before it are. The results
 * are compared on the host, element by element.
 */
#include <math.h>
#include <string.h>

#include <weir/compare.h>
#include <weir/sched.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

#define CHUNK 256u /* elements: the longest block */

/*
 * A sum of squares, @sum times 2^(2 * @scale). Squares of F64 are scaled by the
 * greatest one, since most F64 have no square in F64.
 */
struct squares {
	double sum;
	int scale;
};

struct difference {
	struct weir_compared *ret;
	uint32_t dtype, block, bytes; /* elements and bytes of a block */
	uint64_t n;                   /* elements so far */
	struct squares error, square;
};

static bool is_number(uint32_t dtype)
{
	switch (dtype) {
	case WEIR_DTYPE_I32:
	case WEIR_DTYPE_I64:
	case WEIR_DTYPE_F16:
	case WEIR_DTYPE_BF16:
	case WEIR_DTYPE_F32:
	case WEIR_DTYPE_F64:
		return true;
	default:
		return dtype > WEIR_DTYPE_GGML;
	}
}

static int numbers(uint32_t dtype, const unsigned char *from, size_t n,
		   double *to)
{
	float f[CHUNK];
	int64_t i64;
	int32_t i32;
	int r = 0;

	if (dtype == WEIR_DTYPE_F64)
		memcpy(to, from, n * sizeof(*to));
	else if (dtype != WEIR_DTYPE_I32 && dtype != WEIR_DTYPE_I64)
		r = weir_convert(WEIR_DTYPE_F32, f, (enum weir_dtype)dtype,
				 from, n);
	for (size_t i = 0; i < n && dtype != WEIR_DTYPE_F64 && !r; i++) {
		if (dtype == WEIR_DTYPE_I32) {
			memcpy(&i32, from + i * sizeof(i32), sizeof(i32));
			to[i] = i32;
		} else if (dtype == WEIR_DTYPE_I64) {
			memcpy(&i64, from + i * sizeof(i64), sizeof(i64));
			to[i] = (double)i64;
		} else {
			to[i] = (double)f[i];
		}
	}
	return r;
}

/* True if both are the same infinity, or both are NaN: no difference. */
static bool equal_non_finite(double a, double b)
{
	return (isnan(a) && isnan(b)) || (isinf(a) && a == b);
}

/* Add the square of @x times 2^@twice. */
static void square_add(struct squares *s, double x, int twice, bool scales)
{
	int scale;

	if (scales && x != 0) {
		frexp(x, &scale);
		scale += twice;
		if (!(s->sum > 0) || scale > s->scale) {
			s->sum = ldexp(s->sum, 2 * (s->scale - scale));
			s->scale = scale;
		}
		x = ldexp(x, twice - s->scale);
	}
	s->sum += x * x;
}

/* The ratio of @a to @b; 0 only if @a is 0. */
static double squares_ratio(const struct squares *a, const struct squares *b)
{
	double ratio;

	if (!(a->sum > 0))
		return 0;
	if (!(b->sum > 0))
		return INFINITY;
	ratio = ldexp(a->sum / b->sum, 2 * (a->scale - b->scale));
	return ratio > 0 ? ratio : nextafter(0, 1);
}

/* Add an element. @apart is |a - b| of the exact numbers, not of doubles. */
static void element_add(struct difference *d, double a, double b, double apart)
{
	bool scales = d->dtype == WEIR_DTYPE_F64;
	uint64_t at = d->n++;

	if (!isfinite(a) || !isfinite(b)) {
		d->ret->odd += !equal_non_finite(a, b);
		return;
	}
	if (isfinite(apart))
		square_add(&d->error, apart, 0, scales);
	else
		square_add(&d->error, a / 2 - b / 2, 1, scales);
	square_add(&d->square, b, 0, scales);
	if (apart > d->ret->max) {
		d->ret->max = apart;
		d->ret->at = at;
	}
}

/* Several I64 may be the same double. */
static double i64_apart(const unsigned char *a, const unsigned char *b)
{
	int64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x > y ? (double)((uint64_t)x - (uint64_t)y)
		     : (double)((uint64_t)y - (uint64_t)x);
}

static int chunk_add(struct difference *d, const unsigned char *a,
		     const unsigned char *b, size_t n)
{
	double x[CHUNK], y[CHUNK];
	int r = numbers(d->dtype, a, n, x);

	if (!r)
		r = numbers(d->dtype, b, n, y);
	for (size_t i = 0; !r && i < n; i++)
		element_add(d, x[i], y[i],
			    d->dtype == WEIR_DTYPE_I64
				    ? i64_apart(a + i * sizeof(int64_t),
						b + i * sizeof(int64_t))
				    : fabs(x[i] - y[i]));
	return r;
}

/* Add @blocks blocks without gaps. */
static int row_add(struct difference *d, const unsigned char *a,
		   const unsigned char *b, size_t blocks)
{
	size_t most = CHUNK / d->block, n;
	int r = 0;

	if (!is_number(d->dtype)) {
		for (size_t i = 0; i < blocks; i++)
			d->ret->odd += !!memcmp(a + i * d->bytes,
						b + i * d->bytes, d->bytes);
		return 0;
	}
	for (size_t i = 0; !r && i < blocks; i += n) {
		n = blocks - i < most ? blocks - i : most;
		r = chunk_add(d, a + i * d->bytes, b + i * d->bytes,
			      n * d->block);
	}
	return r;
}

/*
 * Find the difference of two tensors, which are in host memory at these
 * addresses. -EOPNOTSUPP: a quantised dtype that the library does not convert.
 */
static int difference_find(const void *a, const void *b,
			   struct weir_compared *ret)
{
	const struct weir_tensor *t = &ret->a;
	const struct weir_dtype_info *info = weir__dtype(t->dtype);
	struct difference d = { .ret = ret,
				.dtype = t->dtype,
				.block = info->block,
				.bytes = info->bytes };
	int64_t index[WEIR_MAX_DIMS] = { 0 };
	uint64_t off = 0, bytes;
	unsigned outer;
	size_t row;
	int r = weir__tensor_bytes(t, &bytes);

	ret->nmse = ret->max = 0;
	ret->at = ret->odd = 0;
	if (r < 0 || !bytes)
		return r;
	outer = weir__tensor_outer(t, &row);
	do
		r = row_add(&d, (const unsigned char *)a + off,
			    (const unsigned char *)b + off, row / d.bytes);
	while (!r && weir__tensor_next_row(t, outer, index, &off));
	ret->nmse = squares_ratio(&d.error, &d.square);
	return r;
}

/* One of the two devices. */
struct side {
	struct weir_dev *dev;
	struct weir_sched *sched;
	struct weir_graph *copy, *one; /* one: the node that is computed */
	struct weir_buf *leaves, *results;
	struct weir_tensor *t; /* where the result of each node is */
};

struct comparison {
	const struct weir_graph *g;
	struct weir_compare_opts o;
	struct side side[2];
	struct weir_node **src;  /* sources of the node that is computed */
	struct weir_tensor *own; /* results with bytes of their own */
	struct weir_buf *host;   /* both results of a node */
	uint64_t host_half;      /* bytes for one */
};

static bool has_bytes(const struct weir_node *node)
{
	return node->storage == node && node->op != WEIR_OP_LEAF;
}

/* Allocate memory for the results of one side. */
static int results_alloc(struct comparison *c, struct side *s)
{
	size_t n = 0;
	int r;

	for (size_t i = 0; i < c->g->n; i++)
		if (has_bytes(c->g->node[i]))
			c->own[n++] = c->g->node[i]->t;
	r = weir_tensors_alloc(&s->dev->buft[0], c->own, n, &s->results);
	if (r < 0)
		return weir__fail_for(r, "%s", s->dev->desc.name);
	n = 0;
	for (size_t i = 0; i < c->g->n; i++) {
		const struct weir_node *node = c->g->node[i];
		const struct weir_node *in = node->storage;

		s->t[i] = s->copy->node[i]->t;
		if (has_bytes(node)) {
			s->t[i] = c->own[n++];
		} else if (in->op != WEIR_OP_LEAF) {
			s->t[i].buf = s->t[in->index].buf;
			s->t[i].offset = s->t[in->index].offset +
					 (node->t.offset - in->t.offset);
		}
	}
	return 0;
}

static int side_make(struct comparison *c, struct side *s)
{
	int r = weir_sched_new(&s->dev, 1, NULL, &s->sched);

	if (r < 0)
		return r;
	s->t = weir__array_alloc(c->g->n + 1, sizeof(*s->t));
	if (!s->t)
		return weir__fail(-ENOMEM, "no memory for %zu tensors",
				  c->g->n);
	r = weir_graph_new(&s->one);
	if (!r)
		r = weir_graph_copy(c->g, &s->dev->buft[0], &s->copy,
				    &s->leaves);
	return r < 0 ? r : results_alloc(c, s);
}

static void side_free(struct side *s)
{
	weir_graph_free(s->one);
	weir_graph_free(s->copy);
	weir_sched_free(s->sched);
	weir__buf_put(s->results);
	weir__buf_put(s->leaves);
	weir__array_free(s->t);
}

static bool is_used(const struct comparison *c, const struct weir_node *node)
{
	for (size_t i = node->index + (size_t)1; i < c->g->n; i++)
		for (uint32_t k = 0; k < c->g->node[i]->n_src; k++)
			if (c->g->node[i]->src[k] == node)
				return true;
	return false;
}

static int input_set(struct comparison *c, const struct weir_node *node)
{
	const struct weir_compare_input *in = c->o.inputs;
	const char *name = weir__tensor_describe(&node->t, node->index);
	uint64_t bytes;
	uint32_t i = 0;
	int r = weir__tensor_bytes(&node->t, &bytes);

	while (i < c->o.n_inputs && in[i].node != node)
		i++;
	if (r < 0)
		return r;
	if (i == c->o.n_inputs && !is_used(c, node))
		return 0;
	if (i == c->o.n_inputs)
		return weir__fail(-EINVAL, "input %s is missing", name);
	if (in[i].bytes != bytes || (bytes && !in[i].data))
		return weir__fail(-EINVAL, "input %s has %llu bytes, not %llu",
				  name, (unsigned long long)bytes,
				  (unsigned long long)in[i].bytes);
	for (int s = 0; s < 2 && !r; s++)
		r = weir_tensor_set(&c->side[s].t[node->index], 0, in[i].data,
				    bytes);
	return r;
}

/* Make the node alone, in the graph s->one, where its sources are leaves. */
static int one_node_make(struct comparison *c, struct side *s,
			 const struct weir_node *node, struct weir_node **ret)
{
	struct weir_node *made;

	weir_graph_reset(s->one);
	for (uint32_t i = 0; i < node->n_src; i++)
		c->src[i] = node->src[i]
				    ? weir_graph_leaf(
					      s->one,
					      &s->t[node->src[i]->index], NULL)
				    : NULL;
	made = weir_graph_op(s->one, (enum weir_op)node->op, node->params,
			     node->row->params, c->src, node->n_src);
	made = weir_graph_output(s->one,
				 weir_node_set_name(made, node->t.name));
	*ret = made;
	return made ? 0 : weir_graph_error(s->one, NULL);
}

/* Run it, and copy its result to @ret if it has bytes of its own. */
static int one_node_run(const struct weir_node *made, struct weir_exec *exec,
			const struct weir_tensor *ret)
{
	bool own = made->storage == made;
	struct weir_tensor out;
	struct weir_run *run;
	uint64_t bytes;
	int r = weir__tensor_bytes(&made->t, &bytes);

	if (r < 0 || (r = weir_run_new(exec, &run)) < 0)
		return r;
	own = own && bytes;
	r = weir_run_start(run);
	if (!r)
		r = weir_run_wait(run, -1);
	if (!r && own)
		r = weir_run_output(run, made, &out);
	if (!r && own)
		r = weir_tensor_copy(ret, &out);
	weir_run_free(run);
	return r;
}

static int side_compute(struct comparison *c, struct side *s,
			const struct weir_node *node)
{
	struct weir_exec *exec;
	struct weir_node *made;
	int r = one_node_make(c, s, node, &made);

	if (!r)
		r = weir_exec_new(s->sched, s->one, &exec);
	if (r < 0)
		return weir__fail_for(r, "%s, node %u", s->dev->desc.name,
				      node->index);
	r = one_node_run(made, exec, &s->t[node->index]);
	weir_exec_free(exec);
	return r < 0 ? weir__fail_for(r, "%s, node %u", s->dev->desc.name,
				      node->index)
		     : 0;
}

/* Copy both results to the host, compare them, and tell the program. */
static int results_compare(struct comparison *c, const struct weir_node *node,
			   weir_compare_fn *fn, void *arg)
{
	struct weir_compared compared = { .size = sizeof(compared),
					  .index = node->index };
	struct weir_tensor *to[2] = { &compared.a, &compared.b };
	int r = 0;

	for (int s = 0; s < 2 && !r; s++) {
		*to[s] = c->side[s].t[node->index];
		to[s]->name = node->t.name;
		to[s]->buf = c->host;
		to[s]->offset = (uint64_t)s * c->host_half;
		r = weir_tensor_copy(to[s], &c->side[s].t[node->index]);
	}
	if (!r)
		r = difference_find(weir_tensor_data(to[0]),
				    weir_tensor_data(to[1]), &compared);
	if (r < 0)
		return r;
	r = fn(arg, &compared);
	return r < 0 ? weir__fail(r, "the program's function returned %d", r)
		     : r;
}

static int node_compare(struct comparison *c, const struct weir_node *node,
			weir_compare_fn *fn, void *arg)
{
	int r = side_compute(c, &c->side[0], node);

	if (!r)
		r = side_compute(c, &c->side[1], node);
	if (!r)
		r = results_compare(c, node, fn, arg);
	if (!r && c->o.flags & WEIR_COMPARE_EACH)
		r = weir_tensor_copy(&c->side[1].t[node->index],
				     &c->side[0].t[node->index]);
	return r;
}

static int nodes_compare(struct comparison *c, weir_compare_fn *fn, void *arg)
{
	int r = 0;

	for (size_t i = 0; i < c->g->n && !r; i++) {
		const struct weir_node *node = c->g->node[i];

		if (node->op == WEIR_OP_INPUT)
			r = input_set(c, node);
		else if (node->op != WEIR_OP_LEAF && node->op != WEIR_OP_VIEW)
			r = node_compare(c, node, fn, arg);
	}
	return r;
}

static int host_alloc(struct comparison *c)
{
	struct weir *weir = c->side[0].dev->weir;
	uint64_t most = 0, bytes;
	size_t most_src = 1;
	int r = 0;

	for (size_t i = 0; i < c->g->n && !r; i++) {
		r = weir__tensor_bytes(&c->g->node[i]->t, &bytes);
		if (!r && bytes > most)
			most = bytes;
		if (c->g->node[i]->n_src > most_src)
			most_src = c->g->node[i]->n_src;
	}
	if (r < 0)
		return r;
	c->host_half = (most + 63) & ~(uint64_t)63;
	c->own = weir__array_alloc(c->g->n + 1, sizeof(*c->own));
	c->src = weir__array_alloc(most_src, sizeof(struct weir_node *));
	if (!c->own || !c->src)
		return weir__fail(-ENOMEM, "no memory for %zu nodes", c->g->n);
	return weir_buf_alloc(&weir_dev_get(weir, 0)->buft[0], 2 * c->host_half,
			      NULL, &c->host);
}

static int compare_check(const struct comparison *c)
{
	if (c->o.flags & ~WEIR_COMPARE_EACH)
		return weir__fail(-EINVAL, "flags 0x%x are not known",
				  c->o.flags);
	if (c->o.n_inputs && !c->o.inputs)
		return weir__fail(-EINVAL, "%u inputs at NULL", c->o.n_inputs);
	if (c->side[0].dev->weir != c->side[1].dev->weir)
		return weir__fail(-EINVAL, "%s and %s are of different roots",
				  c->side[0].dev->desc.name,
				  c->side[1].dev->desc.name);
	return weir_graph_error(c->g, NULL);
}

int weir_graph_compare(struct weir_dev *a, struct weir_dev *b,
		       const struct weir_graph *g,
		       const struct weir_compare_opts *opts,
		       weir_compare_fn *fn, void *arg)
{
	struct comparison c = { .g = g,
				.side = { { .dev = a }, { .dev = b } } };
	int r;

	WEIR__ENTER();
	r = weir__root_enter(a->weir);
	if (r < 0 || (r = weir__opts_in(&c.o, sizeof(c.o), opts)) < 0 ||
	    (r = compare_check(&c)) < 0)
		return r;
	if ((r = host_alloc(&c)) < 0 || (r = side_make(&c, &c.side[0])) < 0 ||
	    (r = side_make(&c, &c.side[1])) < 0)
		goto out;
	r = nodes_compare(&c, fn, arg);
out:
	side_free(&c.side[0]);
	side_free(&c.side[1]);
	weir__buf_put(c.host);
	weir__array_free(c.own);
	weir__array_free(c.src);
	return r < 0 ? weir__fail_as("weir_graph_compare", r) : r;
}
