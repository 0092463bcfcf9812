/* SPDX-License-Identifier: MIT */
/* Schedulers and executable graphs from the inside. */
#ifndef WEIR__GRAPH_SCHED_H
#define WEIR__GRAPH_SCHED_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/sched.h>

#include "graph/compile/compiled.h"
#include "graph/prefetch/prefetcher.h"

struct weir__pins;

#define WEIR__SCHED_STREAMS 8u /* streams that no run uses */

/* What a scheduler has for each of its devices; its lock guards the members. */
struct weir__sched_dev {
	struct weir_rates rates; /* set by the program; size 0: none */
	struct weir_stream *spare[WEIR__SCHED_STREAMS];
	uint32_t n_spare;
};

struct weir_sched {
	_Atomic uint32_t refs; /* the program's, and executable graphs' */
	struct weir *weir;     /* referenced */
	struct weir__compiler *compiler;
	struct weir_sched_opts opts; /* its arrays are NULL */

	/*
	 * Held while a run is started, so that all lanes get the runs in the
	 * same order. Locks of streams are taken inside.
	 */
	pthread_mutex_t start_lock;

	pthread_mutex_t lock;         /* guards what follows; taken last */
	struct weir__pins *pins;      /* referenced; NULL: none */
	bool freed;                   /* by the program: keep nothing */
	struct weir__sched_dev dev[]; /* as compiler->dev */
};

/* Bytes [lo, hi) of a buffer that a run accesses. */
struct weir__accessed {
	struct weir_buf *buf; /* referenced; not a joined buffer */
	uint64_t lo, hi;
	bool write;
};

struct weir_exec {
	_Atomic uint32_t refs;           /* the program's, and runs' */
	struct weir_sched *sched;        /* referenced */
	struct weir__compiled *compiled; /* referenced */
	/*
	 * The event that each sync point waits for, and then the event that
	 * each device copy waits for; NULL: none.
	 */
	struct weir_event **event;
	struct weir_tensor *port; /* each port; placed if it is in a leaf */
	/*
	 * Where the bytes of each device copy of a leaf come from. The buffer
	 * is referenced.
	 */
	struct weir_tensor *device_copy;
	/* The imports, lane after lane; NULL: all are in files. */
	struct weir__import_src *import_src;
	/* The leaves that lanes use where they are, lane after lane. */
	struct weir__accessed *accessed;
	uint32_t n_accessed;
	bool waits;      /* there is an event */
	bool uses_lists; /* its prefetch lists count it as a user */
};

void weir__sched_put(struct weir_sched *sched);
/*
 * The pins and rates that hold now. May measure the devices, for some
 * milliseconds. -ENOMEM. Free it with weir__choice_free().
 */
int weir__sched_choice(struct weir_sched *sched, const struct weir_graph *g,
		       struct weir__choice *ret);
void weir__choice_free(struct weir__choice *choice);
/* Get a stream of the device for a run, a spare one if possible. */
int weir__sched_stream_get(struct weir_sched *sched,
			   const struct weir__compiler_dev *on,
			   struct weir_stream **ret_stream);
/* Give it back. */
void weir__sched_stream_put(struct weir_sched *sched,
			    const struct weir__compiler_dev *on,
			    struct weir_stream *s);

void weir__exec_put(struct weir_exec *exec);
/* The sources of lane @l in exec->import_src; NULL: all are in files. */
const struct weir__import_src *
weir__exec_import_src(const struct weir_exec *exec, uint32_t l);

#endif
