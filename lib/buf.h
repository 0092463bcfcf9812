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

#include "backend.h"
#include "root.h"
#include "source.h"

/*
 * A range of a buffer that queued work will read or write: on the buffer's
 * list from weir__access_add() until weir__access_del(). Blocking calls wait
 * for those that they conflict with.
 */
struct weir__access {
	struct weir__access *next, **link; /* link NULL: on no list */
	struct weir_buf *buf;              /* the member that it is in */
	uint64_t lo, hi;                   /* bytes of that member */
	bool write;
	/*
	 * The kernel or a device writes past the page tables (direct reads): a
	 * child of fork(2) does not get the buffer meanwhile. Cleared before
	 * weir__access_del() if such a write was lost and may still come.
	 */
	bool dma;
	struct weir__source *src; /* held by who added it */
	uint64_t number;
	/*
	 * A source whose numbers lie side by side in the range (a load): the
	 * next number >= @from that touches [lo, hi), false: none. NULL: only
	 * @number.
	 */
	bool (*next_number)(struct weir__access *access, uint64_t lo,
			    uint64_t hi, uint64_t from, uint64_t *ret_number);
	void *arg; /* for next_number */
};

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

void weir__access_add(struct weir__access *access);
void weir__access_del(struct weir__access *access);
/*
 * Block until queued work that conflicts with the access to [lo, hi) of the
 * member @buf is done or has failed (which is not an error here). -ETIMEDOUT
 * never: waits for ever.
 */
int weir__buf_quiesce(struct weir_buf *buf, uint64_t lo, uint64_t hi,
		      bool write);

/*
 * The bytes [off, off + n) of a placed, contiguous tensor: its member, where
 * they begin there, and their address. -EINVAL with a sentence naming it.
 */
int weir__tensor_range(const struct weir_tensor *t, uint64_t off, uint64_t n,
		       struct weir_buf **ret_member, uint64_t *ret_off,
		       unsigned char **ret_addr);
/* As weir_tensor_init and weir_tensor_bytes, without naming the call. */
int weir__tensor_init(struct weir_tensor *t, enum weir_dtype dtype,
		      unsigned ndim, const int64_t *shape);
int weir__tensor_extent(const struct weir_tensor *t, uint64_t *ret_bytes);
/* Of a tensor that makes sense (weir__tensor_extent). */
bool weir__tensor_contiguous(const struct weir_tensor *t);

/* 0, or -EINVAL: not the same dtype, shape and strides. */
int weir__tensor_same(const struct weir_tensor *dst,
		      const struct weir_tensor *src);
/*
 * The bytes of a tensor that makes sense as runs of @ret_run bytes: returns
 * how many dimensions, from the first on, lead from one run to the next. With
 * @index and @off zeroed for the first run, weir__tensor_next_run steps over
 * @outer dimensions; false behind the last run.
 */
unsigned weir__tensor_outer(const struct weir_tensor *t, size_t *ret_run);
bool weir__tensor_next_run(const struct weir_tensor *t, unsigned outer,
			   int64_t *index, uint64_t *off);
/* Steps of stride[dim] that @t has: elements, or blocks in the last. */
uint64_t weir__tensor_steps(const struct weir_tensor *t, unsigned dim);
/* "tensor 'name'" or "tensor"; a ring of buffers, as weir__quote. */
const char *weir__tensor_label(const struct weir_tensor *t);

#endif
