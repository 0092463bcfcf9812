/* SPDX-License-Identifier: MIT */
/*
 * The first pass over a graph: which nodes a run computes, which nodes share
 * bytes, when bytes are used last, and in which order placed bytes are accessed.
 * Arrays in, arrays out. Linear but for one sort.
 */
#ifndef WEIR__GRAPH_REACH_H
#define WEIR__GRAPH_REACH_H

#include <stdint.h>
#include <stddef.h>

#include <weir/graph.h>

#define WEIR__REACH_NONE UINT32_MAX

#define WEIR__REACH_ROOT 0x01u  /* computed though nothing needs it */
#define WEIR__REACH_KEEP 0x02u  /* its bytes are not used again (outputs) */
#define WEIR__REACH_STILL 0x04u /* computes nothing: a leaf, input or view */

/* Bytes that are placed, as addresses [lo, hi); lo == hi: none. */
struct weir__span {
	uint64_t lo, hi;
};

/* The nodes, in the order in which they were made: sources come first. */
struct weir__reach_in {
	uint32_t n;
	uint32_t *src_at;        /* n + 1: node i has src[src_at[i]] on */
	uint32_t *src;           /* NONE: left out */
	uint8_t *flags;          /* WEIR__REACH_* */
	uint32_t *of;            /* the source whose bytes the result has; the
			     node itself: its own */
	uint32_t *writes;        /* the source that it writes; NONE */
	struct weir__span *span; /* of the node's tensor */
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
	 * The last needed node that uses bytes of the class; the node that makes
	 * them, if none does; NONE: they are kept to the end.
	 */
	uint32_t *last;
	/*
	 * Node i may access placed bytes only after before[before_at[i]] up to
	 * before[before_at[i + 1] - 1] have. Besides edges to sources.
	 */
	uint32_t *before_at, *before;
};

/* -ENOMEM. Free the arrays with weir__reach_free(). */
int weir__reach(const struct weir__reach_in *in, struct weir__reach *ret);
void weir__reach_free(struct weir__reach *reach);

/*
 * Fill in before_at and before, as weir__reach() does, once needed is there.
 * Accesses whose bytes overlap, directly or through accesses between, are one
 * group. In a group each read comes after the last write, and each write after
 * the last write and the reads since then.
 */
int weir__reach_order(const struct weir__reach_in *in,
		      struct weir__reach *reach);

/* The arrays of a graph. -ENOMEM. Free them with weir__reach_in_free(). */
int weir__reach_graph(const struct weir_graph *g, struct weir__reach_in *ret);
void weir__reach_in_free(struct weir__reach_in *in);

#endif
