/* SPDX-License-Identifier: MIT */
/*
 * The devices of libweir-torch, as torch.c and torch_free.c see them.
 *
 * In a child of fork(2) each call of the library fails. A lock may be held
 * there by a thread that the child does not have, so it is taken only after a
 * call of the library has succeeded.
 */
#ifndef WEIR_TORCH_H
#define WEIR_TORCH_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>
#include <weir/cuda.h>

#define STREAM_BITS 6u
#define USE_BITS 16u

/* A CUDA stream of the program; never freed. */
struct stream {
	struct CUstream_st *cuda;
	struct weir_stream *weir;
	struct stream *next;
};

struct device {
	int number;
	struct device *next;
	struct weir_dev *dev;
	struct weir_heap *heap;
	/* Lists by hash. Streams are only added, without the lock. */
	_Atomic(struct stream *) streams[1u << STREAM_BITS];
	/*
	 * By hash of the block: 1 << USE_BITS lists. The lock guards them, but
	 * any thread may read whether a list is empty.
	 */
	_Atomic(struct use *) *uses;
	pthread_mutex_t lock; /* guards what follows */
	/*
	 * Oldest first. Changed under the lock; any thread may read n_unfreed.
	 */
	struct unfreed *unfreed, **unfreed_end;
	_Atomic unsigned n_unfreed;
	/* Waits for all streams that use a block, which is then freed in it. */
	struct weir_stream *joint;
	struct weir_event *joined;
};

/*
 * Why this thread's last failure happened, if not in the library. NULL: see
 * weir_error().
 */
extern _Thread_local const char *weir__torch_reason;

static inline int weir__torch_fail(int r, const char *why)
{
	weir__torch_reason = why;
	return r;
}

static inline int weir__torch_no_memory(void)
{
	return weir__torch_fail(-ENOMEM, "no memory for bookkeeping");
}

static inline size_t weir__torch_hash(uint64_t key, unsigned bits)
{
	return key * 0x9e3779b97f4a7c15u >> (64 - bits);
}

/* torch.c: the weir stream around a CUDA stream. Takes no lock. */
int weir__torch_stream(struct device *d, struct CUstream_st *cuda,
		       struct weir_stream **ret_stream);
/*
 * If the stream has failed, make it usable again. That is safe: a heap hands
 * out no memory for which the stream could not wait. False: it has not failed,
 * its work has not ended, or its device is lost. Never blocks.
 */
bool weir__torch_recover(struct weir_stream *stream);

/*
 * torch_free.c. Stream @cuda uses the block at @addr, too. The block is live:
 * the caller has found it.
 */
int weir__torch_use(struct device *d, uint64_t addr, struct CUstream_st *cuda);
/*
 * Free the block at @addr in @cuda, after the work of all streams that use it.
 */
int weir__torch_free(struct device *d, uint64_t addr, struct CUstream_st *cuda);
/*
 * weir__torch_free() has failed, and the block stays allocated, since work may
 * still use it: a later call frees it.
 */
void weir__torch_keep(struct device *d, uint64_t addr,
		      struct CUstream_st *cuda);
/*
 * Try to free up to @most kept blocks, the oldest first; returns how many are
 * free now. Not in a child of fork(2).
 */
unsigned weir__torch_retry(struct device *d, unsigned most);

#endif
