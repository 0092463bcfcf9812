/* SPDX-License-Identifier: MIT */
/*
 * Tiles of F32, F16 and BF16. b was converted (columns.cu): for BF16 to BF16;
 * for F16 to the sum of two F16, times a power of two that belongs to the
 * column; for F32 to the sum of two BF16, as elements of a are here.
 */
#include "cuda/kernels/tiles.cuh"

struct of_bf16 : mma_bf16 {
	static const int bytes = 2, parts = 1;
	static const bool scaled = false;
};
struct of_f16 : mma_f16 {
	static const int bytes = 2, parts = 2;
	static const bool scaled = true;
};
struct of_f32 : mma_bf16 {
	static const int bytes = 4, parts = 2;
	static const bool scaled = false;
};

/* Two elements as BF16, and what is left of them. */
__device__ static inline void split(uint32_t &high, uint32_t &low, float2 v)
{
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(high) : "f"(v.y), "f"(v.x));
	v.x -= __uint_as_float(high << 16);
	v.y -= __uint_as_float(high & 0xffff0000);
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(low) : "f"(v.y), "f"(v.x));
}

/* 16 rows and 16 elements of F32: their order is that of matrices_in(). */
__device__ static inline void rows_split(uint32_t high[4], uint32_t low[4],
					 const char *slice, int row, int half,
					 int lane)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int r = row + lane / 4 + i % 2 * 8;
		int byte = half * 64 + i / 2 * 32 + lane % 4 * 8;
		int chunk = byte / 16 ^ r % 4 * 2;

		split(high[i], low[i],
		      *(const float2 *)(slice + r * 128 + chunk * 16 +
					byte % 16));
	}
}

template <class T, class S> struct floats {
	static const int a_bytes = S::rows * SLICE * T::bytes * S::slices;
	static const int b_bytes = S::columns * SLICE_BYTES * S::slices;
	static const int bytes = a_bytes + b_bytes * T::parts; /* of a stage */
	typedef copies<S, S::rows, SLICE * T::bytes / 16> rows;
	typedef copies<S, S::columns, SLICE_BYTES / 16> columns;

	__device__ static inline void start(char *stage, const rows &a,
					    const columns &b,
					    const struct weir__cuda_tiles &p,
					    int64_t k)
	{
		a.template start<T::bytes>(stage, k, p.k);
		for (int i = 0; i < T::parts; i++)
			b.template start<2>(stage + a_bytes + i * b_bytes, k,
					    p.k, i * p.low_at);
	}

	__device__ static inline void multiply(sums<S> &sum, const char *stage,
					       const role<S> &at)
	{
		const char *a = stage + at.slice * (a_bytes / S::slices);
		const char *b =
			stage + a_bytes + at.slice * (b_bytes / S::slices);

#pragma unroll
		for (int half = 0; half < 2; half++) {
			uint32_t x[2][S::m16][4];

#pragma unroll
			for (int i = 0; i < S::m16; i++)
				if (T::bytes == 4)
					rows_split(x[0][i], x[1][i], a,
						   at.m + i * 16, half,
						   at.lane);
				else
					rows_in(x[0][i], a, at.m + i * 16, half,
						at.lane);
#pragma unroll
			for (int j = 0; j < S::n8; j += 2)
				columns_multiply(sum, x, b, j, half, at);
		}
	}

	__device__ static inline void
	columns_multiply(sums<S> &sum, const uint32_t x[2][S::m16][4],
			 const char *b, int j, int half, const role<S> &at)
	{
		uint32_t y[2][4];

#pragma unroll
		for (int part = 0; part < T::parts; part++)
			columns_in(y[part], b + part * b_bytes, at.n + j * 8,
				   half, at.lane);
#pragma unroll
		for (int i = 0; i < S::m16; i++) {
#pragma unroll
			for (int c = 0; c < 2; c++) {
				float *v = sum.v[i][j + c];

				if (T::bytes == 4)
					T::multiply(v, x[1][i], y[0] + 2 * c);
				if (T::parts == 2)
					T::multiply(v, x[0][i], y[1] + 2 * c);
				T::multiply(v, x[0][i], y[0] + 2 * c);
			}
		}
	}
};

template <class T, class S>
__device__ static inline void product(const struct weir__cuda_tiles &p,
				      const char *workspace)
{
	typedef floats<T, S> F;
	__shared__ __align__(128) char stage[S::stages][F::bytes];
	role<S> at;
	tile<S> t(p, workspace);
	typename F::rows a;
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
		F::start(stage[i], a, b, p, i * (int64_t)S::step);
		copies_commit();
	}
	for (int64_t i = 0; i < n; i++) {
		int64_t next = i + S::stages - 1;

		copies_wait<S::stages - 2>();
		__syncthreads();
		if (next < n)
			F::start(stage[next % S::stages], a, b, p,
				 next * S::step);
		copies_commit();
		F::multiply(sum, stage[i % S::stages], at);
	}
	copies_wait<0>();
	slices_add<S>(sum, at, (float *)stage);
	sums_out<S, T::scaled>(t, sum, at);
}

typedef shape<128, 128, 2, 4, 1, 3> wide;
typedef shape<32, 32, 2, 1, 4, 3> narrow;
typedef shape<128, 64, 4, 2, 1, 3> wide_f16;
typedef shape<32, 32, 2, 1, 4, 2> narrow_f16;
typedef shape<128, 64, 4, 2, 1, 2> wide_f32;
typedef shape<32, 32, 2, 1, 2, 3> narrow_f32;

#define TILES(name, type, s)                                              \
	extern "C" __global__ void __launch_bounds__(s::threads)          \
		weir_kernel_tiles_##name(const struct weir__cuda_tiles p, \
					 char *workspace)                 \
	{                                                                 \
		product<type, s>(p, workspace);                           \
	}
TILES(bf16_wide, of_bf16, wide)
TILES(bf16_narrow, of_bf16, narrow)
TILES(f16_wide, of_f16, wide_f16)
TILES(f16_narrow, of_f16, narrow_f16)
TILES(f32_wide, of_f32, wide_f32)
TILES(f32_narrow, of_f32, narrow_f32)
