/* SPDX-License-Identifier: MIT */
/* How the stand-in for cuBLASLt computes a product. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/cublaslt_api.h"
#include "cublaslt.h"

static float from_f16(uint16_t h)
{
	unsigned exponent = h >> 10 & 31, fraction = h & 1023;
	float v = exponent == 31 ? (fraction ? NAN : INFINITY)
		  : exponent
			  ? ldexpf((float)(fraction | 1024), (int)exponent - 25)
			  : ldexpf((float)fraction, -24);

	return h >> 15 ? -v : v;
}

static float element(int type, const char *at, int64_t i)
{
	uint32_t wide;
	uint16_t h;
	float v;

	memcpy(&h, at + 2 * i, sizeof(h));
	if (type == WEIR__CUBLASLT_F16)
		return from_f16(h);
	wide = (uint32_t)h << 16;
	memcpy(&v, &wide, sizeof(v));
	return v;
}

/* Rows of k elements as F32: they are one after another in the result. */
static float *matrix(const struct product *p, const char *at, int64_t rows,
		     int64_t ld, bool by_rows)
{
	float *all = malloc((size_t)(rows * p->k) * sizeof(*all));

	if (!all)
		abort();
	for (int64_t row = 0; row < rows; row++)
		for (int64_t k = 0; k < p->k; k++)
			all[row * p->k + k] =
				element(p->type, at,
					by_rows ? row * ld + k : k * ld + row);
	return all;
}

/* Of k in [@from, @to), beginning with the one @first after @from. */
static float sum(const float *a, const float *b, int64_t from, int64_t to,
		 int64_t first)
{
	float all = 0;

	for (int64_t k = from + first; k < to; k++)
		all += a[k] * b[k];
	for (int64_t k = from; k < from + first; k++)
		all += a[k] * b[k];
	return all;
}

static float entry(const struct product *p, const float *a, const float *b,
		   int64_t first)
{
	if (p->how == HOW_SPLIT)
		return sum(a, b, 0, p->k / 2, 0) + sum(a, b, p->k / 2, p->k, 0);
	return sum(a, b, 0, p->k, first);
}

static int64_t any_order(const struct product *p)
{
	static _Atomic int64_t calls;
	struct timespec now;

	if (p->how != HOW_ATOMIC)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_nsec + ++calls * 7) % p->k;
}

static void batch(const struct product *p, const char *at_a, const char *at_b,
		  char *d)
{
	float *a = matrix(p, at_a, p->m, p->ld_a, p->trans_a);
	float *b = matrix(p, at_b, p->n, p->ld_b, !p->trans_b);
	int64_t first = any_order(p);

	for (int64_t n = 0; n < p->n; n++)
		for (int64_t m = 0; m < p->m; m++) {
			char *to = d + 4 * (n * p->ld_d + m);
			float v = p->alpha *
				  entry(p, a + m * p->k, b + n * p->k, first);
			float old;

			memcpy(&old, to, sizeof(old));
			v += p->beta != 0 ? p->beta * old : 0;
			memcpy(to, &v, sizeof(v));
		}
	free(a);
	free(b);
}

/* The workspace is overwritten: nothing that is needed may be there. */
void product_compute(void *product, char *const *at)
{
	const struct product *p = product;
	size_t next = 3 + (p->beta != 0);

	if (p->workspace)
		memset(at[next * (size_t)p->batches], 0xcd, p->workspace);
	for (int64_t b = 0; b < p->batches; b++, at += next)
		batch(p, at[0], at[1], at[2]);
}
