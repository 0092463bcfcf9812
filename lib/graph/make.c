/* SPDX-License-Identifier: MIT */
/* weir_graph_op(): what all operations check, and the sentences of refusals. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/util.h"
#include "graph/ops.h"
#include "graph/overlap.h"
#include "mem/buf.h"
#include "mem/dtype.h"
#include "mem/tensor.h"

/* Room for the parameters of any operation. */
union params {
	struct weir_op_view view;
	struct weir_op_mul_mat mul_mat;
	struct weir_op_scale scale;
	struct weir_op_norm norm;
	struct weir_op_soft_max soft_max;
	struct weir_op_rope rope;
	struct weir_op_attention attention;
	struct weir_op_cont cont;
	struct weir_op_concat concat;
	struct weir_op_repeat repeat;
	struct weir_op_top_k top_k;
	struct weir_op_call call;
};

static const char *arg_name(const struct weir__op_info *row, uint32_t i)
{
	return i < WEIR__OP_ARGS && row->arg[i].name ? row->arg[i].name : "src";
}

int weir__op_refuse(const struct weir__made *m, const char *fmt, ...)
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
				     weir__tensor_words(&m->src[i]->t,
							m->src[i]->index));
	return weir__fail(-EINVAL, "%s: %s", m->row->name, text);
}

int weir__op_result(struct weir__made *m, uint32_t dtype, unsigned ndim,
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

static int check_source(const struct weir_graph *g, const struct weir__made *m,
			uint32_t i)
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

static int refuse_dtype(const struct weir__made *m, uint32_t i)
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

/* Rows of neighbouring elements; a tensor without strides is one such row. */
static bool has_rows(const struct weir_tensor *t)
{
	const struct weir_dtype_info *info = weir__dtype(t->dtype);
	uint32_t last = t->ndim - 1;

	return !t->ndim || t->shape[last] <= info->block || !t->stride[last] ||
	       t->stride[last] == (int64_t)info->bytes;
}

static int check_arg(const struct weir__made *m, uint32_t i)
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

static int check_sources(const struct weir_graph *g, const struct weir__made *m)
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

/* A view, and the result of a write, are stored in another node. */
static int check_write(struct weir__made *m)
{
	struct weir_node *dst = m->src[m->row->target];
	const struct weir_buf *buf = dst->t.buf;

	if (dst->storage->op != WEIR_OP_LEAF)
		return weir__op_refuse(
			m, "dst is neither a leaf nor a view of one");
	if (dst->storage->flags & WEIR_NODE_CONSTANT)
		return weir__fail(-EROFS, "%s: dst %s is constant",
				  m->row->name,
				  weir__tensor_words(&dst->t, dst->index));
	if (buf && buf->buft->desc.kind == WEIR_MEM_MAPPED)
		return weir__fail(-EROFS,
				  "%s: dst %s is in memory of kind MAPPED",
				  m->row->name,
				  weir__tensor_words(&dst->t, dst->index));
	m->storage = dst->storage;
	m->t = dst->t;
	m->t.name = NULL;
	return 0;
}

static int op_make(struct weir_graph *g, struct weir__made *m,
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
		r = weir__check_overlap(m);
	return r < 0 ? r : weir__node_append(g, m, ret_node);
}

struct weir_node *weir_graph_op(struct weir_graph *g, enum weir_op op,
				const void *params, size_t params_size,
				struct weir_node *const *src, unsigned n)
{
	struct weir__made m; /* its rule sets the result */
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
	return r < 0 ? weir__graph_keep(g, r) : node;
}
