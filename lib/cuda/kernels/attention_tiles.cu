/* SPDX-License-Identifier: MIT */
/*
 * Attention of many tokens by tensor cores. A block computes ROWS queries that
 * share a head of k, 16 for each warp, and goes over the positions TILE at a
 * time; tiles to which none of them attends are left out. It keeps for each
 * query the greatest score, the sum of exp(score - greatest), and that sum with
 * each exp times v. While scores are computed the tile of v is on its way,
 * while it is used that of k for the next positions.
 *
 * q times scale, and each exp, are rounded to the dtype of k and v.
 */
#include "cuda/kernels/queries.cuh"
#include "cuda/kernels/tiles.cuh"

#define ROWS 64
#define TILE 64
#define WARPS 4
#define THREADS 128
#define MOST WEIR__CUDA_ATTENTION_TILE_HEAD /* elements of a row */
#define CHUNKS (MOST / 8)                   /* of 16 bytes, of a row */
#define ROW_BYTES (MOST * 2)
#define STEPS (MOST / 16) /* products of 16 elements */

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

/* The queries of a block. */
struct tile_memory {
	char k[TILE * ROW_BYTES], v[TILE * ROW_BYTES];
	int32_t from[ROWS], to[ROWS]; /* 0 and 0: it is not a query */
	const char *q[ROWS];
	char *dst[ROWS];
	float sink[ROWS];
	const char *k_base, *v_base;
};

/* Where 16 bytes of a row are: eight rows have no bank in common. */
__device__ static inline unsigned place_at(unsigned row, unsigned chunk)
{
	return row * ROW_BYTES + (chunk ^ row % 8) * 16;
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

/* Start to copy the rows of a tile; those that are not in @r are zeros. */
__device__ static inline void tile_start(const params &p, char *tile,
					 const char *base, int64_t stride,
					 unsigned chunks, uint64_t sequence,
					 int32_t begin, int32_t from,
					 int32_t to, char *workspace)
{
	unsigned chunk = threadIdx.x % CHUNKS;

#pragma unroll 1
	for (unsigned i = threadIdx.x / CHUNKS; i < TILE;
	     i += THREADS / CHUNKS) {
		int32_t s = begin + (int32_t)i, row = -1;

		if (s >= from && s < to)
			row = row_checked(p, sequence, (uint32_t)s, workspace);
		if (chunk < chunks)
			copy_in(tile + place_at(i, chunk),
				row < 0 ? NULL
					: base + row * stride + chunk * 16,
				row < 0 ? 0 : 16);
	}
	copies_commit();
}

/* Set what depends on the queries only; they are in the place of v. */
template <class E>
__device__ static inline void queries_begin(const params &p, tile_memory &m,
					    uint64_t sequence, int64_t head_k,
					    unsigned first)
{
	unsigned d = (unsigned)p.a.d;

	if (threadIdx.x < ROWS) {
		unsigned r = threadIdx.x;
		bool is_query = first + r < p.rows;
		place w = query_at(p, sequence, head_k,
				   is_query ? first + r : first);
		attended t = attended_by(p.a, sequence, w.i[1], w.i[1] + 1);

		m.from[r] = is_query ? (int32_t)t.from : 0;
		m.to[r] = is_query ? (int32_t)t.to : 0;
		m.q[r] = at_repeated(p.a.q, w, 1, WEIR__CUDA_DIMS);
		m.dst[r] = result_at(p, w);
		m.sink[r] = sink_of(p.a.sinks, w.i[2]);
		if (r == 0) {
			m.k_base = at_repeated(p.a.k, w, 3, WEIR__CUDA_DIMS) +
				   head_k * p.a.k.stride[2];
			m.v_base = at_repeated(p.a.v, w, 3, WEIR__CUDA_DIMS) +
				   head_k * p.a.v.stride[2];
		}
	}
	__syncthreads();
#pragma unroll 1
	for (unsigned r = threadIdx.x / 32; r < ROWS; r += WARPS)
#pragma unroll 1
		for (unsigned i = threadIdx.x % 32 * 2; i < d; i += 64) {
			const char *at = m.q[r] + i * p.a.q.stride[0];
			float low = p.a.scale * element_in(p.a.q, at);
			float high = p.a.scale *
				     element_in(p.a.q, at + p.a.q.stride[0]);

			*(uint32_t *)(m.v + place_at(r, i / 8) + i % 8 * 2) =
				E::pair(low, high);
		}
	__syncthreads();
}

/* What a thread has of two queries, rows g and g + 8 of its warp. */
struct kept {
	float sum[MOST / 8][4]; /* of exp times v */
	float most[2], weight[2];
	int32_t from[2], to[2];
};

/* The scores of a tile: hidden ones are -infinity. */
template <class E>
__device__ static inline void scores(float s[TILE / 8][4], const params &p,
				     const uint32_t q[STEPS][4], const char *k,
				     const kept &f, int32_t begin)
{
	unsigned lane = threadIdx.x % 32, steps = (unsigned)p.a.d / 16;
	int32_t at = begin + (int32_t)(lane % 4 * 2);

#pragma unroll
	for (unsigned j = 0; j < TILE / 8; j++)
		s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
#pragma unroll
	for (unsigned i = 0; i < STEPS; i++) {
		if (i >= steps)
			break;
#pragma unroll
		for (unsigned j = 0; j < TILE / 8; j += 2) {
			uint32_t b[4];

			matrices_in(b, k + place_at(j * 8 + lane / 16 * 8 +
							    lane % 8,
						    2 * i + lane / 8 % 2));
			E::multiply(s[j], q[i], b);
			E::multiply(s[j + 1], q[i], b + 2);
		}
	}
	if (begin >= f.from[0] && begin + TILE <= f.to[0] &&
	    begin >= f.from[1] && begin + TILE <= f.to[1])
		return;
#pragma unroll
	for (unsigned j = 0; j < TILE / 8; j++)
#pragma unroll
		for (unsigned i = 0; i < 4; i++) {
			int32_t n = at + (int32_t)(j * 8 + i % 2);

			if (n < f.from[i / 2] || n >= f.to[i / 2])
				s[j][i] = -INFINITY;
		}
}

/* Replace scores by exp(score - greatest), and adapt what is kept. */
__device__ static inline void exponents(float s[TILE / 8][4], kept &f)
{
#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		float most = f.most[r], less, old;

#pragma unroll
		for (unsigned j = 0; j < TILE / 8; j++)
			most = fmaxf(most, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
		most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
		most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
		/* Without a score exp(-infinity) is 0; a NaN stays one. */
		less = most == -INFINITY ? 0 : most;
		old = exp_of(f.most[r] - less);
		f.most[r] = most;
		f.weight[r] *= old;
#pragma unroll
		for (unsigned j = 0; j < TILE / 8; j++)
#pragma unroll
			for (unsigned i = 2 * r; i < 2 * r + 2; i++) {
				s[j][i] = exp_of(s[j][i] - less);
				f.weight[r] += s[j][i];
			}
#pragma unroll
		for (unsigned j = 0; j < MOST / 8; j++) {
			f.sum[j][2 * r] *= old;
			f.sum[j][2 * r + 1] *= old;
		}
	}
}

/* Add exp times v. */
template <class E>
__device__ static inline void values(kept &f, const params &p,
				     const float s[TILE / 8][4], const char *v)
{
	unsigned lane = threadIdx.x % 32, steps = (unsigned)p.a.dv / 16;

#pragma unroll
	for (unsigned i = 0; i < TILE / 16; i++) {
		const float *x = s[2 * i], *y = s[2 * i + 1];
		uint32_t a[4] = { E::pair(x[0], x[1]), E::pair(x[2], x[3]),
				  E::pair(y[0], y[1]), E::pair(y[2], y[3]) };

#pragma unroll
		for (unsigned j = 0; j < STEPS; j++) {
			uint32_t b[4];

			if (j >= steps)
				break;
			turned_in(b, v + place_at(i * 16 + lane % 16,
						  2 * j + lane / 16));
			E::multiply(f.sum[2 * j], a, b);
			E::multiply(f.sum[2 * j + 1], a, b + 2);
		}
	}
}

__device__ static inline void results_out(const params &p, const tile_memory &m,
					  kept &f, unsigned row)
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
		if (f.to[r] < 0)
			continue;
#pragma unroll
		for (unsigned j = 0; j < MOST / 8; j++)
#pragma unroll
			for (unsigned i = 0; i < 2; i++)
				if (j * 8 < p.a.dv)
					*(float *)(dst + (j * 8 + t + i) * 4) =
						f.sum[j][2 * r + i] * w;
	}
}

template <class E>
__device__ static inline void attend(const params &p, char *workspace)
{
	__shared__ __align__(128) tile_memory m;
	/* Late tokens have the most positions: they come first. */
	uint64_t n = p.blocks - 1 - blockIdx.x, at = n / p.row_blocks;
	unsigned first = (unsigned)(n % p.row_blocks) * ROWS;
	unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16;
	uint64_t sequence = at / p.heads_k;
	int64_t head_k = (int64_t)(at % p.heads_k), end;
	uint32_t q[STEPS][4];
	attended all;
	kept f;

	if (length_is_wrong(p, sequence, workspace))
		return;
	end = first + ROWS < p.rows ? first + ROWS : p.rows;
	all = attended_by(p.a, sequence, first / p.group,
			  (end - 1) / p.group + 1);
	const int32_t from = (int32_t)all.from, to = (int32_t)all.to;
	const unsigned k_chunks = (unsigned)p.a.d / 8;
	const unsigned v_chunks = (unsigned)p.a.dv / 8;

	queries_begin<E>(p, m, sequence, head_k, first);
	tile_start(p, m.k, m.k_base, p.a.k.stride[1], k_chunks, sequence,
		   from / TILE * TILE, from, to, workspace);
#pragma unroll
	for (unsigned i = 0; i < STEPS; i++) {
		q[i][0] = q[i][1] = q[i][2] = q[i][3] = 0;
		if (2 * i < k_chunks)
			matrices_in(q[i], m.v + place_at(row + lane % 16,
							 2 * i + lane / 16));
	}
	row += lane / 4;
#pragma unroll
	for (unsigned r = 0; r < 2; r++) {
		float sink = m.sink[row + 8 * r];

		f.from[r] = m.from[row + 8 * r];
		f.to[r] = m.to[row + 8 * r];
		f.most[r] = sink;
		f.weight[r] =
			sink == -INFINITY || lane % 4 ? 0 : exp_of(sink - sink);
	}
#pragma unroll
	for (unsigned j = 0; j < MOST / 8; j++)
		f.sum[j][0] = f.sum[j][1] = f.sum[j][2] = f.sum[j][3] = 0;
	for (int32_t begin = from / TILE * TILE; begin < to; begin += TILE) {
		float s[TILE / 8][4];

		__syncthreads(); /* nobody uses v */
		tile_start(p, m.v, m.v_base, p.a.v.stride[1], v_chunks,
			   sequence, begin, from, to, workspace);
		copies_wait<1>();
		__syncthreads(); /* k is there */
		scores<E>(s, p, q, m.k, f, begin);
		__syncthreads(); /* nobody uses k */
		tile_start(p, m.k, m.k_base, p.a.k.stride[1], k_chunks,
			   sequence, begin + TILE, from, to, workspace);
		exponents(s, f);
		copies_wait<1>();
		__syncthreads(); /* v is there */
		values<E>(f, p, s, m.v);
	}
	copies_wait<0>();
	if (first + row >= p.rows)
		f.to[0] = -1;
	if (first + row + 8 >= p.rows)
		f.to[1] = -1;
	results_out(p, m, f, row);
}

#define ATTENTION(name)                                             \
	extern "C" __global__ void __launch_bounds__(THREADS)       \
		weir_kernel_attention_tiles_##name(const params p,  \
						   char *workspace) \
	{                                                           \
		attend<of_##name>(p, workspace);                    \
	}
ATTENTION(f16)
ATTENTION(bf16)
