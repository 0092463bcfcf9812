/* SPDX-License-Identifier: MIT */
/*
 * Conversion of elements in portable C, and the choice of kernels.
 *
 * The arithmetic is on integers, so that rounding modes, flush-to-zero and
 * traps of the thread have no influence. The one exception, a multiplication
 * for subnormal sources, is exact and its result is normal or +0. The loops
 * have no branches, for the vectoriser of the compiler.
 */
#include "mem/convert.h"

#include <string.h>

#include "core/error.h"
#include "mem/dtype.h"

#define INLINE static inline __attribute__((always_inline))

/* A format has a sign, an exponent and a mantissa, from the top bit down. */
struct format {
	uint32_t bits, mantissa, bias;
	enum {
		IEEE,   /* infinities, and NaNs with payloads */
		FINITE, /* no infinity; all ones after the sign are NaN */
		FNUZ    /* no infinity; the bits of -0 are the only NaN */
	} kind;
};

static const struct format f64 = { 64, 52, 1023, IEEE };
static const struct format f32 = { 32, 23, 127, IEEE };
static const struct format f16 = { 16, 10, 15, IEEE };
static const struct format bf16 = { 16, 7, 127, IEEE };
static const struct format f8_e5m2 = { 8, 2, 15, IEEE };
static const struct format f8_e4m3 = { 8, 3, 7, FINITE };
static const struct format f8_e5m2fnuz = { 8, 2, 16, FNUZ };
static const struct format f8_e4m3fnuz = { 8, 3, 8, FNUZ };

#define F32_INF 0x7f800000u
#define F32_QUIET 0x00400000u

/* Return the bits of infinity. */
INLINE uint32_t format_inf(struct format f)
{
	return (1u << (f.bits - 1)) - (1u << f.mantissa);
}

/*
 * Return mag * 2^exponent. It is exact, since @mag has at most 15 bits and the
 * result is normal.
 */
INLINE uint32_t scaled(uint32_t mag, int exponent)
{
	uint32_t bits = (uint32_t)(127 + exponent) << 23;
	float value, scale;

	memcpy(&scale, &bits, sizeof(scale));
	value = (float)(int32_t)mag * scale;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/*
 * Return the bits of the F32 of an element of @from, whose exponent has fewer
 * bits.
 */
INLINE uint32_t widen(uint32_t x, struct format from)
{
	uint32_t sign = x << (32 - from.bits) & 0x80000000u;
	uint32_t mag = x & ((1u << (from.bits - 1)) - 1);
	uint32_t moved = mag << (23 - from.mantissa);
	uint32_t normal = moved + ((127 - from.bias) << 23);
	uint32_t small = scaled(mag, 1 - (int)from.bias - (int)from.mantissa);
	uint32_t y = mag < 1u << from.mantissa ? small : normal;

	if (from.kind == IEEE) {
		y = mag >= format_inf(from) ? F32_INF | moved : y;
		y |= mag > format_inf(from) ? F32_QUIET : 0;
	} else if (from.kind == FINITE) {
		y = mag + 1 == 1u << (from.bits - 1) ? F32_INF | F32_QUIET : y;
	} else {
		y = !mag && sign ? F32_INF | F32_QUIET : y;
		sign = mag ? sign : 0;
	}
	return sign | y;
}

INLINE uint32_t widen_bf16(uint32_t x)
{
	uint32_t y = x << 16;

	return y | ((y & 0x7fffffff) > F32_INF ? F32_QUIET : 0);
}

/*
 * Return the F32 of a scale of the MX formats, which is 2^(x - 127) or NaN.
 * Such a scale has no sign and no zero.
 */
INLINE uint32_t widen_e8m0(uint32_t x)
{
	uint32_t y = x ? x << 23 : 1u << 22;

	return y | (x == 255 ? F32_QUIET : 0);
}

INLINE uint32_t e5m2_to_f16(uint32_t x)
{
	return x << 8 | ((x & 0x7f) > 0x7c ? 0x200 : 0);
}

/* Return the BF16 of an F32 that is zero, infinite, NaN or a normal BF16. */
INLINE uint32_t bf16_exact(uint32_t x)
{
	return x >> 16;
}

/* Return the F16 of an F32 that is zero, NaN or a normal F16. */
INLINE uint32_t f16_exact(uint32_t x)
{
	uint32_t sign = x >> 16 & 0x8000, mag = x & 0x7fffffff;
	uint32_t y = (mag >> 13) - (112u << 10);

	y = mag ? y : 0;
	return sign | (mag > F32_INF ? 0x7e00 : y);
}

INLINE uint32_t narrow_bf16(uint32_t x)
{
	uint32_t y = (x + 0x7fff + (x >> 16 & 1)) >> 16;

	return (x & 0x7fffffff) > F32_INF ? x >> 16 | 0x40 : y;
}

/* Return x / 2^drop, rounded to the nearest, ties to even. */
INLINE uint64_t shift_round(uint64_t x, uint32_t drop)
{
	return (x + (1ull << (drop - 1)) - 1 + (x >> drop & 1)) >> drop;
}

/*
 * Round an F64 or F32 once, also to subnormals. A carry out of the mantissa is
 * right in each case: it leads to the smallest normal number, to the next
 * exponent, or to infinity.
 */
INLINE uint32_t narrow(uint64_t x, struct format from, struct format to)
{
	uint32_t drop = from.mantissa - to.mantissa;
	uint32_t rebias = from.bias - to.bias;
	uint64_t one = 1ull << from.mantissa; /* the lowest exponent bit */
	uint64_t inf = (2ull * from.bias + 1) * one;
	uint64_t mag = x & ((1ull << (from.bits - 1)) - 1);
	uint64_t sign = x >> (from.bits - to.bits) & 1ull << (to.bits - 1);
	uint64_t nan = format_inf(to) | 1ull << (to.mantissa - 1) |
		       (mag >> drop & ((1ull << to.mantissa) - 1));
	uint64_t normal = shift_round(mag - rebias * one, drop);
	/*
	 * A subnormal result loses the bits below the unit of @to, which are at
	 * most all bits and one more.
	 */
	uint32_t exponent = (uint32_t)(mag >> from.mantissa);
	uint32_t low = exponent < rebias ? rebias - exponent : 0;
	uint32_t shift = drop + 1 + low;
	uint32_t most = from.mantissa + 2;
	uint64_t small = shift_round((mag & (one - 1)) | one,
				     shift < most ? shift : most);
	uint64_t y = exponent <= rebias ? small : normal;

	y = exponent > from.bias + to.bias ? format_inf(to) : y;
	return (uint32_t)(sign | (mag > inf ? nan : y));
}

INLINE uint32_t f32_to_f16(uint32_t x)
{
	return narrow(x, f32, f16);
}

uint16_t weir__to_half(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return (uint16_t)f32_to_f16(bits);
}

float weir__half(uint16_t bits)
{
	uint32_t wide = widen(bits, f16);
	float x;

	memcpy(&x, &wide, sizeof(x));
	return x;
}

/*
 * Each line is one conversion: the two dtypes, their C types, and the result
 * for an x.
 */
#define CONVERSIONS(X)                                                     \
	X(F64, F32, uint64_t, uint32_t, narrow(x, f64, f32))               \
	X(F64, F16, uint64_t, uint16_t, narrow(x, f64, f16))               \
	X(F64, BF16, uint64_t, uint16_t, narrow(x, f64, bf16))             \
	X(F32, F16, uint32_t, uint16_t, f32_to_f16(x))                     \
	X(F32, BF16, uint32_t, uint16_t, narrow_bf16(x))                   \
	X(F16, F32, uint16_t, uint32_t, widen(x, f16))                     \
	X(F16, BF16, uint16_t, uint16_t, narrow_bf16(widen(x, f16)))       \
	X(BF16, F32, uint16_t, uint32_t, widen_bf16(x))                    \
	X(BF16, F16, uint16_t, uint16_t, f32_to_f16(widen_bf16(x)))        \
	X(F8_E5M2, F32, uint8_t, uint32_t, widen(x, f8_e5m2))              \
	X(F8_E5M2, F16, uint8_t, uint16_t, e5m2_to_f16(x))                 \
	X(F8_E5M2, BF16, uint8_t, uint16_t, bf16_exact(widen(x, f8_e5m2))) \
	X(F8_E4M3, F32, uint8_t, uint32_t, widen(x, f8_e4m3))              \
	X(F8_E4M3, F16, uint8_t, uint16_t, f16_exact(widen(x, f8_e4m3)))   \
	X(F8_E4M3, BF16, uint8_t, uint16_t, bf16_exact(widen(x, f8_e4m3))) \
	X(F8_E5M2FNUZ, F32, uint8_t, uint32_t, widen(x, f8_e5m2fnuz))      \
	X(F8_E5M2FNUZ, F16, uint8_t, uint16_t,                             \
	  f32_to_f16(widen(x, f8_e5m2fnuz)))                               \
	X(F8_E5M2FNUZ, BF16, uint8_t, uint16_t,                            \
	  bf16_exact(widen(x, f8_e5m2fnuz)))                               \
	X(F8_E4M3FNUZ, F32, uint8_t, uint32_t, widen(x, f8_e4m3fnuz))      \
	X(F8_E4M3FNUZ, F16, uint8_t, uint16_t,                             \
	  f16_exact(widen(x, f8_e4m3fnuz)))                                \
	X(F8_E4M3FNUZ, BF16, uint8_t, uint16_t,                            \
	  bf16_exact(widen(x, f8_e4m3fnuz)))                               \
	X(F8_E8M0, F32, uint8_t, uint32_t, widen_e8m0(x))                  \
	X(F8_E8M0, F16, uint8_t, uint16_t, f32_to_f16(widen_e8m0(x)))      \
	X(F8_E8M0, BF16, uint8_t, uint16_t, bf16_exact(widen_e8m0(x)))

/*
 * The elements need not be aligned, so they are copied. The inner loop has a
 * constant length, since gcc vectorises only such loops at -O2.
 */
#define BLOCK 32
#define KERNEL(from_, to_, src_t, dst_t, expression)                         \
	static inline void from_##_##to_##_one(unsigned char *dst,           \
					       const unsigned char *src)     \
	{                                                                    \
		src_t x;                                                     \
		dst_t y;                                                     \
                                                                             \
		memcpy(&x, src, sizeof(x));                                  \
		y = (dst_t)(expression);                                     \
		memcpy(dst, &y, sizeof(y));                                  \
	}                                                                    \
                                                                             \
	static void from_##_##to_(void *restrict dst,                        \
				  const void *restrict src, size_t n)        \
	{                                                                    \
		unsigned char *restrict out = dst;                           \
		const unsigned char *restrict in = src;                      \
                                                                             \
		for (; n >= BLOCK; n -= BLOCK) {                             \
			for (size_t i = 0; i < BLOCK; i++)                   \
				from_##_##to_##_one(out + i * sizeof(dst_t), \
						    in + i * sizeof(src_t)); \
			out += BLOCK * sizeof(dst_t);                        \
			in += BLOCK * sizeof(src_t);                         \
		}                                                            \
		for (size_t i = 0; i < n; i++)                               \
			from_##_##to_##_one(out + i * sizeof(dst_t),         \
					    in + i * sizeof(src_t));         \
	}
CONVERSIONS(KERNEL)

#define ROW(from_, to_, src_t, dst_t, expression) \
	{ .run = from_##_##to_,                   \
	  .block = 1,                             \
	  .src_bytes = sizeof(src_t),             \
	  .dst_bytes = sizeof(dst_t),             \
	  .from = WEIR_DTYPE_##from_,             \
	  .to = WEIR_DTYPE_##to_ },
static const struct weir_backend_convert list[] = { CONVERSIONS(ROW) };

static bool portable_usable(void)
{
	return true;
}

static const struct weir__convert_set portable = {
	.name = "portable",
	.usable = portable_usable,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
};

const struct weir__convert_set *const weir__convert_sets[] = {
#ifdef __x86_64__
	&weir__convert_avx512,
	&weir__convert_avx2,
#endif
	&portable,
	&weir__convert_quants,
#ifdef __x86_64__
	&weir__quantise_avx512,
	&weir__quantise_avx2,
#endif
	&weir__quantise_portable,
	&weir__convert_via,
	NULL,
};

const struct weir_backend_convert *
weir__convert_in(const struct weir__convert_set *set, uint32_t from,
		 uint32_t to)
{
	for (size_t i = 0; i < set->n; i++)
		if (set->list[i].from == from && set->list[i].to == to)
			return &set->list[i];
	return NULL;
}

const struct weir_backend_convert *weir__convert_find(uint32_t from,
						      uint32_t to)
{
	const struct weir_backend_convert *found = NULL;

	for (size_t i = 0; weir__convert_sets[i] && !found; i++)
		if (weir__convert_sets[i]->usable())
			found = weir__convert_in(weir__convert_sets[i], from,
						 to);
	return found;
}

int weir_convert(enum weir_dtype to, void *dst, enum weir_dtype from,
		 const void *src, size_t n)
{
	const struct weir_backend_convert *convert =
		from == to ? NULL : weir__convert_find(from, to);
	const struct weir_dtype_info *src_info = weir__dtype(from);
	const struct weir_dtype_info *dst_info = weir__dtype(to), *larger;

	WEIR__ENTER();
	if (!src_info || !dst_info)
		return weir__fail(-EINVAL, "%u is not a dtype",
				  (unsigned)(src_info ? to : from));
	if (!convert && from != to)
		return weir__fail(-EOPNOTSUPP,
				  "%s to %s: no conversion is offered",
				  src_info->name, dst_info->name);
	larger = dst_info->block > src_info->block ? dst_info : src_info;
	if (n % larger->block)
		return weir__fail(
			-EINVAL, "%zu elements are not whole blocks of %u (%s)",
			n, larger->block, larger->name);
	if (n && (!dst || !src))
		return weir__fail(-EINVAL, "%zu elements, but %s is NULL", n,
				  dst ? "src" : "dst");
	if (convert)
		convert->run(dst, src, n / convert->block);
	else if (n)
		memcpy(dst, src, n / src_info->block * src_info->bytes);
	return 0;
}
