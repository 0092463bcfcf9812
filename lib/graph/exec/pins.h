/* SPDX-License-Identifier: MIT */
/*
 * What decides where a graph's nodes are computed, besides the graph: pins, by
 * the names of nodes, and the rates of devices.
 */
#ifndef WEIR__GRAPH_PINS_H
#define WEIR__GRAPH_PINS_H

#include <weir/sched.h>

#include "graph/compile/passes.h"

struct weir_sched;

/* A list of pins. It never changes; schedulers exchange it for another. */
struct weir__pins;

void weir__pins_put(struct weir__pins *pins); /* NULL is allowed */

/*
 * The pins and rates that hold now. May measure the devices, for some
 * milliseconds. -ENOMEM. Free it with weir__choice_free().
 */
int weir__choice(struct weir_sched *sched, const struct weir_graph *g,
		 struct weir__choice *ret);
void weir__choice_free(struct weir__choice *choice);

#endif
