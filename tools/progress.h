/* SPDX-License-Identifier: MIT */
/*
 * A progress bar with the rate and the remaining time, on stderr, if that is a
 * terminal; or lines of JSON for a program (--progress-fd).
 */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include "args.h"

struct progress {
	bool on;          /* there is a bar, or a program reads lines */
	const char *what; /* "loading" */
	uint64_t total;   /* bytes */
	int64_t begin;    /* ns, CLOCK_MONOTONIC */
	int64_t next;     /* when to draw it again, ns */
};

void progress_begin(struct progress *bar, const char *what, uint64_t total);
/* @done of @total bytes are done. Draws at most ten times a second. */
void progress_show(struct progress *bar, uint64_t done);
/* All @done bytes are done, or it failed: the last line, and no bar. */
void progress_end(struct progress *bar, uint64_t done);
/* Remove the bar, if there is one: before anything else goes to stderr. */
void progress_clear(void);

/*
 * Take optarg of --progress-fd: from now on there are lines on that descriptor
 * in the place of bars. Returns 0 or EXIT_USAGE.
 */
int progress_take_fd(const struct args *args);

/* CLOCK_MONOTONIC. */
int64_t now_ns(void);

#endif
