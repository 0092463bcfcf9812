/* SPDX-License-Identifier: MIT */
/*
 * The pass "reach", the first over a graph. It finds the nodes that a run
 * computes, the nodes that share bytes, the last use of these bytes, and the
 * order of accesses to placed bytes. Input and output are arrays, so that it
 * can be tested without graphs. It takes linear time, and sorts the accesses
 * twice.
 */
#ifndef WEIR__GRAPH_REACH_H
#define WEIR__GRAPH_REACH_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include <weir/graph.h>

#define WEIR__REACH_NONE UINT32_MAX

#define WEIR__REACH_ROOT 0x01u     /* computed even if no node needs it */
#define WEIR__REACH_KEEP 0x02u     /* an output: its bytes are never reused */
#define WEIR__REACH_NO_WORK 0x04u  /* a leaf, input or view; or it is empty */
#define WEIR__REACH_OBSERVED 0x08u /* with NO_WORK: observed bytes of a leaf */

/* Placed bytes, at the addresses [lo, hi). There are none if lo == hi. */
struct weir__span {
	uint64_t lo, hi;
};

/* The nodes, in the order in which they were made: sources come first. */
struct weir__reach_in {
	uint32_t n;
	/*
	 * The sources of node i are src[src_at[i]] to src[src_at[i + 1] - 1].
	 * src_at has n + 1 entries.
	 */
	uint32_t *src_at;
	uint32_t *src;  /* NONE: the source was left out */
	uint8_t *flags; /* WEIR__REACH_* */
	/*
	 * The node whose bytes the result has: a source or, for bytes of its
	 * own, the node itself.
	 */
	uint32_t *of;
	uint32_t *writes; /* which of its sources it writes, from 0; NONE */
	struct weir__span *span; /* span of each node's tensor */
	/* A node that reads part of a leaf may get a copy of the whole leaf. */
	bool device_copies;
};

struct weir__reach {
	uint32_t n;
	uint8_t *needed; /* 1: outputs, observed nodes or writes need it */
	/*
	 * The alias class: the node that has the bytes. A tensor and all views
	 * of it are one class.
	 */
	uint32_t *alias;
	/*
	 * The last needed node that uses bytes of the class. If none does: the
	 * node that has the bytes. NONE: they are kept to the end.
	 */
	uint32_t *last;
	/*
	 * Node i may access placed bytes only after the nodes
	 * before[before_at[i]] to before[before_at[i + 1] - 1] have done so.
	 * Its sources also come before it, and are not listed.
	 */
	uint32_t *before_at, *before;
};

/* -ENOMEM. Free the arrays with weir__reach_free(). */
int weir__reach(const struct weir__reach_in *in, struct weir__reach *ret);
void weir__reach_free(struct weir__reach *reach);

/* The arrays of a graph. -ENOMEM. Free them with weir__reach_in_free(). */
int weir__reach_graph(const struct weir_graph *g, struct weir__reach_in *ret);
void weir__reach_in_free(struct weir__reach_in *in);

#endif
