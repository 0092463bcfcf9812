/* SPDX-License-Identifier: MIT */
/*
 * Random calls of heaps. WEIR_T_SEED is the seed, WEIR_T_STEPS the number of
 * calls.
 */
#ifndef DRAWS_H
#define DRAWS_H

#include <stdint.h>

/* The value of a variable of the environment; @otherwise if it is not set. */
uint64_t number_from(const char *name, uint64_t otherwise);
/* Begin with WEIR_T_SEED, or with a fixed seed, and print it. */
void draws_begin(void);
/* The next number below @n. One thread at a time. */
uint32_t draw(uint32_t n);

#endif
