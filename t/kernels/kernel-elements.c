/* SPDX-License-Identifier: MIT */
/* Kernels that compute one element at a time. */
#include <math.h>
#include <string.h>

#include <weir.h>

#include "dtypes.h"
#include "naive.h"
#include "tap.h"
#include "trial.h"

static const enum weir_dtype floats[] = { WEIR_DTYPE_F32, WEIR_DTYPE_F16,
					  WEIR_DTYPE_BF16 };
#define FLOATS (sizeof(floats) / sizeof(floats[0]))

typedef struct weir_node *two_fn(struct weir_graph *graph, struct weir_node *a,
				 struct weir_node *b);
static const struct {
	const char *name;
	two_fn *make;
} pairs[] = { { "add", weir_add },
	      { "sub", weir_sub },
	      { "mul", weir_mul },
	      { "div", weir_div } };

/* Elements away from 0, so that quotients are of a useful size. */
static struct weir_node *divisor(struct weir_node *b)
{
	return weir_scale(g, weir_sqr(g, b), 1, 0.5f);
}

static void pairs_of(const char *name, two_fn *make)
{
	for (unsigned i = 0; i < FLOATS; i++) {
		enum weir_dtype d = floats[i];
		double near = near_of(d);

		same(make(g, put(d, 2, 3, 37), divisor(put(F32, 2, 3, 37))),
		     near, "%s of %s and F32 of one shape is right", name,
		     dtype_name(d));
		same(make(g, put(d, 3, 4, 3, 37), divisor(put(F32, 1, 37))),
		     near, "%s of %s repeats a row", name, dtype_name(d));
		same(make(g, put(d, 2, 5, 7), divisor(put(F32, 2, 5, 1))), near,
		     "%s of %s repeats a column", name, dtype_name(d));
		same(make(g, put(d, 2, 5, 12), divisor(put(F32, 2, 1, 4))),
		     near, "%s of %s repeats a part of a row", name,
		     dtype_name(d));
		same(make(g, put(d, 4, 2, 6, 4, 3),
			  divisor(put(F32, 3, 3, 2, 1))),
		     near, "%s of %s repeats parts of outer dimensions", name,
		     dtype_name(d));
	}
	same(make(g, put(F32, 2, 3, 5), divisor(put(F32, 0))), NEAR_F32,
	     "%s repeats a single element", name);
	same(make(g, put(F32, 0), divisor(put(F32, 0))), NEAR_F32,
	     "%s of tensors without dimensions is right", name);
	same(make(g, put(F32, 2, 0, 5), divisor(put(F32, 1, 5))), NEAR_F32,
	     "%s of an empty tensor is empty", name);
	same(make(g, weir_transpose(g, put(F32, 2, 19, 7)),
		  divisor(put(F32, 2, 7, 19))),
	     NEAR_F32, "%s takes a transposed a", name);
	same(make(g, put(F32, 2, 19, 7),
		  weir_transpose(g, divisor(put(F32, 2, 7, 19)))),
	     NEAR_F32, "%s takes a transposed b", name);
	same(make(g, weir_slice(g, put(F16, 2, 9, 33), 1, 2, 21),
		  weir_slice(g, divisor(put(F32, 2, 9, 30)), 1, 5, 21)),
	     NEAR_F16, "%s takes slices", name);
	same(make(g, put(F32, 2, 301, 257), divisor(put(F32, 1, 257))),
	     NEAR_F32, "%s of a large tensor is right in all its parts", name);
}

/* A leaf whose rows are no multiple of four bytes apart. */
static struct weir_node *put_uneven(int rows, int columns)
{
	struct weir_tensor t =
		*weir_node_tensor(put(F32, 2, rows + 1, columns));
	unsigned char *data = weir_tensor_data(&t);

	t.shape[0] = rows;
	t.stride[0] += 2;
	for (int64_t i = 0; i < rows; i++)
		for (int64_t k = 0; k < columns; k++) {
			float x = (float)random_number();

			memcpy(data + i * t.stride[0] + k * t.stride[1], &x,
			       sizeof(x));
		}
	return weir_graph_leaf(g, &t, NULL);
}

static void uneven_rows(void)
{
	same(weir_add(g, put_uneven(3, 9000), put(F32, 2, 3, 9000)), NEAR_F32,
	     "long rows of a that are not aligned are added");
	same(weir_mul(g, put(F32, 2, 3, 9000), put_uneven(3, 9000)), NEAR_F32,
	     "long rows of b that are not aligned are multiplied");
	same(weir_sqr(g, put_uneven(3, 9000)), NEAR_F32,
	     "long rows that are not aligned are squared");
}

/* The dimensions of a leaf in the other order: each has its own stride. */
static struct weir_node *turned(enum weir_dtype d, const int *n, unsigned ndim)
{
	int m[WEIR_MAX_DIMS];
	int64_t order[WEIR_MAX_DIMS];

	for (unsigned i = 0; i < ndim; i++) {
		m[i] = n[ndim - 1 - i];
		order[i] = ndim - 1 - i;
	}
	return weir_permute(
		g, put(d, ndim, m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7]),
		ndim, order);
}

/*
 * Dimensions of b are those of a, divide them, or are 1; some are that of a in
 * the next dimension.
 */
static void many_dims(void)
{
	static const int a[][8] = { { 4, 2, 4, 3, 6, 2, 4, 3 },
				    { 2, 6, 2, 4, 2, 4, 3, 4 },
				    { 2, 2, 3, 3, 2, 2, 3, 3 },
				    { 2, 3, 3, 2, 2, 3, 3, 2 } };
	static const int b[][8] = { { 2, 2, 2, 1, 3, 2, 2, 3 },
				    { 2, 3, 1, 2, 2, 2, 1, 2 },
				    { 2, 1, 3, 1, 2, 1, 3, 1 },
				    { 1, 3, 1, 2, 1, 3, 1, 2 } };

	for (unsigned n = 3; n <= WEIR_MAX_DIMS; n++)
		for (unsigned i = 0; i < 4; i++)
			same(weir_sub(g, turned(F16, a[i], n),
				      turned(F32, b[i], n)),
			     NEAR_F16,
			     "sub of %u dimensions, way %u of repeating b", n,
			     i);
}

static void same_source(void)
{
	struct weir_node *a = put(F32, 2, 6, 35);

	same(weir_mul(g, a, a), NEAR_F32,
	     "mul of a tensor and itself is right");
	a = put(F32, 2, 6, 6);
	same(weir_add(g, a, weir_transpose(g, a)), NEAR_F32,
	     "add of a matrix and its transposed is right");
	a = put(F32, 2, 6, 35);
	same(weir_sub(g, a, weir_slice(g, a, 0, 2, 1)), NEAR_F32,
	     "sub of a row of the tensor itself is right");
}

static void odd_numbers(void)
{
	const double a[] = { 1, -1, 0, INFINITY, -INFINITY, NAN, 3, 0 };
	const double b[] = { 0, 0, 0, INFINITY, INFINITY, 1, -0.0, 7 };

	for (unsigned i = 0; i < 4; i++)
		same(pairs[i].make(g, put_values(F32, a, 1, 8),
				   put_values(F32, b, 1, 8)),
		     NEAR_F32, "%s of infinities, NaN and 0 is as IEEE 754",
		     pairs[i].name);
}

/* Sums halfway between two numbers, and on both sides of there. */
static void ties(enum weir_dtype d, double half)
{
	const double one[] = { 1, 1, 1, 1, 1, 1, -1, -1, -1, -1 };
	const double more[] = { half,        3 * half,    half * 0.75,
				half * 1.25, half * 2.75, half * 3.25,
				-half,       -3 * half,   -half * 1.25,
				-half * 2.75 };

	same(weir_add(g, put_values(d, one, 1, 10),
		      put_values(F32, more, 1, 10)),
	     0, "%s results are rounded exactly, ties to even", dtype_name(d));
}

static void rounding(void)
{
	const double big[] = { 65504, 65520, 1e-8, -65504, 6e-8, 1 };
	const double more[] = { 15, 1, 0, -17, 0, 0x1p-11 };

	same(weir_add(g, put_values(F16, big, 1, 6),
		      put_values(F32, more, 1, 6)),
	     NEAR_F16, "F16 results round to the nearest, and overflow to inf");
	same(weir_add(g, put_values(BF16, big, 1, 6),
		      put_values(F32, more, 1, 6)),
	     NEAR_BF16, "BF16 results round to the nearest");
	ties(F16, 0x1p-11);
	ties(BF16, 0x1p-8);
}

typedef struct weir_node *one_fn(struct weir_graph *graph, struct weir_node *a);

static struct weir_node *scale(struct weir_graph *graph, struct weir_node *a)
{
	return weir_scale(graph, a, -1.5f, 0.25f);
}

static struct weir_node *clamp(struct weir_graph *graph, struct weir_node *a)
{
	return weir_clamp(graph, a, -0.75f, 1.25f);
}

static struct weir_node *floor_at_0(struct weir_graph *graph,
				    struct weir_node *a)
{
	return weir_clamp(graph, a, 0, INFINITY);
}

static struct weir_node *root(struct weir_graph *graph, struct weir_node *a)
{
	return weir_sqrt(graph, weir_relu(graph, a));
}

static const struct {
	const char *name;
	one_fn *make;
} curves[] = {
	{ "gelu_erf", weir_gelu_erf },
	{ "relu", weir_relu },
	{ "tanh", weir_tanh },
	{ "sigmoid", weir_sigmoid },
	{ "exp", weir_exp },
	{ "sqrt of relu", root },
	{ "clamp", clamp },
	{ "clamp from 0", floor_at_0 },
};
#define CURVES (sizeof(curves) / sizeof(curves[0]))

/* Each result by itself: a relative error is seen in the small ones, too. */
static void tails(void)
{
	for (float x = -12; x < 12.5f; x += 0.5f) {
		const double v[] = { (double)x, (double)x / 16 };

		for (unsigned i = 0; i < 2; i++) {
			struct weir_node *a = put_values(F32, v + i, 1, 1);

			same(weir_gelu_erf(g, a), 1e-11,
			     "gelu_erf of %g is right", v[i]);
			a = put_values(F32, v + i, 1, 1);
			same(weir_tanh(g, a), 1e-12, "tanh of %g is right",
			     v[i]);
			a = put_values(F32, v + i, 1, 1);
			same(weir_sigmoid(g, a), 1e-12,
			     "sigmoid of %g is right", v[i]);
			a = put_values(F32, v + i, 1, 1);
			same(weir_exp(g, a), 1e-12, "exp of %g is right", v[i]);
		}
	}
}

static void infinities(const char *name, one_fn *make)
{
	const double odd[] = { INFINITY, -INFINITY, NAN, 0, -0.0 };

	for (unsigned i = 0; i < FLOATS; i++)
		same(make(g, put_values(floats[i], odd, 1, 5)),
		     near_of(floats[i]), "%s of infinities of %s is right",
		     name, dtype_name(floats[i]));
}

static void single(const char *name, one_fn *make)
{
	const double odd[] = { 0,   -0.0, 30, -30, 100, -100, 1e-30,
			       NAN, 1e3,  20, -20, 88,  -88,  -1e3 };

	for (unsigned i = 0; i < FLOATS; i++) {
		enum weir_dtype d = floats[i];

		same(make(g, put(d, 3, 2, 5, 67)), near_of(d),
		     "%s of %s is right", name, dtype_name(d));
		same(make(g, weir_permute(g, put(d, 3, 4, 5, 6), 3,
					  (int64_t[]){ 2, 0, 1 })),
		     near_of(d), "%s of permuted %s is right", name,
		     dtype_name(d));
	}
	same(make(g, put_values(F32, odd, 1, 14)), NEAR_F32,
	     "%s of small, large and NaN elements is right", name);
	same(make(g, put(F32, 0)), NEAR_F32, "%s of one element is right",
	     name);
	same(make(g, put(F32, 2, 7, 0)), NEAR_F32,
	     "%s of an empty tensor is empty", name);
	same(make(g, put(F32, 2, 203, 129)), NEAR_F32,
	     "%s of a large tensor is right in all its parts", name);
}

static void swiglu(void)
{
	struct weir_node *both;

	for (unsigned i = 0; i < FLOATS; i++) {
		enum weir_dtype d = floats[i];

		same(weir_swiglu(g, put(d, 2, 7, 45), put(d, 2, 7, 45)),
		     near_of(d), "swiglu of %s is right", dtype_name(d));
		both = put(d, 2, 7, 90);
		same(weir_swiglu(g, weir_slice(g, both, 1, 0, 45),
				 weir_slice(g, both, 1, 45, 45)),
		     near_of(d), "swiglu of two halves of %s is right",
		     dtype_name(d));
	}
	same(weir_swiglu(g, put(F32, 2, 103, 345), put(F32, 2, 103, 345)),
	     NEAR_F32, "swiglu of large tensors is right in all its parts");
}

int main(void)
{
	trials_begin();
	for (unsigned i = 0; i < 4; i++)
		pairs_of(pairs[i].name, pairs[i].make);
	uneven_rows();
	many_dims();
	same_source();
	odd_numbers();
	rounding();
	single("scale", scale);
	single("sqr", weir_sqr);
	single("silu", weir_silu);
	single("gelu", weir_gelu);
	for (unsigned i = 0; i < CURVES; i++) {
		single(curves[i].name, curves[i].make);
		infinities(curves[i].name, curves[i].make);
	}
	same(weir_sqrt(g, put(F32, 2, 5, 67)), NEAR_F32,
	     "sqrt of negative elements is NaN");
	tails();
	swiglu();
	return trials_end();
}
