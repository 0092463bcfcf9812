/* SPDX-License-Identifier: MIT */
/*
 * The loops over vectors, in each instruction set that this CPU has, compared
 * with plain ones in double.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/vec.h"
#include "tap.h"

#define MOST 70 /* elements: several vectors of each set, and a rest */

static const struct weir__vec *vec;
static float a[MOST + 1], b[MOST + 1], d[2 * MOST + 1];

static float random_float(void)
{
	return (float)rand() / (float)RAND_MAX * 8 - 4;
}

static void fill(void)
{
	for (unsigned i = 0; i <= MOST; i++) {
		a[i] = random_float();
		b[i] = random_float();
	}
}

static void clear(void)
{
	for (unsigned i = 0; i <= 2 * MOST; i++)
		d[i] = 99;
}

static bool near(double got, double want, double ulps)
{
	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got);
	if (isinf((float)want))
		return got == (double)(float)want;
	return fabs(got - want) <= ulps * 0x1p-24 * fabs(want) + 0x1p-149;
}

static double silu(double x)
{
	return x / (1 + exp(-x));
}

static double gelu(double x)
{
	return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x)
{
	return x / 2 * erfc(-x / sqrt(2));
}

/* d is the result of each function for the first @n of a and b; none after. */
#define EACH(n, ulps, want)                                            \
	({                                                             \
		bool each = d[n] == 99;                                \
		for (size_t i = 0; i < n; i++)                         \
			each = near((double)d[i], want, ulps) && each; \
		clear();                                               \
		each;                                                  \
	})
#define A ((double)a[i])
#define B ((double)b[i])

static void maps(void)
{
	bool same = true;

	clear();
	for (size_t n = 0; n <= MOST; n++) {
		vec->add(d, a, b, n);
		same = EACH(n, 1, A + B) && same;
		vec->sub(d, a, b, n);
		same = EACH(n, 1, A - B) && same;
		vec->mul(d, a, b, n);
		same = EACH(n, 1, A * B) && same;
		vec->div(d, a, b, n);
		same = EACH(n, 1, A / B) && same;
		vec->sqr(d, a, n);
		same = EACH(n, 1, A * A) && same;
	}
	ok(same, "sums, differences, products and quotients are right");
	for (size_t n = 0; n <= MOST; n++) {
		vec->silu(d, a, n);
		same = EACH(n, 8, silu(A)) && same;
		vec->swiglu(d, a, b, n);
		same = EACH(n, 8, silu(A) * B) && same;
		vec->gelu(d, a, n);
		same = EACH(n, 64, gelu(A)) && same;
		vec->scale(d, a, 3, 0, n);
		same = EACH(n, 1, A * 3) && same;
	}
	ok(same, "silu, swiglu, gelu and scale are right");
}

static void curves(void)
{
	bool same = true;

	clear();
	for (size_t n = 0; n <= MOST; n++) {
		vec->gelu_erf(d, a, n);
		same = EACH(n, 24, gelu_erf(A)) && same;
		vec->tanh(d, a, n);
		same = EACH(n, 12, tanh(A)) && same;
		vec->sigmoid(d, a, n);
		same = EACH(n, 4, 1 / (1 + exp(-A))) && same;
		vec->exp(d, a, n);
		same = EACH(n, 2, exp(A)) && same;
	}
	ok(same, "gelu_erf, tanh, sigmoid and exp are right");
	for (size_t n = 0; n <= MOST; n++) {
		vec->relu(d, a, n);
		same = EACH(n, 0, A > 0 ? A : 0) && same;
		vec->clamp(d, a, -1, 2, n);
		same = EACH(n, 0, A < -1 ? -1 : A > 2 ? 2 : A) && same;
		vec->sqrt(d, a, n);
		same = EACH(n, 1, sqrt(A)) && same;
	}
	ok(same, "relu, clamp and sqrt are right");
}

/* Where the results are small, they are as exact as elsewhere. */
static void tails(void)
{
	double worst = 0, err, want;
	float x[16], y[16];

	for (double at = -13; at < 13; at += 0.0016) {
		for (unsigned i = 0; i < 16; i++)
			x[i] = (float)(at + 0.0001 * i);
		vec->gelu_erf(y, x, 16);
		for (unsigned i = 0; i < 16; i++) {
			want = gelu_erf((double)x[i]);
			err = fabs((double)y[i] - want) /
			      (fabs(want) * 0x1p-24 + 0x1p-149);
			worst = err > worst ? err : worst;
		}
	}
	diag("%s: gelu_erf is off by at most %.1f units of the last place",
	     vec->name, worst / 2);
	ok(worst / 2 <= 12, "gelu_erf is exact for small results, too");
}

static void in_place(void)
{
	bool same = true;
	float was[MOST + 1];

	for (size_t n = 0; n <= MOST; n++) {
		memcpy(was, a, sizeof(was));
		vec->add(a, a, b, n);
		for (size_t i = 0; i <= MOST; i++)
			same = a[i] == (i < n ? was[i] + b[i] : was[i]) && same;
		memcpy(a, was, sizeof(was));
		vec->add_scaled(a, 0.5f, b, n);
		for (size_t i = 0; i <= MOST; i++)
			same = near((double)a[i],
				    (double)was[i] + (i < n ? B / 2 : 0), 2) &&
			       same;
		memcpy(a, was, sizeof(was));
	}
	ok(same, "a result may take the place of a source");
}

static void sums(void)
{
	bool same = true;

	for (size_t n = 0; n <= MOST; n++) {
		double sum = 0, squares = 0, dot = 0, size = 0;
		float max = -INFINITY;

		for (size_t i = 0; i < n; i++) {
			sum += A;
			squares += (A - 0.5) * (A - 0.5);
			dot += A * B;
			size += fabs(A * B);
			max = a[i] > max ? a[i] : max;
		}
		same = fabs(vec->sum(a, n) - sum) < 1e-9 && same;
		same = fabs(vec->sum_sqr(a, 0.5f, n) - squares) < 1e-4 && same;
		same = fabs((double)vec->dot(a, b, n) - dot) <= 1e-6 * size &&
		       same;
		same = vec->max(a, n) == max && same;
		same = vec->finite(a, n) && same;
	}
	ok(same, "sums, products of rows and the greatest element are right");
}

static void odd_elements(void)
{
	bool same = true;

	for (size_t at = 0; at < MOST; at++) {
		float was = a[at];

		a[at] = NAN;
		same = vec->max(a, MOST) < 5 && same;
		same = isnan(vec->sum(a, MOST)) && same;
		same = !vec->finite(a, MOST) && vec->finite(a, at) && same;
		a[at] = INFINITY;
		same = vec->max(a, MOST) == INFINITY && same;
		same = !vec->finite(a, MOST) && same;
		a[at] = was;
	}
	ok(same, "max ignores NaNs, and finite finds them, wherever they are");
	for (size_t i = 0; i < MOST; i++)
		d[i] = a[i];
	b[3] = b[64] = -INFINITY;
	d[3] = NAN;
	vec->bias(d, b, MOST);
	ok(d[3] == -INFINITY && d[64] == -INFINITY && d[4] == a[4] + b[4],
	   "a bias of -infinity replaces even a NaN");
	fill();
}

/* All floats of which exp is neither 0 nor infinity are as good as these. */
static void exponentials(void)
{
	double worst = 0, err;
	bool limits;
	float x[16], y[16];

	for (double at = -87.3; at < 88.7; at += 0.0013) {
		for (unsigned i = 0; i < 16; i++)
			x[i] = (float)(at + 0.00008 * i);
		vec->exp_sum(y, x, 0, 16);
		for (unsigned i = 0; i < 16; i++) {
			double want = exp((double)x[i]);

			err = fabs((double)y[i] - want) / (want * 0x1p-24);
			worst = err > worst ? err : worst;
		}
	}
	diag("%s: exp is off by at most %.2f units of the last place",
	     vec->name, worst / 2);
	ok(worst / 2 <= 1, "exp is off by at most 1 unit of the last place");
	memcpy(x,
	       (float[]){ -INFINITY, -200, -104, 0, 89, 1000, INFINITY, NAN },
	       8 * sizeof(*x));
	vec->exp_sum(y, x, 0, 8);
	limits = y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 1 &&
		 y[4] == INFINITY && y[5] == INFINITY && y[6] == INFINITY &&
		 isnan(y[7]);
	ok(limits, "exp of very small and very large numbers, and of NaN");
	x[0] = -88;
	vec->exp_sum(y, x, 0, 1);
	ok(near((double)y[0], exp(-88), 2),
	   "exp is a subnormal number where it should be");
}

static void exp_sums(void)
{
	bool same = true;

	clear();
	for (size_t n = 0; n <= MOST; n++) {
		double sum = 0, got = vec->exp_sum(d, a, 1, n);

		for (size_t i = 0; i < n; i++)
			sum += exp(A - 1);
		same = fabs(got - sum) <= 1e-6 * sum && same;
		same = EACH(n, 8, exp(A - 1)) && same;
	}
	ok(same, "sums of exponentials are right");
	for (size_t n = 0; n <= MOST; n++) {
		memcpy(d, a, n * sizeof(*d));
		vec->softcap(d, 3, n);
		for (size_t i = 0; i < n; i++)
			same = fabs((double)d[i] - 3 * tanh(A / 3)) < 1e-6 &&
			       same;
		d[n] = 99;
	}
	ok(same, "softcap is right");
}

static void rotations(void)
{
	float c[MOST] = { 0 }, s[MOST] = { 0 };
	bool halves = true, pairs = true;

	for (size_t n = 0; n <= MOST / 2; n++) {
		for (size_t i = 0; i < n; i++) {
			c[i] = cosf(b[i]);
			s[i] = sinf(b[i]);
		}
		vec->rotate_halves(d, a, c, s, n);
		for (size_t i = 0; i < n; i++) {
			double x = A, y = (double)a[n + i];

			halves = fabs((double)d[i] -
				      (x * cos(B) - y * sin(B))) < 1e-5 &&
				 fabs((double)d[n + i] -
				      (x * sin(B) + y * cos(B))) < 1e-5 &&
				 halves;
		}
		for (size_t i = 0; i < n; i++) {
			c[2 * i] = c[2 * i + 1] = cosf(b[i]);
			s[2 * i + 1] = sinf(b[i]);
			s[2 * i] = -s[2 * i + 1];
		}
		vec->rotate_pairs(d, a, c, s, n);
		for (size_t i = 0; i < n; i++) {
			double x = (double)a[2 * i], y = (double)a[2 * i + 1];

			pairs = fabs((double)d[2 * i] -
				     (x * cos(B) - y * sin(B))) < 1e-5 &&
				fabs((double)d[2 * i + 1] -
				     (x * sin(B) + y * cos(B))) < 1e-5 &&
				pairs;
		}
	}
	ok(halves, "rotations of the pairs (i, i + n) are right");
	ok(pairs, "rotations of the pairs (2i, 2i + 1) are right");
}

static void products(void)
{
	enum {
		M = 9,
		N = 96,
		K = 13
	};
	static float x[M][K], y[K][N], z[M][N], turned[N][K + 2];
	bool same = true;

	for (unsigned i = 0; i < M * K; i++)
		x[i / K][i % K] = random_float();
	for (unsigned i = 0; i < K * N; i++)
		y[i / N][i % N] = random_float();
	for (unsigned m = 0; m <= M; m++)
		for (unsigned n = 0; n <= N; n += 16) {
			for (unsigned i = 0; i < M * N; i++)
				z[i / N][i % N] = 1;
			vec->product(z[0], N, x[0], K, y[0], N, m, n, K);
			for (unsigned i = 0; i < M * N; i++) {
				double want = 1;

				for (unsigned k = 0; k < K; k++)
					want += (double)x[i / N][k] *
						(double)y[k][i % N];
				if (i / N >= m || i % N >= n)
					want = 1;
				same = fabs((double)z[i / N][i % N] - want) <
					       1e-4 &&
				       same;
			}
		}
	ok(same, "products of matrices are right");
	same = true;
	for (unsigned rows = 0; rows <= K; rows++) {
		memset(turned, 0, sizeof(turned));
		vec->transpose(turned[0], K + 2, y[0], N, rows, 23);
		for (unsigned i = 0; i < N * K; i++)
			same = turned[i / K][i % K] ==
				       (i / K < 23 && i % K < rows
						? y[i % K][i / K]
						: 0) &&
			       same;
	}
	ok(same, "a matrix is transposed, whatever its size");
}

/* Sets without the function use the library's conversion. */
static void halves(void)
{
	uint16_t h[MOST + 1];
	bool same = true;

	if (!vec->from_f16) {
		skip(1, "%s has no conversion of F16", vec->name);
		return;
	}
	for (size_t i = 0; i <= MOST; i++)
		h[i] = (uint16_t)(0x3c00 + i);
	clear();
	for (size_t n = 0; n <= MOST; n++) {
		vec->from_f16(d, h, n);
		same = EACH(n, 0, 1 + (double)i / 1024) && same;
	}
	ok(same, "F16 is converted");
}

static void greater(void)
{
	bool same = true;

	for (size_t n = 0; n <= MOST; n++) {
		memcpy(d, a, sizeof(a));
		vec->maxes(d, b, n);
		for (size_t i = 0; i < MOST; i++)
			same = d[i] == (i < n && b[i] > a[i] ? b[i] : a[i]) &&
			       same;
	}
	ok(same, "the greater of two rows is right");
}

#define CHECKS 20

int main(void)
{
	const struct weir__vec *const sets[] = {
		&weir__vec_base,
#ifdef __x86_64__
		&weir__vec_avx2,
		&weir__vec_avx512,
#endif
	};

	char prefix[32];

	plan(CHECKS * sizeof(sets) / sizeof(sets[0]));
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		vec = sets[i];
		if (!vec->usable()) {
			skip(CHECKS, "the CPU does not have %s", vec->name);
			continue;
		}
		snprintf(prefix, sizeof(prefix), "%s: ", vec->name);
		tap_prefix(prefix);
		fill();
		maps();
		curves();
		tails();
		in_place();
		sums();
		odd_elements();
		exponentials();
		exp_sums();
		rotations();
		greater();
		products();
		halves();
	}
	return done_testing();
}
