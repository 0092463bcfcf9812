/* SPDX-License-Identifier: MIT */
/*
 * Attention by chunks: how a thread reads 8 elements of a row of k or v. Rows
 * of floats are loaded by 16 bytes. Rows of Q8_0 and Q4_0, which are aligned to
 * 4 bytes, come by way of shared memory: two stages, one of which is read while
 * the other is on its way.
 */
#ifndef WEIR__CUDA_CHUNK_ROWS_CUH
#define WEIR__CUDA_CHUNK_ROWS_CUH

#include "cuda/kernels/tiles.cuh"
#include "cuda/kernels/unpack.cuh"
#include "mem/dtype_table.h"

#define CHUNK WEIR__CUDA_CHUNK
#define THREADS CHUNK /* one for each position of a chunk */
#define STAGE WEIR__CUDA_CHUNK_STAGE

/*
 * The 8 elements of a row that a thread has are two quads: neighbours in halves
 * and blocks; @lanes quads apart in F32, of which a load has one. It reads
 * @rows rows before it computes.
 */
struct halves {
	static const bool has_floats = false, is_staged = false;
	static const unsigned rows = 4;
	__device__ static inline unsigned quad(unsigned slice, unsigned lanes,
					       unsigned i)
	{
		return 2 * slice + i;
	}
};

struct f16 : halves {
	__device__ static inline float in(uint32_t x)
	{
		return f16_in((uint16_t)x);
	}
};

struct bf16 : halves {
	__device__ static inline float in(uint32_t x)
	{
		return bf16_in((uint16_t)x);
	}
};

struct f32 {
	static const bool has_floats = true, is_staged = false;
	static const unsigned rows = 2;
	__device__ static inline unsigned quad(unsigned slice, unsigned lanes,
					       unsigned i)
	{
		return slice + lanes * i;
	}
	__device__ static inline float in(uint32_t x)
	{
		return __uint_as_float(x);
	}
};

/* Q8_0 and Q4_0: the operand says which. */
struct blocks : halves {
	static const bool is_staged = true;
};

template <class E> struct eight {
	uint4 v[E::has_floats ? 2 : 1];

	/* Elements beyond @n, and those of row -1, are 0. */
	__device__ inline void load(const char *base, int32_t row,
				    int64_t stride, unsigned slice,
				    unsigned lanes, unsigned n)
	{
		const char *at = base + row * stride;
		const uint4 zero = { 0, 0, 0, 0 };

#pragma unroll
		for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++) {
			unsigned quad = E::quad(slice, lanes, i);

			v[i] = zero;
			if (row >= 0 && quad * 4 < n)
				v[i] = *(const uint4 *)(at +
							quad * (E::has_floats
									? 16
									: 8));
		}
	}

	__device__ inline float at(unsigned i) const
	{
		const uint4 w = v[E::has_floats ? i / 4 : 0];
		const unsigned k = E::has_floats ? i % 4 : i / 2;
		const uint32_t x = k == 0   ? w.x
				   : k == 1 ? w.y
				   : k == 2 ? w.z
					    : w.w;

		return E::in(E::has_floats ? x : x >> 16 * (i % 2));
	}
};

/* Integers, and the scale that all of them have. */
template <> struct eight<blocks> {
	uint32_t w[2];
	float scale, less;

	__device__ inline float at(unsigned i) const
	{
		return byte_less(w[i / 4], (int)(i % 4), less);
	}
};

template <class E> __device__ static inline float scale_of(const eight<E> &)
{
	return 1;
}

__device__ static inline float scale_of(const eight<blocks> &x)
{
	return x.scale;
}

/* The rows of a chunk, of which thread @slice of @lanes reads 8 elements. */
template <class E> struct chunk_rows {
	const operand &t;
	const char *base;
	unsigned slice, lanes;

	__device__ inline chunk_rows(const operand &of, const char *at,
				     unsigned n_lanes, char *)
		: t(of), base(at), slice(threadIdx.x % n_lanes), lanes(n_lanes)
	{
	}
	/* The rows from number @first on are read next. */
	__device__ inline void next(const int32_t *, unsigned, unsigned) const
	{
	}
	/* Row @row of t, which is number @j of the chunk. */
	__device__ inline void load(eight<E> &x, int32_t row, unsigned) const
	{
		x.load(base, row, t.stride[1], slice, lanes,
		       (unsigned)t.dim[0]);
	}
};

/* Copy 4 bytes, or as many zeros. Both addresses are aligned. */
__device__ static inline void word_copy(char *to, const char *from, bool zero)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
			     shared_address(to)),
		     "l"(from), "r"(zero ? 0 : 4)
		     : "memory");
}

/* Two stages of STAGE bytes are in shared memory from @memory on. */
template <> struct chunk_rows<blocks> {
	const operand &t;
	const char *base;
	char *memory;
	unsigned slice;
	unsigned words, pitch; /* of a row; the bytes between rows of a stage */
	unsigned rows;         /* of a stage: a power of two */
	unsigned block, at;    /* where block and elements of a thread begin */
	uint32_t shift, mask, flip;
	float less;

	__device__ inline chunk_rows(const operand &of, const char *from,
				     unsigned n_lanes, char *stages)
		: t(of), base(from), memory(stages),
		  slice(threadIdx.x % n_lanes)
	{
		bool is_q8_0 = t.dtype == WEIR_DTYPE_Q8_0;
		unsigned bytes = is_q8_0 ? WEIR__BYTES_Q8_0 : WEIR__BYTES_Q4_0;
		unsigned part = slice % 4 * 8;

		words = (unsigned)t.dim[0] / 32 * bytes / 4;
		pitch = (words | 1) * 4;
		rows = pitch * 64 <= STAGE ? 64 : 32;
		block = slice / 4 * bytes;
		at = block + 2 + (is_q8_0 ? part : part % 16);
		shift = is_q8_0 ? 0 : part / 16 * 4;
		mask = is_q8_0 ? 0xffffffff : 0x0f0f0f0f;
		flip = is_q8_0 ? 0x80808080 : 0;
		less = is_q8_0 ? 128 : 8;
	}

	/* Start to copy a stage; rows that no query attends to are zeros. */
	__device__ inline void start(const int32_t *row_of, unsigned first) const
	{
		char *to = memory + first / rows % 2 * STAGE;
		unsigned inverse = 0xffffffff / words + 1;

		/* Neighbouring threads copy neighbouring words. */
#pragma unroll 2
		for (unsigned n = threadIdx.x; n < rows * words; n += THREADS) {
			unsigned i = __umulhi(n, inverse), u = n - i * words;
			int32_t row = row_of[first + i];

			word_copy(to + i * pitch + u * 4,
				  row < 0 ? NULL
					  : base + row * t.stride[1] + u * 4,
				  row < 0);
		}
	}

	/* @row_of: the rows of the chunk, @end of which are needed. */
	__device__ inline void next(const int32_t *row_of, unsigned first,
				    unsigned end) const
	{
		if (first % rows)
			return;
		if (first == 0)
			start(row_of, 0);
		else
			__syncthreads(); /* nobody reads the stage before it */
		copies_commit();
		if (first + rows < end)
			start(row_of, first + rows);
		copies_commit();
		copies_wait<1>();
		__syncthreads();
	}

	__device__ inline void load(eight<blocks> &x, int32_t,
				    unsigned j) const
	{
		const char *row =
			memory + j / rows % 2 * STAGE + j % rows * pitch;

		x.w[0] = x.w[1] = 0;
		x.scale = 0;
		x.less = less;
		if (slice * 8 >= (unsigned)t.dim[0] || j >= CHUNK)
			return;
		words_in<2>(x.w, (const uint8_t *)row + at);
		x.scale = f16_in(*(const uint16_t *)(row + block));
		x.w[0] = (x.w[0] >> shift & mask) ^ flip;
		x.w[1] = (x.w[1] >> shift & mask) ^ flip;
	}
};

#endif
