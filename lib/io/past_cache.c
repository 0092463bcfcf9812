/* SPDX-License-Identifier: MIT */
#include "io/past_cache.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

#define LINE 64u
/* Of fewer bytes the two ends are a large part, and the cache has room for them. */
#define LEAST 4096u

static void copy_lines(unsigned char *dst, const unsigned char *src, size_t n)
{
	for (size_t i = 0; i < n; i += LINE) {
		const __m128i *from = (const __m128i *)(src + i);
		__m128i *to = (__m128i *)(dst + i);
		__m128i a = _mm_loadu_si128(from);
		__m128i b = _mm_loadu_si128(from + 1);
		__m128i c = _mm_loadu_si128(from + 2);
		__m128i d = _mm_loadu_si128(from + 3);

		_mm_stream_si128(to, a);
		_mm_stream_si128(to + 1, b);
		_mm_stream_si128(to + 2, c);
		_mm_stream_si128(to + 3, d);
	}
	/* The stores are visible before what this thread stores later. */
	_mm_sfence();
}

void weir__copy_past_cache(void *dst, const void *src, size_t n)
{
	unsigned char *to = dst;
	const unsigned char *from = src;
	size_t head = -(uintptr_t)to & (LINE - 1), lines;

	if (n < LEAST) {
		memcpy(to, from, n);
		return;
	}
	lines = (n - head) & ~(size_t)(LINE - 1);
	memcpy(to, from, head);
	copy_lines(to + head, from + head, lines);
	head += lines;
	memcpy(to + head, from + head, n - head);
}

#else

void weir__copy_past_cache(void *dst, const void *src, size_t n)
{
	memcpy(dst, src, n);
}

#endif
