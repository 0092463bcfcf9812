/* SPDX-License-Identifier: MIT */
/* The greatest elements of rows, and their order. */
#include "cuda/launches.h"
#include "cuda/operations.h"

#define CHUNK WEIR__CUDA_SORT_CHUNK
#define NUMBERS ((uint64_t)1 << 22) /* in each half of the workspace */

static void add(struct weir__cuda_launches *l, enum weir__cuda_kernel_id kernel,
		uint64_t blocks, const struct weir__cuda_sort *p)
{
	weir__cuda_launch_add(l, kernel, weir__cuda_row_blocks(l, blocks), 1,
			      WEIR__CUDA_THREADS, 0, p, sizeof(*p));
}

/* Sort p->rows rows from p->first on. The runs double in each launch. */
static void rows_sort(struct weir__cuda_launches *l, struct weir__cuda_sort p,
		      uint64_t numbers)
{
	uint64_t columns = (uint64_t)p.columns, half[2], at = 0;
	uint64_t chunks = (columns + CHUNK - 1) / CHUNK;

	half[0] = weir__cuda_workspace(
		l, chunks > 1 ? 2 * numbers * sizeof(uint64_t) : 0);
	half[1] = half[0] + numbers * sizeof(uint64_t);
	p.to = half[0];
	p.last = chunks == 1;
	add(l, WEIR__CUDA_KERNEL_sort_chunks, p.rows * chunks, &p);
	for (p.width = CHUNK; p.width < columns; p.width *= 2) {
		p.from = half[at];
		at = !at;
		p.to = half[at];
		p.last = 2 * p.width >= columns;
		weir__cuda_launch_add(l, WEIR__CUDA_KERNEL_sort_merge,
				      weir__cuda_blocks_for(l,
							    p.rows * columns),
				      1, WEIR__CUDA_THREADS, 0, &p, sizeof(p));
	}
}

/* Some rows at a time, if all would need too large a workspace. */
static void sort(struct weir__cuda_launches *l, struct weir__cuda_sort p)
{
	uint64_t rows = p.rows, columns = (uint64_t)p.columns;
	uint64_t most = columns <= CHUNK    ? rows
			: columns < NUMBERS ? NUMBERS / columns
					    : 1;

	for (; p.first < rows && !l->err; p.first += p.rows) {
		p.rows = rows - p.first < most ? rows - p.first : most;
		rows_sort(l, p, (most < rows ? most : rows) * columns);
	}
}

static struct weir__cuda_sort sort_of(const struct weir_backend_node *node)
{
	return (struct weir__cuda_sort){
		.rows = weir__cuda_outer(&node->src[0], 1),
		.columns = weir__cuda_dim(&node->src[0], 0),
		.k = weir__cuda_dim(&node->dst, 0),
		.dst = weir__cuda_operand(&node->dst),
		.a = weir__cuda_source(node, 0),
	};
}

static void top_k_plan(struct weir__cuda_launches *l,
		       const struct weir_backend_node *node)
{
	struct weir__cuda_sort p = sort_of(node);

	p.descending = 1;
	if (p.columns > CHUNK && p.k <= WEIR__CUDA_TOP_K_MOST)
		add(l, WEIR__CUDA_KERNEL_top_k, p.rows, &p);
	else
		sort(l, p);
}

static void argsort_plan(struct weir__cuda_launches *l,
			 const struct weir_backend_node *node)
{
	const struct weir_op_argsort *o = node->params;
	struct weir__cuda_sort p = sort_of(node);

	p.descending = o->order == WEIR_SORT_DESCENDING;
	sort(l, p);
}

const struct weir__cuda_operation weir__cuda_op_top_k = {
	.name = "top_k",
	.dst = WEIR__CUDA_I32,
	.src = { WEIR__CUDA_F32 },
	.n_src = 1,
	.plan = top_k_plan,
};

const struct weir__cuda_operation weir__cuda_op_argsort = {
	.name = "argsort",
	.dst = WEIR__CUDA_I32,
	.src = { WEIR__CUDA_F32 },
	.n_src = 1,
	.plan = argsort_plan,
};
