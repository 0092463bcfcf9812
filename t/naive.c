/* SPDX-License-Identifier: MIT */
#include "naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "naive_ops.h"
#include "naive_store.h"
#include "tap.h"

struct naive {
	const struct weir_graph *g;
	struct weir_operand *result; /* result of each node */
	void **own;                  /* memory of each node, or NULL */
	size_t n, failed;
	struct weir_buf **buf; /* buffers of leaves */
	unsigned char **copy;  /* copies of these buffers */
	size_t n_bufs;
};

static void *take(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p)
		bail("no memory for %zu bytes", bytes);
	return p;
}

/* The first @n bytes of a buffer in memory of a device. */
static void get_bytes(struct weir_buf *buf, void *to, size_t n)
{
	int64_t shape = (int64_t)n;
	struct weir_tensor t;

	if (weir_tensor_init(&t, WEIR_DTYPE_U8, 1, &shape) < 0 ||
	    weir_tensor_place(&t, buf, 0) < 0 ||
	    weir_tensor_get(&t, 0, to, n) < 0)
		bail("%s", weir_error());
}

/* The copy of a leaf's buffer, which the first leaf of it makes. */
static unsigned char *copy_of(struct naive *e, struct weir_buf *buf)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	size_t i = 0;

	while (i < e->n_bufs && e->buf[i] != buf)
		i++;
	if (i < e->n_bufs)
		return e->copy[i];
	if (!buf || weir_buf_info(buf, &info) < 0)
		bail("a leaf is not placed");
	e->buf[i] = buf;
	e->copy[i] = take(info.bytes);
	if (weir_buf_data(buf))
		memcpy(e->copy[i], weir_buf_data(buf), info.bytes);
	else
		get_bytes(buf, e->copy[i], info.bytes);
	e->n_bufs++;
	return e->copy[i];
}

struct weir_operand naive_operand_at(const struct weir_tensor *t, void *data)
{
	struct weir_operand o = { .data = data,
				  .dtype = t->dtype,
				  .ndim = t->ndim };

	memcpy(o.shape, t->shape, sizeof(o.shape));
	memcpy(o.stride, t->stride, sizeof(o.stride));
	return o;
}

struct weir_operand naive_operand(const struct weir_tensor *t)
{
	return naive_operand_at(t, weir_tensor_data(t));
}

static void give_memory(struct naive *e, const struct weir_node *node)
{
	const struct weir_node *in = node->storage;
	unsigned char *data;
	size_t bytes;

	if (in != node) {
		data = e->result[in->index].data;
		data += node->t.offset - in->t.offset;
	} else if (node->op == WEIR_OP_LEAF) {
		data = copy_of(e, node->t.buf) + node->t.offset;
	} else {
		if (weir_tensor_bytes(&node->t, &bytes) < 0)
			bail("%s", weir_error());
		data = e->own[node->index] = take(bytes);
	}
	e->result[node->index] = naive_operand_at(&node->t, data);
}

struct naive *naive_new(const struct weir_graph *g)
{
	struct naive *e = take(sizeof(*e));

	if (weir_graph_error(g, NULL) < 0)
		bail("%s", weir_error());
	e->g = g;
	e->n = weir_graph_count(g);
	e->failed = e->n;
	e->result = take(e->n * sizeof(*e->result));
	e->own = take(e->n * sizeof(*e->own));
	e->buf = take(e->n * sizeof(struct weir_buf *));
	e->copy = take(e->n * sizeof(*e->copy));
	for (size_t i = 0; i < e->n; i++)
		give_memory(e, weir_graph_node(g, i));
	return e;
}

void naive_free(struct naive *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->n; i++)
		free(e->own[i]);
	for (size_t i = 0; i < e->n_bufs; i++)
		free(e->copy[i]);
	free(e->result);
	free(e->own);
	free(e->buf);
	free(e->copy);
	free(e);
}

void naive_input(struct naive *e, const struct weir_node *node,
		 const void *data)
{
	size_t bytes;

	if (weir_tensor_bytes(&node->t, &bytes) < 0)
		bail("%s", weir_error());
	memcpy(e->result[node->index].data, data, bytes);
}

static struct array array_of(const struct weir_operand *t)
{
	struct array a = { .n = naive_count(t) };

	for (int d = 0; d < NAIVE_DIMS; d++)
		a.shape[d] = 1;
	memcpy(a.shape + NAIVE_DIMS - t->ndim, t->shape,
	       t->ndim * sizeof(*t->shape));
	a.v = naive_doubles(t);
	return a;
}

#define MOST_SRC 7

/* Operations on numbers. */
static int run_numbers(struct naive *e, const struct weir_node *node)
{
	struct weir_operand *to = &e->result[node->index];
	struct array src[MOST_SRC] = { { .n = 0 } }, dst = array_of(to);
	naive_op *op = naive_op_find(node->op);
	int r;

	if (!op || node->n_src > MOST_SRC)
		bail("operation %u is not known", node->op);
	for (unsigned i = 0; i < node->n_src; i++)
		if (node->src[i])
			src[i] = array_of(&e->result[node->src[i]->index]);
	r = op(node->params, &dst, src, node->n_src);
	if (!r)
		naive_store(to, dst.v);
	for (unsigned i = 0; i < MOST_SRC; i++)
		free(src[i].v);
	free(dst.v);
	return r;
}

static int run_set_rows(struct naive *e, const struct weir_node *node)
{
	struct array b = array_of(&e->result[node->src[1]->index]);
	struct array ids = array_of(&e->result[node->src[2]->index]);
	int r = naive_set_rows(&e->result[node->index], &b, &ids);

	free(b.v);
	free(ids.v);
	return r;
}

static int run_call(struct naive *e, const struct weir_node *node)
{
	const struct weir_op_call *p = node->params;
	struct weir_operand *src = take(node->n_src * sizeof(*src));
	int r;

	for (unsigned i = 0; i < node->n_src; i++)
		src[i] = e->result[node->src[i]->index];
	r = p->fn(p->arg, &e->result[node->index], src, node->n_src, 0, 1);
	free(src);
	return r;
}

static const struct weir_operand *
source(const struct naive *e, const struct weir_node *node, unsigned i)
{
	return &e->result[node->src[i]->index];
}

/* Copies move elements of any dtype, so they are not operations on numbers. */
static int run_node(struct naive *e, const struct weir_node *node)
{
	const struct weir_operand *to = &e->result[node->index];
	const struct weir_op_concat *concat = node->params;

	switch (node->op) {
	case WEIR_OP_LEAF:
	case WEIR_OP_INPUT:
	case WEIR_OP_VIEW:
		return 0;
	case WEIR_OP_CALL:
		return run_call(e, node);
	case WEIR_OP_SET_ROWS:
		return run_set_rows(e, node);
	case WEIR_OP_COPY:
	case WEIR_OP_CONT:
		naive_move(to, source(e, node, 0));
		return 0;
	case WEIR_OP_REPEAT:
		naive_repeat(to, source(e, node, 0), NULL, 0);
		return 0;
	case WEIR_OP_CONCAT:
		naive_repeat(to, source(e, node, 0), source(e, node, 1),
			     concat->dim);
		return 0;
	default:
		return run_numbers(e, node);
	}
}

int naive_run(struct naive *e)
{
	int r = 0;

	for (e->failed = 0; !r && e->failed < e->n; e->failed++) {
		r = run_node(e, weir_graph_node(e->g, e->failed));
		if (r < 0)
			return r;
	}
	return 0;
}

size_t naive_failed(const struct naive *e)
{
	return e->failed;
}

const struct weir_operand *naive_result(const struct naive *e,
					const struct weir_node *node)
{
	return &e->result[node->index];
}

/* NaN, +inf and -inf are 1, 2 and 3. */
static int kind_of_number(double v)
{
	return isnan(v) ? 1 : isinf(v) ? v > 0 ? 2 : 3 : 0;
}

static bool same_form(const struct weir_operand *a,
		      const struct weir_operand *b)
{
	return a->dtype == b->dtype && a->ndim == b->ndim &&
	       !memcmp(a->shape, b->shape, a->ndim * sizeof(*a->shape));
}

struct naive_diff naive_compare(const struct weir_operand *got,
				const struct weir_operand *want)
{
	struct naive_diff d = { .odd = -1 };
	double *a, *b, square = 0, error = 0, x;
	int64_t n = naive_count(want);

	if (!same_form(got, want)) {
		d.odd = 0;
		return d;
	}
	a = naive_doubles(got);
	b = naive_doubles(want);
	for (int64_t i = n; i-- > 0;) {
		if (kind_of_number(a[i]) != kind_of_number(b[i]))
			d.odd = i;
		if (kind_of_number(a[i]) || kind_of_number(b[i]))
			continue;
		x = fabs(a[i] - b[i]);
		error += x * x;
		square += b[i] * b[i];
		if (x >= d.max) {
			d.max = x;
			d.at = i;
		}
	}
	d.nmse = error == 0 ? 0 : error / (square > 0 ? square : 1e-30);
	free(a);
	free(b);
	return d;
}
