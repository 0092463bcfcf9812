/* SPDX-License-Identifier: MIT */
/*
 * The compiled graph of a graph: what all executable graphs of equal graphs
 * share. It has the place of each node, the operations as the backend gets
 * them, and the memory. Only the members at the end of the struct change after
 * it was made.
 */
#ifndef WEIR__GRAPH_COMPILED_H
#define WEIR__GRAPH_COMPILED_H

#include <pthread.h>

#include "core/timeline.h"
#include <weir/backend.h>
#include "graph/bump.h"
#include "graph/compile/compiler.h"
#include "graph/compile/passes.h"
#include "graph/prefetch/prefetcher.h"

/* The place of a node's bytes, and the reasons: weir_exec_explain(). */
struct weir__placed_node {
	/* In its memory. Of a leaf its address, 0 if it is not placed. */
	uint64_t offset;
	uint64_t bytes;
	int64_t over;   /* the node whose place it takes; -1: none */
	uint32_t step;  /* as in struct weir__sync */
	uint32_t until; /* the same; UINT32_MAX: to the end of the run */
	uint8_t where;  /* enum weir_node_where */
	uint8_t why;    /* enum weir_node_why */
	uint8_t lane;   /* the lane that computes it and has its memory */
	uint8_t cause;  /* enum weir_node_cause */
	bool computed;
	bool written; /* it is a leaf that runs write */
};

/* Bytes that an operation reads or writes. */
struct weir__location {
	uint64_t offset, bytes; /* as in struct weir__placed_node */
	uint32_t device_copy;   /* the import that has the bytes; NONE */
	uint8_t where;          /* enum weir_node_where */
	uint8_t lane;           /* the lane whose planned memory it is in */
};

/* An input, an output or an observed node. */
struct weir__port {
	uint32_t node;
	uint8_t flags; /* WEIR__PORT_* */
	/* Not placed; the name is in the compiled graph's memory. */
	struct weir_tensor t;
};
#define WEIR__PORT_INPUT 0x01u
#define WEIR__PORT_OUTPUT 0x02u
#define WEIR__PORT_NEEDED 0x04u /* an input that a run uses */

/* A range of the program's memory: a leaf, and leaves that are next to it. */
struct weir__leaf_range {
	uint32_t node; /* the leaf at its begin */
	bool write;
	uint64_t bytes;
};

/* The memory and nodes of a lane for one copy of the inputs. */
struct weir__lane_copy {
	struct weir_buf *buf; /* NULL: no inputs */
	struct weir_backend_node *node;
	const struct weir_backend_node **list;
	void *prepared; /* NULL: nothing to compute */
};

/* The part of a graph that one device computes. */
struct weir__graph_lane {
	struct weir__compiler_dev *on;
	uint32_t n_steps, n_points, n_leaves;
	struct weir__sync_point *point; /* in the array of all lanes */
	/*
	 * In the array of all lanes: the leaves that it reads or writes where
	 * they are, sorted by address.
	 */
	struct weir__leaf_range *leaf;
	struct weir__lane_copy *copy; /* the lane in each copy of the inputs */
	/* Locations of the result of each step, and then of its sources. */
	struct weir__location *location;
	struct weir_operand *operand; /* n_operands for each copy */
	size_t n_operands;
	struct weir_buf *results;   /* NULL: none */
	struct weir_buf *workspace; /* NULL: none */
	uint64_t reads; /* bit l: it reads planned memory of lane l */
	struct weir__prefetch_list *prefetch_list; /* NULL: no imports */
	uint32_t *import_copy; /* device copy of each entry of the list */
	struct weir__lane_sizes sizes;

	/*
	 * Under the scheduler's start_lock: the operation of the newest run.
	 * Runs use the lane's results and workspace one after another.
	 */
	struct weir__timeline *last; /* referenced; NULL: none yet */
	uint64_t last_number;
};

/* A device copy, and the places of its bytes. */
struct weir__placed_copy {
	struct weir__device_copy of;
	struct weir__location from, to; /* whole classes */
	uint32_t copier; /* TRANSFER: the stream that copies it */
	/* IMPORT: its entry in the lane's list, and its address there. */
	uint32_t entry;
	uint64_t address;
	uint64_t by_rows; /* as in struct weir__import */
	bool prefetched;  /* IMPORT: into memory that other imports use too */
};

/* The stream of a run that copies to or from one device. */
struct weir__copier {
	struct weir__compiler_dev *on;
	bool out; /* it copies from the device */
};

/* Neighbouring nodes that one device computes. Views never end a split. */
struct weir__split {
	uint32_t lane, first; /* @first: the first node */
	uint32_t n;           /* how many nodes are computed */
	uint32_t inputs;      /* classes from elsewhere that it reads */
	uint64_t bytes;       /* bytes of these classes */
};

struct weir__compiled {
	struct weir__compiler *compiler;
	uint64_t fingerprint[2];
	uint64_t key; /* key of the choice that it was made with */
	uint32_t n, n_ports, n_copies, n_lanes;
	uint32_t n_points, n_leaves; /* sums over all lanes */
	uint32_t n_device_copies, n_copiers, n_splits;
	struct weir__bump memory; /* has all arrays */
	struct weir_placement *placement;
	struct weir__placed_node *at;   /* place of each node */
	struct weir__sync_point *point; /* lane after lane */
	struct weir__leaf_range *leaf;  /* lane after lane */
	struct weir__port *port;        /* in the order of nodes */
	struct weir__graph_lane *lane;
	struct weir__placed_copy *device_copy;
	uint32_t *wait;     /* as in struct weir__sync */
	uint32_t *transfer; /* device copies, in the order of queueing */
	uint32_t n_transfers;
	struct weir__copier *copier;
	struct weir__split *split;
	bool shared;        /* a lane writes a leaf that another one uses */
	uint64_t *reserved; /* bytes of the budget of each device */

	/* Under the compiler's lock. */
	bool *taken; /* true if a run has that copy of the inputs */
	struct weir__compiled *next, **link; /* newest first */
	uint32_t refs;   /* executable graphs that use it; 0: it is kept */
	uint64_t n_uses; /* executable graphs that were made of it */
};

/*
 * Make the compiled graph of a sound graph: run the passes, check each
 * operation, allocate memory, and let devices prepare their nodes. @ret has one
 * reference and is on no list. Errors of weir_exec_new().
 */
int weir__compiled_new(struct weir__compiler *compiler,
		       const struct weir_graph *g,
		       const struct weir__choice *choice,
		       struct weir__compiled **ret);
/* Free it, and give its bytes of the budget back. No run may be left. */
void weir__compiled_free(struct weir__compiled *cg);
/*
 * Make one without memory and prepared nodes, for an estimate. Budgets do not
 * limit it, and leaves need not be placed.
 */
int weir__compiled_measure(struct weir__compiler *compiler,
			   const struct weir_graph *g,
			   const struct weir__choice *choice,
			   struct weir__compiled **ret);
/*
 * Memory for @n entries of @size bytes. Not NULL if @n is 0; NULL: no memory.
 */
void *weir__compiled_take(struct weir__compiled *cg, size_t n, size_t size);

/* nodes.c: find the places of all nodes, the ports and the device copies. */
int weir__nodes_place(struct weir__compiled *cg, const struct weir__passes *p);
/* The port of @node; NULL: it is none. */
const struct weir__port *weir__port_find(const struct weir__compiled *cg,
					 uint64_t node);
/* The location of the result of node @i. */
struct weir__location weir__result_location(const struct weir__compiled *cg,
					    uint32_t i);
/*
 * Planned memory that contains the location, for copy @copy; NULL: the location
 * is in a leaf, or nothing is allocated (an estimate).
 */
struct weir_buf *weir__location_buf(const struct weir__compiled *cg,
				    const struct weir__location *location,
				    uint32_t copy);
/*
 * Fill in @to: the operation @from as a backend gets it, without addresses. Its
 * name and parameters are those of the graph. @src has an entry for each of its
 * sources.
 */
void weir__node_flat(const struct weir_node *from, struct weir_backend_node *to,
		     struct weir_operand *src);
/* Make the lane's nodes of copy 0, without the addresses of its memory. */
int weir__nodes_make(struct weir__compiled *cg, const struct weir__passes *p,
		     struct weir__graph_lane *lane);
/* Make the nodes of the other copies from those of copy 0. */
void weir__nodes_copy(struct weir__compiled *cg, struct weir__graph_lane *lane);
/*
 * Find the imports that only one step of the lane reads, some rows of them, and
 * that it can get from a reader.
 */
void weir__nodes_by_rows(struct weir__compiled *cg,
			 const struct weir__graph_lane *lane);
/*
 * Fill in the addresses. Without memory (an estimate) nodes get addresses that
 * are not NULL and belong to nothing.
 */
int weir__nodes_address(struct weir__compiled *cg,
			struct weir__graph_lane *lane, uint32_t copy);
/* "node 3 (mul_mat 'name')" */
#define WEIR__NODE_DESCRIBE_MAX 160
const char *weir__node_describe(const struct weir_backend_node *node,
				char text[WEIR__NODE_DESCRIBE_MAX]);

/*
 * leaves.c: check that lanes can use their leaves, and join those that are
 * neighbours. -EINVAL, -ENOMEM.
 */
int weir__leaves_join(struct weir__compiled *cg, const struct weir_graph *g);
/*
 * Make the prefetch lists of all lanes, and find the addresses of the device
 * copies that are imports. Errors of weir__prefetch_list_new().
 */
int weir__leaves_import(struct weir__compiled *cg, const struct weir_graph *g);
/* Find only the sizes of these lists, for an estimate. */
int weir__leaves_import_measure(struct weir__compiled *cg,
				const struct weir_graph *g);

#endif
