/* SPDX-License-Identifier: MIT */
/* Kernels whose results depend on whole rows. */
#include <math.h>

#include <weir.h>

#include "dtypes.h"
#include "tap.h"
#include "trial.h"

typedef struct weir_node *norm_fn(struct weir_graph *graph, struct weir_node *a,
				  float eps);

static void norms(const char *name, norm_fn *make)
{
	const double large[] = { 1e20, -1e20, 1e20, 3e20, 0 }, zero[5] = { 0 };
	const double near[] = { 1000.5, 1000.25, 1000, 999.75, 1000 };
	const double odd[] = { 1, NAN, 2, 3, 4, 1, 2, 3, 4, 5 };
	const double tiny[] = { 1e-40, 2e-40, -3e-40, 4e-40, 9e-40 };

	same(make(g, put(F32, 3, 2, 5, 67), 1e-5f), NEAR_F32, "%s is right",
	     name);
	same(make(g, put(F32, 2, 5, 1), 1e-5f), NEAR_F32,
	     "%s of rows of one element is right", name);
	same(make(g, weir_permute(g, put(F32, 3, 4, 5, 33), 3, D(1, 0, 2)),
		  1e-6f),
	     NEAR_F32, "%s takes permuted rows", name);
	same(make(g, weir_slice(g, put(F32, 2, 5, 33), 1, 3, 20), 1e-6f),
	     NEAR_F32, "%s takes parts of rows", name);
	same(make(g, put_values(F32, large, 1, 5), 1e-6f), NEAR_F32,
	     "%s sums squares that F32 does not have", name);
	same(make(g, put_values(F32, near, 1, 5), 1e-6f), NEAR_F32,
	     "%s of elements that differ little is right", name);
	same(make(g, put_values(F32, zero, 1, 5), 1e-6f), NEAR_F32,
	     "%s of zeros is zeros", name);
	same(make(g, put_values(F32, odd, 2, 2, 5), 1e-6f), NEAR_F32,
	     "%s of a row with a NaN is NaN, and others are right", name);
	same(make(g, put_values(F32, tiny, 1, 5), 0), NEAR_F32,
	     "%s of subnormal elements is right", name);
	same(make(g, put(F32, 2, 4, 0), 1e-6f), NEAR_F32,
	     "%s of empty rows is empty", name);
	same(make(g, put(F32, 2, 203, 515), 1e-6f), NEAR_F32,
	     "%s of many rows is right in all its parts", name);
	same(make(g, put(F32, 1, 65537), 1e-6f), NEAR_F32,
	     "%s of a long row is right", name);
}

static void group_norms(void)
{
	const double near[] = { 1000.5, 1000.25, 1000, 999.75, 1000, 1000 };

	for (uint32_t groups = 1; groups <= 6; groups *= groups == 1 ? 2 : 3)
		same(weir_group_norm(g, put(F32, 4, 2, 6, 5, 7), groups, 1e-5f),
		     NEAR_F32, "group_norm of %u groups of 6 channels is right",
		     groups);
	same(weir_group_norm(g, put(F32, 3, 4, 1, 1), 4, 1e-5f), NEAR_F32,
	     "group_norm of groups of one element is 0");
	same(weir_group_norm(g, put_values(F32, near, 3, 2, 3, 1), 1, 1e-6f),
	     NEAR_F32, "group_norm of elements that differ little is right");
	same(weir_group_norm(g, put(F32, 3, 4, 0, 3), 2, 1e-5f), NEAR_F32,
	     "group_norm of empty channels is empty");
	same(weir_group_norm(g, put(F32, 3, 0, 2, 3), 2, 1e-5f), NEAR_F32,
	     "group_norm of no channels is empty");
	same(weir_group_norm(g, put(F32, 5, 2, 2, 32, 9, 11), 8, 1e-5f),
	     NEAR_F32, "group_norm of many groups is right in all its parts");
}

static void l2_norm(void)
{
	const double zero[5] = { 0 }, small[] = { 3e-4, -4e-4, 0, 0, 0 };

	same(weir_l2_norm(g, put_values(F32, zero, 1, 5), 0), NEAR_F32,
	     "l2_norm of zeros without eps is NaN");
	same(weir_l2_norm(g, put_values(F32, small, 1, 5), 1e-3f), NEAR_F32,
	     "l2_norm divides by eps if the length is less");
	same(weir_l2_norm(g, put_values(F32, small, 1, 5), 4e-4f), NEAR_F32,
	     "l2_norm divides by the length if eps is less");
}

static void soft_max(void)
{
	const enum weir_dtype masks[] = { F32, F16 };
	struct weir_node *a;

	same(weir_soft_max(g, put(F32, 2, 5, 67), NULL, 1, 0), NEAR_F32,
	     "soft_max without a mask is right");
	same(weir_soft_max(g, put(F32, 1, 67), NULL, 30, 0), NEAR_F32,
	     "soft_max with a large scale is right");
	same(weir_soft_max(g, put(F32, 1, 1), NULL, 1, 0), NEAR_F32,
	     "soft_max of one element is 1");
	for (unsigned i = 0; i < 2; i++) {
		const char *name = dtype_name(masks[i]);

		same(weir_soft_max(g, put(F32, 4, 2, 6, 5, 9),
				   put(masks[i], 2, 5, 9), 0.3f, 0),
		     NEAR_F32, "soft_max with a mask of %s is right", name);
		same(weir_soft_max(g, put(F32, 4, 2, 6, 5, 9),
				   put(masks[i], 2, 8, 9), 0.3f, 0),
		     NEAR_F32, "soft_max: a mask of %s may have more rows",
		     name);
		same(weir_soft_max(g, put(F32, 4, 2, 6, 5, 9),
				   put(masks[i], 4, 2, 3, 5, 9), 0.3f, 0),
		     NEAR_F32, "soft_max repeats a mask of %s over heads",
		     name);
		same(weir_soft_max(g, put(F32, 4, 2, 8, 5, 9),
				   put(masks[i], 2, 5, 9), 0.3f, 8),
		     NEAR_F32, "soft_max with ALiBi and 8 heads is right (%s)",
		     name);
		same(weir_soft_max(g, put(F32, 3, 6, 5, 9),
				   put(masks[i], 2, 5, 9), 0.3f, 4),
		     NEAR_F32, "soft_max with ALiBi and 6 heads is right (%s)",
		     name);
		same(weir_soft_max(g, put(F32, 2, 5, 9),
				   weir_slice(g, put(masks[i], 2, 6, 20), 1, 4,
					      9),
				   1, 0),
		     NEAR_F32, "soft_max takes a slice of a mask of %s", name);
	}
	same(weir_soft_max(g, put(F32, 3, 8, 33, 257), put(F16, 2, 33, 257),
			   0.1f, 8),
	     NEAR_F32, "soft_max of many rows is right in all its parts");
	a = weir_sqr(g, put(F32, 2, 5, 9));
	same(weir_soft_max(g, a, a, 0.5f, 0), NEAR_F32,
	     "soft_max: a result may be its own mask");
	same(weir_soft_max(g, put(F32, 2, 0, 9), NULL, 1, 0), NEAR_F32,
	     "soft_max of no rows is empty");
	same(weir_soft_max(g, put(F32, 2, 9, 0), NULL, 1, 0), NEAR_F32,
	     "soft_max of empty rows is empty");
}

#define INF ((double)INFINITY)

static void soft_max_odd(void)
{
	const double a[] = { 1, 2, 3,   -INF, -INF, -INF, 1,   NAN,
			     2, 1, INF, 2,    -INF, 5,    -INF };
	const double mask[] = { 0,    -INF, -INF, 0, 0,  0,  -INF, -INF,
				-INF, 0,    0,    0, -1, -2, -3 };
	const double large[] = { 1e30, -1e30, 5e29, 3e38, 3e38, -3e38 };

	same(weir_soft_max(g, put_values(F32, a, 2, 5, 3), NULL, 1, 0),
	     NEAR_F32,
	     "soft_max: a row of -inf is 0, one with NaN or +inf is NaN");
	same(weir_soft_max(g, put(F32, 2, 5, 3), put_values(F32, mask, 2, 5, 3),
			   1, 0),
	     NEAR_F32, "soft_max: a row whose mask is all -inf is 0");
	same(weir_soft_max(g, put(F32, 2, 5, 3), put_values(F16, mask, 2, 5, 3),
			   1, 0),
	     NEAR_F32, "soft_max: the same with a mask of F16");
	same(weir_soft_max(g, put_values(F32, large, 2, 2, 3), NULL, 1, 0),
	     NEAR_F32, "soft_max of very large numbers is right");
	same(weir_soft_max(g, put(F32, 3, 2, 5, 3),
			   put_values(F32, mask, 2, 5, 3), 1, 400),
	     NEAR_F32, "soft_max with a large max_bias masks with -inf");
}

static void soft_max_sinks(void)
{
	const double a[] = { 1, 2, 3, -INF, -INF, -INF, 1e30, 2, -INF },
		     sink[] = { -INF, 2, 5, INF, NAN, 3e38 };

	same(weir_soft_max_sinks(g, put(F32, 4, 2, 6, 5, 67), NULL,
				 put(F32, 1, 6), 0.3f, 0),
	     NEAR_F32, "soft_max with sinks is right");
	same(weir_soft_max_sinks(g, put(F32, 3, 6, 5, 9), put(F16, 2, 5, 9),
				 put(F32, 1, 6), 0.3f, 4),
	     NEAR_F32, "soft_max neither scales nor masks sinks");
	same(weir_soft_max_sinks(g, put(F32, 1, 67), NULL, put(F32, 1, 1), 1,
				 0),
	     NEAR_F32, "soft_max of a vector has one sink");
	for (int i = 0; i < 6; i++)
		same(weir_soft_max_sinks(g, put_values(F32, a, 2, 3, 3), NULL,
					 put_values(F32, &sink[i], 1, 1), 1, 0),
		     NEAR_F32, "soft_max with a sink of %g is right", sink[i]);
	same(weir_soft_max_sinks(g, put(F32, 3, 8, 33, 257), NULL,
				 put(F32, 1, 8), 0.1f, 0),
	     NEAR_F32, "soft_max with sinks is right in all its parts");
}

static void soft_max_own_sinks(void)
{
	struct weir_node *a = weir_sqr(g, put(F32, 3, 1, 4, 9));
	struct weir_node *sinks =
		weir_slice(g, weir_reshape(g, a, 1, D(36)), 0, 20, 1);

	same(weir_soft_max_sinks(g, a, NULL, sinks, 1, 0), NEAR_F32,
	     "soft_max: an element of the source may be the sink");
}

static void sums(void)
{
	const double odd[] = { 1e30, 1, -1e30, 1, NAN, 0 };

	same(weir_sum(g, put(F32, 3, 2, 5, 67)), NEAR_F32, "sum is right");
	same(weir_sum(g, weir_slice(g, put(F32, 2, 9, 67), 1, 5, 40)), NEAR_F32,
	     "sum of a slice is right");
	same(weir_sum(g, put(F32, 0)), NEAR_F32, "sum of one element is it");
	same(weir_sum(g, put(F32, 2, 0, 5)), NEAR_F32, "sum of nothing is 0");
	same(weir_sum(g, put(F32, 3, 1 << 30, 1 << 30, 0)), NEAR_F32,
	     "sum of 2^60 empty rows is 0 at once");
	same(weir_sum(g, put(F32, 2, 401, 503)), 1e-9,
	     "sum of many elements is right in all its parts");
	same(weir_sum(g, weir_transpose(g, put(F32, 3, 9, 101, 103))), 1e-9,
	     "sum of transposed matrices is right in all its parts");
	same(weir_sum(g, put_values(F32, odd, 1, 5)), NEAR_F32,
	     "sum of a NaN is NaN");
	same(weir_sum_rows(g, put(F32, 3, 2, 5, 67)), NEAR_F32,
	     "sum_rows is right");
	same(weir_sum_rows(g, weir_transpose(g, put(F32, 2, 9, 67))), NEAR_F32,
	     "sum_rows of a transposed matrix is right");
	same(weir_sum_rows(g, put(F32, 2, 3, 0)), NEAR_F32,
	     "sum_rows of empty rows is 0");
	same(weir_sum_rows(g, put(F32, 2, 301, 103)), NEAR_F32,
	     "sum_rows of many rows is right in all its parts");
}

static const double choices[] = {
	1,    5,    5,   2,   5,    0, /* equal ones */
	-INF, 1,    NAN, INF, 1,    2, /* NaN is least */
	NAN,  NAN,  NAN, NAN, NAN,  NAN, -INF, NAN, -INF,
	NAN,  -INF, NAN, 0,   -0.0, 0,   -0.0, -1,  -2,
};

static void argmax(void)
{
	same(weir_argmax(g, put(F32, 3, 2, 5, 67)), 0, "argmax is right");
	same(weir_argmax(g, put_values(F32, choices, 2, 5, 6)), 0,
	     "argmax: the first of equal ones, and no NaN if there is a number");
	same(weir_argmax(g, put(F32, 1, 67)), 0,
	     "argmax of a vector is one index");
	same(weir_argmax(g, put(F32, 2, 0, 67)), 0,
	     "argmax of no rows is empty");
	same(weir_argmax(g, weir_slice(g, put(F32, 2, 5, 67), 1, 3, 31)), 0,
	     "argmax of a slice is right");
	same(weir_argmax(g, put(F32, 2, 103, 203)), 0,
	     "argmax of many rows is right in all its parts");
	same(weir_argmax(g, put(F32, 1, 40001)), 0,
	     "argmax of a long row is right");
}

static void top_k(void)
{
	const int64_t k[] = { 1, 2, 8, 67 };

	for (unsigned i = 0; i < 4; i++)
		same(weir_top_k(g, put(F32, 3, 2, 5, 67), k[i]), 0,
		     "top_k of %lld is right", (long long)k[i]);
	for (int64_t n = 1; n <= 6; n++)
		same(weir_top_k(g, put_values(F32, choices, 2, 5, 6), n), 0,
		     "top_k of %lld of equal ones and NaNs is right",
		     (long long)n);
	same(weir_top_k(g, put(F32, 2, 0, 67), 3), 0,
	     "top_k of no rows is empty");
	same(weir_top_k(g, put(F32, 2, 207, 128), 8), 0,
	     "top_k of many rows is right in all its parts");
}

/* Rows whose outer dimensions are in the other order. */
static struct weir_node *turned(void)
{
	return weir_permute(g, put(F32, 8, 2, 2, 3, 2, 3, 2, 2, 37), 8,
			    D(6, 5, 4, 3, 2, 1, 0, 7));
}

static void many_dims(void)
{
	const enum weir_dtype masks[] = { F32, F16 };

	same(weir_rms_norm(g, turned(), 1e-5f), NEAR_F32,
	     "rms_norm of rows of 8 dimensions is right");
	same(weir_norm(g, turned(), 1e-5f), NEAR_F32,
	     "norm of rows of 8 dimensions is right");
	same(weir_l2_norm(g, turned(), 1e-5f), NEAR_F32,
	     "l2_norm of rows of 8 dimensions is right");
	same(weir_sum_rows(g, turned()), NEAR_F32,
	     "sum_rows of 8 dimensions is right");
	same(weir_argmax(g, turned()), 0, "argmax of 8 dimensions is right");
	same(weir_top_k(g, turned(), 3), 0, "top_k of 8 dimensions is right");
	same(weir_argsort(g, turned(), WEIR_SORT_ASCENDING), 0,
	     "argsort of 8 dimensions is right");
	for (unsigned i = 0; i < 2; i++) {
		same(weir_soft_max(g, put(F32, 8, 2, 2, 3, 2, 3, 2, 2, 37),
				   weir_permute(g,
						put(masks[i], 8, 2, 1, 3, 2, 1,
						    2, 2, 37),
						8, D(6, 5, 4, 3, 2, 1, 0, 7)),
				   0.3f, 0),
		     NEAR_F32, "soft_max of 8 dimensions and a mask of %s",
		     dtype_name(masks[i]));
		same(weir_soft_max(g, put(F32, 8, 2, 2, 3, 2, 3, 2, 2, 37),
				   weir_permute(g,
						put(masks[i], 8, 2, 2, 1, 1, 3,
						    1, 1, 37),
						8, D(6, 5, 4, 3, 2, 1, 0, 7)),
				   0.3f, 0),
		     NEAR_F32, "soft_max of 8 dimensions repeats a mask of %s",
		     dtype_name(masks[i]));
	}
}

/* Long rows: of numbers, of few different ones, of equal ones. */
static void long_rows(void)
{
	static const int64_t k[] = { 1, 5, 900, 1024, 1025, 5000 };
	static double equal[5000];

	for (unsigned i = 0; i < 6; i++) {
		same(weir_top_k(g, put(F32, 2, 3, 5000), k[i]), 0,
		     "top_k of %lld of a long row is right", (long long)k[i]);
		same(weir_top_k(g,
				weir_cast(g,
					  weir_scale(g, put(F16, 2, 2, 5000),
						     0x1p-24f, 0),
					  F32),
				k[i]),
		     0, "top_k of %lld of few different ones is right",
		     (long long)k[i]);
		same(weir_top_k(g, put_values(F32, equal, 1, 5000), k[i]), 0,
		     "top_k of %lld of equal ones is the first of them",
		     (long long)k[i]);
	}
}

static const char *const orders[] = { "ascending", "descending" };

static void argsort(enum weir_sort_order order)
{
	static const int lengths[] = { 1, 2, 3, 67, 2048, 2049, 4096, 10001 };
	const char *name = orders[order];

	for (unsigned i = 0; i < 8; i++)
		same(weir_argsort(g, put(F32, 2, 3, lengths[i]), order), 0,
		     "argsort of rows of %d, %s, is right", lengths[i], name);
	same(weir_argsort(g, put_values(F32, choices, 2, 5, 6), order), 0,
	     "argsort of equal ones and NaNs, %s, is right", name);
	same(weir_argsort(g, put(F32, 2, 0, 67), order), 0,
	     "argsort of no rows, %s, is empty", name);
	same(weir_argsort(g, weir_slice(g, put(F32, 2, 5, 67), 1, 3, 31),
			  order),
	     0, "argsort of a slice, %s, is right", name);
	same(weir_argsort(g,
			  weir_permute(g, put(F32, 3, 4, 5, 33), 3, D(1, 0, 2)),
			  order),
	     0, "argsort of permuted rows, %s, is right", name);
	same(weir_argsort(g, put(F32, 2, 207, 128), order), 0,
	     "argsort of many rows, %s, is right in all its parts", name);
}

int main(void)
{
	trials_begin();
	norms("rms_norm", weir_rms_norm);
	norms("norm", weir_norm);
	norms("l2_norm", weir_l2_norm);
	l2_norm();
	group_norms();
	soft_max();
	soft_max_odd();
	soft_max_sinks();
	soft_max_own_sinks();
	sums();
	argmax();
	top_k();
	many_dims();
	long_rows();
	argsort(WEIR_SORT_ASCENDING);
	argsort(WEIR_SORT_DESCENDING);
	return trials_end();
}
