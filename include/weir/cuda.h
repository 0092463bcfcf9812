/* SPDX-License-Identifier: MIT */
/*
 * Beside CUDA code: streams and device memory of the caller's in weir's calls,
 * and weir's in the caller's. No header of CUDA's is needed: CUstream points
 * to struct CUstream_st, and cudaStream_t is the same. All of it is in the
 * device's primary context, which is the one of the runtime API.
 *
 * Not part of <weir.h>: include it by itself.
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
 * A stream of weir's around a CUstream of @dev that belongs to the caller (a
 * framework's, say) and outlives it; NULL is the default stream.
 *
 * What is queued through weir goes to it at once, in order with what others
 * queue there, so nothing can be held back. Three calls block instead:
 * weir_stream_wait() until all that the event needs is with the driver or done
 * (not if weir_event_query() says that it is done); reads and writes of files
 * until their copies are with the driver, or, with memory of the host's, until
 * everything before is done and the bytes are moved; and all that uses memory
 * which is not page-locked. Functions of weir_stream_call() run on a thread of
 * the driver's, and may call neither weir nor CUDA. An event that is recorded
 * in it covers what others have queued before.
 *
 * NULL and CU_STREAM_LEGACY (0x1) are the same stream: its work waits for that
 * of all streams of the context that were not made CU_STREAM_NON_BLOCKING, and
 * theirs for it. While a stream is captured into a graph, work for it fails
 * with -EIO.
 *
 * -EOPNOTSUPP: @dev is not CUDA's. -EINVAL: CU_STREAM_PER_THREAD (0x2), which is
 * another stream on each thread. -EBUSY: it is being captured.
 */
WEIR_API int weir_cuda_stream_wrap(struct weir_dev *dev,
				   struct CUstream_st *stream,
				   struct weir_stream **ret_stream)
	WEIR_NONNULL(1, 3) WEIR_NODISCARD;

/*
 * The CUstream of a wrapped stream, or of one made with WEIR_STREAM_NATIVE,
 * which behaves as a wrapped one and ends with @stream. -EOPNOTSUPP: of any
 * other stream, whose queue in software would be overtaken.
 */
WEIR_API int weir_cuda_stream_native(struct weir_stream *stream,
				     struct CUstream_st **ret_stream)
	WEIR_NONNULL(1, 2);

/*
 * A buffer of device memory that belongs to the caller: @size bytes at the
 * CUdeviceptr @ptr, of any alignment. It may span pieces that were mapped side
 * by side (cuMemMap, expandable segments). As weir_buf_wrap() otherwise.
 * -EINVAL: not device memory, or beyond the end of what is allocated there in a
 * row.
 */
WEIR_API int weir_cuda_buf_wrap(struct weir_dev *dev, uint64_t ptr, size_t size,
				void (*release)(void *arg), void *arg,
				struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 6) WEIR_NODISCARD;

/*
 * The CUdeviceptr of byte 0. -EOPNOTSUPP: a buffer of another backend.
 * -EINVAL: a joined buffer has none: ask its members.
 */
WEIR_API int weir_cuda_buf_ptr(const struct weir_buf *buf, uint64_t *ret_ptr)
	WEIR_NONNULL(1, 2);

WEIR__END

#endif
