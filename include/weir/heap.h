/* SPDX-License-Identifier: MIT */
/*
 * A heap divides large buffers into blocks. All bookkeeping is outside of the
 * buffers, so the memory may be of any kind; the library does not access it. A
 * heap is stream-ordered: a block may be freed while queued work still uses
 * it, and its memory may be allocated again before that work has run. Any
 * thread may use a heap, and free blocks that another thread has allocated.
 *
 * The free event of a block is the position in a stream at which it was freed.
 * The event is done when all work before it is done. The memory is allocated
 * again
 *
 * - in the same stream at once, since later work there runs after the event;
 * - in another stream when the event is done, or after weir_heap_alloc() has
 *   made that stream wait for it;
 * - without a stream (NULL) only when the event is done.
 */
#ifndef WEIR_HEAP_H
#define WEIR_HEAP_H

#include <weir/base.h>
#include <weir/mem.h>
#include <weir/stream.h>

WEIR__BEGIN

enum weir_heap_reuse {
	/*
	 * weir_heap_alloc() makes no stream wait for another: memory that was
	 * freed in another stream is used only when its free event is done.
	 */
	WEIR_HEAP_NO_WAITS = 1
};

struct weir_heap_opts {
	size_t size;
	struct weir_buf *buf; /* the first buffer; referenced; NULL: none */
	uint64_t grow;  /* least size of a further buffer, bytes; 0: 64 MiB, or
			   no further buffer if buf is set. With reserve: of
			   what is committed at a time; 0: 16 MiB */
	uint64_t limit; /* most bytes of all buffers together, of reserved
			   addresses those with memory; 0: no limit */
	size_t align;   /* least alignment of a block's address, a power of two
			   from 16 to 4096; sizes are rounded up to it. 0: that
			   of the memory, from 64 to 256 */
	uint32_t flags; /* WEIR_BUF_* of further buffers */
	uint32_t reuse; /* WEIR_HEAP_NO_WAITS, or 0 */
	/*
	 * The heap calls this when it has no memory for a block of @bytes, on
	 * the thread that called weir_heap_alloc() and without a lock. The
	 * function may use the heap, for example to free blocks. It returns 1
	 * to try again and 0 to fail. NULL: the allocation fails.
	 */
	int (*on_full)(void *arg, uint64_t bytes);
	void *on_full_arg;
	/*
	 * Bytes of addresses that the heap reserves, without memory, and in
	 * which it then grows in place instead of allocating buffers: so free
	 * memory is not divided among buffers. Memory is committed, and given
	 * back, in granules of 2 to 16 MiB. 0: none; WEIR_HEAP_RESERVE_ALL: as
	 * many as the device has memory. If the memory cannot be committed in
	 * parts (page-locked, shared, parkable), the heap allocates buffers,
	 * and stats.addresses is 0; with WEIR_BUF_STRICT weir_heap_new() fails
	 * with -EOPNOTSUPP.
	 */
	uint64_t reserve;
};
#define WEIR_HEAP_RESERVE_ALL UINT64_MAX
WEIR__DECLARE_OPTS_INIT(weir_heap_opts)
#define WEIR_HEAP_OPTS_INIT WEIR__OPTS_INIT(weir_heap_opts)

/*
 * Make a heap of memory of @buft; NULL: of the kind of opts.buf. No buffer is
 * allocated before the first block; addresses are reserved now, which may
 * block. -EINVAL: invalid options, opts.buf is joined, mapped or of another
 * kind than @buft, or both are NULL. -ENOMEM.
 */
WEIR_API int weir_heap_new(struct weir_buft *buft,
			   const struct weir_heap_opts *opts,
			   struct weir_heap **ret_heap)
	WEIR_NONNULL(3) WEIR_NODISCARD;
/*
 * Destroy the heap, and with it all its blocks. Never blocks: its buffers are
 * freed when the work that is now queued in streams that were used with the
 * heap has ended. No other call may use the heap meanwhile or later. NULL is
 * allowed.
 */
WEIR_API void weir_heap_destroy(struct weir_heap *heap);

/* A block is a value: it may be copied. Only the heap changes its members. */
struct weir_block {
	struct weir_heap *heap;
	struct weir_buf *buf; /* not referenced: it lives as long as the heap */
	uint64_t offset;      /* bytes from the beginning of buf */
	uint64_t addr;        /* its address, in the host or in the device */
	size_t bytes;         /* its size, at least that which was requested */
	uint64_t id; /* no other used block of the heap has this number */
};

/*
 * Allocate a block of @size bytes whose address is a multiple of @align, a
 * power of two; if that is less than the alignment of the heap, the latter is
 * used. Work of @stream may use the block; NULL: anything may use it at once.
 * The call never waits for work. It looks in this order for
 *
 * - memory that was freed in @stream, or whose free event is done;
 * - memory that was freed in another stream: it makes @stream wait for the
 *   free event, if the wait can be queued without blocking;
 * - a new buffer, or more memory for reserved addresses, which may block;
 * - several neighbouring blocks that were freed in different streams;
 * - a new buffer, or more memory, after empty ones were given back.
 *
 * If all of this fails, it calls opts.on_full.
 *
 * -EINVAL: @size is 0 or too large, @align is no power of two, or @stream is
 * of another root. -ENOMEM: the sentence says how many bytes are free, how
 * large the largest free block is, which streams the heap waits for, and why
 * it does not grow.
 */
WEIR_API int weir_heap_alloc(struct weir_heap *heap, size_t size, size_t align,
			     struct weir_stream *stream,
			     struct weir_block *ret_block)
	WEIR_NONNULL(1, 5) WEIR_NODISCARD;

/*
 * Free a block. Work that is queued in @stream may still use it; NULL: no work
 * uses it any more. Work of other streams that uses it must be done, or
 * @stream must wait for that work. The call never waits.
 *
 * -EINVAL: the block was freed before, or is not a block of its heap. -ENOMEM:
 * the first call with @stream had no memory; the block stays in use.
 */
WEIR_API int weir_heap_free(const struct weir_block *block,
			    struct weir_stream *stream) WEIR_NONNULL(1);

/*
 * Find the used block that begins at @addr, in constant time. The first call
 * makes an index of all blocks; from then on weir_heap_alloc() and
 * weir_heap_free() are a little slower. -ENOENT: there is no such block.
 * -ENOMEM: the first call had no memory for the index.
 */
WEIR_API int weir_heap_find(struct weir_heap *heap, uint64_t addr,
			    struct weir_block *ret_block) WEIR_NONNULL(1, 3);

struct weir_heap_stats {
	size_t size;            /* set by the caller */
	uint64_t used;          /* bytes of used blocks */
	uint64_t peak;          /* the most that used, cached and the parts
				   that threads divide themselves have been */
	uint64_t cached;        /* bytes of free blocks in caches of threads */
	uint64_t pending;       /* free bytes whose free events are not done */
	uint64_t reserved;      /* bytes of all buffers; of reserved addresses
				   those with memory */
	uint64_t reserved_peak; /* the most that reserved has been */
	uint64_t span;          /* the sum over all buffers of the bytes up to
				   the highest end of a block so far */
	uint64_t largest;       /* bytes of the largest free block */
	uint64_t blocks;        /* number of used blocks */
	uint64_t buffers;       /* number of buffers */
	uint64_t allocs, frees; /* number of calls so far */
	uint64_t failures;      /* allocations that failed for lack of memory */
	uint64_t waits;         /* waits that weir_heap_alloc() has queued */
	uint64_t grown;         /* times that the heap has grown so far */
	double fragmentation; /* 1 - largest / (free bytes); 0: none is free */
	uint64_t addresses;   /* bytes of reserved addresses; 0: none */
};
/*
 * Describe the heap. The result is exact if no other thread uses it meanwhile.
 */
WEIR_API int weir_heap_stats(struct weir_heap *heap,
			     struct weir_heap_stats *ret_stats)
	WEIR_NONNULL(1, 2);

/*
 * Give empty buffers back while the heap has more than @keep bytes; of reserved
 * addresses the free parts, wherever they are. It keeps opts.buf, and memory
 * whose free event is not done.
 */
WEIR_API int weir_heap_trim(struct weir_heap *heap, size_t keep)
	WEIR_NONNULL(1);

/*
 * Record all further calls in the file @fd, which the heap duplicates, until
 * weir_heap_record(heap, -1) or weir_heap_destroy(). weir_heap(3) has the
 * format. Meanwhile the calls take a lock, and write to the file from time to
 * time.
 *
 * With -1 the call returns 0, or the first error of write(2). -EBUSY: calls
 * are recorded already. Errors of dup(2). -ENOMEM.
 */
WEIR_API int weir_heap_record(struct weir_heap *heap, int fd) WEIR_NONNULL(1);

WEIR__END

#endif
