/* SPDX-License-Identifier: MIT */
/*
 * Parameters of the kernels, as the host fills them in and the GPU reads them.
 * Included by C and by nvcc.
 */
#ifndef WEIR__CUDA_PARAMS_H
#define WEIR__CUDA_PARAMS_H

#include <stdint.h>

#define WEIR__CUDA_DIMS 8

/*
 * A tensor. Dimensions are numbered from the last one, which is 0; those that
 * it does not have are 1, with a stride of 0.
 */
struct weir__cuda_operand {
	uint64_t data; /* address; 0: a source that was left out */
	int64_t dim[WEIR__CUDA_DIMS], stride[WEIR__CUDA_DIMS]; /* bytes */
	uint32_t dtype;     /* enum weir_dtype */
	uint32_t unaligned; /* elements may be at any address */
};

/* The kind of an index that is out of range: the error names it. */
enum weir__cuda_found_what {
	WEIR__CUDA_FOUND_ROW,
	WEIR__CUDA_FOUND_LENGTH, /* attention: of sequence @at, @rows at most */
	WEIR__CUDA_FOUND_PAGE    /* attention: @rows is the number of pages */
};

/*
 * The first bytes of a workspace: an index that a kernel found out of range.
 * The first node that finds one keeps it.
 */
struct weir__cuda_status {
	uint64_t node;    /* its number in the segment + 1; 0: none */
	int64_t index;    /* the index */
	int64_t at;       /* its place in its row of indices */
	int64_t rows;     /* how many rows there are */
	int64_t sequence; /* FOUND_PAGE: that of its row of pages */
	uint64_t what;    /* enum weir__cuda_found_what */
};

/* Operations on one element at a time: elements. */
struct weir__cuda_elements {
	uint64_t n;
	uint32_t op;   /* enum weir_op */
	uint32_t ndim; /* dimensions that are walked, of all operands */
	float scale, bias;
	float min, max; /* clamp */
	struct weir__cuda_operand dst, a, b;
};

/*
 * copy_units: units of elements, or blocks of quantised dtypes, in the order of
 * both tensors; with @repeat, the source is repeated to the result. Dimension 0
 * of both is in units. copy_floats: the same elements in another dtype.
 */
struct weir__cuda_copy {
	uint64_t n;    /* units */
	uint32_t unit; /* bytes */
	uint32_t repeat;
	struct weir__cuda_operand dst, a;
};

/* The norms and soft_max: rows of dst and a; one block for each row. */
struct weir__cuda_rows {
	uint64_t rows;
	int64_t columns;
	float eps;
	float scale, max_bias; /* soft_max */
	struct weir__cuda_operand dst, a;
	struct weir__cuda_operand mask, sinks; /* soft_max; may be left out */
};

/* rope: one block for each token. */
struct weir__cuda_rope {
	uint64_t tokens;
	uint32_t neox, n_dims;
	double base_log2; /* log2(base) */
	double freq_scale;
	double ext_factor; /* YaRN: 0: none */
	double low, high;  /* pairs between which it extrapolates less */
	double size;       /* of cosines and sines */
	struct weir__cuda_operand dst, a, pos, factors;
};

/* get_rows: each element of the result; set_rows: each of b. */
struct weir__cuda_index {
	uint64_t n;
	uint64_t node; /* its number in the segment + 1 */
	struct weir__cuda_operand dst, a, ids; /* set_rows: a is b */
};

/*
 * Rows of a result as bytes too, for the mat-vecs that read it: in the
 * workspace from @at on, as matvec_bytes writes them.
 */
struct weir__cuda_rounded {
	uint64_t at, pitch; /* bytes; of a row; 0: rows are not rounded */
	uint32_t order;
};

/*
 * [add,] rms_norm, mul: sum is a + b if b is there; norm is sum normalised;
 * dst is norm * scale, whose rows are repeated.
 */
struct weir__cuda_norm_mul {
	uint64_t rows;
	int64_t columns;
	float eps;
	struct weir__cuda_operand a, b, sum, norm, scale, dst;
	struct weir__cuda_rounded rounded;
};

/* swiglu_bytes: rows of F32 of one shape, which are rounded. */
struct weir__cuda_swiglu {
	uint64_t rows;
	int64_t columns; /* a multiple of 32 */
	struct weir__cuda_operand dst, a, b;
	struct weir__cuda_rounded rounded;
};

/* rms_norm of each head, and mul, whose result is rotated. columns 0: none. */
struct weir__cuda_head_norm {
	int64_t columns;
	float eps;
	struct weir__cuda_operand a, norm, scale;
};

/* [Norms of the heads,] rope of q and k, set_rows of k and v, of one token. */
struct weir__cuda_rope_set {
	struct weir__cuda_rope q, k;
	struct weir__cuda_head_norm norm_q, norm_k;
	struct weir__cuda_index set_k, set_v;
};

/*
 * sum, sum_rows, argmax. Sums of the blocks of sum are at @sums in the
 * workspace, if there are several; sum_blocks adds them up.
 */
struct weir__cuda_reduce {
	uint64_t rows;
	int64_t columns;
	uint64_t sums, blocks;
	struct weir__cuda_operand dst, a;
};

#define WEIR__CUDA_SORT_CHUNK 2048u /* elements that a block sorts */
#define WEIR__CUDA_TOP_K_MOST 1024u /* k, of the kernel top_k */

/* sort_chunks, sort_merge, top_k. */
struct weir__cuda_sort {
	uint64_t rows, first; /* how many rows; the number of the first */
	int64_t columns, k;   /* indices of a row that are written */
	uint64_t width;       /* sort_merge: of the runs */
	uint64_t from, to;    /* in the workspace: where numbers begin */
	uint32_t descending;
	uint32_t last; /* indices are written, no numbers */
	struct weir__cuda_operand dst, a;
};

/*
 * mul_mat of a [.., M, K] and b [.., N, K]; mul_mat_id of a [E, M, K], b [T, m,
 * K] and ids [T, N].
 */
struct weir__cuda_product {
	int64_t m, n, k;
	uint64_t batches; /* of dst; the outer dimensions of a are repeated */
	uint64_t node;    /* mul_mat_id: its number in the segment + 1 */
	struct weir__cuda_operand dst, a, b, ids;
};

/*
 * Columns of b as tiles read them, one after another in the workspace: from
 * @b_at on, @b_stride bytes each, which begin with elements of 2 bytes. What
 * rounding took of these is @low_at bytes after them, 0: it is dropped. If
 * @scale_at is not 0, the elements are F16, and were divided by the F32 that is
 * there, a power of two; else they are BF16.
 */
struct weir__cuda_columns {
	uint64_t batch;       /* the first one */
	int64_t column, n, k; /* the first one of each batch, and how many */
	int64_t b_at, b_stride, low_at, scale_at;
	uint64_t dense; /* 16 bytes of F32 of b can be read at once */
	struct weir__cuda_operand b;
};

/* Rows of @dst, a product of such columns of F16: times what these lack. */
struct weir__cuda_scaled {
	int64_t m;
	struct weir__cuda_columns columns;
	struct weir__cuda_operand dst;
};

/*
 * The columns of each expert, in the workspace from @lists on: I32 first[e],
 * the place in the list of the first one of expert e, with first[E] the number
 * of all; then the list. A column is number t * n + i of ids [T, n].
 */
struct weir__cuda_lists {
	int64_t n, slots, experts, lists;
	uint64_t node; /* its number in the segment + 1 */
	struct weir__cuda_operand ids;
};

/*
 * mul_mat and mul_mat_id of many columns: a block for each tile. @b has no
 * data if the columns are in the workspace. Of mul_mat there are @n columns of
 * each batch, from @batch and @column on. With @experts, columns are those of
 * weir__cuda_lists, and n that of ids.
 */
struct weir__cuda_tiles {
	int64_t m, n, k;
	uint64_t batch;
	int64_t column;
	int64_t tiles, row_tiles; /* of columns, of rows */
	int64_t experts, lists;
	int64_t b_at, b_stride, low_at, scale_at;
	struct weir__cuda_operand dst, a, b;
};

/*
 * Bytes of dynamic shared memory of tiles of quantised dtypes. All GPUs of
 * compute capability 8.0 and later give 101376 to a block that asks for them.
 */
enum {
	WEIR__CUDA_TILES_q8_0_wide = 83080,
	WEIR__CUDA_TILES_q8_0_narrow = 44168,
	WEIR__CUDA_TILES_q4_0_wide = 66696,
	WEIR__CUDA_TILES_q4_0_narrow = 46216,
	WEIR__CUDA_TILES_q4_k_wide = 84224,
	WEIR__CUDA_TILES_q4_k_narrow = 45312,
	WEIR__CUDA_TILES_q6_k_wide = 100616,
	WEIR__CUDA_TILES_q6_k_narrow = 49416,
	WEIR__CUDA_TILES_q4_1_wide = 67840,
	WEIR__CUDA_TILES_q4_1_narrow = 47360,
	WEIR__CUDA_TILES_q5_0_wide = 83080,
	WEIR__CUDA_TILES_q5_0_narrow = 44168,
	WEIR__CUDA_TILES_q5_1_wide = 84224,
	WEIR__CUDA_TILES_q5_1_narrow = 45312,
	WEIR__CUDA_TILES_q2_k_wide = 70144,
	WEIR__CUDA_TILES_q2_k_narrow = 49664,
	WEIR__CUDA_TILES_q3_k_wide = 84232,
	WEIR__CUDA_TILES_q3_k_narrow = 45320,
	WEIR__CUDA_TILES_q5_k_wide = 100608,
	WEIR__CUDA_TILES_q5_k_narrow = 49408,
	WEIR__CUDA_TILES_iq4_nl_wide = 66696,
	WEIR__CUDA_TILES_iq4_nl_narrow = 46216,
	WEIR__CUDA_TILES_iq4_xs_wide = 83080,
	WEIR__CUDA_TILES_iq4_xs_narrow = 44168,
	WEIR__CUDA_TILES_mxfp4_wide = 66696,
	WEIR__CUDA_TILES_mxfp4_narrow = 46216,
	WEIR__CUDA_TILES_nvfp4_wide = 67848,
	WEIR__CUDA_TILES_nvfp4_narrow = 47368,
};

#define WEIR__CUDA_MATVEC_WARPS 4   /* of a block */
#define WEIR__CUDA_MATVEC_COLUMNS 8 /* of b, the most in a launch */
#define WEIR__CUDA_MATVEC_BIASED 4  /* the most, if there is a bias */
#define WEIR__CUDA_MATVEC_ROWS 4    /* of a, the most of a warp */
#define WEIR__CUDA_MATVEC_OUTER 3   /* outer dimensions */
#define WEIR__CUDA_MATVEC_PARTS 3   /* matrices of one launch */
/*
 * Rows of b as bytes: units of 1024 elements, each with their bytes and then,
 * for each 32 elements, an F32 scale and the sums of both halves, two I16.
 */
#define WEIR__CUDA_MATVEC_UNIT 1024
#define WEIR__CUDA_MATVEC_UNIT_BYTES 1280

/* A matrix, its result, and the blocks of the grid that have it. */
struct weir__cuda_matvec_part {
	uint64_t a, dst;
	int64_t m, dst_column;
	uint32_t split;  /* warps that share a row: 1, 2, 4 */
	uint32_t blocks; /* 0: there is no such part */
};

/* The result of a part plus @row, of F32, is @sum, whose rows are dense. */
struct weir__cuda_matvec_sum {
	uint64_t row, sum; /* 0: nothing is added */
	int64_t column;    /* bytes of a row of sum */
};

/*
 * mul_mat and mul_mat_id of few columns. Addresses and strides are in bytes.
 * Outer dimensions are counted from the innermost one; each index of a belongs
 * to @share of dst. mul_mat_id has two: tokens, then their ids.
 */
struct weir__cuda_matvec {
	struct weir__cuda_matvec_part part[WEIR__CUDA_MATVEC_PARTS];
	int32_t k, n;
	uint32_t works;  /* of the grid's dimension y; see matvec_find() */
	uint32_t inside; /* b is an offset in the workspace */
	uint32_t dst_unaligned, ids_unaligned;
	uint32_t outer[WEIR__CUDA_MATVEC_OUTER];
	uint32_t share[WEIR__CUDA_MATVEC_OUTER];
	int64_t a_outer[WEIR__CUDA_MATVEC_OUTER];
	int64_t b_outer[WEIR__CUDA_MATVEC_OUTER];
	int64_t dst_outer[WEIR__CUDA_MATVEC_OUTER];
	uint64_t b;
	int64_t a_row, b_column, dst_row;
	/* mul_mat_id; ids 0: mul_mat */
	uint64_t ids;
	int64_t ids_token, ids_id, a_expert;
	int32_t experts, b_columns; /* b has as many for each token */
	uint64_t node;              /* its number in the segment + 1 */
	struct weir__cuda_matvec_sum sum[WEIR__CUDA_MATVEC_PARTS];
	uint32_t sums; /* a part has one */
};

/*
 * matvec_floats, matvec_bytes: the rows of b in a form that mat-vecs take, one
 * after another in the workspace from @at on. @order is that of the 64 parts of
 * 16 elements of a unit, which depends on the dtype of a.
 */
struct weir__cuda_matvec_columns {
	uint64_t rows;
	int64_t k;
	uint64_t at, pitch; /* bytes; of a row */
	uint32_t order;
	struct weir__cuda_operand b;
};

/* attention; one block for each token and head. */
struct weir__cuda_attention {
	uint64_t rows; /* tokens, heads, and outer dimensions */
	int64_t heads, positions;
	int64_t d, dv; /* elements of a head of q and k, and of v */
	float scale, max_bias, softcap;
	uint32_t causal, window, page; /* as in struct weir_op_attention */
	uint64_t node;                 /* its number in the segment + 1 */
	/* Of the plain kernel: a query and a result of each block, or 0. */
	uint64_t apart;
	struct weir__cuda_operand dst, q, k, v, mask, sinks, lengths, pages;
};

/*
 * Counters of blocks that have come, U32: all of a workspace. A run sets them
 * to 0 before its first launch, and a launch leaves them so.
 */
#define WEIR__CUDA_COUNTERS 16384
#define WEIR__CUDA_COUNTERS_AT 256 /* where they begin, after the status */

#define WEIR__CUDA_CHUNK 128       /* positions */
#define WEIR__CUDA_CHUNK_FOLD 8    /* chunks that are added up before others */
#define WEIR__CUDA_CHUNK_QUERIES 4 /* of a block */
#define WEIR__CUDA_CHUNK_HEAD 256  /* most elements of a head */
#define WEIR__CUDA_CHUNK_SEQUENCES 1024 /* most sequences, if split */
#define WEIR__CUDA_CHUNK_STATE 4        /* floats before the sums of a part */
#define WEIR__CUDA_ATTENTION_TILE_HEAD 128 /* most elements, of tiles */
#define WEIR__CUDA_CHUNK_STAGE 8960 /* bytes of quantised rows, two of these */

/*
 * attention_chunks: a block for each block of queries that share a head of k;
 * or, if @parts is not 0, any number of blocks, which write parts to the
 * workspace. Of the blocks that have a part of some queries the last one adds
 * them up. Each block of queries has a counter, and one for each of @folds.
 */
struct weir__cuda_attention_chunks {
	struct weir__cuda_attention a;
	/* Bytes from a sequence to the next one: 0: all have the same. */
	int64_t step_q, step_k, step_v, step_mask, step_dst;
	uint64_t blocks; /* of queries */
	uint64_t parts;  /* their place in the workspace, or 0 */
	uint32_t sequences, heads_k;
	uint32_t rows;       /* queries of a sequence that share a head of k */
	uint32_t group;      /* heads that share a head of k */
	uint32_t row_blocks; /* blocks of these queries */
	uint32_t chunk;      /* positions of a part */
	uint32_t chunks;     /* of a sequence, at most */
	uint32_t lanes_k, lanes_v; /* threads that share a row */
	uint32_t folds; /* CHUNK_FOLD chunks, of a sequence, at most */
	/* A row of these has the heads of a token. */
	struct weir__cuda_rounded rounded;
};

#endif
