/* SPDX-License-Identifier: MIT */
/*
 * The bus to a GPU, and what page-locking costs there, by calls to the driver
 * of the bench's own: what weir is compared with.
 */
#ifndef BENCH_BUS_H
#define BENCH_BUS_H

#include <stdbool.h>

#include "raw.h"

/* Open the driver and the primary context of "CUDA<n>", or end the program. */
void bus_open(const char *device);
/* Is it t/fakecuda? */
bool bus_is_stand_in(void);
/* One of its options: t/fakecuda/README.md. Nothing on a real driver. */
void bus_set(const char *option, const char *value);
/* "NVIDIA H100 80GB HBM3, CUDA 13.0" */
const char *bus_name(void);

/* Copy so many bytes from page-locked memory, two copies of 32 MiB out. */
struct raw_result bus_copy(uint64_t bytes);
/* The driver's own call for page-locked memory, without giving it back. */
struct raw_result bus_alloc(uint64_t bytes);
/* Page-locked memory, and giving it back. */
unsigned char *bus_locked(uint64_t bytes);
void bus_unlock(unsigned char *mem);

#endif
