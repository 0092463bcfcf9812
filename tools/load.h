/* SPDX-License-Identifier: MIT */
/*
 * weir load: its options (load_args.c), the plan and its estimate
 * (load_plan.c), the loads (load.c), digests (digest.c), the picture of
 * --memory-map (load_map.c) and the report (load_report.c).
 */
#ifndef TOOLS_LOAD_H
#define TOOLS_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir.h>
#include "digest.h"
#include "svg.h"

struct args;

/* The options that apply to the tensors whose names match a glob. */
enum load_rules_kind {
	LOAD_RULE_ONLY,
	LOAD_RULE_PLACE,
	LOAD_RULE_SLICE,
	LOAD_RULE_FIRST,
	LOAD_RULES
};

/* One such option. Strings are those of argv. */
struct load_rule {
	const char *glob;
	const char *memory;      /* --place: a device, or a kind of memory */
	uint64_t capacity;       /* --place: bytes that fit; 0: no limit */
	struct weir_slice slice; /* --slice; divided by rank if n is < 0 */
};

/* The rules of one kind; for each tensor the first that matches is used. */
struct load_rules {
	struct load_rule *rule;
	size_t n;
};

struct load_args {
	const char *path;
	const char *device;
	const char *trace;  /* NULL: none */
	const char *map;    /* --memory-map, or NULL */
	const char *verify; /* a manifest; NULL: none */
	struct load_rules rules[LOAD_RULES];
	uint32_t rank, ranks; /* --rank; ranks is 0 without it */
	enum weir_dtype dtype;
	uint64_t align;     /* 0: not given */
	uint32_t buf_flags; /* flags of buffers in host memory */
	struct weir_opts root;
	enum weir_mem memory;
	enum weir_way way;
	int digest;      /* enum weir_digest, or < 0: none */
	uint64_t repeat; /* while parsing 0: not given */
	bool drop;       /* --cache drop */
	bool fresh, lenient, json, quiet, estimate;
};

/* One load, from before the model is opened to the last usable tensor. */
struct load_run {
	double seconds;
	double cpu_seconds; /* user and system, all threads */
	uint64_t enters;
	struct weir_load_report report;
};

/* The memory of the weights of one kind, as the kernel granted it. */
struct load_memory {
	const struct weir_buft *buft;
	uint64_t bytes, huge, locked, reserved;
	/* about the first buffer that lacks what was asked for, or "" */
	char why[240];
	uint64_t lacking; /* bytes of the buffers of which why says the same */
};

struct load_job {
	const struct load_args *args;
	struct weir *weir;
	struct weir_dev *dev;
	struct weir_buft *buft;
	struct weir_buft **places;      /* memory of each --place */
	struct weir_manifest *manifest; /* --verify, or NULL */
	struct weir_weights *weights;
	struct load_run *runs;
	size_t n_runs; /* runs that have ended */
	struct weir_io_info io;
	struct load_memory *memory; /* [n_memory], in the order of the
				       tensors */
	size_t n_memory;
	uint64_t peak_rss; /* bytes, after the last run, before digests */
	struct digests digests;
	struct svg map;              /* --memory-map; open until it is drawn */
	struct outfile trace;        /* --trace; open until it is written */
	struct weir_estimate *needs; /* --estimate */
	size_t n_needs;
	bool no_slots; /* --estimate: the budget has no room for slots */
};

/* Returns 0, EXIT_USAGE or ARGS_HELP. In each case call load_args_free(). */
int load_args_parse(int argc, char **argv, struct load_args *ret_args);
void load_args_free(struct load_args *args);

/* True if a --place has a SIZE. */
bool load_has_capacity(const struct load_args *a);

/* Find the memory of each --place. Returns 0, EXIT_FAILURE or EXIT_USAGE. */
int load_places_open(struct load_job *job);
/*
 * Open the model. Returns 0, or a negative errno with weir_error().
 */
int load_open_model(const struct load_job *job, struct weir_model **ret_model);
/*
 * Open the model and make the plan; it has its own reference to the model.
 * Returns 0, or a negative errno with weir_error(), or EXIT_FAILURE after a
 * line on stderr.
 */
int load_plan(const struct load_job *job, struct weir_plan **ret_plan);

/* True if the I/O engine reads anything. A mapping alone has no use for it. */
bool load_uses_engine(const struct load_args *a);
/*
 * Start the I/O engine, if it is used, and fill in job->io. Returns 0, or a
 * negative errno with weir_error().
 */
int load_start_engine(struct load_job *job);

/*
 * Fill in job->needs. Returns 0, or EXIT_FAILURE after a line on stderr.
 */
int load_estimate(struct load_job *job);
/*
 * Print the estimate on stdout. Returns 0, or EXIT_NO_ROOM if it does not fit.
 */
int load_estimate_print(const struct load_job *job);

/* Fill in job->memory. Returns 0, or EXIT_FAILURE after a line on stderr. */
int load_sum_memory(struct load_job *job);

/* Facts. Names are "?" if they are not known. */
const struct load_run *load_last_run(const struct load_job *job);
double load_rate(const struct load_run *run); /* GB/s */
const char *load_memory_name(const struct weir_buft *buft);
const char *load_device_name(const struct weir_buft *buft);

/* The report as text, on stderr. */
void load_report(const struct load_job *job);
/* The report as JSON, on stdout. */
void load_report_json(const struct load_job *job);

/*
 * Draw the memory map: job->weights, to an open @svg, which is closed. Returns
 * 0, or EXIT_FAILURE after a line on stderr.
 */
int load_map_draw(const struct load_job *job, struct svg *svg);

#endif
