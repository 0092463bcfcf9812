/* SPDX-License-Identifier: MIT */
/*
 * Products on the CPU, through segments and a team of threads: one column
 * (decode) against the best loop that reads the same memory, and many columns
 * (a prompt) against a bare sgemm of OpenBLAS if it is installed. What is
 * compared takes turns.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

#include "core/sys.h"
#include "kernels/segment.h"
#include "kernels/team.h"
#include "raw.h"
#include "reading.h"
#include "result.h"

#define ROUNDS 5u
#define BYTES ((size_t)400 << 20) /* beyond the caches */
#define MOST 4096u                /* matrices */
#define PROMPT 512

static struct weir *root;
static struct weir__team *team;
static unsigned char *memory;
static float *columns, *results;

static const enum weir_dtype dtypes[] = {
	WEIR_DTYPE_F32,    WEIR_DTYPE_F16,     WEIR_DTYPE_BF16,
	WEIR_DTYPE_Q8_0,   WEIR_DTYPE_Q4_0,    WEIR_DTYPE_Q4_K,
	WEIR_DTYPE_Q5_K,   WEIR_DTYPE_Q6_K,    WEIR_DTYPE_Q3_K,
	WEIR_DTYPE_IQ4_NL, WEIR_DTYPE_MXFP4,   WEIR_DTYPE_NVFP4,
	WEIR_DTYPE_TQ1_0,  WEIR_DTYPE_TQ2_0,   WEIR_DTYPE_IQ1_S,
	WEIR_DTYPE_IQ1_M,  WEIR_DTYPE_IQ2_XXS, WEIR_DTYPE_IQ2_XS,
	WEIR_DTYPE_IQ2_S,  WEIR_DTYPE_IQ3_XXS, WEIR_DTYPE_IQ3_S
};
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

static __attribute__((noreturn)) void fail(const char *what)
{
	fprintf(stderr, "bench/matmul: %s: %s\n", what, weir_error());
	exit(1);
}

static struct weir_dtype_info info_of(enum weir_dtype dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	if (weir_dtype_info(dtype, &info) < 0)
		fail("dtype");
	return info;
}

static struct weir_operand operand(void *data, enum weir_dtype dtype,
				   int64_t rows, int64_t k)
{
	struct weir_dtype_info info = info_of(dtype);
	struct weir_operand t = {
		.data = data, .dtype = dtype, .ndim = 2, .shape = { rows, k }
	};

	t.stride[1] = info.bytes;
	t.stride[0] = k / info.block * info.bytes;
	return t;
}

/* Products of @n matrices [m, k] with @cols columns, as one segment. */
struct work {
	struct weir_backend_node node[MOST];
	struct weir_operand src[MOST][2];
	const struct weir_backend_node *list[MOST];
	struct weir_backend_compute compute;
	struct weir__segment_cpu *segment;
	size_t bytes; /* bytes of the matrices */
	double flops;
};

static struct work *work_new(enum weir_dtype dtype, int64_t m, int64_t k,
			     int64_t cols, size_t n)
{
	struct work *w = calloc(1, sizeof(*w));
	size_t each = (size_t)(m * operand(NULL, dtype, 1, k).stride[0]);
	size_t workspace;
	static const struct weir_op_mul_mat params;

	for (size_t i = 0; i < n; i++) {
		struct weir_backend_node *node = &w->node[i];

		w->src[i][0] = operand(memory + i * each, dtype, m, k);
		w->src[i][1] = operand(columns, WEIR_DTYPE_F32, cols, k);
		node->size = sizeof(*node);
		node->op = WEIR_OP_MUL_MAT;
		node->n_src = 2;
		node->params = &params;
		node->src = w->src[i];
		node->dst = operand(results, WEIR_DTYPE_F32, cols, m);
		w->list[i] = node;
	}
	if (weir__segment_prepare(team, w->list, n, &w->segment, &workspace) <
	    0)
		fail("prepare");
	w->compute.size = sizeof(w->compute);
	w->compute.prepared = w->segment;
	w->compute.workspace = malloc(workspace + 1);
	w->compute.n = n;
	w->bytes = n * each;
	w->flops = 2.0 * (double)m * (double)k * (double)cols * (double)n;
	return w;
}

static void work_free(struct work *w)
{
	weir__segment_release(w->segment);
	free(w->compute.workspace);
	free(w);
}

static double work_time(struct work *w)
{
	double start = raw_now();

	if (weir__segment_run(&w->compute) < 0)
		fail("run");
	return raw_now() - start;
}

static double read_time(size_t bytes)
{
	struct reading range = { memory, bytes };

	return reading_best(&range, 1, weir__team_size(team), &bytes);
}

static void decode(enum weir_dtype dtype, int64_t m, int64_t k)
{
	size_t each = (size_t)(m * operand(NULL, dtype, 1, k).stride[0]);
	struct work *w = work_new(dtype, m, k, 1, BYTES / each);
	double rate[ROUNDS], ratio[ROUNDS];

	work_time(w);
	for (unsigned i = 0; i < ROUNDS; i++) {
		double own = work_time(w), limit = read_time(w->bytes);

		rate[i] = (double)w->bytes / own * 1e-9;
		ratio[i] = limit / own;
	}
	printf("decode  %-7s %5lld x %5lld  %6.2f GB/s  %.2f of a read\n",
	       info_of(dtype).name, (long long)m, (long long)k,
	       spread_of(rate, ROUNDS).mid, spread_of(ratio, ROUNDS).mid);
	work_free(w);
}

/* cblas_sgemm(order, transposes, m, n, k, ...) of OpenBLAS. */
typedef void sgemm_fn(int, int, int, int, int, int, float, const float *, int,
		      const float *, int, float, float *, int);
static sgemm_fn *sgemm;

static double sgemm_time(int64_t m, int64_t k, int64_t cols)
{
	double start = raw_now();

	sgemm(101, 111, 112, (int)cols, (int)m, (int)k, 1, columns, (int)k,
	      (const float *)(void *)memory, (int)k, 0, results, (int)m);
	return raw_now() - start;
}

static void prompt(enum weir_dtype dtype, int64_t m, int64_t k, int64_t cols)
{
	struct work *w = work_new(dtype, m, k, cols, 1);
	double rate[ROUNDS], ratio[ROUNDS] = { 0 };

	work_time(w);
	for (unsigned i = 0; i < ROUNDS; i++) {
		double own = work_time(w);

		rate[i] = w->flops / own * 1e-9;
		if (sgemm)
			ratio[i] = sgemm_time(m, k, cols) / own;
	}
	printf("prompt  %-7s %5lld x %5lld, %3lld columns  %7.1f GFLOPS",
	       info_of(dtype).name, (long long)m, (long long)k, (long long)cols,
	       spread_of(rate, ROUNDS).mid);
	printf(sgemm ? "  %.2f of sgemm\n" : "\n",
	       spread_of(ratio, ROUNDS).mid);
	work_free(w);
}

static void open_all(unsigned threads)
{
	struct weir_threads opts = { .size = sizeof(opts), .count = threads };
	void *blas = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);

	if (blas)
		*(void **)&sgemm = dlsym(blas, "cblas_sgemm");
	if (weir_open(NULL, &root) < 0 ||
	    weir__team_new(root, &opts, (struct weir__share){ 0, 1 }, &team) <
		    0)
		fail("open");
	memory = aligned_alloc((size_t)2 << 20, BYTES);
	columns = calloc(PROMPT * 16384, sizeof(*columns));
	results = calloc(PROMPT * 16384, sizeof(*results));
	if (!memory || !columns || !results)
		fail("memory");
	weir__sys_prefer_huge(memory, BYTES);
	memset(memory, 0x11, BYTES);
	for (size_t i = 0; i < PROMPT * 16384; i++)
		columns[i] = (float)(i % 113) / 113 - 0.5f;
}

int main(int argc, char **argv)
{
	const char *row = argc > 1 ? argv[1] : "";

	open_all(argc > 2 ? (unsigned)atoi(argv[2]) : 0);
	printf("%u threads\n", weir__team_size(team));
	for (size_t i = 0; i < DTYPES && !strchr(row, 'p'); i++) {
		decode(dtypes[i], 2048, 5632);
		decode(dtypes[i], 5632, 2048);
	}
	for (size_t i = 0; i < DTYPES && !strchr(row, 'd'); i++) {
		prompt(dtypes[i], 5632, 2048, PROMPT);
		prompt(dtypes[i], 2048, 5632, PROMPT);
	}
	for (int64_t n = 2; n <= 16 && strchr(row, 'n'); n += n < 8 ? 1 : 8)
		for (size_t i = 0; i < DTYPES; i++)
			prompt(dtypes[i], 5632, 2048, n);
	weir__team_free(team);
	weir_close(root);
	return 0;
}
