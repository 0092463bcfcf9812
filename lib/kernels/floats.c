/* SPDX-License-Identifier: MIT */
/* Conversion of elements to F32, and back. */
#include "kernels/floats.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include <weir/tensor.h>

#include "kernels/kernels.h"
#include "kernels/vec.h"
#include "mem/dtype_table.h"

#define lib weir__cpu_host
#define DTYPES 128

/*
 * Conversions are kept: finding one asks the CPU what it can do, which is slow.
 */
static const struct weir_backend_convert *
cached(_Atomic(const struct weir_backend_convert *) *cache, uint32_t from,
       uint32_t to)
{
	const struct weir_backend_convert *c =
		atomic_load_explicit(cache, memory_order_relaxed);

	if (!c && from != to) {
		c = lib->convert_find(from, to);
		atomic_store_explicit(cache, c, memory_order_relaxed);
	}
	return c;
}

const struct weir_backend_convert *weir__to_f32(uint32_t dtype)
{
	static _Atomic(const struct weir_backend_convert *) cache[DTYPES];

	return dtype < DTYPES ? cached(&cache[dtype], dtype, WEIR_DTYPE_F32)
			      : NULL;
}

const struct weir_backend_convert *weir__from_f32(uint32_t dtype)
{
	static _Atomic(const struct weir_backend_convert *) cache[DTYPES];

	return dtype < DTYPES ? cached(&cache[dtype], WEIR_DTYPE_F32, dtype)
			      : NULL;
}

/* True if the elements are an array of float as they are. */
static bool in_place(uint32_t dtype, const unsigned char *p, int64_t stride)
{
	return dtype == WEIR_DTYPE_F32 && stride == (int64_t)sizeof(float) &&
	       (uintptr_t)p % sizeof(float) == 0;
}

const float *weir__floats_in(uint32_t dtype, const unsigned char *p,
			     int64_t stride, size_t n, float *tmp)
{
	uint16_t half[WEIR__FLOATS];

	if (in_place(dtype, p, stride))
		return (const float *)(const void *)p;
	if (dtype == WEIR_DTYPE_F32) {
		for (size_t i = 0; i < n; i++)
			memcpy(&tmp[i], p + (int64_t)i * stride, sizeof(*tmp));
		return tmp;
	}
	if (stride != (int64_t)sizeof(*half)) {
		for (size_t i = 0; i < n; i++)
			memcpy(&half[i], p + (int64_t)i * stride,
			       sizeof(*half));
		p = (const unsigned char *)half;
	}
	weir__to_f32(dtype)->run(tmp, p, n);
	return tmp;
}

float *weir__floats_room(uint32_t dtype, unsigned char *p, int64_t stride,
			 float *tmp)
{
	return in_place(dtype, p, stride) ? (float *)(void *)p : tmp;
}

void weir__floats_out(uint32_t dtype, unsigned char *p, int64_t stride,
		      const float *from, size_t n)
{
	uint16_t half[WEIR__FLOATS];

	if (in_place(dtype, p, stride))
		return;
	if (dtype == WEIR_DTYPE_F32) {
		for (size_t i = 0; i < n; i++)
			memcpy(p + (int64_t)i * stride, &from[i],
			       sizeof(*from));
		return;
	}
	if (stride == (int64_t)sizeof(*half)) {
		weir__from_f32(dtype)->run(p, from, n);
		return;
	}
	weir__from_f32(dtype)->run(half, from, n);
	for (size_t i = 0; i < n; i++)
		memcpy(p + (int64_t)i * stride, &half[i], sizeof(*half));
}

void weir__floats_row(uint32_t dtype, float *d, const void *p, size_t n)
{
	const struct weir_backend_convert *convert;

	if (dtype == WEIR_DTYPE_F32) {
		memcpy(d, p, n * sizeof(*d));
	} else if (dtype == WEIR_DTYPE_F16 && weir__vec()->from_f16) {
		weir__vec()->from_f16(d, p, n);
	} else {
		convert = weir__to_f32(dtype);
		convert->run(d, p, n / convert->block);
	}
}

#define QK WEIR__BLOCK_Q8_0 /* elements of a block, of Q4_0 too */
#define BATCH 8 /* blocks whose scales are converted to F16 at once */

/* Return the nearest of the integers -@most to @most, or 0 for NaN. */
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

/* Encode blocks, each of a scale (F16) and @bytes bytes of elements. */
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
