/* SPDX-License-Identifier: MIT */
/* Kernels that read or write rows by index. */
#include <errno.h>
#include <math.h>

#include <weir.h>

#include "dtypes.h"
#include "tap.h"
#include "trial.h"

static void get_rows(void)
{
	const enum weir_dtype plain[] = { F32, F16, BF16, I32 };

	for (unsigned i = 0; i < 4; i++)
		same(weir_get_rows(g, put(plain[i], 2, 17, 35),
				   put_ids(I32, 17, 1, 9)),
		     NEAR_F32, "get_rows of %s is right", dtype_name(plain[i]));
	for (unsigned i = FIRST_QUANTISED; i < WEIGHTS; i++)
		same(weir_get_rows(g, put(weights[i], 2, 5, 512),
				   put_ids(I32, 5, 1, 7)),
		     NEAR_F32, "get_rows converts %s to F32",
		     dtype_name(weights[i]));
	same(weir_get_rows(g, put(F16, 4, 2, 3, 17, 5),
			   put_ids(I32, 17, 3, 2, 3, 4)),
	     NEAR_F32, "get_rows: outer dimensions have ids of their own");
	same(weir_get_rows(g, weir_slice(g, put(F16, 2, 17, 64), 1, 8, 24),
			   put_ids(I32, 17, 1, 9)),
	     NEAR_F32, "get_rows takes a slice of rows");
	same(weir_get_rows(g,
			   weir_permute(g, put(F32, 3, 4, 3, 6), 3,
					(int64_t[]){ 1, 0, 2 }),
			   weir_transpose(g, put_ids(I32, 4, 2, 5, 3))),
	     NEAR_F32, "get_rows takes permuted tables and ids");
	same(weir_get_rows(g, put(F32, 2, 17, 5), put_ids(I32, 1, 1, 0)),
	     NEAR_F32, "get_rows of no rows is empty");
	same(weir_get_rows(g, put(F32, 2, 17, 0), put_ids(I32, 17, 1, 3)),
	     NEAR_F32, "get_rows of empty rows is empty");
	same(weir_get_rows(g, put(F16, 2, 300, 257), put_ids(I32, 300, 1, 290)),
	     NEAR_F32, "get_rows of many rows is right in all its parts");
}

static void get_rows_range(void)
{
	const double high[] = { 3, 0, 17, 2 }, low[] = { 3, 0, 2, -1 };
	struct weir_node *table = put(F32, 2, 17, 5);

	weir_node_set_name(table, "table");
	fails(weir_node_set_name(weir_get_rows(g, table,
					       put_values(I32, high, 1, 4)),
				 "embedded"),
	      -EINVAL, "embedded",
	      "get_rows: the failure names the node whose index is too high");
	fails(weir_get_rows(g, put(F32, 2, 17, 5), put_values(I32, high, 1, 4)),
	      -EINVAL, "17",
	      "get_rows: the failure has the index that is too high");
	fails(weir_get_rows(g, put(F32, 2, 17, 5), put_values(I32, low, 1, 4)),
	      -EINVAL, "-1", "get_rows: a negative index is refused");
}

static const double seven_of_9[] = { 4, 0, 8, 7, 1, 3, 6 };

static void set_rows(void)
{
	const enum weir_dtype to[] = { F32, F16, BF16 }, ids[] = { I32, I64 };
	const enum weir_dtype from[] = { F32, F16 };

	for (unsigned i = 0; i < 12; i++) {
		enum weir_dtype d = to[i % 3], b = from[i / 3 % 2];

		same(weir_set_rows(g, put(d, 2, 9, 35), put(b, 2, 7, 35),
				   put_values(ids[i / 6], seven_of_9, 1, 7)),
		     0, "set_rows of %s to %s by %s is exact", dtype_name(b),
		     dtype_name(d), dtype_name(ids[i / 6]));
	}
	for (unsigned i = 0; i < 2; i++) {
		same(weir_set_rows(g, put(WEIR_DTYPE_Q8_0, 2, 9, 96),
				   put(from[i], 2, 7, 96),
				   put_values(I64, seven_of_9, 1, 7)),
		     1e-4, "set_rows of %s to Q8_0 rounds as well as it can",
		     dtype_name(from[i]));
		same(weir_set_rows(g, put(WEIR_DTYPE_Q4_0, 2, 9, 96),
				   put(from[i], 2, 7, 96),
				   put_values(I64, seven_of_9, 1, 7)),
		     1e-3, "set_rows of %s to Q4_0 rounds as well as it can",
		     dtype_name(from[i]));
	}
}

static void set_rows_shapes(void)
{
	struct weir_node *cache = put(F16, 3, 9, 4, 8);

	same(weir_set_rows(g, weir_permute(g, cache, 3, (int64_t[]){ 1, 0, 2 }),
			   weir_permute(g, put(F32, 3, 7, 4, 8), 3,
					(int64_t[]){ 1, 0, 2 }),
			   put_values(I64, seven_of_9, 1, 7)),
	     NEAR_F16, "set_rows repeats ids, for permuted heads");
	same(weir_set_rows(g, put(F32, 3, 4, 9, 5), put(F32, 3, 4, 2, 5),
			   put_values(I32, seven_of_9, 2, 2, 2)),
	     NEAR_F32, "set_rows repeats ids for outer dimensions, in turn");
	same(weir_set_rows(g, put(F16, 2, 9, 1), put(F32, 2, 7, 1),
			   put_values(I64, seven_of_9, 1, 7)),
	     NEAR_F16, "set_rows writes rows of one element");
	same(weir_set_rows(g, weir_slice(g, put(F32, 2, 9, 30), 1, 4, 11),
			   put(F32, 2, 7, 11),
			   put_values(I64, seven_of_9, 1, 7)),
	     NEAR_F32, "set_rows writes parts of rows");
	same(weir_set_rows(g, put(F32, 2, 9, 4), put(F32, 2, 0, 4),
			   put(I32, 1, 0)),
	     NEAR_F32, "set_rows of no rows changes nothing");
}

/* All outer dimensions are in the other order; ids are repeated in some. */
static void set_rows_dims(void)
{
	const enum weir_dtype to[] = { F32, F16, WEIR_DTYPE_Q8_0,
				       WEIR_DTYPE_Q4_0 };
	const int ids[][6] = { { 2, 1, 3, 1, 1, 3 }, { 1, 2, 2, 1, 2, 1 } };
	const int64_t order[] = { 5, 4, 3, 2, 1, 0, 6, 7 };
	double v[18 * 7];

	for (unsigned i = 0; i < 18 * 7; i++)
		v[i] = seven_of_9[(i + i / 7) % 7];
	for (unsigned i = 0; i < 8; i++) {
		enum weir_dtype d = to[i % 4];
		const int *n = ids[i / 4];
		int c = d > WEIR_DTYPE_GGML ? 64 : 3;

		same(weir_set_rows(
			     g,
			     weir_permute(g, put(d, 8, 3, 2, 2, 6, 2, 2, 9, c),
					  8, order),
			     weir_permute(g,
					  put(F32, 8, 3, 2, 2, 6, 2, 2, 7, c),
					  8, order),
			     put_values(I32, v, 7, n[0], n[1], n[2], n[3], n[4],
					n[5], 7)),
		     d == WEIR_DTYPE_Q4_0   ? 1e-3
		     : d == WEIR_DTYPE_Q8_0 ? 1e-4
					    : near_of(d),
		     "set_rows to %s of 8 dimensions, way %u of repeating ids",
		     dtype_name(d), i / 4);
	}
}

static void set_rows_range(void)
{
	const double high[] = { 3, 0, 9, 2 }, low[] = { 3, 0, 2, -7 };

	fails(weir_set_rows(g, put(F16, 2, 9, 5), put(F32, 2, 4, 5),
			    put_values(I64, high, 1, 4)),
	      -EINVAL, "9", "set_rows: an index that is too high is refused");
	fails(weir_set_rows(g, put(F16, 2, 9, 5), put(F32, 2, 4, 5),
			    put_values(I32, low, 1, 4)),
	      -EINVAL, "-7", "set_rows: a negative index is refused");
}

int main(void)
{
	trials_begin();
	get_rows();
	get_rows_range();
	set_rows();
	set_rows_shapes();
	set_rows_dims();
	set_rows_range();
	return trials_end();
}
