/* SPDX-License-Identifier: MIT */
/*
 * The kernels of the CPU: for each operation of graphs, how its work is divided
 * into parts, and what computes a part. lib/kernels/README.md has a node's way.
 */
#ifndef WEIR__KERNELS_H
#define WEIR__KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>
#include "kernels/segment.h"
#include "kernels/walk.h"

/* How a node is computed; constant from prepare on. */
struct weir__kernel_plan {
	uint32_t phases; /* at least 1; all parts of a phase end before the next
			    begins */
	uint32_t parts;  /* of each phase, at least 1: threads take one after
			    the other until none is left */
	size_t scratch;  /* bytes for each thread */
	size_t shared;   /* bytes for all threads, kept between the phases */
	uint64_t cost;   /* about, in ns of one thread */
	uint32_t variant; /* the kernel's own choice */
};

/* The part of a node that a thread is to compute. */
struct weir__kernel_run {
	const struct weir_backend_node *node;
	const struct weir__kernel_plan *plan;
	uint32_t phase, part;
	unsigned thread, threads; /* number @thread of at most @threads */
	void *scratch, *shared;   /* aligned to WEIR__LINE */
	char *why; /* for weir__kernel_fail: WEIR__WHY bytes, of this thread */
	const _Atomic uint32_t *stop; /* not 0: begin no read; NULL: never */
};
#define WEIR__WHY 240

#define WEIR__LINE ((size_t)64) /* bytes, of a cache */

/* Up to the next multiple of WEIR__LINE. */
static inline size_t weir__line_up(size_t n)
{
	return (n + WEIR__LINE - 1) & ~(WEIR__LINE - 1);
}

/* The kernel of an operation. Constant; any thread, any number of them. */
struct weir__kernel {
	uint32_t op; /* enum weir_op */
	const char *name;
	/* 0, or -EOPNOTSUPP with a sentence. Reads no address. */
	int (*supports)(const struct weir_backend_node *node);
	/* For at most @threads threads. Cannot fail: supports said 0. */
	void (*plan)(const struct weir_backend_node *node, unsigned threads,
		     struct weir__kernel_plan *ret);
	/*
	 * Compute a part. Does not allocate, and blocks only in reads of a
	 * missing source. < 0 by weir__kernel_fail(): ends the run.
	 */
	int (*run)(const struct weir__kernel_run *run);
	/* As of struct weir_backend_compute_ops. Optional. */
	bool (*takes_provider)(const struct weir_backend_node *node);
};

/* table.c. The kernel of an enum weir_op; NULL: none. */
const struct weir__kernel *weir__kernel_find(uint32_t op);
/* Says -EOPNOTSUPP, with the node's operation and dtypes before the reason. */
int weir__kernel_refuse(const struct weir_backend_node *node, const char *fmt,
			...) __attribute__((format(printf, 2, 3)));
/* A .supports for operations whose source 0 is F32. */
int weir__kernel_needs_f32(const struct weir_backend_node *node);
/* Writes @err's sentence to run->why; the graph layer adds the node. */
int weir__kernel_fail(const struct weir__kernel_run *run, int err,
		      const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Bytes of the missing source 0, by .get of its provider. NULL also if the run is
 * to be stopped: *@ret_err is then -ECANCELED.
 */
const unsigned char *weir__kernel_get(const struct weir__kernel_run *run,
				      uint64_t at, size_t *n,
				      unsigned char *room, size_t room_bytes,
				      int *ret_err);
/*
 * Parts for work of @cost ns that can be cut into up to @most: 1 if a barrier
 * costs more than a second thread saves, else several for each thread.
 */
uint32_t weir__kernel_parts(uint64_t cost, uint64_t most, unsigned threads);

/* Does the node get source 0 from its provider in this run? */
static inline bool weir__is_missing(const struct weir_backend_node *node)
{
	const struct weir_backend_provider *p = node->provider;

	return p && atomic_load_explicit(&p->missing, memory_order_relaxed);
}

/* The part of @n units that is run->part of run->plan->parts: [first, end). */
static inline void weir__kernel_range(const struct weir__kernel_run *run,
				      int64_t n, int64_t *first, int64_t *end)
{
	int64_t part = run->part, parts = run->plan->parts;
	int64_t each = n / parts, more = n % parts;

	*first = part * each + (part < more ? part : more);
	*end = *first + each + (part < more);
}

/* Start @w at the first row of @of in this part, *row. Returns their end. */
static inline int64_t weir__kernel_rows(const struct weir__kernel_run *run,
					const struct weir_operand *of,
					struct weir__walk *w, int64_t *row)
{
	int64_t end;

	weir__kernel_range(run, weir__rows(of), row, &end);
	weir__walk_start(w, of, *row);
	return end;
}

/* elementwise.c */
extern const struct weir__kernel weir__kernel_add, weir__kernel_sub;
extern const struct weir__kernel weir__kernel_mul, weir__kernel_div;
extern const struct weir__kernel weir__kernel_scale, weir__kernel_sqr;
extern const struct weir__kernel weir__kernel_silu, weir__kernel_gelu;
extern const struct weir__kernel weir__kernel_swiglu;
/* norm.c */
extern const struct weir__kernel weir__kernel_rms_norm, weir__kernel_norm;
extern const struct weir__kernel weir__kernel_soft_max;
/* rope.c */
extern const struct weir__kernel weir__kernel_rope;
/* rows.c */
extern const struct weir__kernel weir__kernel_get_rows, weir__kernel_set_rows;
/* copy.c */
extern const struct weir__kernel weir__kernel_copy, weir__kernel_cont;
extern const struct weir__kernel weir__kernel_concat, weir__kernel_repeat;
/* attention.c */
extern const struct weir__kernel weir__kernel_attention;
/* reduce.c */
extern const struct weir__kernel weir__kernel_sum, weir__kernel_sum_rows;
extern const struct weir__kernel weir__kernel_argmax, weir__kernel_top_k;
/* call.c */
extern const struct weir__kernel weir__kernel_call;

/* mul_mat.c */
extern const struct weir__kernel weir__kernel_mul_mat, weir__kernel_mul_mat_id;

#endif
