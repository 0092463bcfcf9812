/* SPDX-License-Identifier: MIT */
/* Schedulers and executable graphs from the inside. */
#ifndef WEIR__GRAPH_SCHED_H
#define WEIR__GRAPH_SCHED_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/sched.h>

#include "graph/prefetch/prefetcher.h"
#include "graph/compile/pins.h"
#include "graph/compile/compiled.h"

/*
 * Plans that no executable graph uses, at most; and their bytes, if they are
 * several.
 */
#define WEIR__SCHED_KEPT 8u
#define WEIR__SCHED_KEPT_BYTES ((uint64_t)64 << 20)
#define WEIR__SCHED_STREAMS 8u /* streams that no run uses */

/* A device of a scheduler. */
struct weir__sched_dev {
	struct weir_dev *dev;
	struct weir_buft *buft; /* of planned memory: the device's first */
	const struct weir_backend_compute_ops
		*compute;                    /* NULL: memory and copies */
	uint64_t budget;                     /* 0: no limit of its own */
	struct weir__prefetcher *prefetcher; /* NULL: it does not compute */

	/* Under the scheduler's lock. */
	struct weir_rates rates; /* that the program has set; size 0: none */
	uint64_t reserved;       /* bytes of the budget */
	struct weir_stream *stream[WEIR__SCHED_STREAMS];
	uint32_t n_streams;
};

struct weir_sched {
	_Atomic uint32_t
		refs; /* the program's, and those of compiled graphs in use */
	struct weir *weir; /* referenced */
	struct weir__sched_dev *dev;
	uint32_t n_devs;
	uint32_t first; /* the first device that computes */
	uint64_t
		*shares; /* of device i: bit k: it computes in planned memory of
			     device k */
	struct weir_sched_opts opts;

	/*
	 * Held while a run is started, so that all lanes have the runs in the
	 * same order. Locks of streams are taken inside.
	 */
	pthread_mutex_t start_lock;

	pthread_mutex_t lock;            /* guards what follows; taken last */
	struct weir__pins *pins;         /* referenced; NULL: none */
	struct weir__compiled *compiled; /* the one that was used last first */
	uint32_t n_kept;                 /* of them without references */
	uint32_t n_freeing; /* that are off the list, and have memory yet */
	pthread_cond_t freed_one; /* n_freeing is less */
	uint64_t reserved;        /* bytes of the budget, of all devices */
	bool freed;               /* by the program: keep nothing */
};

/* Bytes of a buffer that a run accesses. */
struct weir__touched {
	struct weir_buf *buf; /* referenced; no joined one */
	uint64_t lo, hi;
	bool write;
};

struct weir_exec {
	_Atomic uint32_t refs; /* the program's, and runs' */
	struct weir__compiled *compiled;
	/*
	 * Of each sync point, then of each device copy: what it waits for;
	 * NULL: nothing.
	 */
	struct weir_event **event;
	struct weir_tensor *port; /* of each port; placed if it is in a leaf */
	struct weir_tensor
		*device_copy; /* of each device copy of a leaf: where its bytes
				      come from; its buffer is referenced */
	struct weir__import_src
		*import;               /* of each device copy that is an import;
					    NULL: all are in files */
	struct weir__touched *touched; /* of leaves, lane after lane */
	uint32_t n_touched;
	bool waits;      /* there is an event */
	bool uses_lists; /* its prefetch lists count it as a user */
};

/*
 * Free the compiled graphs that are only kept, and wait for those that other
 * threads free. False: there are none.
 */
bool weir__sched_drop_kept(struct weir_sched *sched);
/* True if the device can compute in memory of this kind. */
bool weir__sched_can_use(const struct weir__sched_dev *d,
			 const struct weir_buft *buft);
/* The index of the device in the scheduler; n_devs: it is not there. */
uint32_t weir__sched_index(const struct weir_sched *sched,
			   const struct weir_dev *dev);
/*
 * Count bytes[i] towards the budget of each device i; frees compiled graphs
 * that are only kept if that is what it takes, and waits for those that other
 * threads free.
 * -ENOMEM with both numbers; nothing has changed then. No lock is held.
 */
int weir__sched_reserve(struct weir_sched *sched, const uint64_t *bytes);
void weir__sched_unreserve(struct weir_sched *sched, const uint64_t *bytes);
/*
 * A compiled graph with this fingerprint that was made with an equal choice,
 * and a reference to it; NULL: there is none.
 */
struct weir__compiled *weir__sched_find(struct weir_sched *sched,
					const uint64_t fingerprint[2],
					uint64_t key);
/* Put a new compiled graph on the list. Equal ones may be there. */
void weir__sched_add(struct weir_sched *sched, struct weir__compiled *cg);
void weir__compiled_put(struct weir__compiled *cg);
/* A stream of the device for one run, and its return. */
int weir__sched_stream(struct weir_sched *sched, struct weir__sched_dev *d,
		       struct weir_stream **ret_stream);
void weir__sched_stream_back(struct weir_sched *sched,
			     struct weir__sched_dev *d, struct weir_stream *s);

void weir__exec_put(struct weir_exec *s);
/* Where the imports of lane @l come from; NULL: all are in files. */
const struct weir__import_src *weir__exec_import_src(const struct weir_exec *s,
						     uint32_t l);

#endif
