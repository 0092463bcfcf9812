/* SPDX-License-Identifier: MIT */
/*
 * Segments of graphs on the CPU. lib/cpu implements its struct
 * weir_backend_compute_ops by these functions: a segment is the nodes that it
 * prepared together.
 */
#ifndef WEIR__SEGMENT_H
#define WEIR__SEGMENT_H

#include <stddef.h>

#include <weir/backend.h>

struct weir__segment_cpu;
struct weir__team;

/*
 * The functions of the library that lib/kernels and lib/cpu call. lib/cpu sets
 * it before it calls anything here; it is the same table in every root.
 */
extern const struct weir_backend_host *_Atomic weir__cpu_host;

/* Return 0 if a kernel computes @node, or -EOPNOTSUPP with a sentence. */
int weir__kernel_supports(const struct weir_backend_node *node);
/* The same as .takes_reader of struct weir_backend_compute_ops. */
bool weir__kernel_takes_reader(const struct weir_backend_node *node);
/*
 * Plan the @n nodes for the threads that @team has now. The segment is constant
 * afterwards. Runs of it use @team, with at most this number of threads. Fails
 * with -ENOMEM, or with -EOPNOTSUPP if no kernel computes one of the nodes.
 */
int weir__segment_prepare(struct weir__team *team,
			  const struct weir_backend_node *const *nodes,
			  size_t n, struct weir__segment_cpu **ret_segment,
			  size_t *ret_workspace);
void weir__segment_release(struct weir__segment_cpu *segment);
/*
 * Compute the nodes of @compute, and return when all of them are computed, or
 * the run has ended early. Returns 0, -ECANCELED, or the error of a node, which
 * @compute->failed and @compute->why describe.
 */
int weir__segment_run(struct weir_backend_compute *compute);

#endif
