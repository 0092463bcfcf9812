/* SPDX-License-Identifier: MIT */
/*
 * Attention: by tiles or by chunks of positions if rows of k and v can be
 * loaded by 16 bytes, else by the plain kernel.
 */
#include "cuda/launches.h"
#include "cuda/operations.h"

#define MOST_BLOCKS 0x7fffffffu
#define THREADS 128u     /* of attention.cu */
#define MOST_SHARED 8192 /* elements of a row of q and of v, of attention.cu */
#define LEAST_CHUNK_HEAD 32 /* elements of a row: 4 threads */
#define LEAST_TOKENS 9      /* of tiles, as of products */
#define BLOCK_STEP 64   /* elements: whole words of blocks of Q8_0 and Q4_0 */
#define BLOCKS_OF_SM 5u /* of attention_chunks, that are resident at once */
#define MOST_PARTS ((uint64_t)64 << 20) /* bytes */

static int attention_supports(const struct weir_backend_node *node)
{
	return weir__cuda_whole_rows(&node->src[1]) &&
			       weir__cuda_whole_rows(&node->src[2])
		       ? 0
		       : weir__cuda_refuse(node, "rows are not whole blocks");
}

/* The bytes of an element; 0: quantised. */
static int64_t element_bytes(const struct weir__cuda_operand *t)
{
	switch (t->dtype) {
	case WEIR_DTYPE_F32:
		return 4;
	case WEIR_DTYPE_F16:
	case WEIR_DTYPE_BF16:
		return 2;
	default:
		return 0;
	}
}

/* True if rows begin at multiples of @align. */
static bool is_aligned(const struct weir__cuda_operand *t, uint64_t align)
{
	uint64_t all = t->data;

	for (unsigned i = 1; i < WEIR__CUDA_DIMS; i++)
		if (t->dim[i] > 1)
			all |= (uint64_t)t->stride[i];
	return all % align == 0;
}

/* True if rows are whole words of blocks that chunks take. */
static bool has_block_rows(const struct weir__cuda_operand *t)
{
	return (t->dtype == WEIR_DTYPE_Q8_0 || t->dtype == WEIR_DTYPE_Q4_0) &&
	       t->dim[0] % BLOCK_STEP == 0 && is_aligned(t, 4);
}

/* True if rows can be loaded by 16 bytes. */
static bool has_wide_rows(const struct weir__cuda_operand *t)
{
	int64_t bytes = element_bytes(t);

	return bytes && !t->unaligned && t->stride[0] == bytes &&
	       t->dim[0] * bytes % 16 == 0 && is_aligned(t, 16);
}

/* True if rows have as many elements as chunks take. */
static bool has_chunk_rows(const struct weir__cuda_operand *t)
{
	return t->dim[0] >= LEAST_CHUNK_HEAD &&
	       t->dim[0] <= WEIR__CUDA_CHUNK_HEAD && t->dim[1] <= INT32_MAX;
}

/*
 * The bytes from a sequence of @t to the next one; 0: it has one for all. -1:
 * sequences, which are those of @q, do not follow each other at one distance.
 */
static int64_t step_of(const struct weir__cuda_operand *t,
		       const struct weir__cuda_operand *q)
{
	int64_t n = 1, step = 0, shared = 1;

	for (unsigned i = 3; i < WEIR__CUDA_DIMS; i++) {
		if (q->dim[i] == 1)
			continue;
		if (t->dim[i] == 1)
			shared *= q->dim[i];
		else if (t->dim[i] != q->dim[i])
			return -1;
		else if (n == 1)
			step = t->stride[i];
		else if (t->stride[i] != step * n)
			return -1;
		n *= q->dim[i];
	}
	return n == 1 || shared == n ? 0 : shared == 1 ? step : -1;
}

/* True if each operand has its sequences at one distance. */
static bool has_steps(const struct weir__cuda_attention *p)
{
	int64_t heads = p->mask.dim[2]; /* 0: there is no mask */

	return step_of(&p->q, &p->q) >= 0 && step_of(&p->k, &p->q) >= 0 &&
	       step_of(&p->v, &p->q) >= 0 && step_of(&p->dst, &p->q) >= 0 &&
	       (!heads || ((heads == 1 || heads == p->heads) &&
			   step_of(&p->mask, &p->q) >= 0));
}

/* k and v are of one dtype of floats, or of any two of blocks. */
static bool takes_chunks(const struct weir__cuda_attention *p)
{
	const struct weir__cuda_operand *k = &p->k, *v = &p->v;

	return has_steps(p) && has_chunk_rows(k) && has_chunk_rows(v) &&
	       p->positions <= INT32_MAX && p->rows <= INT32_MAX &&
	       ((has_block_rows(k) && has_block_rows(v)) ||
		(k->dtype == v->dtype && has_wide_rows(k) && has_wide_rows(v)));
}

static enum weir__cuda_kernel_id chunks_kernel(uint32_t dtype)
{
	switch (dtype) {
	case WEIR_DTYPE_F32:
		return WEIR__CUDA_KERNEL_attention_chunks_f32;
	case WEIR_DTYPE_F16:
		return WEIR__CUDA_KERNEL_attention_chunks_f16;
	case WEIR_DTYPE_BF16:
		return WEIR__CUDA_KERNEL_attention_chunks_bf16;
	default:
		return WEIR__CUDA_KERNEL_attention_chunks_blocks;
	}
}

/* How many threads share a row of @n elements: a power of two. */
static uint32_t lanes_of(int64_t n)
{
	uint32_t lanes = LEAST_CHUNK_HEAD / 8;

	while (lanes * 8 < n)
		lanes *= 2;
	return lanes;
}

/* Rows of the result that a product with it has as columns. */
static uint64_t tokens_of(const struct weir__cuda_attention *a)
{
	return a->rows / (uint64_t)a->heads;
}

/* The bytes of the result as bytes, if a launch may write it so. */
static uint64_t bytes_of_rows(const struct weir__cuda_attention *a)
{
	const uint64_t unit = WEIR__CUDA_MATVEC_UNIT;
	uint64_t k = (uint64_t)(a->heads * a->dv), tokens = tokens_of(a);

	return tokens > WEIR__CUDA_MATVEC_COLUMNS
		       ? 0
		       : tokens * ((k + unit - 1) / unit) *
				 WEIR__CUDA_MATVEC_UNIT_BYTES;
}

static uint64_t at_most(uint64_t n, uint64_t most)
{
	return n < most ? n : most;
}

/* Parameters of the kernels of chunks, all but the memory for parts. */
static struct weir__cuda_attention_chunks
chunks_of(const struct weir__cuda_attention *a)
{
	const uint64_t chunk = WEIR__CUDA_CHUNK;
	const uint64_t queries = WEIR__CUDA_CHUNK_QUERIES;
	uint64_t group = (uint64_t)(a->heads / a->k.dim[2]);
	uint64_t rows = group * (uint64_t)a->q.dim[1];
	struct weir__cuda_attention_chunks p = {
		.a = *a,
		.heads_k = (uint32_t)a->k.dim[2],
		.rows = (uint32_t)rows,
		.group = (uint32_t)group,
		.row_blocks = (uint32_t)((rows + queries - 1) / queries),
		.chunk = (uint32_t)chunk,
		.chunks = (uint32_t)(((uint64_t)a->positions + chunk - 1) /
				     chunk),
		.lanes_k = lanes_of(a->d),
		.lanes_v = lanes_of(a->dv),
		.step_q = step_of(&a->q, &a->q),
		.step_k = step_of(&a->k, &a->q),
		.step_v = step_of(&a->v, &a->q),
		.step_mask = step_of(&a->mask, &a->q),
		.step_dst = step_of(&a->dst, &a->q),
	};
	const uint32_t fold = WEIR__CUDA_CHUNK_FOLD;

	p.folds = (p.chunks + fold - 1) / fold;

	if (p.a.mask.dim[2] == 1)
		p.a.mask.stride[2] = 0; /* one for all heads */
	p.blocks = a->rows / rows * p.row_blocks;
	return p;
}

static uint64_t counters_of(const struct weir__cuda_attention_chunks *p)
{
	return p->blocks * (p->folds + 1);
}

/*
 * True if chunks are worth splitting, and their parts have room. The bits of
 * results are the same either way. The multiprocessors of a device that was
 * never used are not known: an estimate has room for parts then.
 */
static bool splits(const struct weir__cuda_launches *l,
		   const struct weir__cuda_attention_chunks *p, uint64_t part)
{
	uint64_t sequences = p->blocks / p->row_blocks / p->heads_k;

	return p->chunks > 1 &&
	       (!l->c || p->blocks < 2 * BLOCKS_OF_SM * l->sms) &&
	       p->chunks <= MOST_PARTS / part / p->a.rows &&
	       sequences <= WEIR__CUDA_CHUNK_SEQUENCES &&
	       counters_of(p) <= WEIR__CUDA_COUNTERS;
}

/* Floats of each query that two stages of rows of blocks take. */
#define STAGES                        \
	(2 * WEIR__CUDA_CHUNK_STAGE / \
	 (WEIR__CUDA_CHUNK_QUERIES * (unsigned)sizeof(float)))

/*
 * Append the launch. If @rounded is not NULL, it writes the result as bytes
 * too, behind the parts: @rounded is moved there.
 */
static void chunks_add(struct weir__cuda_launches *l,
		       const struct weir__cuda_attention *a,
		       struct weir__cuda_rounded *rounded)
{
	const unsigned queries = WEIR__CUDA_CHUNK_QUERIES;
	struct weir__cuda_attention_chunks p = chunks_of(a);
	uint64_t part =
		(uint64_t)(a->dv + WEIR__CUDA_CHUNK_STATE) * sizeof(float);
	unsigned dv = (unsigned)a->dv;
	/* Floats of each query: itself; sums of 4 warps, or stages. */
	unsigned shared =
		(unsigned)a->d + (element_bytes(&a->k) ? 4 * dv : STAGES);
	uint64_t blocks = at_most(p.blocks, MOST_BLOCKS);

	p.sequences = (uint32_t)(p.blocks / p.row_blocks / p.heads_k);
	if (splits(l, &p, part)) {
		part *= a->rows * p.chunks;
		p.parts = weir__cuda_workspace(l, part + bytes_of_rows(a));
		weir__cuda_counters(l, counters_of(&p));
		blocks = at_most(p.blocks * p.chunks,
				 2 * BLOCKS_OF_SM * (uint64_t)l->sms);
		if (rounded)
			rounded->at += part;
	} else {
		shared += 2 * dv; /* what was added up so far */
	}
	if (rounded)
		p.rounded = *rounded;
	weir__cuda_launch_add(l, chunks_kernel(a->k.dtype), blocks, 1,
			      WEIR__CUDA_CHUNK,
			      shared * queries * (unsigned)sizeof(float), &p,
			      sizeof(p));
}

/* The kernels of attention_tiles.cu: queries of a block, threads. */
#define TILE_ROWS 64u
#define TILE_THREADS 128u
#define FEW_POSITIONS 2048 /* a block computes them soon enough */

/* True if rows consist of pairs of 8 elements, as products of tiles take. */
static bool has_tile_rows(const struct weir__cuda_operand *t)
{
	return t->dtype != WEIR_DTYPE_F32 && t->dim[0] % 16 == 0;
}

/* True if tiles take the mask, of F32 or F16, or there is none. */
static bool has_tile_mask(const struct weir__cuda_operand *mask)
{
	return !mask->dim[0] ||
	       (mask->dtype != WEIR_DTYPE_BF16 && !mask->unaligned &&
		mask->stride[0] == element_bytes(mask));
}

static bool has_tile_result(const struct weir__cuda_operand *dst)
{
	return !dst->unaligned && dst->stride[0] == sizeof(float);
}

static enum weir__cuda_kernel_id tiles_kernel(uint32_t dtype, bool is_large)
{
	if (dtype == WEIR_DTYPE_F16)
		return is_large ? WEIR__CUDA_KERNEL_attention_tiles_f16_large
				: WEIR__CUDA_KERNEL_attention_tiles_f16;
	return is_large ? WEIR__CUDA_KERNEL_attention_tiles_bf16_large
			: WEIR__CUDA_KERNEL_attention_tiles_bf16;
}

/*
 * Append a launch by tiles, which rounds q and exponents. False: the node is
 * not one for tiles, or has too few blocks for so many positions.
 */
static bool tiles_add(struct weir__cuda_launches *l,
		      const struct weir_op_attention *op,
		      const struct weir__cuda_attention *a)
{
	const int64_t most = WEIR__CUDA_ATTENTION_TILE_HEAD;
	bool is_large = a->d > most || a->dv > most || a->mask.dim[0] ||
			a->softcap > 0 || !element_bytes(&a->k);
	struct weir__cuda_attention_chunks p;

	if (op->precision != WEIR_PRECISION_FAST ||
	    a->q.dim[1] < LEAST_TOKENS || !has_tile_rows(&a->k) ||
	    !has_tile_rows(&a->v) || !has_tile_mask(&a->mask) ||
	    !has_tile_result(&a->dst))
		return false;
	p = chunks_of(a);
	p.row_blocks = (p.rows + TILE_ROWS - 1) / TILE_ROWS;
	p.blocks = a->rows / p.rows * p.row_blocks;
	if (a->positions > FEW_POSITIONS && p.blocks * 4 < l->sms)
		return false;
	weir__cuda_launch_add(l, tiles_kernel(a->k.dtype, is_large), p.blocks,
			      1, TILE_THREADS, 0, &p, sizeof(p));
	return true;
}

/* True if the node has source @i, whose address may not be known yet. */
static bool has_source(const struct weir_backend_node *node, uint32_t i)
{
	return i < node->n_src && node->src[i].ndim;
}

/* Node number @number of the segment, counted from 1. */
static struct weir__cuda_attention
attention_of(const struct weir_backend_node *node, uint64_t number)
{
	const struct weir_op_attention *a = node->params;
	struct weir__cuda_attention p = {
		.rows = weir__cuda_outer(&node->src[0], 1),
		.heads = weir__cuda_dim(&node->src[0], 2),
		.positions = weir__cuda_dim(&node->src[1], 1),
		.d = weir__cuda_dim(&node->src[0], 0),
		.dv = weir__cuda_dim(&node->src[2], 0),
		.scale = a->scale,
		.max_bias = a->max_bias,
		.softcap = a->softcap,
		.causal = a->causal,
		.window = a->window,
		.page = a->page,
		.node = number,
		.dst = weir__cuda_operand(&node->dst),
		.q = weir__cuda_source(node, 0),
		.k = weir__cuda_source(node, 1),
		.v = weir__cuda_source(node, 2),
		.mask = weir__cuda_source(node, 3),
		.sinks = weir__cuda_source(node, 4),
		.lengths = weir__cuda_source(node, 5),
		.pages = weir__cuda_source(node, 6),
	};

	if (!has_source(node, 3))
		p.mask = (struct weir__cuda_operand){ 0 };
	if (has_source(node, 6))
		p.positions = p.pages.dim[0] * (int64_t)p.page;
	return p;
}

/* Append the plain launch. Long heads are in the workspace. */
static void plain_add(struct weir__cuda_launches *l,
		      const struct weir__cuda_attention *a)
{
	struct weir__cuda_attention p = *a;
	uint64_t bytes = (uint64_t)(p.d + p.dv) * sizeof(float);
	uint64_t blocks = at_most(p.rows, MOST_BLOCKS);

	if (p.d + p.dv > MOST_SHARED) {
		blocks = at_most(blocks, MOST_PARTS / bytes + 1);
		p.apart = weir__cuda_workspace(l, blocks * bytes);
		bytes = 0;
	}
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_attention, blocks, 1,
			      THREADS, (unsigned)bytes, &p, sizeof(p));
}

static void attention_plan(struct weir__cuda_launches *l,
			   const struct weir_backend_node *node)
{
	struct weir__cuda_attention p = attention_of(node, l->n_nodes + 1);

	if (!weir__cuda_outer(&node->dst, 0))
		return;
	l->checks |= has_source(node, 5);
	if (takes_chunks(&p)) {
		/* Tiles may not take the address of the result. */
		if (!tiles_add(l, node->params, &p) || l->measures)
			chunks_add(l, &p, NULL);
		return;
	}
	plain_add(l, &p);
}

bool weir__cuda_attention_rounds(const struct weir_backend_node *node)
{
	struct weir__cuda_attention p = attention_of(node, 0);

	return weir__cuda_outer(&node->dst, 0) &&
	       node->dst.dtype == WEIR_DTYPE_F32 && p.dv % 32 == 0 &&
	       takes_chunks(&p) && tokens_of(&p) <= WEIR__CUDA_MATVEC_COLUMNS;
}

void weir__cuda_attention_rounded(struct weir__cuda_launches *l,
				  const struct weir_backend_node *node,
				  uint64_t number,
				  struct weir__cuda_rounded *rounded)
{
	struct weir__cuda_attention p = attention_of(node, number);

	chunks_add(l, &p, rounded);
}

#define FLOATS WEIR__CUDA_FLOATS
#define STORED WEIR__CUDA_STORED

const struct weir__cuda_operation weir__cuda_op_attention = {
	.name = "attention",
	.dst = WEIR__CUDA_F32,
	.src = { FLOATS, STORED, STORED, FLOATS, WEIR__CUDA_F32, WEIR__CUDA_I32,
		 WEIR__CUDA_I32 },
	.n_src = 7,
	.supports = attention_supports,
	.plan = attention_plan,
};
