/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns: whether kernels/matvec.cuh can read the rows of a,
 * and what it reads of b. Only a, and the device, decide which kernel computes
 * a product and how its sums are split: so the bits of a result do not depend
 * on the other columns.
 */
#include "cuda/launches.h"
#include "cuda/operations.h"

#define MOST_GRID 65535u          /* of dimension y */
#define MOST_K ((int64_t)1 << 26) /* offsets in rows have 32 bits */
#define LEAST_M WEIR__CUDA_MATVEC_ROWS
#define OUTER WEIR__CUDA_MATVEC_OUTER
/*
 * Warps that an SM has at least, if there are rows for them: with two rows and
 * two units of 1024 bytes on their way each asks for 4 KB.
 */
#define WARPS_OF_SM 24u
#define BLOCKS_OF_SM 6u /* that are resident at once, at most */

/* The kernels of a dtype, and the rows that they read. */
struct matvec {
	uint32_t dtype;
	enum weir__cuda_kernel_id kernel; /* of 1 column; 2, 4, 8 follow */
	int32_t unit;                     /* elements */
	int32_t align;                    /* of rows: bytes */
	uint32_t wide;                    /* rows of a warp with 4, 8 columns */
	bool bytes;                       /* b is rounded to bytes; else F32 */
	uint32_t order;                   /* of these */
};

#define KERNEL(name) WEIR__CUDA_KERNEL_matvec_##name##_1
static const struct matvec table[] = {
	{ WEIR_DTYPE_F32, KERNEL(f32), 256, 16, 4, false, 0 },
	{ WEIR_DTYPE_F16, KERNEL(f16), 512, 16, 4, false, 0 },
	{ WEIR_DTYPE_BF16, KERNEL(bf16), 512, 16, 4, false, 0 },
	{ WEIR_DTYPE_Q8_0, KERNEL(q8_0), 1024, 2, 4, true, 0 },
	{ WEIR_DTYPE_Q4_0, KERNEL(q4_0), 1024, 2, 4, true, 0 },
	{ WEIR_DTYPE_Q4_K, KERNEL(q4_k), 1024, 16, 4, true, 1 },
	{ WEIR_DTYPE_Q6_K, KERNEL(q6_k), 1024, 2, 2, true, 2 },
};

static const struct matvec *matvec_of(uint32_t dtype)
{
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].dtype == dtype)
			return &table[i];
	return NULL;
}

/* True if strides from dimension @from on are multiples of @bytes. */
static bool strides_fit(const struct weir__cuda_operand *t, unsigned from,
			int64_t bytes)
{
	for (unsigned i = from; i < WEIR__CUDA_DIMS; i++)
		if (t->dim[i] > 1 && t->stride[i] % bytes)
			return false;
	return true;
}

/* Rows of floats have whole quads; all are arrays of elements or blocks. */
static bool reads_a(const struct matvec *v, const struct weir__cuda_operand *a)
{
	int64_t element = a->dtype == WEIR_DTYPE_F32 ? 4 : 2;

	return a->data % 16 == 0 && strides_fit(a, 1, v->align) &&
	       strides_fit(a, 2, 16) &&
	       (v->bytes || (a->stride[0] == element && a->dim[0] % 4 == 0));
}

/* True if b can be read as it is. */
static bool reads_b(const struct weir__cuda_operand *b)
{
	return b->dtype == WEIR_DTYPE_F32 && b->stride[0] == 4 &&
	       b->data % 16 == 0 && strides_fit(b, 1, 16) &&
	       b->stride[1] >= 0 && b->stride[1] <= 4 * MOST_K;
}

/* Put b into the workspace in another form; @b is then what is there. */
static void columns_plan(struct weir__cuda_launches *l, const struct matvec *v,
			 struct weir__cuda_operand *b)
{
	const uint64_t unit = WEIR__CUDA_MATVEC_UNIT;
	uint64_t k = (uint64_t)b->dim[0], units = (k + unit - 1) / unit;
	struct weir__cuda_matvec_columns c = {
		.rows = 1,
		.k = b->dim[0],
		.pitch = v->bytes ? units * WEIR__CUDA_MATVEC_UNIT_BYTES
				  : k * 4,
		.order = v->order,
		.b = *b,
	};
	uint64_t stride = c.pitch;

	for (unsigned i = 1; i < WEIR__CUDA_DIMS; i++) {
		b->stride[i] = (int64_t)stride;
		stride *= (uint64_t)b->dim[i];
		c.rows *= (uint64_t)b->dim[i];
	}
	c.at = b->data = weir__cuda_workspace(l, stride);
	weir__cuda_launch_add(l,
			      v->bytes ? WEIR__CUDA_KERNEL_matvec_bytes
				       : WEIR__CUDA_KERNEL_matvec_floats,
			      weir__cuda_blocks_for(c.rows * units * unit), 1,
			      WEIR__CUDA_THREADS, 0, &c, sizeof(c));
}

/* How many warps share a row: it may not depend on the columns. */
static uint32_t split_of(const struct weir__cuda_launches *l,
			 const struct matvec *v, int64_t m, int64_t k)
{
	int64_t units = (k + v->unit - 1) / v->unit;
	uint64_t pairs = ((uint64_t)m + 1) / 2;
	uint32_t split = 1;

	while (split < WEIR__CUDA_MATVEC_WARPS && 2 * split <= units &&
	       split * pairs < (uint64_t)l->sms * WARPS_OF_SM)
		split *= 2;
	return split;
}

/* Outer dimensions that are not 1, if they are few enough. */
static bool outer_dims(const struct weir__cuda_product *from,
		       const struct weir__cuda_operand *b,
		       struct weir__cuda_matvec *p)
{
	unsigned n = 0;

	for (unsigned d = 2; d < WEIR__CUDA_DIMS; d++) {
		if (from->dst.dim[d] == 1)
			continue;
		if (n == OUTER || b->dim[d] != from->dst.dim[d])
			return false;
		p->outer[n] = (uint32_t)from->dst.dim[d];
		p->share[n] = (uint32_t)(from->dst.dim[d] / from->a.dim[d]);
		p->a_outer[n] = from->a.stride[d];
		p->b_outer[n] = b->stride[d];
		p->dst_outer[n++] = from->dst.stride[d];
	}
	for (; n < OUTER; n++)
		p->outer[n] = p->share[n] = 1;
	return true;
}

/* The ids of a token, and the tokens. */
static void ids_dims(const struct weir__cuda_product *from,
		     const struct weir__cuda_operand *b,
		     struct weir__cuda_matvec *p)
{
	p->outer[0] = (uint32_t)from->n;
	p->dst_outer[0] = from->dst.stride[1];
	p->b_outer[1] = b->stride[2];
	p->dst_outer[1] = from->dst.stride[2];
	p->ids = from->ids.data;
	p->ids_unaligned = from->ids.unaligned;
	p->ids_id = from->ids.stride[0];
	p->ids_token = from->ids.stride[1];
	p->a_expert = from->a.stride[2];
	p->experts = (int32_t)from->a.dim[2];
	p->b_columns = (int32_t)b->dim[1];
	p->node = from->node;
}

static void matvec_add(struct weir__cuda_launches *l, const struct matvec *v,
		       const struct weir__cuda_matvec *p)
{
	unsigned size = p->n > 4 ? 3 : p->n > 2 ? 2 : p->n > 1;
	uint64_t rows = (uint64_t)(WEIR__CUDA_MATVEC_WARPS / p->split) *
			(size == 3   ? v->wide
			 : size == 2 ? 4
				     : 2);
	uint64_t x = ((uint64_t)p->m + rows - 1) / rows;
	uint64_t most = (uint64_t)l->sms * BLOCKS_OF_SM;

	weir__cuda_launch_add(l, v->kernel + size, x < most ? x : most,
			      p->works < MOST_GRID ? p->works : MOST_GRID,
			      32 * WEIR__CUDA_MATVEC_WARPS, 0, p, sizeof(*p));
}

/* Whether rows of a, and the result, are such that a warp can walk them. */
static bool is_fit(const struct matvec *v,
		   const struct weir__cuda_product *from, uint32_t precision)
{
	uint64_t works = from->batches * (uint64_t)from->n;

	return from->k > 0 && from->k <= MOST_K && from->m >= LEAST_M &&
	       works <= INT32_MAX && from->a.dim[2] <= INT32_MAX &&
	       reads_a(v, &from->a) &&
	       (!v->bytes || precision != WEIR_PRECISION_F32);
}

bool weir__cuda_matvec_plan(struct weir__cuda_launches *l,
			    const struct weir__cuda_product *from, bool chooses,
			    uint32_t precision)
{
	const struct matvec *v = matvec_of(from->a.dtype);
	const uint64_t most = WEIR__CUDA_MATVEC_COLUMNS;
	struct weir__cuda_operand b = from->b;
	struct weir__cuda_matvec p = {
		.m = from->m,
		.k = (int32_t)from->k,
		.n = chooses ? 1 : (int32_t)from->n,
		.dst_unaligned = from->dst.unaligned,
		.a = from->a.data,
		.a_row = from->a.stride[1],
		.dst = from->dst.data,
		.dst_row = from->dst.stride[0],
		.dst_column = from->dst.stride[1],
	};

	if (!v || !is_fit(v, from, precision) ||
	    (!chooses && !outer_dims(from, &b, &p)))
		return false;
	if (!from->n || !from->batches)
		return true;
	/* Without an address, measure has to ask for the most. */
	p.inside = v->bytes || !b.data || !reads_b(&b);
	if (p.inside)
		columns_plan(l, v, &b);
	if (chooses)
		ids_dims(from, &b, &p);
	else
		outer_dims(from, &b, &p);
	p.b = b.data;
	p.b_column = b.stride[1];
	p.split = split_of(l, v, p.m, p.k);
	p.works = (uint32_t)(chooses ? from->batches * (uint64_t)from->n
				     : from->batches *
					       (((uint64_t)p.n + most - 1) /
						most));
	matvec_add(l, v, &p);
	return true;
}
