/* SPDX-License-Identifier: MIT */
/*
 * Segments of graphs on the CPU: what its backend's struct weir_backend_compute_ops
 * does, less the device.
 */
#ifndef WEIR__COMPUTE_H
#define WEIR__COMPUTE_H

#include <stddef.h>

#include <weir/backend.h>

struct weir__segment_cpu;
struct weir__team;

/* 0, or -EOPNOTSUPP with a sentence. */
int weir__compute_supports(const struct weir_backend_node *node);
/* As takes_provider of struct weir_backend_compute_ops. */
bool weir__compute_takes_provider(const struct weir_backend_node *node);
/*
 * Plan the @n nodes for the threads that @team has now. The segment is constant
 * from then on; its runs use @team, and no more threads than these. -ENOMEM, or
 * -EOPNOTSUPP for a node that no kernel has.
 */
int weir__compute_prepare(struct weir__team *team,
			  const struct weir_backend_node *const *nodes,
			  size_t n, struct weir__segment_cpu **ret_segment,
			  size_t *ret_workspace);
void weir__compute_release(struct weir__segment_cpu *segment);
/*
 * Compute the range of nodes of @compute, and return when it has ended: 0,
 * -ECANCELED, or the error of a node, with failed and why.
 */
int weir__compute_run(struct weir_backend_compute *compute);

#endif
