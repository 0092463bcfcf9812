/* SPDX-License-Identifier: MIT */
/* Elements as F32, and back. */
#include "kernels/floats.h"

#include <stdatomic.h>
#include <string.h>

#include <weir/tensor.h>

#include "kernels/kernels.h"
#include "kernels/vec.h"

#define lib weir__cpu_host
#define DTYPES 128

/* Finding a conversion asks the CPU what it can do, which is slow. */
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

/* Usable as an array of float as it is? */
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
