/* SPDX-License-Identifier: MIT */
/*
 * Problems of placement whose optimum is known, because they are made from a
 * placement: at some moment its items fill the memory without a gap. The same
 * arguments make the same problem everywhere. bench/exact uses them too.
 */
#ifndef EXACT_MADE_H
#define EXACT_MADE_H

#include "place/exact.h"

#define EXACT_MADE_MAX 512

enum exact_shape {
	/* A rectangle of time and memory, divided again and again: no gaps. */
	EXACT_TILES,
	/* Steps of a graph: short activations between long ones, many sizes. */
	EXACT_STEPS,
	/* The same, with few sizes, as layers that repeat have them. */
	EXACT_LAYERS,
};
#define EXACT_SHAPES 3

struct exact_made {
	size_t n;
	uint64_t height; /* the optimum, and the height of offset[] */
	struct weir__exact_item item[EXACT_MADE_MAX];
	uint64_t offset[EXACT_MADE_MAX];
};

/* @n is at most EXACT_MADE_MAX. */
void exact_make(enum exact_shape shape, size_t n, uint64_t seed,
		struct exact_made *ret);

#endif
