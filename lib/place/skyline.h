/* SPDX-License-Identifier: MIT */
/* The height of the placed boxes at each time: a tree of maxima. */
#ifndef WEIR__PLACE_SKYLINE_H
#define WEIR__PLACE_SKYLINE_H

#include <stddef.h>
#include <stdint.h>

struct weir__skyline {
	size_t leaves;  /* a power of two */
	uint64_t *max;  /* of each node; node 1 is the root */
	uint64_t *over; /* set for the whole node at once, 0: not */
};

/* @n moments (> 0), of height 0. -ENOMEM without a sentence. */
int weir__skyline_init(struct weir__skyline *s, size_t n);
void weir__skyline_free(struct weir__skyline *s);
/* Raise the moments [from, to) to @height, which is at least their maximum. */
void weir__skyline_raise(struct weir__skyline *s, size_t from, size_t to,
			 uint64_t height);
/* The maximum of the moments [from, to). */
uint64_t weir__skyline_max(const struct weir__skyline *s, size_t from,
			   size_t to);

#endif
