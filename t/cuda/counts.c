/* SPDX-License-Identifier: MIT */
/*
 * Prints what the kernels of CUDA0 do in fixed graphs, as the stand-in counts
 * it: a line for each kernel and graph. cuda-counts.sh compares the lines with
 * counts.txt. All tensors are zeros: the counts do not depend on numbers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "tap.h"

#define KERNELS 512

static __typeof__(&fakecuda_kernel) kernel_counts;
static __typeof__(&fakecuda_kernel_name) kernel_name;
static __typeof__(&fakecuda_watch) watch;

static struct weir *weir;
static struct weir_sched *sched;
static struct weir_graph *g;
static struct weir_buf *bufs[16];
static unsigned n_bufs;
static size_t weight_bytes; /* of the bytes that are watched */

static struct fakecuda_kernel before[KERNELS];

/* A leaf of zeros in device memory. */
static struct weir_node *leaf(enum weir_dtype dtype, unsigned ndim, ...)
{
	int64_t shape[WEIR_MAX_DIMS];
	struct weir_tensor t, bytes;
	va_list dims;
	size_t n;
	int64_t all;
	void *zeros;

	va_start(dims, ndim);
	for (unsigned i = 0; i < ndim; i++)
		shape[i] = va_arg(dims, int);
	va_end(dims);
	must(weir_tensor_init(&t, dtype, ndim, shape));
	must(weir_tensors_alloc(gpu_memory(weir, WEIR_MEM_DEVICE), &t, 1,
				&bufs[n_bufs]));
	must(weir_tensor_bytes(&t, &n));
	all = (int64_t)n;
	must(weir_tensor_init(&bytes, WEIR_DTYPE_U8, 1, &all));
	bytes.buf = t.buf;
	bytes.offset = t.offset;
	zeros = calloc(1, n);
	must(weir_tensor_set(&bytes, 0, zeros, n));
	free(zeros);
	n_bufs++;
	return weir_graph_leaf(g, &t, NULL);
}

/* Loads from @node, a leaf, are counted apart. */
static struct weir_node *watched(struct weir_node *node)
{
	const struct weir_tensor *t = weir_node_tensor(node);
	uint64_t ptr;

	must(weir_cuda_buf_ptr(t->buf, &ptr));
	must(weir_tensor_bytes(t, &weight_bytes));
	watch(ptr + t->offset, weight_bytes);
	return node;
}

static struct weir_node *weights(enum weir_dtype dtype, int rows, int columns)
{
	return watched(leaf(dtype, 2, rows, columns));
}

static void counts_take(void)
{
	const char *name;

	memset(before, 0, sizeof(before));
	/* New kernels come first: the others keep their order. */
	for (unsigned i = 0; (name = kernel_name(i)) && i < KERNELS; i++)
		kernel_counts(name, &before[i]);
}

static unsigned kernels_so_far(void)
{
	unsigned n = 0;

	while (kernel_name(n))
		n++;
	return n;
}

#define LESS(member) (k.member - old->member)

static void counts_print(const char *title, unsigned n_before)
{
	const struct fakecuda_kernel none = { 0 }, *old;
	struct fakecuda_kernel k;
	unsigned n = kernels_so_far();

	for (unsigned i = 0; i < n; i++) {
		const char *name = kernel_name(i);

		old = i < n - n_before ? &none : &before[i - (n - n_before)];
		kernel_counts(name, &k);
		if (!LESS(launches))
			continue;
		printf("%-16s %-20s", name + strlen("weir_kernel_"), title);
		printf(" %6llu %8llu %7llu %8llu %7llu %7llu %7llu %6llu",
		       (unsigned long long)LESS(blocks),
		       (unsigned long long)LESS(instructions),
		       (unsigned long long)LESS(load_requests),
		       (unsigned long long)LESS(load_sectors),
		       (unsigned long long)LESS(store_sectors),
		       (unsigned long long)LESS(shared_requests),
		       (unsigned long long)LESS(bank_conflicts),
		       (unsigned long long)LESS(barriers));
		if (LESS(watched_sectors))
			printf(" %7.1f\n",
			       100 * (double)weight_bytes / 32 /
				       (double)LESS(watched_sectors));
		else
			printf("       -\n");
	}
}

static void count(struct weir_node *node, const char *fmt, ...)
{
	unsigned n = kernels_so_far();
	struct weir_exec *exec;
	struct weir_run *run;
	char title[64];
	va_list args;

	va_start(args, fmt);
	vsnprintf(title, sizeof(title), fmt, args);
	va_end(args);
	if (!node)
		must(weir_graph_error(g, NULL));
	weir_graph_output(g, node);
	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &exec));
	must(weir_run_new(exec, &run));
	weir_exec_free(exec);
	counts_take();
	must(weir_run_start(run));
	must(weir_run_wait(run, -1));
	counts_print(title, n);
	weir_run_free(run);
	weir_graph_reset(g);
	while (n_bufs)
		weir_buf_free(bufs[--n_bufs]);
	watch(0, 0);
}

static const char *name_of(enum weir_dtype dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	must(weir_dtype_info(dtype, &info));
	return info.name;
}

#define F32 WEIR_DTYPE_F32

static void products(void)
{
	const enum weir_dtype dtypes[] = { F32,
					   WEIR_DTYPE_F16,
					   WEIR_DTYPE_BF16,
					   WEIR_DTYPE_Q8_0,
					   WEIR_DTYPE_Q4_0,
					   WEIR_DTYPE_Q4_K,
					   WEIR_DTYPE_Q6_K,
					   WEIR_DTYPE_Q4_1,
					   WEIR_DTYPE_Q5_0,
					   WEIR_DTYPE_Q5_1,
					   WEIR_DTYPE_Q2_K,
					   WEIR_DTYPE_Q3_K,
					   WEIR_DTYPE_Q5_K,
					   WEIR_DTYPE_IQ4_NL,
					   WEIR_DTYPE_IQ4_XS,
					   WEIR_DTYPE_MXFP4,
					   WEIR_DTYPE_NVFP4,
					   WEIR_DTYPE_IQ1_S,
					   WEIR_DTYPE_IQ1_M,
					   WEIR_DTYPE_IQ2_XXS,
					   WEIR_DTYPE_IQ2_XS,
					   WEIR_DTYPE_IQ2_S,
					   WEIR_DTYPE_IQ3_XXS,
					   WEIR_DTYPE_IQ3_S,
					   WEIR_DTYPE_TQ1_0,
					   WEIR_DTYPE_TQ2_0,
					   WEIR_DTYPE_Q1_0,
					   WEIR_DTYPE_Q2_0 };
	const int columns[] = { 1, 2, 4, 8 };

	for (unsigned i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		enum weir_dtype d = dtypes[i];

		for (unsigned j = 0; j < 4; j++)
			count(weir_mul_mat(g, weights(d, 64, 4096),
					   leaf(F32, 2, columns[j], 4096)),
			      "%s[64,4096]x%d", name_of(d), columns[j]);
		/* Rows that begin anywhere, and end within a unit. */
		count(weir_mul_mat(g, weights(d, 32, 5376),
				   leaf(F32, 2, 1, 5376)),
		      "%s[32,5376]x1", name_of(d));
		/* Four warps for each row, or as many as it has units. */
		count(weir_mul_mat(g, weights(d, 12, 4096),
				   leaf(F32, 2, 1, 4096)),
		      "%s[12,4096]x1", name_of(d));
		/* Four times the first of four: as many bytes as all have. */
		count(weir_mul_mat_id(g, watched(leaf(d, 3, 4, 16, 4096)),
				      leaf(F32, 3, 2, 1, 4096),
				      leaf(WEIR_DTYPE_I32, 2, 2, 2)),
		      "%s[4,16,4096]ids", name_of(d));
		/* A row of 3 is none of the above. */
		count(weir_mul_mat(g, weights(d, 3, 1024),
				   leaf(F32, 2, 1, 1024)),
		      "%s[3,1024]x1", name_of(d));
	}
	count(weir_mul_mat(g, leaf(F32, 2, 16, 256),
			   leaf(WEIR_DTYPE_F16, 2, 1, 256)),
	      "F32[16,256]xF16");
}

/* Groups of nodes: what a layer of a model has besides attention. */
static void groups(void)
{
	const enum weir_dtype dtypes[] = { WEIR_DTYPE_BF16, WEIR_DTYPE_Q4_K };
	const struct weir_op_rope rope = { .mode = WEIR_ROPE_NEOX };
	struct weir_node *x, *pos, *set[2];

	for (unsigned i = 0; i < 2; i++) {
		enum weir_dtype d = dtypes[i];

		x = weir_add(g, leaf(F32, 2, 1, 4096), leaf(F32, 2, 1, 4096));
		x = weir_mul(g, weir_rms_norm(g, x, 1e-5f), leaf(F32, 1, 4096));
		weir_graph_output(g, weir_mul_mat(g, leaf(d, 2, 16, 4096), x));
		weir_graph_output(g, weir_mul_mat(g, leaf(d, 2, 16, 4096), x));
		count(weir_mul_mat(g, weights(d, 64, 4096), x), "%s:norm+qkv",
		      name_of(d));
		x = weir_swiglu(g, leaf(F32, 2, 1, 4096),
				leaf(F32, 2, 1, 4096));
		count(weir_mul_mat(g, weights(d, 64, 4096), x),
		      "%s:swiglu+down", name_of(d));
	}
	pos = leaf(WEIR_DTYPE_I32, 1, 1);
	for (unsigned i = 0; i < 2; i++) {
		x = weir_rope(g, leaf(F32, 3, 1, 8, 128), pos, NULL, &rope);
		weir_graph_output(g, x);
	}
	x = weir_reshape(g, x, 2, (const int64_t[]){ 1, 1024 });
	set[0] = weir_set_rows(g, leaf(WEIR_DTYPE_F16, 2, 8, 1024), x, pos);
	set[1] = weir_set_rows(g, leaf(WEIR_DTYPE_F16, 2, 8, 1024),
			       leaf(F32, 2, 1, 1024), pos);
	weir_graph_output(g, set[0]);
	count(set[1], "F16[8,1024]kv");
}

/* Products of more columns than mat-vecs have. */
static void tiles(void)
{
	const enum weir_dtype dtypes[] = { F32,
					   WEIR_DTYPE_F16,
					   WEIR_DTYPE_BF16,
					   WEIR_DTYPE_Q8_0,
					   WEIR_DTYPE_Q4_0,
					   WEIR_DTYPE_Q4_K,
					   WEIR_DTYPE_Q6_K,
					   WEIR_DTYPE_Q2_K,
					   WEIR_DTYPE_Q3_K,
					   WEIR_DTYPE_Q5_K,
					   WEIR_DTYPE_Q4_1,
					   WEIR_DTYPE_Q5_0,
					   WEIR_DTYPE_Q5_1,
					   WEIR_DTYPE_IQ4_NL,
					   WEIR_DTYPE_IQ4_XS,
					   WEIR_DTYPE_MXFP4,
					   WEIR_DTYPE_NVFP4 };

	for (unsigned i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
		enum weir_dtype d = dtypes[i];

		count(weir_mul_mat(g, weights(d, 64, 1024),
				   leaf(F32, 2, 32, 1024)),
		      "%s[64,1024]x32", name_of(d));
		/* Tiles of 128 rows, which 48 of them make worth it. */
		if (d != F32 && d != WEIR_DTYPE_F16)
			count(weir_mul_mat(g, weights(d, 6144, 256),
					   leaf(F32, 2, 64, 256)),
			      "%s[6144,256]x64", name_of(d));
	}
	count(weir_mul_mat_id(g, leaf(WEIR_DTYPE_BF16, 3, 4, 64, 512),
			      leaf(F32, 3, 32, 1, 512),
			      leaf(WEIR_DTYPE_I32, 2, 32, 2)),
	      "BF16[4,64,512]ids");
}

/* One column and many, with each precision. */
static void precisions(void)
{
	const enum weir_dtype dtypes[] = { F32, WEIR_DTYPE_BF16,
					   WEIR_DTYPE_Q8_0, WEIR_DTYPE_Q4_K };
	const char *const names[] = { "fast", "f32", "invariant" };
	const enum weir_precision precision[] = { WEIR_PRECISION_FAST,
						  WEIR_PRECISION_F32,
						  WEIR_PRECISION_INVARIANT };

	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < 3; j++)
			for (int columns = 1; columns <= 32; columns += 31)
				count(weir_mul_mat_precision(
					      g, leaf(dtypes[i], 2, 64, 1024),
					      leaf(F32, 2, columns, 1024),
					      precision[j]),
				      "%s:%s,%d", name_of(dtypes[i]), names[j],
				      columns);
}

static void sorts(void)
{
	count(weir_top_k(g, leaf(F32, 2, 4, 4096), 40), "top_k[4,4096]40");
	count(weir_argsort(g, leaf(F32, 2, 2, 5000), false), "argsort[2,5000]");
}

static void rows(void)
{
	const struct weir_op_rope rope = { .mode = WEIR_ROPE_NEOX };
	struct weir_node *a;

	count(weir_add(g, leaf(F32, 2, 4, 4096), leaf(F32, 2, 4, 4096)),
	      "add[4,4096]");
	count(weir_swiglu(g, leaf(F32, 2, 4, 4096), leaf(F32, 2, 4, 4096)),
	      "swiglu[4,4096]");
	count(weir_rms_norm(g, leaf(F32, 2, 4, 4096), 1e-5f),
	      "rms_norm[4,4096]");
	count(weir_norm(g, leaf(F32, 2, 4, 4096), 1e-5f), "norm[4,4096]");
	count(weir_soft_max(g, leaf(F32, 3, 4, 2, 1000), NULL, 1, 0),
	      "soft_max[4,2,1000]");
	count(weir_rope(g, leaf(F32, 3, 2, 8, 128), leaf(WEIR_DTYPE_I32, 1, 2),
			NULL, &rope),
	      "rope[2,8,128]");
	count(weir_cast(g, leaf(F32, 2, 4, 4096), WEIR_DTYPE_F16),
	      "cast[4,4096]");
	count(weir_cont(g, weir_transpose(g, leaf(F32, 2, 64, 64))),
	      "cont[64,64]t");
	a = leaf(WEIR_DTYPE_Q8_0, 2, 100, 1024);
	count(weir_get_rows(g, a, leaf(WEIR_DTYPE_I32, 1, 4)),
	      "get_rows[4,1024]");
	a = leaf(WEIR_DTYPE_F16, 2, 100, 1024);
	count(weir_set_rows(g, a, leaf(F32, 2, 4, 1024),
			    leaf(WEIR_DTYPE_I64, 1, 4)),
	      "set_rows[4,1024]");
	count(weir_sum(g, leaf(F32, 2, 4, 4096)), "sum[4,4096]");
	count(weir_sum_rows(g, leaf(F32, 2, 4, 4096)), "sum_rows[4,4096]");
	count(weir_argmax(g, leaf(F32, 2, 4, 4096)), "argmax[4,4096]");
}

/* Attention of one token to k and v, whose loads are counted apart. */
static struct weir_node *decode(enum weir_dtype dtype, int heads, int d)
{
	const int64_t shape[] = { 2, 2, 256, d };
	const struct weir_op_attention o = { 0 };
	struct weir_node *kv =
		weir_reshape(g, weights(dtype, 2 * 2 * 256, d), 4, shape);

	return weir_attention(g, leaf(F32, 4, 1, heads, 1, d),
			      weir_slice(g, kv, 0, 0, 1),
			      weir_slice(g, kv, 0, 1, 1), NULL, &o);
}

static void attention(void)
{
	const struct weir_op_attention causal = { .causal = 1 };
	const enum weir_dtype dtypes[] = { F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16,
					   WEIR_DTYPE_Q8_0 };

	for (unsigned i = 0; i < 4; i++) {
		enum weir_dtype d = dtypes[i];

		count(decode(d, 8, 128), "%s[8,1,128]256", name_of(d));
		count(decode(d, 2, 96), "%s[2,1,96]256", name_of(d));
	}
	for (unsigned i = 1; i < 4; i++)
		count(weir_attention(g, leaf(F32, 3, 2, 64, 128),
				     leaf(dtypes[i], 3, 1, 256, 128),
				     leaf(dtypes[i], 3, 1, 256, 128), NULL,
				     &causal),
		      "%s[2,64,128]256", name_of(dtypes[i]));
	count(weir_attention(g, leaf(F32, 3, 2, 64, 256),
			     leaf(WEIR_DTYPE_F16, 3, 1, 256, 256),
			     leaf(WEIR_DTYPE_F16, 3, 1, 256, 256), NULL,
			     &causal),
	      "F16[2,64,256]256");
}

int main(void)
{
	struct weir_dev *dev;

	open_fake();
	*(void **)&kernel_counts = fake_symbol("fakecuda_kernel");
	*(void **)&kernel_name = fake_symbol("fakecuda_kernel_name");
	*(void **)&watch = fake_symbol("fakecuda_watch");
	/* Few rows keep a device of one SM busy. */
	fake.set("SMS", "1");
	weir = open_cuda();
	dev = gpu(weir);
	must(weir_sched_new(&dev, 1, NULL, &sched));
	must(weir_graph_new(&g));
	products();
	groups();
	tiles();
	precisions();
	sorts();
	rows();
	attention();
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_close(weir);
	return 0;
}
