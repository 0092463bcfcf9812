/* SPDX-License-Identifier: MIT */
/*
 * The pass "sync": it gives each lane its steps, and finds the sync points
 * between them and the device copies that a lane needs. Arrays in, arrays out.
 *
 * A lane is what one device computes of a graph. Its steps have the order in
 * which their nodes were made, which satisfies the edges of the pass "reach".
 * So lanes that wait for each other never wait in a circle.
 */
#ifndef WEIR__GRAPH_SYNC_H
#define WEIR__GRAPH_SYNC_H

#include <stdbool.h>

#include "graph/compile/reach.h"

#define WEIR__LANES 64u /* at most */
#define WEIR__NO_LANE UINT8_MAX

enum weir__sync_kind {
	WEIR__SYNC_LEAF,    /* waits for the event of leaf @of */
	WEIR__SYNC_OBSERVE, /* reports the result of node @of */
	WEIR__SYNC_LANE,    /* waits until lane @of has computed @until steps */
	WEIR__SYNC_TRANSFER, /* waits until device copy @of was copied */
	WEIR__SYNC_IMPORT,   /* waits until device copy @of has arrived */
	/*
	 * Waits for nothing. The work of the device ends here, since other
	 * lanes wait for the step before.
	 */
	WEIR__SYNC_RELEASE
};

/* A point before step @step of a lane at which a run may stop. */
struct weir__sync_point {
	uint32_t step, of, until;
	uint8_t kind, lane;
	bool uses; /* LEAF: the lane uses the leaf; else it is observed only */
	bool writes; /* LEAF: the lane writes the leaf */
};

enum weir__device_copy_kind {
	WEIR__DEVICE_COPY_INPUT,    /* the run sets it with the input */
	WEIR__DEVICE_COPY_TRANSFER, /* each run copies it */
	WEIR__DEVICE_COPY_IMPORT    /* a constant leaf, kept or prefetched */
};

/*
 * A copy of a class (an input, a result of another lane, or a leaf) in memory
 * of a lane whose device cannot use the memory in which the class is.
 */
struct weir__device_copy {
	uint32_t node;        /* the class: the node that has the bytes */
	uint32_t first, last; /* the first and last step that reads it */
	uint32_t after;       /* TRANSFER: it is copied after this node */
	uint8_t kind, lane;
};

struct weir__sync {
	uint32_t n, n_lanes, n_points, n_device_copies;
	uint8_t lane_dev[WEIR__LANES]; /* the device of each lane */
	/* The lane that computes each node, or its class. */
	uint8_t *lane;
	/*
	 * Lane l computes the nodes node[step_at[l]] to node[step_at[l + 1] -
	 * 1], in this order. step_at has n_lanes + 1 entries.
	 */
	uint32_t *step_at, *node;
	/*
	 * The step of each node in its lane. A node that is not computed has
	 * the number of the next step.
	 */
	uint32_t *step;
	/*
	 * At the node of each alias class: the step of its lane before which
	 * its bytes are used for the last time. 0: they are not used.
	 */
	uint32_t *until;
	uint8_t *exported; /* true if other lanes read the result of a class */
	/* Lane l has point[point_at[l]] to point[point_at[l + 1] - 1]. */
	uint32_t *point_at;
	struct weir__sync_point *point;
	/* In the order of first use, which is that of nodes. */
	struct weir__device_copy *device_copy;
	/* The device copy that each entry of in->src reads; NONE. */
	uint32_t *device_copy_of;
	/*
	 * At i * n_lanes + l: how many steps lane l must have computed before
	 * device copy i is transferred.
	 */
	uint32_t *wait;
	bool shared; /* a lane writes a leaf that another lane uses, too */
	/* A node that writes a leaf whose memory its lane cannot use; NONE. */
	uint32_t refused;
};

/* Marks of nodes, besides the flags of the first pass. */
#define WEIR__MARK_LEAF 0x01u
#define WEIR__MARK_INPUT 0x02u
#define WEIR__MARK_OBSERVED 0x04u /* the observer is to get the result */
#define WEIR__MARK_CONSTANT 0x08u /* a leaf that prefetchers can read */

struct weir__sync_in {
	const struct weir__reach_in *in;
	const struct weir__reach *reach;
	const uint8_t *marks; /* WEIR__MARK_* of each node */
	const uint8_t *dev;   /* the device of each node that is computed */
	uint32_t n_devs;      /* at most WEIR__LANES */
	uint32_t first;       /* the device of the only lane if none computes */
	/* Bit d of usable[i]: device d can use the memory of leaf i. */
	const uint64_t *usable;
	/* Bit e of shares[d]: device d can use planned memory of device e. */
	const uint64_t *shares;
};

/* -ENOMEM. Free the arrays with weir__sync_free(). */
int weir__sync(const struct weir__sync_in *in, struct weir__sync *ret);
void weir__sync_free(struct weir__sync *sync);

/* True if runs compute node @i. */
static inline bool weir__is_computed(const struct weir__reach_in *in,
				     const struct weir__reach *reach,
				     uint32_t i)
{
	return reach->needed[i] && !(in->flags[i] & WEIR__REACH_NO_WORK);
}

#endif
