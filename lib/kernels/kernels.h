/* SPDX-License-Identifier: MIT */
/*
 * The kernels of the CPU: for each operation of graphs, how its work is divided
 * into parts, and the function that computes a part. lib/kernels/README.md,
 * "How a node is computed", has the order of calls.
 */
#ifndef WEIR__KERNELS_H
#define WEIR__KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>
#include "kernels/segment.h"
#include "kernels/walk.h"

/* How a node is computed. Constant after weir__segment_prepare(). */
struct weir__kernel_plan {
	uint32_t phases; /* at least 1. All parts of a phase end before the next
			    phase begins */
	uint32_t parts;  /* parts of each phase, at least 1. Threads take one
			    after the other until none is left */
	size_t scratch;  /* bytes of each thread */
	size_t shared;   /* bytes of all threads, kept between the phases */
	uint64_t cost;   /* ns that one thread would take, about */
	uint32_t variant; /* what the kernel chose, for its .run */
};

/* The part of a node that a thread is to compute. */
struct weir__kernel_run {
	const struct weir_backend_node *node;
	const struct weir__kernel_plan *plan;
	uint32_t phase, part;
	unsigned thread, threads; /* index @thread of at most @threads */
	void *scratch, *shared;   /* aligned to WEIR__LINE */
	char *why; /* WEIR__WHY bytes of this thread, for weir__kernel_fail() */
	const uint32_t *stop; /* begin no read if it is not 0; may be NULL */
};
#define WEIR__WHY 240

#define WEIR__LINE ((size_t)64) /* bytes of a cache line */

/* Round up to a multiple of WEIR__LINE. */
static inline size_t weir__line_up(size_t n)
{
	return (n + WEIR__LINE - 1) & ~(WEIR__LINE - 1);
}

/*
 * The kernel of an operation. It is constant, and any number of threads use it.
 */
struct weir__kernel {
	uint32_t op; /* enum weir_op */
	const char *name;
	/*
	 * Return 0, or -EOPNOTSUPP with a sentence. Reads no data of tensors.
	 * Optional.
	 */
	int (*supports)(const struct weir_backend_node *node);
	/*
	 * Plan the node for at most @threads threads. Cannot fail, since
	 * .supports has returned 0.
	 */
	void (*plan)(const struct weir_backend_node *node, unsigned threads,
		     struct weir__kernel_plan *ret);
	/*
	 * Compute a part. Does not allocate, and blocks only in reads by a
	 * provider. Fails by weir__kernel_fail(), which ends the run.
	 */
	int (*run)(const struct weir__kernel_run *run);
	/* The same as in struct weir_backend_compute_ops. Optional. */
	bool (*takes_reader)(const struct weir_backend_node *node);
};

/* kernel_table.c. Return the kernel of an enum weir_op, or NULL. */
const struct weir__kernel *weir__kernel_find(uint32_t op);
/*
 * Return -EOPNOTSUPP with a sentence: the node's operation and dtypes, and the
 * reason.
 */
int weir__kernel_refuse(const struct weir_backend_node *node, const char *fmt,
			...) __attribute__((format(printf, 2, 3)));
/* A .supports of operations whose source 0 must be F32. */
int weir__kernel_needs_f32(const struct weir_backend_node *node);
/*
 * Write the reason to run->why and return @err. lib/graph adds the node's name.
 */
int weir__kernel_fail(const struct weir__kernel_run *run, int err,
		      const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/*
 * Get bytes of the missing source 0 by .get of its provider. Returns NULL if
 * that fails or the run is to be stopped: *@ret_err is -ECANCELED then.
 */
const unsigned char *weir__kernel_get(const struct weir__kernel_run *run,
				      uint64_t at, size_t *n,
				      unsigned char *room, size_t room_bytes,
				      int *ret_err);
/*
 * Return the number of parts for work of @cost ns that can be divided into up
 * to @most: 1 if a barrier costs more than a second thread saves, else several
 * for each thread.
 */
uint32_t weir__kernel_parts(uint64_t cost, uint64_t most, unsigned threads);

/* True if the node gets source 0 from its provider in this run. */
static inline bool weir__reads_through(const struct weir_backend_node *node)
{
	const struct weir_backend_reader *p = node->reader;

	return p && __atomic_load_n(&p->active, __ATOMIC_RELAXED);
}

/* Divide @n things evenly among the parts: this part has [*@first, *@end). */
static inline void weir__kernel_range(const struct weir__kernel_run *run,
				      int64_t n, int64_t *first, int64_t *end)
{
	int64_t part = run->part, parts = run->plan->parts;
	int64_t each = n / parts, more = n % parts;

	*first = part * each + (part < more ? part : more);
	*end = *first + each + (part < more);
}

/*
 * Start @w at the first row of @of in this part, *@row. Returns the end of its
 * rows.
 */
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
extern const struct weir__kernel weir__kernel_gelu_erf, weir__kernel_relu;
extern const struct weir__kernel weir__kernel_tanh, weir__kernel_sigmoid;
extern const struct weir__kernel weir__kernel_exp, weir__kernel_sqrt;
extern const struct weir__kernel weir__kernel_clamp, weir__kernel_swiglu;
/* norm.c */
extern const struct weir__kernel weir__kernel_rms_norm, weir__kernel_norm;
extern const struct weir__kernel weir__kernel_l2_norm, weir__kernel_group_norm;
extern const struct weir__kernel weir__kernel_soft_max;
/* rope.c */
extern const struct weir__kernel weir__kernel_rope;
/* row_ops.c */
extern const struct weir__kernel weir__kernel_get_rows, weir__kernel_set_rows;
/* copy_ops.c */
extern const struct weir__kernel weir__kernel_copy, weir__kernel_cont;
extern const struct weir__kernel weir__kernel_concat, weir__kernel_repeat;
/* attention.c */
extern const struct weir__kernel weir__kernel_attention;
/* reduce.c */
extern const struct weir__kernel weir__kernel_sum, weir__kernel_sum_rows;
extern const struct weir__kernel weir__kernel_argmax, weir__kernel_top_k;
extern const struct weir__kernel weir__kernel_argsort;
/* call_op.c */
extern const struct weir__kernel weir__kernel_call;

/* mul_mat.c */
extern const struct weir__kernel weir__kernel_mul_mat, weir__kernel_mul_mat_id;

#endif
