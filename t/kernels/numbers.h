/* SPDX-License-Identifier: MIT */
/*
 * Random elements, the same in each run, for tests of products. One thread at a
 * time.
 */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stdint.h>
#include <weir.h>

uint32_t random_bits(void);
/* A number in [-1, 1). */
float random_float(void);
/* Or ends the test. */
struct weir_dtype_info info_of(enum weir_dtype dtype);

#endif
