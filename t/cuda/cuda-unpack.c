/* SPDX-License-Identifier: MIT */
/*
 * lib/cuda/unpack.c: which code a GPU gets, images that are damaged, and no
 * memory. cuda-compute.t loads what kernels/compile.sh makes.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "cuda/unpack.h"
#include "tap.h"

#define ROOM 4096

/* The allocation that fails; 1: the next one, 0: none. */
static unsigned failing;

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);

/* Of unpack.c and of this file; none gets more bytes than a machine has. */
void *__wrap_malloc(size_t n)
{
	if ((failing && !--failing) || n >> 40)
		return NULL;
	return __real_malloc(n);
}

struct image {
	unsigned char bytes[ROOM];
	size_t size;
};

static void number(struct image *to, uint32_t n)
{
	for (int i = 0; i < 4; i++)
		to->bytes[to->size++] = (unsigned char)(n >> 8 * i);
}

static void text(struct image *to, const char *s)
{
	memcpy(to->bytes + to->size, s, strlen(s));
	to->size += strlen(s);
}

/* Compressed as by zstd(1), in a block of its own: nothing is after it. */
static char *frame(const struct image *from, bool with_size, size_t *ret_size)
{
	ZSTD_CCtx *z = ZSTD_createCCtx();
	char to[2 * ROOM], *ret;
	size_t n;

	ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setParameter(z, ZSTD_c_contentSizeFlag, with_size);
	n = ZSTD_compress2(z, to, sizeof(to), from->bytes, from->size);
	ret = malloc(ZSTD_isError(n) ? 1 : n);
	if (ZSTD_isError(n) || !ret)
		bail("the image is not compressed");
	ZSTD_freeCCtx(z);
	memcpy(ret, to, n);
	*ret_size = n;
	return ret;
}

/* Codes, each a text; 0: the end. */
static struct image codes(const unsigned *gpus)
{
	struct image im = { .size = 0 };
	uint32_t n = 0;
	char s[32];

	while (gpus[n])
		n++;
	number(&im, n);
	for (uint32_t i = 0; i < n; i++) {
		snprintf(s, sizeof(s), "code for %u;", gpus[i]);
		number(&im, gpus[i]);
		number(&im, (uint32_t)strlen(s));
	}
	for (uint32_t i = 0; i < n; i++) {
		snprintf(s, sizeof(s), "code for %u;", gpus[i]);
		text(&im, s);
	}
	return im;
}

static const unsigned ours[] = { 80, 86, 89, 90, 100, 120, 0 };

static void chooses(void)
{
	static const struct {
		int gpu;
		unsigned code;
	} list[] = {
		{ 80, 80 },   { 86, 86 },   { 87, 86 },   { 88, 86 },
		{ 89, 89 },   { 90, 90 },   { 100, 100 }, { 103, 100 },
		{ 120, 120 }, { 121, 120 },
	};
	static const int none[] = { 0, 75, 79, 110, 111, 130, 900 };
	static const unsigned descending[] = { 120, 89, 86, 80, 0 };
	struct image im = codes(ours), other = codes(descending);
	size_t size, other_size;
	char *data = frame(&im, true, &size), *code, want[32];
	char *reversed = frame(&other, true, &other_size);

	for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++) {
		code = NULL;
		is_int(weir__cuda_unpack_code(data, size, list[i].gpu, &code),
		       CUDA_SUCCESS, "there is code for sm_%d", list[i].gpu);
		snprintf(want, sizeof(want), "code for %u;", list[i].code);
		ok(code && !strncmp(code, want, strlen(want)),
		   "it is that for sm_%u", list[i].code);
		free(code);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++)
		is_int(weir__cuda_unpack_code(data, size, none[i], &code),
		       CUDA_ERROR_NO_BINARY_FOR_GPU,
		       "there is no code for a GPU of version %d", none[i]);
	code = NULL;
	is_int(weir__cuda_unpack_code(reversed, other_size, 88, &code),
	       CUDA_SUCCESS, "codes may be in any order");
	ok(code && !strncmp(code, "code for 86;", 12),
	   "the greatest that the GPU executes is taken");
	free(code);
	free(data);
	free(reversed);
}

static void ptx(void)
{
	struct image im = { .size = 0 };
	size_t size;
	char *data, *s = NULL;

	text(&im, ".version 7.4\n");
	data = frame(&im, true, &size);
	is_int(weir__cuda_unpack_ptx(data, size, &s), CUDA_SUCCESS,
	       "PTX is unpacked");
	is_str(s, ".version 7.4\n", "it is a text");
	free(s);
	failing = 1;
	is_int(weir__cuda_unpack_ptx(data, size, &s), CUDA_ERROR_OUT_OF_MEMORY,
	       "there is no memory for it");
	failing = 0;
	is_int(weir__cuda_unpack_code(data, size, 90, &s),
	       CUDA_ERROR_INVALID_IMAGE, "it contains no code");
	free(data);
}

static CUresult code_of(const char *data, size_t size)
{
	char *code = NULL;
	CUresult r = weir__cuda_unpack_code(data, size, 89, &code);

	if (!r && strncmp(code, "code for 89;", 12))
		r = CUDA_ERROR_UNKNOWN;
	free(code);
	return r;
}

/* Each bit of it, and each end, in memory that ends there. */
static void damaged(void)
{
	struct image im = codes(ours);
	size_t size, taken = 0, wrong = 0, ends = 0;
	char *data = frame(&im, true, &size), *part;

	failing = 1;
	is_int(code_of(data, size), CUDA_ERROR_OUT_OF_MEMORY,
	       "there is no memory for the codes");
	failing = 0;
	for (size_t i = 0; i < 8 * size; i++) {
		data[i / 8] = (char)(data[i / 8] ^ 1 << i % 8);
		CUresult r = code_of(data, size);

		data[i / 8] = (char)(data[i / 8] ^ 1 << i % 8);
		taken += !r;
		wrong += r && r != CUDA_ERROR_INVALID_IMAGE &&
			 r != CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* Three bits of the format have no meaning. */
	ok(taken <= 3, "a bit that is wrong is noticed (%zu of %zu are not)",
	   taken, 8 * size);
	is_int(wrong, 0, "no other code comes of it");
	for (size_t i = 0; i < size; i++) {
		part = malloc(i + !i);
		memcpy(part, data, i);
		ends += code_of(part, i) != CUDA_ERROR_INVALID_IMAGE;
		free(part);
	}
	is_int(ends, 0, "an image that ends too early is none");
	free(data);
	data = frame(&im, false, &size);
	is_int(code_of(data, size), CUDA_ERROR_INVALID_IMAGE,
	       "an image that does not say its size is none");
	free(data);
}

static void is_none(const struct image *im, const char *what)
{
	size_t size;
	char *data = frame(im, true, &size);

	is_int(code_of(data, size), CUDA_ERROR_INVALID_IMAGE, "%s", what);
	free(data);
}

/* Frames that are whole, with contents that compile.sh never writes. */
static void wrong_numbers(void)
{
	static const uint32_t counts[] = { 0, 14, 1u << 29, UINT32_MAX };
	struct image im = { .size = 0 };

	is_none(&im, "an empty image is none");
	text(&im, "abc");
	is_none(&im, "nor is one without a number");
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		im = codes(ours);
		im.size = 0;
		number(&im, counts[i]);
		im.size = codes(ours).size;
		is_none(&im, "a wrong number of codes is noticed");
	}
	im = codes(ours);
	im.size--;
	is_none(&im, "the last code is not whole");
	im = codes((const unsigned[]){ 89, 0 });
	is_int(im.size, 4 + 8 + 12, "an image of one code");
	im.size = 8;
	number(&im, UINT32_MAX);
	im.size = 4 + 8 + 12;
	is_none(&im, "its code is larger than the image");
}

int main(void)
{
	plan(0);
	chooses();
	ptx();
	damaged();
	wrong_numbers();
	return done_testing();
}
