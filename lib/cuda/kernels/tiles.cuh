/* SPDX-License-Identifier: MIT */
/*
 * Products of many columns by tensor cores: a block computes a tile of rows of
 * a and columns of b. Each stage brings SLICES slices of 32 elements of them to
 * shared memory. Device code only.
 */
#ifndef WEIR__CUDA_TILES_CUH
#define WEIR__CUDA_TILES_CUH

#include "cuda/kernels/device.cuh"

#define SLICE 32       /* elements of a row in a slice */
#define SLICE_BYTES 64 /* the same, of 2 bytes each */

/*
 * The shape of a tile. A warp has ROWS / WARPS_M rows and COLUMNS / WARPS_N
 * columns, of one slice of each stage; the sums of the slices are added at the
 * end.
 */
template <int M, int N, int WM, int WN, int S, int ST> struct shape {
	static const int rows = M, columns = N, warps_m = WM, warps_n = WN;
	static const int slices = S, stages = ST;
	static const int threads = 32 * WM * WN * S;
	static const int m16 = M / WM / 16, n8 = N / WN / 8;
	static const int step = SLICE * S; /* elements of a stage */
};

/* Sums of a warp: rows g and g + 8, columns 2t and 2t + 1 of each product. */
template <class S> struct sums {
	float v[S::m16][S::n8][4];
};

/* The place of a thread in its block. */
template <class S> struct role {
	int lane, m, n, slice; /* rows and columns of its warp begin here */

	__device__ inline role()
	{
		int warp = (int)threadIdx.x / 32;

		lane = (int)threadIdx.x % 32;
		m = warp % S::warps_m * (S::m16 * 16);
		n = warp / S::warps_m % S::warps_n * (S::n8 * 8);
		slice = warp / (S::warps_m * S::warps_n);
	}
};

__device__ static inline uint32_t shared_address(const void *p)
{
	return (uint32_t)__cvta_generic_to_shared(p);
}

/* Copy @bytes, 0 to 16, and zeros up to 16. Both addresses are aligned. */
__device__ static inline void copy_in(char *to, const char *from, int bytes)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
			     shared_address(to)),
		     "l"(from), "r"(bytes)
		     : "memory");
}

__device__ static inline void copies_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Wait until at most @n of the groups have not arrived. */
template <int n> __device__ static inline void copies_wait(void)
{
	asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
}

__device__ static inline void matrices_in(uint32_t r[4], const char *at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
		     "{%0,%1,%2,%3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(shared_address(at))
		     : "memory");
}

/* c += a * b, of 16 rows, 8 columns and 16 elements. */
struct mma_bf16 {
	__device__ static inline void multiply(float c[4], const uint32_t a[4],
					       const uint32_t b[2])
	{
		asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
		    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
		      "r"(b[1]));
	}
};

struct mma_f16 {
	__device__ static inline void multiply(float c[4], const uint32_t a[4],
					       const uint32_t b[2])
	{
		asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
		    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),
		      "r"(b[1]));
	}
};

/*
 * Where 16 bytes of a row of a slice of elements of 2 bytes are: rows exchange
 * their chunks, so that neither eight rows nor two whole ones have a bank in
 * common.
 */
__device__ static inline int chunk_at(int row, int chunk)
{
	return row * SLICE_BYTES + (chunk ^ row / 2 % 4) * 16;
}

/* The elements of 16 rows from @row on, and of 16 elements of them. */
__device__ static inline void rows_in(uint32_t a[4], const char *slice, int row,
				      int half, int lane)
{
	matrices_in(a, slice + chunk_at(row + lane % 16, 2 * half + lane / 16));
}

/* The same of two times 8 columns: b[0..1] and b[2..3]. */
__device__ static inline void columns_in(uint32_t b[4], const char *slice,
					 int column, int half, int lane)
{
	matrices_in(b, slice + chunk_at(column + lane / 16 * 8 + lane % 8,
					2 * half + lane / 8 % 2));
}

/* A tile: its rows of a, its columns, and where they come from and go to. */
template <class S> struct tile {
	const struct weir__cuda_tiles &p;
	const char *workspace;
	int64_t m, n;     /* its first row, its first column */
	int64_t columns;  /* of the product, or of the expert */
	int64_t first;    /* mul_mat_id: the first place of the expert */
	const char *a;    /* the matrix */
	const char *b;    /* row 0 of b of this batch */
	char *dst;        /* of this batch */

	__device__ inline tile(const struct weir__cuda_tiles &params,
			       const char *space)
		: p(params), workspace(space)
	{
		uint64_t across = (uint64_t)p.tiles;
		uint64_t i = blockIdx.x;
		int64_t x = (int64_t)(i % across);

		i /= across;
		n = x * S::columns;
		columns = p.n;
		first = 0;
		if (p.experts) {
			m = (int64_t)i * S::rows;
			a = address(p.a);
			b = workspace + p.b_at;
			dst = address(p.dst);
			find_expert(x);
			return;
		}
		m = (int64_t)(i % (uint64_t)p.row_tiles) * S::rows;
		find_batch(p.batch + i / (uint64_t)p.row_tiles);
	}

	__device__ inline void find_batch(uint64_t batch)
	{
		place w = place_of(p.dst, 2, batch);

		a = at_shared(p.a, p.dst, w, 2);
		b = p.b.data ? at_repeated(p.b, w, 2, WEIR__CUDA_DIMS)
			     : workspace + p.b_at +
				       (int64_t)(batch - p.batch) * p.n *
					       p.b_stride;
		b += p.b.data ? p.column * p.b_stride : 0;
		dst = at_repeated(p.dst, w, 2, WEIR__CUDA_DIMS) +
		      p.column * p.dst.stride[1];
	}

	__device__ inline int64_t place_first(int64_t e) const
	{
		return ((const int32_t *)(workspace + p.lists))[e];
	}

	/* Tiles of expert e begin at place_first(e) / COLUMNS + e. */
	__device__ inline void find_expert(int64_t x)
	{
		int64_t low = 0, high = p.experts;

		while (high - low > 1) {
			int64_t e = (low + high) / 2;

			if (place_first(e) / S::columns + e <= x)
				low = e;
			else
				high = e;
		}
		first = place_first(low);
		n = (x - first / S::columns - low) * S::columns;
		columns = place_first(low + 1) - first;
		a += low * p.a.stride[2];
	}

	/* True if there is nothing to compute: all threads agree. */
	__device__ inline bool is_empty() const
	{
		return n >= columns;
	}

	/* mul_mat_id: the number t * N + i of column @c of the tile. */
	__device__ inline int64_t slot(int64_t c) const
	{
		const int32_t *list = (const int32_t *)(workspace + p.lists);

		return list[p.experts + 1 + first + n + c];
	}

	/* NULL: not a column. */
	__device__ inline const char *column_of_b(int c) const
	{
		int64_t s;

		if (n + c >= columns)
			return NULL;
		if (!p.experts)
			return b + (n + c) * p.b_stride;
		s = slot(c);
		return b + (s / p.n * p.b.dim[1] + s % p.n % p.b.dim[1]) *
				   p.b_stride;
	}

	__device__ inline char *column_of_dst(int c) const
	{
		int64_t s;

		if (!p.experts)
			return dst + (n + c) * p.dst.stride[1];
		s = slot(c);
		return dst + s / p.n * p.dst.stride[2] +
		       s % p.n * p.dst.stride[1];
	}

	/* NULL: not a row. */
	__device__ inline const char *row_of_a(int r) const
	{
		return m + r < p.m ? a + (m + r) * p.a.stride[1] : NULL;
	}
};

/*
 * The copies of a thread: chunks of 16 bytes of @rows rows, at the same places
 * in each stage. CHUNKS: of a row in a slice. Eight neighbouring threads write
 * to different banks, and the threads of a warp read long pieces of rows.
 */
template <class S, int ROWS, int CHUNKS> struct copies {
	static const int n = ROWS * CHUNKS * S::slices / S::threads;
	const char *from[n]; /* NULL: zeros */

	__device__ static inline int unit(int i)
	{
		return (int)threadIdx.x + i * S::threads;
	}
	__device__ static inline int chunk(int i)
	{
		return unit(i) % CHUNKS;
	}
	__device__ static inline int slice(int i)
	{
		return unit(i) / (8) % S::slices;
	}
	__device__ static inline int row(int i)
	{
		return unit(i) / CHUNKS % (8 / CHUNKS) +
		       unit(i) / (8 * S::slices) * (8 / CHUNKS);
	}
	/* Where the chunk is in its stage: slices of ROWS rows. */
	__device__ static inline int to(int i)
	{
		int r = row(i), c = chunk(i);

		if (CHUNKS == 8)
			c = r * 128 + (c ^ r % 4 * 2) * 16;
		else
			c = chunk_at(r, c);
		return slice(i) * ROWS * CHUNKS * 16 + c;
	}
	/* Copy the chunks of a stage from element @k on, of elements of BYTES. */
	template <int BYTES>
	__device__ inline void start(char *stage, int64_t k, int64_t all,
				     int64_t more = 0) const
	{
#pragma unroll
		for (int i = 0; i < n; i++) {
			int64_t e = k + slice(i) * SLICE +
				    chunk(i) * (16 / BYTES);
			int64_t left = from[i] ? (all - e) * BYTES : 0;
			int bytes = left < 0    ? 0
				    : left > 16 ? 16
						: (int)left;

			copy_in(stage + to(i),
				bytes ? from[i] + e * BYTES + more : any(),
				bytes);
		}
	}

	/* Nothing is read there: an address that is aligned. */
	__device__ static inline const char *any()
	{
		return NULL;
	}
};

/* Add the sums of the slices in their order: those of slice 0 are complete. */
template <class S>
__device__ static inline void slices_add(sums<S> &sum, const role<S> &at,
					 float *part)
{
	const int all = S::warps_m * S::warps_n * 32;
	int thread = (int)threadIdx.x % all;

	if (S::slices == 1)
		return;
	__syncthreads();
	for (int s = 1; s < S::slices; s++) {
		float *mine = part + (s - 1) * S::m16 * S::n8 * 4 * all + thread;

		if (at.slice != s)
			continue;
#pragma unroll
		for (int i = 0; i < S::m16 * S::n8 * 4; i++)
			mine[i * all] = sum.v[i / 4 / S::n8][i / 4 % S::n8][i % 4];
	}
	__syncthreads();
	for (int s = 1; s < S::slices && !at.slice; s++) {
		const float *of = part + (s - 1) * S::m16 * S::n8 * 4 * all +
				  thread;

#pragma unroll
		for (int i = 0; i < S::m16 * S::n8 * 4; i++)
			sum.v[i / 4 / S::n8][i / 4 % S::n8][i % 4] +=
				of[i * all];
	}
}

/* Write the sums of slice 0; @scaled: times the scale of the column. */
template <class S, bool scaled>
__device__ static inline void sums_out(const tile<S> &t, const sums<S> &sum,
				       const role<S> &at)
{
	int g = at.lane / 4, c = at.lane % 4 * 2;

	if (at.slice)
		return;
#pragma unroll
	for (int j = 0; j < S::n8 * 2; j++) {
		int n = at.n + j / 2 * 8 + c + j % 2;
		float scale = 1;
		char *column;

		if (t.n + n >= t.columns)
			continue;
		column = t.column_of_dst(n);
		if (scaled)
			scale = *(const float *)(t.column_of_b(n) + t.p.scale_at);
#pragma unroll
		for (int i = 0; i < S::m16 * 2; i++) {
			int64_t m = t.m + at.m + i * 8 + g;
			float v = sum.v[i / 2][j / 2][i % 2 * 2 + j % 2];

			if (m < t.p.m)
				element_out(t.p.dst,
					    column + m * t.p.dst.stride[0],
					    scaled ? v * scale : v);
		}
	}
}

#endif
