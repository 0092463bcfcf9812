/* SPDX-License-Identifier: MIT */
/* A bar with rate and time left, on stderr, and only if that is a terminal. */
#ifndef TOOLS_PROGRESS_H
#define TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool on;          /* stderr is a terminal */
	const char *what; /* "loading" */
	uint64_t total;   /* bytes */
	int64_t begin;    /* ns, CLOCK_MONOTONIC */
	int64_t next;     /* when it is drawn again */
};

void progress_begin(struct progress *bar, const char *what, uint64_t total);
/* @done of @total bytes; draws at most ten times a second. Cheap otherwise. */
void progress_show(struct progress *bar, uint64_t done);
/* Take the bar away, if there is one, before anything else goes to stderr. */
void progress_clear(void);

int64_t now_ns(void);

#endif
