/* SPDX-License-Identifier: MIT */
#include "trial.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kind.h"
#include "naive.h"
#include "naive_store.h"
#include "tap.h"
#include "trial_ways.h"

#define MOST_LEAVES 64

struct weir_graph *g;

static struct weir_buft *memory;
static struct weir_buf *leaves[MOST_LEAVES];
static unsigned n_leaves;
static uint64_t seed = 1;

void trials_begin(void)
{
	struct weir *weir = ways_begin();

	plan(0);
	if (weir_graph_new(&g) < 0)
		bail("%s", weir_error());
	memory = kind_of(weir, "CPU", WEIR_MEM_PLAIN);
}

void trial_reset(void)
{
	weir_graph_reset(g);
	while (n_leaves)
		weir_buf_free(leaves[--n_leaves]);
}

int trials_end(void)
{
	trial_reset();
	weir_graph_free(g);
	ways_end();
	return done_testing();
}

void random_from(uint64_t from)
{
	seed = from;
}

/* splitmix64 */
static uint64_t random_bits(void)
{
	uint64_t x = seed += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

uint64_t random_below(uint64_t n)
{
	return random_bits() % n;
}

double random_number(void)
{
	return (double)(random_bits() >> 11) * 0x1p-51 - 2;
}

const char *dtype_name(enum weir_dtype dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	return weir_dtype_info(dtype, &info) < 0 ? "?" : info.name;
}

double near_of(enum weir_dtype dtype)
{
	return dtype == WEIR_DTYPE_F16    ? NEAR_F16
	       : dtype == WEIR_DTYPE_BF16 ? NEAR_BF16
					  : NEAR_F32;
}

/* Random bytes, until the block has numbers of a useful size. */
static void block_make(enum weir_dtype dtype, unsigned char *to,
		       const struct weir_dtype_info *info)
{
	float v[256], most;

	do {
		for (uint32_t i = 0; i < info->bytes; i++)
			to[i] = (unsigned char)random_bits();
		if (weir_convert(WEIR_DTYPE_F32, v, dtype, to, info->block) < 0)
			bail("%s", weir_error());
		most = 0;
		for (uint32_t i = 0; i < info->block; i++)
			most = fabsf(v[i]) >= most ? fabsf(v[i]) : NAN;
		for (uint32_t i = 0; i < info->block; i++)
			most = isnan(v[i]) ? NAN : fmaxf(most, fabsf(v[i]));
	} while (!(most > 0.1f && most < 4));
}

static struct weir_tensor leaf_tensor(enum weir_dtype dtype, unsigned ndim,
				      va_list dims)
{
	int64_t shape[WEIR_MAX_DIMS];
	struct weir_tensor t;

	for (unsigned i = 0; i < ndim; i++)
		shape[i] = va_arg(dims, int);
	if (n_leaves == MOST_LEAVES)
		bail("a trial has at most %d leaves", MOST_LEAVES);
	if (weir_tensor_init(&t, dtype, ndim, shape) < 0 ||
	    weir_tensors_alloc(memory, &t, 1, &leaves[n_leaves]) < 0)
		bail("%s", weir_error());
	n_leaves++;
	return t;
}

static void leaf_fill(const struct weir_tensor *t)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct weir_operand o = naive_operand(t);
	int64_t n = naive_count(&o);
	double *v;

	if (weir_dtype_info(t->dtype, &info) < 0)
		bail("%s", weir_error());
	if (t->dtype > WEIR_DTYPE_GGML) {
		for (int64_t i = 0; i < n / info.block; i++)
			block_make(t->dtype,
				   (unsigned char *)o.data + i * info.bytes,
				   &info);
		return;
	}
	v = naive_doubles(&o);
	for (int64_t i = 0; i < n; i++)
		v[i] = t->dtype == WEIR_DTYPE_I32 ? (double)random_below(100)
						  : random_number();
	naive_store(&o, v);
	free(v);
}

struct weir_node *put(enum weir_dtype dtype, unsigned ndim, ...)
{
	struct weir_tensor t;
	va_list dims;

	va_start(dims, ndim);
	t = leaf_tensor(dtype, ndim, dims);
	va_end(dims);
	leaf_fill(&t);
	return weir_graph_leaf(g, &t, NULL);
}

struct weir_node *put_ids(enum weir_dtype dtype, uint64_t below, unsigned ndim,
			  ...)
{
	struct weir_operand o;
	struct weir_tensor t;
	va_list dims;
	double *v;

	va_start(dims, ndim);
	t = leaf_tensor(dtype, ndim, dims);
	va_end(dims);
	o = naive_operand(&t);
	v = naive_doubles(&o);
	for (int64_t i = 0; i < naive_count(&o); i++)
		v[i] = (double)random_below(below);
	naive_store(&o, v);
	free(v);
	return weir_graph_leaf(g, &t, NULL);
}

struct weir_node *put_values(enum weir_dtype dtype, const double *v,
			     unsigned ndim, ...)
{
	struct weir_operand o;
	struct weir_tensor t;
	va_list dims;

	va_start(dims, ndim);
	t = leaf_tensor(dtype, ndim, dims);
	va_end(dims);
	o = naive_operand(&t);
	naive_store(&o, v);
	return weir_graph_leaf(g, &t, NULL);
}

static bool trial_skip(const struct trial *t)
{
	if (!t->skipped)
		return false;
	skip(1, "%s", t->why);
	trial_reset();
	return true;
}

#define TITLE(title)                                \
	char text[256];                             \
	va_list args;                               \
	va_start(args, title);                      \
	vsnprintf(text, sizeof(text), title, args); \
	va_end(args);                               \
	if (!node)                                  \
		weir_graph_error(g, NULL);          \
	if (!node)                                  \
	bail("%s: %s", text, weir_error())

void same(struct weir_node *node, double nmse, const char *title, ...)
{
	struct trial t = { .g = g, .node = node, .nmse = nmse };

	TITLE(title);
	ways_try(&t);
	if (trial_skip(&t))
		return;
	ok(!t.err && !t.wrong[0], "%s", text);
	if (t.err)
		diag("%s: %s", t.way, t.why);
	else if (t.wrong[0])
		diag("%s: %s", t.way, t.wrong);
	trial_reset();
}

const char *trial_differs(struct weir_node *node, double nmse)
{
	static char why[400];
	struct trial t = { .g = g, .node = node, .nmse = nmse, .again = true };

	ways_try(&t);
	snprintf(why, sizeof(why), "%s: %s", t.way,
		 t.skipped || t.err ? t.why : t.wrong);
	trial_reset();
	return t.skipped || t.err || t.wrong[0] ? why : NULL;
}

void fails(struct weir_node *node, int err, const char *part, const char *title,
	   ...)
{
	struct trial t = { .g = g, .node = node, .fails = true };

	TITLE(title);
	ways_try(&t);
	if (trial_skip(&t))
		return;
	ok(t.err == err && strstr(t.why, part), "%s", text);
	if (t.err != err || !strstr(t.why, part))
		diag("%s: %d, %s", t.way, t.err, t.why);
	trial_reset();
}

void refuses(struct weir_node *node, const char *part, const char *title, ...)
{
	TITLE(title);
	if (ways_refuse_alike())
		is_err(ways_supports(node), -95, part, "%s", text);
	trial_reset();
}
