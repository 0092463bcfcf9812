/* SPDX-License-Identifier: MIT */
/*
 * A source without a disk and a device without memory: both keep time and
 * move nothing, so that what is measured is the engine between them.
 */
#ifndef BENCH_NULL_H
#define BENCH_NULL_H

#include <stdint.h>

#include "io/engine_state.h"

struct weir_dev;
struct weir_file;

/* One server: a request ends @latency ns after its turn of bytes / @rate. */
struct null_server {
	double rate; /* bytes for each ns (GB/s) */
	int64_t latency;
	int64_t free; /* when the server is done with the last one */
};

extern struct null_server null_source, null_sink;
extern const struct weir__method_ops null_method;
extern const struct weir__backend null_backend;

/*
 * null_run.c. A root whose engine reads from the null source, by one reactor,
 * and @device of it; NULL0 is always there. One at a time.
 */
void null_open(const char *device, const char *module_path,
	       struct weir_dev **ret_dev);
void null_close(void);
/* Of 64 GiB, in which there is nothing. */
extern struct weir_file *null_file;
uint64_t null_chunk(void);
/* One job; its seconds. */
double null_run(struct weir__extent *ext, size_t n);

#endif
