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
#define OUTER 16 /* columns in four outer dimensions */

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
	{ WEIR_DTYPE_Q4_1, "Q4_1", "q4_1" },
	{ WEIR_DTYPE_Q5_0, "Q5_0", "q5_0" },
	{ WEIR_DTYPE_Q5_1, "Q5_1", "q5_1" },
	{ WEIR_DTYPE_Q2_K, "Q2_K", "q2_k" },
	{ WEIR_DTYPE_Q3_K, "Q3_K", "q3_k" },
	{ WEIR_DTYPE_Q5_K, "Q5_K", "q5_k" },
	{ WEIR_DTYPE_IQ4_NL, "IQ4_NL", "iq4_nl" },
	{ WEIR_DTYPE_IQ4_XS, "IQ4_XS", "iq4_xs" },
	{ WEIR_DTYPE_MXFP4, "MXFP4", "mxfp4" },
	{ WEIR_DTYPE_NVFP4, "NVFP4", "nvfp4" },
	{ WEIR_DTYPE_IQ1_S, "IQ1_S", "iq1_s" },
	{ WEIR_DTYPE_IQ1_M, "IQ1_M", "iq1_m" },
	{ WEIR_DTYPE_IQ2_XXS, "IQ2_XXS", "iq2_xxs" },
	{ WEIR_DTYPE_IQ2_XS, "IQ2_XS", "iq2_xs" },
	{ WEIR_DTYPE_IQ2_S, "IQ2_S", "iq2_s" },
	{ WEIR_DTYPE_IQ3_XXS, "IQ3_XXS", "iq3_xxs" },
	{ WEIR_DTYPE_IQ3_S, "IQ3_S", "iq3_s" },
	{ WEIR_DTYPE_TQ1_0, "TQ1_0", "tq1_0" },
	{ WEIR_DTYPE_TQ2_0, "TQ2_0", "tq2_0" },
	{ WEIR_DTYPE_Q1_0, "Q1_0", "q1_0" },
	{ WEIR_DTYPE_Q2_0, "Q2_0", "q2_0" },
};
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))
#define QUANTISED 25 /* the last ones */
#define FEW 11       /* of these: the last ones have no kernel of 2 columns */

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

/* How b is stored. */
enum form {
	PLAIN,
	TRANSPOSED,
	NESTED
};

/* Columns [first, first + n) of b times a. */
static void multiply(enum weir_dtype dtype, const void *a, size_t a_bytes,
		     const float *b, int first, int n, enum form form,
		     float *ret)
{
	const int64_t a_shape[] = { M, K }, b_shape[] = { n, K };
	const int64_t t_shape[] = { K, n }, n_shape[] = { 2, 2, 2, 2, 1, K };
	struct weir_node *an = weir_graph_input(g, "a", dtype, 2, a_shape), *bn;
	struct weir_node *y;
	struct weir_exec *exec;
	struct weir_tensor t;
	struct weir_run *run;
	float *other = malloc(sizeof(float) * K * (size_t)n);

	bn = weir_graph_input(g, "b", WEIR_DTYPE_F32, 2,
			      form == TRANSPOSED ? t_shape : b_shape);
	for (int c = 0; c < n; c++)
		for (int k = 0; k < K; k++)
			other[form == TRANSPOSED ? k * n + c : c * K + k] =
				b[(first + c) * K + k];
	y = weir_mul_mat_precision(g, an,
				   form == TRANSPOSED ? weir_transpose(g, bn)
				   : form == NESTED
					   ? weir_reshape(g, bn, 6, n_shape)
					   : bn,
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
	float *b = malloc(sizeof(float) * K * OUTER);
	float *alone = malloc(sizeof(float) * M * OUTER);
	float *some = malloc(sizeof(float) * M * OUTER);
	enum weir_dtype dtype = dtypes[d].dtype;
	int wrong = 0;
	size_t bytes;
	void *a = matrix_make(dtype, &bytes);

	for (int i = 0; i < K * OUTER; i++)
		b[i] = (float)random_byte() / 64 - 2;
	for (int c = 0; c < OUTER; c++)
		multiply(dtype, a, bytes, b, c, 1, PLAIN, alone + c * M);
	for (int n = 1; n <= MOST && !wrong; n++) {
		multiply(dtype, a, bytes, b, MOST - n, n, PLAIN, some);
		if (memcmp(some, alone + (MOST - n) * M,
			   sizeof(float) * M * (size_t)n))
			wrong = n;
	}
	is_int(wrong, 0, "%s: the bits of a column are those of it alone",
	       dtypes[d].name);
	/* Those read b as the dtypes before them do. */
	if (d >= DTYPES - FEW)
		goto out;
	multiply(dtype, a, bytes, b, 0, 5, TRANSPOSED, some);
	ok(!memcmp(some, alone, sizeof(float) * M * 5),
	   "%s: they are the same if b is transposed", dtypes[d].name);
	multiply(dtype, a, bytes, b, 0, OUTER, NESTED, some);
	ok(!memcmp(some, alone, sizeof(float) * M * OUTER),
	   "%s: and if it has four outer dimensions", dtypes[d].name);
	for (unsigned order = 1; order <= 5; order++) {
		char text[8];

		snprintf(text, sizeof(text), "%u", order);
		fake.set("ORDER", text);
		multiply(dtype, a, bytes, b, 0, 8, PLAIN, some);
		if (memcmp(some, alone, sizeof(float) * M * 8))
			wrong = 100 + (int)order;
	}
	fake.set("ORDER", "0");
	is_int(wrong, 0, "%s: and if warps and blocks run in another order",
	       dtypes[d].name);
out:
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
	multiply(dtypes[d].dtype, a, bytes, b, 0, 2, PLAIN, got);
	for (int i = 0; i < 2 * K; i++)
		b[i] = rintf(b[i]);
	multiply(dtypes[d].dtype, a, bytes, b, 0, 2, PLAIN, want);
	ok(!memcmp(got, want, sizeof(got)),
	   "%s: b is rounded to the nearest integers, halves to even ones",
	   dtypes[d].name);
	free(a);
	free(b);
}

/*
 * More columns than there is room for in the workspace: those of the second
 * launch have the same bits as those of the first.
 */
static void room(void)
{
	enum {
		ROWS = 4,
		LONG = 1 << 17,
		COLUMNS = 66,
		ROOM = 33 << 20
	};
	const int64_t a_shape[] = { ROWS, LONG }, b_shape[] = { COLUMNS, LONG };
	float *a = calloc(ROWS * LONG, sizeof(*a)), got[COLUMNS][ROWS];
	uint16_t *b = calloc((size_t)COLUMNS * LONG, sizeof(*b));
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_node *an, *bn, *y;
	struct weir_exec *exec;
	struct weir_tensor t;
	struct weir_run *run;
	int wrong = 0;

	an = weir_graph_input(g, "a", WEIR_DTYPE_F32, 2, a_shape);
	bn = weir_graph_input(g, "b", WEIR_DTYPE_F16, 2, b_shape);
	y = weir_mul_mat_precision(g, an, bn, WEIR_PRECISION_INVARIANT);
	for (int i = 0; i < ROWS * LONG; i++)
		a[i] = (float)(i % 5) - 2;
	/* Column c has 2^(c % 8) / 128 at each c + 1-st place. */
	for (int c = 0; c < COLUMNS; c++)
		for (int k = 0; k < LONG; k += c + 1)
			b[c * LONG + k] = (uint16_t)((8 + c % 8) << 10);
	weir_graph_output(g, y);
	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &exec));
	must(weir_exec_info(exec, &info));
	ok(info.workspace < ROOM, "columns of %d MiB have %d KiB of workspace",
	   (int)(sizeof(float) * COLUMNS * LONG >> 20),
	   (int)(info.workspace >> 10));
	fake.set("KERNELCHECK", "0");
	must(weir_run_new(exec, &run));
	must(weir_run_input(run, an, a, sizeof(*a) * ROWS * LONG));
	must(weir_run_input(run, bn, b, sizeof(*b) * COLUMNS * LONG));
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	must(weir_run_output(run, y, &t));
	must(weir_tensor_get(&t, 0, got, sizeof(got)));
	for (int c = 0; c < COLUMNS; c++)
		for (int m = 0; m < ROWS; m++) {
			float want = 0;

			for (int k = 0; k < LONG; k += c + 1)
				want += a[m * LONG + k];
			wrong += got[c][m] != want * (float)(1 << c % 8) / 128;
		}
	is_int(wrong, 0, "all have the right result");
	fake.set("KERNELCHECK", "1");
	weir_run_free(run);
	weir_exec_free(exec);
	weir_graph_reset(g);
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
			if (n == 2 && d >= DTYPES - FEW)
				continue;
			snprintf(name, sizeof(name), "weir_kernel_matvec_%s_%d",
				 dtypes[d].kernel, n);
			missing += counts(name, &k) < 0;
		}
		snprintf(name, sizeof(name), "weir_kernel_mul_mat_%s",
			 d < DTYPES - QUANTISED ? dtypes[d].kernel : "quants");
		is_int(missing + !counts(name, &k), 0,
		       "%s: mat-vecs computed all, and plain kernels nothing",
		       dtypes[d].name);
	}
}

int main(void)
{
	struct fakecuda_counts found;
	struct weir_dev *dev;

	open_fake();
	fake.set("SMS", "1");
	weir = open_cuda();
	dev = gpu(weir);
	need_compute(dev);
	plan(5 * DTYPES - 3 * FEW + QUANTISED + 3);
	must(weir_sched_new(&dev, 1, NULL, &sched));
	must(weir_graph_new(&g));
	for (unsigned d = 0; d < DTYPES; d++)
		bits(d);
	for (unsigned d = DTYPES - QUANTISED; d < DTYPES; d++)
		rounding(d);
	room();
	kernels();
	fake.counts(&found);
	is_int(found.findings, 0, "the checker found nothing in the kernels");
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_close(weir);
	return done_testing();
}
