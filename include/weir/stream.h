/* SPDX-License-Identifier: MIT */
/*
 * Streams, the in-order queues of a device, and events.
 *
 * Every weir_stream_* operation is queued and never blocks (on a stream that
 * was wrapped or is native some may: weir/cuda.h). Effects become visible
 * in order. Memory of the caller's that was given to a queued call stays
 * valid, and unchanged if it is a source, until an event recorded after it is
 * done; buffers and files are referenced by the queue.
 *
 * After a failure no later operation of the stream begins: each completes with
 * -ECANCELED, also one that was already running, until weir_stream_reset().
 */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

#include <weir/base.h>
#include <weir/file.h>
#include <weir/mem.h>
#include <weir/tensor.h>

WEIR__BEGIN

struct weir_stream_opts {
	size_t size;
	uint32_t flags;    /* 0; WEIR_STREAM_NATIVE where the device has it */
	uint32_t reserved; /* 0 */
	const char *name;  /* shown in traces, copied; NULL: none */
};
WEIR__DECLARE_OPTS_INIT(weir_stream_opts)
#define WEIR_STREAM_OPTS_INIT WEIR__OPTS_INIT(weir_stream_opts)

/*
 * The native handle will be asked for; such a stream behaves like a wrapped one.
 */
#define WEIR_STREAM_NATIVE 0x01u

/*
 * A new stream of @dev. Free it by weir_stream_free(), which never waits:
 * what is queued still runs.
 */
WEIR_API int weir_stream_new(struct weir_dev *dev,
			     const struct weir_stream_opts *opts,
			     struct weir_stream **ret_stream)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;
WEIR_API void weir_stream_free(struct weir_stream *stream);

/*
 * Copy @n bytes from the caller's memory to byte @off of @dst, or back. The
 * tensors are contiguous and placed in memory that the device can reach.
 *
 * All operations: -EINVAL: out of bounds, not placed, or memory of another
 * device. -EROFS: written to memory of kind MAPPED. -ECANCELED: the stream has
 * failed. -ENOMEM. Never block.
 */
WEIR_API int weir_stream_set(struct weir_stream *stream,
			     const struct weir_tensor *dst, size_t off,
			     const void *src, size_t n) WEIR_NONNULL(1, 2);
WEIR_API int weir_stream_get(struct weir_stream *stream,
			     const struct weir_tensor *src, size_t off,
			     void *dst, size_t n) WEIR_NONNULL(1, 2);

/* @rows pieces of @width bytes, pitches being the steps from row to row. */
struct weir_rect {
	uint64_t off;   /* of the first row in the tensor, bytes */
	uint64_t width; /* bytes of a row */
	uint64_t rows;
	uint64_t pitch;      /* in the tensor, bytes, >= width */
	uint64_t host_pitch; /* in the caller's memory, bytes, >= width */
};
WEIR_API int weir_stream_set_2d(struct weir_stream *stream,
				const struct weir_tensor *dst,
				const struct weir_rect *rect, const void *src)
	WEIR_NONNULL(1, 2, 3);
WEIR_API int weir_stream_get_2d(struct weir_stream *stream,
				const struct weir_tensor *src,
				const struct weir_rect *rect, void *dst)
	WEIR_NONNULL(1, 2, 3);

WEIR_API int weir_stream_fill(struct weir_stream *stream,
			      const struct weir_tensor *dst, size_t off,
			      size_t n, uint8_t byte) WEIR_NONNULL(1, 2);
/*
 * As weir_tensor_copy, queued. Of two CUDA devices' memory any CUDA stream of
 * the root; of a device's and the host's that device's own. -EINVAL.
 */
WEIR_API int weir_stream_copy(struct weir_stream *stream,
			      const struct weir_tensor *dst,
			      const struct weir_tensor *src)
	WEIR_NONNULL(1, 2, 3);

/*
 * File I/O in the order of the stream: @n bytes at @file_off of @file to byte
 * @off of a tensor, or back. Consecutive file operations whose ranges do not
 * overlap run concurrently. A read that meets the end of the file fails with
 * -ENODATA, one that does not end within read_timeout with -ETIME; a write is not a flush (fdatasync is the caller's). -EBADF: a file
 * that was not opened for writing.
 */
WEIR_API int weir_stream_read(struct weir_stream *stream,
			      struct weir_file *file, uint64_t file_off,
			      const struct weir_tensor *dst, size_t off,
			      size_t n) WEIR_NONNULL(1, 2, 4);
WEIR_API int weir_stream_write(struct weir_stream *stream,
			       struct weir_file *file, uint64_t file_off,
			       const struct weir_tensor *src, size_t off,
			       size_t n) WEIR_NONNULL(1, 2, 4);

/*
 * Call @fn(@arg) on a thread of the library when everything before it is
 * done. It may call into weir, but blocking delays this stream, and waiting
 * for this stream is a deadlock. A negative return fails the stream with it.
 * On a native stream it may call neither weir nor the device's own interface.
 */
WEIR_API int weir_stream_call(struct weir_stream *stream, int (*fn)(void *arg),
			      void *arg) WEIR_NONNULL(1, 2);

/*
 * Record @event at the current tail of @stream: it is done when all work
 * queued before this call is. Recording again replaces the earlier record;
 * waiters already queued keep the earlier one.
 * The stream's own error if it has failed already (the event then has too).
 */
WEIR_API int weir_stream_record(struct weir_stream *stream,
				struct weir_event *event) WEIR_NONNULL(1, 2);
/*
 * Hold later work of @stream back until @event, as recorded now, is done. An
 * event never recorded is done. If it fails, the stream fails with -ECANCELED
 * naming the cause. -EINVAL: an event of another root.
 */
WEIR_API int weir_stream_wait(struct weir_stream *stream,
			      struct weir_event *event) WEIR_NONNULL(1, 2);

/*
 * Block until everything queued so far is done. -ETIMEDOUT: it is not yet, and
 * nothing else. The stream's error if it failed.
 */
WEIR_API int weir_stream_sync(struct weir_stream *stream, int64_t timeout_ns)
	WEIR_NONNULL(1);
/* 0 and all zeroes if the stream has not failed; else the failure's errno. */
WEIR_API int weir_stream_error(struct weir_stream *stream,
			       struct weir_failure *ret_failure)
	WEIR_NONNULL(1, 2);
/*
 * Make a failed stream usable again. Events recorded before stay failed.
 * -EBUSY: work is still out. -ENODEV: the device is lost.
 */
WEIR_API int weir_stream_reset(struct weir_stream *stream) WEIR_NONNULL(1);

#define WEIR_EVENT_TIMED 0x01u

/* An event belongs to no device. Free it at any time. */
WEIR_API int weir_event_new(struct weir *weir, unsigned flags,
			    struct weir_event **ret_event)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;
WEIR_API void weir_event_free(struct weir_event *event);

/*
 * 1: done (or never recorded). 0: not yet. < 0: failed; the errno of the
 * cause, or -ECANCELED after an earlier failure. Never blocks.
 */
WEIR_API int weir_event_query(struct weir_event *event) WEIR_NONNULL(1);
/*
 * 0: done. -ETIMEDOUT: not yet, and nothing else; a failure with that number
 * is -EIO. Else as the query. @timeout_ns -1: for ever, 0: ask.
 */
WEIR_API int weir_event_wait(struct weir_event *event, int64_t timeout_ns)
	WEIR_NONNULL(1);
/*
 * A descriptor that is readable while the event is done or failed, for poll
 * and epoll. It belongs to the event; never read from it or close it. Made at
 * the first call. -EMFILE, -ENFILE, -ENOMEM.
 */
WEIR_API int weir_event_fd(struct weir_event *event) WEIR_NONNULL(1);
/* As weir_stream_error, for what the event was recorded in. */
WEIR_API int weir_event_error(struct weir_event *event,
			      struct weir_failure *ret_failure)
	WEIR_NONNULL(1, 2);
/*
 * Time from the completion of @from to that of @to. -EINVAL: one was not made
 * with WEIR_EVENT_TIMED, was never recorded in a stream, or in streams of two
 * devices. -EAGAIN: one is not done yet.
 */
WEIR_API int weir_event_elapsed(struct weir_event *from, struct weir_event *to,
				int64_t *ret_ns) WEIR_NONNULL(1, 2, 3);

WEIR__END

#endif
