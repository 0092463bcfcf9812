/* SPDX-License-Identifier: MIT */
/*
 * Products of many columns: which of them tiles compute (kernels/tiles.cu), and
 * their launches. b is converted in the workspace, as many columns at once as
 * have room there.
 */
#include "cuda/launches.h"
#include "cuda/operations.h"

#define FEWEST_COLUMNS 9       /* fewer: kernels of rows */
#define FEWEST_OF_EXPERT 4     /* the mean of all experts */
#define MOST_BLOCKS 0x7fffffff /* of a grid */
#define ALIGN 256              /* of what is in the workspace */
#define GROUP 8                /* elements of 16 bytes of columns */
/* Judged, never measured: fewer wide tiles leave most of a GPU idle. */
#define FEWEST_WIDE 48
#define FEWEST_WIDE_COLUMNS 33

struct tile_shape {
	enum weir__cuda_kernel_id kernel;
	int rows, columns;
	unsigned threads;
	unsigned shared; /* bytes of dynamic shared memory */
};

/* How products with rows of a dtype are computed. */
struct tile_form {
	uint32_t dtype;
	uint32_t align;  /* of addresses and strides of a */
	uint32_t stride; /* of elements; 0: blocks */
	bool pairs;      /* an element of b is the sum of two numbers */
	bool scaled;     /* they are F16, else BF16 */
	struct tile_shape wide, narrow;
};

#define SHAPES(name, n, narrow_threads)                            \
	{ WEIR__CUDA_KERNEL_tiles_##name##_wide, 128, n, 256, 0 }, \
	{                                                          \
		WEIR__CUDA_KERNEL_tiles_##name##_narrow, 32, 32,   \
			narrow_threads, 0                          \
	}
#define BLOCKS(name)                                                  \
	{ WEIR__CUDA_KERNEL_tiles_##name##_wide, 128, 128, 256,       \
	  WEIR__CUDA_TILES_##name##_wide },                           \
	{                                                             \
		WEIR__CUDA_KERNEL_tiles_##name##_narrow, 32, 32, 256, \
			WEIR__CUDA_TILES_##name##_narrow              \
	}

static const struct tile_form forms[] = {
	{ WEIR_DTYPE_BF16, 16, 2, false, false, SHAPES(bf16, 128, 256) },
	{ WEIR_DTYPE_F16, 16, 2, true, true, SHAPES(f16, 64, 256) },
	{ WEIR_DTYPE_F32, 16, 4, true, false, SHAPES(f32, 64, 128) },
	{ WEIR_DTYPE_Q8_0, 2, 0, false, false, BLOCKS(q8_0) },
	{ WEIR_DTYPE_Q4_0, 2, 0, false, false, BLOCKS(q4_0) },
	{ WEIR_DTYPE_Q4_K, 16, 0, false, false, BLOCKS(q4_k) },
	{ WEIR_DTYPE_Q6_K, 2, 0, false, false, BLOCKS(q6_k) },
	{ WEIR_DTYPE_Q2_K, 4, 0, false, false, BLOCKS(q2_k) },
	{ WEIR_DTYPE_Q3_K, 2, 0, false, false, BLOCKS(q3_k) },
	{ WEIR_DTYPE_Q5_K, 16, 0, false, false, BLOCKS(q5_k) },
	{ WEIR_DTYPE_Q4_1, 4, 0, false, false, BLOCKS(q4_1) },
	{ WEIR_DTYPE_Q5_0, 2, 0, false, false, BLOCKS(q5_0) },
	{ WEIR_DTYPE_Q5_1, 8, 0, false, false, BLOCKS(q5_1) },
	{ WEIR_DTYPE_IQ4_NL, 2, 0, false, false, BLOCKS(iq4_nl) },
	{ WEIR_DTYPE_IQ4_XS, 8, 0, false, false, BLOCKS(iq4_xs) },
	{ WEIR_DTYPE_MXFP4, 1, 0, false, false, BLOCKS(mxfp4) },
	{ WEIR_DTYPE_NVFP4, 4, 0, false, false, BLOCKS(nvfp4) },
};

/* True if the address of each row is a multiple of @align. */
static bool is_aligned(const struct weir__cuda_operand *t, uint64_t align)
{
	uint64_t all = t->data;

	for (unsigned i = 1; i < WEIR__CUDA_DIMS; i++)
		all |= (uint64_t)t->stride[i];
	return all % align == 0;
}

/* NULL: tiles do not compute it. */
static const struct tile_form *form_of(const struct weir_backend_node *node)
{
	const struct weir_op_mul_mat *params = node->params;
	struct weir__cuda_operand a = weir__cuda_source(node, 0);

	if (params->precision != WEIR_PRECISION_FAST || !a.dim[0])
		return NULL;
	for (unsigned i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		const struct tile_form *f = &forms[i];

		if (f->dtype == a.dtype)
			return is_aligned(&a, f->align) &&
					       (!f->stride ||
						a.stride[0] == f->stride)
				       ? f
				       : NULL;
	}
	return NULL;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return a / b + !!(a % b);
}

static int64_t align_up(int64_t a)
{
	return ceil_div(a, ALIGN) * ALIGN;
}

/* The wide tiles if they are enough to keep a GPU busy. */
static const struct tile_shape *shape_of(const struct tile_form *f, int64_t m,
					 int64_t n, int64_t batches)
{
	double wide = (double)ceil_div(m, f->wide.rows) *
		      (double)ceil_div(n, f->wide.columns) * (double)batches;

	return wide >= FEWEST_WIDE && n >= FEWEST_WIDE_COLUMNS ? &f->wide
							       : &f->narrow;
}

/* The columns of b in the workspace. b itself if its form is right. */
static struct weir__cuda_columns columns_of(struct weir__cuda_launches *l,
					    const struct tile_form *f,
					    const struct weir_backend_node *n)
{
	struct weir__cuda_columns c = { .b = weir__cuda_source(n, 1) };
	int64_t bytes;

	c.k = c.b.dim[0];
	bytes = ceil_div(c.k, GROUP) * GROUP * 2;
	c.low_at = f->pairs ? bytes : 0;
	c.scale_at = f->scaled ? 2 * bytes : 0;
	c.b_at = (int64_t)weir__cuda_workspace(l, 0);
	c.b_stride = bytes * (f->pairs ? 2 : 1) + (f->scaled ? 16 : 0);
	c.dense = c.b.dtype == WEIR_DTYPE_F32 && c.b.stride[0] == 4 &&
		  is_aligned(&c.b, 16);
	return c;
}

/* True if tiles can read b as it is. */
static bool is_direct(const struct weir__cuda_launches *l,
		      const struct tile_form *f,
		      const struct weir__cuda_operand *b)
{
	return !l->measures && !f->pairs && b->dtype == WEIR_DTYPE_BF16 &&
	       b->stride[0] == 2 && is_aligned(b, 16);
}

/* The workspace is used up to byte @end. */
static void workspace_needs(struct weir__cuda_launches *l, int64_t end)
{
	weir__cuda_workspace(l, (uint64_t)end - weir__cuda_workspace(l, 0));
}

static void columns_add(struct weir__cuda_launches *l,
			const struct weir__cuda_columns *c, int64_t batches)
{
	workspace_needs(l, c->b_at + c->n * batches * c->b_stride);
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_columns,
			      (uint64_t)(c->n * batches), 1, WEIR__CUDA_THREADS,
			      0, c, sizeof(*c));
}

static void tiles_add(struct weir__cuda_launches *l, const struct tile_shape *s,
		      const struct weir__cuda_tiles *t, int64_t batches)
{
	weir__cuda_launch_add(l, s->kernel,
			      (uint64_t)(t->tiles * t->row_tiles * batches), 1,
			      s->threads, s->shared, t, sizeof(*t));
}

/* False: a grid would have too many blocks. */
static bool fits(const struct tile_form *f, int64_t m, int64_t columns)
{
	return (double)ceil_div(m, f->narrow.rows) * (double)columns <
	       MOST_BLOCKS;
}

/* @n columns from @column on, of @batches batches from @batch on. */
static void part_add(struct weir__cuda_launches *l, const struct tile_form *f,
		     struct weir__cuda_tiles t, struct weir__cuda_columns c,
		     int64_t batch, int64_t batches, int64_t column, int64_t n)
{
	const struct tile_shape *s = shape_of(f, t.m, n, batches);

	c.batch = t.batch = (uint64_t)batch;
	c.column = t.column = column;
	c.n = t.n = n;
	t.tiles = ceil_div(n, s->columns);
	t.row_tiles = ceil_div(t.m, s->rows);
	if (is_direct(l, f, &c.b)) {
		t.b = c.b;
		t.b_stride = c.b.stride[1];
	} else {
		columns_add(l, &c, batches);
	}
	tiles_add(l, s, &t, batches);
}

static struct weir__cuda_tiles tiles_of(const struct weir_backend_node *node,
					const struct weir__cuda_columns *c)
{
	struct weir__cuda_tiles t = {
		.m = weir__cuda_dim(&node->dst, 0),
		.k = c->k,
		.b_at = c->b_at,
		.b_stride = c->b_stride,
		.low_at = c->low_at,
		.scale_at = c->scale_at,
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
	};

	return t;
}

bool weir__cuda_tiles_mul_mat(struct weir__cuda_launches *l,
			      const struct weir_backend_node *node)
{
	const struct tile_form *f = form_of(node);
	int64_t n = weir__cuda_dim(&node->dst, 1);
	int64_t batches = (int64_t)weir__cuda_outer(&node->dst, 2);
	struct weir__cuda_columns c;
	struct weir__cuda_tiles t;
	int64_t room;

	if (!f || n < FEWEST_COLUMNS || !batches ||
	    !fits(f, weir__cuda_dim(&node->dst, 0), n * batches))
		return false;
	c = columns_of(l, f, node);
	t = tiles_of(node, &c);
	room = is_direct(l, f, &c.b) ? n * batches
				     : WEIR__CUDA_ROOM / c.b_stride;
	room = room < f->wide.columns ? f->wide.columns : room;
	for (int64_t batch = 0; batch < batches;) {
		int64_t some = room >= n ? room / n : 1;

		some = some < batches - batch ? some : batches - batch;
		for (int64_t at = 0; at < n; at += room)
			part_add(l, f, t, c, batch, some, at,
				 n - at < room ? n - at : room);
		batch += some;
	}
	return true;
}

/* @n tokens from @token on: their lists follow their columns. */
static void tokens_add(struct weir__cuda_launches *l, const struct tile_form *f,
		       struct weir__cuda_tiles t, struct weir__cuda_columns c,
		       struct weir__cuda_lists i, int64_t token, int64_t n)
{
	const struct tile_shape *s;

	i.slots = n * i.n;
	s = shape_of(f, t.m, i.slots / i.experts, i.experts);
	c.batch = (uint64_t)token;
	c.n = c.b.dim[1];
	i.lists = align_up(c.b_at + c.n * n * c.b_stride);
	i.ids.data += (uint64_t)(token * i.ids.stride[1]);
	t.dst.data += (uint64_t)(token * t.dst.stride[2]);
	t.n = i.n;
	t.b.dim[1] = c.n;
	t.experts = i.experts;
	t.lists = i.lists;
	t.tiles = i.slots / s->columns + i.experts;
	t.row_tiles = ceil_div(t.m, s->rows);
	workspace_needs(l, i.lists + 4 * (i.experts + 1 + i.slots));
	columns_add(l, &c, n);
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_lists, (uint64_t)i.experts,
			      1, WEIR__CUDA_THREADS, 0, &i, sizeof(i));
	tiles_add(l, s, &t, 1);
}

bool weir__cuda_tiles_mul_mat_id(struct weir__cuda_launches *l,
				 const struct weir_backend_node *node)
{
	const struct tile_form *f = form_of(node);
	int64_t tokens = weir__cuda_dim(&node->dst, 2), room;
	struct weir__cuda_columns c;
	struct weir__cuda_tiles t;
	struct weir__cuda_lists i = {
		.n = weir__cuda_dim(&node->dst, 1),
		.experts = weir__cuda_dim(&node->src[0], 2),
		.node = l->n_nodes + 1,
		.ids = weir__cuda_source(node, 2),
	};

	if (!f || tokens < FEWEST_COLUMNS || !i.experts ||
	    !weir__cuda_dim(&node->src[1], 1) ||
	    tokens * i.n / i.experts < FEWEST_OF_EXPERT ||
	    !fits(f, weir__cuda_dim(&node->dst, 0), tokens * i.n + i.experts))
		return false;
	c = columns_of(l, f, node);
	t = tiles_of(node, &c);
	room = WEIR__CUDA_ROOM / (c.b_stride * c.b.dim[1]);
	room = room < f->wide.columns ? f->wide.columns : room;
	for (int64_t at = 0; at < tokens; at += room)
		tokens_add(l, f, t, c, i, at,
			   tokens - at < room ? tokens - at : room);
	return true;
}
