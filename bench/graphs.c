/* SPDX-License-Identifier: MIT */
#include "graphs.h"

#include <stdlib.h>
#include <string.h>

#define F32 4u
#define ALIGN 256u   /* alignment of memory of a GPU */
#define SPEECH 1500u /* frames of an encoder */

/* Name; layers, dim, heads, kv_heads, head_dim, ffn, vocab; the rest. */
const struct arch archs[] = {
	{ "Llama 3 8B", 32, 4096, 32, 8, 128, 14336, 128256, .gated = true,
	  .fused_attention = true },
	{ "Llama 3 8B, attention in steps", 32, 4096, 32, 8, 128, 14336, 128256,
	  .gated = true },
	{ "GPT-2 XL", 48, 1600, 25, 25, 64, 6400, 50257, .biases = true },
	{ "Gemma 2 9B", 42, 3584, 16, 8, 256, 14336, 256000, .gated = true,
	  .post_norm = true },
	{ "GPT-J 6B", 28, 4096, 16, 16, 256, 16384, 50400, .parallel = true,
	  .biases = true },
	{ "Mixtral 8x7B", 32, 4096, 32, 8, 128, 0, 32000, .experts = 8,
	  .used = 2, .expert_ffn = 14336, .gated = true,
	  .fused_attention = true },
	{ "DeepSeek V3", 61, 7168, 128, 128, 192, 0, 129280, .experts = 256,
	  .used = 8, .expert_ffn = 2048, .shared = 1, .latent = 512,
	  .gated = true },
	{ "Whisper large", 32, 1280, 20, 20, 64, 5120, 51866, .biases = true,
	  .encoder = 32 },
	{ "Llava 7B", 32, 4096, 32, 32, 128, 11008, 32064, .gated = true,
	  .patches = 577 },
	{ "Qwen 3 0.6B", 28, 1024, 16, 8, 128, 3072, 151936, .gated = true,
	  .fused_attention = true },
	{ "Llama 3 8B, all hidden states", 32, 4096, 32, 8, 128, 14336, 128256,
	  .gated = true, .keeps_hidden = true },
	{ "GPT-2 XL, training", 48, 1600, 25, 25, 64, 6400, 50257,
	  .biases = true, .trains = true },
};
const size_t n_archs = sizeof(archs) / sizeof(*archs);

const struct run runs[] = {
	{ "prefill of 512", 512, 512, 1 },
	{ "prefill of 2048", 2048, 2048, 2048 },
	{ "chunk of 512 at 8192", 512, 8192, 1 },
	{ "decode of 1 at 4096", 1, 4096, 1 },
	{ "decode of 32 at 1024", 32, 1024, 32 },
};
const size_t n_runs = sizeof(runs) / sizeof(*runs);

/* Building: a node is its index plus 1; 0 is none. */
struct build {
	struct graph *g;
	const struct arch *a;
	const struct run *r;
	size_t mask, pos;
};

static size_t add_item(struct build *b, uint64_t elements, uint32_t flags)
{
	struct graph *g = b->g;

	if (g->n == g->max) {
		g->max = g->max ? 2 * g->max : 1024;
		g->item = realloc(g->item, g->max * sizeof(*g->item));
		if (!g->item)
			abort();
	}
	g->item[g->n++] = (struct weir_lifetime){
		.lower = g->step,
		.upper = g->step + 1,
		.bytes = elements * F32,
		.flags = flags,
	};
	return g->n;
}

static void use(struct build *b, size_t node)
{
	if (node)
		b->g->item[node - 1].upper = b->g->step + 1;
}

/* An operation of two sources. */
static size_t op(struct build *b, uint64_t elements, size_t x, size_t y)
{
	b->g->step++;
	use(b, x);
	use(b, y);
	return add_item(b, elements, 0);
}

/* One whose result may take the place of @x. */
static size_t op_over(struct build *b, size_t x, size_t y)
{
	size_t node = op(b, b->g->item[x - 1].bytes / F32, x, y);

	b->g->item[node - 1].flags |= WEIR_PLACE_OVER;
	b->g->item[node - 1].over = x - 1;
	return node;
}

static size_t biased(struct build *b, size_t x)
{
	return b->a->biases ? op_over(b, x, 0) : x;
}

/* Normalised and scaled; the source lives on. */
static size_t norm(struct build *b, size_t x)
{
	return biased(b, op_over(b, op(b, b->g->item[x - 1].bytes / F32, x, 0),
				 0));
}

/* A product with keys or values in a cache, or in @kv. */
static size_t attend(struct build *b, size_t q, size_t k, size_t v,
		     uint64_t tokens, uint64_t length)
{
	const struct arch *a = b->a;
	uint64_t dim = (uint64_t)a->heads * a->head_dim;
	size_t kq;

	if (a->fused_attention) {
		kq = op(b, tokens * dim, q, b->mask);
		use(b, k);
		use(b, v);
		return kq;
	}
	kq = op(b, tokens * length * a->heads, q, k);
	kq = op_over(b, kq, b->mask);
	kq = op(b, tokens * dim, kq, v);
	return op(b, tokens * dim, kq, 0); /* heads side by side */
}

static size_t attention(struct build *b, size_t x, uint64_t tokens,
			uint64_t length, bool cached)
{
	const struct arch *a = b->a;
	uint64_t dim = (uint64_t)a->heads * a->head_dim;
	uint64_t kv_dim = (uint64_t)a->kv_heads * a->head_dim;
	size_t q, k, v;

	if (a->latent) {
		size_t c = op(b, tokens * 1536, x, 0);

		q = op(b, tokens * dim, norm(b, c), 0);
		c = op(b, tokens * (a->latent + 64), x, 0);
		q = op_over(b, q, b->pos);
		c = norm(b, c);
		k = op(b, tokens * kv_dim, c, 0);
		v = op(b, tokens * kv_dim, c, 0);
	} else {
		q = biased(b, op(b, tokens * dim, x, 0));
		k = biased(b, op(b, tokens * kv_dim, x, 0));
		v = biased(b, op(b, tokens * kv_dim, x, 0));
		q = op_over(b, q, b->pos);
		k = op_over(b, k, b->pos);
	}
	if (cached) {
		/* Stored into the caches, which are read from here on. */
		op(b, 0, k, 0);
		op(b, 0, v, 0);
		k = v = 0;
	}
	x = attend(b, q, k, v, tokens, length);
	return biased(b, op(b, tokens * a->dim, x, 0));
}

static size_t feed_forward(struct build *b, size_t x, uint64_t tokens,
			   unsigned ffn)
{
	const struct arch *a = b->a;
	size_t gate, up;

	if (a->gated) {
		gate = op(b, tokens * ffn, x, 0);
		up = op(b, tokens * ffn, x, 0);
		gate = op_over(b, gate, 0);
		up = op_over(b, gate, up);
	} else {
		up = op_over(b, biased(b, op(b, tokens * ffn, x, 0)), 0);
	}
	return biased(b, op(b, tokens * a->dim, up, 0));
}

static size_t experts(struct build *b, size_t x, uint64_t tokens)
{
	const struct arch *a = b->a;
	uint64_t rows = tokens * a->used;
	size_t probs, chosen, weights, gate, up, out, sum;

	probs = op_over(b, op(b, tokens * a->experts, x, 0), 0);
	chosen = op(b, tokens * a->experts, probs, 0);
	weights = op(b, rows, probs, chosen);
	weights = op(b, rows, weights, op(b, tokens, weights, 0));
	gate = op(b, rows * a->expert_ffn, x, chosen);
	up = op(b, rows * a->expert_ffn, x, chosen);
	gate = op_over(b, gate, 0);
	up = op_over(b, gate, up);
	out = op_over(b, op(b, rows * a->dim, up, chosen), weights);
	sum = op(b, tokens * a->dim, out, 0);
	for (unsigned i = 2; i < a->used; i++)
		sum = op_over(b, sum, out);
	if (a->shared)
		sum = op_over(b, sum,
			      feed_forward(b, x, tokens,
					   a->shared * a->expert_ffn));
	return sum;
}

/* @k, @v: of cross attention; 0: none. */
static size_t layer(struct build *b, size_t x, uint64_t tokens, uint64_t length,
		    bool cached, size_t k, size_t v)
{
	const struct arch *a = b->a;
	size_t n = norm(b, x), y = attention(b, n, tokens, length, cached);

	if (a->post_norm)
		y = norm(b, y);
	if (a->parallel)
		return op_over(
			b, op_over(b, feed_forward(b, n, tokens, a->ffn), y),
			x);
	x = op_over(b, y, x);
	if (k) {
		n = op(b, tokens * a->dim, norm(b, x), 0);
		y = attend(b, n, k, v, tokens, SPEECH);
		x = op_over(b, op(b, tokens * a->dim, y, 0), x);
	}
	n = norm(b, x);
	y = a->experts ? experts(b, n, tokens)
		       : feed_forward(b, n, tokens, a->ffn);
	if (a->post_norm)
		y = norm(b, y);
	return op_over(b, y, x);
}

static size_t input(struct build *b, uint64_t elements)
{
	return add_item(b, elements, WEIR_PLACE_INPUT);
}

/* Cross attention's keys and values of all layers are computed first. */
static void encode(struct build *b, size_t *k, size_t *v)
{
	const struct arch *a = b->a;
	size_t x = input(b, (uint64_t)SPEECH * 2 * 80);

	x = op_over(b, op(b, (uint64_t)SPEECH * 2 * a->dim, x, 0), 0);
	x = op_over(b, op(b, (uint64_t)SPEECH * a->dim, x, 0), 0);
	for (unsigned i = 0; i < a->encoder; i++)
		x = layer(b, x, SPEECH, SPEECH, false, 0, 0);
	x = norm(b, x);
	for (unsigned i = 0; i < a->layers; i++) {
		k[i] = op(b, (uint64_t)SPEECH * a->dim, x, 0);
		v[i] = op(b, (uint64_t)SPEECH * a->dim, x, 0);
	}
}

static const struct arch tower = {
	.dim = 1024,
	.heads = 16,
	.kv_heads = 16,
	.head_dim = 64,
	.ffn = 4096,
	.biases = true,
};

/* The patches of an image as tokens. */
static size_t look(struct build *b)
{
	const struct arch *a = b->a;
	size_t x = input(b, 336u * 336 * 3);

	x = op(b, (uint64_t)a->patches * tower.dim, x, 0);
	b->a = &tower;
	for (unsigned i = 0; i < 24; i++)
		x = layer(b, x, a->patches, a->patches, false, 0, 0);
	b->a = a;
	x = op_over(b, op(b, (uint64_t)a->patches * a->dim, x, 0), 0);
	return op(b, (uint64_t)a->patches * a->dim, x, 0);
}

/*
 * The backward pass: what the forward pass computed is used again in reverse
 * order, so nothing of it was computed in place.
 */
static void go_back(struct build *b, size_t first, size_t x)
{
	size_t last = b->g->n,
	       grad = op(b, b->g->item[x - 1].bytes / F32, x, 0);

	for (size_t i = last; i > first; i--) {
		struct weir_lifetime *item = &b->g->item[i - 1];

		item->flags &= ~WEIR_PLACE_OVER;
		item->over = 0;
		if (!(item->flags & WEIR_PLACE_INPUT) && item->bytes)
			grad = op(b, item->bytes / F32, grad, i);
	}
}

void graph_build(struct graph *g, const struct arch *a, const struct run *r)
{
	struct build b = { .g = g, .a = a, .r = r };
	size_t first = g->n, x, *cross = calloc(2 * a->layers, sizeof(*cross));

	if (!cross)
		abort();
	g->step++;
	x = input(&b, r->tokens);
	b.pos = input(&b, r->tokens);
	if (a->encoder)
		encode(&b, cross, cross + a->layers);
	b.mask = input(&b, (uint64_t)r->tokens * r->length);
	if (a->patches && r->tokens > a->patches)
		x = op(&b, (uint64_t)r->tokens * a->dim, x, look(&b));
	else
		x = op(&b, (uint64_t)r->tokens * a->dim, x, 0);
	for (unsigned i = 0; i < a->layers; i++) {
		x = layer(&b, x, r->tokens, r->length, !a->trains, cross[i],
			  cross[i + a->layers]);
		if (a->keeps_hidden)
			g->item[x - 1].flags |= WEIR_PLACE_OUTPUT;
	}
	if (r->outputs < r->tokens)
		x = op(&b, (uint64_t)r->outputs * a->dim, x, 0);
	x = op(&b, (uint64_t)r->outputs * a->vocab, norm(&b, x), 0);
	g->item[x - 1].flags |= WEIR_PLACE_OUTPUT;
	if (a->trains)
		go_back(&b, first, x);
	free(cross);
}

void graph_free(struct graph *g)
{
	free(g->item);
	*g = (struct graph){ 0 };
}

int graph_place(const struct graph *g, struct weir_placement_info *ret_info)
{
	struct weir_place_memory memory = { .align = ALIGN };
	struct weir_placement_opts o = WEIR_PLACEMENT_OPTS_INIT;
	struct weir_placement_info info = { .size = sizeof(info) };
	struct weir_placement *p;
	int r;

	o.memory = &memory;
	o.n_memories = 1;
	r = weir_placement_new(g->item, g->n, &o, &p);
	if (r < 0)
		return r;
	r = weir_placement_info(p, 0, &info);
	weir_placement_free(p);
	if (r == 0)
		*ret_info = info;
	return r;
}
