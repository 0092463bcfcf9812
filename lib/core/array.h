/* SPDX-License-Identifier: MIT */
/* Arrays that grow; and arrays with an entry for each tensor of a load. */
#ifndef WEIR__ARRAY_H
#define WEIR__ARRAY_H

#include <stddef.h>

/*
 * Make room for element @n of @array, whose elements have @size bytes and whose
 * capacity is *@cap: returns the array, moved perhaps. The capacity doubles, so
 * that appending is linear. NULL: no memory; array and capacity are unchanged.
 * A new array is NULL with capacity 0. weir__free() frees it.
 */
void *weir__grow(void *array, size_t *cap, size_t n, size_t size);

/*
 * Arrays with an entry for each tensor or buffer of a load. From 1 MiB on they
 * are in huge pages where the system has them: page faults and TLB misses would
 * take longer than filling in the array.
 *
 * The header is before the entries, which begin at a line of the cache if they
 * are mapped.
 */
struct weir__array_header {
	void *block;   /* NULL: the entries are in another object */
	size_t mapped; /* bytes of a mapping at block; 0: it is from malloc */
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
/* Does what weir__grow() does; a new array gets the room asked for. */
void *weir__array_grow(void *array, size_t *cap, size_t n, size_t size);
void weir__array_free(void *array); /* NULL is allowed */

#endif
