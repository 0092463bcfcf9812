/* SPDX-License-Identifier: MIT */
#include "cuda/unpack.h"

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* With a byte of 0 after it. */
static CUresult unpack(const char *data, size_t size, char **ret,
		       size_t *ret_size)
{
	unsigned long long n = ZSTD_getFrameContentSize(data, size);

	if (n == ZSTD_CONTENTSIZE_UNKNOWN || n == ZSTD_CONTENTSIZE_ERROR ||
	    n >= SIZE_MAX)
		return CUDA_ERROR_INVALID_IMAGE;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;
	ZSTD_DCtx *z = ZSTD_createDCtx();
	char *to = malloc((size_t)n + 1);

	if (z && to)
		r = ZSTD_decompressDCtx(z, to, (size_t)n, data, size) == n
			    ? CUDA_SUCCESS
			    : CUDA_ERROR_INVALID_IMAGE;
	ZSTD_freeDCtx(z);
	if (r) {
		free(to);
		return r;
	}
	to[n] = '\0';
	*ret = to;
	*ret_size = (size_t)n;
	return CUDA_SUCCESS;
}

CUresult weir__cuda_unpack_ptx(const char *data, size_t size, char **ret_text)
{
	size_t n;

	return unpack(data, size, ret_text, &n);
}

static uint32_t number(const char *at)
{
	uint32_t n;

	memcpy(&n, at, sizeof(n));
	return le32toh(n);
}

/* A GPU executes code of its major version, and of no newer minor one. */
static bool executes(uint32_t gpu, uint32_t code)
{
	return code / 10 == gpu / 10 && code <= gpu;
}

/* Move the code for @gpu to the start of @all, where malloc(3) aligns it. */
static CUresult choose(char *all, size_t size, uint32_t gpu)
{
	uint32_t n = size < 4 ? 0 : number(all), best = 0;
	size_t at = 4 + 8 * (size_t)n, start = 0, bytes = 0;

	if (!n || at > size)
		return CUDA_ERROR_INVALID_IMAGE;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t code = number(all + 4 + 8 * (size_t)i);
		uint32_t has = number(all + 8 + 8 * (size_t)i);

		if (has > size - at)
			return CUDA_ERROR_INVALID_IMAGE;
		if (executes(gpu, code) && code > best) {
			best = code;
			start = at;
			bytes = has;
		}
		at += has;
	}
	if (!best)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	memmove(all, all + start, bytes);
	return CUDA_SUCCESS;
}

CUresult weir__cuda_unpack_code(const char *data, size_t size, int gpu,
				char **ret_code)
{
	char *all;
	CUresult r = unpack(data, size, &all, &size);

	if (r)
		return r;
	r = choose(all, size, (uint32_t)gpu);
	if (r)
		free(all);
	else
		*ret_code = all;
	return r;
}
