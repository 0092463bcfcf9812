/* SPDX-License-Identifier: MIT */
/* Attention of one unit: some queries and the positions of one head. */
#ifndef WEIR__ATTENTION_H
#define WEIR__ATTENTION_H

#include <stdint.h>

#include "dev/backend.h"

#define WEIR__TILE 64 /* positions at a time; a multiple of 16 */

/* The dimensions of a node, and its units. */
struct weir__heads {
	int64_t heads, heads_k, group; /* heads = heads_k * group */
	int64_t tokens, positions;
	int64_t d, dv, dv_room; /* of rows; dv rounded up for vec->product */
	int64_t tile, tiles;    /* tokens of a unit; how many such */
	int64_t rows;           /* queries of a unit, at most: group * tile */
	int64_t units;
};

/* The tokens of @unit: the last of a head may have fewer. */
static inline int64_t weir__attention_tokens(const struct weir__heads *h,
					     int64_t unit)
{
	int64_t left = h->tokens - unit % h->tiles * h->tile;

	return left < h->tile ? left : h->tile;
}

/* The head and the token of a query of @unit; it has group * tokens. */
static inline void weir__attention_query(const struct weir__heads *h,
					 int64_t unit, int64_t row,
					 int64_t *head, int64_t *token)
{
	int64_t tokens = weir__attention_tokens(h, unit);

	*head = unit / h->tiles % h->heads_k * h->group + row / tokens;
	*token = unit % h->tiles * h->tile + row % tokens;
}

/* The memory of a unit, all rows of floats. */
struct weir__attention {
	float *sum;      /* [rows, dv_room]: exp(score - most) times v */
	float *most;     /* [rows]: the greatest score */
	float *weight;   /* [rows]: the sum of exp(score - most) */
	float *q;        /* [rows, d], times scale */
	float *score;    /* [rows, TILE] */
	float *bias;     /* [rows, TILE]: of the mask */
	float *live;     /* [TILE]: -infinity where no query counts it */
	float *k;        /* [TILE, d], or v: [TILE, dv_room] */
	float *k_turned; /* [d, TILE] */
};

/* Floats of scratch memory. */
size_t weir__attention_scratch(const struct weir__heads *h);
void weir__attention_lay_out(struct weir__attention *a,
			     const struct weir__heads *h, float *scratch);
/* sum, most and weight of @unit for the positions [@from, @to). */
void weir__attention_unit(const struct weir__node *node,
			  const struct weir__heads *h,
			  const struct weir__attention *a, int64_t unit,
			  int64_t from, int64_t to);

#endif
