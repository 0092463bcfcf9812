/* SPDX-License-Identifier: MIT */
/*
 * Copies of graphs in memory of other devices, to see whether two devices
 * compute the same.
 */
#ifndef WEIR_COMPARE_H
#define WEIR_COMPARE_H

#include <weir/base.h>
#include <weir/graph.h>
#include <weir/mem.h>

WEIR__BEGIN

/*
 * Make a copy of @g whose leaves are in a new buffer of @buft, with the same
 * contents; leaves that are not placed stay so. Node i of the copy is node i of
 * @g, with its name and marks. Bytes that leaves share are shared in the copy.
 * The caller frees the graph, and after that the buffer. One thread at a time
 * uses @g.
 *
 * Blocks until the events of leaves are done, and then until their bytes are
 * copied; the leaves of the copy have no events. If it fails, nothing is left.
 * The failure of the graph or of an event. -ENOMEM. Errors of
 * weir_tensors_alloc() and weir_tensor_copy().
 */
WEIR_API int weir_graph_copy(const struct weir_graph *g, struct weir_buft *buft,
			     struct weir_graph **ret_graph,
			     struct weir_buf **ret_buf)
	WEIR_NONNULL(1, 2, 3, 4) WEIR_NODISCARD;

WEIR__END

#endif
