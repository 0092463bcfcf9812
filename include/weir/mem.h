/* SPDX-License-Identifier: MIT */
/*
 * Memory: dtypes, kinds of memory, buffers and the tensors placed in them.
 */
#ifndef WEIR_MEM_H
#define WEIR_MEM_H

#include <weir/base.h>
#include <weir/dev.h>

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

/* A kind of memory of a device (see weir_dev_buft). */
struct weir_buft_info {
	size_t size;      /* set by the caller */
	const char *name; /* "CPU", "CPU_Huge", "CUDA0", "CUDA0_Pinned" */
	struct weir_dev *dev;
	uint32_t kind;  /* enum weir_mem */
	uint32_t flags; /* WEIR_BUFT_* */
	size_t align;   /* of a new buffer's address, at least, and of the
			   tensors that weir_tensors_alloc() places in it; a
			   power of two. Loads: weir_put_opts.align */
	size_t max;     /* largest buffer, bytes; SIZE_MAX: no limit */
};
#define WEIR_BUFT_HOST 0x01u   /* host code may dereference it */
#define WEIR_BUFT_LOCKED 0x02u /* does not page out */
#define WEIR_BUFT_READONLY 0x04u

WEIR_API int weir_buft_info(const struct weir_buft *buft,
			    struct weir_buft_info *ret_info) WEIR_NONNULL(1, 2);

/*
 * Bytes that @t takes in a buffer of @buft, padding included; at least its
 * own bytes. 0: it has none, or is not valid (weir_tensor_bytes says which).
 */
WEIR_API size_t weir_buft_alloc_size(const struct weir_buft *buft,
				     const struct weir_tensor *t)
	WEIR_NONNULL(1, 2);

enum weir_usage {
	WEIR_USAGE_ANY = 0,
	WEIR_USAGE_WEIGHTS = 1,
	WEIR_USAGE_COMPUTE = 2
};

struct weir_buf_opts {
	size_t size;
	uint32_t flags;    /* WEIR_BUF_* */
	int32_t node;      /* NUMA node + 1; 0: the device's */
	uint32_t usage;    /* enum weir_usage */
	uint32_t reserved; /* 0 */
};
WEIR__DECLARE_OPTS_INIT(weir_buf_opts)
#define WEIR_BUF_OPTS_INIT WEIR__OPTS_INIT(weir_buf_opts)

#define WEIR_BUF_STRICT 0x01u /* an error rather than a lesser kind */
#define WEIR_BUF_TOUCH 0x02u  /* back it with pages before returning */
/*
 * Of kind PINNED: not in the caches of the CPU, which reads it very slowly.
 * Other kinds: -EINVAL.
 */
#define WEIR_BUF_WRITE_COMBINED 0x04u

struct weir_buf_info {
	size_t size; /* set by the caller */
	size_t bytes;
	struct weir_buft *buft;
	uint32_t usage;   /* enum weir_usage */
	uint32_t got;     /* WEIR_GOT_*: what it really is */
	uint32_t members; /* of weir_buf_join; 0: not joined */
	int32_t node;     /* NUMA node it is bound to, -1: none */
	char why[240];    /* why it is less than asked for; "" if not */
};
#define WEIR_GOT_HUGE 0x01u /* huge pages were granted */
#define WEIR_GOT_LOCKED 0x02u
#define WEIR_GOT_OWNED 0x04u /* not wrapped */
#define WEIR_GOT_WRITE_COMBINED 0x08u

/*
 * Allocate @size bytes. Contents are undefined. Huge or locked memory that
 * cannot be had becomes a lesser kind, which weir_buf_info() says and why,
 * unless WEIR_BUF_STRICT is set. 0 bytes are allowed: the buffer has an
 * address that may not be dereferenced.
 *
 * -ENOMEM: the sentence has the size and what is available. -EOPNOTSUPP:
 * memory of kind MAPPED is made by weir_buf_map(). -EINVAL: over the largest
 * buffer.
 */
WEIR_API int weir_buf_alloc(struct weir_buft *buft, size_t size,
			    const struct weir_buf_opts *opts,
			    struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 4) WEIR_NODISCARD;

/*
 * Make a buffer of memory that belongs to the caller, of any alignment. It
 * stays the caller's until the last reference is dropped, which calls
 * @release(@arg) if that is not NULL; on a thread of the library perhaps. In
 * memory of kind MAPPED it is only read.
 *
 * -EINVAL: NULL, or beyond the end of the address space. -EOPNOTSUPP: the
 * device takes no such memory. After a failure @release is not called.
 */
WEIR_API int weir_buf_wrap(struct weir_buft *buft, void *ptr, size_t size,
			   void (*release)(void *arg), void *arg,
			   struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 6) WEIR_NODISCARD;

/*
 * Map [@off, @off + @size) of a file, read-only, into a buffer of kind MAPPED.
 * @off is any byte. The file must not change while the buffer lives: a file
 * that shrinks under a mapping kills the process (SIGBUS).
 * -EINVAL: outside of the file, not host memory of kind MAPPED, or a file of
 * another root.
 */
WEIR_API int weir_buf_map(struct weir_buft *buft, struct weir_file *file,
			  uint64_t off, size_t size, struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 2, 5) WEIR_NODISCARD;

/*
 * One buffer that holds @n others of the same device, each with a reference:
 * its size is their sum, member i begins where member i - 1 ends. Usage and
 * clear go to all members. A tensor lies within one member.
 * -EINVAL: @n is 0, a joined member, or kinds of more than one device.
 * -EOVERFLOW: the sum of sizes.
 */
WEIR_API int weir_buf_join(struct weir_buf *const *bufs, unsigned n,
			   struct weir_buf **ret_buf)
	WEIR_NONNULL(3) WEIR_NODISCARD;
/* Member @i, borrowed; NULL past the end or if @buf is not joined. */
WEIR_API struct weir_buf *weir_buf_member(struct weir_buf *buf, unsigned i)
	WEIR_NONNULL(1);

/* Take a reference (returns @buf), drop one. Queued work has its own. */
WEIR_API struct weir_buf *weir_buf_ref(struct weir_buf *buf) WEIR_NONNULL(1);
WEIR_API void weir_buf_free(struct weir_buf *buf);

WEIR_API int weir_buf_info(const struct weir_buf *buf,
			   struct weir_buf_info *ret_info) WEIR_NONNULL(1, 2);
/* -EINVAL: not a usage. */
WEIR_API int weir_buf_set_usage(struct weir_buf *buf, enum weir_usage usage)
	WEIR_NONNULL(1);
/* Fill the whole buffer. Blocks, after queued work that touches it. */
WEIR_API int weir_buf_clear(struct weir_buf *buf, uint8_t byte) WEIR_NONNULL(1);
/* Its address if host code may use it, else NULL. Joined: NULL. */
WEIR_API void *weir_buf_data(struct weir_buf *buf) WEIR_NONNULL(1);

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
