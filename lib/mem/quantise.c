/* SPDX-License-Identifier: MIT */
/*
 * Quantising F32 to Q8_0, Q4_0, Q4_K and Q6_K in portable C, with the results
 * of ggml's reference (quantize_row_*_ref): each operation is rounded to F32.
 *
 * A scale of Q4_K and Q6_K is the best of several: for each candidate the
 * elements are rounded, and the scale (and minimum) with the least weighted
 * square error for these roundings is calculated; the candidate with the least
 * error is kept.
 */
#include "mem/quantise.h"

#include <math.h>

#include <weir/tensor.h>

#include "mem/convert.h"
#include "mem/dtype_table.h"
#include "mem/fpenv.h"

/*
 * Copy @n elements. NaNs become the one without sign and payload, for then no
 * result depends on which of two NaNs an operation of this CPU returns.
 */
static void load(float *x, const unsigned char *src, size_t n)
{
	memcpy(x, src, n * sizeof(*x));
	for (size_t i = 0; i < n; i++)
		x[i] = isnan(x[i]) ? NAN : x[i];
}

static void put_half(unsigned char *p, float x)
{
	uint16_t half = weir__to_half(x);

	p[0] = (unsigned char)half;
	p[1] = (unsigned char)(half >> 8);
}

/* Return the float that is stored there. */
static float put_half_rounded(unsigned char *p, float x)
{
	put_half(p, x);
	return weir__half(weir__to_half(x));
}

/*
 * Return the nearest integer, ties to even, if |x| < 2^22. Else return the
 * integer that ggml's computation happens to have.
 */
static int nearest(float x)
{
	float sum = x + 12582912.f; /* 1.5 * 2^23: the last bit is worth 1 */
	int32_t bits;

	memcpy(&bits, &sum, sizeof(bits));
	return (bits & 0x7fffff) - 0x400000;
}

/* Return the nearest of the integers from @low to @high. */
static int nearest_in(float x, int low, int high)
{
	int l = nearest(x);

	return l < low ? low : l > high ? high : l;
}

/*
 * Truncate @x and return the lowest byte. It is 0 for NaN and for what 32 bits
 * do not hold, as x86 CPUs have it; C leaves it undefined.
 */
static unsigned char low_byte(float x)
{
	return fabsf(x) < 0x1p31f ? (unsigned char)(int32_t)x : 0;
}

/* Return 1 / @x, which may be infinite if @x is subnormal, or 0 for 0. */
static float inverse_of(float x)
{
	return x != 0 ? 1 / x : 0;
}

/* Return the element with the largest magnitude, the first of several. */
static float extreme(const float *x, int n)
{
	float most = 0, value = 0;

	for (int i = 0; i < n; i++) {
		if (fabsf(x[i]) > most) {
			most = fabsf(x[i]);
			value = x[i];
		}
	}
	return value;
}

void weir__quantise_q8_0(unsigned char *dst, const unsigned char *src, size_t n)
{
	for (; n; n--, src += 4 * 32, dst += WEIR__BYTES_Q8_0) {
		float x[32], most = 0, inverse;

		load(x, src, 32);
		/* Elements before a NaN have no influence. */
		for (int i = 0; i < 32; i++)
			most = most > fabsf(x[i]) ? most : fabsf(x[i]);
		put_half(dst, most / 127);
		inverse = inverse_of(most / 127);
		for (int i = 0; i < 32; i++)
			dst[2 + i] = low_byte(roundf(x[i] * inverse));
	}
}

void weir__quantise_q4_0(unsigned char *dst, const unsigned char *src, size_t n)
{
	for (; n; n--, src += 4 * 32, dst += WEIR__BYTES_Q4_0) {
		float x[32], d, inverse;

		load(x, src, 32);
		d = extreme(x, 32) / -8;
		put_half(dst, d);
		inverse = inverse_of(d);
		for (int i = 0; i < 16; i++) {
			int low = low_byte(x[i] * inverse + 8.5f);
			int high = low_byte(x[16 + i] * inverse + 8.5f);

			low = low < 15 ? low : 15;
			high = high < 15 ? high : 15;
			dst[2 + i] = (unsigned char)(low | high << 4);
		}
	}
}

/* A group of Q4_K: 32 elements, their weights, and what follows from these. */
struct group {
	float x[32], weight[32], sum_w, sum_x, min, max;
};

static void group_init(struct group *g, const float *x)
{
	float sum_squares = 0, mean;

	/* The sum begins with its first term, which may be -0. */
	*g = (struct group){ .min = x[0], .max = x[0], .sum_x = -0.f };
	memcpy(g->x, x, sizeof(g->x));
	for (int i = 0; i < 32; i++)
		sum_squares += x[i] * x[i];
	mean = sqrtf(sum_squares / 32);
	for (int i = 0; i < 32; i++) {
		g->weight[i] = mean + fabsf(x[i]);
		g->min = x[i] < g->min ? x[i] : g->min;
		g->max = x[i] > g->max ? x[i] : g->max;
		g->sum_w += g->weight[i];
		g->sum_x += g->weight[i] * x[i];
	}
	g->min = g->min > 0 ? 0 : g->min;
}

static void group_levels(const struct group *g, float inverse,
			 unsigned char *level)
{
	for (int i = 0; i < 32; i++)
		level[i] = (unsigned char)nearest_in(
			inverse * (g->x[i] - g->min), 0, 15);
}

static float group_error(const struct group *g, const unsigned char *level,
			 float scale, float min)
{
	float error = 0;

	for (int i = 0; i < 32; i++) {
		float off = scale * (float)level[i] + min - g->x[i];

		error += g->weight[i] * (off * off);
	}
	return error;
}

/*
 * Compute the best scale and minimum for these levels. False: there are none.
 */
static bool group_fit(const struct group *g, const unsigned char *level,
		      float *ret_scale, float *ret_min)
{
	float sum_l = 0, sum_ll = 0, sum_xl = 0, d;

	for (int i = 0; i < 32; i++) {
		float l = level[i], w = g->weight[i];

		sum_l += w * l;
		sum_ll += w * l * l;
		sum_xl += w * l * g->x[i];
	}
	d = g->sum_w * sum_ll - sum_l * sum_l;
	if (!(d > 0))
		return false;
	*ret_scale = (g->sum_w * sum_xl - g->sum_x * sum_l) / d;
	*ret_min = (sum_ll * g->sum_x - sum_l * sum_xl) / d;
	if (*ret_min > 0) {
		*ret_min = 0;
		*ret_scale = sum_xl / sum_ll;
	}
	return true;
}

/* Return the scale of 32 elements, with their levels and -minimum. */
static float scale_and_min(const float *x, unsigned char *level, float *ret_min)
{
	struct group g;
	float scale, error;

	group_init(&g, x);
	*ret_min = -g.min;
	memset(level, 0, 32);
	if (g.max == g.min)
		return 0;
	scale = 1 / (15 / (g.max - g.min));
	group_levels(&g, 15 / (g.max - g.min), level);
	error = group_error(&g, level, scale, g.min);
	for (int step = 0; step <= 20; step++) {
		float top = -1.f + 0.1f * (float)step + 15;
		unsigned char other[32];
		float s, m, e;

		group_levels(&g, top / (g.max - g.min), other);
		if (!group_fit(&g, other, &s, &m))
			continue;
		e = group_error(&g, other, s, m);
		if (e < error) {
			error = e;
			scale = s;
			g.min = m; /* the next candidates begin here */
			memcpy(level, other, 32);
		}
	}
	*ret_min = -g.min;
	return scale;
}

/* Store scale and minimum @j of a block, 6 bits each, in 12 bytes. */
static void q4_k_put(unsigned char *packed, int j, unsigned s, unsigned m)
{
	if (j < 4) {
		packed[j] = (unsigned char)s;
		packed[j + 4] = (unsigned char)m;
		return;
	}
	packed[j + 4] = (unsigned char)((s & 15) | (m & 15) << 4);
	packed[j - 4] |= (unsigned char)(s >> 4 << 6);
	packed[j] |= (unsigned char)(m >> 4 << 6);
}

void weir__q4_k_store(struct weir__q4_k *groups, unsigned char *block)
{
	float scale = 0, min = 0, d, d_min;

	for (int j = 0; j < 8; j++) {
		scale = groups->scale[j] > scale ? groups->scale[j] : scale;
		min = groups->min[j] > min ? groups->min[j] : min;
	}
	d = put_half_rounded(block, scale / 63);
	d_min = put_half_rounded(block + 2, min / 63);
	scale = scale > 0 ? 63 / scale : 0;
	min = min > 0 ? 63 / min : 0;
	for (int j = 0; j < 8; j++) {
		unsigned char s =
			(unsigned char)nearest(scale * groups->scale[j]);
		unsigned char m = (unsigned char)nearest(min * groups->min[j]);

		s = s < 63 ? s : 63;
		m = m < 63 ? m : 63;
		q4_k_put(block + 4, j, s, m);
		groups->unit[j] = d * s;
		groups->shift[j] = d_min * m;
	}
}

void weir__quantise_q4_k(unsigned char *dst, const unsigned char *src, size_t n)
{
	for (; n; n--, src += 4 * 256, dst += WEIR__BYTES_Q4_K) {
		float x[256];
		unsigned char level[256];
		struct weir__q4_k v;

		load(x, src, 256);
		for (int j = 0; j < 8; j++)
			v.scale[j] = scale_and_min(x + 32 * j, level + 32 * j,
						   &v.min[j]);
		weir__q4_k_store(&v, dst);
		for (int i = 0; i < 256; i++) {
			float unit = v.unit[i / 32], shift = v.shift[i / 32];

			if (unit != 0)
				level[i] = (unsigned char)nearest_in(
					(x[i] + shift) / unit, 0, 15);
		}
		weir__q4_k_pack(dst, level);
	}
}

/* Return the scale of 16 elements, with their levels. */
static float symmetric_scale(const float *x, unsigned char *level)
{
	float value = extreme(x, 16), best = 0, scale = 0;

	memset(level, 0, 16);
	if (fabsf(value) < Q6_K_LEAST)
		return 0;
	/* Step 0 is tried first, others are kept only if they are better. */
	for (int k = 0; k <= 18; k++) {
		int step = k == 0 ? 0 : k <= 9 ? k - 10 : k - 9;
		float inverse = -(32 + 0.1f * (float)step) / value;
		float sum_xl = 0, sum_ll = 0;
		unsigned char other[16];

		for (int i = 0; i < 16; i++) {
			int n = nearest_in(inverse * x[i], -32, 31);
			float l = (float)n, w = x[i] * x[i];

			other[i] = (unsigned char)(32 + n);
			sum_xl += w * x[i] * l;
			sum_ll += w * l * l;
		}
		if (k == 0)
			scale = sum_ll != 0 ? sum_xl / sum_ll : 0;
		else if (sum_ll > 0 && sum_xl * sum_xl > best * sum_ll)
			scale = sum_xl / sum_ll;
		else
			continue;
		best = scale * sum_xl;
		memcpy(level, other, 16);
	}
	return scale;
}

bool weir__q6_k_store(struct weir__q6_k *groups, unsigned char *block)
{
	float value = extreme(groups->scale, 16), d;

	memset(block, 0, WEIR__BYTES_Q6_K);
	if (fabsf(value) < Q6_K_LEAST)
		return false;
	d = put_half_rounded(block + 208, 1 / (-128.f / value));
	for (int j = 0; j < 16; j++) {
		int s = nearest(-128.f / value * groups->scale[j]);

		s = s < 127 ? s : 127;
		block[192 + j] = (unsigned char)s;
		groups->unit[j] = d * (float)(int8_t)s;
	}
	return true;
}

void weir__quantise_q6_k(unsigned char *dst, const unsigned char *src, size_t n)
{
	for (; n; n--, src += 4 * 256, dst += WEIR__BYTES_Q6_K) {
		float x[256];
		unsigned char level[256];
		struct weir__q6_k v;

		load(x, src, 256);
		for (int j = 0; j < 16; j++)
			v.scale[j] =
				symmetric_scale(x + 16 * j, level + 16 * j);
		if (!weir__q6_k_store(&v, dst))
			continue;
		for (int i = 0; i < 256; i++) {
			float unit = v.unit[i / 16];

			if (unit != 0)
				level[i] =
					(unsigned char)(32 +
							nearest_in(x[i] / unit,
								   -32, 31));
		}
		weir__q6_k_pack(dst, level);
	}
}

#define RUN(name, function)                                          \
	static void run_##name(void *dst, const void *src, size_t n) \
	{                                                            \
		weir__fpenv env = weir__fpenv_default();             \
                                                                     \
		function(dst, src, n);                               \
		weir__fpenv_restore(env);                            \
	}
RUN(Q8_0, weir__quantise_q8_0)
RUN(Q4_0, weir__quantise_q4_0)
RUN(Q4_K, weir__quantise_q4_k)
RUN(Q6_K, weir__quantise_q6_k)

#define ROW(name)                              \
	{ .run = run_##name,                   \
	  .block = WEIR__BLOCK_##name,         \
	  .src_bytes = 4 * WEIR__BLOCK_##name, \
	  .dst_bytes = WEIR__BYTES_##name,     \
	  .from = WEIR_DTYPE_F32,              \
	  .to = WEIR_DTYPE_##name },
static const struct weir_backend_convert list[] = { WEIR__WRITTEN_QUANTS(ROW) };

static bool portable_usable(void)
{
	return true;
}

const struct weir__convert_set weir__quantise_portable = {
	.name = "portable",
	.usable = portable_usable,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
};
