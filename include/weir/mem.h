/* SPDX-License-Identifier: MIT */
/*
 * Memory. A buffer type (struct weir_buft) is a kind of memory of one device; a
 * buffer (struct weir_buf) is an allocation of it. Buffers are reference
 * counted.
 */
#ifndef WEIR_MEM_H
#define WEIR_MEM_H

#include <weir/base.h>
#include <weir/dev.h>

WEIR__BEGIN

struct weir_buft_info {
	size_t size;      /* set by the caller */
	const char *name; /* "CPU", "CPU_Huge", "CUDA0", "CUDA0_Pinned" */
	struct weir_dev *dev;
	uint32_t kind;  /* enum weir_mem */
	uint32_t flags; /* WEIR_BUFT_* */
	size_t align;   /* bytes, a power of two: least alignment of a new
			   buffer's address, and of the tensors that
			   weir_tensors_alloc() places. Loads align tensors as
			   weir_put_opts.align says */
	size_t max;     /* largest buffer, bytes; SIZE_MAX: no limit */
};
#define WEIR_BUFT_HOST 0x01u     /* host code may access it */
#define WEIR_BUFT_LOCKED 0x02u   /* the kernel does not swap it out */
#define WEIR_BUFT_READONLY 0x04u /* pages of a file: read-only */

/* Describe a buffer type. The strings exist as long as the root. */
WEIR_API int weir_buft_info(const struct weir_buft *buft,
			    struct weir_buft_info *ret_info) WEIR_NONNULL(1, 2);

/*
 * Bytes that @t takes in a buffer of @buft, with padding: at least its size.
 * 0: the tensor is empty or invalid; weir_tensor_bytes() says which.
 */
WEIR_API size_t weir_buft_alloc_size(const struct weir_buft *buft,
				     const struct weir_tensor *t)
	WEIR_NONNULL(1, 2);

/*
 * Bytes of this kind of memory that are free, and all of them. Of kinds HBM and
 * FAR these are those of their NUMA nodes; of other host memory the CPU's, of
 * device memory the device's, as weir_dev_memory() returns them. Never makes a
 * device context. -ENODATA: the numbers cannot be read without a context.
 */
WEIR_API int weir_buft_memory(const struct weir_buft *buft, uint64_t *ret_free,
			      uint64_t *ret_total) WEIR_NONNULL(1, 2, 3);

/* The purpose of a buffer: a label that weir_buf_info() reports. */
enum weir_usage {
	WEIR_USAGE_ANY = 0,
	WEIR_USAGE_WEIGHTS = 1,
	WEIR_USAGE_COMPUTE = 2
};

struct weir_buf_opts {
	size_t size;
	uint32_t flags; /* WEIR_BUF_* */
	int32_t node;   /* NUMA node to bind it to, plus 1; 0: the device's. Of
			   kinds HBM and FAR: the nearest of the kind to it */
	uint32_t usage; /* enum weir_usage */
	uint32_t reserved; /* 0 */
};
WEIR__DECLARE_OPTS_INIT(weir_buf_opts)
#define WEIR_BUF_OPTS_INIT WEIR__OPTS_INIT(weir_buf_opts)

/*
 * Fail if the memory cannot have huge pages, be locked or be bound to its NUMA
 * node as asked for. Without this flag the buffer does without, and
 * weir_buf_info() says so.
 */
#define WEIR_BUF_STRICT 0x01u
/* Back the memory with pages before returning: 0.2 to 1.5 s per GiB. */
#define WEIR_BUF_TOUCH 0x02u
/*
 * Write-combined: the CPU does not cache the memory, and reads it very slowly.
 * Only for kind PINNED; else -EINVAL.
 */
#define WEIR_BUF_WRITE_COMBINED 0x04u

struct weir_buf_info {
	size_t size;            /* set by the caller */
	size_t bytes;           /* size of the buffer */
	struct weir_buft *buft; /* of a joined buffer: of its first member */
	uint32_t usage;         /* enum weir_usage */
	uint32_t got;           /* WEIR_GOT_*: properties that it has */
	uint32_t members;       /* of a joined buffer; 0: not joined */
	int32_t node;  /* NUMA node it is bound to; -1: none, or several */
	char why[240]; /* why it lacks what was asked for, or "" */
};
#define WEIR_GOT_HUGE 0x01u   /* has huge pages */
#define WEIR_GOT_LOCKED 0x02u /* is locked into RAM */
#define WEIR_GOT_OWNED 0x04u  /* weir allocated it: it is not wrapped */
#define WEIR_GOT_WRITE_COMBINED 0x08u

/*
 * Allocate a buffer of @size bytes. Its contents are undefined. Free it with
 * weir_buf_free(). @size may be 0: the buffer then has an address that may not
 * be dereferenced.
 *
 * -ENOMEM: the sentence has the size and the available memory. -EOPNOTSUPP: of
 * kind MAPPED (use weir_buf_map()), or WEIR_BUF_STRICT is set and there are no
 * huge pages. -EINVAL: @size exceeds the largest buffer, or invalid options.
 */
WEIR_API int weir_buf_alloc(struct weir_buft *buft, size_t size,
			    const struct weir_buf_opts *opts,
			    struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 4) WEIR_NODISCARD;

/*
 * Make a buffer of @size bytes of the caller's memory at @ptr, which may have
 * any alignment. The memory must stay valid until the last reference to the
 * buffer is dropped. Then the library calls @release(@arg), unless @release is
 * NULL, possibly on a thread of its own. With @buft of kind MAPPED the memory
 * is only read.
 *
 * -EINVAL: NULL, or past the end of the address space. -EOPNOTSUPP: the device
 * cannot use the caller's memory. If the call fails, @release is not called.
 */
WEIR_API int weir_buf_wrap(struct weir_buft *buft, void *ptr, size_t size,
			   void (*release)(void *arg), void *arg,
			   struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 6) WEIR_NODISCARD;

/*
 * Map bytes [@off, @off + @size) of a file read-only into a buffer. @buft is of
 * kind MAPPED; @off need not be aligned. The file must not change while the
 * buffer exists: if it shrinks, an access to the lost pages kills the process
 * (SIGBUS).
 *
 * -EINVAL: the range exceeds the file, @buft is not of kind MAPPED, or @file is
 * of another root. -ENOMEM and other errors of mmap(2).
 */
WEIR_API int weir_buf_map(struct weir_buft *buft, struct weir_file *file,
			  uint64_t off, size_t size, struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 2, 5) WEIR_NODISCARD;

/*
 * Join @n buffers of one device into one, which takes a reference to each. Its
 * size is the sum of theirs; member i begins where member i - 1 ends. A tensor
 * must be inside one member. weir_buf_set_usage() and weir_buf_clear() apply to
 * all members.
 *
 * -EINVAL: @n is 0, a member is itself joined, or the members are of several
 * devices. -EOVERFLOW: the sum of the sizes exceeds 2^63 - 1. -ENOMEM.
 */
WEIR_API int weir_buf_join(struct weir_buf *const *bufs, unsigned n,
			   struct weir_buf **ret_buf)
	WEIR_NONNULL(3) WEIR_NODISCARD;
/* Member @i, without a reference; NULL: @i is past the end, or not joined. */
WEIR_API struct weir_buf *weir_buf_member(struct weir_buf *buf, unsigned i)
	WEIR_NONNULL(1);

/*
 * Take a reference and return @buf; drop a reference (NULL is allowed). Freeing
 * never blocks: queued work, loads and weights have references of their own.
 */
WEIR_API struct weir_buf *weir_buf_ref(struct weir_buf *buf) WEIR_NONNULL(1);
WEIR_API void weir_buf_free(struct weir_buf *buf);

/* Describe a buffer. */
WEIR_API int weir_buf_info(const struct weir_buf *buf,
			   struct weir_buf_info *ret_info) WEIR_NONNULL(1, 2);
/* Set the label. -EINVAL: @usage is not an enum weir_usage. */
WEIR_API int weir_buf_set_usage(struct weir_buf *buf, enum weir_usage usage)
	WEIR_NONNULL(1);
/*
 * Fill the whole buffer with @byte. Blocks: first until queued work that
 * accesses the buffer has ended, then until the bytes are written.
 * -EROFS: memory of kind MAPPED.
 */
WEIR_API int weir_buf_clear(struct weir_buf *buf, uint8_t byte) WEIR_NONNULL(1);
/* Its address; NULL if host code may not access it, or if it is joined. */
WEIR_API void *weir_buf_data(struct weir_buf *buf) WEIR_NONNULL(1);

WEIR__END

#endif
