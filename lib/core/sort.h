/* SPDX-License-Identifier: MIT */
/* A stable sort of many items by two numbers. */
#ifndef WEIR__SORT_H
#define WEIR__SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__sort_key { /* minor decides between keys of equal major */
	uint64_t major, minor;
};

/*
 * Sort @n items of @size bytes, a multiple of 8, each of which begins with a
 * struct weir__sort_key. Items with equal keys keep their order. Items
 * that are not in order yet take memory: -ENOMEM, without a sentence.
 */
int weir__sort(void *items, size_t n, size_t size);

static inline bool weir__sort_less(const struct weir__sort_key *a,
				   const struct weir__sort_key *b)
{
	return a->major < b->major ||
	       (a->major == b->major && a->minor < b->minor);
}

/* The bits of @i, so that negative numbers come first. */
static inline uint32_t weir__sort_int32(int32_t i)
{
	return (uint32_t)i ^ (UINT32_C(1) << 31);
}

#endif
