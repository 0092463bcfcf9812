/* SPDX-License-Identifier: MIT */
/*
 * Attention of many tokens by tensor cores. A block computes ROWS queries that
 * share a head of k, 16 for each warp, and goes over the positions TILE at a
 * time; tiles to which none of them attends are left out. It keeps for each
 * query the greatest score, the sum of exp(score - greatest), and that sum with
 * each exp times v. While scores are computed the tile of v is on its way,
 * while it is used that of k for the next positions.
 *
 * q times scale, and each exp, are rounded to the dtype of k and v, or to BF16
 * if these are Q8_0 or Q4_0, whose elements are rounded to BF16 too.
 */
#include "cuda/kernels/queries.cuh"
#include "cuda/kernels/tiles.cuh"
#include "cuda/kernels/unpack.cuh"
#include "mem/dtype_table.h"

#define ROWS 64
#define WARPS 4
#define THREADS 128

/*
 * The most elements of a row, and the positions of a tile: k and v of a tile
 * have 16 KB each. A large form also takes masks, softcap and, with BF16, rows
 * of Q8_0 and Q4_0: so there are few kernels.
 */
template <int M, int T, bool L> struct form {
	static const bool is_large = L;
	static const unsigned most = M, tile = T;
	static const unsigned chunks = M / 8; /* of 16 bytes, of a row */
	static const unsigned row_bytes = M * 2;
	static const unsigned steps = M / 16; /* products of 16 elements */
};
typedef form<WEIR__CUDA_ATTENTION_TILE_HEAD, 64, false> usual;
typedef form<WEIR__CUDA_CHUNK_HEAD, 32, true> large;

struct of_bf16 : mma_bf16 {
	__device__ static inline uint32_t pair(float low, float high)
	{
		uint32_t x;

		asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
		    : "=r"(x)
		    : "f"(high), "f"(low));
		return x;
	}
};

struct of_f16 : mma_f16 {
	__device__ static inline uint32_t pair(float low, float high)
	{
		uint32_t x;

		asm("cvt.rn.f16x2.f32 %0, %1, %2;"
		    : "=r"(x)
		    : "f"(high), "f"(low));
		return x;
	}
};

/* The queries of a block. They are in the place of k and v at first. */
template <class F> struct tile_memory {
	char k[F::tile * F::row_bytes], v[F::tile * F::row_bytes];
	int32_t from[ROWS], to[ROWS]; /* 0 and 0: it is not a query */
	const char *q[ROWS];
	char *dst[ROWS];
	float sink[ROWS];
	const char *mask[F::is_large ? ROWS : 1];
	float slope[F::is_large ? ROWS : 1];
};

/* Where 16 bytes of a row are: eight rows have no bank in common. */
template <class F>
__device__ static inline unsigned place_at(unsigned row, unsigned chunk)
{
	return row * F::row_bytes + (chunk ^ row % 8) * 16;
}

__device__ static inline void turned_in(uint32_t r[4], const char *at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
		     "{%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(shared_address(at))
		     : "memory");
}

__device__ static inline float exp_of(float x)
{
	float e;

	x *= 1.44269504f;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x));
	return e;
}

/* k and v of the dtype of the products: copied while other work goes on. */
struct same_rows {
	__device__ static inline void chunk_in(const operand &, char *to,
					       const char *row, unsigned chunk)
	{
		copy_in(to, row ? row + chunk * 16 : NULL, row ? 16 : 0);
	}
};

/* The same, or Q8_0 or Q4_0 at multiples of 2: 8 elements as BF16. */
struct any_rows {
	__device__ static inline void chunk_in(const operand &t, char *to,
					       const char *row, unsigned chunk)
	{
		bool is_q8_0 = t.dtype == WEIR_DTYPE_Q8_0;
		uint4 all = { 0, 0, 0, 0 };

		if (t.dtype == WEIR_DTYPE_BF16) {
			same_rows::chunk_in(t, to, row, chunk);
			return;
		}
		if (row) {
			const char *b =
				row + chunk / 4 *
					      (is_q8_0 ? WEIR__BYTES_Q8_0
						       : WEIR__BYTES_Q4_0);
			unsigned part = chunk % 4;
			float d = f16_in(*(const uint16_t *)b), x[8];
			uint32_t w[2];

			words_in<2>(w, (const uint8_t *)b + 2 +
					       (is_q8_0 ? part : part % 2) * 8);
#pragma unroll
			for (int i = 0; i < 8; i++) {
				uint32_t q = w[i / 4];

				q = is_q8_0 ? q ^ 0x80808080
					    : q >> part / 2 * 4 & 0x0f0f0f0f;
				x[i] = d *
				       byte_less(q, i % 4, is_q8_0 ? 128 : 8);
			}
			all = { of_bf16::pair(x[0], x[1]),
				of_bf16::pair(x[2], x[3]),
				of_bf16::pair(x[4], x[5]),
				of_bf16::pair(x[6], x[7]) };
		}
		*(uint4 *)to = all;
	}
};

/* Bring the rows of a tile; those of positions that are not in @r are zeros. */
template <class F, class L>
__device__ static inline void
tile_start(const params &p, char *tile, const operand &t, const char *base,
	   uint64_t sequence, int32_t begin, int32_t from, int32_t to,
	   char *workspace)
{
	unsigned chunk = threadIdx.x % F::chunks;

#pragma unroll 1
	for (unsigned i = threadIdx.x / F::chunks; i < F::tile;
	     i += THREADS / F::chunks) {
		int32_t s = begin + (int32_t)i, row = -1;

		if (s >= from && s < to)
			row = row_checked(p, sequence, (uint32_t)s, workspace);
		if (chunk * 8 < (unsigned)t.dim[0])
			L::chunk_in(t, tile + place_at<F>(i, chunk),
				    row < 0 ? NULL : base + row * t.stride[1],
				    chunk);
	}
	copies_commit();
}

/* Set what depends on the queries only; they are in the place of k and v. */
template <class E, class F>
__device__ static inline void queries_begin(const params &p, tile_memory<F> &m,
					    uint64_t sequence, int64_t head_k,
					    unsigned first)
{
	unsigned d = (unsigned)p.a.d;

	if (threadIdx.x < ROWS) {
		unsigned r = threadIdx.x;
		bool is_query = first + r < p.rows;
		query w = query_of(p, head_k, is_query ? first + r : first);
		attended t = attended_by(p.a, sequence, w.token, w.token + 1);

		m.from[r] = is_query ? (int32_t)t.from : 0;
		m.to[r] = is_query ? (int32_t)t.to : 0;
		m.q[r] = query_at(p, sequence, w);
		m.dst[r] = result_at(p, sequence, w);
		m.sink[r] = sink_of(p.a.sinks, w.head);
		if (F::is_large) {
			m.mask[r] = mask_at(p, sequence, w);
			m.slope[r] = slope_of(p.a.max_bias, w.head, p.a.heads);
		}
	}
	__syncthreads();
#pragma unroll 1
	for (unsigned r = threadIdx.x / 32; r < ROWS; r += WARPS)
#pragma unroll 1
		for (unsigned i = threadIdx.x % 32; i < d; i += 32) {
			const char *at = m.q[r] + i * p.a.q.stride[0];
			float v = p.a.scale * element_in(p.a.q, at);

			*(uint16_t *)(m.k + place_at<F>(r, i / 8) + i % 8 * 2) =
				(uint16_t)E::pair(v, 0);
		}
	__syncthreads();
}

/* What a thread has of two queries, rows g and g + 8 of its warp. */
template <class F> struct kept {
	float sum[F::most / 8][4]; /* of exp times v */
	float most[2], weight[2];
};

/* c * tanh(x / c): tanh(x) is 1 - 2 / (exp(2x) + 1). */
__device__ static inline float capped(float x, float c)
{
	return c - __fdividef(2 * c, exp_of(__fdividef(2 * x, c)) + 1);
}

/* An element of a mask of F32 or F16, which is aligned. */
__device__ static inline float mask_in(const operand &t, const char *row,
				       int32_t n)
{
	if (t.dtype == WEIR_DTYPE_F32)
		return ((const float *)row)[n];
	return f16_in(((const uint16_t *)row)[n]);
}

/* Scores of a tile with softcap, and with the mask. @row: of the first query */
template <class F>
__device__ static inline void
scores_change(float s[F::tile / 8][4], const params &p, const tile_memory<F> &m,
	      unsigned row, int32_t at)
{
	if (p.a.softcap > 0)
#pragma unroll
		for (unsigned j = 0; j < F::tile / 8; j++)
#pragma unroll
			for (unsigned i = 0; i < 4; i++)
				s[j][i] = capped(s[j][i], p.a.softcap);
	if (!p.a.mask.data)
		return;
#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		const char *mask = m.mask[row + 8 * r];
		float slope = m.slope[row + 8 * r];
		int32_t from = m.from[row + 8 * r], to = m.to[row + 8 * r];

#pragma unroll
		for (unsigned j = 0; j < F::tile / 8; j++)
#pragma unroll
			for (unsigned i = 2 * r; i < 2 * r + 2; i++) {
				int32_t n = at + (int32_t)(j * 8 + i % 2);
				float bias = 0;

				if (n >= from && n < to)
					bias = slope *
					       mask_in(p.a.mask, mask, n);
				s[j][i] = bias == -INFINITY ? bias
							    : s[j][i] + bias;
			}
	}
}

/* The scores of a tile: hidden ones are -infinity. */
template <class E, class F>
__device__ static inline void
scores(float s[F::tile / 8][4], const params &p, const uint32_t q[F::steps][4],
       const tile_memory<F> &m, unsigned row, int32_t begin)
{
	unsigned lane = threadIdx.x % 32, steps = (unsigned)p.a.d / 16;
	int32_t at = begin + (int32_t)(lane % 4 * 2);

#pragma unroll
	for (unsigned j = 0; j < F::tile / 8; j++)
		s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll
	for (unsigned i = 0; i < F::steps; i++) {
		if (i >= steps)
			break;
#pragma unroll
		for (unsigned j = 0; j < F::tile / 8; j += 2) {
			uint32_t b[4];

			matrices_in(b, m.k + place_at<F>(j * 8 + lane / 16 * 8 +
								 lane % 8,
							 2 * i + lane / 8 % 2));
			E::multiply(s[j], q[i], b);
			E::multiply(s[j + 1], q[i], b + 2);
		}
	}
	if (F::is_large)
		scores_change<F>(s, p, m, row, at);
	const int32_t from[2] = { m.from[row], m.from[row + 8] };
	const int32_t to[2] = { m.to[row], m.to[row + 8] };

	if (begin >= from[0] && begin + (int32_t)F::tile <= to[0] &&
	    begin >= from[1] && begin + (int32_t)F::tile <= to[1])
		return;
#pragma unroll
	for (unsigned j = 0; j < F::tile / 8; j++)
#pragma unroll
		for (unsigned i = 0; i < 4; i++) {
			int32_t n = at + (int32_t)(j * 8 + i % 2);

			if (n < from[i / 2] || n >= to[i / 2])
				s[j][i] = -INFINITY;
		}
}

/* Replace scores by exp(score - greatest), and adapt what is kept. */
template <class F>
__device__ static inline void exponents(float s[F::tile / 8][4], kept<F> &f)
{
#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		float most = f.most[r], less, old;

#pragma unroll
		for (unsigned j = 0; j < F::tile / 8; j++)
			most = fmaxf(most, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
		most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
		most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
		/* Without a score exp(-infinity) is 0; a NaN stays one. */
		less = most == -INFINITY ? 0 : most;
		old = exp_of(f.most[r] - less);
		f.most[r] = most;
		f.weight[r] *= old;
#pragma unroll
		for (unsigned j = 0; j < F::tile / 8; j++)
#pragma unroll
			for (unsigned i = 2 * r; i < 2 * r + 2; i++) {
				s[j][i] = exp_of(s[j][i] - less);
				f.weight[r] += s[j][i];
			}
#pragma unroll
		for (unsigned j = 0; j < F::most / 8; j++) {
			f.sum[j][2 * r] *= old;
			f.sum[j][2 * r + 1] *= old;
		}
	}
}

/* Add exp times v. */
template <class E, class F>
__device__ static inline void values(kept<F> &f, const params &p,
				     const float s[F::tile / 8][4],
				     const char *v)
{
	unsigned lane = threadIdx.x % 32, steps = (unsigned)p.a.dv / 16;
	uint32_t a[F::tile / 16][4];

#pragma unroll
	for (unsigned i = 0; i < F::tile / 8; i++) {
		a[i / 2][i % 2 * 2] = E::pair(s[i][0], s[i][1]);
		a[i / 2][i % 2 * 2 + 1] = E::pair(s[i][2], s[i][3]);
	}
#pragma unroll
	for (unsigned j = 0; j < F::steps; j++) {
		if (j >= steps)
			break;
#pragma unroll
		for (unsigned i = 0; i < F::tile / 16; i++) {
			uint32_t b[4];

			turned_in(b, v + place_at<F>(i * 16 + lane % 16,
						     2 * j + lane / 16));
			E::multiply(f.sum[2 * j], a[i], b);
			E::multiply(f.sum[2 * j + 1], a[i], b + 2);
		}
	}
}

template <class F>
__device__ static inline void results_out(const params &p,
					  const tile_memory<F> &m, kept<F> &f,
					  unsigned row, unsigned rows)
{
	unsigned t = threadIdx.x % 4 * 2;

#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		char *dst = m.dst[row + 8 * r];
		float w = f.weight[r];

		/* Each of four threads has the sink's weight in its sum. */
		w += __shfl_xor_sync(~0u, w, 1);
		w += __shfl_xor_sync(~0u, w, 2);
		w = w != 0 ? 1 / w : 0;
		if (row + 8 * r >= rows)
			continue;
#pragma unroll
		for (unsigned j = 0; j < F::most / 8; j++)
#pragma unroll
			for (unsigned i = 0; i < 2; i++)
				if (j * 8 < p.a.dv)
					*(float *)(dst + (j * 8 + t + i) * 4) =
						f.sum[j][2 * r + i] * w;
	}
}

template <class E, class F, class L>
__device__ static inline void attend(const params &p, char *workspace)
{
	const int32_t tile = F::tile;
	__shared__ __align__(128) tile_memory<F> m;
	/* Late tokens have the most positions: they come first. */
	unsigned n = (unsigned)p.blocks - 1 - blockIdx.x, at = n / p.row_blocks;
	unsigned first = n % p.row_blocks * ROWS;
	unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
	unsigned sequence = at / p.heads_k, head_k = at % p.heads_k, end;
	uint32_t q[F::steps][4];
	attended all;
	kept<F> f;

	if (length_is_wrong(p, sequence, workspace))
		return;
	end = first + ROWS < p.rows ? first + ROWS : p.rows;
	all = attended_by(p.a, sequence, first / p.group,
			  (end - 1) / p.group + 1);
	const int32_t from = (int32_t)all.from, to = (int32_t)all.to;
	const char *k = row_at(p.a.k, p.step_k, sequence, head_k, 0);
	const char *v = row_at(p.a.v, p.step_v, sequence, head_k, 0);

	queries_begin<E, F>(p, m, sequence, head_k, first);
#pragma unroll
	for (unsigned i = 0; i < F::steps; i++) {
		q[i][0] = q[i][1] = q[i][2] = q[i][3] = 0;
		if (16 * i < (unsigned)p.a.d)
			matrices_in(q[i], m.k + place_at<F>(row + lane % 16,
							    2 * i + lane / 16));
	}
	__syncthreads(); /* nobody reads queries */
	tile_start<F, L>(p, m.k, p.a.k, k, sequence, from / tile * tile, from,
			 to, workspace);
	row += lane / 4;
#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		float sink = m.sink[row + 8 * r];

		f.most[r] = sink;
		f.weight[r] =
			sink == -INFINITY || lane % 4 ? 0 : exp_of(sink - sink);
	}
#pragma unroll
	for (unsigned j = 0; j < F::most / 8; j++)
		f.sum[j][0] = f.sum[j][1] = f.sum[j][2] = f.sum[j][3] = 0;
	for (int32_t begin = from / tile * tile; begin < to; begin += tile) {
		float s[F::tile / 8][4];

		__syncthreads(); /* nobody uses v */
		tile_start<F, L>(p, m.v, p.a.v, v, sequence, begin, from, to,
				 workspace);
		copies_wait<1>();
		__syncthreads(); /* k is there */
		scores<E, F>(s, p, q, m, row, begin);
		__syncthreads(); /* nobody uses k */
		tile_start<F, L>(p, m.k, p.a.k, k, sequence, begin + tile, from,
				 to, workspace);
		exponents<F>(s, f);
		copies_wait<1>();
		__syncthreads(); /* v is there */
		values<E, F>(f, p, s, m.v);
	}
	copies_wait<0>();
	results_out<F>(p, m, f, row, p.rows - first);
}

#define ATTENTION(name, E, F, L)                                    \
	extern "C" __global__ void __launch_bounds__(THREADS)       \
		weir_kernel_attention_tiles_##name(const params p,  \
						   char *workspace) \
	{                                                           \
		attend<E, F, L>(p, workspace);                      \
	}
ATTENTION(f16, of_f16, usual, same_rows)
ATTENTION(bf16, of_bf16, usual, same_rows)
ATTENTION(f16_large, of_f16, large, same_rows)
ATTENTION(bf16_large, of_bf16, large, any_rows)
