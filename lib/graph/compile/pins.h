/* SPDX-License-Identifier: MIT */
/*
 * What decides where a graph's nodes are computed, besides the graph: pins, by
 * the names of nodes, and the rates of devices.
 */
#ifndef WEIR__GRAPH_PINS_H
#define WEIR__GRAPH_PINS_H

#include <weir/sched.h>

struct weir_graph;
struct weir_sched;

/* A list of pins. It never changes; schedulers exchange it for another. */
struct weir__pins;

void weir__pins_put(struct weir__pins *pins); /* NULL is allowed */

/* The choices of the program for one executable graph: pins and rates. */
struct weir__choice {
	/* NULL with one device. */
	uint8_t *pin; /* of each node: a device, WEIR__ASSIGN_NONE */
	struct weir_rates *rates; /* of each device */
	uint64_t key;             /* equal choices have equal keys */
};

/*
 * The pins and rates that hold now. May measure the devices, for some
 * milliseconds. -ENOMEM. Free it with weir__choice_free().
 */
int weir__choice(struct weir_sched *sched, const struct weir_graph *g,
		 struct weir__choice *ret);
void weir__choice_free(struct weir__choice *choice);

#endif
