/* SPDX-License-Identifier: MIT */
/*
 * Products of many columns that cuBLASLt computes: which of them, and their
 * calls. b is converted in the workspace as for tiles, unless it has the dtype
 * of a and rows that the library can read.
 */
#include "cuda/cuda.h"
#include "cuda/launches.h"
#include "cuda/operations.h"

/*
 * Judged, never measured: with fewer columns or rows, calls take longer than
 * products. Such plans are launched directly: no CUDA graph has a call.
 */
#define FEWEST_COLUMNS 64
#define FEWEST_ROWS 16
#define MOST_CALLS 64              /* of a node: matrices, and parts */
#define MOST INT32_MAX             /* of each dimension */
#define ROOM ((int64_t)(32 << 20)) /* of the workspace, for columns */
#define PART 256                   /* parts have a multiple of it */
#define ALIGN 256
#define GROUP 8 /* elements of 16 bytes of columns */

_Static_assert(FEWEST_COLUMNS > WEIR__CUDA_GRAPH_COLUMNS,
	       "no graph has a call");

/* A product, as calls of it. */
struct calls {
	struct weir__cublaslt_shape shape;
	struct weir__cuda_operand a, b, d;
	struct weir__cuda_columns columns; /* of b, if it is converted */
	bool direct;                       /* it is not */
	int64_t part;                      /* columns of a call, at most */
	uint64_t n;                        /* calls */
};

/* True if rows of @t can be a matrix of the library. */
static bool is_matrix(const struct weir__cuda_operand *t, int64_t bytes)
{
	if (t->stride[0] != bytes || t->stride[1] < t->dim[0] * bytes ||
	    t->data % (uint64_t)bytes)
		return false;
	for (unsigned i = 1; i < WEIR__CUDA_DIMS; i++)
		if (t->dim[i] > 1 && (t->stride[i] < 0 || t->stride[i] % bytes))
			return false;
	return true;
}

/*
 * The greatest power of two, at most 256, that divides the addresses of all
 * rows (@from 1) or matrices (2).
 */
static uint32_t align_of(const struct weir__cuda_operand *t, unsigned from)
{
	uint64_t all = t->data | ALIGN;

	for (unsigned i = from; i < WEIR__CUDA_DIMS; i++)
		if (t->dim[i] > 1)
			all |= (uint64_t)t->stride[i];
	return (uint32_t)(all & -all);
}

static int64_t ceil_div(int64_t a, int64_t b)
{
	return a / b + !!(a % b);
}

/* b as it is converted, as columns.cu writes it: F16 as the sum of two. */
static void convert(struct calls *c)
{
	const bool pairs = c->a.dtype == WEIR_DTYPE_F16;
	const int64_t bytes = ceil_div(c->shape.k, GROUP) * GROUP * 2;
	struct weir__cuda_columns *columns = &c->columns;

	columns->b = c->b;
	columns->k = c->shape.k;
	columns->low_at = pairs ? bytes : 0;
	columns->scale_at = pairs ? 2 * bytes : 0;
	columns->b_stride = pairs ? 2 * bytes + 16 : bytes;
	columns->b_at = ALIGN;
	columns->dense = c->b.dtype == WEIR_DTYPE_F32 && c->b.stride[0] == 4 &&
			 align_of(&c->b, 1) >= 16;
	c->shape.row_b = columns->b_stride / 2;
	c->shape.align_b = 16;
}

/*
 * One call has matrices of dimension 2, if each has a matrix of a or all share
 * one; and if their columns have room in the workspace.
 */
static void divide(struct calls *c)
{
	struct weir__cublaslt_shape *s = &c->shape;
	const bool alone = c->a.dim[2] == c->d.dim[2];
	int64_t room;

	s->batches = alone ? c->d.dim[2] : c->d.dim[2] / c->a.dim[2];
	s->batch_a = alone ? c->a.stride[2] / 2 : 0;
	s->batch_b = c->b.stride[2] / 2;
	s->batch_d = c->d.stride[2] / 4;
	c->part = s->n;
	if (c->direct)
		return;
	room = ROOM / c->columns.b_stride;
	if (s->n * s->batches > room)
		s->batches = 1;
	if (s->n > room)
		c->part = room > PART ? room / PART * PART : PART;
	s->batch_b = c->part * s->row_b;
}

/* False: the library cannot express it, or it is too small. */
static bool is_expressed(struct calls *c, const struct weir_backend_node *node)
{
	const struct weir_op_mul_mat *o = node->params;
	struct weir__cublaslt_shape *s = &c->shape;

	c->a = weir__cuda_source(node, 0);
	c->b = weir__cuda_source(node, 1);
	c->d = weir__cuda_operand(&node->dst);
	*s = (struct weir__cublaslt_shape){ .m = c->d.dim[0],
					    .n = c->d.dim[1],
					    .k = c->a.dim[0],
					    .row_a = c->a.stride[1] / 2,
					    .row_b = c->b.stride[1] / 2,
					    .row_d = c->d.stride[1] / 4,
					    .align_a = align_of(&c->a, 2),
					    .align_b = align_of(&c->b, 2),
					    .align_d = align_of(&c->d, 2) };
	if (c->a.dtype == WEIR_DTYPE_F16)
		s->type = WEIR__CUBLASLT_F16;
	else if (c->a.dtype == WEIR_DTYPE_BF16)
		s->type = WEIR__CUBLASLT_BF16;
	else
		return false;
	return o->precision == WEIR_PRECISION_FAST && s->m >= FEWEST_ROWS &&
	       s->n >= FEWEST_COLUMNS && s->k > 0 && s->m <= MOST &&
	       s->n <= MOST && s->k <= MOST && c->d.dim[2] <= MOST &&
	       is_matrix(&c->a, 2) && is_matrix(&c->d, 4);
}

static bool calls_of(const struct weir__cuda_launches *l, struct calls *c,
		     const struct weir_backend_node *node)
{
	uint64_t batches = weir__cuda_outer(&node->dst, 2);

	if (!batches || !is_expressed(c, node))
		return false;
	c->direct = c->b.data && c->b.dtype == c->a.dtype &&
		    is_matrix(&c->b, 2) && align_of(&c->b, 1) >= 16;
	if (!c->direct)
		convert(c);
	divide(c);
	c->n = batches / (uint64_t)c->shape.batches *
	       (uint64_t)ceil_div(c->shape.n, c->part);
	/* b that is not converted may need fewer calls. */
	return l->measures || c->n <= MOST_CALLS;
}

/* The bytes of columns in the workspace; after them is what a call needs. */
static uint64_t columns_bytes(const struct calls *c)
{
	int64_t bytes = c->part * c->shape.batches * c->columns.b_stride;

	return c->direct ? 0 : (uint64_t)(ceil_div(bytes, ALIGN) * ALIGN);
}

static struct weir__cublaslt_product *
product_of(struct weir__cuda_launches *l, const struct calls *c, int64_t n)
{
	struct weir__cublaslt_shape shape = c->shape;
	struct weir__cublaslt_product *p;

	shape.n = n;
	p = weir__cublaslt_product_new(l->c, &shape, l->library,
				       sizeof(l->library));
	if (!p)
		return NULL;
	p->next = l->products;
	l->products = p;
	return p;
}

/* The addresses of the matrices of batch @batch, from column 0 on. */
static struct weir__cublaslt_call call_at(const struct calls *c, uint64_t batch)
{
	struct weir__cublaslt_call call = { .a = c->a.data,
					    .b = c->b.data,
					    .d = c->d.data };

	for (unsigned i = 2; i < WEIR__CUDA_DIMS; i++) {
		int64_t at = (int64_t)(batch % (uint64_t)c->d.dim[i]);
		int64_t share = c->d.dim[i] / c->a.dim[i];

		batch /= (uint64_t)c->d.dim[i];
		call.a += (uint64_t)(at / share * c->a.stride[i]);
		call.b += (uint64_t)(at * c->b.stride[i]);
		call.d += (uint64_t)(at * c->d.stride[i]);
	}
	return call;
}

/* The products of a call; b of F16 is the sum of two, and was scaled. */
static void products_add(struct weir__cuda_launches *l, const struct calls *c,
			 struct weir__cublaslt_call call,
			 const struct weir__cuda_columns *columns)
{
	struct weir__cuda_scaled scaled = { .m = c->shape.m,
					    .columns = *columns,
					    .dst = c->d };

	weir__cuda_launch_add_call(l, &call);
	if (!columns->low_at)
		return;
	call.b_at += (uint64_t)columns->low_at;
	call.adds = true;
	weir__cuda_launch_add_call(l, &call);
	weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_unscale,
			      (uint64_t)(columns->n * c->shape.batches), 1,
			      WEIR__CUDA_THREADS, 0, &scaled, sizeof(scaled));
}

/* @n columns of batch @batch and those that its call has, from @column on. */
static void part_add(struct weir__cuda_launches *l, const struct calls *c,
		     const struct weir__cublaslt_product *p, uint64_t batch,
		     int64_t column, int64_t n)
{
	struct weir__cuda_columns columns = c->columns;
	struct weir__cublaslt_call call = call_at(c, batch);

	columns.batch = batch;
	columns.column = column;
	columns.n = n;
	call.product = p;
	call.d += (uint64_t)(column * c->d.stride[1]);
	call.workspace = ALIGN + columns_bytes(c);
	if (!c->direct) {
		call.b_at = (uint64_t)columns.b_at;
		weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_columns,
				      (uint64_t)(n * c->shape.batches), 1,
				      WEIR__CUDA_THREADS, 0, &columns,
				      sizeof(columns));
	}
	products_add(l, c, call, &columns);
}

/* An upper bound, for a product that may be computed so: b is converted. */
static void measure(struct weir__cuda_launches *l, const struct calls *c)
{
	weir__cuda_workspace(l, columns_bytes(c) + weir__cublaslt_room(l->c));
}

bool weir__cuda_cublaslt_mul_mat(struct weir__cuda_launches *l,
				 const struct weir_backend_node *node)
{
	struct weir__cublaslt_product *whole, *rest;
	uint64_t batches = weir__cuda_outer(&node->dst, 2);
	struct calls c = { 0 };
	size_t need;

	if (!calls_of(l, &c, node))
		return false;
	if (l->measures) {
		if (!l->c || weir__cublaslt_use(l->c, true, l->library,
						sizeof(l->library)))
			measure(l, &c);
		return false;
	}
	if (!weir__cublaslt_use(l->c, false, l->library, sizeof(l->library)))
		return false;
	whole = rest = product_of(l, &c, c.part);
	if (whole && c.shape.n % c.part)
		rest = product_of(l, &c, c.shape.n % c.part);
	if (!whole || !rest)
		return false;
	need = whole->chosen.workspace > rest->chosen.workspace
		       ? whole->chosen.workspace
		       : rest->chosen.workspace;
	weir__cuda_workspace(l, columns_bytes(&c) + need);
	for (uint64_t b = 0; b < batches; b += (uint64_t)c.shape.batches)
		for (int64_t at = 0; at < c.shape.n; at += c.part)
			part_add(l, &c, c.shape.n - at < c.part ? rest : whole,
				 b, at,
				 c.shape.n - at < c.part ? c.shape.n - at
							 : c.part);
	l->by_library++;
	return true;
}
