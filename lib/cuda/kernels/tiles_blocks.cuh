/* SPDX-License-Identifier: MIT */
/*
 * Tiles of quantised dtypes: a template. Integers of blocks are multiplied with
 * b as BF16, and the sum of each group with its scale, in F32: only b is
 * rounded. A dtype is a struct, as unpack.cuh says. Device code only.
 */
#ifndef WEIR__CUDA_TILES_BLOCKS_CUH
#define WEIR__CUDA_TILES_BLOCKS_CUH

#include "cuda/kernels/tiles.cuh"
#include "cuda/kernels/unpack.cuh"

/*
 * Pieces of rows as they are stored: B::piece elements each, which are several
 * stages. They begin at any even address, so that 16 bytes are copied from the
 * multiple of 16 before it on.
 */
template <class B, class S> struct pieces {
	static const int steps = B::piece / S::step; /* stages of a piece */
	static const int slots = S::slices > 1 ? B::narrow_slots : 2;
	static const int odd = B::align < 16 ? 16 - B::align : 0;
	static const int least = (B::piece_bytes + odd + 15) / 16;
	/* Two neighbouring chunks of four rows are in different banks. */
	static const int chunks = least + ((2 - least) & 3);
	static const int pitch = chunks * 16; /* of rows */
	static const int bytes = S::rows * pitch; /* of a slot */
	/* A piece is awaited with the columns of the stage before it. */
	static_assert((slots - 1) * steps >= S::stages - 1, "slots");

	/* Start to copy piece @q of all rows: zeros after their end. */
	__device__ static inline void start(char *slot, const tile<S> &t,
					    int64_t q)
	{
		int64_t row_bytes = t.p.k / B::piece * B::piece_bytes +
				    t.p.k % B::piece * B::piece_bytes /
					    B::piece;

#pragma unroll 1
		for (int u = (int)threadIdx.x; u < S::rows * chunks;
		     u += S::threads) {
			int r = u / chunks, c = u % chunks;
			const char *row = t.row_of_a(r);
			int64_t from = q * B::piece_bytes;
			int64_t end = row_bytes - from < B::piece_bytes
					      ? row_bytes - from
					      : B::piece_bytes;
			/* In the piece; less than 0 for the bytes before it. */
			int at = c * 16 - odd_of(row, q);
			int64_t left = row ? end - at : 0;
			int n = left < 0 ? 0 : left > 16 ? 16 : (int)left;

			copy_in(slot + r * pitch + c * 16,
				n ? row + from + at : NULL, n);
		}
	}
	/* Bytes from a multiple of 16 to piece @q of a row. */
	__device__ static inline int odd_of(const char *row, int64_t q)
	{
		return (int)(((uint64_t)row + (uint64_t)q * B::piece_bytes) %
			     16);
	}
};

/* Two stages of a, unpacked; stages of b and pieces of a as they arrive. */
template <class B, class S> struct blocks {
	static const int groups = SLICE / B::group * S::slices; /* of a stage */
	/* Rows of scales begin in different banks. */
	static const int pitch = S::rows + S::rows / 8;
	static const int a_bytes = S::rows * SLICE_BYTES * S::slices;
	static const int b_bytes = S::columns * SLICE_BYTES * S::slices;
	typedef copies<S, S::columns, SLICE_BYTES / 16> columns;
	typedef pieces<B, S> stored;

	struct memory {
		char a[2][a_bytes];
		char b[S::stages][b_bytes];
		char piece[stored::slots][stored::bytes];
		float scale[2][groups][pitch];
		float least[2][B::minimum ? groups : 1]
			   [B::minimum ? pitch : 1];
	};

	/* A thread unpacks 16 elements of one row. */
	static_assert(S::rows * 2 * S::slices == S::threads, "units");
	const char *from; /* the row; NULL: none */

	/* Eight neighbouring threads write to different banks. */
	__device__ static inline int half()
	{
		return (int)threadIdx.x % 2;
	}
	__device__ static inline int slice()
	{
		return (int)threadIdx.x / 8 % S::slices;
	}
	__device__ static inline int row()
	{
		return (int)threadIdx.x / 2 % 4 +
		       (int)threadIdx.x / (8 * S::slices) * 4;
	}

	/* Stage @i, whose piece is there: rows are whole groups. */
	__device__ inline void unpack(memory &to, int64_t i) const
	{
		int64_t q = i / stored::steps;
		int stage = (int)(i % 2);
		char *a = to.a[stage] + slice() * S::rows * SLICE_BYTES;
		int g = slice() * (SLICE / B::group) + half() * 16 / B::group;
		uint32_t p[8];
		typename B::raw raw;

		B::read(raw,
			to.piece[q % stored::slots] + row() * stored::pitch +
				stored::odd_of(from, q),
			(unsigned)(i % stored::steps * S::step +
				   slice() * SLICE + half() * 16));
		B::unpack(p, raw);
		*(uint4 *)(a + chunk_at(row(), 2 * half())) =
			make_uint4(p[0], p[1], p[2], p[3]);
		*(uint4 *)(a + chunk_at(row(), 2 * half() + 1)) =
			make_uint4(p[4], p[5], p[6], p[7]);
		if (half() * 16 % B::group)
			return;
		to.scale[stage][g][row()] = B::scale(raw);
		if (B::minimum)
			to.least[stage][g][row()] = B::least(raw);
	}

	/* sum += scale * (a * b) - least * (the sum of b), of a group. */
	__device__ static inline void
	multiply_group(sums<S> &sum, const memory &from, int stage, int b_stage,
		       const role<S> &at, int group)
	{
		const int halves = B::group / 16;
		const char *b = from.b[b_stage] +
				at.slice * (b_bytes / S::slices);
		uint32_t y[halves][S::n8 / 2][4];
		float all[S::n8][4] = {};

#pragma unroll
		for (int h = 0; h < halves; h++)
#pragma unroll
			for (int j = 0; j < S::n8 / 2; j++)
				columns_in(y[h][j], b, at.n + j * 16,
					   group * halves + h, at.lane);
		if (B::minimum)
			columns_add<halves>(all, y);
#pragma unroll
		for (int i = 0; i < S::m16; i++)
			multiply_rows<halves>(sum.v[i], from, stage, at, i,
					      group, y, all);
	}

	/* The sums of the columns: products with ones. */
	template <int halves>
	__device__ static inline void
	columns_add(float all[S::n8][4],
		    const uint32_t y[halves][S::n8 / 2][4])
	{
		const uint32_t ones[4] = { 0x3f803f80, 0x3f803f80, 0x3f803f80,
					   0x3f803f80 };

#pragma unroll
		for (int h = 0; h < halves; h++)
#pragma unroll
			for (int j = 0; j < S::n8; j++)
				mma_bf16::multiply(all[j], ones,
						  y[h][j / 2] + j % 2 * 2);
	}

	template <int halves>
	__device__ static inline void
	multiply_rows(float sum[S::n8][4], const memory &from, int stage,
		      const role<S> &at, int i, int group,
		      const uint32_t y[halves][S::n8 / 2][4],
		      const float all[S::n8][4])
	{
		const char *a = from.a[stage] +
				at.slice * (a_bytes / S::slices);
		int g = at.slice * (SLICE / B::group) + group;
		uint32_t x[halves][4];
		float scale[2], least[2] = { 0, 0 };

#pragma unroll
		for (int h = 0; h < halves; h++)
			rows_in(x[h], a, at.m + i * 16, group * halves + h,
				at.lane);
#pragma unroll
		for (int r = 0; r < 2; r++) {
			int row = at.m + i * 16 + r * 8 + at.lane / 4;

			scale[r] = from.scale[stage][g][row];
			if (B::minimum)
				least[r] = from.least[stage][g][row];
		}
#pragma unroll
		for (int j = 0; j < S::n8; j++) {
			float v[4] = { 0, 0, 0, 0 };

#pragma unroll
			for (int h = 0; h < halves; h++)
				mma_bf16::multiply(v, x[h],
						  y[h][j / 2] + j % 2 * 2);
#pragma unroll
			for (int r = 0; r < 4; r++) {
				sum[j][r] += scale[r / 2] * v[r];
				if (B::minimum)
					sum[j][r] -= least[r / 2] * all[j][r];
			}
		}
	}
};

/* Columns of a stage, and pieces, are copied while others are multiplied. */
template <class B, class S>
__device__ static inline void product(const struct weir__cuda_tiles &p,
				      const char *workspace)
{
	typedef blocks<B, S> F;
	typedef pieces<B, S> P;
	extern __shared__ __align__(128) char shared[];
	typename F::memory &memory = *(typename F::memory *)shared;
	role<S> at;
	tile<S> t(p, workspace);
	F a;
	typename F::columns b;
	sums<S> sum = {};
	int64_t n = (p.k + S::step - 1) / S::step;

	if (t.is_empty())
		return;
	a.from = t.row_of_a(a.row());
#pragma unroll
	for (int i = 0; i < b.n; i++)
		b.from[i] = t.column_of_b(b.row(i));
	P::start(memory.piece[0], t, 0);
	copies_commit();
	for (int i = 1; i < P::slots; i++)
		P::start(memory.piece[i], t, i);
	for (int i = 0; i < S::stages - 1; i++) {
		b.template start<2>(memory.b[i], i * (int64_t)S::step, p.k);
		copies_commit();
	}
	copies_wait<S::stages - 1>();
	__syncthreads();
	a.unpack(memory, 0);
	for (int64_t i = 0; i < n; i++) {
		int64_t next = i + S::stages - 1;
		/* The piece before it in its slot is unpacked. */
		int64_t q = (i + 1) / P::steps - 1 + P::slots;

		copies_wait<S::stages - 2>();
		__syncthreads();
		if (next < n)
			b.template start<2>(memory.b[next % S::stages],
					    next * S::step, p.k);
		if ((i + 1) % P::steps == 0 && q * B::piece < p.k)
			P::start(memory.piece[q % P::slots], t, q);
		copies_commit();
/* Not unrolled with a minimum: registers are too few. */
#pragma unroll(B::minimum ? 1 : 2)
		for (int g = 0; g < SLICE / B::group; g++)
			F::multiply_group(sum, memory, (int)(i % 2),
					  (int)(i % S::stages), at, g);
		if (i + 1 < n)
			a.unpack(memory, i + 1);
	}
	copies_wait<0>();
	slices_add<S>(sum, at, (float *)memory.a);
	sums_out<S, false>(t, sum, at);
}

typedef shape<128, 128, 2, 4, 1, 3> wide;
typedef shape<32, 32, 2, 1, 4, 2> narrow;

/* The bounds of narrow tiles: two blocks at once, so no more registers. */
#define TILES_OF(name, s, ...)                                                \
	static_assert(sizeof(blocks<unpack_##name, s>::memory) ==             \
			      WEIR__CUDA_TILES_##name##_##s,                  \
		      "params.h");                                            \
	extern "C" __global__ void __launch_bounds__(__VA_ARGS__)             \
		weir_kernel_tiles_##name##_##s(                               \
			const struct weir__cuda_tiles p, char *workspace)     \
	{                                                                     \
		product<unpack_##name, s>(p, workspace);                      \
	}
#define TILES(name)                         \
	TILES_OF(name, wide, wide::threads) \
	TILES_OF(name, narrow, narrow::threads, 2)

#endif
