/* SPDX-License-Identifier: MIT */
/*
 * Arrays with an entry for each tensor or buffer of a load. From 1 MiB on they
 * are in huge pages where the system has them: page faults and TLB misses would
 * take longer than filling in the array.
 */
#ifndef WEIR__ARRAY_H
#define WEIR__ARRAY_H

#include <stddef.h>

/* @n entries of @size bytes, not initialised. NULL: no memory. */
void *weir__array_alloc(size_t n, size_t size);
/* As weir__grow(), for such an array; a new one gets the room asked for. */
void *weir__array_grow(void *array, size_t *cap, size_t n, size_t size);
void weir__array_free(void *array); /* NULL is allowed */

#endif
