/* SPDX-License-Identifier: MIT */
/*
 * A source without a disk and a device without memory: both keep time and
 * move nothing, so that what is measured is the engine between them.
 */
#ifndef BENCH_NULL_H
#define BENCH_NULL_H

#include <stdint.h>

#include "io/reactor.h"

/* One server: a request ends @latency ns after its turn of bytes / @rate. */
struct null_server {
	double rate; /* bytes for each ns (GB/s) */
	int64_t latency;
	int64_t free; /* when the server is done with the last one */
};

extern struct null_server null_source, null_sink;
extern const struct weir__method_ops null_method;
extern const struct weir__backend null_backend;

#endif
