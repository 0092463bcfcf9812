/* SPDX-License-Identifier: MIT */
/*
 * Arrays with an entry for each tensor or buffer of a load. From 1 MiB on they
 * are in huge pages where the system has them: page faults and TLB misses would
 * take longer than filling in the array.
 */
#ifndef WEIR__ARRAY_H
#define WEIR__ARRAY_H

#include <stddef.h>

/* Before the entries, which begin at a line of the cache if mapped. */
struct weir__array_header {
	void *block;   /* NULL: room in another object */
	size_t mapped; /* bytes of a mapping at block; 0: it is of malloc */
};

/*
 * Room for the first entries of an array in the object that has the array, so
 * that a small object is one block of memory. All bytes of the room are 0 at
 * first. The array is `entry` until weir__array_grow() moves it;
 * weir__array_free() accepts both.
 */
#define WEIR__ARRAY_ROOM(type, n)                 \
	struct {                                  \
		struct weir__array_header header; \
		type entry[n];                    \
	}

/* @n entries of @size bytes, not initialised. NULL: no memory. */
void *weir__array_alloc(size_t n, size_t size);
/* As weir__grow(), for such an array; a new one gets the room asked for. */
void *weir__array_grow(void *array, size_t *cap, size_t n, size_t size);
void weir__array_free(void *array); /* NULL is allowed */

#endif
