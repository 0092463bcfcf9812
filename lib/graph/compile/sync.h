/* SPDX-License-Identifier: MIT */
/*
 * The pass that gives each lane its steps, and finds the sync points between them and
 * the device copies that a lane needs. Arrays in, arrays out.
 *
 * A lane is what one device computes of a graph. Its steps have the order in which
 * their nodes were made, which satisfies the edges of the pass "reach". So lanes
 * that wait for each other never wait in a circle.
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
	 * Waits for nothing: the device's work ends here, since others wait for
	 * the step before.
	 */
	WEIR__SYNC_RELEASE
};

/* A point before step @step of a lane at which a run may stop. */
struct weir__sync_point {
	uint32_t step, of, until;
	uint8_t kind, lane;
	bool writes; /* LEAF: the lane writes the leaf */
};

enum weir__device_copy_kind {
	WEIR__DEVICE_COPY_INPUT,    /* the run sets it with the input */
	WEIR__DEVICE_COPY_TRANSFER, /* each run copies it */
	WEIR__DEVICE_COPY_IMPORT /* a constant leaf, which the feeder keeps or feeds */
};

/*
 * The bytes of a class in memory of a lane whose device cannot use the memory in
 * which they are: an input, a result of another lane, or a leaf.
 */
struct weir__device_copy {
	uint32_t node;        /* that has the bytes: the class */
	uint32_t first, last; /* steps of the lane: first and last to read it */
	uint32_t after;       /* TRANSFER: the last node that it comes after */
	uint8_t kind, lane;
};

struct weir__sync {
	uint32_t n, n_lanes, n_points, n_device_copies;
	uint8_t lane_dev[WEIR__LANES]; /* of each lane: its device */
	uint8_t *lane; /* of each node: where it, or its class, is computed */
	uint32_t *step_at;  /* n_lanes + 1: lane l computes node[step_at[l]] to
			      node[step_at[l + 1] - 1] */
	uint32_t *node;     /* of each step */
	uint32_t *step;     /* of each node, in its lane; of one that is not
			      computed, the number of the next step */
	uint32_t *until;    /* of each alias class, at its node: the step of its
			      lane before which its bytes are still used; 0: not
			      used */
	uint8_t *exported;  /* of each class: other lanes read the result */
	uint32_t *point_at; /* n_lanes + 1: as step_at */
	struct weir__sync_point
		*point; /* of each lane in the order of its steps */
	struct weir__device_copy
		*device_copy; /* by first use: in the order of nodes */
	uint32_t *
		device_copy_of; /* of each entry of in->src: its device copy; NONE */
	uint32_t *
		wait; /* of device copy i and lane l, at i * n_lanes + l: steps that
			   the lane must have computed before a transfer */
	bool shared;      /* a leaf is written that another lane uses, too */
	uint32_t refused; /* a node that writes a leaf whose memory its lane
			     cannot use; NONE */
};

/* Marks of nodes, besides the flags of the first pass. */
#define WEIR__MARK_LEAF 0x01u
#define WEIR__MARK_INPUT 0x02u
#define WEIR__MARK_OBSERVED 0x04u /* the observer is to get the result */
#define WEIR__MARK_CONSTANT 0x08u /* a leaf that feeders can read, once */

struct weir__sync_in {
	const struct weir__reach_in *in;
	const struct weir__reach *reach;
	const uint8_t *marks; /* of each node */
	const uint8_t *dev;   /* of each node that is computed: a device */
	uint32_t n_devs;      /* at most WEIR__LANES */
	uint32_t first; /* the device of the lane, if nothing is computed */
	const uint64_t *usable; /* of each leaf: bit d: device d can use its
				   memory */
	const uint64_t *shares; /* of device d: bit e: it can use planned memory
				   of device e; always its own */
};

/* -ENOMEM. Free the arrays with weir__sync_free(). */
int weir__sync(const struct weir__sync_in *in, struct weir__sync *ret);
void weir__sync_free(struct weir__sync *sync);

/* Is a result of this node computed in a run? */
static inline bool weir__is_computed(const struct weir__reach_in *in,
				     const struct weir__reach *reach,
				     uint32_t i)
{
	return reach->needed[i] && !(in->flags[i] & WEIR__REACH_STILL);
}

#endif
