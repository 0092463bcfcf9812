/* SPDX-License-Identifier: MIT */
/*
 * The plan of a graph: what all schedules of equal graphs share. It has the
 * place of each node, the operations as the backend gets them, and the memory.
 * Only the members at the end of the struct change after it was made.
 */
#ifndef WEIR__GRAPH_PLAN_H
#define WEIR__GRAPH_PLAN_H

#include <pthread.h>

#include "core/source.h"
#include "dev/backend.h"
#include "graph/bump.h"
#include "graph/draft.h"

struct weir_sched;

/* Where the bytes of a node are, and why: weir_schedule_explain(). */
struct weir__node_at {
	/* In its memory; of a leaf its address, 0 if it is not placed. */
	uint64_t offset;
	uint64_t bytes;
	uint32_t over;  /* 1 + node; 0: none */
	uint32_t step;  /* as in struct weir__order */
	uint32_t until; /* UINT32_MAX: kept */
	uint8_t where;  /* enum weir_node_where */
	uint8_t why;    /* enum weir_node_why */
	bool computed;
	bool written; /* a leaf that a run writes */
};

/* An input, an output or an observed node. */
struct weir__port {
	uint32_t node;
	uint8_t flags;        /* WEIR__PORT_* */
	struct weir_tensor t; /* not placed; its name is the plan's */
};
#define WEIR__PORT_INPUT 0x01u
#define WEIR__PORT_OUTPUT 0x02u
#define WEIR__PORT_NEEDED 0x04u /* an input that a run uses */

/* Bytes of the program's, from the first of a leaf: of it and of neighbours. */
struct weir__leaf {
	uint32_t node;
	bool write;
	uint64_t bytes;
};

/* What each copy of the inputs has. */
struct weir__copy {
	struct weir_buf *buf; /* NULL: no inputs */
	struct weir__node *node;
	const struct weir__node **list;
	void *prepared; /* NULL: nothing to compute */
	bool taken;     /* by a run; under the scheduler's lock */
};

struct weir__graph_plan {
	struct weir_sched *sched; /* referenced while refs > 0 */
	uint64_t fingerprint[2];
	uint32_t n, n_steps, n_gates, n_ports, n_leaves, n_copies;
	struct weir__bump memory; /* of all arrays */
	struct weir_placement *placement;
	struct weir__node_at *at;
	struct weir__gate *gate;
	struct weir__port *port; /* by node */
	struct weir__leaf *leaf; /* all that a run uses, by address */
	struct weir__copy *copy;
	struct weir_operand *operand; /* of all copies */
	size_t n_operands;            /* of one copy */
	struct weir_buf *results;     /* NULL: none */
	struct weir_buf *workspace;   /* NULL: none */
	struct weir__sizes sizes;
	uint64_t reserved; /* bytes of the scheduler's budget */

	/* Under the scheduler's lock. */
	struct weir__graph_plan *next, **link; /* newest first */
	uint32_t refs; /* schedules; 0: kept for later */
	uint64_t times;

	/*
	 * Runs in several streams use the results one after another: @last is
	 * the end of the newest. Taken before streams' locks.
	 */
	pthread_mutex_t run_lock;
	struct weir__source *last; /* referenced; NULL: none yet */
	uint64_t last_number;
};

/*
 * Make the plan of a sound graph: passes, check of each operation, memory,
 * preparation. @ret has one reference and is on no list. Errors of
 * weir_schedule_new().
 */
int weir__graph_plan_new(struct weir_sched *sched, const struct weir_graph *g,
			 struct weir__graph_plan **ret);
/* No run is left. Gives back what it has reserved. */
void weir__graph_plan_free(struct weir__graph_plan *p);
/* The sizes of the plan that weir__graph_plan_new() would make. */
int weir__graph_plan_measure(struct weir_sched *sched,
			     const struct weir_graph *g,
			     struct weir__sizes *ret);
/* The port of @node; NULL: it is none. */
const struct weir__port *weir__port_find(const struct weir__graph_plan *p,
					 uint64_t node);

/*
 * leaves.c: check that the device can use the leaves, and join those that are
 * neighbours. -EINVAL, -ENOMEM.
 */
int weir__leaves_join(struct weir__graph_plan *p, const struct weir_graph *g);
/*
 * nodes.c: @from as a backend gets it, without addresses; its name and parameters
 * are those of the graph. @src: an entry for each of its sources.
 */
void weir__node_flat(const struct weir_node *from, struct weir__node *to,
		     struct weir_operand *src);
/* The nodes of copy 0, without the addresses of a copy's memory. */
int weir__nodes_make(struct weir__graph_plan *p, const struct weir__draft *d);
/* The same of the other copies. */
int weir__nodes_copy(struct weir__graph_plan *p);
/*
 * Fill in the addresses. Without memory (an estimate) nodes get addresses that
 * are not NULL and belong to nothing.
 */
int weir__nodes_address(struct weir__graph_plan *p, const struct weir_graph *g,
			uint32_t copy);
/* "node 3 (mul_mat 'name')" */
#define WEIR__NODE_WORDS 160
const char *weir__node_words(const struct weir__node *node,
			     char text[WEIR__NODE_WORDS]);

#endif
