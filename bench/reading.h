/* SPDX-License-Identifier: MIT */
/* The rate at which threads read memory: the best of several loops. */
#ifndef BENCH_READING_H
#define BENCH_READING_H

#include <stddef.h>

struct reading {
	const unsigned char *at;
	size_t bytes;
};

/*
 * Read @n ranges on @threads threads by each loop: shares of all ranges, or
 * blocks in turn; without prefetch instructions, or two distances ahead. The
 * seconds of the fastest; the bytes of a loop go to *@ret_bytes.
 */
double reading_best(const struct reading *range, size_t n, unsigned threads,
		    size_t *ret_bytes);

#endif
