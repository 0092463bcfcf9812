/* SPDX-License-Identifier: MIT */
/*
 * Products and attention that are batch-invariant: the bits of a row's result
 * are the same whatever is computed with it, by any number of threads.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weir.h>

#include "dtypes.h"
#include "kernels/segment.h"
#include "kernels/team.h"
#include "numbers.h"
#include "tap.h"

#define ROWS 37
#define KEPT 40 /* different columns */
#define MOST 600
#define EXPERTS 3

static struct weir *root;
static struct weir__team *teams[2]; /* teams of 1 and of 3 threads */
static void *room(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	if (!p)
		bail("no memory");
	return memset(p, 0, (bytes + 127) / 64 * 64);
}

static struct weir_operand operand(void *data, enum weir_dtype dtype,
				   unsigned ndim, const int64_t *shape)
{
	struct weir_dtype_info info = info_of(dtype);
	struct weir_operand t = { .data = data, .dtype = dtype, .ndim = ndim };
	int64_t stride = info.bytes;

	for (unsigned i = ndim; i-- > 0;) {
		t.shape[i] = shape[i];
		t.stride[i] = stride;
		stride *= i + 1 == ndim ? shape[i] / info.block : shape[i];
	}
	return t;
}

static size_t bytes_of(const struct weir_operand *t)
{
	return (size_t)(t->shape[0] * t->stride[0]);
}

/* Blocks of random bytes, of those whose elements are of a usual size. */
static void fill(const struct weir_operand *t)
{
	struct weir_dtype_info info = info_of((enum weir_dtype)t->dtype);
	unsigned char *to = t->data;
	float x[256];
	bool usual;

	for (size_t i = 0; i < bytes_of(t) / info.bytes; i++) {
		do {
			usual = true;
			for (size_t j = 0; j < info.bytes; j++)
				to[i * info.bytes + j] =
					(unsigned char)random_bits();
			if (weir_convert(F32, x, (enum weir_dtype)t->dtype,
					 to + i * info.bytes, info.block) < 0)
				bail("%s", weir_error());
			for (size_t j = 0; j < info.block; j++)
				usual = usual && fabsf(x[j]) < 1e3f;
		} while (!usual);
	}
}

static void run(struct weir_backend_node *node, unsigned team)
{
	const struct weir_backend_node *list = node;
	struct weir__segment_cpu *segment;
	struct weir_backend_compute compute = { .size = sizeof(compute),
						.n = 1 };
	size_t workspace;

	node->size = sizeof(*node);
	if (weir__segment_prepare(teams[team], &list, 1, &segment, &workspace) <
	    0)
		bail("%s", weir_error());
	compute.prepared = segment;
	compute.workspace = room(workspace);
	if (weir__segment_run(&compute) < 0)
		bail("%s", weir_error());
	free(compute.workspace);
	weir__segment_release(segment);
}

/* A matrix, KEPT columns, and the bits of each of them alone. */
struct product {
	enum weir_dtype dtype;
	struct weir_op_mul_mat params;
	int64_t k;
	struct weir_operand a; /* [EXPERTS, ROWS, k] */
	float *b;
	float alone[EXPERTS][KEPT][ROWS];
};

/* Column number @c of a batch: another order than that of the KEPT ones. */
static unsigned which(unsigned c)
{
	return c * 7 % KEPT;
}

static void multiply(const struct product *p, unsigned expert, float *b,
		     unsigned n, float *result, unsigned team)
{
	unsigned char *a = p->a.data;
	struct weir_operand src[] = {
		operand(a + (int64_t)expert * p->a.stride[0], p->dtype, 2,
			D(ROWS, p->k)),
		operand(b, F32, 2, D(n, p->k)),
	};
	struct weir_backend_node node = { .op = WEIR_OP_MUL_MAT,
					  .n_src = 2,
					  .src = src,
					  .params = &p->params,
					  .dst = operand(result, F32, 2,
							 D(n, ROWS)) };

	run(&node, team);
}

/*
 * An odd number of blocks, over 1,024 elements; of floats, some after a vector.
 */
static void product_new(struct product *p, enum weir_dtype dtype,
			enum weir_precision precision)
{
	uint32_t block = info_of(dtype).block;

	p->dtype = dtype;
	p->params.precision = precision;
	p->k = block == 1 ? 1133 : (1056 / block / 2 * 2 + 1) * (int64_t)block;
	p->a = operand(NULL, dtype, 3, D(EXPERTS, ROWS, p->k));
	p->a.data = room(bytes_of(&p->a));
	fill(&p->a);
	p->b = room(KEPT * (size_t)p->k * sizeof(float));
	for (int64_t i = 0; i < KEPT * p->k; i++)
		p->b[i] = random_float();
	for (unsigned e = 0; e < EXPERTS; e++)
		for (unsigned c = 0; c < KEPT; c++)
			multiply(p, e, p->b + c * p->k, 1, p->alone[e][c],
				 c % 2);
}

static void product_free(struct product *p)
{
	free(p->a.data);
	free(p->b);
}

/* A batch of @n columns. */
static float *batch_of(const struct product *p, unsigned n)
{
	float *b = room(n * (size_t)p->k * sizeof(*b));

	for (unsigned c = 0; c < n; c++)
		memcpy(b + c * p->k, p->b + which(c) * p->k,
		       (size_t)p->k * sizeof(*b));
	return b;
}

static bool batch_is_same(const struct product *p, unsigned n)
{
	static float got[MOST][ROWS];
	float *b = batch_of(p, n);
	bool same = true;

	multiply(p, 0, b, n, got[0], n % 2);
	for (unsigned c = 0; c < n; c++)
		same = same &&
		       !memcmp(got[c], p->alone[0][which(c)], sizeof(got[c]));
	free(b);
	return same;
}

/* Tokens of two experts each; few columns for one expert, many for another. */
static bool experts_are_same(const struct product *p, unsigned tokens)
{
	static float got[MOST][2][ROWS];
	static int32_t ids[MOST][2];
	float *b = batch_of(p, tokens);
	struct weir_operand src[] = {
		p->a,
		operand(b, F32, 3, D(tokens, 1, p->k)),
		operand(ids, I32, 2, D(tokens, 2)),
	};
	struct weir_backend_node node = { .op = WEIR_OP_MUL_MAT_ID,
					  .n_src = 3,
					  .src = src,
					  .params = &p->params,
					  .dst = operand(got, F32, 3,
							 D(tokens, 2, ROWS)) };
	bool same = true;

	for (unsigned t = 0; t < tokens; t++) {
		ids[t][0] = t % 9 ? 0 : 1;
		ids[t][1] = (int32_t)(random_bits() % EXPERTS);
	}
	run(&node, tokens % 2);
	for (unsigned t = 0; t < tokens; t++)
		for (unsigned i = 0; i < 2; i++)
			same = same &&
			       !memcmp(got[t][i], p->alone[ids[t][i]][which(t)],
				       sizeof(got[t][i]));
	free(b);
	return same;
}

static void products(enum weir_dtype dtype, enum weir_precision precision)
{
	static const unsigned more[] = { 41, 64, 257, 512, 513, 600 };
	static const unsigned tokens[] = { 1, 2, 30, 301 };
	const char *how = precision == WEIR_PRECISION_F32 ? "F32" : "invariant";
	unsigned wrong = 0;
	struct product p;

	product_new(&p, dtype, precision);
	for (unsigned n = 1; n <= KEPT && !wrong; n++)
		wrong = batch_is_same(&p, n) ? 0 : n;
	for (unsigned i = 0; i < 6 && !wrong; i++)
		wrong = batch_is_same(&p, more[i]) ? 0 : more[i];
	if (!ok(!wrong,
		"%s products of %s: bits do not depend on the number of columns",
		how, info_of(dtype).name))
		diag("they differ with %u columns", wrong);
	wrong = 0;
	for (unsigned i = 0; i < 4 && !wrong; i++)
		wrong = experts_are_same(&p, tokens[i]) ? 0 : tokens[i];
	if (!ok(!wrong,
		"%s products of %s: bits do not depend on tokens of an expert",
		how, info_of(dtype).name))
		diag("they differ with %u tokens", wrong);
	product_free(&p);
}

#define POSITIONS 1300
#define HEADS 4
#define LENGTH 32 /* elements of a head */
#define TOKENS 150

/* The last tokens of POSITIONS, whose masks are causal. */
struct attention {
	struct weir_op_attention params;
	int64_t heads_k;
	float *q; /* [HEADS, TOKENS, LENGTH] */
	struct weir_operand k, v;
	float sinks[HEADS];
};

/*
 * Tokens from @first on, as if the cache had @room_ rows: [@tokens, HEADS,
 * LENGTH].
 */
static void attend(const struct attention *a, int64_t first, int64_t tokens,
		   int64_t rows, float *result, unsigned team)
{
	struct weir_operand src[5] = {
		operand(a->q + first * LENGTH, F32, 3,
			D(HEADS, tokens, LENGTH)),
		a->k,
		a->v,
		operand(room((size_t)(tokens * rows) * sizeof(float)), F32, 2,
			D(tokens, rows)),
		operand((void *)(uintptr_t)a->sinks, F32, 1, D(HEADS)),
	};
	struct weir_backend_node node = {
		.op = WEIR_OP_ATTENTION,
		.n_src = 5,
		.src = src,
		.params = &a->params,
		.dst = operand(result, F32, 3, D(tokens, HEADS, LENGTH))
	};
	float *mask = src[3].data;

	src[0].stride[0] = (int64_t)TOKENS * LENGTH * (int64_t)sizeof(float);
	src[1].shape[1] = src[2].shape[1] = rows;
	for (int64_t t = 0; t < tokens; t++)
		for (int64_t i = 0; i < rows; i++)
			if (i > POSITIONS - TOKENS + first + t)
				mask[t * rows + i] = -INFINITY;
	run(&node, team);
	free(mask);
}

static void attention_new(struct attention *a, int64_t heads_k,
			  enum weir_dtype dtype)
{
	a->heads_k = heads_k;
	a->params = (struct weir_op_attention){ .scale = 0.2f };
	a->params.precision = WEIR_PRECISION_INVARIANT;
	a->q = room(sizeof(*a->q) * HEADS * TOKENS * LENGTH);
	for (size_t i = 0; i < (size_t)HEADS * TOKENS * LENGTH; i++)
		a->q[i] = random_float();
	a->k = operand(NULL, dtype, 3, D(heads_k, POSITIONS, LENGTH));
	a->v = a->k;
	a->k.data = room(bytes_of(&a->k));
	a->v.data = room(bytes_of(&a->v));
	fill(&a->k);
	fill(&a->v);
	for (unsigned h = 0; h < HEADS; h++)
		a->sinks[h] = random_float();
}

static void attention_free(struct attention *a)
{
	free(a->q);
	free(a->k.data);
	free(a->v.data);
}

/* All tokens, @n at a time, with a cache that is no longer than they need. */
static bool chunks_are_same(const struct attention *a, int64_t n,
			    const float *want)
{
	float *got = room(sizeof(*got) * HEADS * TOKENS * LENGTH);
	bool same;

	for (int64_t t = 0; t < TOKENS; t += n) {
		int64_t some = TOKENS - t < n ? TOKENS - t : n;

		attend(a, t, some, POSITIONS - TOKENS + t + some,
		       got + t * HEADS * LENGTH, t / n % 2);
	}
	same = !memcmp(got, want, sizeof(*got) * HEADS * TOKENS * LENGTH);
	free(got);
	return same;
}

#define PAGE 100
#define PAGES (POSITIONS / PAGE)

/* The pages of @t in another order: page i becomes page i * 5 + 3. */
static struct weir_operand pages_moved(const struct weir_operand *t)
{
	struct weir_operand to = *t;
	size_t page = (size_t)(PAGE * t->stride[1]);

	to.data = room(bytes_of(t));
	for (int64_t h = 0; h < t->shape[0]; h++)
		for (int64_t i = 0; i < PAGES; i++)
			memcpy((char *)to.data + h * t->stride[0] +
				       (i * 5 + 3) % PAGES * (int64_t)page,
			       (char *)t->data + h * t->stride[0] +
				       i * (int64_t)page,
			       page);
	return to;
}

/*
 * The same tokens by a length and causal, with another sequence beside them.
 * They are [2, tokens, HEADS, LENGTH], the second sequence is ours.
 */
static void attend_beside(const struct attention *a, int64_t first,
			  int64_t tokens, float *result, unsigned team)
{
	const size_t n = (size_t)(HEADS * tokens * LENGTH);
	struct weir_op_attention params = a->params;
	int32_t lengths[] = { 700,
			      (int32_t)(POSITIONS - TOKENS + first + tokens) };
	int32_t pages[2][PAGES];
	float *q = room(2 * n * sizeof(*q)), *got = room(2 * n * sizeof(*q));
	struct weir_operand src[7] = {
		operand(q, F32, 4, D(2, HEADS, tokens, LENGTH)),
		pages_moved(&a->k),
		pages_moved(&a->v),
		{ 0 },
		operand((void *)(uintptr_t)a->sinks, F32, 1, D(HEADS)),
		operand(lengths, I32, 1, D(2)),
		operand(pages, I32, 2, D(2, PAGES)),
	};
	struct weir_backend_node node = {
		.op = WEIR_OP_ATTENTION,
		.n_src = 7,
		.src = src,
		.params = &params,
		.dst = operand(got, F32, 4, D(2, tokens, HEADS, LENGTH))
	};

	params.causal = 1;
	params.page = PAGE;
	for (int i = 0; i < PAGES; i++)
		pages[0][i] = pages[1][i] = (i * 5 + 3) % PAGES;
	for (size_t i = 0; i < n; i++)
		q[i] = random_float();
	for (int64_t h = 0; h < HEADS; h++)
		memcpy(q + n + (size_t)(h * tokens * LENGTH),
		       a->q + (h * TOKENS + first) * LENGTH,
		       (size_t)(tokens * LENGTH) * sizeof(*q));
	run(&node, team);
	memcpy(result, got + n, n * sizeof(*got));
	free(q);
	free(got);
	free(src[1].data);
	free(src[2].data);
}

/* All tokens, @n at a time, beside another sequence. */
static bool beside_is_same(const struct attention *a, int64_t n,
			   const float *want)
{
	float *got = room(sizeof(*got) * HEADS * TOKENS * LENGTH);
	bool same;

	for (int64_t t = 0; t < TOKENS; t += n)
		attend_beside(a, t, TOKENS - t < n ? TOKENS - t : n,
			      got + t * HEADS * LENGTH, t / n % 2);
	same = !memcmp(got, want, sizeof(*got) * HEADS * TOKENS * LENGTH);
	free(got);
	return same;
}

static void attentions(int64_t heads_k, enum weir_dtype dtype)
{
	static const int64_t sizes[] = { 1, 2, 3, 5, 17, 64, 149 };
	float *want = room(sizeof(*want) * HEADS * TOKENS * LENGTH);
	struct attention a;
	int64_t wrong = 0;

	attention_new(&a, heads_k, dtype);
	attend(&a, 0, TOKENS, POSITIONS, want, 0);
	for (unsigned i = 0; i < 7 && !wrong; i++)
		wrong = chunks_are_same(&a, sizes[i], want) ? 0 : sizes[i];
	if (!ok(!wrong,
		"invariant attention, %s, %d heads, %lld of k: bits do not depend on chunks",
		info_of(dtype).name, HEADS, (long long)heads_k))
		diag("they differ in chunks of %lld", (long long)wrong);
	wrong = 0;
	for (unsigned i = 2; i < 7 && !wrong; i++)
		wrong = beside_is_same(&a, sizes[i], want) ? 0 : sizes[i];
	if (!ok(!wrong,
		"invariant attention, %s, %d heads, %lld of k: bits do not depend on pages and other sequences",
		info_of(dtype).name, HEADS, (long long)heads_k))
		diag("they differ in chunks of %lld", (long long)wrong);
	attention_free(&a);
	free(want);
}

int main(void)
{
	struct weir_threads opts = { .size = sizeof(opts) };

	plan(0);
	if (weir_open(NULL, &root) < 0)
		bail("%s", weir_error());
	for (unsigned i = 0; i < 2; i++) {
		opts.count = 1 + 2 * i;
		if (weir__team_new(root, &opts, (struct weir__share){ 0, 1 },
				   &teams[i]) < 0)
			bail("%s", weir_error());
	}
	for (unsigned i = 0; i < WEIGHTS; i++)
		products(weights[i], WEIR_PRECISION_INVARIANT);
	products(WEIR_DTYPE_F16, WEIR_PRECISION_F32);
	products(WEIR_DTYPE_Q8_0, WEIR_PRECISION_F32);
	products(WEIR_DTYPE_Q4_K, WEIR_PRECISION_F32);
	attentions(4, F32);
	attentions(2, WEIR_DTYPE_F16);
	attentions(1, WEIR_DTYPE_Q8_0);
	for (unsigned i = 0; i < 2; i++)
		weir__team_free(teams[i]);
	weir_close(root);
	return done_testing();
}
