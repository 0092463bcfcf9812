/* SPDX-License-Identifier: MIT */
/*
 * Random graphs are run by executable graphs over some devices, with 1 to 3
 * threads and random pins, and compared with the plain evaluator: outputs,
 * observed nodes and caches. The bytes of some leaves and inputs arrive after
 * the start of each run. WEIR_T_SEED is the seed of the first graph; each
 * graph has the next one.
 */
#ifndef RANDOM_RUN_H
#define RANDOM_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#define RANDOM_DEVS 4u

struct random_devices {
	struct weir *weir;
	struct weir_dev *dev[RANDOM_DEVS]; /* the first one is a CPU */
	unsigned n;
	/* Memory of weights and of the caches, in turn; the first: host's. */
	struct weir_buft *buft[RANDOM_DEVS];
	unsigned n_bufts;
	const struct weir_rates *rates; /* of all but the first; or NULL */
	bool no_calls;                  /* not all of them have WEIR_OP_CALL */
	/* Before each graph; and after it: a mistake, or NULL. Optional. */
	void (*begin)(uint64_t seed);
	const char *(*finding)(void);
};

/* Counts over all graphs. */
extern struct random_seen {
	uint64_t compared, in_place, cancelled, transfers, lanes, prefetched,
		observed, waits;
} random_seen;

/* One check: graphs of 1 to 400 nodes, of about @nodes nodes together. */
void random_run(const struct random_devices *devices, uint64_t nodes,
		const char *what);
/* A number from the environment. */
uint64_t random_number_from(const char *name, uint64_t other);

#endif
