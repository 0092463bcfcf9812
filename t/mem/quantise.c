/* SPDX-License-Identifier: MIT */
/*
 * Conversion of elements to quantised blocks. The blocks and the sums are those
 * that ggml's reference (quantize_row_*_ref, compiled for x86-64 without fused
 * products) made of the same elements.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "conversions.h"
#include "mem/convert.h"
#include "mem/dtype.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define N 4096u /* elements */

static const uint32_t dtypes[] = { WEIR_DTYPE_Q8_0, WEIR_DTYPE_Q4_0,
				   WEIR_DTYPE_Q4_K, WEIR_DTYPE_Q6_K };

static const char *name_of(uint32_t dtype)
{
	return weir__dtype(dtype)->name;
}

static size_t bytes_of(uint32_t dtype, size_t n)
{
	return n / weir__dtype(dtype)->block * weir__dtype(dtype)->bytes;
}

/* Kinds of elements. All are exact, so that they are the same everywhere. */
enum kind {
	WEIGHTS,
	TIES,
	OUTLIERS,
	POSITIVE,
	SUBNORMAL,
	SMALL,
	LARGE,
	ZEROS,
	BITS,
	NOT_FINITE,
	KINDS
};

static const char *const kind_names[] = {
	"weights",
	"multiples of a half",
	"elements with one that is far from the others",
	"positive elements",
	"subnormal elements",
	"elements whose squares are subnormal or 0",
	"elements whose squares are infinite",
	"zeros of either sign",
	"random bits",
	"elements of which some are infinite or NaN",
};

static uint32_t random_state;

static uint32_t random32(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 17;
	random_state ^= random_state << 5;
	return random_state;
}

/* About normal, less than 2 in magnitude. */
static float weight(void)
{
	int32_t sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (int32_t)(random32() >> 12) - (1 << 19);
	return (float)sum * 0x1p-20f;
}

static float bits_at(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

static float finite_bits(void)
{
	float x = bits_at(random32());

	return isfinite(x) ? x : 1;
}

static float special(void)
{
	uint32_t i = random32() % 128;

	return i == 0   ? NAN
	       : i == 1 ? (float)INFINITY
	       : i == 2 ? -(float)INFINITY
			: weight() * 0x1p9f;
}

static float element(enum kind kind, size_t i)
{
	switch (kind) {
	case TIES:
		return (float)((int)(random32() % 33) - 16) / 2;
	case OUTLIERS:
		return weight() * (i % 32 == random32() % 32 ? 64 : 0x1p-6f);
	case POSITIVE:
		return weight() * 0x1p-2f + 1;
	case SUBNORMAL:
		return weight() * 0x1p-127f;
	case SMALL:
		return weight() * 0x1p-66f;
	case LARGE:
		return weight() * 0x1p100f;
	case ZEROS:
		return i % 3 ? 0.f : -0.f;
	case BITS:
		return finite_bits();
	case NOT_FINITE:
		return special();
	default:
		return weight();
	}
}

static float elements[N];

static void elements_make(enum kind kind)
{
	random_state = 2463534242u;
	for (size_t i = 0; i < N; i++)
		elements[i] = element(kind, i);
}

static uint64_t sum_of(const unsigned char *x, size_t n)
{
	uint64_t sum = 14695981039346656037u;

	for (size_t i = 0; i < n; i++)
		sum = (sum ^ x[i]) * 1099511628211u;
	return sum;
}

/* FNV-1a of the blocks of ggml, for each kind of elements. */
static const uint64_t sums[COUNT(dtypes)][KINDS] = {
	{ 0x6219dec652fedebe, 0xe08a8e4701b43e39, 0x75897d2f9e4b5e40,
	  0xf9cc9d95a10f3b89, 0x2bfe4f9f6284f725, 0x4ec4c3c71547f5be,
	  0xd7b134a09d6b2d1e, 0x2bfe4f9f6284f725, 0x85cb33b06e00481c,
	  0x64e23b39d8abbb7a },
	{ 0x7a49143c9306a6d0, 0x769c24f866f62b9c, 0xa856f5ee64983d06,
	  0xe08281e2bdfaabf0, 0xfd44cb9b82572ca5, 0x61697e1d2014d8c5,
	  0x26d18ea8e6206905, 0xdf64615d99045725, 0x759520fa319505db,
	  0xb1693706cb0a9715 },
	{ 0x0272f8d17fd3907f, 0xf2448b3da78dd3c6, 0x98e228dd996f3087,
	  0x47ae8598b903b646, 0xd3f7ec18a0f85725, 0xb6582e1fcdfa3757,
	  0x5dc08e3acf97a069, 0xd3f7ec18a0f85725, 0x9a9f7b8987fea03d,
	  0x26e6aa7b8e45015b },
	{ 0x43949dffd65efc50, 0x10878cda547971d8, 0x8ad171d5ccc5abf4,
	  0x1660ece5a524e140, 0xe2c4d99a7fe979a5, 0xe2c4d99a7fe979a5,
	  0xe2c4d99a7fe979a5, 0xe2c4d99a7fe979a5, 0xe2c4d99a7fe979a5,
	  0xb9500df4b46944a3 },
};

/* The first block of weights. */
static const char *const first[COUNT(dtypes)] = {
	"7320ddb9e8452f0512edaa37c9d0b0caee81e5f518ce323d0aac41779e5045e4"
	"3959",
	"6a306674975cbbc89937c3fb25d5c365c7e0",
	"cd192626f2fbf9ffeff6bff15c8985466674578c5bc8a98773ab059593357760"
	"d677f9b53b4cb993ac6f22bdac668b9d7b88958e98447e87cb6808966e17676c"
	"39493b6ab16c274889ceb01a7f49e43b77c861999176979edbb2b066dea5a72f"
	"0988f5527aba65d3e7768af396fa56b5f779c53b82d546d1844707b67b94c496"
	"b7b33dacd46ab9d778bf7250cc871791",
	"a7ae9aa19c11a44bba8e92f49c520bd0f7d34a1d53809dc6eff10a1b1ef7f159"
	"299bb260c3320981acda00d4c64bfbe8f893e122d53f32ac9786d993d5c61ff9"
	"5d1266d5969bef1a3d3b21b9cc4620efe9d59fd0702e82e59c06f175c9fcd841"
	"d9b203c1f229f552f8ee1da5c728f930e0af98734b8ca960a4bbd02a24081239"
	"a59485bb964eba99e45a118978115564929aa1a60da9d59754280fe4749a05a4"
	"e57ed43a48d519cb5e2828957f999a9392a60c84e75a95dc5d856b7cc99e15b9"
	"a7569964b480a06c94b5ac92be6c9da4528e",
};

static unsigned char blocks[N * 2];

/* Convert the elements by a set of kernels. */
static void quantise(const struct weir_backend_convert *c)
{
	memset(blocks, 0xa5, sizeof(blocks));
	c->run(blocks, elements, N / c->block);
}

static void like_ggml(const struct weir_backend_convert *c, size_t dtype)
{
	for (unsigned kind = 0; kind < KINDS; kind++) {
		elements_make(kind);
		quantise(c);
		ok(sum_of(blocks, bytes_of(c->to, N)) == sums[dtype][kind],
		   "%s: the blocks of %s are those of ggml", name_of(c->to),
		   kind_names[kind]);
	}
}

static void first_block(const struct weir_backend_convert *c, size_t dtype)
{
	char hex[2 * 210 + 1];

	elements_make(WEIGHTS);
	quantise(c);
	for (size_t i = 0; i < c->dst_bytes; i++)
		snprintf(hex + 2 * i, 3, "%02x", blocks[i]);
	is_str(hex, first[dtype], "%s: a block of weights is that of ggml",
	       name_of(c->to));
}

/* As every set of kernels must, whatever the others do. */
static void lengths(const struct weir_backend_convert *c)
{
	size_t wrong = 0;

	elements_make(WEIGHTS);
	for (size_t n = 0; n < 12; n++)
		for (size_t at = 0; at < 4; at++)
			wrong += conversion_errors(
				c, (unsigned char *)elements + at, n, 3 + at);
	is_int(wrong, 0,
	       "F32 to %s: 0 to 11 blocks at any address write exactly their "
	       "bytes",
	       name_of(c->to));
}

static void environment(const struct weir_backend_convert *c)
{
	static unsigned char got[N * 2], want[N * 2];
	bool same, kept, all_same = true, all_kept = true;

	for (unsigned kind = 0; kind < KINDS; kind++) {
		elements_make(kind);
		conversion_envs(c, (unsigned char *)elements, N / c->block, got,
				want, &same, &kept);
		all_same &= same;
		all_kept &= kept;
	}
	ok(all_same, "F32 to %s: rounding modes and flushing have no influence",
	   name_of(c->to));
	ok(all_kept, "F32 to %s: no flag of the thread is set, and none traps",
	   name_of(c->to));
}

/* More elements than have sums: blocks of every mixture of kinds. */
static void same_as_portable(const struct weir_backend_convert *c)
{
	static unsigned char want[N * 2];
	size_t wrong = 0, bytes = bytes_of(c->to, N);
	const struct weir_backend_convert *portable =
		weir__convert_in(&weir__quantise_portable, c->from, c->to);

	if (c == portable)
		return;
	elements_make(WEIGHTS);
	for (unsigned i = 0; i < 200; i++) {
		for (size_t k = 0; k < N; k++)
			elements[k] = element(
				(i + (random32() % 64 ? 0 : random32())) %
					KINDS,
				k);
		portable->run(want, elements, N / c->block);
		quantise(c);
		wrong += memcmp(blocks, want, bytes) != 0;
	}
	is_int(wrong, 0, "F32 to %s: the blocks are those of the portable form",
	       name_of(c->to));
}

static void kernels(const struct weir__convert_set *set)
{
	char prefix[32];

	snprintf(prefix, sizeof(prefix), "%s: ", set->name);
	for (size_t i = 0; i < COUNT(dtypes); i++) {
		const struct weir_backend_convert *c =
			weir__convert_in(set, WEIR_DTYPE_F32, dtypes[i]);

		if (!c)
			continue;
		tap_prefix(prefix);
		if (!set->usable()) {
			skip(1, "this CPU has no %s", set->name);
			continue;
		}
		first_block(c, i);
		like_ggml(c, i);
		lengths(c);
		environment(c);
		same_as_portable(c);
	}
	tap_prefix(NULL);
}

/*
 * Elements of @dtype become values that are not farther than @steps, a fraction
 * of the greatest magnitude of their @group.
 */
static void bounded(uint32_t dtype, size_t group, float steps)
{
	static float back[N];
	size_t wrong = 0;

	elements_make(WEIGHTS);
	weir_convert(dtype, blocks, WEIR_DTYPE_F32, elements, N);
	weir_convert(WEIR_DTYPE_F32, back, dtype, blocks, N);
	for (size_t i = 0; i < N; i++) {
		float most = 0;

		for (size_t k = i / group * group;
		     k < i / group * group + group; k++)
			most = fmaxf(most, fabsf(elements[k]));
		wrong += !(fabsf(back[i] - elements[i]) <= most * steps);
	}
	is_int(wrong, 0,
	       "%s: converted back, an element differs by at most %g of the "
	       "greatest of its group",
	       name_of(dtype), (double)steps);
}

/* Blocks of @dtype, converted back and again, are the same. */
static void stable(uint32_t dtype)
{
	static unsigned char again[N * 2];
	static float back[N];

	elements_make(WEIGHTS);
	weir_convert(dtype, blocks, WEIR_DTYPE_F32, elements, N);
	weir_convert(WEIR_DTYPE_F32, back, dtype, blocks, N);
	weir_convert(dtype, again, WEIR_DTYPE_F32, back, N);
	ok(!memcmp(again, blocks, bytes_of(dtype, N)),
	   "%s: blocks that are converted back and again are the same",
	   name_of(dtype));
}

/* Sources that are not F32 are those F32 to which they are converted. */
static void other_sources(uint32_t to)
{
	static unsigned char want[N * 2], src[N * 8];
	unsigned wrong = 0, sources = 0;

	for (uint32_t from = 1; from < 128; from++) {
		const struct weir_backend_convert *c =
			weir__convert_in(&weir__convert_via, from, to);

		if (!c || from == to)
			continue;
		sources++;
		random_state = from;
		for (size_t i = 0; i < bytes_of(from, N); i++)
			src[i] = (unsigned char)(random32() >> 8);
		weir_convert(WEIR_DTYPE_F32, elements, (enum weir_dtype)from,
			     src, N);
		weir_convert((enum weir_dtype)to, want, WEIR_DTYPE_F32,
			     elements, N);
		memset(blocks, 0xa5, sizeof(blocks));
		wrong += weir_convert((enum weir_dtype)to, blocks,
				      (enum weir_dtype)from, src, N) < 0 ||
			 memcmp(blocks, want, bytes_of(to, N)) != 0;
	}
	is_int(wrong, 0, "%s is made of every dtype by way of F32",
	       name_of(to));
	is_int(sources, 8 + 26, "%s is made of all dtypes that become F32",
	       name_of(to));
}

static void refusals(void)
{
	is_err(weir_convert(WEIR_DTYPE_Q8_0, blocks, WEIR_DTYPE_F32, elements,
			    48),
	       -EINVAL, "48 elements are not whole blocks of 32 (Q8_0)",
	       "weir_convert refuses elements that are a part of a block");
	is_err(weir_convert(WEIR_DTYPE_Q4_K, blocks, WEIR_DTYPE_Q8_0, blocks,
			    288),
	       -EINVAL, "288 elements are not whole blocks of 256 (Q4_K)",
	       "weir_convert names the larger of two blocks");
	is_err(weir_convert(WEIR_DTYPE_Q5_0, NULL, WEIR_DTYPE_F32, NULL, 0),
	       -EOPNOTSUPP, "F32 to Q5_0",
	       "weir_convert refuses other quantised dtypes");
	is_err(weir_convert(WEIR_DTYPE_Q8_0, NULL, WEIR_DTYPE_I32, NULL, 0),
	       -EOPNOTSUPP, "I32 to Q8_0",
	       "weir_convert does not quantise integers");
}

int main(void)
{
	plan(0);
	for (size_t i = 0; weir__convert_sets[i]; i++)
		kernels(weir__convert_sets[i]);
	bounded(WEIR_DTYPE_Q8_0, 32, 0.54f / 127);
	bounded(WEIR_DTYPE_Q4_0, 32, 1.01f / 8);
	bounded(WEIR_DTYPE_Q4_K, 256, 1.2f / 15);
	bounded(WEIR_DTYPE_Q6_K, 256, 1.1f / 32);
	stable(WEIR_DTYPE_Q8_0);
	stable(WEIR_DTYPE_Q4_0);
	for (size_t i = 0; i < COUNT(dtypes); i++)
		other_sources(dtypes[i]);
	refusals();
	return done_testing();
}
