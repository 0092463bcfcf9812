/* SPDX-License-Identifier: MIT */
/* Arithmetic: the functions of lanes.inc, and what is computed lane by lane. */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "machine.h"

#pragma GCC optimize("O3")

__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;

static inline uint32_t bits_of(float f)
{
	uint32_t u;

	memcpy(&u, &f, 4);
	return u;
}

static inline float float_of(uint32_t u)
{
	float f;

	memcpy(&f, &u, 4);
	return f;
}

/* 0 with the sign of @x if it is subnormal. */
static inline float flushed(float x)
{
	uint32_t u = bits_of(x);

	return float_of(u & 0x7f800000 ? u : u & 0x80000000);
}

/* Between 0 and 1; NaN becomes 0. */
static inline float clamped(float x, bool sat)
{
	if (!sat)
		return x;
	return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f;
}

static inline float half_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fffu;
	float f = float_of(rest << 13) * 0x1p112f;
	uint32_t u = rest >= 0x7c00 ? 0x7f800000 | rest << 13 : bits_of(f);

	return float_of(sign | u);
}

static inline float bf16_float(uint16_t h)
{
	return float_of((uint32_t)h << 16);
}

/* To the nearest, ties to even. */
static inline uint16_t half_of(float f)
{
	uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
	uint32_t normal =
		(a + ((uint32_t)(15 - 127) << 23) + 0xfff + (a >> 13 & 1)) >>
		13;
	/* Adding 0.5 leaves the bits of a subnormal at the end. */
	uint32_t small =
		bits_of(float_of(a < 0x38800000 ? a : 0) + 0.5f) - 0x3f000000;
	uint32_t r = a < 0x38800000 ? small : normal;

	r = a >= 0x477ff000 ? 0x7c00 : r;
	return a > 0x7f800000 ? 0x7fff : (uint16_t)(sign | r);
}

static inline uint16_t bf16_of(float f)
{
	uint32_t u = bits_of(f);

	return (u & 0x7fffffff) > 0x7f800000
		       ? 0x7fff
		       : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float smaller(float x, float y, bool nan)
{
	if (x != x)
		return nan ? x : y;
	if (y != y)
		return nan ? y : x;
	return x < y || (x == y && bits_of(x) >> 31) ? x : y;
}

static inline float larger(float x, float y, bool nan)
{
	if (x != x)
		return nan ? x : y;
	if (y != y)
		return nan ? y : x;
	return x > y || (x == y && !(bits_of(x) >> 31)) ? x : y;
}

static inline float exp2f_of(float x)
{
	return (float)exp2((double)x);
}

static inline int32_t saturate(int64_t v)
{
	return v > INT32_MAX   ? INT32_MAX
	       : v < INT32_MIN ? INT32_MIN
			       : (int32_t)v;
}

static inline uint32_t reversed(uint32_t x)
{
	x = (x & 0x55555555) << 1 | (x >> 1 & 0x55555555);
	x = (x & 0x33333333) << 2 | (x >> 2 & 0x33333333);
	x = (x & 0x0f0f0f0f) << 4 | (x >> 4 & 0x0f0f0f0f);
	return __builtin_bswap32(x);
}

/* The place of the highest bit, or how far it is from the top. */
static inline uint32_t bfind(uint64_t x, bool shift, unsigned bits)
{
	unsigned at;

	if (!x)
		return FULL;
	at = 63 - (unsigned)__builtin_clzll(x);
	return shift ? bits - 1 - at : at;
}

static inline uint64_t bfe(uint64_t x, uint32_t pos, uint32_t len,
			   unsigned bits, bool is_signed)
{
	uint64_t r = 0, fill;
	unsigned top;

	pos &= 255;
	len &= 255;
	top = pos + len - 1 < bits - 1 ? pos + len - 1 : bits - 1;
	fill = is_signed && len ? x >> top & 1 : 0;
	for (unsigned i = 0; i < bits; i++) {
		uint64_t bit = i < len && pos + i < bits ? x >> (pos + i) & 1
							 : fill;

		r |= bit << i;
	}
	return r;
}

static inline uint32_t funnel(uint32_t low, uint32_t high, uint32_t by,
			      bool left)
{
	uint64_t both = (uint64_t)high << 32 | low;

	return left ? (uint32_t)((both << by) >> 32) : (uint32_t)(both >> by);
}

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t how)
{
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t r = 0;

	for (unsigned i = 0; i < 4; i++) {
		uint32_t sel = how >> (4 * i) & 15;
		uint32_t byte = (uint32_t)(both >> (8 * (sel & 7))) & 255;

		if (sel & 8)
			byte = byte & 0x80 ? 255 : 0;
		r |= byte << (8 * i);
	}
	return r;
}

static inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t lut)
{
	uint32_t r = 0;

	r |= lut & 0x01 ? ~a & ~b & ~c : 0;
	r |= lut & 0x02 ? ~a & ~b & c : 0;
	r |= lut & 0x04 ? ~a & b & ~c : 0;
	r |= lut & 0x08 ? ~a & b & c : 0;
	r |= lut & 0x10 ? a & ~b & ~c : 0;
	r |= lut & 0x20 ? a & ~b & c : 0;
	r |= lut & 0x40 ? a & b & ~c : 0;
	r |= lut & 0x80 ? a & b & c : 0;
	return r;
}

static inline int32_t byte_of(uint32_t x, unsigned i, bool is_signed)
{
	return is_signed ? (int8_t)(x >> (8 * i)) : (uint8_t)(x >> (8 * i));
}

static inline uint32_t dp4(uint32_t x, uint32_t y, bool sx, bool sy)
{
	uint32_t r = 0;

	for (unsigned i = 0; i < 4; i++)
		r += (uint32_t)(byte_of(x, i, sx) * byte_of(y, i, sy));
	return r;
}

static inline uint32_t dp2(uint32_t x, uint32_t y, bool sx, bool sy, bool high)
{
	uint32_t r = 0;

	for (unsigned i = 0; i < 2; i++) {
		int32_t h = sx ? (int16_t)(x >> (16 * i))
			       : (uint16_t)(x >> (16 * i));

		r += (uint32_t)h * (uint32_t)byte_of(y, i + 2 * high, sy);
	}
	return r;
}

static inline uint32_t mask_of(uint32_t from, uint32_t count, bool wrap)
{
	if (wrap) {
		from &= 31;
		count &= 31;
	}
	if (from >= 32)
		return 0;
	return (count >= 32 ? FULL : (1u << count) - 1) << from;
}

/* The flags of fma: relu. */
static inline double once(double v, const struct ins *in)
{
	if (in->relu)
		return v > 0 ? v : v != v ? NAN : 0;
	if (in->sat)
		return v > 0 ? (v < 1 ? v : 1) : 0;
	return v;
}

static inline void put_mask(struct warp *w, const struct operand *o,
			    uint32_t value, uint32_t m)
{
	uint32_t *p = ROW(uint32_t, *o);

	if (!o->sink)
		*p = (*p & ~m) | (value & m);
}

#define NAME(x) x##_plain
#define FMAF(x, y, z) ((float)ptx_fma_odd(x, y, z))
#include "lanes.inc"
#undef NAME
#undef FMAF

#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define WIDE 1
#define NAME(x) x##_wide
#define FMAF(x, y, z) __builtin_fmaf(x, y, z)
#include "lanes.inc"
#undef NAME
#undef FMAF
#pragma GCC pop_options
#endif

static ptx_fn *find(const char *key)
{
#ifdef WIDE
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return find_wide(key);
#endif
	return find_plain(key);
}

/* Arithmetic with a rounding that is not to the nearest. */
static int host_rounding(unsigned round)
{
	return round == R_RZ   ? FE_TOWARDZERO
	       : round == R_RM ? FE_DOWNWARD
	       : round == R_RP ? FE_UPWARD
			       : FE_TONEAREST;
}

enum directed {
	D_ADD,
	D_SUB,
	D_MUL,
	D_FMA,
	D_DIV,
	D_RCP,
	D_SQRT,
};

#define DIRECTED(name, T, FMA, SQRT, FLUSH)                                    \
	static __attribute__((noinline, optimize("O0", "rounding-math")))      \
	T name##_one(unsigned which, T x, T y, T z)                            \
	{                                                                      \
		volatile T a = x, b = y, c = z, r;                             \
		switch (which) {                                               \
		case D_ADD:                                                    \
			r = a + b;                                             \
			break;                                                 \
		case D_SUB:                                                    \
			r = a - b;                                             \
			break;                                                 \
		case D_MUL:                                                    \
			r = a * b;                                             \
			break;                                                 \
		case D_FMA:                                                    \
			r = FMA(a, b, c);                                      \
			break;                                                 \
		case D_DIV:                                                    \
			r = a / b;                                             \
			break;                                                 \
		case D_RCP:                                                    \
			r = 1 / a;                                             \
			break;                                                 \
		default:                                                       \
			r = SQRT(a);                                           \
		}                                                              \
		return r;                                                      \
	}                                                                      \
	static void name(struct warp *w, const struct ins *in, uint32_t m)     \
	{                                                                      \
		const T *s[3];                                                 \
		T *d = ROW(T, in->op[0]);                                      \
		for (unsigned k = 0; k < 3; k++)                               \
			s[k] = ROW(const T, in->op[1 + (k < in->ns ? k : 0)]); \
		fesetround(host_rounding(in->round));                          \
		for (unsigned i = 0; i < LANES; i++) {                         \
			if (m >> i & 1)                                        \
				d[i] = FLUSH(name##_one(                       \
					in->sub2, FLUSH(s[0][i]),              \
					FLUSH(s[1][i]), FLUSH(s[2][i])));      \
		}                                                              \
		fesetround(FE_TONEAREST);                                      \
	}
#define FLUSH_F(x) clamped(in->ftz ? flushed(x) : (x), in->sat)
#define FLUSH_D(x) (x)
#undef FLUSH_F
#define FLUSH_F(x) (in->ftz ? flushed(x) : (x))
DIRECTED(directed_f, float, fmaf, sqrtf, FLUSH_F)
DIRECTED(directed_d, double, fma, sqrt, FLUSH_D)

static ptx_fn *directed(const char *op, struct ins *in)
{
	static const char *const ops[] = { "add", "sub", "mul", "fma",
					   "div", "rcp", "sqrt" };

	for (unsigned i = 0; i < 7; i++) {
		if (strcmp(op, ops[i]))
			continue;
		in->sub2 = (uint8_t)i;
		if (in->type == T_F32 && !in->sat)
			return directed_f;
		return in->type == T_F64 ? directed_d : NULL;
	}
	return NULL;
}

/* Sums with a carry; the carry is a mask of the lanes. */
static void carried(struct warp *w, const struct ins *in, uint32_t m)
{
	bool wide = in->op[0].bytes == 8;
	unsigned n = in->ns;

	for (unsigned i = 0; i < LANES; i++) {
		u128 sum, bits;
		uint64_t x, y, z = 0;
		bool c = in->carry_in && w->carry >> i & 1;

		if (!(m >> i & 1))
			continue;
		x = ptx_value(w, &in->op[in->nd], i);
		y = ptx_value(w, &in->op[in->nd + 1], i);
		bits = wide ? ((u128)1 << 64) : (u128)1 << 32;
		if (n == 3) {
			z = ptx_value(w, &in->op[in->nd + 2], i);
			if (in->sub == M_LO)
				x = x * y;
			else if (in->type == T_U32)
				x = (x * y) >> 32;
			else if (in->type == T_S32)
				x = (uint64_t)(((int64_t)(int32_t)x *
						(int32_t)y) >>
					       32);
			else if (in->type == T_U64)
				x = (uint64_t)(((u128)x * y) >> 64);
			else
				x = (uint64_t)(((s128)(int64_t)x *
						(int64_t)y) >>
					       64);
			if (!wide)
				x = (uint32_t)x;
			y = z;
		}
		if (in->sub2 == 1) { /* a difference */
			uint64_t top = wide ? x - y - c : (uint32_t)(x - y - c);

			sum = top;
			c = (u128)y + c > x;
		} else {
			sum = (u128)x + y + c;
			c = sum >= bits;
		}
		ptx_assign(w, &in->op[0], i, (uint64_t)sum);
		if (in->carry_out)
			w->carry = (w->carry & ~(1u << i)) | (uint32_t)c << i;
	}
}

static void predicates(struct warp *w, const struct ins *in, uint32_t m)
{
	uint32_t a = ptx_mask(w, &in->op[1]);
	uint32_t b = in->ns > 1 ? ptx_mask(w, &in->op[2]) : 0;
	uint32_t r = in->sub2 == B_AND   ? a & b
		     : in->sub2 == B_OR  ? a | b
		     : in->sub2 == B_XOR ? a ^ b
					 : ~a;

	put_mask(w, &in->op[0], r, m);
}

/* Copies what is undefined too, without a report. */
static void move(struct warp *w, const struct ins *in, uint32_t m)
{
	const struct operand *d = &in->op[0], *s = &in->op[1];

	w->def[d->reg] = (w->def[d->reg] & ~m) | (w->def[s->reg] & m);
	if (!d->bytes) {
		put_mask(w, d, ptx_mask(w, s), m);
	} else if (m == FULL) {
		memmove(w->regs + d->off, w->regs + s->off, d->bytes * LANES);
	} else {
		for (unsigned i = 0; i < LANES; i++) {
			if (m >> i & 1)
				ptx_assign(w, d, i, ptx_value(w, s, i));
		}
	}
}

static void select_op(struct warp *w, const struct ins *in, uint32_t m)
{
	const struct operand *d = &in->op[0], *a = &in->op[1], *b = &in->op[2];
	uint32_t p = ptx_mask(w, &in->op[3]);
	uint32_t def = (w->def[a->reg] & p) | (w->def[b->reg] & ~p);

	if (m & ~w->def[in->op[3].reg])
		ptx_found(w, in,
			  (unsigned)__builtin_ctz(m & ~w->def[in->op[3].reg]),
			  F_REGISTER, "uses a predicate that was never set");
	w->def[d->reg] = (w->def[d->reg] & ~m) | (def & m);
	if (d->bytes == 4) {
		const uint32_t *x = ROW(const uint32_t, *a);
		const uint32_t *y = ROW(const uint32_t, *b);
		uint32_t *t = ROW(uint32_t, *d);

		for (unsigned i = 0; i < LANES; i++) {
			uint32_t v = p >> i & 1 ? x[i] : y[i];

			t[i] = m >> i & 1 ? v : t[i];
		}
		return;
	}
	for (unsigned i = 0; i < LANES; i++) {
		if (m >> i & 1)
			ptx_assign(w, d, i,
				   ptx_value(w, p >> i & 1 ? a : b, i));
	}
}

/* mov of a vector to a wider register, or the other way. */
static void pack(struct warp *w, const struct ins *in, uint32_t m)
{
	for (unsigned i = 0; i < LANES; i++) {
		uint64_t v = 0;
		unsigned shift = 0;

		if (!(m >> i & 1))
			continue;
		for (unsigned k = 0; k < in->ns; k++) {
			v |= ptx_value(w, &in->op[in->nd + k], i) << shift;
			shift += in->bytes * 8;
		}
		for (unsigned k = 0; k < in->nd; k++) {
			ptx_assign(w, &in->op[k], i, v);
			v = in->nd > 1 ? v >> (8 * in->op[k].bytes) : v;
		}
	}
}

static void bfi(struct warp *w, const struct ins *in, uint32_t m)
{
	unsigned bits = 8u * in->op[0].bytes;

	for (unsigned i = 0; i < LANES; i++) {
		uint64_t a, b, pos, len, mask;

		if (!(m >> i & 1))
			continue;
		a = ptx_value(w, &in->op[1], i);
		b = ptx_value(w, &in->op[2], i);
		pos = ptx_value(w, &in->op[3], i) & 255;
		len = ptx_value(w, &in->op[4], i) & 255;
		if (pos < bits) {
			mask = len >= 64 ? ~0ull : (1ull << len) - 1;
			b = (b & ~(mask << pos)) | (a & mask) << pos;
		}
		ptx_assign(w, &in->op[0], i, b);
	}
}

static void testp(struct warp *w, const struct ins *in, uint32_t m)
{
	uint32_t r = 0;

	for (unsigned i = 0; i < LANES; i++) {
		uint64_t v = ptx_value(w, &in->op[1], i);
		double d;
		float f;
		bool subnormal, held;

		if (in->type == T_F32) {
			memcpy(&f, &v, 4);
			d = (double)f;
			subnormal = f != 0 && fabsf(f) < 0x1p-126f;
		} else {
			memcpy(&d, &v, 8);
			subnormal = d != 0 && fabs(d) < 0x1p-1022;
		}
		switch (in->sub) {
		case 0:
			held = isfinite(d);
			break;
		case 1:
			held = isinf(d);
			break;
		case 2:
			held = !isnan(d);
			break;
		case 3:
			held = isnan(d);
			break;
		case 4:
			held = isfinite(d) && d != 0 && !subnormal;
			break;
		default:
			held = subnormal;
		}
		r |= (uint32_t)held << i;
	}
	put_mask(w, &in->op[0], r, m);
}

static bool is_signed(unsigned type)
{
	return type >= T_S8 && type <= T_S64;
}

static bool is_int(unsigned type)
{
	return type >= T_B8 && type <= T_S64;
}

/* An integer as @type, sign- or zero-extended. */
static int64_t extended(uint64_t v, unsigned type)
{
	switch (8 * ptx_type_bytes((enum ptx_type)type)) {
	case 8:
		return is_signed(type) ? (int8_t)v : (int64_t)(uint8_t)v;
	case 16:
		return is_signed(type) ? (int16_t)v : (int64_t)(uint16_t)v;
	case 32:
		return is_signed(type) ? (int32_t)v : (int64_t)(uint32_t)v;
	default:
		return (int64_t)v;
	}
}

static double real_of(uint64_t v, unsigned type, bool ftz)
{
	float f;
	double d;

	switch (type) {
	case T_F16:
		return (double)half_float((uint16_t)v);
	case T_BF16:
		return (double)bf16_float((uint16_t)v);
	case T_F32:
		f = float_of((uint32_t)v);
		return (double)(ftz ? flushed(f) : f);
	default:
		memcpy(&d, &v, 8);
		return d;
	}
}

static double to_integer(double d, unsigned round)
{
	switch (round) {
	case R_RNI:
		return nearbyint(d);
	case R_RMI:
		return floor(d);
	case R_RPI:
		return ceil(d);
	default:
		return trunc(d);
	}
}

/* Out of range becomes the nearest number there is. */
static uint64_t integer_of(double d, const struct ins *in)
{
	unsigned bits = 8 * ptx_type_bytes((enum ptx_type)in->type);
	double low = is_signed(in->type) ? -ldexp(1, (int)bits - 1) : 0;
	double high = ldexp(1, (int)bits - is_signed(in->type));

	if (isnan(d)) /* as the manual has it */
		return in->type2 == T_F64 || bits == 64 ? 1ull << (bits - 1)
							: 0;
	d = to_integer(d, in->round);
	if (d < low)
		d = low;
	if (d >= high)
		return is_signed(in->type) ? (1ull << (bits - 1)) - 1
		       : bits == 64        ? ~0ull
					   : (1ull << bits) - 1;
	return is_signed(in->type) ? (uint64_t)(int64_t)d : (uint64_t)d;
}

static __attribute__((noinline, optimize("O0", "rounding-math"))) uint64_t
float_bits(const double *d, const int64_t *v, bool from_int, bool is_unsigned,
	   unsigned type)
{
	volatile float f;
	volatile double r;
	uint64_t ret = 0;

	if (type == T_F32) {
		f = !from_int     ? (float)*d
		    : is_unsigned ? (float)(uint64_t)*v
				  : (float)*v;
		memcpy(&ret, (const void *)(uintptr_t)&f, 4);
	} else {
		r = !from_int     ? *d
		    : is_unsigned ? (double)(uint64_t)*v
				  : (double)*v;
		memcpy(&ret, (const void *)(uintptr_t)&r, 8);
	}
	return ret;
}

static uint64_t tf32(uint64_t v)
{
	uint32_t u = (uint32_t)v;

	if ((u & 0x7fffffff) > 0x7f800000)
		return u;
	return (u + 0x1000) & 0xffffe000; /* ties away from zero */
}

static uint64_t convert_int(const struct ins *in, uint64_t raw)
{
	int64_t v = extended(raw, in->type2);
	unsigned bits = 8 * ptx_type_bytes((enum ptx_type)in->type);
	double d;

	if (is_int(in->type)) {
		if (in->sat && is_signed(in->type)) {
			int64_t high = (int64_t)((1ull << (bits - 1)) - 1);

			if (!is_signed(in->type2) &&
			    (uint64_t)v > (uint64_t)high)
				v = high;
			v = v > high ? high : v < -high - 1 ? -high - 1 : v;
		} else if (in->sat) {
			uint64_t high = bits == 64 ? ~0ull : (1ull << bits) - 1;

			if (is_signed(in->type2) && v < 0)
				v = 0;
			v = (uint64_t)v > high ? (int64_t)high : v;
		}
		return (uint64_t)extended((uint64_t)v, in->type);
	}
	if (in->type == T_F16 || in->type == T_BF16) {
		/* 64 bits would be rounded twice, but overflow all the same. */
		d = is_signed(in->type2) ? (double)v : (double)(uint64_t)v;
		return in->type == T_F16 ? ptx_to_half(d, in->round)
					 : ptx_to_bf16(d, in->round);
	}
	return float_bits(NULL, &v, true, !is_signed(in->type2), in->type);
}

static uint64_t convert(const struct ins *in, uint64_t raw)
{
	uint64_t ret;
	double d;

	if (in->type == T_TF32)
		return tf32(raw);
	if (is_int(in->type2))
		return convert_int(in, raw);
	d = real_of(raw, in->type2, in->ftz);
	if (is_int(in->type))
		return integer_of(d, in);
	if (in->round >= R_RNI && in->round <= R_RPI)
		d = to_integer(d, in->round);
	if (in->relu && !(d > 0) && d == d)
		d = 0;
	if (in->sat)
		d = d > 0 ? (d < 1 ? d : 1) : 0;
	if (in->type == T_F16)
		return ptx_to_half(d, in->round);
	if (in->type == T_BF16)
		return ptx_to_bf16(d, in->round);
	ret = float_bits(&d, NULL, false, false, in->type);
	if (in->type == T_F32 && in->ftz)
		ret = bits_of(flushed(float_of((uint32_t)ret)));
	return ret;
}

void ptx_do_cvt(struct warp *w, const struct ins *in, uint32_t m)
{
	struct ins half = *in;
	uint64_t v;

	if (in->type == T_F16X2 || in->type == T_BF16X2)
		half.type = in->type == T_F16X2 ? T_F16 : T_BF16;
	fesetround(host_rounding(in->round));
	for (unsigned i = 0; i < LANES; i++) {
		if (!(m >> i & 1))
			continue;
		v = convert(&half, ptx_value(w, &in->op[1], i));
		if (in->ns > 1)
			v = v << 16 |
			    convert(&half, ptx_value(w, &in->op[2], i));
		ptx_assign(w, &in->op[0], i, v);
	}
	fesetround(FE_TONEAREST);
}

static ptx_fn *conversion(struct ins *in)
{
	unsigned from = in->op[1].bytes, to = in->op[0].bytes;
	bool ints = is_int(in->type) && is_int(in->type2);
	unsigned full = ptx_type_bytes((enum ptx_type)in->type2);
	char key[64];
	ptx_fn *fn = NULL;

	if (in->sat || in->relu || in->ftz)
		return ptx_do_cvt;
	if (ints) {
		if (ptx_type_bytes((enum ptx_type)in->type) != to ||
		    (full != from && full < to))
			return ptx_do_cvt;
		if (to == 8 && from == 4)
			return find(is_signed(in->type2) ? "cvt.64.s32"
							 : "cvt.64.u32");
		if (to == 4 && from == 8)
			return find("cvt.32.64");
		if (to == 4 && from == 2 && full == 2)
			return find(is_signed(in->type2) ? "cvt.32.s16"
							 : "cvt.32.u16");
		if (to == 2 && from == 4)
			return find("cvt.16.32");
		return ptx_do_cvt;
	}
	if (in->round != R_RN && in->round != R_NONE)
		return ptx_do_cvt;
	if (full == from) {
		static const char *const name[TYPES] = {
			[T_F32] = "f32",       [T_F16] = "f16",
			[T_BF16] = "bf16",     [T_F16X2] = "f16x2",
			[T_BF16X2] = "bf16x2", [T_S32] = "s32",
			[T_U32] = "u32",       [T_F64] = "f64",
		};

		if (name[in->type] && name[in->type2]) {
			snprintf(key, sizeof(key), "cvt.%s.%s", name[in->type],
				 name[in->type2]);
			fn = find(key);
		}
	}
	return fn ? fn : ptx_do_cvt;
}

/* The kind of arithmetic of a type, as the keys of lanes.inc have it. */
static const char *kind_of(unsigned type)
{
	switch (type) {
	case T_F16:
	case T_F16X2:
		return "f16";
	case T_BF16:
	case T_BF16X2:
		return "bf16";
	case T_F32:
		return "f32";
	case T_F64:
		return "f64";
	default:
		return is_signed(type) ? "s" : type < T_U8 ? "b" : "u";
	}
}

static bool one_of(const char *op, const char *list)
{
	size_t n = strlen(op);
	const char *p = list;

	while ((p = strstr(p, op))) {
		if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
		p += n;
	}
	return false;
}

/* True if a choice of rounding is the one that loops compute. */
static bool nearest(const struct ins *in)
{
	return in->round == R_NONE || in->round == R_RN ||
	       in->round == R_APPROX || in->round == R_FULL;
}

ptx_fn *ptx_alu(const char *op, struct ins *in)
{
	static const char *const part[] = { "lo", "hi", "wide" };
	bool real = in->type >= T_F16;
	unsigned bits = 8 * ptx_type_bytes((enum ptx_type)in->type);
	char key[64];

	if (one_of(op, "mov"))
		return move;
	if (one_of(op, "pack"))
		return pack;
	if (one_of(op, "selp"))
		return select_op;
	if (one_of(op, "bfi"))
		return bfi;
	if (one_of(op, "testp"))
		return testp;
	if (one_of(op, "cvt"))
		return conversion(in);
	if (one_of(op, "setp set lop3 prmt dp2a bmsk"))
		return find(op);
	if (in->type == T_PRED) {
		in->sub2 = one_of(op, "and")   ? B_AND
			   : one_of(op, "or")  ? B_OR
			   : one_of(op, "xor") ? B_XOR
					       : B_NONE;
		return one_of(op, "and or xor not") ? predicates : NULL;
	}
	if (in->carry_in || in->carry_out) {
		in->sub2 = one_of(op, "sub subc");
		return carried;
	}
	if (real && one_of(op, "mad"))
		op = "fma";
	if (real && !nearest(in))
		return directed(op, in);
	if (one_of(op, "dp4a")) {
		snprintf(key, sizeof(key), "dp4a.%s.%s",
			 in->type == T_S32 ? "s32" : "u32",
			 in->type2 == T_S32 ? "s32" : "u32");
	} else if (one_of(op,
			  "shf.l.clamp shf.l.wrap shf.r.clamp shf.r.wrap")) {
		return find(op);
	} else if (one_of(op, "slct")) {
		snprintf(key, sizeof(key), "slct.%s%u",
			 in->type2 == T_F32 ? "f" : "s", bits);
	} else if (real) {
		snprintf(key, sizeof(key), "%s.%s", op, kind_of(in->type));
	} else if (in->sat) {
		snprintf(key, sizeof(key), "%s%s.sat", op,
			 one_of(op, "mad") ? ".hi" : "");
	} else if (one_of(op, "add sub")) {
		snprintf(key, sizeof(key), "%s.i%u", op, bits);
	} else if (one_of(op, "mul mad")) {
		snprintf(key, sizeof(key), "%s.%s.%s%u", op, part[in->sub],
			 in->sub == M_LO ? "i" : kind_of(in->type), bits);
	} else {
		snprintf(key, sizeof(key), "%s.%s%u", op, kind_of(in->type),
			 bits);
	}
	return find(key);
}
