/* SPDX-License-Identifier: MIT */
/*
 * The launches of a segment: the nodes of a graph that were prepared together,
 * as calls of kernels with all their parameters.
 */
#ifndef WEIR__CUDA_LAUNCHES_H
#define WEIR__CUDA_LAUNCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cublaslt.h"
#include "cuda/image.h"
#include "cuda/kernels/params.h"
#include "cuda/launch_graph.h"

#define WEIR__CUDA_THREADS 256u /* of most blocks */

struct weir__cuda_launch {
	enum weir__cuda_kernel_id kernel;
	CUfunction function; /* of the device; NULL: not loaded yet */
	unsigned grid[3], threads;
	unsigned shared; /* bytes of dynamic shared memory */
	size_t params;   /* where its parameters begin */
	bool calls;      /* not a kernel: they are struct weir__cublaslt_call */
};

/* Nodes that are computed together, by launches after those of single nodes. */
struct weir__cuda_group {
	size_t n;          /* nodes; 0: there is no group */
	size_t first, end; /* launches [first, end) */
};

/*
 * Constant after prepare, except for @graphs: any number of runs use it, each
 * with a workspace of its own. The workspace begins with a struct
 * weir__cuda_status if @checks is set, and then has counters if @counts is.
 */
struct weir__cuda_launches {
	struct weir__cuda_launch *launch;
	size_t n, room;
	size_t *first; /* of each node: its first launch; and one more */
	size_t n_nodes;
	unsigned char *params; /* of all launches */
	size_t params_bytes, params_room;
	bool measures;    /* addresses are not known: have the most workspace */
	bool checks;      /* a kernel may find an index that is out of range */
	bool counts;      /* a node may use counters */
	size_t cleared;   /* bytes that a run sets to 0: status, counters */
	size_t workspace; /* bytes */
	unsigned sms;     /* multiprocessors of the device */
	struct weir__cuda *c; /* the device; NULL: it was never used */
	int err;              /* -ENOMEM: a launch was not added */
	uint64_t columns;     /* the most that a product has: tokens */
	double *cost; /* of the nodes before each, and of all: in bytes of
			     memory that take about the same time */
	/* Groups that begin at each node: one, and a longer one. */
	struct weir__cuda_group *group, *longer;
	struct weir__cuda_graphs graphs;
	/* What cuBLASLt computes; the library, or why it has no product. */
	struct weir__cublaslt_product *products;
	uint64_t by_library;
	char library[200];
};

/*
 * Append a launch of blocks of @threads threads. The grid has @x blocks, @y and
 * @z of which are at most 65535; a grid of no blocks is not launched. A copy of
 * @bytes of @params is kept.
 */
void weir__cuda_launch_add(struct weir__cuda_launches *l,
			   enum weir__cuda_kernel_id kernel, uint64_t x,
			   uint64_t y, unsigned threads, unsigned shared,
			   const void *params, size_t bytes);
/* Append a product by cuBLASLt. A copy of @call is kept. */
void weir__cuda_launch_add_call(struct weir__cuda_launches *l,
				const struct weir__cublaslt_call *call);
/*
 * Have at least @bytes of workspace for a node, whose launches use them one
 * after the other. Returns where they begin, a multiple of 256.
 */
uint64_t weir__cuda_workspace(struct weir__cuda_launches *l, uint64_t bytes);
/* Have the first @n counters, of at most WEIR__CUDA_COUNTERS, for a node. */
void weir__cuda_counters(struct weir__cuda_launches *l, uint64_t n);
/* Queue launch @i. A context is current. */
CUresult weir__cuda_launch(const struct weir__cuda_launches *l, size_t i,
			   CUdeviceptr workspace, CUstream stream);
/* The launches of a node, or of the group that begins there. */
struct weir__cuda_step {
	size_t first, end; /* launches [first, end) */
	size_t next;       /* the node after them */
};

/* The launches at @node in a range that ends before @end. */
static inline struct weir__cuda_step
weir__cuda_step_at(const struct weir__cuda_launches *l, size_t node, size_t end)
{
	const struct weir__cuda_group *g = &l->longer[node];

	if (!g->n || g->n > end - node)
		g = &l->group[node];
	if (g->n && g->n <= end - node)
		return (struct weir__cuda_step){ g->first, g->end,
						 node + g->n };
	return (struct weir__cuda_step){ l->first[node], l->first[node + 1],
					 node + 1 };
}

/* How many launches the nodes [first, first + n) have. */
size_t weir__cuda_launches_of(const struct weir__cuda_launches *l, size_t first,
			      size_t n);
/*
 * The blocks and threads for rows of @columns elements: at most as many blocks
 * as keep a GPU busy, since a block takes more than one row. The order of sums
 * depends on the number of threads.
 */
uint64_t weir__cuda_row_blocks(const struct weir__cuda_launches *l,
			       uint64_t rows);
unsigned weir__cuda_row_threads(int64_t columns);
/*
 * The blocks for @n elements, one for each thread: at most as many as keep a
 * GPU busy, since threads take more than one.
 */
uint64_t weir__cuda_blocks_for(const struct weir__cuda_launches *l, uint64_t n);

#endif
