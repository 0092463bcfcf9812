/* SPDX-License-Identifier: MIT */
/* Tensors: element types, shapes and places in buffers; blocking access. */
#ifndef WEIR_TENSOR_H
#define WEIR_TENSOR_H

#include <weir/base.h>
#include <weir/mem.h>

WEIR__BEGIN

/*
 * Element types: those of safetensors and those of GGML. A dtype is stored in
 * blocks of weir_dtype_info.block elements in .bytes bytes each. Numbers are
 * ABI; new ones are added at the end of their range. GGML's quantised types
 * are WEIR_DTYPE_GGML + GGML's number.
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
	const char *name;    /* "BF16", as safetensors or GGML write it */
	uint32_t block;      /* elements in a block */
	uint32_t bytes;      /* bytes of a block */
	uint32_t align;      /* of an element in host memory, bytes */
	int32_t ggml;        /* GGML's number, -1: not one of GGML's */
	int32_t safetensors; /* 1: safetensors has it under this name */
	uint32_t reserved;
};

/* -EINVAL: not a dtype. */
WEIR_API int weir_dtype_info(enum weir_dtype dtype,
			     struct weir_dtype_info *ret_info) WEIR_NONNULL(2);

#define WEIR_MAX_DIMS 8

/*
 * A tensor is a value: copy it freely. It holds no reference of its buffer;
 * calls copy what they need before they return. shape[0] is the outermost
 * dimension. Strides are in bytes, the last one being that of a block; they
 * are all 0 where rows are not whole blocks, and such a tensor has no views.
 */
struct weir_tensor {
	struct weir_buf *buf;          /* NULL: not placed */
	uint64_t offset;               /* bytes into buf */
	uint32_t dtype;                /* enum weir_dtype */
	uint32_t ndim;                 /* <= WEIR_MAX_DIMS; 0: one element */
	int64_t shape[WEIR_MAX_DIMS];  /* elements */
	int64_t stride[WEIR_MAX_DIMS]; /* bytes */
	const char *name;              /* borrowed, may be NULL */
	uint64_t reserved[4];          /* 0 */
};

/*
 * Make a contiguous tensor that is not placed. Zero dimensions are fine.
 * -EINVAL: not a dtype, a negative dimension, elements that do not fill whole
 * blocks. -EOPNOTSUPP: more than WEIR_MAX_DIMS. -EOVERFLOW: over 2^63 - 1
 * elements or bytes.
 */
WEIR_API int weir_tensor_init(struct weir_tensor *t, enum weir_dtype dtype,
			      unsigned ndim, const int64_t *shape)
	WEIR_NONNULL(1);

/*
 * Bytes from the first to the end of the last, which for a contiguous tensor are
 * its own. -EINVAL, -EOVERFLOW: @t makes no sense.
 */
WEIR_API int weir_tensor_bytes(const struct weir_tensor *t, size_t *ret_bytes)
	WEIR_NONNULL(1, 2);

/*
 * Place @t at @offset of @buf, which may be any: no call of weir needs an
 * aligned tensor. Code that computes on its elements compares its address with
 * weir_dtype_info.align.
 * -EINVAL: it does not fit (both numbers are named), it is placed already, or
 * it crosses two members of a joined buffer.
 */
WEIR_API int weir_tensor_place(struct weir_tensor *t, struct weir_buf *buf,
			       uint64_t offset) WEIR_NONNULL(1, 2);

/*
 * Rows [@start, @start + @n) of dimension @dim of @of; shares its place.
 * -EINVAL: out of range, or the last dimension of a dtype of several elements
 * a block that does not begin and end at one, or a tensor without strides.
 */
WEIR_API int weir_tensor_view(const struct weir_tensor *of, unsigned dim,
			      int64_t start, int64_t n,
			      struct weir_tensor *ret_view) WEIR_NONNULL(1, 5);

/* Its address if placed in memory that host code may use, else NULL. */
WEIR_API void *weir_tensor_data(const struct weir_tensor *t) WEIR_NONNULL(1);

/*
 * One buffer (joined, if one cannot be large enough) for all of @t that are
 * not placed, each aligned to the kind's alignment, and place them. When there
 * is nothing to place, a buffer of 0 bytes. On failure no tensor is changed.
 */
WEIR_API int weir_tensors_alloc(struct weir_buft *buft, struct weir_tensor *t,
				size_t n, struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 4) WEIR_NODISCARD;

/*
 * Blocking access to the bytes of a contiguous placed tensor, offsets from its
 * first byte. Each first waits for queued work, on any stream or load, that
 * touches the range, and returns when the effect is visible. 0 bytes do
 * nothing. -EINVAL: not placed, not contiguous, or outside of the tensor.
 * -EROFS: written to memory of kind MAPPED.
 */
WEIR_API int weir_tensor_set(const struct weir_tensor *dst, size_t off,
			     const void *src, size_t n) WEIR_NONNULL(1);
WEIR_API int weir_tensor_get(const struct weir_tensor *src, size_t off,
			     void *dst, size_t n) WEIR_NONNULL(1);
WEIR_API int weir_tensor_fill(const struct weir_tensor *dst, size_t off,
			      size_t n, uint8_t byte) WEIR_NONNULL(1);
/*
 * Copy between tensors of the same dtype, shape and strides, on any devices.
 * They may have gaps (views), which are left alone. The same place twice is
 * nothing to do; places that overlap, gaps included: -EINVAL.
 */
WEIR_API int weir_tensor_copy(const struct weir_tensor *dst,
			      const struct weir_tensor *src) WEIR_NONNULL(1, 2);

WEIR__END

#endif
