/* SPDX-License-Identifier: MIT */
/*
 * Products of one b in one launch, as q, k and v are, also with the norm, the
 * swiglu or the attention before them, which round b for them: they have the
 * bits of single launches, and need fewer. Products that cannot be computed at
 * once stay apart.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#define MOST 3 /* products */
#define COLUMNS 9
#define ROWS 61
#define K 2304
#define HEAD 128 /* elements of a head, in attention */
#define LONG 260 /* positions of attention that is split */
#define OTHER 17 /* where the other input begins in b */

/* Two roots, one of which computes each node by itself. */
static struct side {
	struct weir *weir;
	struct weir_sched *sched;
	struct weir_graph *g;
} plain, fused;

static uint64_t random_state = 1;

static unsigned char random_byte(void)
{
	random_state =
		random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned char)(random_state >> 56);
}

/* Random bytes whose elements are of a usual size. */
static void matrix_fill(enum weir_dtype dtype, unsigned char *a, size_t bytes)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	float v[256];
	bool usual;

	must(weir_dtype_info(dtype, &info));
	for (size_t at = 0; at < bytes; at += info.bytes) {
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
}

/* What is multiplied. */
struct products {
	unsigned n;
	enum weir_dtype dtype[MOST];
	int rows[MOST];
	int columns;
	bool transposed; /* b */
	bool others;     /* each product has a b of its own */
	bool chained; /* the last product's b is the result of another node */
	bool batches; /* of two matrices of b */
	bool biases;  /* a row is added to each product but the second */
	enum {
		NOTHING,
		NORM,
		SWIGLU,
		ATTENTION
	} before;      /* what makes b */
	int positions; /* of attention */
	enum weir_precision precision;
};

static unsigned char a[MOST][ROWS * K * 4];
/* b, and from OTHER on the other input, of which keys and values are most. */
static float b[OTHER + LONG * HEAD];
_Static_assert(sizeof(b) >= (OTHER + COLUMNS * K) * sizeof(*b), "no room");

struct seen {
	float y[MOST][2 * COLUMNS * ROWS];
	float sum[MOST][COLUMNS * ROWS]; /* with the bias */
	float b[COLUMNS * K];            /* as it was made */
	uint64_t kernels, launched;
};

static struct weir_node *b_make(struct weir_graph *g, const struct products *p,
				struct weir_node **input)
{
	const int64_t dims[] = { 2, p->columns, K };
	const int64_t other[] = { K, p->columns };

	*input = weir_graph_input(g, "b", WEIR_DTYPE_F32, p->batches ? 3 : 2,
				  p->transposed ? other
				  : p->batches  ? dims
						: dims + 1);
	return p->transposed ? weir_transpose(g, *input) : *input;
}

/* Of queries @x: [columns, heads * HEAD]. */
static struct weir_node *attention(struct weir_graph *g,
				   const struct products *p,
				   struct weir_node *x, struct weir_node **kv)
{
	const int64_t heads[] = { p->columns, K / HEAD, HEAD };
	const int64_t all[] = { 1, p->positions, HEAD };
	const int64_t rows[] = { p->columns, K }, by_heads[] = { 1, 0, 2 };
	const struct weir_op_attention o = { .scale = 0.01F };

	*kv = weir_graph_input(g, "kv", WEIR_DTYPE_F32, 3, all);
	x = weir_permute(g, weir_reshape(g, x, 3, heads), 3, by_heads);
	x = weir_attention(g, x, *kv, *kv, NULL, &o);
	return weir_reshape(g, x, 2, rows);
}

/* What makes b of an input and another one. */
static struct weir_node *before(struct weir_graph *g, const struct products *p,
				struct weir_node *x, struct weir_node **other)
{
	const int64_t dims[] = { p->before == NORM ? 1 : p->columns, K };

	if (p->before == ATTENTION)
		return attention(g, p, x, other);
	*other = weir_graph_input(g, "other", WEIR_DTYPE_F32, 2, dims);
	return p->before == NORM
		       ? weir_mul(g, weir_rms_norm(g, x, 1e-5F), *other)
		       : weir_swiglu(g, x, *other);
}

/* The run computes @part nodes at a time; 0: all. */
static void compute(struct side *s, const struct products *p, uint64_t part,
		    struct seen *seen)
{
	struct weir_node *an[MOST], *bn[MOST], *y[MOST], *x, *other = NULL;
	struct weir_node *bias[MOST] = { NULL }, *sum[MOST];
	const size_t b_bytes =
		sizeof(float) * K * (size_t)p->columns * (p->batches ? 2 : 1);
	struct weir_exec_info info = { .size = sizeof(info) };
	struct weir_lane lane = { .size = sizeof(lane) };
	struct weir_node *made;
	struct weir_exec *exec;
	struct weir_tensor t;
	struct weir_run *run;
	size_t bytes;

	memset(seen, 0, sizeof(*seen));
	x = b_make(s->g, p, &bn[0]);
	if (p->before)
		x = weir_graph_output(s->g, before(s->g, p, x, &other));
	made = x;
	for (unsigned i = 0; i < p->n; i++) {
		const int64_t dims[] = { p->rows[i], K };

		if (i && p->others)
			x = b_make(s->g, p, &bn[i]);
		if (p->chained && i + 1 == p->n)
			x = weir_scale(s->g, x, 2, 0);
		an[i] = weir_graph_input(s->g, "a", p->dtype[i], 2, dims);
		y[i] = weir_mul_mat_precision(s->g, an[i], x, p->precision);
		weir_graph_output(s->g, y[i]);
		if (!p->biases || i == 1)
			continue;
		bias[i] =
			weir_graph_input(s->g, "bias", WEIR_DTYPE_F32, 1, dims);
		sum[i] = weir_add(s->g, y[i], bias[i]);
		weir_graph_output(s->g, sum[i]);
	}
	must(weir_graph_error(s->g, NULL));
	must(weir_exec_new(s->sched, s->g, &exec));
	must(weir_exec_info(exec, &info));
	must(weir_run_new(exec, &run));
	for (unsigned i = 0; i < p->n; i++) {
		must(weir_tensor_bytes(weir_node_tensor(an[i]), &bytes));
		must(weir_run_input(run, an[i], a[i], bytes));
		if (!i || p->others)
			must(weir_run_input(run, bn[i], b, b_bytes));
		if (bias[i])
			must(weir_run_input(run, bias[i], b + i,
					    (size_t)p->rows[i] * sizeof(*b)));
	}
	if (other) {
		must(weir_tensor_bytes(weir_node_tensor(other), &bytes));
		must(weir_run_input(run, other, b + OTHER, bytes));
	}
	seen->launched = fake.calls("cuLaunchKernel");
	for (uint64_t i = 0; i < info.nodes; i += part ? part : info.nodes) {
		uint64_t n = part && part < info.nodes - i ? part
							   : info.nodes - i;

		must(weir_run_start_part(run, i, n));
		must(weir_run_wait(run, -1));
	}
	for (unsigned i = 0; i < p->n; i++) {
		must(weir_run_output(run, y[i], &t));
		must(weir_tensor_bytes(&t, &bytes));
		must(weir_tensor_get(&t, 0, seen->y[i], bytes));
		if (!bias[i])
			continue;
		must(weir_run_output(run, sum[i], &t));
		must(weir_tensor_get(&t, 0, seen->sum[i], bytes));
	}
	if (other) {
		must(weir_run_output(run, made, &t));
		must(weir_tensor_bytes(&t, &bytes));
		must(weir_tensor_get(&t, 0, seen->b, bytes));
	}
	seen->launched = fake.calls("cuLaunchKernel") - seen->launched;
	must(weir_exec_lane(exec, 0, &lane));
	seen->kernels = lane.kernels;
	weir_run_free(run);
	weir_exec_free(exec);
	weir_graph_reset(s->g);
}

static bool same(const struct seen *x, const struct seen *y)
{
	return !memcmp(x->y, y->y, sizeof(x->y)) &&
	       !memcmp(x->sum, y->sum, sizeof(x->sum)) &&
	       !memcmp(x->b, y->b, sizeof(x->b));
}

static void data_make(const struct products *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		struct weir_dtype_info info = { .size = sizeof(info) };

		must(weir_dtype_info(p->dtype[i], &info));
		matrix_fill(p->dtype[i], a[i],
			    (size_t)p->rows[i] * K / info.block * info.bytes);
	}
	for (int i = 0; i < OTHER + LONG * HEAD; i++)
		b[i] = (float)random_byte() / 64 - 2;
}

/* @single and @joined: kernels without and with joining. */
static void joins(const struct products *p, int single, int joined,
		  const char *title)
{
	static struct seen want, got;

	data_make(p);
	compute(&plain, p, 0, &want);
	compute(&fused, p, 0, &got);
	ok(want.y[0][0] != want.y[0][1] && same(&want, &got),
	   "%s: the bits are those of single launches", title);
	ok(want.kernels == (uint64_t)single && got.kernels == (uint64_t)joined,
	   "%s: %d kernels instead of %d", title, joined, single);
	if (want.kernels != (uint64_t)single || got.kernels != (uint64_t)joined)
		diag("%d kernels instead of %d", (int)got.kernels,
		     (int)want.kernels);
}

#define F32 WEIR_DTYPE_F32
#define F16 WEIR_DTYPE_F16
#define BF16 WEIR_DTYPE_BF16
#define Q8_0 WEIR_DTYPE_Q8_0
#define Q4_0 WEIR_DTYPE_Q4_0
#define Q4_K WEIR_DTYPE_Q4_K
#define Q6_K WEIR_DTYPE_Q6_K
#define Q2_K WEIR_DTYPE_Q2_K
#define Q5_K WEIR_DTYPE_Q5_K
#define IQ4_XS WEIR_DTYPE_IQ4_XS
#define IQ1_M WEIR_DTYPE_IQ1_M
#define IQ3_S WEIR_DTYPE_IQ3_S
#define TQ2_0 WEIR_DTYPE_TQ2_0

/* Each with all numbers of columns, and different splits of the rows. */
static void dtypes(void)
{
	static const struct {
		enum weir_dtype dtype;
		const char *name;
		bool bytes;
	} of[] = { { F32, "F32", false },
		   { F16, "F16", false },
		   { BF16, "BF16", false },
		   { Q8_0, "Q8_0", true },
		   { Q4_0, "Q4_0", true },
		   { Q4_K, "Q4_K", true },
		   { Q6_K, "Q6_K", true },
		   { WEIR_DTYPE_Q4_1, "Q4_1", true },
		   { WEIR_DTYPE_Q5_0, "Q5_0", true },
		   { WEIR_DTYPE_Q5_1, "Q5_1", true },
		   { WEIR_DTYPE_Q2_K, "Q2_K", true },
		   { WEIR_DTYPE_Q3_K, "Q3_K", true },
		   { WEIR_DTYPE_Q5_K, "Q5_K", true },
		   { WEIR_DTYPE_IQ4_NL, "IQ4_NL", true },
		   { WEIR_DTYPE_IQ4_XS, "IQ4_XS", true },
		   { WEIR_DTYPE_MXFP4, "MXFP4", true },
		   { WEIR_DTYPE_NVFP4, "NVFP4", true },
		   { IQ1_M, "IQ1_M", true },
		   { IQ3_S, "IQ3_S", true } };

	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		static const int columns[] = { 1, 2, 3, 8 };
		enum weir_dtype d = of[i].dtype;
		const int bytes = of[i].bytes;
		char title[64];

		for (unsigned j = 0; j < 4; j++) {
			struct products p = { .n = 3,
					      .dtype = { d, d, d },
					      .rows = { 61, 4, 29 },
					      .columns = columns[j] };

			snprintf(title, sizeof(title), "%s, %d columns",
				 of[i].name, columns[j]);
			joins(&p, 3 + 3 * bytes, 1 + bytes, title);
		}
	}
}

static void mixtures(void)
{
	struct products p = { .n = 3,
			      .dtype = { Q4_K, Q4_K, Q6_K },
			      .rows = { 32, 16, 16 },
			      .columns = 1 };

	joins(&p, 6, 4, "Q4_K, Q4_K and Q6_K");
	p.dtype[0] = Q6_K, p.dtype[1] = BF16;
	joins(&p, 5, 3, "a neighbour of another dtype is in between");
	p.n = 2, p.dtype[0] = F32, p.dtype[1] = F16;
	joins(&p, 2, 2, "F32 and F16");
	p.dtype[0] = p.dtype[1] = BF16, p.columns = 2, p.transposed = true;
	joins(&p, 4, 2, "b in another form is converted once");
}

/* The kernel before products rounds b for them. */
static void rounded(void)
{
	static const struct {
		enum weir_dtype dtype;
		const char *name;
	} of[] = {
		{ Q8_0, "Q8_0" },     { Q4_0, "Q4_0" },   { Q4_K, "Q4_K" },
		{ Q6_K, "Q6_K" },     { Q2_K, "Q2_K" },   { Q5_K, "Q5_K" },
		{ IQ4_XS, "IQ4_XS" }, { IQ1_M, "IQ1_M" }, { TQ2_0, "TQ2_0" },
	};
	struct products p = { .n = 3, .rows = { 61, 4, 29 } };
	char title[64];

	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		p.dtype[0] = p.dtype[1] = p.dtype[2] = of[i].dtype;
		for (p.columns = 1; p.columns < 8; p.columns += 3) {
			snprintf(title, sizeof(title), "norm, %s, %d columns",
				 of[i].name, p.columns);
			p.before = NORM;
			joins(&p, 8, 2, title);
			snprintf(title, sizeof(title), "swiglu, %s, %d columns",
				 of[i].name, p.columns);
			p.before = SWIGLU;
			joins(&p, 7, 2, title);
			p.before = ATTENTION;
			for (p.positions = LONG - 200; p.positions <= LONG;
			     p.positions += 200) {
				snprintf(title, sizeof(title),
					 "%d positions, %s, %d columns",
					 p.positions, of[i].name, p.columns);
				joins(&p, 7, 2, title);
			}
		}
	}
	p.columns = 1, p.before = NORM;
	p.dtype[0] = p.dtype[1] = Q4_K, p.dtype[2] = Q6_K;
	joins(&p, 8, 4, "norm, Q4_K and Q6_K");
	p.dtype[1] = Q6_K, p.dtype[2] = BF16;
	joins(&p, 7, 5, "norm, Q4_K, Q6_K and BF16");
	p.dtype[0] = Q8_0, p.dtype[1] = BF16, p.dtype[2] = Q4_0;
	joins(&p, 7, 4, "norm, Q8_0, BF16 and Q4_0, which share the bytes");
	p.dtype[0] = Q5_K, p.dtype[1] = BF16, p.dtype[2] = Q4_K;
	joins(&p, 7, 4, "norm, Q5_K, BF16 and Q4_K, which share the bytes");
	p.dtype[0] = IQ4_XS, p.dtype[1] = Q5_K, p.dtype[2] = Q2_K;
	joins(&p, 8, 6, "norm, IQ4_XS, Q5_K and Q2_K, with bytes of their own");
	p.dtype[0] = BF16, p.dtype[1] = p.dtype[2] = Q8_0;
	joins(&p, 7, 4, "norm, BF16 first");
	p.n = 1, p.dtype[0] = Q6_K;
	joins(&p, 4, 2, "norm and one product");
	p.before = SWIGLU;
	joins(&p, 3, 2, "swiglu and one product");
	p.before = ATTENTION, p.positions = LONG;
	joins(&p, 3, 2, "attention and one product");
	p.precision = WEIR_PRECISION_F32;
	joins(&p, 2, 2, "attention that is not rounded");
	p.before = SWIGLU;
	joins(&p, 2, 2, "swiglu that is not rounded");
}

/* Biases are added in the launch of the products, of up to 4 columns. */
static void biases(void)
{
	static const struct {
		enum weir_dtype dtype;
		const char *name;
		int bytes;
	} of[] = { { F32, "F32", 0 },    { BF16, "BF16", 0 },
		   { Q8_0, "Q8_0", 1 },  { Q4_K, "Q4_K", 1 },
		   { Q5_K, "Q5_K", 1 },  { IQ4_XS, "IQ4_XS", 1 },
		   { IQ3_S, "IQ3_S", 1 } };
	struct products p = { .n = 3, .rows = { 61, 4, 29 }, .biases = true };
	char title[64];

	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		const int bytes = of[i].bytes;

		p.dtype[0] = p.dtype[1] = p.dtype[2] = of[i].dtype;
		for (p.columns = 1; p.columns <= 4; p.columns++) {
			snprintf(title, sizeof(title), "biases, %s, %d columns",
				 of[i].name, p.columns);
			joins(&p, 5 + 3 * bytes, 1 + bytes, title);
		}
	}
	p.before = NORM;
	joins(&p, 10, 6, "norm, biases, 5 columns");
	p.columns = 1;
	joins(&p, 10, 2, "norm, biases, 1 column");
	p.n = 1;
	joins(&p, 5, 2, "norm, one product and its bias");
}

static void apart(void)
{
	struct products p = { .n = 2,
			      .dtype = { BF16, BF16 },
			      .rows = { 24, 16 },
			      .columns = 1 };

	p.others = true;
	joins(&p, 2, 2, "two of b");
	p.others = false, p.chained = true;
	joins(&p, 3, 3, "a b that was computed in between");
	p.chained = false, p.batches = true;
	joins(&p, 2, 2, "batches");
	p.batches = false, p.rows[1] = 3;
	joins(&p, 2, 2, "rows that only plain kernels read");
	p.rows[1] = 16, p.columns = 9;
	p.precision = WEIR_PRECISION_INVARIANT;
	joins(&p, 2, 2, "nine columns");
	p.columns = 1, p.dtype[0] = p.dtype[1] = Q8_0;
	p.precision = WEIR_PRECISION_F32;
	joins(&p, 2, 2, "b that is not rounded");
}

/* Ranges of nodes that cut the group, as arriving weights do. */
static void parts(void)
{
	struct products p = { .n = 3,
			      .dtype = { Q4_0, Q4_0, Q4_0 },
			      .rows = { 40, 24, 16 },
			      .columns = 1 };
	static struct seen want, got;

	p.positions = LONG;
	for (unsigned before = NOTHING; before <= ATTENTION; before++) {
		int wrong = 0;

		p.before = before;
		data_make(&p);
		compute(&plain, &p, 0, &want);
		for (uint64_t part = 1; part <= 5; part++) {
			compute(&fused, &p, part, &got);
			wrong += !same(&want, &got);
			/* A node by itself is not computed with others. */
			wrong += part == 1 && got.launched != want.kernels;
		}
		is_int(wrong, 0, "1 to 5 nodes at a time have the same bits%s",
		       before == NORM        ? ", a norm too"
		       : before == SWIGLU    ? ", a swiglu too"
		       : before == ATTENTION ? ", attention too"
					     : "");
	}
	for (unsigned order = 1; order <= 4; order++) {
		char text[8];

		snprintf(text, sizeof(text), "%u", order);
		fake.set("ORDER", text);
		compute(&fused, &p, 0, &got);
		ok(same(&want, &got), "so have blocks in another order (%u)",
		   order);
	}
	fake.set("ORDER", "0");
}

static void side_open(struct side *s, const char *params)
{
	struct weir_dev *dev;

	s->weir = open_cuda();
	must(weir_dev_configure(s->weir, params, &dev));
	must(weir_sched_new(&dev, 1, NULL, &s->sched));
	must(weir_graph_new(&s->g));
}

static void side_close(struct side *s)
{
	weir_graph_free(s->g);
	weir_sched_free(s->sched);
	weir_close(s->weir);
}

int main(void)
{
	struct fakecuda_counts counts;

	open_fake();
	/* Few rows keep a device of one SM busy. */
	fake.set("SMS", "1");
	side_open(&plain, "CUDA0:fuse=no");
	need_compute(gpu(plain.weir));
	side_open(&fused, "CUDA0:fuse=yes");
	plan(0);
	dtypes();
	mixtures();
	rounded();
	biases();
	apart();
	parts();
	fake.counts(&counts);
	is_int(counts.findings, 0, "the checker found nothing in the kernels");
	side_close(&plain);
	side_close(&fused);
	all_given_back("after all runs");
	return done_testing();
}
