/* SPDX-License-Identifier: MIT */
/* weir plan: places buffers with known lifetimes in one memory. */
#ifndef TOOLS_PLAN_H
#define TOOLS_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <weir.h>
#include "plan_csv.h"
#include "svg.h"

struct plan_args {
	const char *path;  /* "-": standard input */
	const char *svg;   /* NULL: no picture */
	uint64_t capacity; /* 0: none */
	int64_t time_ns;   /* time limit of the exact search */
	uint32_t threads;
	bool json, quiet;
};

/* The answer to --capacity. */
enum plan_fit {
	PLAN_FITS,      /* also without --capacity */
	PLAN_TOO_LARGE, /* no placement fits */
	PLAN_NOT_FOUND  /* none was found, but there may be one */
};

/* The bytes that are alive: bytes[i] from time[i] until time[i + 1]. */
struct plan_live {
	int64_t *time;
	uint64_t *bytes;
	size_t n;
	size_t most; /* the first i with the most bytes */
};

struct plan_job {
	const struct plan_args *args;
	const char *name; /* name of the file, for messages */
	char *text;
	struct plan_csv csv;
	struct weir_placement *placement;
	struct weir_placement_info info;
	struct plan_live live;
	enum plan_fit fit;
};

/* Fill in job->live, for free(). Returns 0, or EXIT_FAILURE after a line. */
int plan_live(struct plan_job *job);
uint64_t plan_live_most(const struct plan_job *job);
/* The first time at which the most bytes are alive; 0: there are no buffers. */
int64_t plan_live_at(const struct plan_job *job);

/* "40.25 MiB". @buf has PLAN_SIZE_TEXT bytes. */
#define PLAN_SIZE_TEXT 32
const char *plan_size_text(uint64_t bytes, char *buf);

/* Write the rows with their offsets on stdout, as CSV or in a JSON object. */
void plan_put_csv(const struct plan_job *job);
void plan_put_json(const struct plan_job *job);
/* Write the report on stderr. */
void plan_report(const struct plan_job *job);

/*
 * Draw the placement into a picture that is open. Returns 0, or EXIT_FAILURE
 * after a line on stderr.
 */
int plan_draw(const struct plan_job *job, struct svg *svg);

#endif
