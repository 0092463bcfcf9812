/* SPDX-License-Identifier: MIT */
/*
 * Memory. A buffer type (struct weir_buft) is a kind of memory of one device;
 * a buffer (struct weir_buf) is an allocation of it. Buffers are reference
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
	uint32_t kind;   /* enum weir_mem */
	uint32_t flags;  /* WEIR_BUFT_* */
	size_t align;    /* bytes, a power of two: least alignment of a new
			   buffer's address, and of the tensors that
			   weir_tensors_alloc() places. Loads align tensors as
			   weir_select_opts.align says */
	size_t max;      /* largest buffer, bytes; SIZE_MAX: no limit */
	uint64_t used;   /* bytes of the buffers that weir has allocated */
	uint64_t budget; /* the most bytes that they may have, as
			    weir_buft_set_budget() set it; 0: no limit */
};
#define WEIR_BUFT_HOST 0x01u     /* host code may access it */
#define WEIR_BUFT_LOCKED 0x02u   /* the kernel does not swap it out */
#define WEIR_BUFT_READONLY 0x04u /* pages of a file: read-only */

/* Describe a buffer type. The strings exist as long as the root. */
WEIR_API int weir_buft_info(const struct weir_buft *buft,
			    struct weir_buft_info *ret_info) WEIR_NONNULL(1, 2);

/*
 * The bytes that @t takes in a buffer of @buft, with padding: at least its
 * size. 0: the tensor is empty or invalid; weir_tensor_bytes() says which.
 */
WEIR_API size_t weir_buft_alloc_size(const struct weir_buft *buft,
				     const struct weir_tensor *t)
	WEIR_NONNULL(1, 2);

/*
 * Limit the buffers of @buft that weir allocates to @bytes together; 0: no
 * limit. Buffers that exist stay, even if they exceed it. An allocation that
 * exceeds the budget fails with -ENOMEM, and the sentence has both numbers.
 * Memory that the caller wraps does not count. weir_opts.budget limits all
 * host memory of a root. Any thread; never blocks.
 */
WEIR_API int weir_buft_set_budget(struct weir_buft *buft, uint64_t bytes)
	WEIR_NONNULL(1);

/*
 * The free and the total bytes of this kind of memory: for kinds HBM and FAR
 * those of their NUMA nodes, for other host memory those of the CPU, and for
 * device memory those of the device, as weir_dev_memory() returns them. Never
 * makes a device context. -ENODATA: the numbers cannot be read without a
 * context.
 */
WEIR_API int weir_buft_memory(const struct weir_buft *buft, uint64_t *ret_free,
			      uint64_t *ret_total) WEIR_NONNULL(1, 2, 3);

struct weir_buf_opts {
	size_t size;
	uint32_t flags; /* WEIR_BUF_* */
	int32_t node;   /* with WEIR_BUF_ON_NODE */
};
WEIR__DECLARE_OPTS_INIT(weir_buf_opts)
#define WEIR_BUF_OPTS_INIT WEIR__OPTS_INIT(weir_buf_opts)

/*
 * Fail if the memory cannot have huge pages, be locked or be bound to its NUMA
 * node as requested. Without this flag the buffer is made without the
 * property, and weir_buf_info() says so.
 */
#define WEIR_BUF_STRICT 0x01u
/* Back the memory with pages before returning: 0.2 to 1.5 s per GiB. */
#define WEIR_BUF_PREFAULT 0x02u
/*
 * Write-combined: the CPU does not cache the memory, and reads it very slowly.
 * -EINVAL: the memory is not of kind PINNED.
 */
#define WEIR_BUF_WRITE_COMBINED 0x04u
/*
 * Use huge pages that the system has reserved (hugetlb): with the first flag
 * of 2 MiB, with the second of 1 GiB, or of 2 MiB if there are none of 1 GiB.
 * If the reserve has too few, the buffer gets transparent huge pages or,
 * without these, small ones; with WEIR_BUF_STRICT the call fails with
 * -EOPNOTSUPP (if both flags are set, either size satisfies it). Such memory
 * is backed before the call returns, is never swapped out, and is rounded up
 * to whole pages. -EINVAL: the memory is of kind PLAIN, or not host memory.
 */
#define WEIR_BUF_HUGETLB 0x08u
#define WEIR_BUF_HUGETLB_1G 0x10u
/*
 * Memory that weir_buf_share() can share with other processes: a memfd; or
 * memory of a device that its driver can export, in units of some MiB.
 * -EOPNOTSUPP: the device or its driver cannot do it.
 */
#define WEIR_BUF_SHARED 0x20u
/*
 * Bind the memory to NUMA node weir_buf_opts.node, rather than to that of the
 * device. Memory of kind HBM or FAR is bound to the nodes of its kind that are
 * nearest to that node.
 */
#define WEIR_BUF_ON_NODE 0x80u
/*
 * Memory that weir_weights_park() can release while its addresses stay
 * reserved. Most host memory is so without this flag; memory of a device is
 * allocated in another way, in units of some MiB. If the device cannot do it,
 * weir_buf_info() says why; with WEIR_BUF_STRICT the call fails with
 * -EOPNOTSUPP. -EINVAL: the memory is page-locked for a device, shared, or in
 * reserved pages.
 */
#define WEIR_BUF_PARKABLE 0x40u

struct weir_buf_info {
	size_t size;            /* set by the caller */
	size_t bytes;           /* size of the buffer */
	struct weir_buft *buft; /* its type; if it is joined that of its first
				   member */
	uint32_t got;           /* WEIR_GOT_*: properties that it has */
	uint32_t members;       /* number of its members; 0: it is not joined */
	int32_t node; /* NUMA node to which it is bound; -1: none, or several */
	uint32_t refs; /* references; 1: the caller has the only one */
	char why[240]; /* why it lacks a property that was requested, or "" */
};
#define WEIR_GOT_HUGE 0x01u   /* has huge pages */
#define WEIR_GOT_LOCKED 0x02u /* is locked into RAM */
#define WEIR_GOT_OWNED 0x04u  /* weir allocated it: it is not wrapped */
#define WEIR_GOT_WRITE_COMBINED 0x08u
#define WEIR_GOT_HUGETLB 0x10u    /* the huge pages are reserved ones */
#define WEIR_GOT_HUGETLB_1G 0x20u /* ... of 1 GiB */
#define WEIR_GOT_SHARED 0x40u     /* is memory of a descriptor */
#define WEIR_GOT_PARKABLE 0x80u   /* weir_weights_park() can release it */

/*
 * Allocate a buffer of @size bytes. Its contents are undefined. Free it with
 * weir_buf_free(). @size may be 0: the buffer then has an address that may not
 * be dereferenced.
 *
 * -ENOMEM: the sentence has the size and the available memory, or the budget
 * (weir_opts.budget, weir_buft_set_budget()) and its use. -EOPNOTSUPP: @buft
 * is of kind MAPPED (use weir_buf_map()), or WEIR_BUF_STRICT is set and there
 * are no huge pages. -EINVAL: @size exceeds the largest buffer, or invalid
 * options. Blocks while memory is allocated, or freed by another thread. With
 * WEIR_BUF_SHARED also errors of memfd_create(2).
 */
WEIR_API int weir_buf_alloc(struct weir_buft *buft, size_t size,
			    const struct weir_buf_opts *opts,
			    struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 4) WEIR_NODISCARD;

/*
 * Make a buffer of @size bytes of the caller's memory at @ptr, which may have
 * any alignment. When the last reference to the buffer is dropped and no
 * device can access the memory any more, the library calls @release(@arg),
 * possibly on a thread of its own; the memory must stay valid until then. If
 * @release is NULL, the memory must stay valid until weir_buf_free() has
 * dropped the last reference, which must be one of the caller's. If @buft is
 * of kind MAPPED, the memory is only read.
 *
 * -EINVAL: @ptr is NULL, or the range exceeds the address space.
 * -EOPNOTSUPP: the device cannot use the caller's memory.
 * If the call fails, @release is not called.
 */
WEIR_API int weir_buf_wrap(struct weir_buft *buft, void *ptr, size_t size,
			   void (*release)(void *arg), void *arg,
			   struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 6) WEIR_NODISCARD;

/*
 * Map bytes [@off, @off + @size) of a file into a buffer: read-only if @buft
 * is of kind MAPPED; if it is of kind PLAIN, a write copies the page, which
 * then takes memory, and does not change the file. @off need not be aligned.
 * The file must not change while the buffer exists: if it shrinks, an access
 * to the lost pages kills the process (SIGBUS).
 *
 * -EINVAL: the range exceeds the file, @buft is of another kind, or @file is
 * of another root. -ENOMEM and other errors of mmap(2).
 */
WEIR_API int weir_buf_map(struct weir_buft *buft, struct weir_file *file,
			  uint64_t off, size_t size, struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 2, 5) WEIR_NODISCARD;

/*
 * Get a descriptor of the memory of @buf, which was allocated with
 * WEIR_BUF_SHARED. A process that gets it (SCM_RIGHTS) makes a buffer of it by
 * weir_buf_wrap_fd(). Byte 0 of the buffer is byte 0 of the descriptor, which
 * can neither shrink nor grow. The caller closes it. Any thread; never blocks.
 *
 * Without WEIR_SHARE_WRITABLE no process can map the memory writable from now
 * on; the buffer itself can still be written to, and its later bytes are seen
 * by all. Memory of a device needs the flag, since its driver cannot keep
 * others from writing; the descriptor is one that the driver has exported. The
 * memory exists until the last process has unmapped it, and the library does
 * not use it again for another buffer.
 *
 * -EINVAL: unknown flags, or a joined buffer; share its members. -EOPNOTSUPP:
 * the buffer was not allocated with WEIR_BUF_SHARED, or it is memory of a
 * device and WEIR_SHARE_WRITABLE is not set. -EROFS: WEIR_SHARE_WRITABLE is
 * set, and an earlier call was made without it. -EMFILE. Errors of the driver.
 */
WEIR_API int weir_buf_share(struct weir_buf *buf, uint32_t flags, int *ret_fd)
	WEIR_NONNULL(1, 3);
#define WEIR_SHARE_WRITABLE 0x01u

/*
 * Make a buffer of bytes [@off, @off + @size) of the memory of @fd: a memfd of
 * weir_buf_share() or of memfd_create(2), or a file in tmpfs or hugetlbfs.
 * @off need not be aligned. With @buft of kind MAPPED the memory is only read;
 * with other kinds of host memory it can be written to. With @buft of kind
 * DEVICE @fd is memory that the driver of this device has exported, in any
 * process. @fd may be closed afterwards.
 *
 * WEIR_WRAP_READONLY: calls that would write to the buffer fail with -EROFS.
 * Memory of a device is also mapped for reading only if its driver can do that;
 * weir_buf_info() says why if it cannot.
 *
 * A process that accesses memory which a descriptor has lost is killed
 * (SIGBUS). So a descriptor that can shrink is refused, unless
 * WEIR_WRAP_UNSEALED is set: then no process may shrink it while the buffer
 * exists. Blocks while pages are backed.
 *
 * -EINVAL: unknown flags; @size is 0, or the range exceeds the file; it can
 * shrink; WEIR_WRAP_READONLY with host memory that is not of kind MAPPED; @fd
 * is not memory of the device. -EACCES: @fd is not open for what @buft needs.
 * -EROFS: it is sealed against writing; use kind MAPPED. -EOPNOTSUPP: @fd is
 * not a file in memory, or the device cannot have memory of a descriptor.
 * -EBADF. -ENOMEM, -EFAULT: reserved pages, or
 * pages of holes in a tmpfs, are missing; all of them are backed before the
 * call returns. Other errors of mmap(2).
 */
WEIR_API int weir_buf_wrap_fd(struct weir_buft *buft, int fd, uint64_t off,
			      size_t size, uint32_t flags,
			      struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 6) WEIR_NODISCARD;
#define WEIR_WRAP_UNSEALED 0x01u
#define WEIR_WRAP_READONLY 0x02u

/*
 * Join @n buffers of one device into one, which takes a reference to each. Its
 * size is the sum of theirs; member i begins where member i - 1 ends. A tensor
 * must be inside one member. weir_buf_clear() applies to all members.
 *
 * -EINVAL: @n is 0, a member is itself joined, or the members are of several
 * devices. -EOVERFLOW: the sum of the sizes exceeds 2^63 - 1. -ENOMEM.
 */
WEIR_API int weir_buf_join(struct weir_buf *const *bufs, unsigned n,
			   struct weir_buf **ret_buf)
	WEIR_NONNULL(3) WEIR_NODISCARD;
/*
 * Member @i, without a reference for the caller. NULL: @i is past the end, or
 * @buf is not joined.
 */
WEIR_API struct weir_buf *weir_buf_member(struct weir_buf *buf, unsigned i)
	WEIR_NONNULL(1);

/*
 * weir_buf_ref() takes a reference and returns @buf; weir_buf_free() drops one
 * (NULL is allowed). It does not block: queued work, loads and weights have
 * references of their own, and a thread of the library frees memory whose
 * freeing waits for a device. In two cases it may block until a device has
 * done its work: for the last reference to a buffer that wraps memory without
 * a release function, and after weir_close().
 */
WEIR_API struct weir_buf *weir_buf_ref(struct weir_buf *buf) WEIR_NONNULL(1);
WEIR_API void weir_buf_free(struct weir_buf *buf);

/* Describe a buffer. */
WEIR_API int weir_buf_info(const struct weir_buf *buf,
			   struct weir_buf_info *ret_info) WEIR_NONNULL(1, 2);
/*
 * Fill the whole buffer with @byte. Blocks: first until queued work that
 * accesses the buffer has ended, then until the bytes are written.
 * -EROFS: memory of kind MAPPED.
 */
WEIR_API int weir_buf_clear(struct weir_buf *buf, uint8_t byte) WEIR_NONNULL(1);
/*
 * The address of the buffer. NULL: host code may not access it, or it is
 * joined, or parked (weir_weights_park()).
 */
WEIR_API void *weir_buf_data(struct weir_buf *buf) WEIR_NONNULL(1);

WEIR__END

#endif
