/* SPDX-License-Identifier: MIT */
/* Loads, which transfer the tensors of a plan, and the weights they fill. */
#ifndef WEIR_LOAD_H
#define WEIR_LOAD_H

#include <weir/base.h>
#include <weir/digest.h>
#include <weir/mem.h>
#include <weir/model.h>
#include <weir/plan.h>
#include <weir/stream.h>
#include <weir/tensor.h>

WEIR__BEGIN

struct weir_load_opts {
	size_t size;
	uint32_t flags; /* WEIR_LOAD_* */
	uint32_t depth; /* most chunks in flight, of all selections and targets
			   together and of each sink; 0: that of the root */
	struct weir_weights *into; /* weights of an earlier load by an equal
				   plan: load into their memory again, in the
				   ways and with the priorities of that plan.
				   NULL: new memory */
};
WEIR__DECLARE_OPTS_INIT(weir_load_opts)
#define WEIR_LOAD_OPTS_INIT WEIR__OPTS_INIT(weir_load_opts)

/*
 * Do not check, after the last read, whether the files have changed (device,
 * inode, size, mtime, ctime). This is for files that may be renamed, linked or
 * removed during the load.
 */
#define WEIR_LOAD_UNCHECKED 0x01u
/*
 * When the load has ended, drop what the page cache has of its files: for
 * programs that load a model once, and whose memory others need. Mapped tensors
 * are read again when they are used.
 */
#define WEIR_LOAD_DROP 0x02u

/*
 * Start the load that @plan describes: allocate the memory, queue the reads in
 * the I/O engine, and return without waiting for a read. The plan may be freed
 * or used again at once. The calling thread may copy a load of up to 1 MiB out
 * of the page cache, within the same limit as weir_stream_read(). Any thread;
 * blocks while memory is allocated and, the first time, while the engine
 * starts.
 *
 * -ENOMEM: the sentence has the needed and the available memory. -ENOSPC,
 * -EINVAL: as weir_plan_estimate(). With opts.into: -EBUSY: a load into it is
 * running, or it is being parked or coming back. -EINVAL: its plan was not
 * equal. -ESTALE: a file that it maps was replaced. -EIO: reads of an earlier
 * load may still write to it. Errors of weir_io_info().
 */
WEIR_API int weir_load_start(struct weir_plan *plan,
			     const struct weir_load_opts *opts,
			     struct weir_load **ret_load)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;
/*
 * Takes NULL; never blocks. A load that is running continues. No other thread
 * may be in a call with @load.
 */
WEIR_API void weir_load_free(struct weir_load *load);

/*
 * Get the weights, with a reference for the caller, perhaps before their bytes
 * have arrived: weir_load_record() and weir_load_wait() report that. Their
 * tensors are first those that weir_plan_add() and weir_plan_sink() have
 * selected, in the order of the model, and then the targets of
 * weir_plan_add_tensors(), in their order. Never blocks.
 */
WEIR_API int weir_load_weights(struct weir_load *load,
			       struct weir_weights **ret_weights)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;

/*
 * Get the number of the tensor with this name, for weir_load_record(),
 * weir_load_error() and weir_weights_get(). If several tensors have the name:
 * that of weir_plan_add() or weir_plan_sink(), else the first target. -ENOENT:
 * the load has no such tensor.
 */
WEIR_API int weir_load_find(struct weir_load *load, const char *name,
			    size_t *ret_i) WEIR_NONNULL(1, 2, 3);

#define WEIR_ALL ((size_t)-1)
/*
 * Record @event: it is done when tensor @i of the weights has arrived, or with
 * WEIR_ALL when the whole load has succeeded. -EINVAL: @i is past the end, or
 * the event is of another root. -ENOMEM: the event is timed or has a
 * descriptor, and there is no memory; the event is as before.
 */
WEIR_API int weir_load_record(struct weir_load *load, size_t i,
			      struct weir_event *event) WEIR_NONNULL(1, 3);
/*
 * Block until every tensor has arrived or failed and no read is running, apart
 * from reads that were given up, for at most @timeout_ns. Returns 0 if all
 * tensors have arrived, else the errno of the first failure.
 *
 * -ETIMEDOUT: not finished yet; the call returns it for no other reason.
 * -ECANCELED: weir_load_cancel() was called. -ESTALE: a file has changed since
 * the model was opened. -ETIME: reads of the load were running, and none of
 * them ended within weir_opts.read_timeout. -ESHUTDOWN: the root was closed
 * before all reads had ended. -EIO and other errors of read(2).
 */
WEIR_API int weir_load_wait(struct weir_load *load, int64_t timeout_ns)
	WEIR_NONNULL(1);

#define WEIR_NEXT_ARRIVED 1 /* weir_load_next(): the tensor has arrived */
#define WEIR_NEXT_FAILED 2  /* weir_load_next(): the tensor has failed */
/*
 * Take the next tensor that has arrived or failed, in the order in which they
 * do; blocks for at most @timeout_ns (0: do not wait; negative: no limit).
 * Several threads may call: each tensor is returned once, to one of them.
 * Mapped and empty tensors arrive at the start, in order.
 *
 * WEIR_NEXT_ARRIVED: tensor *ret_i has arrived. WEIR_NEXT_FAILED: it has
 * failed, and weir_load_error() says why. 0: all tensors have been returned
 * and the load has ended, so weir_load_wait() returns its outcome at once.
 * -ETIMEDOUT: neither a tensor nor the end is there yet.
 */
WEIR_API int weir_load_next(struct weir_load *load, int64_t timeout_ns,
			    size_t *ret_i) WEIR_NONNULL(1, 3);
/*
 * Returns a file descriptor that is readable while weir_load_next() would not
 * block, at the end of the load too, for poll(2) and epoll(7). The first call
 * makes it. It belongs to the load, and weir_load_free() closes it: do not
 * read from it and do not close it. -EMFILE, -ENFILE, -ENOMEM.
 */
WEIR_API int weir_load_fd(struct weir_load *load) WEIR_NONNULL(1);

struct weir_progress {
	size_t size;      /* set by the caller */
	uint64_t bytes;   /* bytes that have arrived; for a moment a chunk less
			   than events say */
	uint64_t total;   /* bytes of all tensors of the load, in the files */
	uint64_t tensors; /* number of tensors that have arrived */
	uint64_t failed;  /* number of tensors that have failed */
	uint64_t count;   /* number of all tensors */
	int64_t elapsed;  /* ns since weir_load_start() */
};
/* Get the progress of the load. Never blocks. */
WEIR_API int weir_load_progress(struct weir_load *load,
				struct weir_progress *ret_progress)
	WEIR_NONNULL(1, 2);
/*
 * Returns 0 and sets *ret_failure to zeroes if tensor @i has not failed so
 * far. Otherwise returns the errno of the failure, which *ret_failure
 * describes. For WEIR_ALL this is the first failure so far.
 * ret_failure->number is the number of the tensor that failed; if all tensors
 * arrived but the load failed, because a file has changed, it is
 * weir_weights_count().
 */
WEIR_API int weir_load_error(struct weir_load *load, size_t i,
			     struct weir_failure *ret_failure)
	WEIR_NONNULL(1, 3);

struct weir_load_report {
	size_t size;         /* set by the caller */
	uint64_t bytes;      /* bytes of tensors that arrived, as in the files:
			       before a conversion, for slices only their own */
	uint64_t in_place;   /* bytes read directly into their final memory, or
				into the buffer of a sink */
	uint64_t staged;     /* bytes read into a slot and copied from there */
	uint64_t buffered;   /* bytes copied out of the page cache */
	uint64_t mapped;     /* bytes that are mapped pages of the files */
	uint64_t over_read;  /* bytes read and dropped: gaps, ends of blocks,
				what was read again */
	uint64_t chunks;     /* number of chunks */
	uint64_t retries;    /* reads repeated: short, interrupted, refused */
	uint64_t enters;     /* calls of io_uring_enter(2) during the load */
	uint64_t staging;    /* bytes of slots at the end */
	int64_t prefault_ns; /* time for backing fresh memory with pages: the
				sum of all threads, ns */
	int64_t elapsed;     /* ns from weir_load_start() to the last tensor */
	uint32_t io; /* WEIR_IO_URING; WEIR_IO_SYNC: no ring, or no need */
	uint32_t fallbacks;   /* number of files without O_DIRECT */
	char note[240];       /* why it was slower than it could be, or "" */
	uint64_t memory;      /* bytes of host memory of the root at the end, as
				 weir_opts.budget counts it */
	uint64_t memory_peak; /* the most that this has been so far */
	uint64_t remote;      /* bytes, in place or staged, that came from
				 sources: weir-source(7) */
	uint64_t cached;      /* bytes, on any way, that came from the folder
				 weir_opts.cache: gaps, too, if the object is
				 not whole there */
};
/*
 * Say how the bytes were read. The report is complete when weir_load_wait()
 * has returned. Never blocks.
 */
WEIR_API int weir_load_report(struct weir_load *load,
			      struct weir_load_report *ret_report)
	WEIR_NONNULL(1, 2);
/*
 * Cancel the load: it starts no more reads. Reads that are running finish, and
 * weir_load_wait() waits for them. Tensors that have not arrived fail with
 * -ECANCELED.
 * Never blocks.
 */
WEIR_API int weir_load_cancel(struct weir_load *load) WEIR_NONNULL(1);

/*
 * Open the model at @path, load all of its tensors into memory of @buft, as
 * weir_plan_add() with @opts (NULL: defaults) places them, and block until
 * they have arrived. Errors of all these steps.
 */
WEIR_API int weir_load_all(struct weir *weir, const char *path,
			   struct weir_buft *buft,
			   const struct weir_select_opts *opts,
			   struct weir_weights **ret_weights)
	WEIR_NONNULL(1, 2, 3, 5) WEIR_NODISCARD;

/*
 * The number of tensors in weights. Weights own the buffers of their tensors:
 * to keep the memory of a tensor @t longer than the weights, call
 * weir_buf_ref(t.buf).
 */
WEIR_API size_t weir_weights_count(const struct weir_weights *weights)
	WEIR_NONNULL(1);
/*
 * A tensor by number or by name, which exists as long as the weights. NULL: @i
 * is past the end, or no tensor has this name. Its bytes may not have arrived
 * yet. If several tensors have the name: that of a selection or sink, else the
 * first target. weir_load_find() returns the number of a name.
 */
WEIR_API const struct weir_tensor *
weir_weights_get(const struct weir_weights *weights, size_t i) WEIR_NONNULL(1);
WEIR_API const struct weir_tensor *
weir_weights_find(const struct weir_weights *weights, const char *name)
	WEIR_NONNULL(1, 2);
/*
 * Describe where tensor @i came from, as weir_model_tensor() does. -EINVAL: @i
 * is past the end.
 */
WEIR_API int weir_weights_entry(const struct weir_weights *weights, size_t i,
				struct weir_entry *ret_entry)
	WEIR_NONNULL(1, 3);
/*
 * weir_weights_ref() takes a reference and returns @weights.
 * weir_weights_free() drops one (NULL is allowed) and never blocks.
 */
WEIR_API struct weir_weights *weir_weights_ref(struct weir_weights *weights)
	WEIR_NONNULL(1);
WEIR_API void weir_weights_free(struct weir_weights *weights);

/*
 * Compute the digest of tensor @i from the bytes of its elements in memory;
 * bytes between the elements of a view are not part of it. Blocks until the
 * tensor has arrived, then while it computes. Returns the size of the digest
 * in bytes, or the error of the tensor if it failed to load. -EINVAL: @i is
 * past the end, or a tensor of a sink; or @kind is not an enum weir_digest.
 * -ENOMEM: there is no host memory through which device memory is copied.
 */
WEIR_API int weir_weights_digest(struct weir_weights *weights, size_t i,
				 enum weir_digest kind, uint8_t ret_digest[32])
	WEIR_NONNULL(1, 4);

/*
 * The digest of tensor @i of a load whose plan has weir_plan_digest() or
 * weir_plan_verify(): of its bytes in the file, computed as they were read.
 * Returns the size of the digest in bytes. Never blocks. -EAGAIN: the tensor
 * has not been read yet. -EINVAL: @i is past the end, or the plan has neither.
 * If the tensor was not read: its error.
 */
WEIR_API int weir_load_digest(struct weir_load *load, size_t i,
			      uint8_t ret_digest[32]) WEIR_NONNULL(1, 3);
/*
 * Make a manifest of the digests that such a load has computed: it must have
 * ended, and have read every tensor of the model. -EINVAL: the load lacks a
 * tensor of the model, or its plan has no digests. -EAGAIN: it has not ended.
 * -ENOMEM. If a tensor failed: its error.
 */
WEIR_API int weir_load_manifest(struct weir_load *load,
				struct weir_manifest **ret_manifest)
	WEIR_NONNULL(1, 2) WEIR_NODISCARD;

WEIR__END

#endif
