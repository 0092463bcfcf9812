/* SPDX-License-Identifier: MIT */
/*
 * Graphs: computations that are described before they run. A graph is a list
 * of nodes in the order in which they were made, so the sources of a node come
 * before it. ops.h has a function for each operation, which makes its node.
 *
 * Each call that makes a node returns it, or NULL. The first failure is kept
 * in the graph, with its sentence: weir_graph_error(). From then on these
 * calls return NULL and do nothing else, so a program checks once, when the
 * graph is complete.
 *
 * One thread at a time uses a graph and its nodes. Nothing here blocks, uses a
 * device, or reads or writes the bytes of a tensor.
 */
#ifndef WEIR_GRAPH_H
#define WEIR_GRAPH_H

#include <weir/base.h>
#include <weir/file.h>
#include <weir/tensor.h>

WEIR__BEGIN

struct weir_graph;
struct weir_node;

/*
 * The operation of a node. ops.h describes the sources, the parameters and the
 * result of each operation. The numbers are part of the ABI; new operations
 * are added at the end.
 */
enum weir_op {
	WEIR_OP_LEAF = 0,  /* weir_graph_leaf() */
	WEIR_OP_INPUT = 1, /* weir_graph_input() */
	WEIR_OP_VIEW = 2,
	WEIR_OP_GET_ROWS = 3,
	WEIR_OP_SET_ROWS = 4,
	WEIR_OP_MUL_MAT = 5,
	WEIR_OP_MUL_MAT_ID = 6,
	WEIR_OP_ADD = 7,
	WEIR_OP_SUB = 8,
	WEIR_OP_MUL = 9,
	WEIR_OP_DIV = 10,
	WEIR_OP_SCALE = 11,
	WEIR_OP_SQR = 12,
	WEIR_OP_SILU = 13,
	WEIR_OP_GELU = 14,
	WEIR_OP_SWIGLU = 15,
	WEIR_OP_RMS_NORM = 16,
	WEIR_OP_NORM = 17,
	WEIR_OP_SOFT_MAX = 18,
	WEIR_OP_ROPE = 19,
	WEIR_OP_ATTENTION = 20,
	WEIR_OP_COPY = 21,
	WEIR_OP_CONT = 22,
	WEIR_OP_CONCAT = 23,
	WEIR_OP_REPEAT = 24,
	WEIR_OP_SUM = 25,
	WEIR_OP_SUM_ROWS = 26,
	WEIR_OP_ARGMAX = 27,
	WEIR_OP_TOP_K = 28,
	WEIR_OP_CALL = 29,
	WEIR_OP_RELU = 30,
	WEIR_OP_TANH = 31,
	WEIR_OP_SIGMOID = 32,
	WEIR_OP_EXP = 33,
	WEIR_OP_SQRT = 34,
	WEIR_OP_GELU_ERF = 35,
	WEIR_OP_CLAMP = 36,
	WEIR_OP_L2_NORM = 37,
	WEIR_OP_GROUP_NORM = 38,
	WEIR_OP_ARGSORT = 39
};

/* Make an empty graph. Free it with weir_graph_free(). -ENOMEM. */
WEIR_API int weir_graph_new(struct weir_graph **ret_graph)
	WEIR_NONNULL(1) WEIR_NODISCARD;
/* Frees the nodes too. NULL is allowed. */
WEIR_API void weir_graph_free(struct weir_graph *g);
/*
 * Remove all nodes and the failure, and keep the memory for new nodes.
 * Pointers to the nodes are invalid from now on.
 */
WEIR_API void weir_graph_reset(struct weir_graph *g) WEIR_NONNULL(1);

/*
 * Make a node for the tensor @t, whose bytes the program owns: weights, or a
 * cache. Operations that write (SET_ROWS, COPY) write leaves only. A run waits
 * for @event before it uses the bytes; NULL: the bytes are ready. The graph
 * does not own the buffer and the event: both must exist as long as the graph,
 * or an executable graph of it, is used. The name is copied. @t need not be
 * placed; its graph can then be examined, but not run.
 *
 * Kept in the graph: -EINVAL, -EOPNOTSUPP, -EOVERFLOW: as weir_tensor_bytes(),
 * or @t is NULL or exceeds its buffer, or its rows are whole blocks and its
 * last stride is 0. -ENOMEM. -EPERM: after a fork.
 */
WEIR_API struct weir_node *weir_graph_leaf(struct weir_graph *g,
					   const struct weir_tensor *t,
					   struct weir_event *event)
	WEIR_NONNULL(1);
/*
 * Make a node for a tensor whose bytes are in @file, from byte @offset on; @t
 * is not placed. The leaf is constant. The first run that needs it reads it to
 * memory of the device, which keeps it; if weir_sched_opts.weights is too
 * small for all such leaves, each run reads some of them again. The program
 * keeps @file open as long as the graph is used; executable graphs reference
 * it. A run that has read @file fails with -ESTALE if it has changed since it
 * was opened.
 *
 * Kept in the graph: errors of weir_graph_leaf(). -EINVAL: @t is placed, @file
 * is NULL, or the tensor ends after the end of the file; the sentence has both
 * numbers.
 */
WEIR_API struct weir_node *
weir_graph_leaf_file(struct weir_graph *g, const struct weir_tensor *t,
		     struct weir_file *file, uint64_t offset) WEIR_NONNULL(1);
/*
 * Make a node for a contiguous tensor that the program passes to each run:
 * positions, or a mask. @name is copied; NULL: no name. Kept in the graph:
 * errors of weir_tensor_init(), -ENOMEM.
 */
WEIR_API struct weir_node *
weir_graph_input(struct weir_graph *g, const char *name, enum weir_dtype dtype,
		 unsigned ndim, const int64_t *shape) WEIR_NONNULL(1);
/*
 * Make a node for the result of operation @op on the sources src[0] to
 * src[n - 1]. @params is the operation's struct (ops.h), of @params_size
 * bytes, and is copied; bytes that it lacks are treated as 0.
 *
 * Kept in the graph: -EINVAL: a source is missing, of another graph or from
 * before weir_graph_reset(), or number, dtypes or shapes of the sources or the
 * parameters are not as the operation needs them; the sentence names
 * operation, sources and shapes. -EROFS: it writes a leaf that is constant, or
 * in memory of kind MAPPED. -E2BIG: a parameter that this library does not
 * know is not 0. -EOPNOTSUPP: the library does not know @op. -EOVERFLOW: the
 * result is too large. -ENOMEM.
 */
WEIR_API struct weir_node *weir_graph_op(struct weir_graph *g, enum weir_op op,
					 const void *params, size_t params_size,
					 struct weir_node *const *src,
					 unsigned n) WEIR_NONNULL(1);

/*
 * Mark a node as an output, whose result the program reads after the run
 * (weir_run_output()), or as observed: a run passes its result to the observer
 * as soon as it is complete. Marking twice changes nothing. A run computes
 * outputs, observed nodes, writes, and the nodes that these need; it computes
 * no others. Return @node, or NULL. Kept in the graph: -EINVAL: @node is NULL,
 * of another graph, or has the bytes of a leaf in a file.
 */
WEIR_API struct weir_node *weir_graph_output(struct weir_graph *g,
					     struct weir_node *node)
	WEIR_NONNULL(1);
WEIR_API struct weir_node *weir_graph_observe(struct weir_graph *g,
					      struct weir_node *node)
	WEIR_NONNULL(1);
/*
 * Remove the marks OUTPUT and OBSERVED of @node, so that executable graphs
 * which are made from now on compute it only if others need it. Returns @node,
 * or NULL. Kept in the graph: -EINVAL: @node is NULL or of another graph.
 */
WEIR_API struct weir_node *weir_graph_unmark(struct weir_graph *g,
					     struct weir_node *node)
	WEIR_NONNULL(1);
/*
 * Mark a leaf as constant: its bytes do not change while an executable graph
 * of the graph exists. So a device that cannot use the leaf where it is, in
 * host memory, keeps a copy, or copies it ahead of its use if
 * weir_sched_opts.weights is too small. A leaf that is not in host memory is
 * copied in each run nevertheless. Returns @leaf, or NULL. Kept in the graph:
 * -EINVAL: @leaf is no leaf, or an operation writes it.
 */
WEIR_API struct weir_node *weir_graph_constant(struct weir_graph *g,
					       struct weir_node *leaf)
	WEIR_NONNULL(1);

/*
 * Returns 0 if no call has failed since the graph was made or reset. Otherwise
 * returns the errno of the first failure, and weir_error() has its sentence,
 * which begins with the call that failed. If @ret_failure is not NULL, it
 * describes the failure too; its number is that of the node that was not made.
 */
WEIR_API int weir_graph_error(const struct weir_graph *g,
			      struct weir_failure *ret_failure) WEIR_NONNULL(1);

/*
 * Forget the failure, if there is one: the nodes that were made before it
 * stay, and calls make nodes again. For programs that report each failure at
 * once, such as interactive ones.
 */
WEIR_API void weir_graph_clear_error(struct weir_graph *g) WEIR_NONNULL(1);

/*
 * Compute 128 bits that are equal for graphs with equal operations,
 * parameters, shapes, edges, marks, dtypes, and places of leaves in memory or
 * in files. Names, and the events of leaves, make no difference. Do not
 * compare them with those of another process. A graph with a failure has no
 * fingerprint: the call returns what weir_graph_error() does.
 */
WEIR_API int weir_graph_fingerprint(const struct weir_graph *g,
				    uint64_t ret_fingerprint[2])
	WEIR_NONNULL(1, 2);

/*
 * weir_graph_count() returns the number of nodes, and weir_graph_node() node
 * @i, or NULL if there is no node @i.
 */
WEIR_API size_t weir_graph_count(const struct weir_graph *g) WEIR_NONNULL(1);
WEIR_API struct weir_node *weir_graph_node(const struct weir_graph *g, size_t i)
	WEIR_NONNULL(1);

/*
 * The tensor of a node: dtype, shape, strides, name. It is placed if the node
 * is a leaf that is placed, or is stored in such a leaf, as a view is. The
 * tensor of a view of another node is not placed; its offset is relative to
 * the beginning of that node's bytes. Valid until weir_graph_reset(). NULL:
 * @node is NULL.
 */
WEIR_API const struct weir_tensor *
weir_node_tensor(const struct weir_node *node);
/*
 * Name a node. @name is copied; NULL removes the name. Messages contain the
 * name, and a program pins nodes by name. Returns @node, or NULL if @node is
 * NULL or its graph has a failure. Kept in the graph: -ENOMEM.
 */
WEIR_API struct weir_node *weir_node_set_name(struct weir_node *node,
					      const char *name);

#define WEIR_NODE_OUTPUT 0x01u   /* weir_graph_output() */
#define WEIR_NODE_OBSERVED 0x02u /* weir_graph_observe() */
#define WEIR_NODE_CONSTANT 0x04u /* weir_graph_constant(), or in a file */

struct weir_node_info {
	size_t size;         /* set by the caller */
	uint64_t index;      /* its number, for weir_graph_node() */
	uint32_t op;         /* enum weir_op */
	uint32_t flags;      /* WEIR_NODE_* */
	uint32_t n_src;      /* number of sources */
	uint32_t reserved;   /* 0 */
	const char *op_name; /* "mul_mat"; constant */
	uint64_t bytes;      /* estimate of the bytes it reads and writes */
	uint64_t flops;      /* estimate of its operations on elements; CALL:
				0 */
};
/* Describe a node. -EINVAL: the size is not set. */
WEIR_API int weir_node_info(const struct weir_node *node,
			    struct weir_node_info *ret_info) WEIR_NONNULL(1, 2);
/* Source @i, or NULL if it was left out or there is no source @i. */
WEIR_API struct weir_node *weir_node_source(const struct weir_node *node,
					    unsigned i) WEIR_NONNULL(1);

WEIR__END

#endif
