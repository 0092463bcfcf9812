/* SPDX-License-Identifier: MIT */
/*
 * Conversion of GGML's quantised blocks. t/model/format/interop.sh compares
 * other blocks with the package gguf; here are sums of what that package made
 * of ours.
 */
#include <errno.h>
#include <string.h>

#include <weir.h>

#include "conversions.h"
#include "mem/convert.h"
#include "mem/dtype.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define N 4096u /* elements */
#define NAN_BITS 0x7fc00000u

static unsigned char blocks[N * 2];
static uint32_t values[N];

/* Random bytes: many scales are infinite, NaN, 0 or subnormal. */
static void blocks_make(void)
{
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < sizeof(blocks); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		blocks[i] = (unsigned char)(x >> 32);
	}
}

static const char *name_of(uint32_t dtype)
{
	return weir__dtype(dtype)->name;
}

static void to_f32(enum weir_dtype dtype)
{
	if (weir_convert(WEIR_DTYPE_F32, values, dtype, blocks, N) < 0)
		bail("%s: %s", name_of(dtype), weir_error());
}

/*
 * FNV-1a of 32-bit words: of gguf 0.19's dequantize() of these blocks, with
 * each NaN made NAN_BITS.
 */
static const struct {
	enum weir_dtype dtype;
	uint64_t sum;
} sums[] = {
	{ WEIR_DTYPE_Q4_0, 0x8c859d275bf86725 },
	{ WEIR_DTYPE_Q4_1, 0xabef90ff36b5da05 },
	{ WEIR_DTYPE_Q5_0, 0xe33c9615e7ed9725 },
	{ WEIR_DTYPE_Q5_1, 0xf18c031c37d65d1b },
	{ WEIR_DTYPE_Q8_0, 0x1fc3f8f62c26fc25 },
	{ WEIR_DTYPE_Q2_K, 0x0ecebd799d2d5a75 },
	{ WEIR_DTYPE_Q3_K, 0x695747ab1e956e25 },
	{ WEIR_DTYPE_Q4_K, 0x9bd27a2a2e3671c5 },
	{ WEIR_DTYPE_Q5_K, 0x5e886faf04125f8a },
	{ WEIR_DTYPE_Q6_K, 0x0b109bce8028067b },
	{ WEIR_DTYPE_TQ1_0, 0x217fc3fca1c8e325 },
	{ WEIR_DTYPE_TQ2_0, 0xdf0be050f94f4325 },
	{ WEIR_DTYPE_MXFP4, 0x5c63ad7cfebb6325 },
	{ WEIR_DTYPE_NVFP4, 0x9dd8107a72ff6325 },
	{ WEIR_DTYPE_IQ2_XXS, 0xe81c9bb9f84d90d9 },
	{ WEIR_DTYPE_IQ2_XS, 0x86e26703dc2e146d },
	{ WEIR_DTYPE_IQ2_S, 0x00d592ddb0d29b39 },
	{ WEIR_DTYPE_IQ3_XXS, 0xa5718e318ca19e05 },
	{ WEIR_DTYPE_IQ3_S, 0xccd7e6e8366ed765 },
	{ WEIR_DTYPE_IQ1_S, 0xb41b1919d8b8b2e5 },
	{ WEIR_DTYPE_IQ1_M, 0x33f1e3ebb0a76b85 },
	{ WEIR_DTYPE_IQ4_NL, 0x857e9b7d4375a7e5 },
	{ WEIR_DTYPE_IQ4_XS, 0x547e1fb546bf5d19 },
};

static void known_blocks(void)
{
	for (size_t i = 0; i < COUNT(sums); i++) {
		uint64_t sum = 14695981039346656037u;

		to_f32(sums[i].dtype);
		for (size_t k = 0; k < N; k++)
			sum = (sum ^ values[k]) * 1099511628211u;
		ok(sum == sums[i].sum,
		   "blocks of %s become the F32 that the package gguf makes",
		   name_of(sums[i].dtype));
	}
}

/* The formats that the package lacks: scale and integer of element @i. */
static float scale_at(const unsigned char *x)
{
	uint16_t half;
	float value;

	memcpy(&half, x, 2);
	weir_convert(WEIR_DTYPE_F32, &value, WEIR_DTYPE_F16, &half, 1);
	return value;
}

static float q8_1(size_t i)
{
	const unsigned char *x = blocks + i / 32 * 36;

	return scale_at(x) * (float)(int8_t)x[4 + i % 32];
}

static float q8_k(size_t i)
{
	const unsigned char *x = blocks + i / 256 * 292;
	float scale;

	memcpy(&scale, x, 4);
	return scale * (float)(int8_t)x[4 + i % 256];
}

static float q1_0(size_t i)
{
	const unsigned char *x = blocks + i / 128 * 18;

	return scale_at(x) * (x[2 + i % 128 / 8] >> i % 8 & 1 ? 1.0f : -1.0f);
}

static float q2_0(size_t i)
{
	const unsigned char *x = blocks + i / 64 * 18;
	int q = x[2 + i % 64 / 4] >> i % 4 * 2 & 3;

	return scale_at(x) * (float)(q - 1);
}

static void other_blocks(enum weir_dtype dtype, float (*value)(size_t))
{
	size_t wrong = 0;

	to_f32(dtype);
	for (size_t i = 0; i < N; i++) {
		float want = value(i);
		uint32_t bits;

		memcpy(&bits, &want, 4);
		wrong += values[i] != (want == want ? bits : NAN_BITS);
	}
	is_int(wrong, 0, "blocks of %s become F32 as their layout says",
	       name_of(dtype));
}

/* Q4_1, whose scale is infinite: q times it, and the offset. */
static void special_scales(void)
{
	unsigned char x[20] = { 0x00, 0x7c, 0x00, 0xfc, 0x10 };
	uint32_t y[32];

	weir_convert(WEIR_DTYPE_F32, y, WEIR_DTYPE_Q4_1, x, 32);
	is_int(y[0], NAN_BITS, "an infinite scale times 0 is the positive NaN");
	is_int(y[16], NAN_BITS, "infinity less infinity is the positive NaN");
	x[3] = 0x3c;
	weir_convert(WEIR_DTYPE_F32, y, WEIR_DTYPE_Q4_1, x, 32);
	is_int(y[16], 0x7f800000, "an infinite scale times 1 is infinite");
	x[1] = 0xff;
	weir_convert(WEIR_DTYPE_F32, y, WEIR_DTYPE_Q4_1, x, 32);
	is_int(y[16], NAN_BITS, "a NaN as scale is the positive quiet NaN");
}

/* By way of F32, which has more bits than needed to see both roundings. */
static void narrowed(const struct weir_backend_convert *c)
{
	static unsigned char got[N * 2], want[N * 2];

	to_f32(c->from);
	weir_convert(c->to, want, WEIR_DTYPE_F32, values, N);
	weir_convert(c->to, got, c->from, blocks, N);
	ok(!memcmp(got, want, N * 2), "%s to %s: as F32 that are converted",
	   name_of(c->from), name_of(c->to));
}

static void lengths(const struct weir_backend_convert *c)
{
	size_t wrong = 0;

	for (size_t n = 0; n < 10; n++)
		for (size_t at = 0; at < 4; at++)
			wrong += conversion_errors(c, blocks + at, n, 3 + at);
	is_int(wrong, 0,
	       "%s to %s: 0 to 9 blocks at any address write exactly their "
	       "elements",
	       name_of(c->from), name_of(c->to));
}

static void environment(const struct weir_backend_convert *c)
{
	static unsigned char got[N * 4], want[N * 4];
	bool same, kept;

	conversion_envs(c, blocks, N / c->block, got, want, &same, &kept);
	ok(same && kept,
	   "%s to %s: the thread's floating-point environment has no influence "
	   "and is kept",
	   name_of(c->from), name_of(c->to));
}

static void sizes(const struct weir__convert_set *set)
{
	size_t wrong = 0;

	for (size_t i = 0; i < set->n; i++) {
		const struct weir_backend_convert *c = &set->list[i];

		const struct weir_dtype_info *from = weir__dtype(c->from);
		const struct weir_dtype_info *to = weir__dtype(c->to);

		wrong += c->block % from->block || c->block % to->block ||
			 (c->block != from->block && c->block != to->block) ||
			 c->src_bytes != c->block / from->block * from->bytes ||
			 c->dst_bytes != c->block / to->block * to->bytes;
	}
	is_int(wrong, 0,
	       "conversions %s have the blocks of the table of dtypes",
	       set == &weir__convert_via ? "by way of F32" : "to F32");
}

static void parts_of_blocks(void)
{
	is_err(weir_convert(WEIR_DTYPE_F32, values, WEIR_DTYPE_Q4_K, blocks,
			    300),
	       -EINVAL, "300 elements are not whole blocks of 256 (Q4_K)",
	       "weir_convert refuses a part of a block, with both sizes");
	is_int(weir_convert(WEIR_DTYPE_BF16, NULL, WEIR_DTYPE_Q4_K, NULL, 0), 0,
	       "weir_convert of no elements says that Q4_K is offered");
}

/* t/mem/quantise.c has those to quantised dtypes. */
static void conversions(const struct weir__convert_set *set)
{
	sizes(set);
	for (size_t i = 0; i < set->n; i++) {
		if (weir__dtype(set->list[i].to)->block > 1)
			continue;
		if (set->list[i].to != WEIR_DTYPE_F32)
			narrowed(&set->list[i]);
		lengths(&set->list[i]);
		environment(&set->list[i]);
	}
}

int main(void)
{
	plan(0);
	blocks_make();
	known_blocks();
	other_blocks(WEIR_DTYPE_Q8_1, q8_1);
	other_blocks(WEIR_DTYPE_Q8_K, q8_k);
	other_blocks(WEIR_DTYPE_Q1_0, q1_0);
	other_blocks(WEIR_DTYPE_Q2_0, q2_0);
	special_scales();
	parts_of_blocks();
	conversions(&weir__convert_quants);
	conversions(&weir__convert_via);
	return done_testing();
}
