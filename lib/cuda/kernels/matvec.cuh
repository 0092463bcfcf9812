/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns: a template for all dtypes of a.
 *
 * A warp computes some neighbouring rows of a with up to C columns. Its rows
 * are read in units, of a fixed number of elements: by cp.async, 16 bytes at a
 * time, to a ring in shared memory. So while it computes with a unit of each
 * row the next ones are on their way, also from one group of rows to the next.
 * A row may begin anywhere: a unit is copied from the multiple of 16 bytes
 * before it on.
 *
 * Sums are F32. Each lane adds up the same elements of each unit, in order;
 * then the lanes are added in a tree; then, if several warps share the rows and
 * each takes every split-th unit, these warps in order. So the bits of a result
 * depend on its row, its column and split only, not on the other columns.
 *
 * A dtype is a struct:
 *
 *	elements, bytes		of a block
 *	unit, unit_bytes	elements of a unit of a row, and their bytes
 *	b_bytes			bytes of a unit of b
 *	wide			rows of a warp with 4 and 8 columns: 4, or 2 if
 *				its ring, or its registers, are too few
 *	shifted			rows need not begin at multiples of 16 bytes
 *	begin()			is called once by all threads of a block, before
 *				any add()
 *	add()			adds the products of a unit, of which k elements
 *				are left. sum[c * ROWS + r] is that of row r,
 *				whose unit is at[r], and column c, whose unit is
 *				b + column[c]
 *
 * The epilogue, E, says where a result goes: E::put().
 */
#ifndef WEIR__CUDA_MATVEC_CUH
#define WEIR__CUDA_MATVEC_CUH

#include "cuda/kernels/device.cuh"

#define MATVEC_WARPS WEIR__CUDA_MATVEC_WARPS
#define MATVEC_UNIT WEIR__CUDA_MATVEC_UNIT
#define MATVEC_UNIT_BYTES WEIR__CUDA_MATVEC_UNIT_BYTES
/* Bytes of a warp's ring, at most, unless it has two stages only. */
#define MATVEC_RING(columns) ((columns) > 2 ? 10240 : 7168)

/* How a mat-vec of dtype A with C columns is laid out. */
template <class A, int C> struct matvec_shape {
	static const int rows = C > 2 ? A::wide : 2;
	static const int slot =
		(A::unit_bytes + (A::shifted ? 30 : 0)) / 16 * 16;
	static const int stage = rows * slot;
	static const int fit = MATVEC_RING(C) / stage;
	static const int most = A::unit_bytes < 512 ? 8 : C > 4 ? 6 : 4;
	static const int stages = fit < 2 ? 2 : fit > most ? most : fit;
};

/* What a block computes at a time: a matrix, its columns, the results. */
struct matvec_work {
	const char *a, *b;
	char *dst;
	int64_t m, dst_column;
	uint32_t split, blocks, block; /* that have the matrix; this one */
	int columns;                   /* at least 1 */
};

/* The epilogue: the result, and its sum with a bias if columns are few. */
struct matvec_store {
	template <int C>
	__device__ static inline void put(const struct weir__cuda_matvec &p,
					  const matvec_work &w, int64_t row,
					  int column, float v)
	{
		char *to = w.dst + column * w.dst_column + row * p.dst_row;

		if (p.dst_unaligned)
			bytes_out<uint32_t>(to, __float_as_uint(v));
		else
			*(float *)to = v;
		if (C <= WEIR__CUDA_MATVEC_BIASED && p.sums)
			put_sum(p, row, column, v);
	}

	/* Looks for the part again: no register has it while rows are read. */
	__device__ static inline void put_sum(const struct weir__cuda_matvec &p,
					      int64_t row, int column, float v)
	{
		unsigned block = blockIdx.x;
		const float *bias;
		int64_t pitch;
		char *sum;

		asm volatile("" : "+r"(block), "+r"(column));
#pragma unroll
		for (int i = 0; i < WEIR__CUDA_MATVEC_PARTS; i++) {
			bias = (const float *)p.sum[i].row;
			sum = (char *)p.sum[i].sum;
			pitch = p.sum[i].column;
			if (block < p.part[i].blocks)
				break;
			block -= p.part[i].blocks;
		}
		if (bias)
			*(float *)(sum + column * pitch + row * 4) =
				v + bias[row];
	}
};

__device__ static inline void copy_16(uint32_t to, const char *from)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to),
		     "l"(from)
		     : "memory");
}

/* The rest of the 16 bytes become 0. */
__device__ static inline void copy_some(uint32_t to, const char *from,
					unsigned bytes)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
		     "l"(from), "r"(bytes)
		     : "memory");
}

__device__ static inline void copies_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N> __device__ static inline void copies_wait(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/*
 * Loads from addresses of shared memory, which have 32 bits. They are not moved
 * over copies, waits or barriers.
 */
__device__ static inline uint32_t shared_u8(uint32_t at)
{
	uint32_t v;

	asm volatile("ld.shared.u8 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
	return v;
}

__device__ static inline uint16_t shared_u16(uint32_t at)
{
	uint16_t v;

	asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(at) : "memory");
	return v;
}

__device__ static inline uint32_t shared_u32(uint32_t at)
{
	uint32_t v;

	asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
	return v;
}

__device__ static inline uint2 shared_u32x2(uint32_t at)
{
	uint2 v;

	asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
		     : "=r"(v.x), "=r"(v.y)
		     : "r"(at)
		     : "memory");
	return v;
}

__device__ static inline uint4 shared_u32x4(uint32_t at)
{
	uint4 v;

	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
		     : "r"(at)
		     : "memory");
	return v;
}

/* Where a unit of a row begins in its slot. */
template <class A> __device__ static inline unsigned shift_of(unsigned at)
{
	return A::shifted ? at % 16 : 0;
}

/*
 * Copy a unit at @from to the slot of this lane's first piece, @to. If it is
 * the last one of its row, @left bytes of the row are left.
 */
template <class A, bool LAST>
__device__ static inline void unit_copy(uint32_t to, const char *from, int left)
{
	unsigned shift = shift_of<A>((unsigned)(uintptr_t)from);
	unsigned mine = threadIdx.x % 32 * 16;
	unsigned all = shift + (LAST ? left : A::unit_bytes);

	from += (int)(mine - shift);
#pragma unroll
	for (unsigned i = 0; i < A::unit_bytes + (A::shifted ? 15 : 0);
	     i += 512) {
		unsigned at = mine + i;

		if (LAST && at < all)
			copy_some(to + i, from + i,
				  all - at < 16 ? all - at : 16);
		else if (!LAST && (i + 512 <= A::unit_bytes || at < all))
			copy_16(to + i, from + i);
	}
}

/*
 * Sum each of @N values over the lanes. Value i is then in the lanes from
 * i * 32 / N on. The tree is the same for each N: lanes at a distance of 16,
 * then 8, 4, 2, and 1.
 */
template <int N> __device__ static inline float lanes_sum(float v[N])
{
	unsigned lane = threadIdx.x % 32;
	int n = N;

#pragma unroll
	for (unsigned o = 16; o; o /= 2) {
		n /= 2;
#pragma unroll
		for (int i = 0; i < N / 2; i++) {
			if (i < n) {
				float keep = lane & o ? v[n + i] : v[i];
				float give = lane & o ? v[i] : v[n + i];

				v[i] = keep + __shfl_xor_sync(~0u, give, o);
			}
		}
		if (!n)
			v[0] += __shfl_xor_sync(~0u, v[0], o);
	}
	return v[0];
}

/* Work @y of mul_mat_id: an id of a token. False: it is out of range. */
__device__ static inline bool matvec_find_id(const struct weir__cuda_matvec &p,
					     char *workspace, uint32_t y,
					     matvec_work &w)
{
	uint32_t i = y % p.outer[0], t = y / p.outer[0];
	const char *at = (const char *)p.ids + t * p.ids_token + i * p.ids_id;
	int32_t id = p.ids_unaligned ? (int32_t)bytes_in<uint32_t>(at)
				     : *(const int32_t *)at;

	if (id < 0 || id >= p.experts) {
		if (!threadIdx.x)
			found_index(workspace, p.node, id, i, p.experts);
		return false;
	}
	w.a += id * p.a_expert;
	w.b += t * p.b_outer[1] + i % (uint32_t)p.b_columns * p.b_column;
	w.dst += t * p.dst_outer[1] + i * p.dst_outer[0];
	w.columns = 1;
	return true;
}

/* The matrix and the results of this block. */
__device__ static inline void matvec_part(const struct weir__cuda_matvec &p,
					  matvec_work &w)
{
	w.block = blockIdx.x;
#pragma unroll
	for (int i = 0; i < WEIR__CUDA_MATVEC_PARTS; i++) {
		w.blocks = p.part[i].blocks;
		w.a = (const char *)p.part[i].a;
		w.dst = (char *)p.part[i].dst;
		w.m = p.part[i].m;
		w.dst_column = p.part[i].dst_column;
		w.split = p.part[i].split;
		if (w.block < w.blocks)
			break;
		w.block -= w.blocks;
	}
}

/* Work @y: a group of C columns, and outer indices. */
template <int C>
__device__ static inline bool matvec_find(const struct weir__cuda_matvec &p,
					  char *workspace, uint32_t y,
					  matvec_work &w)
{
	uint32_t groups = (uint32_t)(p.n + C - 1) / C, first;

	matvec_part(p, w);
	w.b = (const char *)p.b;
	if (p.inside)
		w.b = workspace + p.b;
	if (p.ids)
		return matvec_find_id(p, workspace, y, w);
	first = y % groups * C;
	y /= groups;
#pragma unroll
	for (int d = 0; d < WEIR__CUDA_MATVEC_OUTER; d++) {
		uint32_t i = y % p.outer[d];

		y /= p.outer[d];
		w.a += i / p.share[d] * p.a_outer[d];
		w.b += i * p.b_outer[d];
		w.dst += i * p.dst_outer[d];
	}
	w.b += first * p.b_column;
	w.dst += first * w.dst_column;
	w.columns = p.n - (int)first < C ? p.n - (int)first : C;
	return true;
}

/* The unit of the rows of a warp that is copied next. */
struct matvec_source {
	const char *at;
	int left; /* bytes of a row from there on; 0: all are copied */
	int64_t row;
};

template <class A, int ROWS>
__device__ static inline void
matvec_source_row(const struct weir__cuda_matvec &p, const matvec_work &w,
		  int first, matvec_source &s)
{
	/* The last rows may be those of two groups. */
	int64_t row = s.row < w.m - ROWS ? s.row : w.m - ROWS;

	s.at = w.a + row * p.a_row + first * A::unit_bytes;
	s.left = s.row < w.m ? (p.k / A::elements * A::bytes -
				first * A::unit_bytes)
			     : 0;
}

/* Copy a unit of each row to a stage, and go on to the next one. */
template <class A, int ROWS, int SLOT>
__device__ static inline void
matvec_copy(const struct weir__cuda_matvec &p, const matvec_work &w,
	    uint32_t to, int first, int64_t step, matvec_source &s)
{
	if (s.left > A::unit_bytes) {
#pragma unroll
		for (int r = 0; r < ROWS; r++)
			unit_copy<A, false>(to + r * SLOT, s.at + r * p.a_row,
					    0);
	} else if (s.left > 0) {
		/* Seldom, and much code: a loop. */
#pragma unroll 1
		for (int r = 0; r < ROWS; r++)
			unit_copy<A, true>(to + r * SLOT, s.at + r * p.a_row,
					   s.left);
	}
	copies_commit();
	if (s.left > 0) {
		s.at += w.split * A::unit_bytes;
		s.left -= (int)w.split * A::unit_bytes;
		if (s.left <= 0) {
			s.row += step;
			matvec_source_row<A, ROWS>(p, w, first, s);
		}
	}
}

template <class A, int C, class E = matvec_store>
__device__ static inline void matvec(const struct weir__cuda_matvec &p,
				     char *workspace)
{
	typedef matvec_shape<A, C> S;
	const int R = S::rows, N = R * C, END = S::stages * S::stage;
	__shared__ __align__(16) char ring[MATVEC_WARPS][END];
	__shared__ float part[2][MATVEC_WARPS][N];
	unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, parity = 0;
	uint32_t mine = (uint32_t)__cvta_generic_to_shared(ring[warp]);
	uint32_t to = mine + 16 * lane;
	bool begun = false;

	for (uint32_t y = blockIdx.y; y < p.works; y += gridDim.y) {
		matvec_source source;
		int64_t row, begin, step;
		matvec_work w;
		int first, now = 0, column[C];

		if (!matvec_find<C>(p, workspace, y, w))
			continue;
		first = (int)(warp % w.split); /* of the units of a row */
		begin = (int64_t)w.block * (MATVEC_WARPS / w.split) * R;
		step = (int64_t)w.blocks * (MATVEC_WARPS / w.split) * R;
		row = begin + warp / w.split * R;
		__builtin_assume(__isGlobal(w.a));
		__builtin_assume(__isGlobal(w.b));
#pragma unroll
		for (int c = 0; c < C; c++)
			column[c] = c < w.columns ? c * (int)p.b_column : 0;
		/* All lanes have read the stages of the last work. */
		__syncwarp();
		source.row = row;
		matvec_source_row<A, R>(p, w, first, source);
#pragma unroll 1
		for (int s = 0; s < END - S::stage; s += S::stage)
			matvec_copy<A, R, S::slot>(p, w, to + s, first, step,
						   source);
		if (!begun)
			A::begin();
		begun = true;
		/* All warps of a block go around equally often. */
		for (; begin < w.m; begin += step, row += step) {
			int64_t base = row < w.m - R ? row : w.m - R;
			unsigned low = (unsigned)(uintptr_t)w.a +
				       (unsigned)base * (unsigned)p.a_row +
				       first * A::unit_bytes;
			const char *b = w.b + first * A::b_bytes;
			float sum[N];

#pragma unroll
			for (int i = 0; i < N; i++)
				sum[i] = 0;
			for (int k = row < w.m ? p.k - first * A::unit : 0;
			     k > 0; k -= (int)w.split * A::unit) {
				uint32_t at[R];

				copies_wait<S::stages - 2>();
				/* All lanes have read the stage before. */
				__syncwarp();
				matvec_copy<A, R, S::slot>(
					p, w,
					to + (now ? now : END) - S::stage,
					first, step, source);
#pragma unroll
				for (int r = 0; r < R; r++)
					at[r] = mine + now + r * S::slot +
						shift_of<A>(
							low +
							r * (unsigned)p.a_row);
				A::template add<C, R>(at, b, column, k, sum);
				now = now + S::stage < END ? now + S::stage : 0;
				low += w.split * A::unit_bytes;
				b += w.split * A::b_bytes;
			}

			float v = lanes_sum<N>(sum);
			unsigned i = lane / (32 / N);
			bool is_mine = lane % (32 / N) == 0;

			if (w.split > 1) {
				if (is_mine)
					part[parity][warp][i] = v;
				__syncthreads();
				i = lane;
				is_mine = !first && lane < N;
				if (is_mine) {
					v = 0;
					for (unsigned s = 0; s < w.split; s++)
						v += part[parity][warp + s][i];
				}
				parity ^= 1;
			}
			if (is_mine && row < w.m && base + i % R >= row &&
			    (int)i / R < w.columns)
				E::template put<C>(p, w, base + i % R, (int)i / R, v);
		}
	}
}

/*
 * The kernels of a dtype, of 1, 2, 4 and 8 columns. An SM has room for some
 * blocks at least, which limits the registers; with 8 columns for @blocks.
 */
#define MATVEC(name, type, columns, blocks)                                \
	extern "C" __global__ void                                         \
	__launch_bounds__(32 * MATVEC_WARPS, blocks)                       \
		weir_kernel_##name##_##columns(                            \
			const struct weir__cuda_matvec p, char *workspace) \
	{                                                                  \
		matvec<type, columns>(p, workspace);                       \
	}
#define MATVECS(name, type, blocks) \
	MATVEC(name, type, 1, 6)    \
	MATVEC(name, type, 2, 5)    \
	MATVEC(name, type, 4, 3)    \
	MATVEC(name, type, 8, blocks)

#endif
