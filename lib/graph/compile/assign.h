/* SPDX-License-Identifier: MIT */
/*
 * The pass "assign": it gives each operation a device. Arrays in, arrays out;
 * equal input gives equal output. It takes linear time for each device.
 *
 * These decide, in this order:
 *
 * 1. A pin of the node or, if it has none, that of its largest leaf with a pin.
 * 2. A node that writes a leaf runs on a device that uses the leaf's memory.
 * 3. A node whose largest leaf is not smaller than its other sources runs where
 *    the leaf is.
 * 4. Any other node runs where it costs least: the time for its work at the
 *    rates of the device, for copies of sources that are on other devices, and
 *    for a copy of its result if another device needs it. It leaves the device
 *    that has its largest source, or the first device if it has no such source,
 *    only for a gain of more than a tenth.
 */
#ifndef WEIR__GRAPH_ASSIGN_H
#define WEIR__GRAPH_ASSIGN_H

#include <weir/sched.h>

#include "graph/compile/reach.h"

struct weir_dev;
struct weir_graph;

#define WEIR__ASSIGN_NONE 0xffu /* no device */

struct weir__assign_in {
	const struct weir__reach_in *in;
	const struct weir__reach *reach;
	const uint8_t *marks; /* WEIR__MARK_* of each node */
	uint32_t n_devs;      /* at most 64, because a mask has them */
	/* Rates of each device. */
	const struct weir_rates *rates;
	/* The devices, itself included, whose results it uses in place. */
	const uint64_t *shares;
	/* What follows has an entry for each node. */
	const uint64_t *supports; /* devices that have the operation */
	/* Devices that compute in a leaf's memory; all if it is not placed. */
	const uint64_t *usable;
	const uint8_t *owner;  /* device of a leaf's memory, or NONE */
	const uint8_t *pin;    /* device, NONE */
	const uint64_t *bytes; /* bytes of its tensor */
	const uint64_t *moved; /* bytes that its operation reads and writes */
	const uint64_t *flops;
};

/* Why a node cannot be assigned. */
enum weir__assign_why {
	WEIR__ASSIGN_FINE,
	WEIR__ASSIGN_NO_DEVICE, /* no device has the operation */
	WEIR__ASSIGN_NO_WRITER, /* none of those uses the leaf that it writes */
	WEIR__ASSIGN_PIN_OP,    /* its pin's device does not have it */
	WEIR__ASSIGN_PIN_LEAF   /* its pin's device cannot use that leaf */
};

struct weir__assign {
	/*
	 * The device of each node. An operation has the device that computes
	 * it, a view that of the node whose bytes it has, an input that of its
	 * first user. A leaf has its owner, else the device of its pin, else
	 * that of its first user that can use its memory. NONE: the node is not
	 * needed, or it is a leaf that all users need a copy of.
	 */
	uint8_t *dev;
	uint8_t *cause; /* enum weir_node_cause of each node */
	/* If the pass failed: why, at which node, and the device of its pin. */
	enum weir__assign_why why;
	uint32_t failed;
	uint8_t pinned;
};

/*
 * -ENOMEM. -EOPNOTSUPP: a node cannot be assigned; ret->why and so on say why,
 * and there is no sentence yet. Free the arrays with weir__assign_free().
 */
int weir__assign(const struct weir__assign_in *in, struct weir__assign *ret);
void weir__assign_free(struct weir__assign *assign);

/*
 * Run the pass for the graph @g and the devices @devs, all of which are open.
 * Of the arrays of nodes @in has only marks, pins and usable: this call asks
 * the devices what they support, and makes the others. -ENOMEM, -EOPNOTSUPP
 * with a sentence.
 */
int weir__assign_graph(const struct weir_graph *g, struct weir_dev *const *devs,
		       const struct weir__assign_in *in,
		       struct weir__assign *ret);

#endif
