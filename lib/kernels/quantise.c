/* SPDX-License-Identifier: MIT */
/* F32 to the dtypes that operations write; blocks as ggml's reference has them. */
#include "kernels/quantise.h"

#include <math.h>
#include <string.h>

#include <weir/tensor.h>

#include "kernels/floats.h"

#define QK 32   /* elements of a block */
#define BATCH 8 /* blocks whose scales are converted to F16 at once */

/* The nearest of the integers -@most to @most; 0 for NaN. */
static int limited(float x, int most)
{
	if (!(x < (float)most))
		return isnan(x) ? 0 : most;
	return x < (float)-most ? -most : (int)lrintf(x);
}

static float q8_0_scale(const float *x)
{
	float most = 0;

	for (int i = 0; i < QK; i++)
		most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
	return most / 127;
}

static void q8_0_block(unsigned char *d, const float *x, float scale)
{
	float inverse = scale != 0 ? 1 / scale : 0;

	for (int i = 0; i < QK; i++)
		d[i] = (unsigned char)limited(x[i] * inverse, 127);
}

/* The element farthest from 0 becomes -8. */
static float q4_0_scale(const float *x)
{
	float most = 0;

	for (int i = 0; i < QK; i++)
		most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
	return most / -8;
}

static unsigned q4_0_one(float x)
{
	if (!(x < 7.5f))
		return isnan(x) ? 8 : 15;
	return x < -8 ? 0 : (unsigned)(x + 8.5f);
}

static void q4_0_block(unsigned char *d, const float *x, float scale)
{
	float inverse = scale != 0 ? 1 / scale : 0;

	for (int i = 0; i < QK / 2; i++)
		d[i] = (unsigned char)(q4_0_one(x[i] * inverse) |
				       q4_0_one(x[i + QK / 2] * inverse) << 4);
}

/* Blocks of a scale, F16, and @bytes bytes of elements. */
static void encode_blocks(unsigned char *d, const float *x, size_t blocks,
			  size_t bytes, float (*scale_of)(const float *x),
			  void (*block)(unsigned char *d, const float *x,
					float scale))
{
	const struct weir_backend_convert *half =
		weir__from_f32(WEIR_DTYPE_F16);
	float scale[BATCH];
	uint16_t stored[BATCH];

	for (size_t n; blocks; blocks -= n) {
		n = blocks < BATCH ? blocks : BATCH;
		for (size_t i = 0; i < n; i++)
			scale[i] = scale_of(x + i * QK);
		half->run(stored, scale, n);
		for (size_t i = 0; i < n; i++) {
			memcpy(d, &stored[i], sizeof(*stored));
			block(d + sizeof(*stored), x, scale[i]);
			d += sizeof(*stored) + bytes;
			x += QK;
		}
	}
}

bool weir__encodes(uint32_t dtype)
{
	return weir__is_float(dtype) || dtype == WEIR_DTYPE_Q8_0 ||
	       dtype == WEIR_DTYPE_Q4_0;
}

void weir__encode(uint32_t dtype, void *dst, const float *src, size_t n)
{
	if (dtype == WEIR_DTYPE_F32)
		memcpy(dst, src, n * sizeof(*src));
	else if (dtype == WEIR_DTYPE_Q8_0)
		encode_blocks(dst, src, n / QK, QK, q8_0_scale, q8_0_block);
	else if (dtype == WEIR_DTYPE_Q4_0)
		encode_blocks(dst, src, n / QK, QK / 2, q4_0_scale, q4_0_block);
	else
		weir__from_f32(dtype)->run(dst, src, n);
}
