/* SPDX-License-Identifier: MIT */
/* Shared by the rows of bench/load. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>

#include <weir.h>

#include "models.h"
#include "must.h"
#include "raw.h"
#include "result.h"

#define CHUNK ((size_t)4 << 20)
#define DEPTH 8u
#define MAX_PAIRS 101u
#define REPEATS 4u /* timings of a sample that stays disturbed */

struct sample {
	double seconds, cpu;
	uint64_t bytes;
	double others; /* share of the machine that other programs used */
};

/*
 * Two ways to do the same: the limit (a), without weir, and weir (b). They
 * alternate as A B, B A, A B, ...; before each timing its file is put into the
 * page cache or evicted from it. A timing during which other programs used the
 * machine is repeated, and the least disturbed one is taken.
 */
struct pair {
	const char *name, *limit;
	const struct file *file_a, *file_b;
	bool resident;
	void (*before)(void *arg); /* runs before each timing, or NULL */
	void (*a)(void *arg, struct sample *s);
	void (*b)(void *arg, struct sample *s);
	void *arg;
};
/*
 * Measure the pair, and fill in names, values in GB/s (milliseconds if @in_ms),
 * the ratio and CPU. The caller sets the goal.
 */
void pair_run(const struct pair *p, unsigned pairs, bool in_ms,
	      struct result *ret);
/* Put the file into the page cache or evict it, or end the program. */
void bench_ready(const struct file *f, bool resident);

/* A root, and the settings of a row's loads. */
struct loader {
	struct weir *weir;
	struct weir_buft *huge, *mapped;
	struct weir_dev *dev;           /* the device bench_device, or the
					   CPU */
	struct weir_buft *to;           /* the destination of loads */
	struct weir_buf *open;          /* keeps the device open, or NULL */
	struct weir_weights *kept;      /* weights whose memory is prefaulted */
	struct weir_load_report report; /* report of the last load */
	const char *glob;               /* tensors to load; NULL: all */
	const struct weir_select_opts *select; /* NULL: defaults */
	struct weir_manifest *manifest;        /* NULL: nothing is verified */
};
void loader_open(struct loader *u, unsigned copiers); /* 0: the default */
/*
 * Loads go to the memory of bench_device. Its context exists; the first load
 * makes the ring.
 */
void loader_open_device(struct loader *u, unsigned copiers, unsigned reactors);
/* Loads go to NULL0 of null.h, which completes copies at once. */
void loader_open_null(struct loader *u, unsigned copiers);
void loader_close(struct loader *u);

enum {
	LOADER_WHOLE,
	LOADER_OPENED
};
/*
 * Measure a load: open, plan, memory, reads, the last tensor's event. @part is
 * what is timed: all of it, or what follows the opening. @into: weights whose
 * prefaulted memory is loaded to again, or NULL.
 */
void loader_load(struct loader *u, const struct file *f, int part,
		 struct weir_weights *into, struct weir_weights **ret,
		 struct sample *s);
/* Load to u->kept, which the first call makes and prefaults. */
void loader_load_kept(struct loader *u, const struct file *f, int part,
		      struct sample *s);

extern const char *bench_device; /* --device, or NULL */
extern bool bench_tiny;          /* --tiny: only try whether the rows run */

/* The rows. Each adds its results with result_add(). */
void row_cold_prefaulted(unsigned pairs);
void row_cold_fresh(unsigned pairs);
void row_resident_one(unsigned pairs);
void row_resident_two(unsigned pairs);
void row_resident_fresh(unsigned pairs);
void row_sink_cold(unsigned pairs);
void row_sink_resident(unsigned pairs);
void row_verify_cold(unsigned pairs);
void row_verify_resident(unsigned pairs);
void row_digest_cold(unsigned pairs);
void row_digest_sha256(unsigned pairs);
void row_map(unsigned pairs);
void row_many(unsigned pairs);
void row_open(unsigned pairs);
void row_stream(unsigned pairs);
void row_alone(unsigned pairs);
void row_steady(unsigned pairs);
void row_peak(unsigned pairs);
void row_targets(unsigned pairs);
void row_slice(unsigned pairs);
void row_convert(unsigned pairs);
void row_plan(unsigned pairs);
void row_prefault(unsigned pairs);
/* Rows of loads to bench_device. */
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
