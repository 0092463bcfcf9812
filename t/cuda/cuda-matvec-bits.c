/* SPDX-License-Identifier: MIT */
/*
 * The bits of products of few columns on CUDA0: those of a row of b do not
 * depend on the others, on their number, on their form, or on the run.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#define M 37
#define K 4352
#define MOST 11

static struct weir *weir;
static struct weir_sched *sched;
static struct weir_graph *g;
static uint64_t random_state = 1;

static unsigned char random_byte(void)
{
	random_state =
		random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned char)(random_state >> 56);
}

static const struct {
	enum weir_dtype dtype;
	const char *name, *kernel;
} dtypes[] = {
	{ WEIR_DTYPE_F32, "F32", "f32" },
	{ WEIR_DTYPE_F16, "F16", "f16" },
	{ WEIR_DTYPE_BF16, "BF16", "bf16" },
	{ WEIR_DTYPE_Q8_0, "Q8_0", "q8_0" },
	{ WEIR_DTYPE_Q4_0, "Q4_0", "q4_0" },
	{ WEIR_DTYPE_Q4_K, "Q4_K", "q4_k" },
	{ WEIR_DTYPE_Q6_K, "Q6_K", "q6_k" },
};
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))
#define QUANTISED 4 /* the last ones */

/* Random bytes whose elements are of a usual size. */
static void *matrix_make(enum weir_dtype dtype, size_t *ret_bytes)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	unsigned char *a;
	float v[256];
	bool usual;

	must(weir_dtype_info(dtype, &info));
	*ret_bytes = (size_t)M * K / info.block * info.bytes;
	a = malloc(*ret_bytes);
	for (size_t at = 0; at < *ret_bytes; at += info.bytes) {
		do {
			usual = true;
			for (unsigned i = 0; i < info.bytes; i++)
				a[at + i] = random_byte();
			must(weir_convert(WEIR_DTYPE_F32, v, dtype, a + at,
					  info.block));
			for (unsigned i = 0; i < info.block; i++)
				usual = usual && fabsf(v[i]) < 100;
		} while (!usual);
	}
	return a;
}

/*
 * Columns [first, first + n) of b times a. @transposed: b is stored the other
 * way around.
 */
static void multiply(enum weir_dtype dtype, const void *a, size_t a_bytes,
		     const float *b, int first, int n, bool transposed,
		     float *ret)
{
	const int64_t a_shape[] = { M, K }, b_shape[] = { n, K };
	const int64_t t_shape[] = { K, n };
	struct weir_node *an = weir_graph_input(g, "a", dtype, 2, a_shape), *bn;
	struct weir_node *y;
	struct weir_exec *exec;
	struct weir_tensor t;
	struct weir_run *run;
	float *other = malloc(sizeof(float) * K * (size_t)n);

	bn = weir_graph_input(g, "b", WEIR_DTYPE_F32, 2,
			      transposed ? t_shape : b_shape);
	for (int c = 0; c < n; c++)
		for (int k = 0; k < K; k++)
			other[transposed ? k * n + c : c * K + k] =
				b[(first + c) * K + k];
	y = weir_mul_mat_precision(g, an,
				   transposed ? weir_transpose(g, bn) : bn,
				   WEIR_PRECISION_INVARIANT);
	weir_graph_output(g, y);
	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, an, a, a_bytes));
	must(weir_run_input(run, bn, other, sizeof(float) * K * (size_t)n));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	must(weir_run_output(run, y, &t));
	must(weir_tensor_get(&t, 0, ret, sizeof(float) * M * (size_t)n));
	weir_run_free(run);
	weir_exec_free(exec);
	weir_graph_reset(g);
	free(other);
}

static void bits(unsigned d)
{
	float *b = malloc(sizeof(float) * K * MOST);
	float *alone = malloc(sizeof(float) * M * MOST);
	float *some = malloc(sizeof(float) * M * MOST);
	enum weir_dtype dtype = dtypes[d].dtype;
	int wrong = 0;
	size_t bytes;
	void *a = matrix_make(dtype, &bytes);

	for (int i = 0; i < K * MOST; i++)
		b[i] = (float)random_byte() / 64 - 2;
	for (int c = 0; c < MOST; c++)
		multiply(dtype, a, bytes, b, c, 1, false, alone + c * M);
	for (int n = 1; n <= MOST && !wrong; n++) {
		multiply(dtype, a, bytes, b, MOST - n, n, false, some);
		if (memcmp(some, alone + (MOST - n) * M,
			   sizeof(float) * M * (size_t)n))
			wrong = n;
	}
	is_int(wrong, 0, "%s: the bits of a column are those of it alone",
	       dtypes[d].name);
	multiply(dtype, a, bytes, b, 0, 5, true, some);
	ok(!memcmp(some, alone, sizeof(float) * M * 5),
	   "%s: they are the same if b is transposed", dtypes[d].name);
	for (unsigned order = 1; order <= 5; order++) {
		char text[8];

		snprintf(text, sizeof(text), "%u", order);
		fake.set("ORDER", text);
		multiply(dtype, a, bytes, b, 0, 8, false, some);
		if (memcmp(some, alone, sizeof(float) * M * 8))
			wrong = 100 + (int)order;
	}
	fake.set("ORDER", "0");
	is_int(wrong, 0, "%s: and if warps and blocks run in another order",
	       dtypes[d].name);
	free(a);
	free(some);
	free(alone);
	free(b);
}

/*
 * The greatest of each 32 elements of b is 127, so that their scale is 1: then
 * halves become the nearest even integer, as on the CPU.
 */
static void rounding(unsigned d)
{
	float *b = malloc(sizeof(float) * K * 2), got[2 * M], want[2 * M];
	size_t bytes;
	void *a = matrix_make(dtypes[d].dtype, &bytes);

	for (int i = 0; i < 2 * K; i++)
		b[i] = i % 32 == 5 ? 127 : random_byte() / 2.0f - 63.5f;
	multiply(dtypes[d].dtype, a, bytes, b, 0, 2, false, got);
	for (int i = 0; i < 2 * K; i++)
		b[i] = rintf(b[i]);
	multiply(dtypes[d].dtype, a, bytes, b, 0, 2, false, want);
	ok(!memcmp(got, want, sizeof(got)),
	   "%s: b is rounded to the nearest integers, halves to even ones",
	   dtypes[d].name);
	free(a);
	free(b);
}

/* Which kernels computed all this. */
static void kernels(void)
{
	struct fakecuda_kernel k;
	__typeof__(&fakecuda_kernel) counts;
	char name[64];

	*(void **)&counts = fake_symbol("fakecuda_kernel");
	for (unsigned d = 0; d < DTYPES; d++) {
		int missing = 0;

		for (int n = 1; n <= 8; n *= 2) {
			snprintf(name, sizeof(name), "weir_kernel_matvec_%s_%d",
				 dtypes[d].kernel, n);
			missing += counts(name, &k) < 0;
		}
		snprintf(name, sizeof(name), "weir_kernel_mul_mat_%s",
			 dtypes[d].kernel);
		is_int(missing + !counts(name, &k), 0,
		       "%s: mat-vecs computed all, and plain kernels nothing",
		       dtypes[d].name);
	}
}

int main(void)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	struct fakecuda_counts found;
	struct weir_dev *dev;

	open_fake();
	fake.set("SMS", "1");
	weir = open_cuda();
	dev = gpu(weir);
	must(weir_dev_info(dev, &info));
	if (!(info.caps & WEIR_CAP_COMPUTE))
		skip_all("CUDA0 does not compute: there was no nvcc");
	plan(4 * DTYPES + QUANTISED + 1);
	must(weir_sched_new(&dev, 1, NULL, &sched));
	must(weir_graph_new(&g));
	for (unsigned d = 0; d < DTYPES; d++)
		bits(d);
	for (unsigned d = DTYPES - QUANTISED; d < DTYPES; d++)
		rounding(d);
	kernels();
	fake.counts(&found);
	is_int(found.findings, 0, "the checker found nothing in the kernels");
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_close(weir);
	return done_testing();
}
