/* SPDX-License-Identifier: MIT */
/* What the library says of its operations, for programs that know no struct. */
#include <errno.h>
#include <string.h>

#include <weir.h>

#include "tap.h"

/* Bytes of a member. */
static size_t bytes_of(uint32_t type)
{
	switch (type) {
	case WEIR_PARAM_U64:
	case WEIR_PARAM_I64:
		return 8;
	case WEIR_PARAM_DIMS:
		return 8 * WEIR_MAX_DIMS;
	case WEIR_PARAM_POINTER:
		return sizeof(void *);
	default:
		return 4;
	}
}

/*
 * The members of the parameters, in their order, without gaps that hold one;
 * a reserved uint32_t is not listed.
 */
static bool covers(const struct weir_op_info *info)
{
	const struct weir_op_param *p;
	size_t at = 0;

	for (p = info->params; p->name; p++) {
		if (p->offset != at && p->offset != at + 4)
			return false;
		if ((p->type == WEIR_PARAM_WORD) != !!p->words)
			return false;
		at = p->offset + bytes_of(p->type);
	}
	return at == info->params_size || at + 4 == info->params_size;
}

static unsigned n_sources(const struct weir_op_info *info)
{
	unsigned n = 0;

	while (n < WEIR_OP_SOURCES && info->source[n])
		n++;
	return n;
}

static void each(void)
{
	struct weir_op_info info = { .size = sizeof(info) };
	int op, described = 0, sources = 0, params = 0;

	for (op = 0; weir_op_info(op, &info) == 0; op++) {
		described += info.summary && *info.summary;
		sources += info.any ||
			   n_sources(&info) == info.required + info.optional;
		params += covers(&info);
		if (!covers(&info))
			diag("%s", info.name);
	}
	is_int(op, WEIR_OP_ARGSORT + 1, "each operation is described");
	is_int(described, op, "each has a summary");
	is_int(sources, op, "each has names for all sources");
	is_int(params, op, "each lists all its parameters");
}

/* Make a norm knowing nothing of its struct. */
static void by_name(void)
{
	struct weir_op_info info = { .size = sizeof(info) };
	const int64_t shape[] = { 2, 4 };
	unsigned char params[256] = { 0 };
	struct weir_node *x;
	struct weir_graph *g;
	float eps = -1;
	int op = 0;

	while (weir_op_info(op, &info) == 0 && strcmp(info.name, "norm"))
		op++;
	is_int(op, WEIR_OP_NORM, "an operation is found by its name");
	is_str(info.params[0].name, "eps", "its parameter has a name");
	is_int(info.params[0].type, WEIR_PARAM_F32, "and a type");
	is_int(info.params_size, sizeof(struct weir_op_norm),
	       "the size is that of its struct");
	memcpy(params + info.params[0].offset, &eps, sizeof(eps));
	if (weir_graph_new(&g) < 0)
		bail("no graph");
	x = weir_graph_input(g, "x", WEIR_DTYPE_F32, 2, shape);
	ok(!weir_graph_op(g, op, params, info.params_size, &x, 1),
	   "a parameter at its offset is used");
	is_err(weir_graph_error(g, NULL), -EINVAL, "norm: eps -1",
	       "and checked");
	weir_graph_free(g);
}

static void refused(void)
{
	struct weir_op_info info = { .size = 0 };

	is_err(weir_op_info(WEIR_OP_ADD, &info), -EINVAL, "size",
	       "a description needs its size");
	info.size = sizeof(info);
	is_err(weir_op_info(WEIR_OP_ARGSORT + 1, &info), -EINVAL,
	       "weir_op_info: operation 40 is not known",
	       "there is no operation after the last");
}

int main(void)
{
	plan(12);
	each();
	by_name();
	refused();
	return done_testing();
}
