/* SPDX-License-Identifier: MIT */
/*
 * A source without a disk and a device without memory: both take time but move
 * no bytes, so that the engine between them is measured.
 */
#ifndef BENCH_NULL_H
#define BENCH_NULL_H

#include <stdint.h>

#include "io/engine_state.h"

struct weir_dev;
struct weir_file;

/* Requests take bytes / @rate one after another, and @latency ns besides. */
struct null_server {
	double rate; /* bytes for each ns (GB/s) */
	int64_t latency;
	int64_t free; /* when the last request's bytes end */
};

extern struct null_server null_source, null_sink;
extern const struct weir__method_ops null_method;
extern weir_backend_entry_fn null_entry; /* a backend with device NULL0 */

/*
 * null_run.c. A root whose engine has one reactor, which reads from the null
 * source, and its @device; NULL0 always exists. Only one root at a time.
 */
void null_open(const char *device, const char *module_path,
	       struct weir_dev **ret_dev);
void null_close(void);
/* 64 GiB without data. */
extern struct weir_file *null_file;
uint64_t null_chunk(void);
/* Run one job; the seconds that it took. */
double null_run(struct weir__extent *ext, size_t n);

#endif
