/* SPDX-License-Identifier: MIT */
/*
 * CUDA graphs: the launches of a range of nodes as one call. A graph is built
 * node by node from the launches, not captured, when its range is run for the
 * second time. It is never changed: what differs between runs, such as
 * positions, is in tensors.
 */
#ifndef WEIR__CUDA_LAUNCH_GRAPH_H
#define WEIR__CUDA_LAUNCH_GRAPH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include <weir/backend.h>

struct weir__cuda;
struct weir__cuda_found;
struct weir__cuda_launches;

/* Ranges of a segment that are remembered, each with a graph or without. */
#define WEIR__CUDA_RANGES 16u
/* Products of more columns are a prompt, which is launched directly. */
#define WEIR__CUDA_GRAPH_COLUMNS 16

/*
 * The state of a range. weir__cuda_range_take() moves it on, release ends it.
 *
 *     unused --> ran once --> built --> refused
 *        ^         ^ \         |         ^  |
 *        |         |  `--------+---------'  |  a call of the driver failed
 *        |         `------------------------'  some hundred works later, if
 *        |                                     that was for want of memory or
 *        |                                     because of a capture
 *        '--- the range was not run for long, and another one needs the place
 */
enum weir__cuda_range_state {
	WEIR__CUDA_RANGE_UNUSED,
	WEIR__CUDA_RANGE_RAN,    /* once, without a graph */
	WEIR__CUDA_RANGE_BUILT,  /* it has a graph */
	WEIR__CUDA_RANGE_REFUSED /* launched directly */
};

struct weir__cuda_range {
	/*
	 * A work has it, from the moment in which it is taken, while its graph
	 * is built and launched, until the work has ended. Set with the lock,
	 * cleared without.
	 */
	_Atomic bool taken;
	/* Written with the lock when it is taken. */
	size_t first, n; /* n 0: it was never used */
	void *workspace;
	uint64_t used; /* the work that took it last */
	/* Only whoever has taken it accesses the rest; or, with the lock, if
	   it is not taken. */
	enum weir__cuda_range_state state;
	CUgraphExec exec;
	struct weir__cuda_found *found; /* the graph copies the status there */
	char refused[160];              /* REFUSED: why */
	uint64_t refused_at;            /* by which work */
	bool passes;                    /* that may be different later */
};

/* The graphs of a segment. */
struct weir__cuda_graphs {
	/*
	 * Guards what follows. The driver is not called with it: poll and
	 * submit may need the range of another work meanwhile.
	 */
	pthread_mutex_t lock;
	struct weir__cuda_range range[WEIR__CUDA_RANGES];
	uint64_t works; /* works of the segment so far */
	uint64_t launched, direct;
	_Atomic uint64_t built;
	char why[200]; /* why the last work was launched directly; "" */
};

/*
 * Find the graph for @run, or build it. Returns the range, which @run then has
 * until weir__cuda_range_put(), or NULL: launch directly, as if another work
 * has it. A graph is uploaded on @stream. The device's context is current. Any
 * thread; building blocks for some milliseconds.
 */
struct weir__cuda_range *
weir__cuda_range_take(struct weir__cuda *c, struct weir__cuda_launches *l,
		      const struct weir_backend_compute *run, CUstream stream);
/*
 * The same if the graph is built and no work has it; otherwise NULL, and
 * nothing is counted. Any thread; does not call the driver, and does not block.
 */
struct weir__cuda_range *
weir__cuda_range_take_built(struct weir__cuda_launches *l,
			    const struct weir_backend_compute *run);
/* Launch its graph, once. If that fails, the range has no graph afterwards. */
CUresult weir__cuda_range_launch(struct weir__cuda_range *range,
				 CUstream stream);
/* The work has ended. Any thread; does not block. */
void weir__cuda_range_put(struct weir__cuda_range *range);
/* Free all graphs; no run is left. @driver: a context is current. */
void weir__cuda_graphs_free(struct weir__cuda *c, struct weir__cuda_launches *l,
			    bool driver);
/* Describe the graphs of the segment, and why there are none. Any thread. */
void weir__cuda_graphs_describe(const struct weir__cuda *c,
				struct weir__cuda_launches *l,
				struct weir_backend_launches *ret);

#endif
