/* SPDX-License-Identifier: MIT */
#include "kernels/tiles.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <weir/tensor.h>

#include "kernels/floats.h"

#define TARGET                                                               \
	__attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq," \
			      "avx512bf16,amx-tile,amx-bf16")))
#define INLINE static inline TARGET __attribute__((always_inline))

#define SIDE 16u                /* rows, or columns, of a tile */
#define DEPTH 32u               /* elements of a row in a tile */
#define TILE (2 * SIDE * DEPTH) /* bytes */
#define PANEL (1u << 20)        /* bytes of rows: half of the second cache */
#define PANEL_ROWS 128u
#define PIECE 1024u /* elements converted at a time */

/* The value, and of a precise dtype what a BF16 of it lacks. */
static unsigned planes_of(uint32_t dtype)
{
	return dtype == WEIR_DTYPE_F32 || dtype == WEIR_DTYPE_F16 ? 2 : 1;
}

/* Tiles that a row of @k elements goes through. */
static size_t depth_of(size_t k)
{
	return (k + DEPTH - 1) / DEPTH;
}

static size_t tiles_set_bytes(uint32_t dtype, size_t k)
{
	return planes_of(dtype) * depth_of(k) * TILE;
}

static size_t tiles_most_rows(uint32_t dtype, size_t k)
{
	size_t rows = PANEL_ROWS, of_16 = tiles_set_bytes(dtype, k);

	while (rows > 2 * SIDE && rows / SIDE * of_16 > PANEL)
		rows /= 2;
	return rows;
}

static size_t tiles_scratch(uint32_t dtype, size_t k)
{
	return tiles_most_rows(dtype, k) / SIDE * tiles_set_bytes(dtype, k);
}

INLINE void store_32(unsigned char *to, __m512 low, __m512 high)
{
	_mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* What the BF16 of @x lacks. */
INLINE __m512 lacking(__m512 x)
{
	__m512i near = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));

	return _mm512_sub_ps(x,
			     _mm512_castsi512_ps(_mm512_slli_epi32(near, 16)));
}

/*
 * @n floats, up to DEPTH, as BF16 in 64 bytes at @to, and what these lack at
 * @rest unless it is NULL.
 */
INLINE void put_32(unsigned char *to, unsigned char *rest, const float *from,
		   size_t n)
{
	__mmask32 there = n < DEPTH ? (1u << n) - 1 : 0xffffffffu;
	__m512 low = _mm512_maskz_loadu_ps((__mmask16)there, from);
	__m512 high =
		_mm512_maskz_loadu_ps((__mmask16)(there >> 16), from + 16);

	store_32(to, low, high);
	if (rest)
		store_32(rest, lacking(low), lacking(high));
}

/* A row, @depth tiles, at line @r of its tiles. */
static TARGET void pack_floats(unsigned char *to, size_t plane,
			       const float *from, size_t n)
{
	for (; n; to += TILE) {
		size_t some = n < DEPTH ? n : DEPTH;

		put_32(to, plane ? to + plane : NULL, from, some);
		from += some;
		n -= some;
	}
}

static void pack_row(uint32_t dtype, size_t k, unsigned char *to,
		     const unsigned char *a)
{
	const struct weir__convert *convert = weir__to_f32(dtype);
	size_t plane = planes_of(dtype) > 1 ? depth_of(k) * TILE : 0;
	float piece[PIECE];

	for (size_t i = 0; i < k; i += PIECE) {
		size_t n = k - i < PIECE ? k - i : PIECE;

		if (convert) {
			convert->run(piece, a, n / convert->block);
			a += n / convert->block * convert->src_bytes;
		} else {
			memcpy(piece, a, n * sizeof(float));
			a += n * sizeof(float);
		}
		pack_floats(to + i / DEPTH * TILE, plane, piece, n);
	}
}

/* Rows to tiles: those of 16 rows follow each other. */
static void tiles_rows(uint32_t dtype, size_t k, unsigned char *panel,
		       const unsigned char *a, size_t pitch, size_t rows)
{
	size_t bytes = tiles_set_bytes(dtype, k);

	for (size_t r = 0; r < rows; r++)
		pack_row(dtype, k,
			 panel + r / SIDE * bytes + r % SIDE * 2 * DEPTH,
			 a + r * pitch);
}

/* 16 lines of 16 pairs to 16 lines of pairs of the same place in a line. */
INLINE void transpose(unsigned char *tile)
{
	__m512i line[SIDE];
	__m512i at =
		_mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9,
						    8, 7, 6, 5, 4, 3, 2, 1, 0),
				   _mm512_set1_epi32(16));

	for (unsigned i = 0; i < SIDE; i++)
		line[i] = _mm512_i32gather_epi32(
			_mm512_add_epi32(at, _mm512_set1_epi32((int)i)), tile,
			4);
	for (unsigned i = 0; i < SIDE; i++)
		_mm512_storeu_si512(tile + 64 * i, line[i]);
}

static TARGET void transpose_all(unsigned char *tile, size_t n)
{
	for (; n; n--, tile += TILE)
		transpose(tile);
}

static void tiles_prepare(uint32_t dtype, size_t k, void *set,
			  const float *const *column, size_t n)
{
	size_t plane = planes_of(dtype) > 1 ? depth_of(k) * TILE : 0;
	unsigned char *to = set;

	if (n < SIDE)
		memset(set, 0, tiles_set_bytes(dtype, k));
	for (size_t c = 0; c < n; c++)
		pack_floats(to + c * 2 * DEPTH, plane, column[c], k);
	transpose_all(to, tiles_set_bytes(dtype, k) / TILE);
}

/* The products of planes that are summed: of rows, of columns. */
static const unsigned char products[3][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 } };

/*
 * 16 or 32 rows with 16 or 32 columns: rows from @a and columns from @b on, whose
 * tiles follow each other @bytes later. @more_a and @more_b are constants.
 */
INLINE void block(const unsigned char *a, const unsigned char *b, size_t bytes,
		  size_t depth, unsigned planes, bool more_a, bool more_b,
		  float *sum)
{
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	for (unsigned i = 0; i < (planes > 1 ? 3u : 1u); i++) {
		const unsigned char *x = a + products[i][0] * depth * TILE;
		const unsigned char *y = b + products[i][1] * depth * TILE;

		for (size_t d = 0; d < depth; d++, x += TILE, y += TILE) {
			_tile_loadd(4, x, 64);
			_tile_loadd(6, y, 64);
			_tile_dpbf16ps(0, 4, 6);
			if (more_b) {
				_tile_loadd(7, y + bytes, 64);
				_tile_dpbf16ps(1, 4, 7);
			}
			if (more_a) {
				_tile_loadd(5, x + bytes, 64);
				_tile_dpbf16ps(2, 5, 6);
			}
			if (more_a && more_b)
				_tile_dpbf16ps(3, 5, 7);
		}
	}
	_tile_stored(0, sum, 64);
	_tile_stored(1, sum + 256, 64);
	_tile_stored(2, sum + 512, 64);
	_tile_stored(3, sum + 768, 64);
}

/* Sums of a tile, 16 rows of 16 columns, to their columns. */
INLINE void put_tile(float *const *dst, size_t at, const float *sum,
		     size_t rows, size_t n)
{
	__m512i line =
		_mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9,
						    8, 7, 6, 5, 4, 3, 2, 1, 0),
				   _mm512_set1_epi32(16));
	__mmask16 there = (__mmask16)(rows < SIDE ? (1u << rows) - 1 : 0xffff);

	for (size_t c = 0; c < n && c < SIDE; c++)
		_mm512_mask_storeu_ps(dst[c] + at, there,
				      _mm512_i32gather_ps(line, sum + c, 4));
}

struct config {
	unsigned char palette, start, reserved[14];
	uint16_t bytes[16];
	unsigned char lines[16];
};

static const struct config config = {
	.palette = 1,
	.bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
	.lines = { 16, 16, 16, 16, 16, 16, 16, 16 },
};

/* Rows [at, at + 32) of the panel with up to 32 columns. */
static TARGET void run_block(uint32_t dtype, size_t k, float *const *dst,
			     size_t at, const unsigned char *a, size_t rows,
			     const unsigned char *b, size_t n)
{
	size_t bytes = tiles_set_bytes(dtype, k), depth = depth_of(k);
	unsigned planes = planes_of(dtype);
	float sum[4 * 256] __attribute__((aligned(64)));

	if (rows > SIDE && n > SIDE)
		block(a, b, bytes, depth, planes, true, true, sum);
	else if (rows > SIDE)
		block(a, b, bytes, depth, planes, true, false, sum);
	else if (n > SIDE)
		block(a, b, bytes, depth, planes, false, true, sum);
	else
		block(a, b, bytes, depth, planes, false, false, sum);
	put_tile(dst, at, sum, rows, n);
	if (n > SIDE)
		put_tile(dst + SIDE, at, sum + 256, rows, n - SIDE);
	if (rows > SIDE)
		put_tile(dst, at + SIDE, sum + 512, rows - SIDE, n);
	if (rows > SIDE && n > SIDE)
		put_tile(dst + SIDE, at + SIDE, sum + 768, rows - SIDE,
			 n - SIDE);
}

static TARGET void tiles_run(uint32_t dtype, size_t k, float *const *dst,
			     const unsigned char *panel, size_t rows,
			     const unsigned char *set, size_t n)
{
	size_t bytes = tiles_set_bytes(dtype, k);

	_tile_loadconfig(&config);
	for (size_t c = 0; c < n; c += 2 * SIDE)
		for (size_t r = 0; r < rows; r += 2 * SIDE)
			run_block(dtype, k, dst + c, r,
				  panel + r / SIDE * bytes, rows - r,
				  set + c / SIDE * bytes, n - c);
	_tile_release();
}

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

static bool cpu_has_tiles(void)
{
	const unsigned tiles = 1u << 22 | 1u << 24; /* AMX-BF16, AMX-TILE */
	unsigned eax, ebx, ecx, edx;

	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx512f") ||
	    !__builtin_cpu_supports("avx512bw") ||
	    !__builtin_cpu_supports("avx512vl") ||
	    !__builtin_cpu_supports("avx512dq") ||
	    !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
	    (edx & tiles) != tiles ||
	    !__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx))
		return false;
	return eax & 1u << 5; /* AVX512-BF16 */
}

static const struct weir__tiles tiles = {
	.most_rows = tiles_most_rows,
	.scratch = tiles_scratch,
	.set_bytes = tiles_set_bytes,
	.prepare = tiles_prepare,
	.rows = tiles_rows,
	.run = tiles_run,
};

const struct weir__tiles *weir__tiles(void)
{
	static _Atomic int usable; /* 1: no, 2: yes */
	int known = atomic_load_explicit(&usable, memory_order_relaxed);

	if (!known) {
		known = 1 + (cpu_has_tiles() &&
			     !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM,
				      XFEATURE_XTILEDATA));
		atomic_store_explicit(&usable, known, memory_order_relaxed);
	}
	return known == 2 ? &tiles : NULL;
}

#else

const struct weir__tiles *weir__tiles(void)
{
	return NULL;
}
#endif
