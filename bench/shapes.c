/* SPDX-License-Identifier: MIT */
/*
 * Shapes of real programs' calls of an allocator. Sizes are those of tensors of
 * published models, lengths and orders come from a generator with a fixed seed.
 */
#include <math.h>

#include "calls.h"

#define MIN_BLOCK 256u

struct dims {
	uint64_t layers, width, kv, ff, heads, vocab;
};

static const struct dims models[] = {
	{ 12, 768, 768, 3072, 12, 50257 },     /* GPT-2 */
	{ 22, 2048, 256, 5632, 32, 32000 },    /* TinyLlama 1.1B */
	{ 32, 4096, 1024, 14336, 32, 128256 }, /* Llama 3 8B */
	{ 48, 5120, 1024, 13824, 40, 152064 }, /* Qwen2.5 14B */
};
#define N_MODELS (sizeof(models) / sizeof(models[0]))

/* xorshift64* */
struct dice {
	uint64_t state;
};

static struct dice dice_of(uint32_t seed)
{
	return (struct dice){ 0x9e3779b97f4a7c15 * (seed + 1) };
}

static uint64_t roll(struct dice *d, uint64_t n)
{
	d->state ^= d->state >> 12;
	d->state ^= d->state << 25;
	d->state ^= d->state >> 27;
	return (d->state * 0x2545f4914f6cdd1d >> 11) % n;
}

/* From @low to @high; each factor of two is as likely as every other. */
static uint64_t roll_log(struct dice *d, double low, double high)
{
	double share = (double)roll(d, 1 << 20) / (1 << 20);

	return (uint64_t)(low * pow(high / low, share));
}

static uint32_t block(struct calls *c, uint64_t size, uint32_t stream)
{
	return calls_alloc(c, size < MIN_BLOCK ? MIN_BLOCK : size, stream);
}

/* One step of a transformer: its temporary tensors, as flash attention and a
 * gated MLP in BF16 make them. */
struct step {
	struct calls *c;
	const struct dims *m;
	uint64_t tokens;
	uint32_t stream;
	uint32_t residual;
};

static uint32_t of(const struct step *s, uint64_t columns, uint64_t element)
{
	return block(s->c, s->tokens * columns * element, s->stream);
}

static void drop(const struct step *s, uint32_t slot)
{
	calls_drop(s->c, slot, s->stream);
}

/* residual = residual + @slot, as a new tensor. */
static void step_add(struct step *s, uint32_t slot)
{
	uint32_t sum = of(s, s->m->width, 2);

	drop(s, slot);
	drop(s, s->residual);
	s->residual = sum;
}

static void step_attend(struct step *s)
{
	uint32_t norm = of(s, s->m->width, 2), q = of(s, s->m->width, 2);
	uint32_t k = of(s, s->m->kv, 2), v = of(s, s->m->kv, 2);
	uint32_t turned_q, turned_k, sums, out, projected;

	drop(s, norm);
	turned_q = of(s, s->m->width, 2);
	drop(s, q);
	turned_k = of(s, s->m->kv, 2);
	drop(s, k);
	sums = of(s, s->m->heads, 4);
	out = of(s, s->m->width, 2);
	drop(s, turned_q);
	drop(s, turned_k);
	drop(s, v);
	drop(s, sums);
	projected = of(s, s->m->width, 2);
	drop(s, out);
	step_add(s, projected);
}

static void step_mlp(struct step *s)
{
	uint32_t norm = of(s, s->m->width, 2);
	uint32_t gate = of(s, s->m->ff, 2), up = of(s, s->m->ff, 2);
	uint32_t active, product, down;

	drop(s, norm);
	active = of(s, s->m->ff, 2);
	drop(s, gate);
	product = of(s, s->m->ff, 2);
	drop(s, active);
	drop(s, up);
	down = of(s, s->m->width, 2);
	drop(s, product);
	step_add(s, down);
}

/* @rows: tokens whose logits are computed. */
static void step_run(struct calls *c, const struct dims *m, uint64_t tokens,
		     uint64_t rows, uint32_t stream)
{
	struct step s = { .c = c, .m = m, .tokens = tokens, .stream = stream };
	uint32_t ids = of(&s, 1, 8), positions = of(&s, 1, 8);
	uint32_t norm, logits, shares;

	s.residual = of(&s, m->width, 2);
	for (uint64_t i = 0; i < m->layers; i++) {
		step_attend(&s);
		step_mlp(&s);
	}
	norm = of(&s, m->width, 2);
	drop(&s, s.residual);
	logits = block(c, rows * m->vocab * 4, stream);
	drop(&s, norm);
	shares = block(c, rows * m->vocab * 4, stream);
	drop(&s, logits);
	drop(&s, shares);
	drop(&s, positions);
	drop(&s, ids);
}

/* Prompts of different lengths, then tokens of a changing batch. */
static void make_activations(struct calls *c, uint32_t seed, bool tiny)
{
	struct dice d = dice_of(seed);
	unsigned prompts = tiny ? 2 : 12;

	for (size_t i = 0; i < (tiny ? 2 : N_MODELS); i++)
		for (unsigned k = 0; k < prompts; k++) {
			uint64_t batch = 1 + roll(&d, 48);

			step_run(c, &models[i], roll_log(&d, 16, 8192), 1, 0);
			for (unsigned n = 0; n < 8; n++)
				step_run(c, &models[i], batch, batch, 0);
		}
}

#define KV_LAYERS 32u
#define KV_BLOCKS (2 * KV_LAYERS)

/* A sequence with a key and a value tensor for each layer. */
struct sequence {
	uint64_t tokens, end;
	uint32_t slots[KV_BLOCKS];
};

static void sequence_begin(struct calls *c, struct sequence *s, struct dice *d)
{
	s->tokens = roll_log(d, 16, 2048);
	s->end = s->tokens + roll_log(d, 16, 1024);
	for (unsigned i = 0; i < KV_BLOCKS; i++)
		s->slots[i] = block(c, s->tokens * 2048, 0);
}

/* Each tensor is copied to one with room for the new tokens. */
static void sequence_grow(struct calls *c, struct sequence *s, uint64_t by)
{
	s->tokens += by;
	for (unsigned i = 0; i < KV_BLOCKS; i++) {
		uint32_t larger = block(c, s->tokens * 2048, 0);

		calls_drop(c, s->slots[i], 0);
		s->slots[i] = larger;
	}
}

static void sequence_end(struct calls *c, struct sequence *s)
{
	for (unsigned i = 0; i < KV_BLOCKS; i++)
		calls_drop(c, s->slots[i], 0);
}

static void make_kv(struct calls *c, uint32_t seed, bool tiny)
{
	struct sequence list[24];
	struct dice d = dice_of(seed);

	for (unsigned i = 0; i < 24; i++)
		sequence_begin(c, &list[i], &d);
	for (unsigned i = 0; i < (tiny ? 50 : 3000); i++) {
		struct sequence *s = &list[roll(&d, 24)];

		if (s->tokens < s->end) {
			sequence_grow(c, s, 32);
			continue;
		}
		sequence_end(c, s);
		sequence_begin(c, s, &d);
	}
}

#define MAX_LOADED 16u
#define LOAD_ROOM ((uint64_t)64 << 30)

/* A loaded model: its tensors' slots. */
struct loaded {
	uint32_t slots[1024];
	unsigned n;
};

static void load_tensor(struct calls *c, struct loaded *l, uint64_t elements,
			uint64_t bits)
{
	l->slots[l->n++] = block(c, elements * bits / 8, 0);
}

static void load_model(struct calls *c, struct loaded *l, const struct dims *m,
		       uint64_t bits)
{
	l->n = 0;
	load_tensor(c, l, m->vocab * m->width, 16);
	for (uint64_t i = 0; i < m->layers; i++) {
		load_tensor(c, l, m->width, 32);
		load_tensor(c, l, m->width * m->width, bits);
		load_tensor(c, l, m->width * m->kv, bits);
		load_tensor(c, l, m->width * m->kv, bits);
		load_tensor(c, l, m->width * m->width, bits);
		load_tensor(c, l, m->width, 32);
		load_tensor(c, l, m->width * m->ff, bits);
		load_tensor(c, l, m->width * m->ff, bits);
		load_tensor(c, l, m->width * m->ff, bits);
	}
	load_tensor(c, l, m->width, 32);
	load_tensor(c, l, m->vocab * m->width, bits);
}

/* Any of the loaded models ends, until there is room for the next. */
static void make_models(struct calls *c, uint32_t seed, bool tiny)
{
	static const uint64_t bits[] = { 16, 8, 5 };
	struct dice d = dice_of(seed);
	static _Thread_local struct loaded list[MAX_LOADED];
	unsigned n = 0;

	for (unsigned i = 0; i < (tiny ? 20 : 200); i++) {
		while (n == MAX_LOADED || c->live > LOAD_ROOM / 2) {
			struct loaded *l = &list[roll(&d, n)];

			for (unsigned k = 0; k < l->n; k++)
				calls_drop(c, l->slots[k], 0);
			*l = list[--n];
		}
		load_model(c, &list[n++], &models[roll(&d, N_MODELS)],
			   bits[roll(&d, 3)]);
	}
}

/* Prompts on one stream, tokens on a second; KV blocks of 64 tokens are
 * allocated on the first and freed on the second. */
static void make_streams(struct calls *c, uint32_t seed, bool tiny)
{
	const struct dims *m = &models[2];
	struct dice d = dice_of(seed);
	uint32_t kv[256];
	unsigned n = 0;

	for (unsigned i = 0; i < (tiny ? 10 : 150); i++) {
		uint64_t tokens = roll_log(&d, 64, 4096);

		while (n + tokens / 64 > 256)
			calls_drop(c, kv[--n], 2);
		for (uint64_t k = 0; k < tokens / 64; k++)
			kv[n++] = block(c, 64 * m->layers * m->kv * 4, 1);
		step_run(c, m, tokens, 1, 1);
		step_run(c, m, 1 + roll(&d, 48), 16, 2);
	}
}

/* Blocks of 256 bytes to 256 KiB that live for random times. */
static void make_mix(struct calls *c, uint32_t seed, bool tiny)
{
	struct dice d = dice_of(seed);
	uint32_t live[2000];

	for (unsigned i = 0; i < 2000; i++)
		live[i] = block(c, roll_log(&d, 256, 262144), 0);
	for (unsigned i = 0; i < (tiny ? 1000 : 200000); i++) {
		uint32_t *slot = &live[roll(&d, 2000)];

		calls_drop(c, *slot, 0);
		*slot = block(c, roll_log(&d, 256, 262144), 0);
	}
}

const struct shape shapes[] = {
	{ "kv", "KV caches of 24 sequences, which grow by 32 tokens", make_kv,
	  true },
	{ "activations", "prefill and decode of four models", make_activations,
	  true },
	{ "models", "models of different sizes, loaded and unloaded",
	  make_models, false },
	{ "streams", "prefill and decode on two streams, paged KV caches",
	  make_streams, false },
	{ "mix", "2000 blocks of 256 bytes to 256 KiB", make_mix, true },
};
const unsigned n_shapes = sizeof(shapes) / sizeof(shapes[0]);
