/* SPDX-License-Identifier: MIT */
/*
 * Buffers from the inside.
 *
 * A buffer lives while it is referenced: by the caller, by each queued
 * operation that accesses it, by each weights object, and by each joined buffer
 * of which it is a member. Accesses to a joined buffer are recorded at the
 * member.
 */
#ifndef WEIR__BUF_H
#define WEIR__BUF_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/mem.h>

#include "dev/dev.h"

struct weir__access;
struct weir__reserved;

struct weir_buf {
	/* The members that a load uses are in the first cache lines. */
	_Atomic uint32_t refs;
	pthread_mutex_t lock; /* guards access and n_dma */
	struct weir__access *access;
	unsigned n_dma; /* accesses with dma and loads, orphaned ones too */
	bool foreign;   /* wrapped or mapped, not allocated */
	bool readonly;  /* wrapped for reading only */
	_Atomic unsigned n_heaps; /* heaps that have blocks in it */
	/*
	 * Its memory is released, or about to be (weir__buf_park), and cannot
	 * be accessed.
	 */
	_Atomic bool parked;

	struct weir_buft *buft; /* that of the first member if joined */
	size_t bytes;
	struct weir_backend_mem mem;
	struct weir__reserved *reserved; /* reserved addresses; else NULL */
	struct weir_buf **member;        /* joined: n_members of them */
	uint64_t *member_at;             /* joined: offset of each member */
	unsigned n_members;
	void (*release)(void *arg); /* wrapped or mapped */
	void *release_arg;
	struct weir__reclaimed reclaimed; /* used when there is no reference
					     left */
};

/*
 * Make the object of a buffer without memory, with a reference; free it. Check
 * the options of weir_buf_alloc(). Count @size bytes towards the budget of
 * @buft before they are allocated: -ENOMEM if they exceed it.
 */
struct weir_buf *weir__buf_new(struct weir_buft *buft, size_t size);
void weir__buf_drop(struct weir_buf *buf);
int weir__buf_check_alloc(const struct weir_buft *buft, size_t size,
			  const struct weir_buf_opts *o);
int weir__buft_charge(struct weir_buft *buft, size_t size);

/*
 * reserved.c. Make a buffer of @size bytes of addresses, a multiple of 2 MiB,
 * that have no memory. -EOPNOTSUPP, with a sentence: the device or these flags
 * cannot have it. *ret_granule: parts begin and end at multiples of it.
 */
int weir__buf_reserve(struct weir_buft *buft, size_t size,
		      const struct weir_buf_opts *opts, size_t *ret_granule,
		      struct weir_buf **ret_buf);
/*
 * Commit memory to a part, with undefined contents, or give it back, when no
 * work uses it. They block, and change nothing if they fail. The caller
 * serialises calls for one part.
 */
int weir__buf_commit(struct weir_buf *buf, size_t off, size_t bytes);
int weir__buf_decommit(struct weir_buf *buf, size_t off, size_t bytes);
/* The bytes that have memory; of an ordinary buffer, all. */
size_t weir__buf_committed(const struct weir_buf *buf);
int weir__buf_check_parts(const struct weir_buf *buf, uint64_t off, uint64_t n);
/*
 * Fail with -EINVAL and a sentence if not all of [@off, @off + @n) has memory.
 */
static inline int weir__buf_check_memory(const struct weir_buf *buf,
					 uint64_t off, uint64_t n)
{
	return buf->reserved ? weir__buf_check_parts(buf, off, n) : 0;
}

/*
 * Find the member of @buf that contains [@off, @off + @n), and the offset in
 * it. A buffer that is not joined is its own member. Fails with -EINVAL and a
 * sentence,
 * also if it has no memory: weir__buf_check_memory().
 */
int weir__buf_range(struct weir_buf *buf, uint64_t off, uint64_t n,
		    struct weir_buf **ret_member, uint64_t *ret_off);

/* Make a buffer of foreign memory, for weir_buf_wrap() and weir_buf_map(). */
int weir__buf_foreign(struct weir_buft *buft, void *ptr, size_t size,
		      void (*release)(void *), void *arg,
		      struct weir_buf **ret_buf);

/*
 * Make a buffer of bytes of a descriptor of device memory, for
 * weir_buf_wrap_fd().
 */
int weir__buf_of_fd(struct weir_buft *buft, int fd, uint64_t off, size_t size,
		    bool readonly, struct weir_buf **ret_buf);
/* weir_buf_share() of device memory. */
int weir__buf_export(struct weir_buf *buf, int *ret_fd);

/*
 * weir_buf_free() for references of the library, which may be dropped on
 * threads that others wait for: never blocks. NULL is allowed.
 */
void weir__buf_put(struct weir_buf *buf);
/* The same, but the thread of the device calls the release function. */
void weir__buf_put_later(struct weir_buf *buf);

/* weir_buf_alloc() and weir_buf_join() for use inside the library. */
int weir__buf_alloc(struct weir_buft *buft, size_t size,
		    const struct weir_buf_opts *opts,
		    struct weir_buf **ret_buf);
int weir__buf_join(struct weir_buf *const *bufs, unsigned n,
		   struct weir_buf **ret_buf);
/*
 * Return -EINVAL with a sentence if buffers of @buft cannot have these
 * WEIR_BUF_* flags.
 */
int weir__buft_check_flags(const struct weir_buft *buft, uint32_t flags);
/* weir_buft_memory() for use inside the library. */
int weir__buft_memory(const struct weir_buft *buft, uint64_t *ret_free,
		      uint64_t *ret_total);
/* Compute the bytes that @t needs in memory of @buft, padding included. */
int weir__buft_need(const struct weir_buft *buft, const struct weir_tensor *t,
		    uint64_t *ret_bytes);

/*
 * Release the memory of @buf, whose addresses stay reserved, and give it back
 * to the budget; allocate it again at these addresses, with undefined contents.
 * Accesses fail meanwhile. Parking waits for the work that is queued; the
 * program queues none at the same time, and copies that the library queues
 * under weir->parks.lock are waited for or refused. May block.
 * -EOPNOTSUPP: it cannot be parked. weir__buf_unpark: -ENOMEM, and it is still
 * parked.
 */
int weir__buf_check_parkable(const struct weir_buf *buf);
int weir__buf_park(struct weir_buf *buf);
int weir__buf_unpark(struct weir_buf *buf);
/* Fail with -ENODATA, and a sentence, if @buf is parked. */
int weir__buf_check_there(const struct weir_buf *buf, const char *name);

bool weir__buf_is_host(const struct weir_buf *buf);
static inline bool weir__buf_is_readonly(const struct weir_buf *buf)
{
	return buf->readonly || buf->buft->desc.flags & WEIR_BUFT_READONLY;
}
/*
 * Return the address space of its memory, for the race checker: equal addresses
 * in two spaces are different memory.
 */
uint64_t weir__buft_space(const struct weir_buft *buft);
uint64_t weir__buf_space(const struct weir_buf *buf);

#endif
