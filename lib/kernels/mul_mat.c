/* SPDX-License-Identifier: MIT */
/*
 * mul_mat and mul_mat_id. A column is a row of b, and of the result; columns
 * that are multiplied with the same matrix are a group: the rows of b whose
 * outer indices give the same matrix of a, or the rows whose id is the same.
 *
 * mul_mat_id first sorts its columns by their id. Then the columns are
 * prepared, if the product needs that, and then blocks of rows of a matrix are
 * multiplied with all columns of a group.
 */
#include <errno.h>
#include <string.h>

#include <weir/ops.h>

#include "kernels/floats.h"
#include "kernels/kernels.h"
#include "kernels/product.h"
#include "kernels/walk.h"

#define lib weir__cpu_host
#define COLUMNS WEIR__PRODUCT_COLUMNS
/*
 * Bytes of a matrix that a reader reads at once: a part of the second cache.
 */
#define ROOM (128u << 10)
/*
 * Bytes of a missing matrix that are used at once where the provider has them,
 * with up to 16 columns; fewer with more. Each new part interrupts the reads
 * ahead, and a long use keeps others waiting.
 */
#define FOUND (1u << 20)

/* The columns that are multiplied with one matrix. */
struct column_group {
	uint64_t matrix; /* index of the matrix in a */
	uint64_t first;  /* index of its first column, in the order of groups */
	uint64_t n;      /* number of columns */
	uint64_t set;    /* index of its first set of prepared columns */
};

/* What is computed from the node, the same for all parts. */
struct job {
	const struct weir_operand *a, *b, *ids, *dst; /* ids may be NULL */
	struct weir__product product;
	size_t m;       /* rows of a matrix */
	size_t rows;    /* rows of a block */
	size_t columns; /* columns of all groups */
	size_t groups;  /* at most */
	size_t each;    /* columns of a group of mul_mat */
	size_t sets;    /* at most */
	bool prepares;
	/* Offsets in the memory that all threads share; mul_mat_id only. */
	size_t order_at; /* uint64_t[columns]: columns in the order of groups */
	size_t group_at; /* struct column_group[groups], then their number */
	size_t set_at;
};

/* The number of neighbouring rows of b that have the same matrix of a. */
static size_t columns_each(const struct weir_operand *a,
			   const struct weir_operand *b)
{
	size_t n = (size_t)weir__dim(b, 1);

	for (unsigned i = 2; i < b->ndim; i++) {
		if (weir__dim(a, i) > 0)
			n *= (size_t)(weir__dim(b, i) / weir__dim(a, i));
		if (weir__dim(a, i) > 1)
			break;
	}
	return n;
}

static bool b_is_floats(const struct weir_operand *b)
{
	return b->dtype == WEIR_DTYPE_F32 &&
	       (weir__stride(b, 0) == sizeof(float) || weir__dim(b, 0) <= 1);
}

static void job_make(const struct weir_backend_node *node, struct job *job)
{
	const struct weir_operand *a = &node->src[0], *b = &node->src[1];
	const struct weir_op_mul_mat *params = node->params;
	size_t typical;

	memset(job, 0, sizeof(*job));
	job->a = a;
	job->b = b;
	job->ids = node->op == WEIR_OP_MUL_MAT_ID ? &node->src[2] : NULL;
	job->dst = &node->dst;
	job->m = (size_t)weir__dim(a, 1);
	job->columns = (size_t)weir__rows(job->dst);
	if (job->ids) {
		job->groups = (size_t)weir__dim(a, 2);
		typical = job->groups ? job->columns / job->groups : 0;
	} else {
		job->each = columns_each(a, b);
		job->groups = job->each ? job->columns / job->each : 0;
		typical = job->each;
	}
	weir__product_plan(&job->product, a->dtype, (size_t)weir__dim(a, 0),
			   typical, params->precision);
	job->rows = job->product.rows;
	job->prepares = !job->product.ready || !b_is_floats(b);
	job->sets = job->columns / job->product.set_columns + job->groups;
	if (job->ids) {
		job->group_at = weir__line_up(8 * job->columns);
		job->set_at = weir__line_up(
			job->group_at +
			sizeof(struct column_group) * job->groups + 8);
	}
}

static int product_supports(const struct weir_backend_node *node)
{
	const struct weir_operand *a = &node->src[0], *b = &node->src[1];
	const struct weir_dtype_info *info = lib->dtype(a->dtype);
	int64_t k = weir__dim(a, 0);

	if (a->dtype != WEIR_DTYPE_F32 && !weir__to_f32(a->dtype))
		return weir__kernel_refuse(node, "no conversion to F32");
	if (!weir__is_float(b->dtype))
		return weir__kernel_refuse(node, "b is not floating-point");
	if (k % info->block)
		return weir__kernel_refuse(
			node, "rows of %lld elements, blocks of %u",
			(long long)k, info->block);
	if (k > info->block && weir__stride(a, 0) != info->bytes)
		return weir__kernel_refuse(node, "rows of a have gaps");
	if (!weir__contiguous(&node->dst, sizeof(float), 1))
		return weir__kernel_refuse(node, "the result has gaps");
	return 0;
}

static uint64_t blocks_of(const struct job *job)
{
	return job->groups * ((job->m + job->rows - 1) / job->rows);
}

static void product_plan(const struct weir_backend_node *node, unsigned threads,
			 struct weir__kernel_plan *ret)
{
	const struct weir_dtype_info *info = lib->dtype(node->src[0].dtype);
	uint64_t elements, products;
	struct job job;

	job_make(node, &job);
	while (job.rows > job.product.least_rows &&
	       blocks_of(&job) < 4ull * threads)
		job.rows /= 2;
	ret->variant = (uint32_t)job.rows;
	/* In 1 ns 8 bytes are read, or 50 products computed, about. */
	elements = (uint64_t)job.m * job.product.k * job.groups;
	if (__builtin_mul_overflow((uint64_t)job.m * job.columns, job.product.k,
				   &products))
		products = UINT64_MAX;
	ret->cost = elements * info->bytes / info->block / 8 + products / 50;
	ret->phases = 1u + (job.ids != NULL) + job.prepares;
	ret->parts = weir__kernel_parts(ret->cost, blocks_of(&job), threads);
	ret->scratch = job.product.scratch;
	if (job.prepares) /* a set of columns as F32 */
		ret->scratch += job.product.set_columns *
				weir__line_up(job.product.k * sizeof(float));
	ret->shared = job.set_at;
	if (job.prepares)
		ret->shared += job.sets * job.product.set_bytes;
}

/* Return group @i of mul_mat. */
static struct column_group group_of(const struct job *job, size_t i)
{
	size_t per = (job->each + job->product.set_columns - 1) /
		     job->product.set_columns;
	struct column_group g = { .first = i * job->each,
				  .n = job->each,
				  .set = i * per };
	size_t row = i * job->each / (size_t)weir__dim(job->b, 1), unit = 1;

	/* Divide the indices of b's outer dimensions. */
	for (unsigned d = 2; d < job->b->ndim; d++) {
		size_t n = (size_t)weir__dim(job->b, d);
		size_t of_a = (size_t)weir__dim(job->a, d);

		g.matrix += row % n / (n / of_a) * unit;
		unit *= of_a;
		row /= n;
	}
	return g;
}

static uint64_t *shared_order(const struct weir__kernel_run *run,
			      const struct job *job)
{
	return (uint64_t *)(void *)((unsigned char *)run->shared +
				    job->order_at);
}

static struct column_group *shared_groups(const struct weir__kernel_run *run,
					  const struct job *job)
{
	return (struct column_group *)(void *)((unsigned char *)run->shared +
					       job->group_at);
}

/* Return the address of the number of groups that have columns. */
static uint64_t *shared_count(const struct weir__kernel_run *run,
			      const struct job *job)
{
	return (uint64_t *)(void *)(shared_groups(run, job) + job->groups);
}

static int32_t id_at(const struct job *job, size_t column)
{
	const struct weir_operand *ids = job->ids;
	size_t n = (size_t)weir__dim(ids, 0);
	const unsigned char *p = ids->data;
	int32_t id;

	p += (int64_t)(column / n) * weir__stride(ids, 1) +
	     (int64_t)(column % n) * weir__stride(ids, 0);
	memcpy(&id, p, sizeof(id));
	return id;
}

/* Sort the columns by their id (counting sort). One part does it. */
static int sort_columns(const struct weir__kernel_run *run,
			const struct job *job)
{
	struct column_group *group = shared_groups(run, job);
	uint64_t *order = shared_order(run, job), at = 0, set = 0, count = 0;

	memset(group, 0, job->groups * sizeof(*group));
	for (size_t c = 0; c < job->columns; c++) {
		int32_t id = id_at(job, c);

		if (id < 0 || (size_t)id >= job->groups)
			return weir__kernel_fail(
				run, -EINVAL, "id %d at %zu, of %zu matrices",
				id, c, job->groups);
		group[id].n++;
	}
	for (size_t i = 0; i < job->groups; i++) {
		group[i].first = at;
		at += group[i].n;
		group[i].n = 0;
	}
	for (size_t c = 0; c < job->columns; c++) {
		struct column_group *g = &group[id_at(job, c)];

		order[g->first + g->n++] = c;
	}
	for (size_t i = 0; i < job->groups; i++) {
		struct column_group g = group[i];

		if (!g.n)
			continue;
		g.matrix = i;
		g.set = set;
		set += (g.n + job->product.set_columns - 1) /
		       job->product.set_columns;
		group[count++] = g;
	}
	*shared_count(run, job) = count;
	return 0;
}

static size_t groups_of(const struct weir__kernel_run *run,
			const struct job *job)
{
	return job->ids ? (size_t)*shared_count(run, job) : job->groups;
}

static struct column_group group_get(const struct weir__kernel_run *run,
				     const struct job *job, size_t i)
{
	return job->ids ? shared_groups(run, job)[i] : group_of(job, i);
}

/* Return the column at index @at in the order of groups. */
static size_t column_at(const struct weir__kernel_run *run,
			const struct job *job, size_t place)
{
	return job->ids ? (size_t)shared_order(run, job)[place] : place;
}

/* Return the row of b that is this column. */
static const unsigned char *b_row(const struct job *job, size_t column)
{
	const struct weir_operand *b = job->b;
	const unsigned char *p = b->data;
	size_t n;

	if (!job->ids) {
		struct weir__walk w;

		weir__walk_start(&w, job->dst, (int64_t)column);
		return weir__walk_at(&w, b);
	}
	n = (size_t)weir__dim(job->ids, 0);
	return p + (int64_t)(column / n) * weir__stride(b, 2) +
	       (int64_t)(column % n % (size_t)weir__dim(b, 1)) *
		       weir__stride(b, 1);
}

/*
 * Return the elements of a column as F32: copied to @tmp unless they are F32
 * already.
 */
static const float *b_floats(const struct job *job, size_t column, float *tmp)
{
	const unsigned char *p = b_row(job, column);
	int64_t stride = weir__stride(job->b, 0);
	size_t k = job->product.k;

	if (b_is_floats(job->b))
		return (const float *)(const void *)p;
	for (size_t i = 0; i < k; i += WEIR__FLOATS) {
		size_t n = k - i < WEIR__FLOATS ? k - i : WEIR__FLOATS;
		const float *x = weir__floats_in(job->b->dtype,
						 p + (int64_t)i * stride,
						 stride, n, tmp + i);

		if (x != tmp + i)
			memcpy(tmp + i, x, n * sizeof(*x));
	}
	return tmp;
}

static void prepare_set(const struct weir__kernel_run *run,
			const struct job *job, const struct column_group *g,
			size_t i)
{
	const struct weir__product *p = &job->product;
	size_t at = i * p->set_columns, n = g->n - at;
	unsigned char *tmp = run->scratch;
	const float *column[WEIR__TILES_COLUMNS];

	n = n < p->set_columns ? n : p->set_columns;
	for (size_t c = 0; c < n; c++) {
		column[c] = b_floats(job,
				     column_at(run, job, g->first + at + c),
				     (float *)(void *)tmp);
		tmp += weir__line_up(p->k * sizeof(float));
	}
	weir__product_prepare(p,
			      (unsigned char *)run->shared + job->set_at +
				      (g->set + i) * p->set_bytes,
			      column, n);
}

/* Prepare columns: each part takes some of all sets. */
static void prepare_columns(const struct weir__kernel_run *run,
			    const struct job *job)
{
	size_t set_columns = job->product.set_columns;
	size_t groups = groups_of(run, job), at = 0, n;
	struct column_group last;
	int64_t first, end;

	if (!groups)
		return;
	last = group_get(run, job, groups - 1);
	n = last.set + (last.n + set_columns - 1) / set_columns;
	weir__kernel_range(run, (int64_t)n, &first, &end);
	for (size_t i = 0; i < groups; i++) {
		struct column_group g = group_get(run, job, i);
		size_t sets = (g.n + set_columns - 1) / set_columns;

		for (size_t s = 0; s < sets; s++, at++)
			if ((int64_t)at >= first && (int64_t)at < end)
				prepare_set(run, job, &g, s);
	}
}

static const unsigned char *matrix_at(const struct job *job, size_t matrix)
{
	const unsigned char *a = job->a->data;

	for (unsigned d = 2; d < job->a->ndim; d++) {
		size_t n = (size_t)weir__dim(job->a, d);

		a += (int64_t)(matrix % n) * weir__stride(job->a, d);
		matrix /= n;
	}
	return a;
}

/* Rows of a missing matrix that a thread got from the provider. */
struct provided {
	const unsigned char *matrix; /* where it would be in a */
	size_t first, end;           /* rows */
	const unsigned char
		*at; /* where row @first is; NULL if there is none */
	bool found;  /* false if the provider read the rows to the thread's
			room */
};

static size_t row_bytes(const struct weir_operand *a)
{
	const struct weir_dtype_info *info = lib->dtype(a->dtype);

	return (size_t)weir__dim(a, 0) / info->block * info->bytes;
}

/*
 * True if rows follow each other without gaps, so several are one range of the
 * file, and each row is read by one part, so no two threads read to the same
 * place.
 */
static bool product_takes_reader(const struct weir_backend_node *node)
{
	const struct weir_operand *a = &node->src[0];
	int64_t stride = (int64_t)row_bytes(a);
	size_t matrices = 1;
	struct job job;

	if (weir__dim(a, 1) <= 1 || !stride)
		return false;
	for (unsigned d = 1; d < a->ndim; d++) {
		if (weir__stride(a, d) != stride)
			return false;
		stride *= weir__dim(a, d);
		matrices *= d > 1 ? (size_t)weir__dim(a, d) : 1;
	}
	job_make(node, &job);
	return job.ids || job.groups <= matrices;
}

/*
 * Return where a thread reads to: always the same bytes of the matrix's own
 * place, which then stay in its cache, or the rows' own bytes if there is no
 * room for all threads. The address has the same offset in its cache line that
 * the rows would have.
 */
static unsigned char *room_of_thread(const struct weir__kernel_run *run,
				     size_t most, uint64_t at)
{
	const struct weir_backend_reader *p = run->node->reader;
	size_t slice = weir__line_up(most) + WEIR__LINE;

	if (slice > p->bytes / run->threads)
		return p->place + at;
	return p->place + run->thread * slice + at % WEIR__LINE;
}

static void provided_end(const struct weir__kernel_run *run,
			 struct provided *given)
{
	struct weir_backend_reader *p = run->node->reader;

	if (given->at && given->found)
		p->put(p, given->at);
	given->at = NULL;
}

/*
 * Return how many rows of @pitch bytes fit @bytes: whole blocks, at least one.
 */
static size_t whole_blocks(const struct job *job, size_t bytes, size_t pitch)
{
	size_t rows = bytes / pitch / job->rows * job->rows;

	return rows ? rows : job->rows;
}

/* Get rows from @row on, up to @end at most, for @columns columns. */
static int provided_get(const struct weir__kernel_run *run,
			const struct job *job, struct provided *given,
			const unsigned char *matrix, size_t row, size_t end,
			size_t columns)
{
	struct weir_backend_reader *p = run->node->reader;
	size_t pitch = row_bytes(job->a), n;
	size_t most = whole_blocks(job, ROOM, pitch) * pitch;
	size_t rows = whole_blocks(job, FOUND / (1 + columns / 16), pitch);
	uint64_t at = (uint64_t)(matrix - p->place) + row * pitch;
	unsigned char *room = room_of_thread(run, most, at);
	int r = 0;

	provided_end(run, given);
	n = (end - row < rows ? end - row : rows) * pitch;
	given->at = weir__kernel_get(run, at, &n, room, most, &r);
	given->found = given->at != room;
	given->matrix = matrix;
	given->first = row;
	given->end = row + n / pitch;
	return r;
}

/* Multiply rows of a matrix, from @a on, with all columns of a group. */
static void multiply_rows(const struct weir__kernel_run *run,
			  const struct job *job, const struct column_group *g,
			  const unsigned char *a, size_t row, size_t rows)
{
	const struct weir__product *p = &job->product;
	const unsigned char *set = (unsigned char *)run->shared + job->set_at +
				   g->set * p->set_bytes;
	int64_t pitch = weir__stride(job->a, 1);
	float *to[COLUMNS], *dst = job->dst->data;
	const float *column[COLUMNS];

	for (size_t c = 0; c < g->n; c += COLUMNS) {
		size_t n = g->n - c < COLUMNS ? g->n - c : COLUMNS;

		for (size_t i = 0; i < n; i++) {
			size_t at = column_at(run, job, g->first + c + i);

			to[i] = dst + at * job->m + row;
			if (!job->prepares)
				column[i] = (const float *)(const void *)b_row(
					job, at);
		}
		weir__product_run(p, run->scratch, to, a, (size_t)pitch, rows,
				  set + c / p->set_columns * p->set_bytes,
				  job->prepares ? NULL : column, n);
	}
}

/* Multiply: each part takes some of the blocks of rows of all matrices. */
static int multiply(const struct weir__kernel_run *run, const struct job *job)
{
	size_t most = job->rows;
	size_t blocks = (job->m + most - 1) / most;
	int64_t pitch = weir__stride(job->a, 1), first, end;
	bool read_through = weir__reads_through(run->node);
	struct provided given = { 0 };

	weir__kernel_range(run, (int64_t)(blocks * groups_of(run, job)), &first,
			   &end);
	for (; first < end; first++) {
		struct column_group g =
			group_get(run, job, (size_t)first / blocks);
		const unsigned char *matrix = matrix_at(job, g.matrix);
		const unsigned char *a;
		size_t row = (size_t)first % blocks * most;
		size_t rows = job->m - row < most ? job->m - row : most;
		size_t left = (size_t)(end - first) * most;
		int r = 0;

		if (read_through && (!given.at || given.matrix != matrix ||
				     row < given.first || row >= given.end))
			r = provided_get(
				run, job, &given, matrix, row,
				job->m - row < left ? job->m : row + left, g.n);
		if (r < 0)
			return r;
		a = read_through
			    ? given.at + (int64_t)(row - given.first) * pitch
			    : matrix + (int64_t)row * pitch;
		multiply_rows(run, job, &g, a, row, rows);
	}
	provided_end(run, &given);
	return 0;
}

static int product_run(const struct weir__kernel_run *run)
{
	uint32_t phase = run->phase;
	struct job job;

	job_make(run->node, &job);
	job.rows = run->plan->variant;
	if (job.ids && phase-- == 0)
		return run->part ? 0 : sort_columns(run, &job);
	if (job.prepares && phase == 0)
		prepare_columns(run, &job);
	else
		return multiply(run, &job);
	return 0;
}

const struct weir__kernel weir__kernel_mul_mat = {
	.op = WEIR_OP_MUL_MAT,
	.name = "mul_mat",
	.supports = product_supports,
	.plan = product_plan,
	.run = product_run,
	.takes_reader = product_takes_reader,
};

const struct weir__kernel weir__kernel_mul_mat_id = {
	.op = WEIR_OP_MUL_MAT_ID,
	.name = "mul_mat_id",
	.supports = product_supports,
	.plan = product_plan,
	.run = product_run,
	.takes_reader = product_takes_reader,
};
