/* SPDX-License-Identifier: MIT */
/* Clocks, deadlines and pauses. Times are int64_t nanoseconds. */
#ifndef WEIR__CLOCK_H
#define WEIR__CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t weir__now(void); /* CLOCK_MONOTONIC */
/* The clock by which the kernel stamps files, and its resolution. */
int64_t weir__file_clock(int64_t *ret_tick);
void weir__sleep(int64_t ns); /* less if a signal comes */

/* now + @timeout_ns; INT64_MAX (never) for a negative timeout. */
int64_t weir__deadline(int64_t timeout_ns);

/*
 * How often a call that was interrupted, or refused for the moment, is made
 * again: some file systems and rings answer so for ever. {0} before the first
 * try.
 */
struct weir__retry {
	unsigned tries;
	int64_t since;
};
/*
 * May the call be made once more? After a few tries it sleeps before it says
 * so. False: it was made often enough (32 times) and for long enough (1 s).
 */
bool weir__retry(struct weir__retry *retry);

#endif
