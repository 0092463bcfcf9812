/* SPDX-License-Identifier: MIT */
/* Shared by the rows of loads to a GPU. */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include <stdbool.h>

/*
 * Open the driver; the stand-in is set to move bytes as fast as it can. Returns
 * whether it is the stand-in.
 */
bool device_begin(void);
/* The same; true: row @name was skipped, since it needs the other driver. */
bool device_needs_gpu(const char *name);
bool device_needs_stand_in(const char *name);

#endif
