/* SPDX-License-Identifier: MIT */
/*
 * weir_graph_op(): the checks that all operations share, the overlap of what a
 * node reads and writes, and the sentences of refusals.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "graph/ops.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

#define TERMS (2 * WEIR_MAX_DIMS)
#define STEPS 4096u             /* most steps of the search */
#define EXTENT (INT64_MAX / 16) /* longer distances are not summed */

/* Room for the parameters of any operation. */
union params {
	struct weir_op_view view;
	struct weir_op_mul_mat mul_mat;
	struct weir_op_scale scale;
	struct weir_op_clamp clamp;
	struct weir_op_norm norm;
	struct weir_op_group_norm group_norm;
	struct weir_op_soft_max soft_max;
	struct weir_op_rope rope;
	struct weir_op_attention attention;
	struct weir_op_cont cont;
	struct weir_op_concat concat;
	struct weir_op_repeat repeat;
	struct weir_op_top_k top_k;
	struct weir_op_argsort argsort;
	struct weir_op_call call;
};

static const char *arg_name(const struct weir__op_info *row, uint32_t i)
{
	return i < WEIR__OP_ARGS && row->arg[i].name ? row->arg[i].name : "src";
}

int weir__op_refuse(const struct weir__new_node *m, const char *fmt, ...)
{
	char text[WEIR__ERROR_MAX] = "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (uint32_t i = 0; i < m->n_src && i < WEIR__OP_ARGS; i++)
		if (m->src[i])
			weir__append(text, sizeof(text), "%s%s %s",
				     i ? ", " : ": ", arg_name(m->row, i),
				     weir__tensor_describe(&m->src[i]->t,
							   m->src[i]->index));
	return weir__fail(-EINVAL, "%s: %s", m->row->name, text);
}

int weir__op_result(struct weir__new_node *m, uint32_t dtype, unsigned ndim,
		    const int64_t *shape)
{
	int r = weir__tensor_init(&m->t, (enum weir_dtype)dtype, ndim, shape);

	return r < 0 ? weir__fail_for(r, "%s: the result", m->row->name) : 0;
}

static int check_number(const struct weir__op_info *row, unsigned n)
{
	if (row->any || n <= row->required + row->optional)
		return 0;
	return weir__fail(-EINVAL, "%s: %u sources, at most %u", row->name, n,
			  row->required + row->optional);
}

static int check_source(const struct weir_graph *g,
			const struct weir__new_node *m, uint32_t i)
{
	char what[64];
	bool required = m->row->any || i < m->row->required;
	const struct weir_node *node = i < m->n_src ? m->src[i] : NULL;

	if (!node && !required)
		return 0;
	if (node && node->graph == g && node->index < g->n &&
	    g->node[node->index] == node)
		return 0;
	snprintf(what, sizeof(what), "%s: source %u (%s)", m->row->name, i,
		 arg_name(m->row, i));
	return node ? weir__node_check(g, node, what)
		    : weir__fail(-EINVAL, "%s is NULL", what);
}

static uint8_t dtype_class(uint32_t dtype)
{
	switch (dtype) {
	case WEIR_DTYPE_F32:
		return WEIR__IS_F32;
	case WEIR_DTYPE_F16:
		return WEIR__IS_F16;
	case WEIR_DTYPE_BF16:
		return WEIR__IS_BF16;
	case WEIR_DTYPE_I32:
		return WEIR__IS_I32;
	case WEIR_DTYPE_I64:
		return WEIR__IS_I64;
	default:
		return dtype > WEIR_DTYPE_GGML ? WEIR__IS_QUANT
					       : WEIR__IS_OTHER;
	}
}

static int refuse_dtype(const struct weir__new_node *m, uint32_t i)
{
	static const char *const name[] = { "F32", "F16", "BF16",
					    "I32", "I64", "quantised" };
	char text[64] = "";

	for (unsigned c = 0; c < sizeof(name) / sizeof(name[0]); c++)
		if (m->row->arg[i].dtypes & 1u << c)
			weir__append(text, sizeof(text), "%s%s",
				     text[0] ? " or " : "", name[c]);
	return weir__op_refuse(m, "%s must be %s", m->row->arg[i].name, text);
}

/* True if the elements of each row are neighbours. */
static bool has_rows(const struct weir_tensor *t)
{
	const struct weir_dtype_info *info = weir__dtype(t->dtype);
	uint32_t last = t->ndim - 1;

	return !t->ndim || t->shape[last] <= info->block || !t->stride[last] ||
	       t->stride[last] == (int64_t)info->bytes;
}

static int check_arg(const struct weir__new_node *m, uint32_t i)
{
	const struct weir__arg *arg = &m->row->arg[i];
	const struct weir_tensor *t = &m->src[i]->t;

	if (!(arg->dtypes & dtype_class(t->dtype)))
		return refuse_dtype(m, i);
	if (t->ndim < arg->dims)
		return weir__op_refuse(m, "%s needs %u dimensions or more",
				       arg->name, arg->dims);
	if (arg->form == WEIR__FORM_ROWS && !has_rows(t))
		return weir__op_refuse(
			m, "elements of a row of %s must be neighbours (cont)",
			arg->name);
	if (arg->form == WEIR__FORM_WHOLE && !weir__tensor_contiguous(t))
		return weir__op_refuse(m, "%s must be contiguous (cont)",
				       arg->name);
	return 0;
}

static int check_sources(const struct weir_graph *g,
			 const struct weir__new_node *m)
{
	uint32_t n = m->n_src > m->row->required ? m->n_src : m->row->required;
	int r = check_number(m->row, m->n_src);

	for (uint32_t i = 0; !r && i < n; i++) {
		r = check_source(g, m, i);
		if (!r && !m->row->any && m->src[i])
			r = check_arg(m, i);
	}
	return r;
}

static int params_in(const struct weir__op_info *row, const void *params,
		     size_t size, void *ret)
{
	size_t n = size < row->params ? size : row->params;

	if (size && !params)
		return weir__fail(-EINVAL, "%s: the parameters are NULL",
				  row->name);
	memset(ret, 0, row->params);
	if (n)
		memcpy(ret, params, n);
	for (; n < size; n++)
		if (((const unsigned char *)params)[n])
			return weir__fail(
				-E2BIG,
				"%s: parameters of %zu bytes: this library knows %u of them, but byte %zu is not 0",
				row->name, size, row->params, n);
	return 0;
}

/* Check a view or a write, whose result is stored in another node. */
static int check_write(struct weir__new_node *m)
{
	struct weir_node *dst = m->src[m->row->target];
	const struct weir_buf *buf = dst->t.buf;

	if (dst->storage->op != WEIR_OP_LEAF)
		return weir__op_refuse(
			m, "dst is neither a leaf nor a view of one");
	if (dst->storage->flags & WEIR_NODE_CONSTANT)
		return weir__fail(-EROFS, "%s: dst %s is constant",
				  m->row->name,
				  weir__tensor_describe(&dst->t, dst->index));
	if (buf && buf->buft->desc.kind == WEIR_MEM_MAPPED)
		return weir__fail(-EROFS,
				  "%s: dst %s is in memory of kind MAPPED",
				  m->row->name,
				  weir__tensor_describe(&dst->t, dst->index));
	m->storage = dst->storage;
	m->t = dst->t;
	m->t.name = NULL;
	return 0;
}

/* A term of a sum: @step times any number from @lo to @hi. */
struct term {
	int64_t step, lo, hi;
};

struct sum_search {
	struct term term[TERMS]; /* the longest step first */
	unsigned n;
	unsigned steps; /* so far */
	/* Sums of the terms from each on. */
	int64_t least[TERMS + 1], most[TERMS + 1];
};

static void term_add(struct sum_search *s, int64_t step, int64_t lo, int64_t hi)
{
	unsigned i = 0;

	while (i < s->n && s->term[i].step > step)
		i++;
	if (i == s->n || s->term[i].step != step) {
		for (unsigned k = s->n++; k > i; k--)
			s->term[k] = s->term[k - 1];
		s->term[i] = (struct term){ .step = step };
	}
	s->term[i].lo += lo;
	s->term[i].hi += hi;
}

/* Add the terms of the rows of @t, times @sign, which is 1 or -1. */
static void terms_of(struct sum_search *s, const struct weir_tensor *t,
		     int sign, int64_t *ret_row)
{
	size_t row;
	unsigned outer = weir__tensor_outer(t, &row);

	*ret_row = (int64_t)row;
	for (unsigned i = 0; i < outer; i++) {
		int64_t last = (int64_t)weir__tensor_steps(t, i) - 1;

		if (!last || !t->stride[i])
			continue;
		if (sign > 0)
			term_add(s, t->stride[i], 0, last);
		else
			term_add(s, t->stride[i], -last, 0);
	}
}

static void search_sum(struct sum_search *s)
{
	s->least[s->n] = s->most[s->n] = 0;
	for (unsigned i = s->n; i-- > 0;) {
		const struct term *t = &s->term[i];

		s->least[i] = s->least[i + 1] + t->step * t->lo;
		s->most[i] = s->most[i + 1] + t->step * t->hi;
	}
}

static int64_t divide_down(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/*
 * True if a sum of the terms from @i on is in [@lo, @hi], or no steps are left.
 */
static bool search_hits(struct sum_search *s, unsigned i, int64_t lo,
			int64_t hi)
{
	const struct term *t = &s->term[i];
	int64_t from, to;

	if (++s->steps > STEPS)
		return true;
	if (lo > s->most[i] || hi < s->least[i])
		return false;
	if (i == s->n)
		return true;
	from = -divide_down(s->most[i + 1] - lo, t->step);
	to = divide_down(hi - s->least[i + 1], t->step);
	from = from > t->lo ? from : t->lo;
	to = to < t->hi ? to : t->hi;
	for (; from <= to; from++)
		if (search_hits(s, i + 1, lo - from * t->step,
				hi - from * t->step))
			return true;
	return false;
}

/*
 * True if @a at @at_a and @b at @at_b have a byte in common, also if strides
 * are such that STEPS steps do not find that out. Both are valid.
 *
 * Dimensions of both are terms of one sum: the distance of a row of one from a
 * row of the other. They overlap if a sum is in a range of the width of the two
 * rows. Terms of one stride are added, and the longest stride is tried first,
 * so that few sums of most tensors are looked at.
 */
static bool tensors_overlap(const struct weir_tensor *a, uint64_t at_a,
			    const struct weir_tensor *b, uint64_t at_b)
{
	struct sum_search s = { .n = 0 };
	uint64_t bytes_a, bytes_b;
	int64_t row_a, row_b, apart = (int64_t)(at_b - at_a);

	if (weir__tensor_bytes(a, &bytes_a) < 0 ||
	    weir__tensor_bytes(b, &bytes_b) < 0 || !bytes_a || !bytes_b)
		return false;
	if (at_a >= at_b ? at_a - at_b >= bytes_b : at_b - at_a >= bytes_a)
		return false;
	if (bytes_a > EXTENT || bytes_b > EXTENT)
		return true;
	terms_of(&s, a, 1, &row_a);
	terms_of(&s, b, -1, &row_b);
	search_sum(&s);
	return search_hits(&s, 0, apart - row_a + 1, apart + row_b - 1);
}

/*
 * Find the address at which a node begins, and the address space. False: it has
 * none, because it is in no leaf or the leaf is not placed.
 */
static bool begins_at(const struct weir_node *node, uint64_t *ret_space,
		      uint64_t *ret_at)
{
	const struct weir_node *in = node->storage;
	struct weir_buf *member;
	uint64_t bytes, at;

	if (in->op != WEIR_OP_LEAF || !in->t.buf ||
	    weir__tensor_bytes(&in->t, &bytes) < 0 ||
	    weir__buf_range(in->t.buf, in->t.offset, bytes, &member, &at) < 0)
		return false;
	*ret_space = weir__buf_space(member);
	*ret_at = (uintptr_t)member->mem.base + at + node->t.offset -
		  in->t.offset;
	return true;
}

static bool nodes_overlap(const struct weir_node *a, const struct weir_node *b)
{
	uint64_t space_a, space_b, at_a, at_b;

	if (a->storage == b->storage)
		return tensors_overlap(&a->t, a->t.offset, &b->t, b->t.offset);
	return begins_at(a, &space_a, &at_a) && begins_at(b, &space_b, &at_b) &&
	       space_a == space_b && tensors_overlap(&a->t, at_a, &b->t, at_b);
}

/*
 * -EINVAL: the target of a write and another source of it overlap. Bytes of
 * leaves that are not placed have no addresses yet, so they do not overlap.
 */
static int check_overlap(const struct weir__new_node *m)
{
	const struct weir_node *dst = m->src[m->row->target];

	for (uint32_t i = 0; i < m->n_src; i++)
		if (i != m->row->target && m->src[i] &&
		    nodes_overlap(m->src[i], dst))
			return weir__op_refuse(m, "%s and dst overlap",
					       m->row->arg[i].name);
	return 0;
}

static int op_make(struct weir_graph *g, struct weir__new_node *m,
		   const void *params, size_t size, struct weir_node **ret_node)
{
	union params room;
	int r;

	m->row = weir__op_row(m->op);
	if (!m->row)
		return weir__fail(-EOPNOTSUPP, "operation %u is not known",
				  m->op);
	if (!m->row->rule)
		return weir__fail(-EINVAL, "%s: weir_graph_%s makes it",
				  m->row->name, m->row->name);
	if (m->n_src && !m->src)
		return weir__fail(-EINVAL, "%s: %u sources at NULL",
				  m->row->name, m->n_src);
	m->params = &room;
	if ((r = check_sources(g, m)) < 0 ||
	    (r = params_in(m->row, params, size, &room)) < 0)
		return r;
	if (m->row->flags & WEIR__OP_WRITES && (r = check_write(m)) < 0)
		return r;
	r = m->row->rule(m);
	if (r == 0 && m->row->flags & WEIR__OP_WRITES)
		r = check_overlap(m);
	return r < 0 ? r : weir__node_append(g, m, ret_node);
}

struct weir_node *weir_graph_op(struct weir_graph *g, enum weir_op op,
				const void *params, size_t params_size,
				struct weir_node *const *src, unsigned n)
{
	struct weir__new_node m; /* its rule sets the result */
	struct weir_node *node;
	int r;

	if (g->err)
		return NULL;
	WEIR__ENTER();
	m.op = op;
	m.n_src = n;
	m.src = src;
	m.storage = NULL;
	m.event = NULL;
	r = op_make(g, &m, params, params_size, &node);
	return r < 0 ? weir__graph_keep_failure(g, r) : node;
}
