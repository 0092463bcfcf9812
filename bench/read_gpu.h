/* SPDX-License-Identifier: MIT */
/*
 * The limit of products of one column on a GPU: a kernel that only reads its
 * memory (read.cu), by the bench's own calls to the driver, without weir.
 */
#ifndef BENCH_READ_GPU_H
#define BENCH_READ_GPU_H

#include <stddef.h>
#include <stdint.h>

/*
 * Allocate @parts parts of @bytes each, a multiple of 16, on "CUDA<n>", fill
 * them with @noise, and choose the grid with which the kernel reads them
 * fastest.
 */
void read_gpu_open(const char *device, size_t bytes, unsigned parts,
		   const void *noise, size_t noise_bytes);
/* Read @n parts, one launch for each, in turn. The seconds that it took. */
double read_gpu(unsigned n);
/* "8 blocks of 512 threads for each SM" */
const char *read_gpu_grid(void);
void read_gpu_close(void);

#endif
