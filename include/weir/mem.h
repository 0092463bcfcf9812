/* SPDX-License-Identifier: MIT */
/*
 * Memory: the kinds that a device has, and buffers.
 */
#ifndef WEIR_MEM_H
#define WEIR_MEM_H

#include <weir/base.h>
#include <weir/dev.h>

WEIR__BEGIN

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

WEIR__END

#endif
