/* SPDX-License-Identifier: MIT */
/*
 * The images as kernels/compile.sh makes them, compressed by zstd. What is
 * unpacked is freed by free(3). CUDA_ERROR_OUT_OF_MEMORY: there was no memory
 * for it; CUDA_ERROR_INVALID_IMAGE: these bytes are none of compile.sh.
 */
#ifndef WEIR__CUDA_UNPACK_H
#define WEIR__CUDA_UNPACK_H

#include <stddef.h>

#include "cuda/driver.h"

CUresult weir__cuda_unpack_ptx(const char *data, size_t size, char **ret_text);
/*
 * The code for @gpu, as 86 for compute capability 8.6: that of the same major
 * version with the greatest minor one that is not above the GPU's.
 * CUDA_ERROR_NO_BINARY_FOR_GPU: there is none.
 */
CUresult weir__cuda_unpack_code(const char *data, size_t size, int gpu,
				char **ret_code);

#endif
