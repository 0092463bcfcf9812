/* SPDX-License-Identifier: MIT */
/*
 * Products of rows and columns, in each way and by each instruction set,
 * against sums in double of the rows' exact values.
 */
#include "dtypes.h"
#include "kernels/product.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "numbers.h"
#include "tap.h"

#define MOST_ROWS 40
#define MOST_COLS 40
#define MOST_LENGTH 1056

/* The squared differences of results over the squares of what was added. */
#define NEAR_EXACT 1e-11 /* only sums of F32 are rounded */
#define NEAR_SPLIT 1e-9  /* elements are split into two BF16 */
#define NEAR_TILES 7e-5  /* elements are rounded to BF16: at worst */
#define NEAR_BYTES 3e-4  /* columns are rounded to bytes */

static const char *const ways[] = { "as they are stored", "as F32", "in panels",
				    "in tiles" };

/* True if all @n elements are finite and not extremely large. */
static bool is_usual(const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!(fabs(x[i]) < 1e4))
			return false;
	return true;
}

/* One block: random bytes, until its elements are of a usual size. */
static void random_block(enum weir_dtype dtype, unsigned char *to, size_t bytes,
			 size_t n)
{
	float values[256];
	double exact[256];

	for (unsigned tries = 0; tries < 10000; tries++) {
		if (dtype == WEIR_DTYPE_F32) {
			values[0] = random_float();
			memcpy(to, values, sizeof(float));
		} else {
			for (size_t i = 0; i < bytes; i++)
				to[i] = (unsigned char)random_bits();
		}
		if (weir_convert(WEIR_DTYPE_F32, values, dtype, to, n) < 0)
			bail("%s", weir_error());
		for (size_t i = 0; i < n; i++)
			exact[i] = (double)values[i];
		if (is_usual(exact, n))
			return;
	}
	bail("no block of usual size");
}

/* A matrix of @rows rows of @k elements; its rows as F32. */
struct matrix {
	unsigned char *bytes;
	size_t pitch, rows, k;
	float *values;
};

static struct matrix matrix_of(enum weir_dtype dtype, size_t rows, size_t k)
{
	struct weir_dtype_info info = info_of(dtype);
	size_t row = k / info.block * info.bytes;
	struct matrix m = { .pitch = row + 6, .rows = rows, .k = k };

	m.bytes = calloc(rows + 1, m.pitch);
	m.values = calloc(rows * k + 1, sizeof(float));
	for (size_t r = 0; r < rows; r++) {
		for (size_t i = 0; i < k / info.block; i++)
			random_block(dtype,
				     m.bytes + r * m.pitch + i * info.bytes,
				     info.bytes, info.block);
		if (weir_convert(WEIR_DTYPE_F32, m.values + r * k, dtype,
				 m.bytes + r * m.pitch, k) < 0)
			bail("%s", weir_error());
	}
	/* The last bytes belong to nobody: a read of them is an error. */
	m.bytes = realloc(m.bytes, rows * m.pitch - 6 + !row * 7);
	return m;
}

static void matrix_free(struct matrix *m)
{
	free(m->bytes);
	free(m->values);
}

static float *columns_of(size_t n, size_t k)
{
	float *b = calloc(n * k + 1, sizeof(*b));

	for (size_t i = 0; i < n * k; i++)
		b[i] = random_float();
	return b;
}

/* Prepared columns, or NULL if the product needs none. */
static unsigned char *prepare(const struct weir__product *p,
			      const float *const *column, size_t n)
{
	size_t sets = (n + p->set_columns - 1) / p->set_columns;
	unsigned char *prepared;

	if (p->ready)
		return NULL;
	prepared = aligned_alloc(64, (sets * p->set_bytes + 64) / 64 * 64);
	for (size_t i = 0; i < sets; i++) {
		size_t at = i * p->set_columns, some = n - at;

		weir__product_prepare(
			p, prepared + i * p->set_bytes, column + at,
			some < p->set_columns ? some : p->set_columns);
	}
	return prepared;
}

/*
 * Find the greatest of each 32 elements of a column, which are rounded to bytes
 * together.
 */
static void greatest_of(const float *column, size_t k, double *most)
{
	for (size_t i = 0; i < k; i++) {
		double x = fabs((double)column[i]);

		most[i / 32] = i % 32 && most[i / 32] > x ? most[i / 32] : x;
	}
}

/*
 * A row of a, a column of b, and what rounding b may change of each 32
 * elements.
 */
struct pair {
	const float *row, *column;
	const double *most; /* NULL: b is not rounded */
};

/*
 * The exact sum; what was added, squared; and by how much a result may differ:
 * weir_mul_mat_precision(3) has these bounds.
 */
static double sum_of(const struct pair *p, size_t k, double *all, double *bound)
{
	double sum = 0, added = 0, rounded = 0;

	for (size_t i = 0; i < k; i++) {
		double y = (double)p->row[i] * (double)p->column[i];

		sum += y;
		*all += y * y;
		added += fabs(y);
		if (p->most)
			rounded += fabs((double)p->row[i]) * p->most[i / 32];
	}
	*bound = (double)k * (added * 0x1p-24 + 0x1p-149) + rounded / 254;
	return sum;
}

/*
 * The error of the product as computed by @p; infinite if one is over its
 * bound.
 */
static double error_of(const struct weir__product *p, const struct matrix *m,
		       const float *b, size_t n)
{
	static float got[MOST_COLS][MOST_ROWS];
	const float *column[MOST_COLS];
	float *dst[MOST_COLS];
	void *scratch = aligned_alloc(64, (p->scratch + 64) / 64 * 64);
	bool bytes = p->way == WEIR__PRODUCT_DOT &&
		     p->dot->form == WEIR__DOT_Q8;
	unsigned char *prepared;
	double wrong = 0, all = 0, most[MOST_LENGTH / 32];

	for (size_t c = 0; c < n; c++) {
		column[c] = b + c * m->k;
		dst[c] = got[c];
	}
	memset(got, 0x7f, sizeof(got));
	prepared = prepare(p, column, n);
	for (size_t r = 0; r < m->rows; r += p->rows) {
		size_t rows = m->rows - r < p->rows ? m->rows - r : p->rows;

		for (size_t c = 0; c < n; c++)
			dst[c] = got[c] + r;
		weir__product_run(p, scratch, dst, m->bytes + r * m->pitch,
				  m->pitch, rows, prepared,
				  prepared ? NULL : column, n);
	}
	for (size_t c = 0; c < n; c++) {
		greatest_of(column[c], m->k, most);
		for (size_t r = 0; r < m->rows; r++) {
			struct pair pair = { m->values + r * m->k, column[c],
					     bytes ? most : NULL };
			double bound, want = sum_of(&pair, m->k, &all, &bound);

			want -= (double)got[c][r];
			wrong += want * want;
			if (p->way != WEIR__PRODUCT_TILES &&
			    !(fabs(want) <= bound))
				wrong = INFINITY;
		}
	}
	free(prepared);
	free(scratch);
	return wrong / (all + DBL_MIN);
}

static double near_of(const struct weir__product *p)
{
	if (p->way == WEIR__PRODUCT_TILES)
		return p->dtype == WEIR_DTYPE_F32 || p->dtype == WEIR_DTYPE_F16
			       ? NEAR_SPLIT
			       : NEAR_TILES;
	return p->way == WEIR__PRODUCT_PANELS || p->dot->form == WEIR__DOT_F32
		       ? NEAR_EXACT
		       : NEAR_BYTES;
}

/*
 * Return the greatest quotient of error and limit for several numbers of rows
 * and columns.
 */
static double worst_of(const struct weir__product *p, size_t k)
{
	static const size_t rows[] = { 1, 39 };
	static const size_t cols[] = { 1, 3, 7, 40 };
	double worst = 0;

	for (size_t i = 0; i < 2; i++) {
		struct matrix m =
			matrix_of((enum weir_dtype)p->dtype, rows[i], k);

		for (size_t j = 0; j < 4; j++) {
			float *b = columns_of(cols[j], k);
			double e = error_of(p, &m, b, cols[j]) / near_of(p);

			if (!(e <= worst))
				worst = e;
			free(b);
		}
		matrix_free(&m);
	}
	return worst;
}

/* Lengths of rows: of one block, of odd numbers of them, of many. */
static double worst_length(enum weir__product_way way,
			   const struct weir__dot_set *set,
			   enum weir_dtype dtype)
{
	size_t block = info_of(dtype).block;
	const size_t length[] = { block, (block > 64 ? 3 : 357 / block) * block,
				  block > 1 ? 2 * block : MOST_LENGTH };
	double worst = 0;

	for (size_t i = 0; i < 3; i++) {
		struct weir__product p;
		double e;

		if (!weir__product_plan_as(&p, way, set, dtype, length[i]))
			return -1;
		e = worst_of(&p, length[i]);
		if (!(e <= worst))
			worst = e;
	}
	return worst;
}

static void each_way(const struct weir__dot_set *set, enum weir_dtype dtype)
{
	for (unsigned way = WEIR__PRODUCT_DOT; way <= WEIR__PRODUCT_TILES;
	     way++) {
		double worst;

		/* Tiles have their own instructions. */
		if (way == WEIR__PRODUCT_TILES && set != weir__dot_set())
			continue;
		worst = worst_length((enum weir__product_way)way, set, dtype);
		if (worst < 0)
			continue;
		if (!ok(worst <= 1, "products of rows of %s %s are right by %s",
			info_of(dtype).name, ways[way], set->name))
			diag("error %g times its limit", worst);
	}
}

/* A column that is not finite, in a way that rounds columns to bytes. */
static void not_finite(const struct weir__dot_set *set, float x)
{
	struct matrix m = matrix_of(WEIR_DTYPE_Q8_0, 1, 128);
	float *b = columns_of(1, 128), got = 0, *dst = &got;
	const float *column = b;
	struct weir__product p;
	unsigned char *prepared;

	if (!weir__product_plan_as(&p, WEIR__PRODUCT_DOT, set, WEIR_DTYPE_Q8_0,
				   128)) {
		skip(1, "%s has no products of bytes", set->name);
	} else {
		b[77] = x;
		prepared = prepare(&p, &column, 1);
		weir__product_run(&p, NULL, &dst, m.bytes, m.pitch, 1, prepared,
				  NULL, 1);
		ok(isnan(got),
		   "the product with a column that has %g is NaN by %s",
		   (double)x, set->name);
		free(prepared);
	}
	free(b);
	matrix_free(&m);
}

/* Tiny columns: their scale has no inverse. */
static void tiny(const struct weir__dot_set *set)
{
	struct matrix m = matrix_of(WEIR_DTYPE_Q8_0, 1, 64);
	float b[64] = { 0 }, got = 1, *dst = &got;
	const float *column = b;
	struct weir__product p;
	unsigned char *prepared;

	b[3] = 1e-40f;
	if (!weir__product_plan_as(&p, WEIR__PRODUCT_DOT, set, WEIR_DTYPE_Q8_0,
				   64)) {
		skip(1, "%s has no products of bytes", set->name);
	} else {
		prepared = prepare(&p, &column, 1);
		weir__product_run(&p, NULL, &dst, m.bytes, m.pitch, 1, prepared,
				  NULL, 1);
		ok(fabsf(got) < 1e-30f,
		   "the product with a column of tiny elements is near 0 by %s",
		   set->name);
		free(prepared);
	}
	matrix_free(&m);
}

int main(void)
{
	struct weir *root;

	plan(0);
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	for (unsigned i = 0; weir__dot_sets[i]; i++) {
		const struct weir__dot_set *set = weir__dot_sets[i];

		if (!set->usable()) {
			skip(1, "this CPU has no %s", set->name);
			continue;
		}
		for (size_t d = 0; d < WEIGHTS; d++)
			each_way(set, weights[d]);
		not_finite(set, NAN);
		not_finite(set, INFINITY);
		tiny(set);
	}
	weir_close(root);
	return done_testing();
}
