/* SPDX-License-Identifier: MIT */
/*
 * How much a call does, as a count that is the same on a busy machine. The
 * tests that use it are linked with a copy of the library's heaps, streams and
 * core in which each basic block calls a function that counts.
 */
#ifndef STEPS_H
#define STEPS_H

#include <stdint.h>

/* The basic blocks of that code that this thread has executed. */
uint64_t steps(void);

#endif
