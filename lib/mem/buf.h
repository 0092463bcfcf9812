/* SPDX-License-Identifier: MIT */
/*
 * Buffers from the inside: the object, and the list of what is queued on it.
 *
 * A buffer is alive while references are held: the caller's, one for each
 * queued operation that touches it, one for each weights object. A joined
 * buffer holds one of each member; operations on it are recorded at the
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
	_Atomic uint32_t refs;
	_Atomic uint32_t usage;
	struct weir_buft *buft; /* of the first member if joined */
	size_t bytes;
	struct weir__mem mem;
	struct weir_buf **member; /* joined: n_members of them */
	uint64_t *member_at;      /* joined: where each begins */
	unsigned n_members;
	void (*release)(void *arg); /* wrapped or mapped */
	void *release_arg;
	bool foreign;         /* not allocated by the backend */
	pthread_mutex_t lock; /* guards what follows */
	struct weir__access *access;
	unsigned n_dma; /* of them; lost ones are counted for ever */
};

/*
 * Resolve [@off, @off + @n) of @buf to the one member it lies in (@buf itself
 * if not joined). -EINVAL with a sentence.
 */
int weir__buf_range(struct weir_buf *buf, uint64_t off, uint64_t n,
		    struct weir_buf **ret_member, uint64_t *ret_off);

/* Borrowed memory as a buffer: used by weir_buf_wrap and weir_buf_map. */
int weir__buf_foreign(struct weir_buft *buft, void *ptr, size_t size,
		      void (*release)(void *), void *arg,
		      struct weir_buf **ret_buf);

/*
 * An object of @size bytes that has no memory yet (its address is that of an
 * empty buffer) and holds the root; and the end of one, whose memory is gone.
 */
struct weir_buf *weir__buf_new(struct weir_buft *buft, size_t size);
void weir__buf_drop(struct weir_buf *buf);

/* As weir_buf_alloc and weir_buf_join, without naming the call. */
int weir__buf_alloc(struct weir_buft *buft, size_t size,
		    const struct weir_buf_opts *opts,
		    struct weir_buf **ret_buf);
int weir__buf_join(struct weir_buf *const *bufs, unsigned n,
		   struct weir_buf **ret_buf);
/* Bytes that @t takes in memory of @buft, padding included. */
int weir__buft_need(const struct weir_buft *buft, const struct weir_tensor *t,
		    uint64_t *ret_bytes);

bool weir__buf_is_host(const struct weir_buf *buf);

#endif
