/* SPDX-License-Identifier: MIT */
/*
 * Two devices compared node by node: the CPU, and a device of the tests that
 * takes SILU for a copy.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "gdev.h"
#include "streams.h"

#define N 8

static struct weir *weir;
static struct weir_dev *cpu, *other;
static struct weir_graph *g;
static struct weir_buf *bufs[8];
static unsigned n_bufs;

/* What the function was called with. */
static struct weir_compared seen[16];
static float value[16][2]; /* the first element of both */
static unsigned n_seen;
static int answer; /* answer of the third call */

static int see(void *arg, const struct weir_compared *compared)
{
	(void)arg;
	value[n_seen][0] = *(float *)weir_tensor_data(&compared->a);
	value[n_seen][1] = *(float *)weir_tensor_data(&compared->b);
	seen[n_seen++] = *compared;
	return n_seen == 3 ? answer : 0;
}

static struct weir_node *leaf_of(const char *name, float v)
{
	return gdev_leaf(g, cpu, name, N, v, NULL, &bufs[n_bufs++]);
}

static int compare(uint32_t flags)
{
	struct weir_compare_opts opts = WEIR_COMPARE_OPTS_INIT;

	opts.flags = flags;
	n_seen = 0;
	return weir_graph_compare(cpu, other, g, &opts, see, NULL);
}

static void clear(void)
{
	weir_graph_reset(g);
	while (n_bufs) {
		weir_buf_free(bufs[--n_bufs]);
		bufs[n_bufs] = NULL;
	}
	gdev_reset();
	answer = 0;
}

static void equal(void)
{
	struct weir_node *a = leaf_of("a", 2);

	a = weir_add(g, a, a);
	weir_mul(g, a, leaf_of("b", 3));
	is_int(compare(0), 0, "a graph is computed on two devices");
	is_int(n_seen, 2, "each operation is compared once, leaves are not");
	is_int(seen[0].index, 1, "a comparison has the number of the node");
	ok(seen[1].nmse == 0 && seen[1].max == 0 && !seen[1].odd,
	   "equal results have no difference");
	ok(value[1][0] == 12 && value[1][1] == 12,
	   "the function sees the results of both devices");
	clear();
}

static void different(void)
{
	struct weir_node *x = weir_silu(g, leaf_of("a", 1));
	double right = 1 / (1 + exp(-1)), apart = 1 - right;

	weir_add(g, x, x);
	is_int(compare(0), 0, "a difference is no failure");
	ok(fabs(seen[0].max - apart) < 1e-6,
	   "a comparison has the greatest difference");
	ok(fabs(seen[0].nmse - apart * apart) < 1e-6,
	   "a comparison has the mean square error, normalised by b");
	ok(fabs(seen[1].max - 2 * apart) < 1e-6,
	   "each device goes on with its own results");
	is_int(compare(WEIR_COMPARE_EACH), 0, "with WEIR_COMPARE_EACH too");
	ok(seen[0].max > 0.1 && seen[1].max == 0,
	   "with WEIR_COMPARE_EACH both go on with the first one's results");
	clear();
}

static void odd_numbers(void)
{
	struct weir_node *a = leaf_of("a", 1);
	float *v = weir_tensor_data(weir_node_tensor(a));

	v[1] = NAN;
	v[2] = INFINITY;
	v[3] = -INFINITY;
	weir_sqr(g, a);
	weir_silu(g, a);
	is_int(compare(0), 0, "NaN and infinities are compared");
	ok(seen[0].odd == 0 && seen[0].nmse == 0,
	   "NaN in both results, or the same infinity, is no difference");
	is_int(seen[1].odd, 1,
	       "an infinity that only one result has is an odd element");
	clear();
}

/*
 * Each call makes the next of two results, of which only some elements differ.
 */
struct two {
	double f64[2];
	int64_t i64[2];
	unsigned calls;
};

static int next_f64(void *arg, const struct weir_operand *dst,
		    const struct weir_operand *src, unsigned n, unsigned part,
		    unsigned parts)
{
	struct two *two = arg;
	double *to = dst->data;

	(void)src, (void)n, (void)part, (void)parts;
	to[0] = two->f64[two->calls++ % 2];
	to[1] = 0;
	return 0;
}

static int next_i64(void *arg, const struct weir_operand *dst,
		    const struct weir_operand *src, unsigned n, unsigned part,
		    unsigned parts)
{
	struct two *two = arg;
	int64_t *to = dst->data;

	(void)src, (void)n, (void)part, (void)parts;
	to[0] = two->i64[two->calls++ % 2];
	to[1] = 0;
	return 0;
}

static const struct weir_compared *compare_two(struct two *two,
					       enum weir_dtype dtype)
{
	const struct weir_op_call call = { .fn = dtype == WEIR_DTYPE_F64
							 ? next_f64
							 : next_i64,
					   .arg = two,
					   .dtype = dtype,
					   .ndim = 1,
					   .shape = { 2 },
					   .parts = 1 };

	n_seen = 0;
	weir_call(g, &call, NULL, 0);
	must(weir_graph_compare(cpu, cpu, g, NULL, see, NULL));
	clear();
	return &seen[0];
}

static void wide_numbers(void)
{
	struct two i64 = { .i64 = { (1ll << 60) + 1, 1ll << 60 } };
	struct two large = { .f64 = { 1e200, -2e200 } };
	struct two small = { .f64 = { 1e-200, -2e-200 } };
	struct two most = { .f64 = { 1.5e308, -1.5e308 } };
	struct two far = { .f64 = { 1e-300, 1e300 } };
	struct two least = { .f64 = { 5e-324, 0 } };
	const struct weir_compared *c = compare_two(&i64, WEIR_DTYPE_I64);

	ok(c->max == 1 && c->nmse == 0x1p-120,
	   "I64 that are the same double are not equal");
	c = compare_two(&large, WEIR_DTYPE_F64);
	ok(fabs(c->nmse - 2.25) < 1e-12, "squares may be over the range");
	c = compare_two(&small, WEIR_DTYPE_F64);
	ok(fabs(c->nmse - 2.25) < 1e-12, "squares may be below the range");
	c = compare_two(&most, WEIR_DTYPE_F64);
	ok(fabs(c->nmse - 4) < 1e-12 && isinf(c->max),
	   "a difference may be over the range");
	c = compare_two(&far, WEIR_DTYPE_F64);
	ok(fabs(c->nmse - 1) < 1e-12, "elements may be far apart");
	c = compare_two(&least, WEIR_DTYPE_F64);
	ok(isinf(c->nmse), "any number is infinitely far from 0");
}

static void views_and_writes(void)
{
	static const int64_t two[] = { 4, 2 };
	struct weir_node *cache = leaf_of("cache", 1), *to;

	to = weir_slice(g, weir_reshape(g, cache, 2, two), 1, 1, 1);
	weir_copy(g, weir_slice(g, weir_sqr(g, leaf_of("a", 3)), 0, 2, 4), to);
	weir_add(g, cache, leaf_of("b", 0));
	is_int(compare(0), 0,
	       "views, and writes to views of leaves, are computed");
	ok(n_seen == 3 && value[1][0] == 9 && value[1][1] == 9,
	   "the result of a write is what was written");
	ok(seen[2].max == 0 && value[2][0] == 1,
	   "later nodes read what was written");
	is_int(((float *)weir_buf_data(bufs[0]))[1], 1,
	       "the program's leaves are not written");
	clear();
}

static void ended(void)
{
	struct weir_node *a = leaf_of("a", 3);

	for (int i = 0; i < 6; i++)
		a = weir_sqr(g, a);
	answer = 7;
	is_int(compare(0), 7, "a value of the function ends the comparison");
	is_int(n_seen, 3, "after it the function is not called again");
	answer = -EDOM;
	is_err(compare(0), -EDOM, "weir_graph_compare: the program's function",
	       "an errno of the function has a sentence");
	clear();
}

static void failures(void)
{
	struct weir_node *a = leaf_of("a", 3);

	weir_silu(g, a);
	weir_add(g, a, a);
	gdev.fail_with = -EIO;
	gdev.fail_at = 2; /* the node after two leaves */
	is_err(compare(0), -EIO, "weir_graph_compare: GDEV0, node 2: ",
	       "a device that fails is named, with the node");
	has_str(weir_error(), "the test makes it fail",
		"the failure has the device's own sentence");
	is_int(n_seen, 1, "nodes before the failure were compared");
	gdev_reset();
	gdev.refuse = WEIR_OP_ADD;
	is_err(compare(0), -EOPNOTSUPP,
	       "GDEV0, node 2: ", "a device that lacks an operation is named");
	clear();
	weir_sqr(g, gdev_input(g, "x", N));
	is_err(compare(0), -EINVAL, "input 'x' F32 [8] is missing",
	       "an input without bytes is refused");
	clear();
	weir_sqr(g, leaf_of("a", 3));
	gdev_input(g, "unused", N);
	is_int(compare(0), 0, "an input that no operation uses needs no bytes");
	clear();
	weir_sqr(g, weir_slice(g, leaf_of("a", 3), 0, 1, 0));
	is_int(compare(0), 0, "results without elements are compared");
	clear();
	weir_sqr(g, NULL);
	is_err(compare(0), -EINVAL, "sqr: source 0 (a) is NULL",
	       "a graph with a failure is refused");
	clear();
	is_err(compare(0x80), -EINVAL, "flags 0x80 are not known",
	       "unknown flags are refused");
	clear();
}

static void inputs(void)
{
	struct weir_compare_opts opts = WEIR_COMPARE_OPTS_INIT;
	const float v[N] = { 5, 5, 5, 5, 5, 5, 5, 5 };
	struct weir_compare_input in = { .data = v, .bytes = sizeof(v) };
	struct weir_node *first;

	in.node = gdev_input(g, "x", N);
	first = weir_sqr(g, weir_graph_node(g, 0));
	weir_sqr(g, weir_node_set_name(first, "first"));
	opts.n_inputs = 1;
	opts.inputs = &in;
	n_seen = 0;
	is_int(weir_graph_compare(cpu, other, g, &opts, see, NULL), 0,
	       "a graph with an input is compared");
	ok(value[0][0] == 25 && value[0][1] == 25 && value[1][0] == 625,
	   "both devices get the bytes of an input");
	is_str(seen[0].b.name, "first", "the tensors have the node's name");
	in.bytes = 12;
	is_err(weir_graph_compare(cpu, other, g, &opts, see, NULL), -EINVAL,
	       "input 'x' F32 [8] has 32 bytes, not 12",
	       "an input of another size is refused");
	clear();
}

int main(void)
{
	plan(41);
	weir = gdev_open(&other);
	cpu = weir_dev_get(weir, 0);
	must(weir_graph_new(&g));
	equal();
	different();
	odd_numbers();
	wide_numbers();
	views_and_writes();
	ended();
	failures();
	inputs();
	weir_graph_free(g);
	is_int(gdev.bytes, 0, "nothing is left in the memory of the device");
	weir_close(weir);
	return done_testing();
}
