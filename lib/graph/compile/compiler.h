/* SPDX-License-Identifier: MIT */
/*
 * The compiler of a scheduler: the devices for which it compiles graphs, the
 * compiled graphs, and the budget of their memory. Compiled graphs that no
 * executable graph uses are kept for a while. Any thread may call, and no lock
 * is held then.
 */
#ifndef WEIR__GRAPH_COMPILER_H
#define WEIR__GRAPH_COMPILER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/backend.h>
#include <weir/sched.h>

struct weir__compiled;
struct weir__prefetcher;

/*
 * How many compiled graphs are kept at most; and their bytes, if they are
 * several.
 */
#define WEIR__COMPILER_KEPT 8u
#define WEIR__COMPILER_KEPT_BYTES ((uint64_t)64 << 20)

struct weir__compiler_dev {
	struct weir_dev *dev;
	struct weir_buft *buft; /* type of planned memory: the device's first */
	/* NULL: the device has memory and copies, and computes nothing. */
	const struct weir_backend_compute_ops *compute;
	struct weir__prefetcher *prefetcher; /* NULL: it does not compute */
	uint64_t budget;                     /* 0: no limit of its own */
	uint64_t reserved; /* bytes of the budget; under the compiler's lock */
};

struct weir__compiler {
	struct weir__compiler_dev *dev;
	uint32_t n_devs;
	uint32_t first;   /* the first device that computes */
	uint32_t copies;  /* copies of the inputs of each graph */
	int64_t place_ns; /* the exact planner's; 0: only the greedy one */
	uint64_t budget;  /* sum over all devices; 0: no limit */
	/*
	 * Bit k of shares[i]: device i computes in planned memory of device k.
	 */
	uint64_t *shares;

	pthread_mutex_t lock;            /* guards what follows; taken last */
	struct weir__compiled *compiled; /* the one that was used last first */
	uint32_t n_kept;                 /* how many have no references */
	uint32_t n_freeing;       /* off the list, but with memory still */
	pthread_cond_t freed_one; /* n_freeing is less */
	uint64_t reserved;        /* bytes of the budget, of all devices */
	bool closed;              /* nothing is kept */
};

/* @opts has its defaults filled in; its arrays are only read. -ENOMEM. */
int weir__compiler_new(struct weir_dev *const *devs, uint32_t n,
		       const struct weir_sched_opts *opts,
		       struct weir__compiler **ret_compiler);
/* Keep no compiled graph from now on. */
void weir__compiler_close(struct weir__compiler *c);
/* Free a compiler that is closed and has no compiled graph left. */
void weir__compiler_free(struct weir__compiler *c);

/* True if the device can compute in memory of this kind. */
bool weir__compiler_dev_can_use(const struct weir__compiler_dev *d,
				const struct weir_buft *buft);
/* The index of the device; n_devs: it is not one of the compiler's. */
uint32_t weir__compiler_dev_index(const struct weir__compiler *c,
				  const struct weir_dev *dev);

/*
 * Count bytes[i] towards the budget of each device i. Frees compiled graphs
 * that are only kept if that is what it takes, and waits for those that other
 * threads free. -ENOMEM with both numbers; nothing has changed then.
 */
int weir__compiler_reserve(struct weir__compiler *c, const uint64_t *bytes);
void weir__compiler_unreserve(struct weir__compiler *c, const uint64_t *bytes);
/*
 * Free the compiled graphs that are only kept, and wait for those that other
 * threads free. False: there are none.
 */
bool weir__compiler_drop_kept(struct weir__compiler *c);

/*
 * A compiled graph with this fingerprint that was made with an equal choice,
 * and a reference to it; NULL: there is none.
 */
struct weir__compiled *weir__compiler_find(struct weir__compiler *c,
					   const uint64_t fingerprint[2],
					   uint64_t key);
/* Put a new compiled graph on the list. Equal ones may be there. */
void weir__compiler_add(struct weir__compiler *c, struct weir__compiled *cg);
void weir__compiled_put(struct weir__compiled *cg);

#endif
