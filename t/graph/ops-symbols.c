/* SPDX-License-Identifier: MIT */
/*
 * Operations are symbols of the library: a language with a foreign function
 * interface builds graphs without the headers. All calls here are found by
 * name.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "tap.h"

typedef struct weir_node *(*source_fn)(struct weir_graph *g,
				       struct weir_node *a);
typedef struct weir_node *(*sources_fn)(struct weir_graph *g,
					struct weir_node *a,
					struct weir_node *b);

static void *find(const char *name)
{
	void *symbol = dlsym(RTLD_DEFAULT, name);

	if (!symbol)
		bail("%s is no symbol", name);
	return symbol;
}

static struct weir_graph *graph_new(void)
{
	int (*make)(struct weir_graph **) =
		(int (*)(struct weir_graph **))find("weir_graph_new");
	struct weir_graph *g = NULL;

	if (make(&g) < 0)
		bail("no graph");
	return g;
}

static struct weir_node *input(struct weir_graph *g, const char *name,
			       int dtype, unsigned ndim, const int64_t *shape)
{
	struct weir_node *(*make)(struct weir_graph *, const char *, int,
				  unsigned, const int64_t *) =
		(struct weir_node * (*)(struct weir_graph *, const char *, int,
					unsigned, const int64_t *))
			find("weir_graph_input");

	return make(g, name, dtype, ndim, shape);
}

static struct weir_node *mul_mat(struct weir_graph *g, struct weir_node *a,
				 struct weir_node *b)
{
	return ((sources_fn)find("weir_mul_mat"))(g, a, b);
}

static struct weir_node *silu(struct weir_graph *g, struct weir_node *a)
{
	return ((source_fn)find("weir_silu"))(g, a);
}

static struct weir_node *rms_norm(struct weir_graph *g, struct weir_node *a,
				  float eps)
{
	struct weir_node *(*make)(struct weir_graph *, struct weir_node *,
				  float) =
		(struct weir_node * (*)(struct weir_graph *, struct weir_node *,
					float)) find("weir_rms_norm");

	return make(g, a, eps);
}

static struct weir_node *reshape(struct weir_graph *g, struct weir_node *a,
				 unsigned ndim, const int64_t *shape)
{
	struct weir_node *(*make)(struct weir_graph *, struct weir_node *,
				  unsigned, const int64_t *) =
		(struct weir_node * (*)(struct weir_graph *, struct weir_node *,
					unsigned, const int64_t *))
			find("weir_reshape");

	return make(g, a, ndim, shape);
}

static struct weir_node *rope(struct weir_graph *g, struct weir_node *a,
			      struct weir_node *pos)
{
	struct weir_node *(*make)(struct weir_graph *, struct weir_node *,
				  struct weir_node *, struct weir_node *,
				  const void *) =
		(struct weir_node * (*)(struct weir_graph *, struct weir_node *,
					struct weir_node *, struct weir_node *,
					const void *)) find("weir_rope");

	return make(g, a, pos, NULL, NULL);
}

/* The beginning of a layer of Llama: norm, product, heads, rotation. */
static struct weir_node *layer(struct weir_graph *g, int by_name)
{
	static const int64_t size[2] = { 3, 8 }, weight[2] = { 16, 8 };
	static const int64_t heads[3] = { 3, 2, 8 }, length = 3;
	struct weir_node *x = input(g, "x", WEIR_DTYPE_F32, 2, size);
	struct weir_node *w = input(g, "w", WEIR_DTYPE_F32, 2, weight);
	struct weir_node *pos = input(g, "pos", WEIR_DTYPE_I32, 1, &length);

	if (by_name)
		return rope(g,
			    reshape(g,
				    mul_mat(g, w, silu(g, rms_norm(g, x, 1))),
				    3, heads),
			    pos);
	x = weir_rms_norm(g, x, 1);
	x = weir_mul_mat(g, w, weir_silu(g, x));
	return weir_rope(g, weir_reshape(g, x, 3, heads), pos, NULL, NULL);
}

/* Each function of ops.h, by its page weir_ops(3). */
static void every_operation(void)
{
	static const char *const names[] = {
		"view",       "reshape",
		"permute",    "transpose",
		"slice",      "get_rows",
		"set_rows",   "mul_mat",
		"mul_mat_id", "mul_mat_precision",
		"add",        "mul_mat_id_precision",
		"sub",        "mul",
		"div",        "scale",
		"sqr",        "silu",
		"gelu",       "swiglu",
		"rms_norm",   "norm",
		"soft_max",   "soft_max_sinks",
		"rope",       "attention",
		"copy",       "attention_sinks",
		"cont",       "cast",
		"concat",     "repeat",
		"sum",        "sum_rows",
		"argmax",     "top_k",
		"call",       "gelu_erf",
		"relu",       "tanh",
		"sigmoid",    "exp",
		"sqrt",       "clamp",
		"l2_norm",    "group_norm",
		"argsort",    "attention_lengths",
	};
	unsigned missing = 0;
	char name[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(name, sizeof(name), "weir_%s", names[i]);
		if (!dlsym(RTLD_DEFAULT, name)) {
			diag("%s is no symbol", name);
			missing++;
		}
	}
	is_int(missing, 0, "each operation is a symbol of the library");
}

int main(void)
{
	struct weir_graph *by_name = graph_new(), *by_header = graph_new();
	uint64_t a[2], b[2];

	plan(0);
	every_operation();
	ok(layer(by_name, 1) != NULL, "a graph is built by symbols alone");
	ok(layer(by_header, 0) != NULL,
	   "the same graph is built by the header");
	is_int(weir_graph_fingerprint(by_name, a), 0,
	       "the graph that was built by symbols is sound");
	is_int(weir_graph_fingerprint(by_header, b), 0,
	       "the graph that was built by the header is sound");
	ok(!memcmp(a, b, sizeof(a)), "both graphs are equal");
	weir_graph_free(by_name);
	weir_graph_free(by_header);
	return done_testing();
}
