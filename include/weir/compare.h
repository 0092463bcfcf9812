/* SPDX-License-Identifier: MIT */
/*
 * Copies of graphs in memory of other devices, and a comparison of what two
 * devices compute.
 */
#ifndef WEIR_COMPARE_H
#define WEIR_COMPARE_H

#include <weir/base.h>
#include <weir/graph.h>
#include <weir/mem.h>

WEIR__BEGIN

/*
 * Make a copy of @g whose leaves, also those in files, are in a new buffer of
 * @buft, with the same contents; leaves that are not placed stay so. Node i of
 * the copy is node i of @g, with its name and marks. Bytes that leaves share
 * are shared in the copy. The caller frees the graph, and after that the
 * buffer. One thread at a time uses @g.
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

/* Bytes for an input of the graph. */
struct weir_compare_input {
	const struct weir_node *node;
	const void *data;
	uint64_t bytes;
};

struct weir_compare_opts {
	size_t size;
	uint32_t flags;    /* WEIR_COMPARE_* */
	uint32_t n_inputs; /* all inputs that operations use */
	const struct weir_compare_input *inputs;
};
WEIR__DECLARE_OPTS_INIT(weir_compare_opts)
#define WEIR_COMPARE_OPTS_INIT WEIR__OPTS_INIT(weir_compare_opts)

/*
 * After each node, device b continues with the result of device a. Without
 * this flag each device continues with its own results.
 */
#define WEIR_COMPARE_EACH 0x01u

/* The results of a node: first those of device a, then those of b. */
struct weir_compared {
	size_t size;             /* set by the library */
	uint64_t index;          /* the number of the node in the graph */
	struct weir_tensor a, b; /* in host memory, of one layout */
	double nmse;             /* sum of (a - b)^2 / sum of b^2. 0: they are
				    equal; infinite: b is 0, or the quotient
				    exceeds the range of a double */
	double max;              /* greatest difference between two elements;
				    may be infinite */
	uint64_t at;             /* the index of these elements */
	uint64_t odd; /* number of elements of which one is NaN or infinite and
			 the other is not the same, or of blocks that differ if
			 elements are not compared as numbers; they are not part
			 of nmse and max */
};
/*
 * Called for each operation, on the thread of weir_graph_compare(). The
 * tensors are valid during the call. The function may call weir. It returns 0
 * to continue; any other value ends the comparison, which returns it.
 */
typedef int weir_compare_fn(void *arg, const struct weir_compared *compared);

/*
 * Compute @g on the devices @a and @b, node by node in the order in which they
 * were made, whether anything needs them or not, and call @fn with both
 * results of each operation. Both devices have copies of the leaves
 * (weir_graph_copy()), so nothing of the program changes, and keep all
 * results: this is for finding mistakes, not for speed. @a and @b may be one
 * device.
 *
 * Blocks until the comparison has ended. One thread at a time uses @g. Returns
 * 0, what @fn has returned, or the failure of a device, whose sentence names
 * the device and the node. -EINVAL: an input is missing or has another size,
 * an operation uses a leaf that is not placed, or the options are invalid.
 * -EOPNOTSUPP: a device does not compute, or does not have an operation.
 * -ENOMEM. Errors of weir_graph_copy().
 */
WEIR_API int weir_graph_compare(struct weir_dev *a, struct weir_dev *b,
				const struct weir_graph *g,
				const struct weir_compare_opts *opts,
				weir_compare_fn *fn, void *arg)
	WEIR_NONNULL(1, 2, 3, 5);

WEIR__END

#endif
