/* SPDX-License-Identifier: MIT */
/*
 * Streams, which are in-order queues of a device, and events.
 *
 * Calls that queue an operation return without waiting for it. (On native and
 * wrapped streams some block: see weir/cuda.h.) 0 means that the operation was
 * queued; a failure later is kept in the stream. The effects of operations
 * become visible in the order of the queue.
 *
 * The stream references the buffers and files of queued operations. Plain
 * memory of the caller must stay valid, and sources must not change, until an
 * event recorded after the operation is done.
 *
 * After an operation has failed, all later operations of the stream complete
 * with -ECANCELED, even those that were already running, and no further ones
 * start, until weir_stream_reset().
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
	uint32_t flags;    /* 0 or WEIR_STREAM_NATIVE */
	uint32_t reserved; /* 0 */
	const char *name;  /* shown in traces; copied; NULL: none */
};
WEIR__DECLARE_OPTS_INIT(weir_stream_opts)
#define WEIR_STREAM_OPTS_INIT WEIR__OPTS_INIT(weir_stream_opts)

/*
 * Make a native stream. The program can get its handle in the device's own
 * interface (weir_cuda_stream_native()) and queue work in it with other code.
 * It behaves as a wrapped stream does: see weir/cuda.h.
 */
#define WEIR_STREAM_NATIVE 0x01u

/*
 * Make a stream of @dev. weir_stream_free() takes NULL and never blocks:
 * queued operations still run.
 *
 * -EOPNOTSUPP: WEIR_STREAM_NATIVE on a device without native handles. -EINVAL:
 * invalid options. -ENOMEM. -ENODEV: the device is lost.
 */
WEIR_API int weir_stream_new(struct weir_dev *dev,
			     const struct weir_stream_opts *opts,
			     struct weir_stream **ret_stream)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;
WEIR_API void weir_stream_free(struct weir_stream *stream);

/*
 * Copy @n bytes between memory of the caller and a tensor, from byte @off of
 * the tensor on. The tensor is contiguous, and placed in memory of the host or
 * of the stream's device.
 *
 * Errors of all operations: -EINVAL: out of bounds, not placed, not
 * contiguous, or memory that the device cannot access. -EROFS: a write to
 * memory of kind MAPPED. -ECANCELED: the stream has failed. -ENOMEM. The
 * failure of a stream of a CPU, whose first operation starts its thread, may
 * be -EAGAIN: the thread cannot be started.
 */
WEIR_API int weir_stream_set(struct weir_stream *stream,
			     const struct weir_tensor *dst, size_t off,
			     const void *src, size_t n) WEIR_NONNULL(1, 2);
WEIR_API int weir_stream_get(struct weir_stream *stream,
			     const struct weir_tensor *src, size_t off,
			     void *dst, size_t n) WEIR_NONNULL(1, 2);

/*
 * Copy a rectangle (weir/tensor.h), as weir_stream_set() and weir_stream_get()
 * copy bytes. -EINVAL: a pitch is less than the width.
 */
WEIR_API int weir_stream_set_2d(struct weir_stream *stream,
				const struct weir_tensor *dst,
				const struct weir_rect *rect, const void *src)
	WEIR_NONNULL(1, 2, 3);
WEIR_API int weir_stream_get_2d(struct weir_stream *stream,
				const struct weir_tensor *src,
				const struct weir_rect *rect, void *dst)
	WEIR_NONNULL(1, 2, 3);

/* Fill @n bytes of @dst, from byte @off of it on, with @byte. */
WEIR_API int weir_stream_fill(struct weir_stream *stream,
			      const struct weir_tensor *dst, size_t off,
			      size_t n, uint8_t byte) WEIR_NONNULL(1, 2);
/*
 * Copy @src to @dst, with the rules of weir_tensor_copy(). Between memory of
 * the host and of a device, @stream must be of that device; between two CUDA
 * devices, it may be of any CUDA device of the root. -EINVAL: it is not.
 */
WEIR_API int weir_stream_copy(struct weir_stream *stream,
			      const struct weir_tensor *dst,
			      const struct weir_tensor *src)
	WEIR_NONNULL(1, 2, 3);

/*
 * Read @n bytes at offset @file_off of @file to byte @off of @dst, or write
 * them from byte @off of @src. Consecutive reads and writes of a stream run
 * concurrently unless their ranges overlap. A write does not flush the file:
 * to do so, call fdatasync(2) on a descriptor of your own when it is done.
 *
 * If weir_opts.io is WEIR_IO_AUTO, a read to host memory on a stream with
 * nothing queued may copy from the page cache on the calling thread, without
 * waiting for the disk: up to 1 MiB in all calls since the thread last waited
 * for an event or asked for its state.
 *
 * -EBADF: a write, and the file was opened for reading only. Failures of the
 * stream: -ENODATA: the file ends before the end of the range. -ETIME: a read
 * did not end within weir_opts.read_timeout. Errors of read(2) and write(2).
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
 * Read a rectangle: its first row is at offset @file_off of @file, and
 * @rect->host_pitch is the distance between the starts of rows in the file.
 * The bytes between the rows of @dst do not change. Rows that are not far
 * apart are read together with the bytes between them. Errors of
 * weir_stream_read(). The calling thread never copies the bytes itself.
 */
WEIR_API int weir_stream_read_2d(struct weir_stream *stream,
				 struct weir_file *file, uint64_t file_off,
				 const struct weir_tensor *dst,
				 const struct weir_rect *rect)
	WEIR_NONNULL(1, 2, 4, 5);

/*
 * Call @fn(@arg) on a thread of the library when all earlier operations of the
 * stream are done. If it returns a negative errno, the stream fails with it.
 *
 * @fn may call weir, but not close the root. The stream does not continue
 * while @fn runs, so @fn must not wait for this stream. On a native or wrapped
 * stream it may call neither weir nor the device's own interface.
 */
WEIR_API int weir_stream_call(struct weir_stream *stream, int (*fn)(void *arg),
			      void *arg) WEIR_NONNULL(1, 2);

/*
 * Record @event at the current tail of @stream: the event is done when all
 * work queued before this call is done. Recording it again replaces this
 * record, but waits that have begun keep it.
 *
 * If the stream has failed, the event is recorded as failed, and the call
 * returns the stream's error. -ENOMEM: the stream is native, or the event is
 * timed or has a descriptor; the event is as before. -EIO: the stream is
 * native and is being captured; the event is as before, and the stream has not
 * failed.
 */
WEIR_API int weir_stream_record(struct weir_stream *stream,
				struct weir_event *event) WEIR_NONNULL(1, 2);
/*
 * Make later work of @stream wait until @event, as it is recorded now, is
 * done. An event that was never recorded is done. If the event fails, the
 * stream fails with -ECANCELED and a sentence that names the cause.
 * -EINVAL: an event of another root.
 */
WEIR_API int weir_stream_wait(struct weir_stream *stream,
			      struct weir_event *event) WEIR_NONNULL(1, 2);

/*
 * Block until everything that was queued so far is done, for at most
 * @timeout_ns. Returns 0, or the error of the stream if it has failed.
 *
 * -ETIMEDOUT: it is not done yet; the call returns -ETIMEDOUT for no other
 * reason. -ENOMEM: the stream is native; the call has not waited.
 */
WEIR_API int weir_stream_sync(struct weir_stream *stream, int64_t timeout_ns)
	WEIR_NONNULL(1);
/*
 * Returns 0 and sets *ret_failure to zeroes if the stream has not failed.
 * Otherwise returns the errno of the failure, which *ret_failure describes.
 */
WEIR_API int weir_stream_error(struct weir_stream *stream,
			       struct weir_failure *ret_failure)
	WEIR_NONNULL(1, 2);
/*
 * Make a failed stream usable again. Events that were recorded after the
 * failure and before this call stay failed.
 * -EBUSY: operations are still running; call weir_stream_sync() first.
 * -ENODEV: the device is lost. -ENOMEM.
 */
WEIR_API int weir_stream_reset(struct weir_stream *stream) WEIR_NONNULL(1);

#define WEIR_EVENT_TIMED 0x01u /* weir_event_elapsed() can measure */

/*
 * Make an event, which marks a point in a stream (weir_stream_record()) or in
 * a load (weir_load_record()), or the end of a run (weir_run_record()). It
 * belongs to no device. It may be freed at any time, also while streams wait
 * for it. -EINVAL: unknown flags. -ENOMEM.
 */
WEIR_API int weir_event_new(struct weir *weir, unsigned flags,
			    struct weir_event **ret_event)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;
WEIR_API void weir_event_free(struct weir_event *event);

/*
 * Returns 1 if the event is done or was never recorded, 0 if it is not done
 * yet, and a negative errno if it has failed: that of the cause, or -ECANCELED
 * after an earlier failure. Never blocks.
 */
WEIR_API int weir_event_query(struct weir_event *event) WEIR_NONNULL(1);
/*
 * Block until the event is done or has failed, for at most @timeout_ns (0: do
 * not wait). Returns 0, or the errno of the failure. -ETIMEDOUT: it is not
 * done yet; the call returns it for no other reason, since work that fails
 * with ETIMEDOUT is reported as -EIO.
 */
WEIR_API int weir_event_wait(struct weir_event *event, int64_t timeout_ns)
	WEIR_NONNULL(1);
/*
 * Returns a file descriptor that is readable while the event is done or
 * failed, for poll(2) and epoll(7). The first call makes it. It belongs to the
 * event: do not read from it and do not close it. -EMFILE, -ENFILE, -ENOMEM.
 */
WEIR_API int weir_event_fd(struct weir_event *event) WEIR_NONNULL(1);
/*
 * Returns 0 and sets *ret_failure to zeroes if the event has not failed.
 * Otherwise returns the errno of the failure, which *ret_failure describes.
 * After an earlier failure of the stream the errno is -ECANCELED, and the text
 * names the cause.
 */
WEIR_API int weir_event_error(struct weir_event *event,
			      struct weir_failure *ret_failure)
	WEIR_NONNULL(1, 2);
/*
 * The nanoseconds from the completion of @from to that of @to. -EINVAL: one of
 * them was made without WEIR_EVENT_TIMED or is not recorded in a stream, or
 * the streams are of different devices. -EAGAIN: one of them is not done yet.
 * If one of them has failed, the call returns its errno.
 */
WEIR_API int weir_event_elapsed(struct weir_event *from, struct weir_event *to,
				int64_t *ret_ns) WEIR_NONNULL(1, 2, 3);

WEIR__END

#endif
