/* SPDX-License-Identifier: MIT */
/* Attention of one unit: some queries and the positions of one head. */
#ifndef WEIR__ATTENTION_H
#define WEIR__ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/backend.h>

#define WEIR__TILE 64 /* positions at a time; a multiple of 16 */

/* The dimensions of a node, and its units. */
struct weir__heads {
	int64_t heads, heads_k, group; /* heads = heads_k * group */
	int64_t tokens, positions;
	int64_t d, dv, dv_room; /* of rows; dv rounded up for vec->product */
	int64_t tile, tiles;    /* tokens of a unit; how many such */
	int64_t rows;           /* queries of a unit, at most: group * tile */
	int64_t units;
	int64_t batch; /* units that are computed together */
	/*
	 * The bits of a query's result depend on nothing but the query and the
	 * positions that count for it.
	 */
	bool invariant;
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

/*
 * The memory of units that are computed together: each tile of positions for one
 * after the other, since their rows of k and v are neighbours in a cache.
 */
struct weir__attention {
	float *kept;
	float *later;      /* room for as many, of later positions */
	size_t kept_apart; /* floats from a unit's to the next one's */
	float *q;          /* of each unit: [rows, d], times scale */
	float *score;      /* [rows, TILE] */
	float *bias;       /* [rows, TILE]: of the mask */
	float *live;       /* [TILE]: -infinity where no query counts it */
	float *k;          /* [TILE, d], or v: [TILE, dv_room] */
	float *k_turned;   /* [d, TILE] */
};

/* The intermediate result of a unit, or of a split of it. */
struct weir__attention_partial {
	float *sum;    /* [rows, dv_room]: exp(score - most) times v */
	float *most;   /* [rows]: the greatest score */
	float *weight; /* [rows]: the sum of exp(score - most) */
};

static inline size_t weir__kept_floats(const struct weir__heads *h)
{
	return (size_t)(h->rows * (h->dv_room + 2));
}

static inline struct weir__attention_partial
weir__kept_at(const struct weir__heads *h, float *p)
{
	struct weir__attention_partial kept = { .sum = p };

	kept.most = kept.sum + h->rows * h->dv_room;
	kept.weight = kept.most + h->rows;
	return kept;
}

/* Floats of scratch memory. */
size_t weir__attention_scratch(const struct weir__heads *h);
void weir__attention_lay_out(struct weir__attention *a,
			     const struct weir__heads *h, float *scratch);
/* Compute a->kept of the units [@unit, @end), for the positions [@from, @to). */
void weir__attention_units(const struct weir_backend_node *node,
			   const struct weir__heads *h,
			   const struct weir__attention *a, int64_t unit,
			   int64_t end, int64_t from, int64_t to);

#endif
