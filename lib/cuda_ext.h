/* SPDX-License-Identifier: MIT */
/*
 * What only the CUDA module can do, for the calls of <weir/cuda.h>: a table
 * that weir_dev_proc(dev, WEIR__CUDA_EXT) leads to.
 */
#ifndef WEIR__CUDA_EXT_H
#define WEIR__CUDA_EXT_H

#include <stddef.h>
#include <stdint.h>

struct weir_dev;

#define WEIR__CUDA_EXT "weir_cuda_ext"

struct weir__cuda_ext {
	size_t size;
	/* A queue around the CUstream of the caller's. */
	int (*queue_wrap)(struct weir_dev *dev, void *stream, void **ret_queue);
	/* -EOPNOTSUPP: of a queue that was not made for it. */
	int (*queue_native)(void *queue, void **ret_stream);
	/* -EINVAL: not @bytes of device memory. The device is in use. */
	int (*check_pointer)(struct weir_dev *dev, uint64_t ptr, size_t bytes);
};

typedef const struct weir__cuda_ext *weir__cuda_ext_fn(void);

#endif
