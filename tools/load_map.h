/* SPDX-License-Identifier: MIT */
/*
 * The memory map of a load: its buffers and what is in them (load_map.c), drawn
 * as a picture (load_map_svg.c).
 */
#ifndef TOOLS_LOAD_MAP_H
#define TOOLS_LOAD_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir.h>

struct load_job;
struct svg;

/* The bytes [begin, end) of a buffer that a tensor has. */
struct map_piece {
	uint64_t begin, end;
	size_t tensor;   /* of the weights */
	size_t buf;      /* its buffer */
	bool begins_run; /* its neighbour in memory is not that in the file */
};

/* A buffer, not joined. */
struct map_buf {
	struct weir_buf *buf;
	struct weir_buf_info info;
	size_t first, n; /* its pieces, by address */
	size_t runs;
	uint64_t gap_bytes; /* of no tensor, in so many gaps */
	size_t gaps;
};

struct map {
	const struct weir_weights *weights;
	struct map_buf *buf; /* the largest first */
	size_t n_bufs;
	struct map_piece *piece;
	size_t n;
	uint64_t bytes; /* of all buffers */
};

/*
 * Returns 0, or EXIT_FAILURE after a line on stderr. In each case call
 * map_free(). The weights stay until then.
 */
int map_collect(const struct weir_weights *weights, struct map *ret_map);
void map_free(struct map *map);

/* Draw job->weights to an open @svg, and close it. Returns as map_collect(). */
int load_map_draw(const struct load_job *job, struct svg *svg);

#endif
