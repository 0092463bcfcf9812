/* SPDX-License-Identifier: MIT */
/*
 * Calls for programs that use CUDA themselves: weir can use their streams and
 * device memory, and they can use those of weir. All of these belong to the
 * primary context of the device, which the CUDA runtime API uses too.
 *
 * This header needs no header of CUDA: CUstream and cudaStream_t are pointers
 * to struct CUstream_st. <weir.h> does not include it.
 */
#ifndef WEIR_CUDA_H
#define WEIR_CUDA_H

#include <weir/base.h>
#include <weir/dev.h>
#include <weir/mem.h>
#include <weir/stream.h>

WEIR__BEGIN

struct CUstream_st;

/*
 * Make a weir stream around the CUstream @stream of @dev, which belongs to the
 * caller or to a framework, and must not be destroyed before the weir stream.
 * NULL is the default stream. Any thread; never blocks, except that the first
 * use of a device makes its context.
 *
 * Work queued through weir enters the CUstream at once, in order with work
 * that others queue there. Since weir cannot delay it, some calls block the
 * caller:
 *
 * - weir_stream_wait() blocks until all work before the event is submitted to
 *   the driver or done; it does not block if weir_event_query() returns 1;
 * - reads and writes of files block with device memory until their copies are
 *   submitted to the driver, and with host memory until all earlier work is
 *   done and the bytes are transferred;
 * - all operations with memory that is not page-locked block until it is
 *   copied.
 *
 * A function of weir_stream_call() runs on a thread of the driver, and may
 * call neither weir nor CUDA. An event that is recorded in the stream also
 * waits for work that others have queued before.
 *
 * NULL and CU_STREAM_LEGACY (0x1) are the same stream. CUDA makes its work
 * wait for that of all streams of the context that were made without
 * CU_STREAM_NON_BLOCKING, and the reverse. While a stream is captured into a
 * graph, weir's operations in it fail with -EIO.
 *
 * -EOPNOTSUPP: @dev is not a CUDA device. -EINVAL: @stream is
 * CU_STREAM_PER_THREAD (0x2), which is a different stream on each thread.
 * -EBUSY: the stream is being captured. -ENODEV: the device is lost.
 */
WEIR_API int weir_cuda_stream_wrap(struct weir_dev *dev,
				   struct CUstream_st *stream,
				   struct weir_stream **ret_stream)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;

/*
 * Get the CUstream of a stream that was wrapped, or made with
 * WEIR_STREAM_NATIVE; that of the latter is destroyed together with @stream.
 * -EOPNOTSUPP: @stream is neither. weir itself keeps the pending operations of
 * other streams, and work that is queued directly in the CUstream would
 * overtake them.
 */
WEIR_API int weir_cuda_stream_native(struct weir_stream *stream,
				     struct CUstream_st **ret_stream)
	WEIR_NONNULL(1, 2);

/*
 * Make a buffer of the caller's device memory: @size bytes at the CUdeviceptr
 * @ptr, which may have any alignment. The range may cover several allocations
 * that are mapped without gaps (cuMemMap; PyTorch's expandable segments).
 * @release is called as for weir_buf_wrap().
 * -EINVAL: it is not device memory, or not all of the range is allocated.
 * -EOPNOTSUPP: @dev is not a CUDA device.
 */
WEIR_API int weir_cuda_buf_wrap(struct weir_dev *dev, uint64_t ptr, size_t size,
				void (*release)(void *arg), void *arg,
				struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 6) WEIR_NODISCARD;

/*
 * Get the CUdeviceptr of the buffer's first byte. -EOPNOTSUPP: the buffer is
 * not of a CUDA device. -EINVAL: the buffer is joined; call this for its
 * members.
 */
WEIR_API int weir_cuda_buf_ptr(const struct weir_buf *buf, uint64_t *ret_ptr)
	WEIR_NONNULL(1, 2);

WEIR__END

#endif
