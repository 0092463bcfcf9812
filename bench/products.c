/* SPDX-License-Identifier: MIT */
/*
 * bench/products --device CUDA0: products and attention on a GPU. One column
 * (decode), and attention of one token, against a kernel that only reads as
 * much memory, in turn in the same process; 512 columns (a prompt), and
 * attention of 2048 tokens, without a limit; our tiles against cuBLASLt. See
 * COMPUTE.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>
#include <weir/ops.h>

#include "bus.h"
#include "must.h"
#include "place.h"
#include "raw.h"
#include "read_gpu.h"
#include "result.h"

#define MATRICES 4u /* so that none of a matrix is left in a cache */
#define ROUNDS 8u   /* of the matrices in a run */
#define MAX_PAIRS 101u
#define RANDOM ((size_t)16 << 20)

static const struct row {
	const char *name;
	enum weir_dtype dtype;
	double goal; /* of the rate of the read kernel; 0: none */
} rows[] = {
	{ "matvec-bf16", WEIR_DTYPE_BF16, 0.88 },
	{ "matvec-q8_0", WEIR_DTYPE_Q8_0, 0.85 },
	{ "matvec-q4_0", WEIR_DTYPE_Q4_0, 0.80 },
	{ "matvec-q4_k", WEIR_DTYPE_Q4_K, 0.80 },
	{ "matvec-q6_k", WEIR_DTYPE_Q6_K, 0 },
	{ "matvec-f16", WEIR_DTYPE_F16, 0.88 },
	{ "matvec-f32", WEIR_DTYPE_F32, 0.88 },
	{ "prompt-bf16", WEIR_DTYPE_BF16, 0 },
	{ "prompt-q8_0", WEIR_DTYPE_Q8_0, 0 },
	{ "prompt-q4_0", WEIR_DTYPE_Q4_0, 0 },
	{ "prompt-q4_k", WEIR_DTYPE_Q4_K, 0 },
	{ "prompt-q6_k", WEIR_DTYPE_Q6_K, 0 },
	{ "prompt-f16", WEIR_DTYPE_F16, 0 },
	{ "library-bf16", WEIR_DTYPE_BF16, 0 },
	{ "library-f16", WEIR_DTYPE_F16, 0 },
	{ "library-cubed", WEIR_DTYPE_BF16, 0 },
	{ "attend-bf16", WEIR_DTYPE_BF16, 0.70 },
	{ "attend-f16", WEIR_DTYPE_F16, 0.70 },
	{ "attend-f32", WEIR_DTYPE_F32, 0.70 },
	{ "attend-prompt-bf16", WEIR_DTYPE_BF16, 0 },
	{ "attend-prompt-f16", WEIR_DTYPE_F16, 0 },
};
#define N_ROWS (sizeof(rows) / sizeof(*rows))

static struct {
	const char *device, *row, *json;
	unsigned pairs;
	bool tiny;
} args = { .device = "CUDA0", .row = "", .pairs = 15 };

static struct weir *weir;
static struct weir_dev *dev;
static unsigned char *noise;

/* Products of @matrices [m, k] with @columns columns, as one run. */
struct work {
	struct weir_tensor weight[MATRICES];
	struct weir_buf *buf;
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_run *run;
	size_t each; /* bytes of a matrix */
	unsigned n;  /* products */
	double flops;
};

static void fill_noise(void)
{
	uint64_t x = 88172645463325252u;

	noise = malloc(RANDOM);
	if (!noise)
		die("no memory");
	for (size_t i = 0; i < RANDOM; i += 8) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(noise + i, &x, 8);
	}
}

/* A GPU takes more power to read random bytes than equal ones. */
static void weights_new(struct work *w, enum weir_dtype dtype, int64_t m,
			int64_t k)
{
	const int64_t shape[] = { m, k };
	struct weir_buft *buft;

	for (unsigned i = 0; i < MATRICES; i++)
		must(weir_tensor_init(&w->weight[i], dtype, 2, shape));
	must(weir_tensor_bytes(&w->weight[0], &w->each));
	must(weir_dev_buft(dev, WEIR_MEM_DEVICE, &buft));
	must(weir_tensors_alloc(buft, w->weight, MATRICES, &w->buf));
	for (unsigned i = 0; i < MATRICES; i++) {
		for (size_t at = 0, n; at < w->each; at += n) {
			n = w->each - at < RANDOM ? w->each - at : RANDOM;
			must(weir_tensor_set(&w->weight[i], at, noise, n));
		}
	}
}

/* Of attention: heads of q, of k and v, and elements of each. */
#define HEADS 32
#define HEADS_K 8
#define HEAD 128

static bool attends(const struct row *row)
{
	return !strncmp(row->name, "attend", 6);
}

/* Attention of @tokens in the rows of @x to k and v in the @m rows of @a. */
static struct weir_node *attention(struct weir_graph *g, struct weir_node *a,
				   struct weir_node *x, int64_t m,
				   int64_t tokens)
{
	const struct weir_op_attention o = { .causal = 1 };
	const int64_t q[] = { 1, HEADS, tokens, HEAD };
	const int64_t kv[] = { 2, HEADS_K, m / HEADS_K / 2, HEAD };

	a = weir_reshape(g, a, 4, kv);
	return weir_attention(g, weir_reshape(g, x, 4, q),
			      weir_slice(g, a, 0, 0, 1),
			      weir_slice(g, a, 0, 1, 1), NULL, &o);
}

static bool is_cubed(const struct row *row)
{
	return !strcmp(row->name, "library-cubed");
}

/* The columns: BF16 for the cubed product, which then converts nothing. */
static void columns_set(struct weir_run *run, struct weir_node *in, bool bf16,
			size_t n)
{
	float *x = calloc(n, sizeof(*x));
	uint16_t *half = (uint16_t *)x;

	if (!x)
		die("no memory");
	for (size_t i = 0; i < n; i++) {
		float v = (float)(i % 113) / 113 - 0.5f;
		uint32_t bits;

		memcpy(&bits, &v, sizeof(bits));
		if (bf16)
			half[i] = (uint16_t)(bits >> 16);
		else
			x[i] = v;
	}
	must(weir_run_input(run, in, x, n * (bf16 ? 2 : 4)));
	free(x);
}

static void work_new(struct work *w, const struct row *row, int64_t m,
		     int64_t k, int64_t columns, unsigned rounds)
{
	struct weir_sched_opts o = { .size = sizeof(o) };
	const int64_t shape[] = { columns, k };
	struct weir_graph *g;
	struct weir_node *in;

	memset(w, 0, sizeof(*w));
	weights_new(w, row->dtype, m, k);
	must(weir_graph_new(&g));
	in = weir_graph_input(g, "x",
			      is_cubed(row) ? WEIR_DTYPE_BF16 : WEIR_DTYPE_F32,
			      2, shape);
	w->n = MATRICES * rounds;
	for (unsigned i = 0; i < w->n; i++) {
		struct weir_node *a =
			weir_graph_leaf(g, &w->weight[i % MATRICES], NULL);

		weir_graph_output(g, attends(row) ? attention(g, a, in, m,
							      columns / HEADS)
						  : weir_mul_mat(g, a, in));
	}
	must(weir_graph_error(g, NULL));
	must(weir_sched_new(&dev, 1, &o, &w->sched));
	must(weir_exec_new(w->sched, g, &w->exec));
	must(weir_run_new(w->exec, &w->run));
	columns_set(w->run, in, is_cubed(row), (size_t)(columns * k));
	weir_graph_free(g);
	w->flops = 2.0 * (double)m * (double)k * (double)columns * w->n;
}

static void work_free(struct work *w)
{
	weir_run_free(w->run);
	weir_exec_free(w->exec);
	weir_sched_free(w->sched);
	weir_buf_free(w->buf);
}

static double work_time(struct work *w)
{
	double begun = raw_now();

	must(weir_run_start(w->run));
	must(weir_run_wait(w->run, -1));
	return raw_now() - begun;
}

/* The second run builds a CUDA graph. */
static void warm_up(struct work *w)
{
	for (int i = 0; i < 3; i++)
		work_time(w);
}

/* The time of a kernel that reads as much as a run of @w does. */
static double read_time(struct work *w)
{
	return read_gpu(w->n);
}

/*
 * Add a row of rates: that of the runs of @own, and that of its limit, whose
 * time is @time(@other). They are measured in turn. Both do the same @amount:
 * gigabytes, if @unit is GB/s.
 */
static void compare(const struct row *row, double amount, const char *unit,
		    struct work *own, const char *limit,
		    double (*time)(struct work *), struct work *other)
{
	static double limits[MAX_PAIRS], values[MAX_PAIRS], ratios[MAX_PAIRS];
	struct result r = { .unit = unit,
			    .judged = row->goal ? GOAL_RATIO : GOAL_NONE,
			    .goal = row->goal };
	struct spread s;

	warm_up(own);
	for (unsigned i = 0; i < args.pairs; i++) {
		double mine, theirs;

		/* In turn, and the other way round. */
		if (i % 2) {
			mine = work_time(own);
			theirs = time(other);
		} else {
			theirs = time(other);
			mine = work_time(own);
		}
		limits[i] = amount / theirs;
		values[i] = amount / mine;
		ratios[i] = theirs / mine;
	}
	snprintf(r.name, sizeof(r.name), "%s", row->name);
	snprintf(r.limit, sizeof(r.limit), "%s", limit);
	r.limit_value = spread_of(limits, args.pairs).mid;
	r.value = spread_of(values, args.pairs).mid;
	s = spread_of(ratios, args.pairs);
	r.ratio = s.mid;
	r.low = s.low;
	r.high = s.high;
	result_add(&r);
}

static void matvec(const struct row *row)
{
	const int64_t k = attends(row) ? HEAD : args.tiny ? 512 : 4096;
	const size_t bytes = args.tiny ? 65536 : (size_t)512 << 20;
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct work w;
	int64_t m;

	must(weir_dtype_info(row->dtype, &info));
	m = (int64_t)(bytes / (size_t)(k / info.block * info.bytes)) / 32 * 32;
	work_new(&w, row, m, k, attends(row) ? HEADS : 1,
		 args.tiny ? 1 : ROUNDS);
	read_gpu_open(args.device, w.each / 16 * 16, MATRICES, noise, RANDOM);
	printf("# %s: %u matrices of %lld x %lld; the limit has %s\n",
	       row->name, MATRICES, (long long)m, (long long)k,
	       read_gpu_grid());
	compare(row, (double)w.each * w.n / 1e9, "GB/s", &w,
		"a kernel that reads", read_time, &w);
	read_gpu_close();
	work_free(&w);
}

static void prompt(const struct row *row)
{
	const int64_t tokens = args.tiny ? 32 : attends(row) ? 2048 : 512;
	const int64_t k = attends(row) ? HEAD : args.tiny ? 256 : 4096;
	const int64_t m = attends(row) ? 2 * HEADS_K * tokens
			  : args.tiny  ? 64
				       : 14336;
	static double value[MAX_PAIRS];
	struct result r = { .unit = "TFLOPS" };
	struct work w;

	work_new(&w, row, m, k, attends(row) ? HEADS * tokens : tokens, 1);
	/* Products with k, and with v, of half of the pairs of positions. */
	if (attends(row))
		w.flops = 2.0 * (double)tokens * (double)tokens * HEAD * HEADS *
			  w.n;
	warm_up(&w);
	for (unsigned i = 0; i < args.pairs; i++)
		value[i] = w.flops / work_time(&w) / 1e12;
	snprintf(r.name, sizeof(r.name), "%s", row->name);
	r.value = spread_of(value, args.pairs).mid;
	result_add(&r);
	work_free(&w);
}

/* The same device in a root of its own, where tiles compute all products. */
static struct weir *open_without_library(struct weir_dev **ret_dev)
{
	struct weir_opts opts = WEIR_OPTS_INIT;
	struct weir *without;
	char text[80];

	opts.module_path = place_modules();
	must(weir_open(&opts, &without));
	snprintf(text, sizeof(text), "%s:cublaslt=no", args.device);
	must(weir_dev_configure(without, text, ret_dev));
	return without;
}

static void library(const struct row *row)
{
	const int64_t columns = args.tiny ? 64 : is_cubed(row) ? 8192 : 512;
	const int64_t m = args.tiny ? 64 : is_cubed(row) ? 8192 : 14336;
	const int64_t k = args.tiny ? 256 : is_cubed(row) ? 8192 : 4096;
	static struct weir_lane lane;
	struct work by_library, by_tiles;
	struct weir_dev *with = dev;
	struct weir *without;

	work_new(&by_library, row, m, k, columns, 1);
	lane.size = sizeof(lane);
	must(weir_exec_lane(by_library.exec, 0, &lane));
	printf("# %s: %s\n", row->name, lane.library);
	if (lane.by_library) {
		without = open_without_library(&dev);
		work_new(&by_tiles, row, m, k, columns, 1);
		warm_up(&by_library);
		compare(row, by_tiles.flops / 1e12, "TFLOPS", &by_tiles,
			"cuBLASLt", work_time, &by_library);
		work_free(&by_tiles);
		weir_close(without);
		dev = with;
	} else {
		result_skip(row->name, lane.library);
	}
	work_free(&by_library);
}

static void usage(FILE *to)
{
	fprintf(to,
		"usage: products [--device CUDA0] [--row PREFIX] [--pairs N] [--tiny]\n"
		"                [--json FILE]\n"
		"rows:");
	for (size_t i = 0; i < N_ROWS; i++)
		fprintf(to, " %s", rows[i].name);
	fprintf(to, "\n");
	exit(to == stderr ? 2 : 0);
}

static void take_args(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--help"))
			usage(stdout);
		if (!strcmp(argv[i], "--tiny")) {
			args.tiny = true;
			continue;
		}
		i++;
		if (!next)
			usage(stderr);
		else if (!strcmp(argv[i - 1], "--device"))
			args.device = next;
		else if (!strcmp(argv[i - 1], "--row"))
			args.row = next;
		else if (!strcmp(argv[i - 1], "--json"))
			args.json = next;
		else if (!strcmp(argv[i - 1], "--pairs"))
			args.pairs = (unsigned)atoi(next);
		else
			usage(stderr);
	}
	if (args.pairs < 1 || args.pairs > MAX_PAIRS)
		die("--pairs 1 to %u", MAX_PAIRS);
}

int main(int argc, char **argv)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	struct weir_opts opts = WEIR_OPTS_INIT;
	unsigned n = 0;

	take_args(argc, argv);
	bus_open(args.device);
	opts.module_path = place_modules();
	must(weir_open(&opts, &weir));
	must(weir_dev_find(weir, args.device, &dev));
	must(weir_dev_info(dev, &info));
	if (!(info.caps & WEIR_CAP_COMPUTE))
		die("%s does not compute: weir devices says why", args.device);
	if (args.tiny || bus_is_stand_in())
		result_judge_nothing();
	printf("# %s\n", bus_name());
	fill_noise();
	result_head();
	for (size_t i = 0; i < N_ROWS; i++) {
		if (strncmp(rows[i].name, args.row, strlen(args.row)))
			continue;
		n++;
		if (strstr(rows[i].name, "library"))
			library(&rows[i]);
		else if (strstr(rows[i].name, "prompt"))
			prompt(&rows[i]);
		else
			matvec(&rows[i]);
	}
	if (!n)
		usage(stderr);
	if (args.json)
		result_write_json(args.json);
	free(noise);
	weir_close(weir);
	return result_all_ok() ? 0 : 1;
}
