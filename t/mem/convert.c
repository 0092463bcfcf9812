/* SPDX-License-Identifier: MIT */
/*
 * Conversion of elements, each set of kernels against exact arithmetic in long
 * double, which holds every F64 and every midpoint of two destination values.
 *
 * t/mem/quants.c tests the conversions of quantised blocks.
 * `t/mem/convert.t all` also converts all 2^32 F32, which takes long.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "mem/convert.h"
#include "mem/dtype.h"
#include "conversions.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CHUNK 4096

enum nans {
	MANY,
	ONES,
	ZERO,
	LAST
};

/* From the documents of the formats, not from the code that is tested. */
static const struct fmt {
	uint32_t dtype;
	const char *name;
	int bits, mantissa, bias;
	enum nans nans; /* ONES: no infinity; ZERO: nor -0; LAST: no sign */
} fmts[] = {
	{ WEIR_DTYPE_F64, "F64", 64, 52, 1023, MANY },
	{ WEIR_DTYPE_F32, "F32", 32, 23, 127, MANY },
	{ WEIR_DTYPE_F16, "F16", 16, 10, 15, MANY },
	{ WEIR_DTYPE_BF16, "BF16", 16, 7, 127, MANY },
	{ WEIR_DTYPE_F8_E5M2, "F8_E5M2", 8, 2, 15, MANY },
	{ WEIR_DTYPE_F8_E4M3, "F8_E4M3", 8, 3, 7, ONES },
	{ WEIR_DTYPE_F8_E5M2FNUZ, "F8_E5M2FNUZ", 8, 2, 16, ZERO },
	{ WEIR_DTYPE_F8_E4M3FNUZ, "F8_E4M3FNUZ", 8, 3, 8, ZERO },
	{ WEIR_DTYPE_F8_E8M0, "F8_E8M0", 8, 0, 127, LAST },
};

static const struct fmt *fmt_of(uint32_t dtype)
{
	for (size_t i = 0; i < COUNT(fmts); i++)
		if (fmts[i].dtype == dtype)
			return &fmts[i];
	bail("%u is no floating-point dtype", dtype);
}

struct value {
	bool negative, nan;
	uint64_t payload; /* payload of a NaN, its highest bit at bit 63 */
	long double mag;
};

static uint64_t fmt_inf(const struct fmt *f)
{
	return (1ull << (f->bits - 1)) - (1ull << f->mantissa);
}

static struct value value_of(const struct fmt *f, uint64_t x)
{
	uint64_t sign = 1ull << (f->bits - 1), mag = x & (sign - 1);
	uint64_t fraction = mag & ((1ull << f->mantissa) - 1);
	int exponent = (int)(mag >> f->mantissa);
	struct value v = { .negative = x & sign };

	if (f->nans == LAST) {
		v = (struct value){ .nan = x == 255 };
		v.mag = ldexpl(1, (int)x - 127);
	} else if (f->nans == MANY && mag >= fmt_inf(f)) {
		v.nan = fraction;
		v.payload = fraction << (64 - f->mantissa);
		v.mag = INFINITY;
	} else if (f->nans == ONES && mag == sign - 1) {
		v.nan = true;
	} else if (f->nans == ZERO && x == sign) {
		v = (struct value){ .nan = true };
	} else if (exponent) {
		v.mag = ldexpl((long double)(fraction + (1ull << f->mantissa)),
			       exponent - f->bias - f->mantissa);
	} else {
		v.mag = ldexpl((long double)fraction,
			       1 - f->bias - f->mantissa);
	}
	return v;
}

static uint64_t bits_of(const struct fmt *f, struct value v)
{
	uint64_t sign = v.negative ? 1ull << (f->bits - 1) : 0;
	int least = 1 - f->bias - f->mantissa, unit = least;
	uint64_t n;

	if (v.nan)
		return sign | fmt_inf(f) | 1ull << (f->mantissa - 1) |
		       v.payload >> (64 - f->mantissa);
	if (v.mag >= ldexpl(1, f->bias + 1))
		return sign | fmt_inf(f);
	if (v.mag > 0 && ilogbl(v.mag) - f->mantissa > unit)
		unit = ilogbl(v.mag) - f->mantissa;
	n = (uint64_t)rintl(ldexpl(v.mag, -unit)); /* nearest, ties to even */
	return sign | (n + ((uint64_t)(unit - least) << f->mantissa));
}

static uint64_t get(const void *at, int bits)
{
	uint64_t x = 0;

	memcpy(&x, at, (size_t)bits / 8); /* little-endian */
	return x;
}

static void put(void *at, int bits, uint64_t x)
{
	memcpy(at, &x, (size_t)bits / 8);
}

/* Values that are checked by CHUNK. */
struct check {
	const struct weir_backend_convert *convert;
	const struct fmt *from, *to;
	uint64_t n, wrong;
	size_t used;
	unsigned char src[CHUNK * 8], dst[CHUNK * 8];
};

static void check_init(struct check *c,
		       const struct weir_backend_convert *convert)
{
	*c = (struct check){ .convert = convert,
			     .from = fmt_of(convert->from),
			     .to = fmt_of(convert->to) };
}

static void check_flush(struct check *c)
{
	c->convert->run(c->dst, c->src, c->used);
	for (size_t i = 0; i < c->used; i++) {
		uint64_t x =
			get(c->src + i * c->convert->src_bytes, c->from->bits);
		uint64_t y =
			get(c->dst + i * c->convert->dst_bytes, c->to->bits);
		uint64_t want = bits_of(c->to, value_of(c->from, x));

		if (y != want && c->wrong++ < 4)
			diag("%#llx became %#llx, not %#llx",
			     (unsigned long long)x, (unsigned long long)y,
			     (unsigned long long)want);
	}
	c->n += c->used;
	c->used = 0;
	tap_renew();
}

static void check_add(struct check *c, uint64_t x)
{
	put(c->src + c->used++ * c->convert->src_bytes, c->from->bits, x);
	if (c->used == CHUNK)
		check_flush(c);
}

static void check_end(struct check *c, const char *what)
{
	check_flush(c);
	ok(!c->wrong, "%s to %s: %s are rounded exactly (%llu values)",
	   c->from->name, c->to->name, what, (unsigned long long)c->n);
}

static uint64_t random64(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void check_all(struct check *c)
{
	for (uint64_t x = 0; x < 1ull << c->from->bits; x++)
		check_add(c, x);
	check_end(c, "all values");
}

/* @x and its neighbours, of either sign. */
static void check_near(struct check *c, uint64_t x)
{
	uint64_t sign = 1ull << (c->from->bits - 1);

	for (int i = -1; i <= 1; i++) {
		check_add(c, (x + (uint64_t)i) & (sign - 1));
		check_add(c, ((x + (uint64_t)i) & (sign - 1)) | sign);
	}
}

/* A destination value, and the midpoint between it and the next. */
static void check_ties(struct check *c, uint64_t y)
{
	struct value v = value_of(c->to, y), next = value_of(c->to, y + 1);

	check_near(c, bits_of(c->from, v));
	if (y + 1 == fmt_inf(c->to))
		next.mag = ldexpl(1, c->to->bias + 1);
	v.mag = (v.mag + next.mag) / 2;
	check_near(c, bits_of(c->from, v));
}

static void check_wide(struct check *c)
{
	uint64_t inf = fmt_inf(c->to), step = c->to->bits == 32 ? 9973 : 1;

	for (uint64_t y = 0; y < inf; y += step)
		check_ties(c, y);
	for (uint64_t y = 1; y < inf; y <<= 1) {
		check_ties(c, y - 1);
		check_ties(c, y);
		check_ties(c, inf - y);
	}
	check_end(c, "values, midpoints, and their neighbours");
	c->n = 0;
	inf = fmt_inf(c->from);
	for (int bit = 0; bit < c->from->mantissa; bit++) {
		check_near(c, inf + (1ull << bit));
		check_near(c, inf - (1ull << bit));
		check_near(c, 1ull << bit);
	}
	check_near(c, inf);
	check_end(c, "infinities, NaNs and the smallest values");
	c->n = 0;
	for (int i = 0; i < 1000000; i++)
		check_add(c, random64() >> (64 - c->from->bits));
	check_end(c, "random bits");
	if (c->from->bits < 64)
		return;
	c->n = 0;
	for (int i = 0; i < 1000000; i++) {
		uint64_t x = random64();

		/* 2^-160 to 2^159, and few bits that are not 0. */
		x = x % 320 + 1023 - 160;
		check_add(c, x << 52 | (random64() & random64() & random64() &
					0x800fffffffffffff));
	}
	check_end(c, "random values of the destination's range");
}

static void lengths(const struct weir_backend_convert *convert)
{
	static unsigned char src[68 * 8 + 8];
	size_t wrong = 0;

	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (unsigned char)random64();
	for (size_t n = 0; n < 68; n++)
		for (size_t at = 0; at < 64; at++)
			wrong += conversion_errors(convert, src + at % 8, n,
						   at / 8);
	is_int(wrong, 0,
	       "%s to %s: lengths of 0 to 67 at each address write exactly "
	       "their elements",
	       fmt_of(convert->from)->name, fmt_of(convert->to)->name);
}

static void environment(const struct weir_backend_convert *convert)
{
	enum {
		N = 65536
	};
	static unsigned char src[N * 8], dst[N * 8], want[N * 8];
	const struct fmt *from = fmt_of(convert->from);
	bool same, kept;

	for (uint64_t i = 0; i < N; i++) {
		uint64_t top = i << (from->bits > 16 ? from->bits - 16 : 0);
		uint64_t x = from->bits > 16 ? random64() & random64() : 0;

		/* Every sign and exponent, then bits below 16. */
		x = from->bits == 64 ? x >> 16 : x >> 48;
		put(src + i * convert->src_bytes, from->bits, top | x);
	}
	conversion_envs(convert, src, N, dst, want, &same, &kept);
	ok(same, "%s to %s: rounding modes and flushing have no influence",
	   from->name, fmt_of(convert->to)->name);
	ok(kept, "%s to %s: no flag of the thread is set, and none traps",
	   from->name, fmt_of(convert->to)->name);
}

static void set_of_kernels(const struct weir__convert_set *set)
{
	static struct check check;

	char prefix[32];

	if (!set->usable()) {
		skip(1, "this CPU has no %s", set->name);
		return;
	}
	snprintf(prefix, sizeof(prefix), "%s: ", set->name);
	tap_prefix(prefix);
	for (size_t i = 0; i < set->n; i++) {
		check_init(&check, &set->list[i]);
		if (check.from->bits > 16)
			check_wide(&check);
		else
			check_all(&check);
		lengths(&set->list[i]);
		environment(&set->list[i]);
	}
	tap_prefix(NULL);
}

static void all_f32(const struct weir__convert_set *set)
{
	static const uint32_t to[] = { WEIR_DTYPE_F16, WEIR_DTYPE_BF16 };
	static struct check check;

	if (!set->usable())
		return;
	for (size_t i = 0; i < COUNT(to); i++) {
		check_init(&check,
			   weir__convert_in(set, WEIR_DTYPE_F32, to[i]));
		check_all(&check);
	}
}

static void offered(void)
{
	static const uint32_t to[] = { WEIR_DTYPE_F32,  WEIR_DTYPE_F16,
				       WEIR_DTYPE_BF16, WEIR_DTYPE_Q8_0,
				       WEIR_DTYPE_Q4_0, WEIR_DTYPE_Q4_K,
				       WEIR_DTYPE_Q6_K };
	unsigned wrong = 0;

	for (uint32_t from = 0; from < 256; from++)
		for (uint32_t i = 0; i < 256; i++) {
			bool is_from = from > WEIR_DTYPE_GGML, is_to = false;

			is_from &= weir__dtype(from) != NULL;
			for (size_t k = 0; k < COUNT(fmts); k++)
				is_from |= fmts[k].dtype == from;
			for (size_t k = 0; k < COUNT(to); k++)
				is_to |= to[k] == i;
			wrong += from != i &&
				 (is_from && is_to) !=
					 (weir__convert_find(from, i) != NULL);
		}
	is_int(wrong, 0,
	       "every floating-point and quantised dtype is converted to F32, "
	       "F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K, and nothing else is");
}

static void public_call(void)
{
	static const uint16_t bf16[] = { 0x3f80, 0xc000, 0x7f81 };
	uint32_t f32[3];
	uint16_t copy[3];
	static const unsigned char bytes[18] = "\xff\xffthe same bytes";
	unsigned char block[18];

	is_int(weir_convert(WEIR_DTYPE_F32, f32, WEIR_DTYPE_BF16, bf16, 3), 0,
	       "weir_convert converts BF16 to F32");
	is_mem(f32, ((uint32_t[]){ 0x3f800000, 0xc0000000, 0x7fc10000 }), 12,
	       "weir_convert makes NaNs quiet");
	is_int(weir_convert(WEIR_DTYPE_BF16, copy, WEIR_DTYPE_BF16, bf16, 3), 0,
	       "weir_convert accepts the same dtype twice");
	is_mem(copy, bf16, sizeof(copy),
	       "weir_convert copies elements of the same dtype as they are");
	is_int(weir_convert(WEIR_DTYPE_Q4_0, block, WEIR_DTYPE_Q4_0, bytes, 32),
	       0, "weir_convert accepts the same quantised dtype twice");
	is_mem(block, bytes, sizeof(block),
	       "weir_convert copies blocks of the same dtype as they are");
	is_int(weir_convert(WEIR_DTYPE_F32, NULL, WEIR_DTYPE_F16, NULL, 0), 0,
	       "weir_convert of no elements says that the pair is offered");
	is_err(weir_convert(WEIR_DTYPE_F32, f32, WEIR_DTYPE_I8, bf16, 0),
	       -EOPNOTSUPP, "I8 to F32", "weir_convert refuses integers");
	is_err(weir_convert(WEIR_DTYPE_F32, f32, WEIR_DTYPE_F4, bf16, 0),
	       -EOPNOTSUPP, "F4 to F32",
	       "weir_convert refuses packed elements");
	is_err(weir_convert(WEIR_DTYPE_F32, f32, (enum weir_dtype)65, bf16, 1),
	       -EINVAL, "65 is not a dtype",
	       "weir_convert refuses a number that is not a dtype");
	is_err(weir_convert(WEIR_DTYPE_F32, NULL, WEIR_DTYPE_BF16, bf16, 1),
	       -EINVAL, "NULL", "weir_convert refuses elements at NULL");
}

int main(int argc, char **argv)
{
	bool all = argc > 1 && !strcmp(argv[1], "all");

	plan(0);
	offered();
	public_call();
	for (size_t i = 0; weir__convert_sets[i]; i++)
		if (weir__convert_sets[i]->list[0].block == 1)
			set_of_kernels(weir__convert_sets[i]);
	for (size_t i = 0; all && weir__convert_sets[i]; i++)
		if (weir__convert_sets[i]->list[0].block == 1)
			all_f32(weir__convert_sets[i]);
	return done_testing();
}
