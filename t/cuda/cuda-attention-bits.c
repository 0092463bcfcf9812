/* SPDX-License-Identifier: MIT */
/*
 * The bits of attention on CUDA0: those of a query do not depend on the others,
 * on positions that are hidden, on the split of the work, or on the run. As a
 * sequence grows the same CUDA graph is launched.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

#define HEADS 4
#define HEADS_K 2
#define D 32
#define S 1200  /* positions of a cache */
#define MOST 10 /* sequences */
#define T 8     /* tokens, at most */

static struct weir *weir;
static struct weir_sched *sched;
static struct weir_graph *g;
static uint64_t random_state = 1;

static uint16_t *k, *v; /* [MOST, HEADS_K, S, D], BF16 */
static float *q;        /* [MOST, HEADS, T, D] */

static float random_float(void)
{
	random_state =
		random_state * 6364136223846793005u + 1442695040888963407u;
	return (float)(random_state >> 40) / (1 << 22) - 2;
}

static uint16_t random_half(void)
{
	float f = random_float();
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return (uint16_t)(bits >> 16);
}

static void numbers_make(void)
{
	size_t n = (size_t)MOST * HEADS_K * S * D;

	k = malloc(n * sizeof(*k));
	v = malloc(n * sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		k[i] = random_half();
		v[i] = random_half();
	}
	n = (size_t)MOST * HEADS * T * D;
	q = malloc(n * sizeof(*q));
	for (size_t i = 0; i < n; i++)
		q[i] = random_float();
}

/* Attention of the last @tokens of @n sequences. */
struct job {
	int n, tokens;
	int first;             /* of the tokens of q */
	const int32_t *length; /* NULL: @positions of all */
	int positions;
	const float *mask; /* [tokens, positions], or NULL */
	uint32_t precision;
	struct weir_exec *exec;
	struct weir_run *run;
	struct weir_node *lengths, *y;
};

/* Copy positions or tokens [first, first + n) of each head. */
static void *slices(const void *all, int heads, int of, int first, int n,
		    size_t bytes)
{
	unsigned char *to = malloc((size_t)heads * (size_t)n * bytes + 1);

	for (int h = 0; h < heads; h++)
		memcpy(to + (size_t)(h * n) * bytes,
		       (const unsigned char *)all +
			       (size_t)(h * of + first) * bytes,
		       (size_t)n * bytes);
	return to;
}

static void input_set(struct job *j, struct weir_node *node, void *data,
		      size_t bytes)
{
	must(weir_run_input(j->run, node, data, bytes));
	free(data);
}

static void job_make(struct job *j)
{
	const int64_t q_shape[] = { j->n, HEADS, j->tokens, D };
	const int64_t k_shape[] = { j->n, HEADS_K, j->positions, D };
	const int64_t mask_shape[] = { j->tokens, j->positions };
	const int64_t n = j->n;
	struct weir_op_attention p = { .causal = 1, .precision = j->precision };
	size_t kv = (size_t)(j->n * HEADS_K * j->positions) * D * 2;
	struct weir_node *src[7] = { NULL };

	src[0] = weir_graph_input(g, "q", WEIR_DTYPE_F32, 4, q_shape);
	src[1] = weir_graph_input(g, "k", WEIR_DTYPE_BF16, 4, k_shape);
	src[2] = weir_graph_input(g, "v", WEIR_DTYPE_BF16, 4, k_shape);
	if (j->mask)
		src[3] = weir_graph_input(g, "mask", WEIR_DTYPE_F32, 2,
					  mask_shape);
	if (j->length)
		src[5] = weir_graph_input(g, "lengths", WEIR_DTYPE_I32, 1, &n);
	j->lengths = src[5];
	j->y = weir_graph_op(g, WEIR_OP_ATTENTION, &p, sizeof(p), src, 7);
	/* A range of one launch has no CUDA graph. */
	j->y = weir_scale(g, j->y, 2, 0);
	weir_graph_output(g, j->y);
	must(weir_graph_error(g, NULL));
	must(weir_exec_new(sched, g, &j->exec));
	must(weir_run_new(j->exec, &j->run));
	input_set(j, src[0],
		  slices(q, j->n * HEADS, T, j->first, j->tokens, D * 4),
		  (size_t)(j->n * HEADS * j->tokens) * D * 4);
	input_set(j, src[1],
		  slices(k, j->n * HEADS_K, S, 0, j->positions, D * 2), kv);
	input_set(j, src[2],
		  slices(v, j->n * HEADS_K, S, 0, j->positions, D * 2), kv);
	if (j->mask)
		must(weir_run_input(j->run, src[3], j->mask,
				    (size_t)(j->tokens * j->positions) *
					    sizeof(float)));
	if (j->length)
		must(weir_run_input(j->run, j->lengths, j->length,
				    (size_t)j->n * sizeof(int32_t)));
}

static void job_run(struct job *j, float *ret)
{
	struct weir_tensor t;

	must(weir_run_start(j->run));
	must(weir_run_wait(j->run, -1));
	must(weir_run_output(j->run, j->y, &t));
	must(weir_tensor_get(&t, 0, ret,
			     (size_t)(j->n * j->tokens * HEADS) * D *
				     sizeof(float)));
}

static void job_free(struct job *j)
{
	weir_run_free(j->run);
	weir_exec_free(j->exec);
	weir_graph_reset(g);
}

static void attend(struct job j, float *ret)
{
	job_make(&j);
	job_run(&j, ret);
	job_free(&j);
}

#define ROW (HEADS * D) /* of a token's result */

/* How many blocks the kernel had so far. */
static int blocks(void)
{
	struct fakecuda_kernel c = { 0 };
	__typeof__(&fakecuda_kernel) counts;

	*(void **)&counts = fake_symbol("fakecuda_kernel");
	counts("weir_kernel_attention_chunks_bf16", &c);
	return (int)c.blocks;
}

/* Tokens alone, and several of them. */
static void tokens(void)
{
	float alone[T * ROW], some[T * ROW];
	int wrong = 0;

	for (int t = 0; t < T; t++)
		attend((struct job){ .n = 1,
				     .tokens = 1,
				     .first = t,
				     .positions = S - T + t + 1 },
		       alone + t * ROW);
	for (int n = 2; n <= T; n++) {
		attend((struct job){ .n = 1,
				     .tokens = n,
				     .first = T - n,
				     .positions = S },
		       some);
		if (memcmp(some, alone + (T - n) * ROW,
			   (size_t)n * ROW * sizeof(float)))
			wrong = n;
	}
	is_int(wrong, 0, "the bits of a token are those of it alone");
}

/* The first of many sequences is computed in turn, one alone is split. */
static void turns(void)
{
	float *all = malloc(sizeof(float) * MOST * 2 * ROW), alone[2 * ROW];
	int32_t length[MOST];
	int before = blocks();

	for (int i = 0; i < MOST; i++)
		length[i] = S - 1 - 90 * i;
	attend((struct job){ .n = MOST,
			     .tokens = 2,
			     .length = length,
			     .positions = S },
	       all);
	is_int(blocks() - before, MOST * HEADS_K,
	       "10 sequences are computed in turn");
	before = blocks();
	attend(
		(struct job){
			.n = 1, .tokens = 2, .length = length, .positions = S },
		alone);
	is_int(blocks() - before, 10, "the chunks of one are split");
	ok(!memcmp(all, alone, sizeof(alone)), "the bits are the same");
	free(all);
}

static void hidden(void)
{
	float *mask = malloc(sizeof(float) * S), some[ROW], all[ROW];

	for (int i = 0; i < S; i++)
		mask[i] = i < 1100 ? 0 : -INFINITY;
	attend((struct job){ .n = 1, .tokens = 1, .positions = 1100 }, some);
	attend(
		(struct job){
			.n = 1, .tokens = 1, .positions = S, .mask = mask },
		all);
	ok(!memcmp(some, all, sizeof(all)),
	   "hidden positions and chunks change no bit");
	free(mask);
}

static void orders(void)
{
	float first[T * ROW], again[T * ROW];
	struct job j = { .n = 1, .tokens = T, .positions = 400 };
	int wrong = 0;

	job_make(&j);
	job_run(&j, first);
	for (int i = 1; i <= 20; i++) {
		char text[8];

		snprintf(text, sizeof(text), "%d", i);
		fake.set("ORDER", text);
		job_run(&j, again);
		if (memcmp(first, again, sizeof(first)))
			wrong = i;
	}
	fake.set("ORDER", "0");
	job_free(&j);
	is_int(wrong, 0, "the bits are the same in 20 orders of the blocks");
}

/* One sequence, from 1 position to 1,000: lengths are data. */
static void grows(void)
{
	float y[ROW], want[ROW];
	int32_t length = 1;
	struct job j = {
		.n = 1, .tokens = 1, .length = &length, .positions = S
	};
	unsigned long graphs = 0, kernels = 0;
	int wrong = 0;

	fake.set("KERNELCHECK", "0");
	job_make(&j);
	for (; length <= 1000; length += 9) {
		if (length == 28) {
			graphs = fake.calls("cuGraphInstantiate") +
				 fake.calls("cuGraphInstantiateWithFlags");
			kernels = fake.calls("cuLaunchKernel");
		}
		must(weir_run_input(j.run, j.lengths, &length, sizeof(length)));
		job_run(&j, y);
	}
	is_int((int)(fake.calls("cuGraphInstantiate") +
		     fake.calls("cuGraphInstantiateWithFlags") - graphs),
	       0,
	       "no graph is built while a sequence grows by 1,000 positions");
	is_int((int)(fake.calls("cuLaunchKernel") - kernels), 0,
	       "and no kernel is launched outside of it");
	job_free(&j);
	attend((struct job){ .n = 1, .tokens = 1, .positions = 1000 }, want);
	for (int i = 0; i < ROW; i++)
		wrong += y[i] != want[i];
	is_int(wrong, 0, "the last result is that of 1000 positions");
	fake.set("KERNELCHECK", "1");
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
	plan(10);
	must(weir_sched_new(&dev, 1, NULL, &sched));
	must(weir_graph_new(&g));
	numbers_make();
	tokens();
	turns();
	hidden();
	orders();
	grows();
	fake.counts(&found);
	is_int(found.findings, 0, "the checker found nothing in the kernels");
	weir_graph_free(g);
	weir_sched_free(sched);
	weir_close(weir);
	free(k);
	free(v);
	free(q);
	return done_testing();
}
