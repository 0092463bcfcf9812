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
#include "kernels/product.h"

#define TARGET                                                               \
	__attribute__((target("avx2,fma,avx512f,avx512bw,avx512vl,avx512dq," \
			      "avx512bf16,amx-tile,amx-bf16")))
#define INLINE static inline TARGET __attribute__((always_inline))

#define SIDE 16u                /* rows, or columns, of a tile */
#define DEPTH 32u               /* elements of a row in a tile */
#define TILE (2 * SIDE * DEPTH) /* bytes */
/*
 * So many tiles of each row are computed at a time: then 32 columns stay in the
 * first cache while all rows of a panel are multiplied with them.
 */
#define PASS 16u /* tiles; half of them if there are two planes */

/*
 * Return the number of planes: BF16 elements, and for F32 and F16 a second
 * plane with what the first lacks, as BF16.
 */
static unsigned planes_of(uint32_t dtype)
{
	return dtype == WEIR_DTYPE_F32 || dtype == WEIR_DTYPE_F16 ? 2 : 1;
}

/* Return the number of tiles that a row of @k elements needs. */
static size_t depth_of(size_t k)
{
	return (k + DEPTH - 1) / DEPTH;
}

static size_t tiles_set_bytes(uint32_t dtype, size_t k)
{
	return planes_of(dtype) * depth_of(k) * TILE;
}

/* Return the number of tiles of a row that are computed at a time. */
static size_t pass_of(uint32_t dtype)
{
	return PASS / planes_of(dtype);
}

INLINE void store_32(unsigned char *to, __m512 low, __m512 high)
{
	_mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Return the difference between @x and its BF16. */
INLINE __m512 lacking(__m512 x)
{
	__m512i near = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x));

	return _mm512_sub_ps(x,
			     _mm512_castsi512_ps(_mm512_slli_epi32(near, 16)));
}

/*
 * Store @n floats, up to DEPTH, as BF16 to the 64 bytes at @to, and their
 * differences from these to @rest unless it is NULL.
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

/*
 * Pack a row from its line of the first tile on. @plane is the size of a plane,
 * or 0.
 */
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

/*
 * Prefetch a part of a row, a few rows ahead: the hardware does not by itself.
 */
static inline void fetch(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i += 64)
		__builtin_prefetch(p + i);
}

/*
 * Pack the elements [first, first + n) of rows to tiles: those of 16 rows, both
 * planes, and then those of the next 16.
 */
static void pack_panel(uint32_t dtype, unsigned char *panel,
		       const unsigned char *a, size_t pitch, size_t rows,
		       size_t first, size_t n)
{
	const struct weir_backend_convert *convert = weir__to_f32(dtype);
	size_t plane = planes_of(dtype) > 1 ? pass_of(dtype) * TILE : 0;
	float values[PASS * DEPTH];
	size_t bytes = convert ? n / convert->block * convert->src_bytes
			       : n * sizeof(float);

	a += convert ? first / convert->block * convert->src_bytes
		     : first * sizeof(float);
	for (size_t r = 0; r < rows; r++) {
		fetch(a + (r + 4) * pitch, bytes);
		if (convert)
			convert->run(values, a + r * pitch, n / convert->block);
		else
			memcpy(values, a + r * pitch, bytes);
		pack_floats(panel + r / SIDE * PASS * TILE +
				    r % SIDE * 2 * DEPTH,
			    plane, values, n);
	}
}

/* Transpose 16 lines of 16 pairs: line i gets pair i of each line. */
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

/* The pairs of planes, of rows and of columns, whose products are summed. */
static const unsigned char products[3][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 } };

/* The tiles of a block. The sums of 16 columns follow each other. */
struct tile_block {
	const unsigned char *a, *b; /* the first 16 rows, and columns */
	size_t a_plane, b_plane;    /* offset of the second plane, in bytes */
	size_t b_next; /* offset of the next 16 columns, in bytes */
	unsigned char *sum;
	size_t sum_next; /* offset of their sums, in bytes */
	size_t depth;    /* number of tiles */
	unsigned products;
	bool begins; /* true if sums begin at 0 */
};

/*
 * Multiply 16 or 32 rows with 16 or 32 columns: @more_a and @more_b, constants,
 * are true for 32.
 */
INLINE void block_run(const struct tile_block *v, bool more_a, bool more_b)
{
	if (v->begins) {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	} else {
		_tile_loadd(0, v->sum, 64);
		_tile_loadd(1, v->sum + (more_b ? v->sum_next : 0), 64);
		_tile_loadd(2, v->sum + (more_a ? TILE : 0), 64);
		_tile_loadd(
			3, v->sum + (more_a && more_b ? TILE + v->sum_next : 0),
			64);
	}
	for (unsigned i = 0; i < v->products; i++) {
		const unsigned char *x = v->a + products[i][0] * v->a_plane;
		const unsigned char *y = v->b + products[i][1] * v->b_plane;

		for (size_t d = 0; d < v->depth; d++, x += TILE, y += TILE) {
			_tile_loadd(4, x, 64);
			_tile_loadd(6, y, 64);
			_tile_dpbf16ps(0, 4, 6);
			if (more_b) {
				_tile_loadd(7, y + v->b_next, 64);
				_tile_dpbf16ps(1, 4, 7);
			}
			if (more_a) {
				_tile_loadd(5, x + PASS * TILE, 64);
				_tile_dpbf16ps(2, 5, 6);
			}
			if (more_a && more_b)
				_tile_dpbf16ps(3, 5, 7);
		}
	}
	_tile_stored(0, v->sum, 64);
	if (more_b)
		_tile_stored(1, v->sum + v->sum_next, 64);
	if (more_a)
		_tile_stored(2, v->sum + TILE, 64);
	if (more_a && more_b)
		_tile_stored(3, v->sum + TILE + v->sum_next, 64);
}

static TARGET void block_any(const struct tile_block *v, size_t rows, size_t n)
{
	if (rows > SIDE && n > SIDE)
		block_run(v, true, true);
	else if (rows > SIDE)
		block_run(v, true, false);
	else if (n > SIDE)
		block_run(v, false, true);
	else
		block_run(v, false, false);
}

/* Store the sums of a tile, 16 rows of 16 columns, to their columns. */
static TARGET void put_tile(float *const *dst, size_t at,
			    const unsigned char *sum, size_t rows, size_t n)
{
	__m512i line =
		_mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9,
						    8, 7, 6, 5, 4, 3, 2, 1, 0),
				   _mm512_set1_epi32(16));
	__mmask16 there = (__mmask16)(rows < SIDE ? (1u << rows) - 1 : 0xffff);

	for (size_t c = 0; c < n && c < SIDE; c++)
		_mm512_mask_storeu_ps(dst[c] + at, there,
				      _mm512_i32gather_ps(line, sum + 4 * c,
							  4));
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

#define PANEL (WEIR__TILES_ROWS / SIDE * PASS * TILE)
#define SUMS (WEIR__TILES_ROWS / SIDE * TILE) /* sums of 16 columns */

/*
 * A panel has a part of the elements of all rows. The scratch memory has a
 * panel, and then the sums of all rows with all columns.
 */
static TARGET void tiles_run(uint32_t dtype, size_t k, void *scratch,
			     float *const *dst, const unsigned char *a,
			     size_t pitch, size_t rows,
			     const unsigned char *set, size_t n)
{
	size_t depth = depth_of(k), pass = pass_of(dtype);
	unsigned char *panel = scratch, *sums = panel + PANEL;
	struct tile_block v = { .a_plane = pass * TILE,
				.b_plane = depth * TILE,
				.b_next = tiles_set_bytes(dtype, k),
				.sum_next = SUMS,
				.products = planes_of(dtype) > 1 ? 3 : 1 };

	_tile_loadconfig(&config);
	for (size_t at = 0; at < depth; at += pass) {
		size_t first = at * DEPTH, left = k - first;

		pack_panel(dtype, panel, a, pitch, rows, first,
			   left < pass * DEPTH ? left : pass * DEPTH);
		v.begins = at == 0;
		v.depth = depth - at < pass ? depth - at : pass;
		for (size_t c = 0; c < n; c += 2 * SIDE)
			for (size_t r = 0; r < rows; r += 2 * SIDE) {
				v.a = panel + r / SIDE * PASS * TILE;
				v.b = set + c / SIDE * v.b_next + at * TILE;
				v.sum = sums + c / SIDE * SUMS +
					r / SIDE * TILE;
				block_any(&v, rows - r, n - c);
			}
	}
	_tile_release();
	for (size_t c = 0; c < n; c += SIDE)
		for (size_t r = 0; r < rows; r += SIDE)
			put_tile(dst + c, r,
				 sums + c / SIDE * SUMS + r / SIDE * TILE,
				 rows - r, n - c);
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
	.scratch = PANEL + WEIR__PRODUCT_COLUMNS / SIDE * SUMS,
	.set_bytes = tiles_set_bytes,
	.prepare = tiles_prepare,
	.run = tiles_run,
};

const struct weir__tiles *weir__tiles(void)
{
	static _Atomic int usable; /* 0: unknown, 1: no, 2: yes */
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
