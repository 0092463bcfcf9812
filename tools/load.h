/* SPDX-License-Identifier: MIT */
/*
 * weir load: what was asked for (load_args.c), the runs (load.c), digests
 * (digest.c) and what is told about it (load_report.c).
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
	const char **only; /* globs, those of argv */
	size_t n_only;
	struct load_place {
		const char *glob, *device; /* parts of argv */
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

/* What the memory of the weights really is. */
struct load_memory {
	uint64_t bytes, huge, locked;
	char why[240]; /* why it is less than asked for; "" if not */
};

struct load_job {
	const struct load_args *args;
	struct weir *weir;
	struct weir_dev *dev;
	struct weir_buft *buft;
	struct weir_weights *weights;
	struct load_run *runs;
	size_t n_runs; /* done */
	struct weir_io_info io;
	struct load_memory memory;
	uint64_t peak_rss; /* bytes, after the last run, before digests */
	struct digests digests;
};

/* 0, EXIT_USAGE, or ARGS_HELP. Free what it made by load_args_free(). */
int load_args_parse(int argc, char **argv, struct load_args *ret_args);
void load_args_free(struct load_args *args);

/* For people, on stderr. */
void load_report(const struct load_job *job);
/* For programs, on stdout. */
void load_report_json(const struct load_job *job);

#endif
