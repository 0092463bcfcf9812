/* SPDX-License-Identifier: MIT */
/*
 * weir load: its options (load_args.c), the loads (load.c), digests (digest.c)
 * and the report (load_report.c).
 */
#ifndef TOOLS_LOAD_H
#define TOOLS_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir.h>
#include "digest.h"

struct load_args {
	const char *path;
	const char *device;
	const char *trace; /* NULL: none */
	const char **only; /* globs; strings of argv */
	size_t n_only;
	struct load_place {
		const char *glob, *device; /* strings of argv */
	} * place;
	size_t n_places;
	struct weir_opts root;
	enum weir_mem memory;
	enum weir_way way;
	int digest; /* enum weir_digest, or < 0: none */
	uint64_t repeat;
	bool fresh, lenient, json, quiet;
};

/* One load, from before the model is opened to the last usable tensor. */
struct load_run {
	double seconds;
	double cpu_seconds; /* user and system, all threads */
	uint64_t enters;
	struct weir_load_report report;
};

/* The memory of the weights as the kernel granted it. */
struct load_memory {
	uint64_t bytes, huge, locked;
	char why[240]; /* why it lacks what was asked for, or "" */
};

struct load_job {
	const struct load_args *args;
	struct weir *weir;
	struct weir_dev *dev;
	struct weir_buft *buft;
	struct weir_weights *weights;
	struct load_run *runs;
	size_t n_runs; /* runs that have ended */
	struct weir_io_info io;
	struct load_memory memory;
	uint64_t peak_rss; /* bytes, after the last run, before digests */
	struct digests digests;
};

/* Returns 0, EXIT_USAGE or ARGS_HELP. In each case call load_args_free(). */
int load_args_parse(int argc, char **argv, struct load_args *ret_args);
void load_args_free(struct load_args *args);

/* The report in words, on stderr. */
void load_report(const struct load_job *job);
/* The report as JSON, on stdout. */
void load_report_json(const struct load_job *job);

#endif
