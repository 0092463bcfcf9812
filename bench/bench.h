/* SPDX-License-Identifier: MIT */
/* What the rows of bench/load have in common. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>

#include <weir.h>

#include "models.h"
#include "raw.h"
#include "result.h"

#define CHUNK ((size_t)4 << 20)
#define DEPTH 8u
#define MAX_PAIRS 101u
#define REPEATS 4u /* of a timing that is disturbed, itself included */

struct sample {
	double seconds, cpu;
	uint64_t bytes;
	double others; /* the share of the machine that others took */
};

/*
 * Two ways to do the same: the limit (a), which knows nothing of weir, and
 * weir (b). They alternate as A B, B A, A B, ...; before each, its file is
 * put into the page cache or out of it. A timing that others have disturbed is
 * repeated, and the least disturbed one counts.
 */
struct pair {
	const char *name, *limit;
	const struct file *file_a, *file_b;
	bool resident;
	void (*a)(void *arg, struct sample *s);
	void (*b)(void *arg, struct sample *s);
	void *arg;
};
/*
 * Fills in names, values as GB/s (or as milliseconds, for @in_ms), ratio and
 * CPU; the goal is for the caller.
 */
void pair_run(const struct pair *p, unsigned pairs, bool in_ms,
	      struct result *ret);
/* The state is as wanted, or the program ends. */
void bench_ready(const struct file *f, bool resident);

/* A root, and what loads of a row have in common. */
struct use {
	struct weir *weir;
	struct weir_buft *huge, *mapped;
	struct weir_dev *dev;           /* of bench_device, or the CPU */
	struct weir_buft *to;           /* where loads go */
	struct weir_buf *open;          /* keeps the device open, or NULL */
	struct weir_weights *kept;      /* memory that is touched */
	struct weir_load_report report; /* of the last load */
};
void use_open(struct use *u, unsigned copiers); /* 0: the default */
/*
 * Loads go to the memory of bench_device, whose context is ready; the ring is
 * made by the first load.
 */
void use_open_device(struct use *u, unsigned copiers, unsigned reactors);
/* Where the module of this build is; NULL: where the environment says. */
const char *use_modules(void);
void use_close(struct use *u);
void use_check(int r); /* ends the program with weir's own sentence */

enum {
	USE_WHOLE,
	USE_OPENED
}; /* is opening part of the time? */
/*
 * One load: open, plan, memory, reads, the last tensor. @into is touched
 * memory to load to again, or NULL.
 */
void use_load(struct use *u, const struct file *f, int part,
	      struct weir_weights *into, struct weir_weights **ret,
	      struct sample *s);
/* Into u->kept, which is made and touched at the first call. */
void use_load_kept(struct use *u, const struct file *f, int part,
		   struct sample *s);

extern const char *bench_device; /* of --device, or NULL */
extern bool bench_tiny;          /* --tiny: do the rows run at all? */

/* What a row is given; it adds its results. */
void row_cold_touched(unsigned pairs);
void row_cold_fresh(unsigned pairs);
void row_resident_one(unsigned pairs);
void row_resident_two(unsigned pairs);
void row_resident_fresh(unsigned pairs);
void row_map(unsigned pairs);
void row_many(unsigned pairs);
void row_open(unsigned pairs);
void row_stream(unsigned pairs);
void row_alone(unsigned pairs);
void row_steady(unsigned pairs);
void row_peak(unsigned pairs);
/* To bench_device. */
void row_device_bus(unsigned pairs);
void row_device_slow(unsigned pairs);
void row_device_null(unsigned pairs);
void row_device_ring_one(unsigned pairs);
void row_device_ring_two(unsigned pairs);
void row_device_lock_ring(unsigned pairs);
void row_device_lock(unsigned pairs);
void row_device_resident(unsigned pairs);
void row_device_cold(unsigned pairs);
void row_device_many(unsigned pairs);
void row_device_first(unsigned pairs);

#endif
