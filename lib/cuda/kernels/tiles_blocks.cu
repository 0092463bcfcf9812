/* SPDX-License-Identifier: MIT */
/*
 * Tiles of quantised dtypes. Their integers are multiplied with b as BF16, and
 * the sum of each group with its scale, in F32: only b is rounded.
 */
#include "cuda/kernels/tiles.cuh"
#include "cuda/kernels/unpack.cuh"

/* Two stages of a, unpacked; stages of b as they arrive. */
template <class B, class S> struct blocks {
	static const int groups = SLICE / B::group * S::slices; /* of a stage */
	/* Rows of scales begin in different banks. */
	static const int pitch = S::rows + S::rows / 8;
	static const int a_bytes = S::rows * SLICE_BYTES * S::slices;
	static const int b_bytes = S::columns * SLICE_BYTES * S::slices;
	typedef copies<S, S::columns, SLICE_BYTES / 16> columns;

	struct memory {
		char a[2][a_bytes];
		char b[S::stages][b_bytes];
		float scale[2][groups][pitch];
		float least[2][B::minimum ? groups : 1]
			   [B::minimum ? pitch : 1];
	};

	/* Units of 16 elements that a thread unpacks. */
	static const int n = S::rows * 2 * S::slices / S::threads;
	const char *from[n];
	typename B::raw raw[n];

	/* Eight neighbouring threads write to different banks. */
	__device__ static inline int unit(int i)
	{
		return (int)threadIdx.x + i * S::threads;
	}
	__device__ static inline int half(int i)
	{
		return unit(i) % 2;
	}
	__device__ static inline int slice(int i)
	{
		return unit(i) / 8 % S::slices;
	}
	__device__ static inline int row(int i)
	{
		return unit(i) / 2 % 4 + unit(i) / (8 * S::slices) * 4;
	}

	/* Start to read a stage: rows are whole groups. */
	__device__ inline void read(int64_t k, int64_t all)
	{
#pragma unroll
		for (int i = 0; i < n; i++) {
			int64_t e = k + slice(i) * SLICE + half(i) * 16;

			raw[i] = {};
			if (from[i] && e < all)
				B::read(raw[i], from[i], e);
		}
	}

	__device__ inline void unpack(memory &to, int stage) const
	{
#pragma unroll
		for (int i = 0; i < n; i++) {
			char *a = to.a[stage] +
				  slice(i) * S::rows * SLICE_BYTES;
			int g = slice(i) * (SLICE / B::group) +
				half(i) * 16 / B::group;
			uint32_t p[8];

			B::unpack(p, raw[i]);
			*(uint4 *)(a + chunk_at(row(i), 2 * half(i))) =
				make_uint4(p[0], p[1], p[2], p[3]);
			*(uint4 *)(a + chunk_at(row(i), 2 * half(i) + 1)) =
				make_uint4(p[4], p[5], p[6], p[7]);
			if (half(i) * 16 % B::group)
				continue;
			to.scale[stage][g][row(i)] = B::scale(raw[i]);
			if (B::minimum)
				to.least[stage][g][row(i)] = B::least(raw[i]);
		}
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

/* A stage is read while the one before it is multiplied. */
template <class B, class S>
__device__ static inline void product(const struct weir__cuda_tiles &p,
				      const char *workspace)
{
	typedef blocks<B, S> F;
	__shared__ __align__(128) typename F::memory memory;
	role<S> at;
	tile<S> t(p, workspace);
	F a;
	typename F::columns b;
	sums<S> sum = {};
	int64_t n = (p.k + S::step - 1) / S::step;

	if (t.is_empty())
		return;
#pragma unroll
	for (int i = 0; i < a.n; i++)
		a.from[i] = t.row_of_a(a.row(i));
#pragma unroll
	for (int i = 0; i < b.n; i++)
		b.from[i] = t.column_of_b(b.row(i));
	for (int i = 0; i < S::stages - 1; i++) {
		b.template start<2>(memory.b[i], i * (int64_t)S::step, p.k);
		copies_commit();
	}
	a.read(0, p.k);
	a.unpack(memory, 0);
	for (int64_t i = 0; i < n; i++) {
		int64_t next = i + S::stages - 1;

		a.read((i + 1) * S::step, p.k);
		copies_wait<S::stages - 2>();
		__syncthreads();
		if (next < n)
			b.template start<2>(memory.b[next % S::stages],
					    next * S::step, p.k);
		copies_commit();
#pragma unroll
		for (int g = 0; g < SLICE / B::group; g++)
			F::multiply_group(sum, memory, i % 2, i % S::stages,
					  at, g);
		a.unpack(memory, (i + 1) % 2);
	}
	copies_wait<0>();
	slices_add<S>(sum, at, (float *)memory.a);
	sums_out<S, false>(t, sum, at);
}

typedef shape<128, 128, 2, 4, 1, 3> wide;
typedef shape<32, 32, 2, 1, 4, 2> narrow;

/* The bounds of narrow tiles: two blocks at once, so no more registers. */
#define TILES_OF(name, s, ...)                                            \
	extern "C" __global__ void __launch_bounds__(__VA_ARGS__)         \
		weir_kernel_tiles_##name##_##s(                           \
			const struct weir__cuda_tiles p, char *workspace) \
	{                                                                 \
		product<unpack_##name, s>(p, workspace);                  \
	}
#define TILES(name)                         \
	TILES_OF(name, wide, wide::threads) \
	TILES_OF(name, narrow, narrow::threads, 2)
TILES(q8_0)
TILES(q4_0)
TILES(q4_k)
TILES(q6_k)
