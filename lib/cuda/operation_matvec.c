/* SPDX-License-Identifier: MIT */
/*
 * Products of few columns: whether kernels/matvec.cuh can read the rows of a,
 * and what it reads of b. Only a, and the device, decide which kernel computes
 * a product and how its sums are split: so the bits of a result do not depend
 * on the other columns. If they are too many for the workspace, or have too
 * many outer dimensions, several launches compute them.
 */
#include "cuda/launches.h"
#include "cuda/operations.h"

#define MOST_GRID 65535u          /* of dimension y */
#define MOST_K ((int64_t)1 << 26) /* offsets in rows have 32 bits */
#define LEAST_M WEIR__CUDA_MATVEC_ROWS
#define MOST_COLUMNS (1 << 30) /* of a launch */
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
	enum weir__cuda_kernel_id kernel; /* of 1 column; others follow */
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
	{ WEIR_DTYPE_Q4_1, KERNEL(q4_1), 1024, 4, 4, true, 0 },
	{ WEIR_DTYPE_Q5_0, KERNEL(q5_0), 1024, 2, 4, true, 0 },
	{ WEIR_DTYPE_Q5_1, KERNEL(q5_1), 1024, 8, 4, true, 0 },
	{ WEIR_DTYPE_Q2_K, KERNEL(q2_k), 1024, 4, 4, true, 2 },
	{ WEIR_DTYPE_Q3_K, KERNEL(q3_k), 1024, 2, 2, true, 2 },
	{ WEIR_DTYPE_Q5_K, KERNEL(q5_k), 1024, 16, 4, true, 1 },
	{ WEIR_DTYPE_IQ4_NL, KERNEL(iq4_nl), 1024, 2, 4, true, 0 },
	{ WEIR_DTYPE_IQ4_XS, KERNEL(iq4_xs), 1024, 8, 4, true, 0 },
	{ WEIR_DTYPE_MXFP4, KERNEL(mxfp4), 1024, 1, 4, true, 0 },
	{ WEIR_DTYPE_NVFP4, KERNEL(nvfp4), 1024, 4, 4, true, 0 },
	{ WEIR_DTYPE_IQ1_S, KERNEL(iq1_s), 4096, 2, 2, true, 0 },
	{ WEIR_DTYPE_IQ1_M, KERNEL(iq1_m), 4096, 2, 2, true, 0 },
	{ WEIR_DTYPE_IQ2_XXS, KERNEL(iq2_xxs), 4096, 2, 2, true, 0 },
	{ WEIR_DTYPE_IQ2_XS, KERNEL(iq2_xs), 2048, 2, 2, true, 0 },
	{ WEIR_DTYPE_IQ2_S, KERNEL(iq2_s), 2048, 2, 2, true, 0 },
	{ WEIR_DTYPE_IQ3_XXS, KERNEL(iq3_xxs), 2048, 2, 2, true, 0 },
	{ WEIR_DTYPE_IQ3_S, KERNEL(iq3_s), 2048, 2, 2, true, 0 },
	{ WEIR_DTYPE_TQ1_0, KERNEL(tq1_0), 4096, 2, 2, true, 0 },
	{ WEIR_DTYPE_TQ2_0, KERNEL(tq2_0), 4096, 2, 2, true, 1 },
	{ WEIR_DTYPE_Q1_0, KERNEL(q1_0), 4096, 2, 2, true, 0 },
	{ WEIR_DTYPE_Q2_0, KERNEL(q2_0), 2048, 2, 2, true, 0 },
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

/* The bytes of a row of b in the workspace. */
static uint64_t pitch_of(const struct matvec *v, int64_t k)
{
	const int64_t unit = WEIR__CUDA_MATVEC_UNIT;

	return (uint64_t)(v->bytes ? (k + unit - 1) / unit *
					     WEIR__CUDA_MATVEC_UNIT_BYTES
				   : k * 4);
}

/* The rows of @b in the workspace, one after another. Returns their bytes. */
static uint64_t columns_place(struct weir__cuda_launches *l,
			      const struct matvec *v,
			      struct weir__cuda_operand *b)
{
	uint64_t stride = pitch_of(v, b->dim[0]);

	for (unsigned i = 1; i < WEIR__CUDA_DIMS; i++) {
		b->stride[i] = (int64_t)stride;
		stride *= (uint64_t)b->dim[i];
	}
	b->data = weir__cuda_workspace(l, stride);
	return stride;
}

/* Put b into the workspace in another form; @b is then what is there. */
static void columns_plan(struct weir__cuda_launches *l, const struct matvec *v,
			 struct weir__cuda_operand *b)
{
	const uint64_t unit = WEIR__CUDA_MATVEC_UNIT;
	struct weir__cuda_matvec_columns c = {
		.k = b->dim[0],
		.pitch = pitch_of(v, b->dim[0]),
		.order = v->order,
		.b = *b,
	};
	uint64_t units = ((uint64_t)c.k + unit - 1) / unit;

	c.rows = columns_place(l, v, b) / c.pitch;
	c.at = b->data;
	weir__cuda_launch_add(l,
			      v->bytes ? WEIR__CUDA_KERNEL_matvec_bytes
				       : WEIR__CUDA_KERNEL_matvec_floats,
			      weir__cuda_blocks_for(l, c.rows * units * unit),
			      1, WEIR__CUDA_THREADS, 0, &c, sizeof(c));
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

/* Outer dimensions that are not 1, of which there are at most OUTER. */
static void outer_dims(const struct weir__cuda_product *from,
		       const struct weir__cuda_operand *b,
		       struct weir__cuda_matvec *p)
{
	unsigned n = 0;

	for (unsigned d = 2; d < WEIR__CUDA_DIMS; d++) {
		if (from->dst.dim[d] == 1)
			continue;
		p->outer[n] = (uint32_t)from->dst.dim[d];
		p->share[n] = (uint32_t)(from->dst.dim[d] / from->a.dim[d]);
		p->a_outer[n] = from->a.stride[d];
		p->b_outer[n] = b->stride[d];
		p->dst_outer[n++] = from->dst.stride[d];
	}
	for (; n < OUTER; n++)
		p->outer[n] = p->share[n] = 1;
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

/* How many blocks have work with a matrix of @part. */
static uint64_t blocks_of(const struct matvec *v,
			  const struct weir__cuda_matvec *p,
			  const struct weir__cuda_matvec_part *part)
{
	uint64_t of_warp = p->n > 2 ? v->wide : 2;
	uint64_t rows = WEIR__CUDA_MATVEC_WARPS / part->split * of_warp;

	return ((uint64_t)part->m + rows - 1) / rows;
}

/*
 * Each part has as many blocks as it can use; if these are more than a device
 * has at once, each has its share of them.
 */
static void matvec_add(struct weir__cuda_launches *l, const struct matvec *v,
		       struct weir__cuda_matvec *p, unsigned parts)
{
	unsigned size = p->n > 4 ? 3 : p->n > 2 ? 2 : p->n > 1;
	uint64_t most = (uint64_t)l->sms * BLOCKS_OF_SM, all = 0, grid = 0;
	uint64_t works = weir__cuda_row_blocks(l, p->works);

	/* Dtypes of several units have no kernel of 2 columns. */
	if (size > 1 && v->unit > WEIR__CUDA_MATVEC_UNIT)
		size--;
	for (unsigned i = 0; i < parts; i++)
		all += blocks_of(v, p, &p->part[i]);
	for (unsigned i = 0; i < parts; i++) {
		uint64_t blocks = blocks_of(v, p, &p->part[i]);

		if (all > most)
			blocks = (uint64_t)((double)blocks * (double)most /
					    (double)all);
		p->part[i].blocks = blocks ? (uint32_t)blocks : 1;
		grid += p->part[i].blocks;
	}
	weir__cuda_launch_add(l, v->kernel + size, grid,
			      works < MOST_GRID ? works : MOST_GRID,
			      32 * WEIR__CUDA_MATVEC_WARPS, 0, p, sizeof(*p));
}

/* Whether rows of a are such that a warp can walk them. */
static bool is_fit(const struct matvec *v,
		   const struct weir__cuda_product *from, uint32_t precision)
{
	return from->k > 0 && from->k <= MOST_K && from->m >= LEAST_M &&
	       from->a.dim[2] <= INT32_MAX && reads_a(v, &from->a) &&
	       (!v->bytes || precision != WEIR_PRECISION_F32);
}

/* How a product, or a part of it, is computed. */
struct way {
	struct weir__cuda_launches *l;
	const struct matvec *v;
	bool chooses, inside; /* b goes to the workspace */
	int64_t most;         /* rows of b at once */
};

/* A matrix and its result, which are a part of a launch. */
static struct weir__cuda_matvec_part
matrix_of(const struct weir__cuda_launches *l, const struct matvec *v,
	  const struct weir__cuda_product *from)
{
	return (struct weir__cuda_matvec_part){
		.a = from->a.data,
		.dst = from->dst.data,
		.m = from->m,
		.dst_column = from->dst.stride[1],
		.split = split_of(l, v, from->m, from->k),
	};
}

static void part_add(const struct way *w, const struct weir__cuda_product *from)
{
	const int64_t most = WEIR__CUDA_MATVEC_COLUMNS;
	struct weir__cuda_operand b = from->b;
	struct weir__cuda_matvec p = {
		.part = { matrix_of(w->l, w->v, from) },
		.k = (int32_t)from->k,
		.n = w->chooses ? 1 : (int32_t)from->dst.dim[1],
		.inside = w->inside,
		.dst_unaligned = from->dst.unaligned,
		.a_row = from->a.stride[1],
		.dst_row = from->dst.stride[0],
	};
	int64_t works = w->chooses ? from->n : (p.n + most - 1) / most;

	if (p.inside)
		columns_plan(w->l, w->v, &b);
	if (w->chooses)
		ids_dims(from, &b, &p);
	else
		outer_dims(from, &b, &p);
	p.b = b.data;
	p.b_column = b.stride[1];
	for (unsigned d = 2; d < WEIR__CUDA_DIMS; d++)
		works *= from->dst.dim[d];
	p.works = (uint32_t)works;
	matvec_add(w->l, w->v, &p, 1);
}

/* Of dimension @d of b and of the result, the indices [@i, @i + @n). */
static void narrow(struct weir__cuda_product *p, unsigned d, int64_t i,
		   int64_t n)
{
	p->b.data += (uint64_t)(i * p->b.stride[d]);
	p->dst.data += (uint64_t)(i * p->dst.stride[d]);
	p->b.dim[d] = p->dst.dim[d] = n;
}

/* Tokens of mul_mat_id, as many at once as there is room for. */
static void tokens_add(const struct way *w,
		       const struct weir__cuda_product *from)
{
	int64_t of_token = from->n > from->b.dim[1] ? from->n : from->b.dim[1];
	int64_t tokens = from->dst.dim[2], some = w->most / of_token;

	some = some ? some : 1;
	for (int64_t i = 0; i < tokens; i += some) {
		struct weir__cuda_product p = *from;

		narrow(&p, 2, i, tokens - i < some ? tokens - i : some);
		p.ids.data += (uint64_t)(i * p.ids.stride[1]);
		part_add(w, &p);
	}
}

/*
 * Of dimension @d > 1 at most @n indices from @i on: with whole matrices of a,
 * or with a part of those that share one. Returns how many.
 */
static int64_t batches_take(struct weir__cuda_product *p, unsigned d, int64_t i,
			    int64_t n)
{
	int64_t share = p->dst.dim[d] / p->a.dim[d];
	int64_t left = share - i % share;

	if (n > left)
		n = i % share ? left : n - n % share;
	p->a.data += (uint64_t)(i / share * p->a.stride[d]);
	p->a.dim[d] = n > share ? n / share : 1;
	narrow(p, d, i, n);
	return n;
}

/* The columns of all batches, as many at once as there is room for. */
static void columns_add(const struct way *w,
			const struct weir__cuda_product *from)
{
	int64_t rows = from->dst.dim[1], some = w->most, dim, n;
	unsigned d = 1, outer = 0;

	for (unsigned i = 2; i < WEIR__CUDA_DIMS; i++)
		if (from->dst.dim[i] != 1) {
			d = i;
			outer++;
			rows *= from->dst.dim[i];
		}
	dim = from->dst.dim[d];
	if (d > 1 && (outer > OUTER || rows / dim > some))
		some = 1;
	else if (d > 1)
		some /= rows / dim;
	if (some >= dim) {
		part_add(w, from);
		return;
	}
	for (int64_t i = 0; i < dim; i += n) {
		struct weir__cuda_product p = *from;

		n = dim - i < some ? dim - i : some;
		if (d > 1)
			n = batches_take(&p, d, i, n);
		else
			narrow(&p, 1, i, n);
		columns_add(w, &p);
	}
}

bool weir__cuda_matvec_plan(struct weir__cuda_launches *l,
			    const struct weir__cuda_product *product,
			    bool chooses, uint32_t precision)
{
	const struct matvec *v = matvec_of(product->a.dtype);
	struct way w = { .l = l, .v = v, .chooses = chooses };

	if (!v || !is_fit(v, product, precision))
		return false;
	if (!product->n || !product->batches)
		return true;
	w.inside = v->bytes || l->measures || !reads_b(&product->b);
	w.most = MOST_COLUMNS;
	if (w.inside)
		w.most = (int64_t)(WEIR__CUDA_ROOM / pitch_of(v, product->k));
	/* Whole groups of columns. */
	w.most -= w.most % WEIR__CUDA_MATVEC_COLUMNS;
	if (!w.most)
		w.most = WEIR__CUDA_MATVEC_COLUMNS;
	if (chooses)
		tokens_add(&w, product);
	else
		columns_add(&w, product);
	return true;
}

/*
 * True if @product may be a part of a launch: its rows and results differ from
 * those of @first by their number and their addresses only. They have one b.
 */
static bool joins(const struct matvec *v,
		  const struct weir__cuda_product *product,
		  const struct weir__cuda_product *first)
{
	return matvec_of(product->a.dtype) == v &&
	       product->a.stride[1] == first->a.stride[1] &&
	       product->dst.stride[0] == first->dst.stride[0] &&
	       product->dst.unaligned == first->dst.unaligned;
}

bool weir__cuda_matvec_joins(const struct weir__cuda_product *product,
			     uint32_t precision)
{
	const struct matvec *v = matvec_of(product->a.dtype);

	return v && is_fit(v, product, precision) && product->batches == 1 &&
	       product->n > 0 && product->n <= WEIR__CUDA_MATVEC_COLUMNS;
}

bool weir__cuda_matvec_adds(const struct weir__cuda_product *product,
			    const struct weir__cuda_bias *bias)
{
	const struct weir__cuda_operand *row = &bias->row, *sum = &bias->sum;

	for (unsigned i = 1; i < WEIR__CUDA_DIMS; i++)
		if (row->dim[i] != 1)
			return false;
	return product->n <= WEIR__CUDA_MATVEC_BIASED &&
	       row->dtype == WEIR_DTYPE_F32 && row->dim[0] == product->m &&
	       row->stride[0] == 4 && !row->unaligned &&
	       sum->dtype == WEIR_DTYPE_F32 && sum->stride[0] == 4 &&
	       !sum->unaligned;
}

/* What is in the workspace: bytes of an order, or one of these. */
struct converted {
	enum {
		FLOATS = 3,
		NOTHING
	} form;
	uint64_t at; /* where b is */
};

/* The products that @first can be computed with, from those that are left. */
static void parts_add(struct weir__cuda_launches *l,
		      const struct weir__cuda_product *product,
		      const struct weir__cuda_bias *bias, unsigned n,
		      unsigned first, unsigned *left,
		      struct converted *workspace)
{
	const struct matvec *v = matvec_of(product[first].a.dtype);
	const uint32_t form = v->bytes ? v->order : FLOATS;
	struct weir__cuda_operand b = product[first].b;
	struct weir__cuda_matvec p = {
		.k = (int32_t)product[first].k,
		.n = (int32_t)product[first].n,
		.works = 1,
		.inside = v->bytes || !reads_b(&b),
		.dst_unaligned = product[first].dst.unaligned,
		.a_row = product[first].a.stride[1],
		.dst_row = product[first].dst.stride[0],
	};
	unsigned parts = 0;

	if (p.inside && workspace->form == form) {
		columns_place(l, v, &b);
		b.data = workspace->at;
	} else if (p.inside) {
		columns_plan(l, v, &b);
		workspace->form = form;
		workspace->at = b.data;
	}
	p.b = b.data;
	p.b_column = b.stride[1];
	outer_dims(&product[first], &b, &p);
	for (unsigned i = first; i < n; i++)
		if (*left & 1u << i && parts < WEIR__CUDA_MATVEC_PARTS &&
		    joins(v, &product[i], &product[first])) {
			p.part[parts] = matrix_of(l, v, &product[i]);
			p.sum[parts].row = bias[i].row.data;
			p.sum[parts].sum = bias[i].sum.data;
			p.sum[parts++].column = bias[i].sum.stride[1];
			p.sums |= bias[i].row.data != 0;
			*left &= ~(1u << i);
		}
	matvec_add(l, v, &p, parts);
}

void weir__cuda_matvec_join(struct weir__cuda_launches *l,
			    const struct weir__cuda_product *product,
			    const struct weir__cuda_bias *bias, unsigned n,
			    const struct weir__cuda_rounded *rounded)
{
	struct converted workspace = { .form = NOTHING };
	unsigned left = (1u << n) - 1;

	if (rounded) {
		workspace.form = rounded->order;
		workspace.at = rounded->at;
	}
	for (unsigned i = 0; i < n; i++)
		if (left & 1u << i)
			parts_add(l, product, bias, n, i, &left, &workspace);
}

struct weir__cuda_rounded
weir__cuda_matvec_rounded(struct weir__cuda_launches *l,
			  const struct weir__cuda_product *product)
{
	const struct matvec *v = matvec_of(product->a.dtype);
	struct weir__cuda_operand b = product->b;
	struct weir__cuda_rounded r = { 0 };

	if (!v->bytes)
		return r;
	columns_place(l, v, &b);
	r.at = b.data;
	r.pitch = pitch_of(v, b.dim[0]);
	r.order = v->order;
	return r;
}
