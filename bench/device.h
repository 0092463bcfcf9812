/* SPDX-License-Identifier: MIT */
/* What the rows of loads to a GPU have in common. */
#ifndef BENCH_DEVICE_H
#define BENCH_DEVICE_H

#include <stdbool.h>

/*
 * The driver is open; the stand-in is set to move bytes as fast as it can. Is
 * it the stand-in?
 */
bool device_begin(void);
/* The same; true: the row @name was skipped, since this is not the one. */
bool device_needs_gpu(const char *name);
bool device_needs_stand_in(const char *name);

#endif
