/* SPDX-License-Identifier: MIT */
/*
 * The limits of a GPU: the rate of its bus and the cost of page-locking, by the
 * bench's own calls to the driver, without weir.
 */
#ifndef BENCH_BUS_H
#define BENCH_BUS_H

#include <stdbool.h>

#include "raw.h"

/* Open the driver and the primary context of "CUDA<n>", or end the program. */
void bus_open(const char *device);
/* A function of the driver, after bus_open(). Ends the program without it. */
void *bus_function(const char *symbol);
/* End the program with the driver's words if @result of @what is a failure. */
void bus_must(int result, const char *what);
/* Whether the driver is t/fakecuda. */
bool bus_is_stand_in(void);
/* Set an option of t/fakecuda; no effect on a real driver. */
void bus_set(const char *option, const char *value);
/* "NVIDIA H100 80GB HBM3, CUDA 13.0" */
const char *bus_name(void);

/* Copy @bytes from page-locked memory, two copies of 32 MiB in flight. */
struct raw_result bus_copy(uint64_t bytes);
/* Allocate page-locked memory with the driver's call, without freeing it. */
struct raw_result bus_alloc(uint64_t bytes);
/* Allocate page-locked memory, and free it. */
unsigned char *bus_locked(uint64_t bytes);
void bus_unlock(unsigned char *mem);

#endif
