/* SPDX-License-Identifier: MIT */
/* The structs of graphs and nodes. One thread at a time uses a graph. */
#ifndef WEIR__GRAPH_H
#define WEIR__GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/graph.h>

#include "core/error.h"
#include "graph/bump.h"

struct weir__op_info;

struct weir_graph {
	struct weir__bump memory; /* the nodes, their names and parameters */
	struct weir_node **node;  /* in the order in which they were made */
	size_t n, cap;
	size_t events;     /* leaves with one */
	uint64_t hash[2];  /* hash of the nodes, in their order */
	uint64_t marks[2]; /* sum of the hashes of the marks: in no order */
	int err;         /* errno of the first failure; 0: the graph is sound */
	uint64_t failed; /* number of the node that was not made */
	struct weir__error_saved failure;
};

struct weir_node {
	struct weir_graph *graph;
	const struct weir__op_info *row;
	struct weir_node *storage; /* the node that has the bytes; itself,
				      unless it is a view, or writes a leaf */
	struct weir_event *event;  /* event of a leaf, or NULL */
	const void *params;        /* row->params bytes, defaults filled in;
				      of a view none: it is its tensor; of
				      a leaf struct weir__in_file */
	struct weir_tensor t;
	uint32_t index;
	uint32_t op;    /* enum weir_op */
	uint16_t flags; /* WEIR_NODE_* */
	bool written;   /* a leaf that an operation writes */
	uint32_t n_src;
	struct weir_node *src[];
};

/* Nodes with these flags are ports of an executable graph. */
#define WEIR__NODE_ASKED (WEIR_NODE_OUTPUT | WEIR_NODE_OBSERVED)

/* The parameters of a leaf: where its bytes are, if they are in a file. */
struct weir__in_file {
	struct weir_file *file; /* not referenced; NULL: in no file */
	uint64_t offset;
};
/* NULL: @node is no leaf in a file. */
const struct weir__in_file *weir__node_file(const struct weir_node *node);

/* A new node, before it is in its graph. */
struct weir__new_node {
	const struct weir__op_info *row;
	uint32_t op, n_src;
	struct weir_node *const *src;
	struct weir_tensor t;      /* the result */
	struct weir_node *storage; /* NULL: bytes of its own */
	struct weir_event *event;
	uint64_t address[2]; /* buffer type and address of a placed leaf */
	void *params;        /* row->params bytes */
};

/*
 * Append the node to the graph and to the fingerprint; copies sources,
 * parameters and the name of the tensor. -ENOMEM, -EOVERFLOW.
 */
int weir__node_append(struct weir_graph *g, const struct weir__new_node *m,
		      struct weir_node **ret_node);
/* -EINVAL: @node is not one of @g now. @what begins the sentence. */
int weir__node_check(const struct weir_graph *g, const struct weir_node *node,
		     const char *what);
/* Keep the failure that this thread's sentence is about. Returns NULL. */
struct weir_node *weir__graph_keep_failure(struct weir_graph *g, int err);

/*
 * A node as text, "'name' F32 [2, 3]" or, if @t has no name, "node 7 F32
 * [2, 3]" with @index; and a shape, "[2, 3]". Each text is valid until this
 * thread has made two more calls of these functions.
 */
const char *weir__tensor_describe(const struct weir_tensor *t, size_t index);
const char *weir__shape_describe(unsigned ndim, const int64_t *shape);

#endif
