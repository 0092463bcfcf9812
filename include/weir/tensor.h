/* SPDX-License-Identifier: MIT */
/*
 * Tensors: element types, shapes, and places in buffers; calls that access
 * their bytes and block. stream.h has calls that queue instead.
 */
#ifndef WEIR_TENSOR_H
#define WEIR_TENSOR_H

#include <weir/base.h>
#include <weir/mem.h>

WEIR__BEGIN

/*
 * Element types (dtypes): those of safetensors, and the quantised ones of
 * GGML, which are WEIR_DTYPE_GGML + GGML's number. Elements are stored in
 * blocks: see struct weir_dtype_info. The numbers are part of the ABI; new
 * ones are added at the end of their range.
 */
enum weir_dtype {
	WEIR_DTYPE_NONE = 0,
	WEIR_DTYPE_BOOL = 1,
	WEIR_DTYPE_U8 = 2,
	WEIR_DTYPE_I8 = 3,
	WEIR_DTYPE_U16 = 4,
	WEIR_DTYPE_I16 = 5,
	WEIR_DTYPE_U32 = 6,
	WEIR_DTYPE_I32 = 7,
	WEIR_DTYPE_U64 = 8,
	WEIR_DTYPE_I64 = 9,
	WEIR_DTYPE_F16 = 10,
	WEIR_DTYPE_BF16 = 11,
	WEIR_DTYPE_F32 = 12,
	WEIR_DTYPE_F64 = 13,
	WEIR_DTYPE_C64 = 14, /* two F32 */
	WEIR_DTYPE_F8_E5M2 = 15,
	WEIR_DTYPE_F8_E4M3 = 16,
	WEIR_DTYPE_F8_E8M0 = 17,
	WEIR_DTYPE_F8_E4M3FNUZ = 18,
	WEIR_DTYPE_F8_E5M2FNUZ = 19,
	WEIR_DTYPE_F6_E2M3 = 20, /* 4 elements in 3 bytes */
	WEIR_DTYPE_F6_E3M2 = 21,
	WEIR_DTYPE_F4 = 22, /* 2 elements in 1 byte */

	WEIR_DTYPE_GGML = 64,
	WEIR_DTYPE_Q4_0 = 66,
	WEIR_DTYPE_Q4_1 = 67,
	WEIR_DTYPE_Q5_0 = 70,
	WEIR_DTYPE_Q5_1 = 71,
	WEIR_DTYPE_Q8_0 = 72,
	WEIR_DTYPE_Q8_1 = 73,
	WEIR_DTYPE_Q2_K = 74,
	WEIR_DTYPE_Q3_K = 75,
	WEIR_DTYPE_Q4_K = 76,
	WEIR_DTYPE_Q5_K = 77,
	WEIR_DTYPE_Q6_K = 78,
	WEIR_DTYPE_Q8_K = 79,
	WEIR_DTYPE_IQ2_XXS = 80,
	WEIR_DTYPE_IQ2_XS = 81,
	WEIR_DTYPE_IQ3_XXS = 82,
	WEIR_DTYPE_IQ1_S = 83,
	WEIR_DTYPE_IQ4_NL = 84,
	WEIR_DTYPE_IQ3_S = 85,
	WEIR_DTYPE_IQ2_S = 86,
	WEIR_DTYPE_IQ4_XS = 87,
	WEIR_DTYPE_IQ1_M = 93,
	WEIR_DTYPE_TQ1_0 = 98,
	WEIR_DTYPE_TQ2_0 = 99,
	WEIR_DTYPE_MXFP4 = 103,
	WEIR_DTYPE_NVFP4 = 104,
	WEIR_DTYPE_Q1_0 = 105,
	WEIR_DTYPE_Q2_0 = 106
};

struct weir_dtype_info {
	size_t size;         /* set by the caller */
	const char *name;    /* "BF16", as safetensors or GGML writes it */
	uint32_t block;      /* elements in a block; 1 for most types */
	uint32_t bytes;      /* bytes of a block */
	uint32_t align;      /* bytes: the alignment that host code needs */
	int32_t ggml;        /* its number in GGML; -1: GGML does not have it */
	int32_t safetensors; /* 1: safetensors has it under this name */
	uint32_t reserved;
};

/* Describe a dtype. -EINVAL: @dtype is not an enum weir_dtype. */
WEIR_API int weir_dtype_info(enum weir_dtype dtype,
			     struct weir_dtype_info *ret_info) WEIR_NONNULL(2);

/*
 * Convert @n elements, on the host: from F64, F32, F16, BF16, any F8, or
 * blocks of a quantised dtype of GGML, to F32, F16, BF16, Q8_0, Q4_0, Q4_K or
 * Q6_K. If both dtypes are the same, copy them. Elements are rounded to the
 * nearest, ties to even: once, or from quantised dtypes as ggml computes F32,
 * then once more; NaNs become quiet. Quantised results are those of ggml's
 * reference. The thread's floating-point environment has no influence. @dst
 * and @src need not be aligned, and may not overlap. If @n is 0, the call only
 * checks whether there is such a conversion. Any thread; never blocks.
 * -EOPNOTSUPP: there is no such conversion. -EINVAL: not a dtype; an address
 * is NULL and @n is not 0; or @n elements are not whole blocks of either
 * dtype.
 */
WEIR_API int weir_convert(enum weir_dtype to, void *dst, enum weir_dtype from,
			  const void *src, size_t n);

#define WEIR_MAX_DIMS 8

/*
 * A tensor is a plain value, which may be copied. It has no reference to its
 * buffer: the caller keeps the buffer while it uses the tensor. Calls copy
 * the tensor, so it may be changed or freed when they return.
 *
 * shape[0] is the outermost dimension, as in safetensors, NumPy and DLPack.
 * stride[i] is the distance in bytes between neighbours in dimension i, which
 * are blocks in the last dimension. If a row (the last dimension) does not
 * consist of whole blocks, all strides are 0, and the tensor can have no
 * views.
 */
struct weir_tensor {
	struct weir_buf *buf;          /* NULL: not placed yet */
	uint64_t offset;               /* of the first byte in buf; of a view
					  that is not placed: in its source */
	uint32_t dtype;                /* enum weir_dtype */
	uint32_t ndim;                 /* 0 to WEIR_MAX_DIMS; 0: one element */
	int64_t shape[WEIR_MAX_DIMS];  /* elements */
	int64_t stride[WEIR_MAX_DIMS]; /* bytes */
	const char *name;              /* not owned; may be NULL */
	uint64_t of;                   /* in a list whose tensors are placed
					  together: 1 + the index of the tensor
					  of which it is a view; 0: no view */
	uint64_t reserved[3];          /* 0 */
};

/*
 * Make a contiguous tensor that is not placed. Dimensions of 0 are allowed.
 * -EINVAL: not a dtype, a negative dimension, or a number of elements that is
 * not whole blocks. -EOPNOTSUPP: more than WEIR_MAX_DIMS dimensions.
 * -EOVERFLOW: more than 2^63 - 1 elements or bytes.
 */
WEIR_API int weir_tensor_init(struct weir_tensor *t, enum weir_dtype dtype,
			      unsigned ndim, const int64_t *shape)
	WEIR_NONNULL(1);

/*
 * The bytes from the first to the last byte of the tensor. For a view they
 * include the gaps between its rows.
 * -EINVAL, -EOPNOTSUPP, -EOVERFLOW: members of @t are invalid.
 */
WEIR_API int weir_tensor_bytes(const struct weir_tensor *t, size_t *ret_bytes)
	WEIR_NONNULL(1, 2);

/*
 * Place @t at byte @offset of @buf. The offset need not be aligned, since no
 * call of weir needs an aligned tensor; code that computes on the elements
 * compares the address with weir_dtype_info.align. Takes no reference to @buf.
 * -EINVAL: it does not fit (the sentence has both numbers), it is placed
 * already, or it would cross from one member of a joined buffer to the next.
 */
WEIR_API int weir_tensor_place(struct weir_tensor *t, struct weir_buf *buf,
			       uint64_t offset) WEIR_NONNULL(1, 2);

/*
 * Make a view of @of: the indices [@start, @start + @n) of dimension @dim. It
 * shares the memory of @of.
 * -EINVAL: out of range; @of has no strides; or, in the last dimension, @start
 * or @n is not a multiple of the elements of a block.
 */
WEIR_API int weir_tensor_view(const struct weir_tensor *of, unsigned dim,
			      int64_t start, int64_t n,
			      struct weir_tensor *ret_view) WEIR_NONNULL(1, 5);

/*
 * The address of the tensor. NULL: it is not placed, or host code may not
 * access it.
 */
WEIR_API void *weir_tensor_data(const struct weir_tensor *t) WEIR_NONNULL(1);

/*
 * Place those of the @n tensors @t that are not placed, one after another,
 * each aligned to weir_buft_info.align. Views (of > 0) take no bytes: each
 * gets the place of its source, which may be anywhere in the list, or placed
 * already. If the call fails, no tensor has changed.
 *
 * weir_tensors_alloc() allocates the buffer: a joined one, if they exceed the
 * largest buffer; one of 0 bytes, if there is nothing to place. Free it with
 * weir_buf_free(). weir_tensors_place() uses the bytes of @buf from @offset
 * on; in a joined buffer no tensor crosses two members. *ret_end (it may be
 * NULL) is where the last one ends.
 *
 * -EINVAL: a view does not end inside its source, or is a view of itself.
 * -ENOSPC: @buf is too small; the sentence has the tensor and both numbers.
 * Errors of weir_tensor_bytes() and weir_buf_alloc().
 */
WEIR_API int weir_tensors_alloc(struct weir_buft *buft, struct weir_tensor *t,
				size_t n, struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 4) WEIR_NODISCARD;
WEIR_API int weir_tensors_place(struct weir_buf *buf, uint64_t offset,
				struct weir_tensor *t, size_t n,
				uint64_t *ret_end)
	WEIR_NONNULL(1) WEIR_NODISCARD;

struct weir_tensors_info {
	size_t size;       /* set by the caller */
	uint64_t bytes;    /* bytes that weir_tensors_alloc() would allocate */
	uint64_t tensors;  /* number of tensors to place, without views */
	uint32_t members;  /* number of buffers; 0: nothing to place */
	uint32_t reserved; /* 0 */
};
/*
 * Compute what weir_tensors_alloc() would allocate, without allocating it or
 * changing a tensor. It is no error if there is no tensor to place. Errors of
 * weir_tensors_alloc(), except those of the allocation.
 */
WEIR_API int weir_tensors_measure(struct weir_buft *buft,
				  const struct weir_tensor *t, size_t n,
				  struct weir_tensors_info *ret_info)
	WEIR_NONNULL(1, 4);

/*
 * Write, read or fill @n bytes of a contiguous tensor that is placed, from its
 * byte @off on. These calls block: they first wait for queued work of any
 * stream or load that accesses the same bytes of the buffer, and return when
 * the bytes are transferred. Buffers that wrap the same memory do not know of
 * each other's work. @n may be 0.
 *
 * -EINVAL: not placed, not contiguous, or the range exceeds the tensor.
 * -EROFS: a write to memory of kind MAPPED. -EIO, -ENODEV: the device failed.
 */
WEIR_API int weir_tensor_set(const struct weir_tensor *dst, size_t off,
			     const void *src, size_t n) WEIR_NONNULL(1);
WEIR_API int weir_tensor_get(const struct weir_tensor *src, size_t off,
			     void *dst, size_t n) WEIR_NONNULL(1);
WEIR_API int weir_tensor_fill(const struct weir_tensor *dst, size_t off,
			      size_t n, uint8_t byte) WEIR_NONNULL(1);

/*
 * A rectangle of bytes: @rows rows of @width bytes each. A pitch is the
 * distance in bytes from the start of one row to the start of the next.
 */
struct weir_rect {
	uint64_t off;        /* offset of the first row in the tensor, bytes */
	uint64_t width;      /* bytes of a row */
	uint64_t rows;       /* number of rows */
	uint64_t pitch;      /* in the tensor, >= width */
	uint64_t host_pitch; /* in the caller's memory or the file, >= width */
};
/*
 * Write or read a rectangle, blocking, as weir_tensor_set() and
 * weir_tensor_get() do. Bytes between the rows do not change. With memory of a
 * device each row is a copy of its own, unless there are no gaps between the
 * rows: for many rows weir_stream_set_2d() is faster. Errors of
 * weir_tensor_set(). -EINVAL: a pitch is less than the width.
 */
WEIR_API int weir_tensor_set_2d(const struct weir_tensor *dst,
				const struct weir_rect *rect, const void *src)
	WEIR_NONNULL(1, 2);
WEIR_API int weir_tensor_get_2d(const struct weir_tensor *src,
				const struct weir_rect *rect, void *dst)
	WEIR_NONNULL(1, 2);

/*
 * Copy @src to @dst. Both have the same dtype, shape and strides; they may be
 * of different devices. Bytes in the gaps of views do not change. If both have
 * the same place, nothing is copied. Blocks as weir_tensor_set() does.
 *
 * Errors of weir_tensor_set(), except that views need not be contiguous.
 * -EINVAL: dtypes, shapes or strides differ, or the places overlap, including
 * the gaps of views. -ENOMEM: no memory for a copy through the host.
 */
WEIR_API int weir_tensor_copy(const struct weir_tensor *dst,
			      const struct weir_tensor *src) WEIR_NONNULL(1, 2);

WEIR__END

#endif
