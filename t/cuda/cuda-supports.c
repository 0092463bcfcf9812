/* SPDX-License-Identifier: MIT */
/*
 * What CUDA0 computes, of all that the CPU computes: each operation with each
 * dtype that its rule accepts for the sources and the result, also for sources
 * after the second one. The differences are listed below, so that the list is
 * complete.
 */
#include <string.h>

#include "dev/dev.h"
#include "dtypes.h"
#include "gpu.h"
#include "graph/compile/compiled.h"
#include "graph/graph.h"
#include "graph/ops.h"
#include "mem/dtype.h"

#define C 256 /* whole blocks of each dtype */

/* The operations that CUDA devices leave to the CPU. */
static const enum weir_op left_out[] = { WEIR_OP_CALL };

static const enum weir_dtype dtypes[] = {
#define DTYPE(name, ...) WEIR_DTYPE_##name,
	WEIR__SAFETENSORS_DTYPES(DTYPE) WEIR__QUANTISED_DTYPES(DTYPE)
#undef DTYPE
};
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

static struct weir *weir;
static struct weir_graph *g;
static struct weir_buft *memory;
static struct weir_buf *room;

/* A leaf, so that it can be written. Rows of blocks have C elements. */
static struct weir_node *leaf(enum weir_dtype dtype, unsigned ndim,
			      const int64_t *shape)
{
	struct weir_tensor t;
	int64_t dim[4];

	memcpy(dim, shape, ndim * sizeof(*dim));
	if (weir__dtype(dtype)->block > 1)
		dim[ndim - 1] = C;
	must(weir_tensor_init(&t, dtype, ndim, dim));
	must(weir_tensor_place(&t, room, (uint64_t)weir_graph_count(g) << 20));
	return weir_graph_leaf(g, &t, NULL);
}

static struct weir_node *matrix(enum weir_dtype dtype)
{
	return leaf(dtype, 2, D(4, C));
}

static int nothing(void *arg, const struct weir_operand *dst,
		   const struct weir_operand *src, unsigned n, unsigned part,
		   unsigned parts)
{
	(void)arg, (void)dst, (void)src, (void)n, (void)part, (void)parts;
	return 0;
}

/* The operation on sources of these dtypes; NULL: its rule refuses them. */
static struct weir_node *make(enum weir_op op, enum weir_dtype a,
			      enum weir_dtype b)
{
	const struct weir_op_call call = {
		.fn = nothing, .dtype = a, .ndim = 1, .shape = { C }
	};
	const struct weir_op_clamp clamp = { .min = 0, .max = 1 };
	const struct weir_op_top_k top = { .k = 2 };
	const struct weir_op_cont cont = { .dtype = b };
	const struct weir_op_group_norm group = { .groups = 2 };
	const struct weir_op_repeat repeat = { .ndim = 2, .shape = { 8, C } };
	struct weir_node *cube, *heads;

	switch (op) {
	case WEIR_OP_GET_ROWS:
		return weir_get_rows(g, matrix(a), leaf(b, 1, D(C)));
	case WEIR_OP_SET_ROWS:
		return weir_set_rows(g, matrix(a), matrix(b),
				     leaf(I64, 1, D(4)));
	case WEIR_OP_MUL_MAT:
		return weir_mul_mat(g, matrix(a), matrix(b));
	case WEIR_OP_MUL_MAT_ID:
		cube = leaf(a, 3, D(2, 4, C));
		heads = leaf(b, 3, D(3, 1, C));
		return weir_mul_mat_id(g, cube, heads, leaf(I32, 2, D(3, 2)));
	case WEIR_OP_SOFT_MAX:
		return weir_soft_max(g, matrix(a), matrix(b), 1, 0);
	case WEIR_OP_ROPE:
		cube = leaf(a, 3, D(2, 4, C));
		return weir_rope(g, cube, leaf(I32, 1, D(2)), leaf(b, 1, D(C)),
				 NULL);
	case WEIR_OP_ATTENTION:
		cube = leaf(a, 3, D(2, 4, C));
		heads = leaf(b, 3, D(2, C, C)); /* 1 MiB */
		return weir_attention(g, cube, heads, heads,
				      leaf(F16, 2, D(4, C)), NULL);
	case WEIR_OP_COPY:
		return weir_copy(g, matrix(a), matrix(b));
	case WEIR_OP_CONT:
		cube = matrix(a);
		return weir_graph_op(g, op, &cont, sizeof(cont), &cube, 1);
	case WEIR_OP_CONCAT:
		return weir_concat(g, matrix(a), matrix(b), 0);
	case WEIR_OP_REPEAT:
		cube = matrix(a);
		return weir_graph_op(g, op, &repeat, sizeof(repeat), &cube, 1);
	case WEIR_OP_TOP_K:
		cube = matrix(a);
		return weir_graph_op(g, op, &top, sizeof(top), &cube, 1);
	case WEIR_OP_CLAMP:
		cube = matrix(a);
		return weir_graph_op(g, op, &clamp, sizeof(clamp), &cube, 1);
	case WEIR_OP_GROUP_NORM:
		cube = leaf(a, 3, D(2, 4, C));
		return weir_graph_op(g, op, &group, sizeof(group), &cube, 1);
	case WEIR_OP_CALL:
		return weir_call(g, &call, NULL, 0);
	default:
		cube = matrix(a);
		heads = matrix(b);
		return weir_graph_op(g, op, NULL, 0,
				     (struct weir_node *[]){ cube, heads },
				     weir__op_row(op)->required);
	}
}

static int supports(struct weir_dev *dev, const struct weir_node *node)
{
	struct weir_operand src[16] = { 0 };
	struct weir_backend_node flat;

	weir__node_flat(node, &flat, src);
	return weir__dev_compute(dev)->supports(dev, &flat);
}

static bool is_left_out(enum weir_op op)
{
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (left_out[i] == op)
			return true;
	return false;
}

/* An operation with three sources, or more, that have dtypes of their own. */
struct form {
	const char *name;
	struct weir_node *(*make)(enum weir_dtype a, enum weir_dtype b,
				  enum weir_dtype c);
};

static struct weir_node *set_rows(enum weir_dtype a, enum weir_dtype b,
				  enum weir_dtype c)
{
	return weir_set_rows(g, matrix(a), matrix(b), leaf(c, 1, D(4)));
}

static struct weir_node *mul_mat_id(enum weir_dtype a, enum weir_dtype b,
				    enum weir_dtype c)
{
	return weir_mul_mat_id(g, leaf(a, 3, D(2, 4, C)),
			       leaf(b, 3, D(3, 1, C)), leaf(c, 2, D(3, 2)));
}

static struct weir_node *rope(enum weir_dtype a, enum weir_dtype b,
			      enum weir_dtype c)
{
	return weir_rope(g, leaf(a, 3, D(2, 4, C)), leaf(b, 1, D(2)),
			 leaf(c, 1, D(C / 2)), NULL);
}

static struct weir_node *soft_max(enum weir_dtype a, enum weir_dtype b,
				  enum weir_dtype c)
{
	return weir_soft_max_sinks(g, leaf(a, 3, D(2, 4, C)), matrix(b),
				   leaf(c, 1, D(2)), 1, 0);
}

static struct weir_node *attention(enum weir_dtype a, enum weir_dtype b,
				   enum weir_dtype c)
{
	return weir_attention(g, leaf(a, 3, D(2, 4, C)), leaf(b, 3, D(2, 8, C)),
			      leaf(c, 3, D(2, 8, C)), NULL, NULL);
}

static struct weir_node *with_mask(enum weir_dtype a, enum weir_dtype b,
				   enum weir_dtype c)
{
	struct weir_node *k = leaf(b, 3, D(2, C, C));

	return weir_attention(g, leaf(a, 3, D(2, 4, C)), k, k, matrix(c), NULL);
}

static struct weir_node *with_sinks(enum weir_dtype a, enum weir_dtype b,
				    enum weir_dtype c)
{
	struct weir_node *k = leaf(b, 3, D(2, 8, C));

	return weir_attention_sinks(g, leaf(a, 3, D(2, 4, C)), k, k, NULL,
				    leaf(c, 1, D(2)), NULL);
}

static struct weir_node *with_lengths(enum weir_dtype a, enum weir_dtype b,
				      enum weir_dtype c)
{
	struct weir_node *k = leaf(b, 4, D(3, 2, 8, C));

	return weir_attention_lengths(g, leaf(a, 4, D(3, 2, 1, C)), k, k,
				      leaf(c, 1, D(3)), NULL, NULL, NULL);
}

static struct weir_node *with_pages(enum weir_dtype a, enum weir_dtype b,
				    enum weir_dtype c)
{
	const struct weir_op_attention op = { .page = 4 };
	struct weir_node *k = leaf(b, 3, D(2, 8, C));

	return weir_attention_lengths(g, leaf(a, 4, D(3, 2, 1, C)), k, k,
				      leaf(I32, 1, D(3)), leaf(c, 2, D(3, 2)),
				      NULL, &op);
}

static const struct form forms[] = {
	{ "set_rows", set_rows },
	{ "mul_mat_id", mul_mat_id },
	{ "rope with factors", rope },
	{ "soft_max with sinks", soft_max },
	{ "attention", attention },
	{ "attention with a mask", with_mask },
	{ "attention with sinks", with_sinks },
	{ "attention with lengths", with_lengths },
	{ "attention with pages", with_pages },
};

/* How many nodes, which differ in their dtypes, each device computes. */
struct found {
	unsigned computed, both, only_cuda; /* by the CPU; by both */
	char first[256];                    /* that only the CPU computes */
};

/* Ask both devices. @node may be NULL: its rule has refused it. */
static void ask(struct found *f, const struct weir_node *node)
{
	bool cpu, cuda;

	if (node) {
		cpu = supports(weir_dev_get(weir, 0), node) == 0;
		cuda = supports(gpu(weir), node) == 0;
		f->computed += cpu;
		f->both += cpu && cuda;
		f->only_cuda += cuda && !cpu;
		if (cpu && !cuda && !*f->first)
			snprintf(f->first, sizeof(f->first), "%s",
				 weir_error());
	}
	weir_graph_reset(g);
}

static void agree(const struct found *f, const char *name, const char *of)
{
	ok(f->computed && f->both == f->computed && !f->only_cuda,
	   "%s is computed by CUDA0 for all %u %s of dtypes of the CPU", name,
	   f->computed, of);
	if (f->both != f->computed)
		diag("%u of them; %s", f->both, f->first);
}

/* Both devices agree on the operation, whatever the dtypes of two sources. */
static void operation(enum weir_op op, const char *name)
{
	struct found f = { 0 };

	for (size_t i = 0; i < DTYPES * DTYPES; i++)
		ask(&f, make(op, dtypes[i / DTYPES], dtypes[i % DTYPES]));
	if (is_left_out(op))
		ok(f.computed && !f.both, "%s is computed by the CPU only",
		   name);
	else
		agree(&f, name, "pairs");
}

static void three_sources(const struct form *form)
{
	struct found f = { 0 };

	for (size_t i = 0; i < DTYPES; i++)
		for (size_t j = 0; j < DTYPES * DTYPES; j++)
			ask(&f, form->make(dtypes[i], dtypes[j / DTYPES],
					   dtypes[j % DTYPES]));
	agree(&f, form->name, "triples");
}

int main(void)
{
	struct weir_op_info info = { .size = sizeof(info) };

	open_driver();
	weir = open_cuda();
	if (!weir__dev_compute(gpu(weir)))
		skip_all(
			"CUDA0 does not compute: there was no nvcc, or the GPU is too old");
	plan(0);
	must(weir_graph_new(&g));
	must(weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN, &memory));
	must(weir_buf_alloc(memory, 8 << 20, NULL, &room));
	for (int op = WEIR_OP_VIEW + 1; !weir_op_info((enum weir_op)op, &info);
	     op++)
		operation((enum weir_op)op, info.name);
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		three_sources(&forms[i]);
	weir_buf_free(room);
	weir_graph_free(g);
	weir_close(weir);
	return done_testing();
}
