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

struct weir_buf {
	/* The members that a load uses are in the first cache lines. */
	_Atomic uint32_t refs;
	pthread_mutex_t lock; /* guards access and n_dma */
	struct weir__access *access;
	unsigned n_dma; /* accesses with dma and loads, orphaned ones too */
	bool foreign;   /* wrapped or mapped, not allocated */
	/* Its memory is released (weir__buf_park), and cannot be accessed. */
	_Atomic bool parked;

	struct weir_buft *buft; /* that of the first member if joined */
	size_t bytes;
	struct weir_backend_mem mem;
	struct weir_buf **member; /* joined: n_members of them */
	uint64_t *member_at;      /* joined: offset of each member */
	unsigned n_members;
	void (*release)(void *arg); /* wrapped or mapped */
	void *release_arg;
	struct weir__reclaimed reclaimed; /* used when there is no reference
					     left */
};

/*
 * Find the member of @buf that contains [@off, @off + @n), and the offset in
 * it. A buffer that is not joined is its own member. Fails with -EINVAL and a
 * sentence.
 */
int weir__buf_range(struct weir_buf *buf, uint64_t off, uint64_t n,
		    struct weir_buf **ret_member, uint64_t *ret_off);

/* Make a buffer of foreign memory, for weir_buf_wrap() and weir_buf_map(). */
int weir__buf_foreign(struct weir_buft *buft, void *ptr, size_t size,
		      void (*release)(void *), void *arg,
		      struct weir_buf **ret_buf);

/*
 * weir_buf_free() for references of the library, which may be dropped on
 * threads that others wait for: never blocks. NULL is allowed.
 */
void weir__buf_put(struct weir_buf *buf);

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
 * Accesses fail meanwhile. The caller knows that no work uses the memory. May
 * block.
 * -EOPNOTSUPP: it cannot be parked. weir__buf_unpark: -ENOMEM, and it is still
 * parked.
 */
int weir__buf_check_parkable(const struct weir_buf *buf);
int weir__buf_park(struct weir_buf *buf);
int weir__buf_unpark(struct weir_buf *buf);
/* Fail with -ENODATA, and a sentence, if @buf is parked. */
int weir__buf_check_there(const struct weir_buf *buf, const char *name);

bool weir__buf_is_host(const struct weir_buf *buf);
/*
 * Return the address space of its memory, for the race checker: equal addresses
 * in two spaces are different memory.
 */
uint64_t weir__buft_space(const struct weir_buft *buft);
uint64_t weir__buf_space(const struct weir_buf *buf);

#endif
