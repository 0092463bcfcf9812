/* SPDX-License-Identifier: MIT */
/*
 * Attention: softmax(q k^T) v without the scores of all positions in memory. It
 * is computed for one block of queries at a time: the queries that a group of
 * heads, which share a head of k and v, has for some tokens. A block goes over
 * the positions in tiles of TILE, and keeps for each query the greatest score,
 * the sum of exp(score - greatest), and that sum with each exp times v (the
 * online softmax). With few tokens the positions are divided into splits too,
 * and a second phase adds up the results of the splits. Only tiles with a
 * position that a query of the block attends to are computed: the length of its
 * sequence, causal and the window say which.
 *
 * Invariant attention always splits the positions, SPLIT at a time, and adds up
 * the splits in their order: in a second phase with few tokens, else by the
 * thread that computed them. So its order depends on neither the threads nor
 * the tokens.
 */
#include <math.h>
#include <string.h>

#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/sequences.h"
#include "kernels/softmax.h"
#include "kernels/vec.h"
#include "kernels/walk.h"

#define TILE 64 /* positions that are computed at a time; a multiple of 16 */

/* The dimensions of a node, and its blocks of queries. */
struct attention_shape {
	int64_t heads, heads_k, group; /* heads = heads_k * group */
	int64_t tokens;
	int64_t d, dv;        /* elements of rows */
	int64_t dv_room;      /* dv, rounded up for vec->product */
	int64_t block_tokens; /* most tokens of a block */
	int64_t token_blocks; /* blocks of each head of k and v */
	int64_t rows;   /* most queries of a block: group * block_tokens */
	int64_t blocks; /* all of them */
	int64_t batch;  /* blocks that are computed together */
	/*
	 * The bits of a query's result depend on nothing but the query and the
	 * positions that its mask admits.
	 */
	bool invariant;
	struct weir__sequences sequences;
};

/* The number of tokens of @block. The last block of a head may have fewer. */
static int64_t block_tokens(const struct attention_shape *h, int64_t block)
{
	int64_t left = h->tokens - block % h->token_blocks * h->block_tokens;

	return left < h->block_tokens ? left : h->block_tokens;
}

/* The head and the token of query @row of @block, which has group * tokens. */
static void block_query(const struct attention_shape *h, int64_t block,
			int64_t row, int64_t *head, int64_t *token)
{
	int64_t tokens = block_tokens(h, block);

	*head = block / h->token_blocks % h->heads_k * h->group + row / tokens;
	*token = block % h->token_blocks * h->block_tokens + row % tokens;
}

/* The sequence of a block. */
static int64_t sequence_of(const struct attention_shape *h, int64_t block)
{
	return block / (h->token_blocks * h->heads_k);
}

static struct weir__attended attended_by_block(const struct attention_shape *h,
					       int64_t block)
{
	int64_t token = block % h->token_blocks * h->block_tokens;

	return weir__attended_by(&h->sequences, sequence_of(h, block), token,
				 token + block_tokens(h, block));
}

/*
 * The scratch memory for a batch of blocks. Each tile of positions is computed
 * for one block after the other, since their rows of k and v are neighbours in
 * a cache.
 */
struct attention_memory {
	float *state;       /* a struct softmax_state of each block */
	float *later;       /* as state, for later positions */
	size_t state_pitch; /* floats from a block's state to the next one's */
	float *q;           /* [rows, d] of each block, times scale */
	float *score;       /* [rows, TILE] */
	float *bias;        /* [rows, TILE]: the mask, times the slope */
	float *live;        /* [TILE]: -infinity if it is hidden from all */
	float *k;           /* [TILE, d], or v: [TILE, dv_room] */
	float *k_turned;    /* [d, TILE] */
};

/* The intermediate result of a block, or of a split of its positions. */
struct softmax_state {
	float *sum;    /* [rows, dv_room]: exp(score - most) times v */
	float *most;   /* [rows]: the greatest score */
	float *weight; /* [rows]: the sum of exp(score - most) */
};

static size_t state_floats(const struct attention_shape *h)
{
	return (size_t)(h->rows * (h->dv_room + 2));
}

static struct softmax_state state_at(const struct attention_shape *h, float *p)
{
	struct softmax_state state = { .sum = p };

	state.most = state.sum + h->rows * h->dv_room;
	state.weight = state.most + h->rows;
	return state;
}

static int64_t at_most(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

#define QUERIES 128 /* about, in a batch */
#define SPLIT (8 * TILE)

/*
 * The scores of so few queries are computed by products of rows: transposing k
 * is not worth it. Their terms are added in another order.
 */
#define FEW 3
#define FETCH 8 /* rows of a cache are prefetched so many rows ahead */

static size_t scratch_floats(const struct attention_shape *h)
{
	int64_t wide = h->d > h->dv_room ? h->d : h->dv_room;

	return (size_t)(h->rows * (h->batch * h->d + 2 * TILE) +
			TILE * (1 + wide + h->d)) +
	       (size_t)(h->invariant ? 2 : 1) * (size_t)h->batch *
		       state_floats(h);
}

static void scratch_lay_out(struct attention_memory *a,
			    const struct attention_shape *h, float *scratch)
{
	int64_t wide = h->d > h->dv_room ? h->d : h->dv_room;

	a->k_turned = scratch;
	a->score = a->k_turned + h->d * TILE;
	a->bias = a->score + h->rows * TILE;
	a->live = a->bias + h->rows * TILE;
	a->k = a->live + TILE;
	a->q = a->k + wide * TILE;
	a->state = a->q + h->batch * h->rows * h->d;
	a->state_pitch = state_floats(h);
	a->later = a->state + (size_t)h->batch * a->state_pitch;
}

/* The block that is being computed. */
struct query_block {
	const struct weir_backend_node *node;
	const struct attention_shape *h;
	const struct attention_memory *a;
	const struct weir__vec *vec;
	struct softmax_state state;
	float *q;
	const struct weir_operand *mask; /* or NULL */
	int64_t block, rows;             /* its number, and its queries */
	int64_t masks;  /* rows of bias, repeated for the queries */
	int64_t at, n;  /* the first position of this tile, and how many */
	bool has_sinks; /* it is the first split */
	bool is_biased; /* bias is added to the scores of this tile */
};

/* The head of k; heads are numbered through the outer dimensions of q. */
static int64_t head_k_of(const struct query_block *b)
{
	return b->block / b->h->token_blocks;
}

/*
 * Set @w to the row of q that query @row is, which is also its row of the mask.
 */
static void query_index(const struct query_block *b, int64_t row,
			struct weir__walk *w)
{
	const struct attention_shape *h = b->h;
	int64_t outer = head_k_of(b) / h->heads_k, head, token;

	block_query(h, b->block, row, &head, &token);
	weir__walk_start(w, &b->node->src[0],
			 (outer * h->heads + head) * h->tokens + token);
}

/* A sink is a score without a position. */
static void load_queries(const struct query_block *b)
{
	const struct weir_op_attention *p = b->node->params;
	const struct weir_operand *q = &b->node->src[0];
	size_t d = (size_t)b->h->d;
	struct weir__walk w;
	float sink;

	for (int64_t row = 0; row < b->rows; row++) {
		float *to = b->q + (size_t)row * d;

		query_index(b, row, &w);
		weir__floats_row(q->dtype, to, weir__walk_at(&w, q), d);
		b->vec->scale(to, to, p->scale, 0, d);
		sink = b->has_sinks ? weir__sink(b->node, 4, w.index[2])
				    : -INFINITY;
		b->state.most[row] = sink;
		/* 1, or NaN if the sink is +infinity or NaN. */
		b->state.weight[row] = sink == -INFINITY ? 0
							 : expf(sink - sink);
	}
	memset(b->state.sum, 0,
	       (size_t)(b->rows * b->h->dv_room) * sizeof(float));
}

/* The mask of query @row, times its slope; 0 if there is none. */
static void load_mask(const struct query_block *b, int64_t row, float *bias)
{
	const struct weir_op_attention *p = b->node->params;
	const struct weir_operand *mask = b->mask;
	size_t n = (size_t)b->n;
	const unsigned char *m;
	struct weir__walk w;
	float tmp[TILE];

	if (!mask) {
		memset(bias, 0, n * sizeof(*bias));
		return;
	}
	query_index(b, row, &w);
	m = weir__walk_at(&w, mask) + b->at * weir__stride(mask, 0);
	b->vec->scale(bias,
		      weir__floats_in(mask->dtype, m, weir__stride(mask, 0), n,
				      tmp),
		      weir__slope(p->max_bias, w.index[2], b->h->heads), 0, n);
}

/* Hide the positions of this tile to which query @row does not attend. */
static void hide_positions(const struct query_block *b, int64_t row,
			   float *bias)
{
	int64_t head, token;
	struct weir__attended r;

	block_query(b->h, b->block, row, &head, &token);
	r = weir__attended_by(&b->h->sequences, sequence_of(b->h, b->block),
			      token, token + 1);
	for (int64_t i = 0; i < b->n; i++)
		if (b->at + i < r.from || b->at + i >= r.to)
			bias[i] = -INFINITY;
}

/* True if all queries attend to all positions of this tile, without a mask. */
static bool all_attend(const struct query_block *b)
{
	const struct attention_shape *h = b->h;
	int64_t token = b->block % h->token_blocks * h->block_tokens;
	int64_t end = token + block_tokens(h, b->block);
	int64_t sequence = sequence_of(h, b->block);

	return !b->mask &&
	       b->at >= weir__attended_by(&h->sequences, sequence, end - 1, end)
				.from &&
	       b->at + b->n <= weir__attended_by(&h->sequences, sequence, token,
						 token + 1)
				       .to;
}

/* Load the bias of this tile. False if no query attends to its positions. */
static bool load_bias(struct query_block *b)
{
	size_t n = (size_t)b->n;

	b->is_biased = !all_attend(b);
	for (size_t i = 0; i < TILE; i++)
		b->a->live[i] = i < n && !b->is_biased ? 0 : -INFINITY;
	for (int64_t row = 0; row < b->masks && b->is_biased; row++) {
		float *bias = b->a->bias + row * TILE;

		load_mask(b, row, bias);
		hide_positions(b, row, bias);
		b->vec->maxes(b->a->live, bias, n);
	}
	for (size_t i = 0; i < n; i++)
		if (b->a->live[i] != -INFINITY)
			return true;
	return false;
}

/*
 * Prefetch a row. Rows of a cache are often far apart, so the CPU does not
 * prefetch them by itself. The address may be after the end of the tensor.
 */
static void fetch_row(const unsigned char *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch(p + i);
}

/* The row of @t, k or v, with a position of the block's sequence. */
static const unsigned char *row_at(const struct query_block *b,
				   const struct weir_operand *t, int64_t at)
{
	int64_t head = head_k_of(b), rows = weir__dim(t, 1);
	const struct attention_shape *h = b->h;
	struct weir__walk w;

	if (h->sequences.pages) {
		head %= h->heads_k;
		at = weir__page_of(&h->sequences, sequence_of(h, b->block),
				   at / h->sequences.page) *
			     h->sequences.page +
		     at % h->sequences.page;
	}
	weir__walk_start(&w, t, head * rows + at);
	return weir__walk_at(&w, t);
}

/* Load the tile of @t, k or v, as F32. Rows hidden from all become 0. */
static void load_tile(const struct query_block *b, const struct weir_operand *t,
		      size_t columns, size_t room)
{
	const struct weir_backend_convert *convert = weir__to_f32(t->dtype);
	size_t bytes = convert ? columns / convert->block * convert->src_bytes
			       : columns * sizeof(float);
	int64_t stride = weir__stride(t, 1);
	const unsigned char *p = NULL;

	for (int64_t i = 0; i < b->n; i++, p += stride) {
		float *to = b->a->k + (size_t)i * room;

		if (!i || (b->h->sequences.pages &&
			   (b->at + i) % b->h->sequences.page == 0))
			p = row_at(b, t, b->at + i);
		fetch_row(p + FETCH * stride, bytes);
		if (b->a->live[i] == -INFINITY) {
			memset(to, 0, room * sizeof(*to));
			continue;
		}
		weir__floats_row(t->dtype, to, p, columns);
		memset(to + columns, 0, (room - columns) * sizeof(*to));
	}
}

static const float *bias_of(const struct query_block *b, int64_t row)
{
	return b->a->bias + row % b->masks * TILE;
}

static void scores_of_few(const struct query_block *b)
{
	size_t d = (size_t)b->h->d;

	for (int64_t row = 0; row < b->rows; row++)
		for (int64_t i = 0; i < b->n; i++)
			b->a->score[row * TILE + i] =
				b->vec->dot(b->q + (size_t)row * d,
					    b->a->k + (size_t)i * d, d);
}

static void scores_of_many(const struct query_block *b)
{
	size_t d = (size_t)b->h->d;

	memset(b->a->k + (size_t)b->n * d, 0,
	       (size_t)(TILE - b->n) * d * sizeof(float));
	b->vec->transpose(b->a->k_turned, TILE, b->a->k, d, TILE, d);
	memset(b->a->score, 0, (size_t)(b->rows * TILE) * sizeof(float));
	b->vec->product(b->a->score, TILE, b->q, d, b->a->k_turned, TILE,
			(size_t)b->rows, TILE, d);
}

/*
 * Replace the scores of a query by exp(score - the greatest so far), which is 0
 * where the mask hides the position, and scale its state if the greatest score
 * changes.
 */
static void weigh_scores(const struct query_block *b, int64_t row)
{
	const struct weir_op_attention *p = b->node->params;
	float *score = b->a->score + row * TILE;
	float *sum = b->state.sum + row * b->h->dv_room;
	float *most = &b->state.most[row], *weight = &b->state.weight[row];
	size_t n = (size_t)b->n;
	float max, less, factor;

	if (p->softcap > 0)
		b->vec->softcap(score, p->softcap, n);
	if (b->is_biased)
		b->vec->bias(score, bias_of(b, row), n);
	/*
	 * Sum whole tiles: so the order does not depend on the number of
	 * positions.
	 */
	for (size_t i = n; i < TILE; i++)
		score[i] = -INFINITY;
	max = b->vec->max(score, TILE);
	if (max > *most) {
		factor = expf(*most - max);
		*most = max;
		*weight *= factor;
		b->vec->scale(sum, sum, factor, 0, (size_t)b->h->dv_room);
	}
	less = *most == -INFINITY ? 0 : *most;
	*weight += (float)b->vec->exp_sum(score, score, less, TILE);
}

/*
 * Add exp(score) times v, row by row: v has an infinity or NaN, which must not
 * reach the queries from which its position is hidden.
 */
static void add_values_apart(const struct query_block *b)
{
	size_t room = (size_t)b->h->dv_room;

	for (int64_t row = 0; row < b->rows; row++)
		for (int64_t i = 0; i < b->n; i++)
			if (!b->is_biased || bias_of(b, row)[i] != -INFINITY)
				b->vec->add_scaled(
					b->state.sum + (size_t)row * room,
					b->a->score[row * TILE + i],
					b->a->k + (size_t)i * room, room);
}

/* Add exp(score) times v of this tile to the state. */
static void add_values(const struct query_block *b)
{
	size_t room = (size_t)b->h->dv_room;

	if (!b->vec->finite(b->a->k, (size_t)b->n * room)) {
		add_values_apart(b);
		return;
	}
	b->vec->product(b->state.sum, room, b->a->score, TILE, b->a->k, room,
			(size_t)b->rows, room, (size_t)b->n);
}

static void tile_run(struct query_block *b)
{
	if (!load_bias(b))
		return;
	load_tile(b, &b->node->src[1], (size_t)b->h->d, (size_t)b->h->d);
	if (b->rows <= FEW && !b->h->invariant)
		scores_of_few(b);
	else
		scores_of_many(b);
	for (int64_t row = 0; row < b->rows; row++)
		weigh_scores(b, row);
	load_tile(b, &b->node->src[2], (size_t)b->h->dv, (size_t)b->h->dv_room);
	add_values(b);
}

/* True if the heads of a group have the same rows of the mask. */
static bool one_mask(const struct query_block *b)
{
	const struct weir_op_attention *p = b->node->params;

	return p->max_bias == 0 && (!b->mask || weir__dim(b->mask, 2) == 1);
}

/* Set the members of @b for block @i of the batch. */
static void block_start(struct query_block *b, int64_t i)
{
	b->q = b->a->q + i * b->h->rows * b->h->d;
	b->state = state_at(b->h, b->a->state + (size_t)i * b->a->state_pitch);
	b->masks = block_tokens(b->h, b->block);
	b->rows = b->h->group * b->masks;
	if (!one_mask(b))
		b->masks = b->rows;
}

/*
 * Compute the positions [@from, @to) of a batch, whose queries attend to the
 * same ones; @from is the first of a tile.
 */
static void blocks_attend(const struct weir_backend_node *node,
			  const struct attention_shape *h,
			  const struct attention_memory *a, int64_t block,
			  int64_t end, int64_t from, int64_t to, bool is_first)
{
	struct query_block b = { .node = node,
				 .h = h,
				 .a = a,
				 .vec = weir__vec(),
				 .has_sinks = is_first };
	struct weir__attended r = attended_by_block(h, block);

	if (node->n_src > 3 && node->src[3].data)
		b.mask = &node->src[3];
	for (b.block = block; b.block < end; b.block++) {
		block_start(&b, b.block - block);
		load_queries(&b);
	}
	if (from < r.from / TILE * TILE)
		from = r.from / TILE * TILE;
	to = at_most(to, r.to);
	for (b.at = from; b.at < to; b.at += b.n) {
		b.n = to - b.at < TILE ? to - b.at : TILE;
		for (b.block = block; b.block < end; b.block++) {
			block_start(&b, b.block - block);
			tile_run(&b);
		}
	}
}

static void heads_of(const struct weir_backend_node *node,
		     struct attention_shape *h)
{
	const struct weir_operand *q = &node->src[0], *k = &node->src[1];
	const struct weir_op_attention *params = node->params;

	h->invariant = params->precision != WEIR_PRECISION_FAST;
	h->heads = weir__dim(q, 2);
	h->heads_k = weir__dim(k, 2);
	h->group = h->heads_k ? h->heads / h->heads_k : 0;
	h->tokens = weir__dim(q, 1);
	weir__sequences_of(node, &h->sequences);
	h->d = weir__dim(q, 0);
	h->dv = weir__dim(&node->src[2], 0);
	h->dv_room = (h->dv + 15) / 16 * 16;
	h->block_tokens =
		at_most(h->tokens, QUERIES / (h->group ? h->group : 1));
	h->block_tokens = h->block_tokens > 0 ? h->block_tokens : 1;
	h->token_blocks = (h->tokens + h->block_tokens - 1) / h->block_tokens;
	h->rows = h->group * h->block_tokens;
	h->blocks = weir__outer(q, 3) * h->heads_k * h->token_blocks;
	h->batch = 1;
}

/* The most splits of the positions. */
static int64_t most_splits(const struct attention_shape *h)
{
	int64_t each = h->invariant ? SPLIT : TILE;

	return (h->sequences.positions + each - 1) / each;
}

/*
 * Choose how the work is divided. With few tokens the blocks of several heads
 * are computed together, and the positions are split so that all threads have a
 * part. Returns the number of splits; with 1 a thread computes all positions of
 * a block.
 */
static uint32_t split(struct attention_shape *h, unsigned threads)
{
	int64_t want = threads > 1 ? 2 * (int64_t)threads : 1, most, n;

	if (!h->blocks || !h->rows || h->token_blocks > 1)
		return 1;
	most = most_splits(h);
	h->batch = at_most(h->heads_k, QUERIES / h->rows);
	while (h->batch > 1 && h->blocks / h->batch * most < want)
		h->batch = (h->batch + 1) / 2;
	h->batch = h->batch > 1 ? h->batch : 1;
	/* Sequences do not attend to the same positions. */
	while (h->sequences.lengths && h->heads_k % h->batch)
		h->batch--;
	n = (want + h->blocks / h->batch - 1) / (h->blocks / h->batch);
	n = at_most(n, most);
	if (h->invariant && n > 1)
		n = most <= UINT16_MAX ? most : 1;
	return n > 1 ? (uint32_t)n : 1;
}

static int64_t batches(const struct attention_shape *h)
{
	return (h->blocks + h->batch - 1) / h->batch;
}

static int attention_supports(const struct weir_backend_node *node)
{
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t dtype = node->src[i].dtype;

		if (dtype != WEIR_DTYPE_F32 && !weir__to_f32(dtype))
			return weir__kernel_refuse(
				node, "source %u is not converted to F32", i);
		if (weir__to_f32(dtype) &&
		    weir__dim(&node->src[i], 0) % weir__to_f32(dtype)->block)
			return weir__kernel_refuse(node,
						   "rows are not whole blocks");
	}
	return 0;
}

/* The cost of the node, about, in ns. */
static uint64_t cost_of(const struct weir_backend_node *node,
			const struct attention_shape *h)
{
	uint64_t pairs;

	if (__builtin_mul_overflow((uint64_t)weir__rows(&node->src[0]),
				   (uint64_t)h->sequences.positions, &pairs) ||
	    __builtin_mul_overflow(pairs, (uint64_t)(h->d + h->dv), &pairs))
		pairs = UINT64_MAX;
	return pairs / 20;
}

static void attention_plan(const struct weir_backend_node *node,
			   unsigned threads, struct weir__kernel_plan *ret)
{
	struct attention_shape h;

	/* If a dimension is 0 the others may be too large to be multiplied. */
	if (weir__elements(&node->dst) == 0)
		return;
	heads_of(node, &h);
	ret->variant = split(&h, threads);
	ret->scratch = scratch_floats(&h) * sizeof(float);
	ret->cost = cost_of(node, &h);
	ret->parts = weir__kernel_parts(
		ret->cost, (uint64_t)batches(&h) * ret->variant, threads);
	ret->phases = ret->variant > 1 ? 2 : 1;
	if (ret->variant > 1)
		ret->shared = (size_t)h.blocks * ret->variant *
			      state_floats(&h) * sizeof(float);
	ret->variant |= (uint32_t)h.batch << 16;
}

/*
 * Where the result of a head and a token goes; @b is the index of outer
 * dimensions.
 */
static float *result_at(const struct weir_backend_node *node,
			const struct attention_shape *h, int64_t b,
			int64_t head, int64_t token)
{
	return (float *)node->dst.data +
	       ((b * h->tokens + token) * h->heads + head) * h->dv;
}

/*
 * Store @sum, of exp(score) times v, divided by @weight, the sum of exp(score).
 */
static void result_store(float *d, const float *sum, float weight, int64_t n)
{
	if (weight == 0)
		memset(d, 0, (size_t)n * sizeof(*d));
	else
		weir__vec()->scale(d, sum, 1 / weight, 0, (size_t)n);
}

static void block_store(const struct weir_backend_node *node,
			const struct attention_shape *h, int64_t block,
			const struct softmax_state *state)
{
	int64_t b = sequence_of(h, block), head, token;
	int64_t rows = h->group * block_tokens(h, block);

	for (int64_t row = 0; row < rows; row++) {
		block_query(h, block, row, &head, &token);
		result_store(result_at(node, h, b, head, token),
			     state->sum + row * h->dv_room, state->weight[row],
			     h->dv);
	}
}

/* Add row @row of @from, the state of later positions, to that of @to. */
static void state_add(const struct attention_shape *h, float *to, float *from,
		      int64_t row)
{
	struct softmax_state a = state_at(h, to), b = state_at(h, from);
	float *sum = a.sum + row * h->dv_room, most = a.most[row], less, x, y;

	/*
	 * Without a position that is admitted the bits of @to may not change.
	 */
	if (b.most[row] == -INFINITY && b.weight[row] == 0)
		return;
	most = b.most[row] > most ? b.most[row] : most;
	less = most == -INFINITY ? 0 : most;
	x = expf(a.most[row] - less);
	y = expf(b.most[row] - less);
	a.most[row] = most;
	a.weight[row] = x * a.weight[row] + y * b.weight[row];
	weir__vec()->scale(sum, sum, x, 0, (size_t)h->dv);
	weir__vec()->add_scaled(sum, y, b.sum + row * h->dv_room,
				(size_t)h->dv);
}

static void block_add(const struct attention_shape *h, int64_t block, float *to,
		      float *from)
{
	int64_t rows = h->group * block_tokens(h, block);

	for (int64_t row = 0; row < rows; row++)
		state_add(h, to, from, row);
}

/*
 * Compute a batch, SPLIT positions at a time, and add each split to the first.
 */
static void blocks_in_turn(const struct weir_backend_node *node,
			   const struct attention_shape *h,
			   const struct attention_memory *a, int64_t block,
			   int64_t end)
{
	struct attention_memory later = *a;
	struct weir__attended r = attended_by_block(h, block);
	int64_t apart, at = r.from / SPLIT * SPLIT;

	later.state = a->later;
	apart = (int64_t)a->state_pitch;
	blocks_attend(node, h, a, block, end, 0, SPLIT, true);
	for (at = at ? at : SPLIT; at < r.to; at += SPLIT) {
		blocks_attend(node, h, &later, block, end, at, at + SPLIT,
			      false);
		for (int64_t k = block; k < end; k++)
			block_add(h, k, a->state + (k - block) * apart,
				  later.state + (k - block) * apart);
	}
}

/*
 * False if no query of the block attends to positions of split @i. The first
 * one always counts: it has the sinks.
 */
static bool split_counts(const struct attention_shape *h, int64_t block,
			 int64_t i)
{
	struct weir__attended r = attended_by_block(h, block);

	return !h->invariant || !i ||
	       (i * SPLIT < r.to && (i + 1) * SPLIT > r.from);
}

/* Compute split @i of @splits of a batch. */
static void blocks_split(const struct weir_backend_node *node,
			 const struct attention_shape *h,
			 const struct attention_memory *a, int64_t block,
			 int64_t end, int64_t i, int64_t splits)
{
	struct weir__attended r = attended_by_block(h, block);
	int64_t first = r.from / TILE;
	int64_t tiles = (r.to + TILE - 1) / TILE - first;
	int64_t from = (first + tiles * i / splits) * TILE;
	int64_t to = (first + tiles * (i + 1) / splits) * TILE;

	if (!split_counts(h, block, i))
		return;
	if (h->invariant) {
		from = i * SPLIT;
		to = from + SPLIT;
	}
	blocks_attend(node, h, a, block, end, from, to, i == 0);
}

/* Compute split @i of @splits of the blocks [@block, @end), a batch. */
static void blocks_run(const struct weir__kernel_run *run,
		       const struct attention_shape *h, int64_t block,
		       int64_t end, int64_t i, int64_t splits)
{
	struct attention_memory a;

	scratch_lay_out(&a, h, run->scratch);
	if (splits > 1) {
		a.state = (float *)run->shared +
			  (size_t)(block * splits + i) * state_floats(h);
		a.state_pitch = (size_t)splits * state_floats(h);
	}
	if (h->invariant && splits == 1)
		blocks_in_turn(run->node, h, &a, block, end);
	else
		blocks_split(run->node, h, &a, block, end, i, splits);
	for (int64_t k = block; k < end && splits == 1; k++) {
		struct softmax_state state = state_at(
			h, a.state + (size_t)(k - block) * a.state_pitch);

		block_store(run->node, h, k, &state);
	}
}

/* The first phase: compute a range of the pairs (batch, split). */
static int phase_blocks(const struct weir__kernel_run *run,
			const struct attention_shape *h, int64_t splits)
{
	int64_t i, end, checked = -1;

	weir__kernel_range(run, batches(h) * splits, &i, &end);
	for (; i < end; i++) {
		int64_t block = i / splits * h->batch;
		int64_t sequence = sequence_of(h, block);
		int r = sequence == checked
				? 0
				: weir__sequence_check(run, &h->sequences,
						       sequence);

		if (r < 0)
			return r;
		checked = sequence;
		blocks_run(run, h, block, at_most(block + h->batch, h->blocks),
			   i % splits, splits);
	}
	return 0;
}

/* Add up row @row of the splits at @state, and store the result to @d. */
static void add_splits(const struct attention_shape *h, int64_t block,
		       float *state, int64_t row, int64_t splits, float *d)
{
	struct softmax_state sum = state_at(h, state);

	for (int64_t i = 1; i < splits; i++)
		if (split_counts(h, block, i))
			state_add(h, state, state + (size_t)i * state_floats(h),
				  row);
	result_store(d, sum.sum + row * h->dv_room, sum.weight[row], h->dv);
}

/* The second phase: add up the splits of a range of queries. */
static void phase_splits(const struct weir__kernel_run *run,
			 const struct attention_shape *h, int64_t splits)
{
	int64_t i, end, head, token;

	weir__kernel_range(run, h->blocks * h->rows, &i, &end);
	for (; i < end; i++) {
		int64_t block = i / h->rows, b = sequence_of(h, block);
		float *state = (float *)run->shared +
			       (size_t)(block * splits) * state_floats(h);

		block_query(h, block, i % h->rows, &head, &token);
		add_splits(h, block, state, i % h->rows, splits,
			   result_at(run->node, h, b, head, token));
	}
}

static int attention_run(const struct weir__kernel_run *run)
{
	int64_t splits = run->plan->variant & 0xffff;
	struct attention_shape h;

	if (weir__elements(&run->node->dst) == 0)
		return 0;
	heads_of(run->node, &h);
	h.batch = run->plan->variant >> 16;
	if (run->phase == 0)
		return phase_blocks(run, &h, splits);
	phase_splits(run, &h, splits);
	return 0;
}

const struct weir__kernel weir__kernel_attention = {
	.op = WEIR_OP_ATTENTION,
	.name = "attention",
	.supports = attention_supports,
	.plan = attention_plan,
	.run = attention_run,
};
