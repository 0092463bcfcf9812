/* SPDX-License-Identifier: MIT */
/*
 * The functions of the CUDA module that <weir/cuda.h> needs beyond the tables
 * of weir/backend.h. weir_dev_proc(dev, WEIR__CUDA_EXT) returns the function
 * that returns the table; NULL: @dev is no CUDA device.
 */
#ifndef WEIR__INTEROP_CUDA_EXT_H
#define WEIR__INTEROP_CUDA_EXT_H

#include <stddef.h>
#include <stdint.h>

struct weir_dev;

#define WEIR__CUDA_EXT "weir_cuda_ext"

/* All members are required. @dev is in use. Any thread; none blocks. */
struct weir__cuda_ext {
	size_t size;
	/*
	 * Make a native queue around the caller's CUstream. -EINVAL: a stream
	 * that differs from thread to thread. -EBUSY: it is being captured.
	 */
	int (*queue_wrap)(struct weir_dev *dev, void *stream, void **ret_queue);
	/* The CUstream of a native queue. -EOPNOTSUPP: @queue is not native. */
	int (*queue_native)(void *queue, void **ret_stream);
	/* -EINVAL: there are not @bytes of device memory at @ptr. */
	int (*check_pointer)(struct weir_dev *dev, uint64_t ptr, size_t bytes);
};

typedef const struct weir__cuda_ext *weir__cuda_ext_fn(void);

#endif
