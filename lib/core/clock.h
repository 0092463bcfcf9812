/* SPDX-License-Identifier: MIT */
/* Clocks, deadlines and pauses. Times are int64_t nanoseconds. */
#ifndef WEIR__CLOCK_H
#define WEIR__CLOCK_H

#include <stdbool.h>
#include <stdint.h>

int64_t weir__now(void); /* CLOCK_MONOTONIC */
/* The clock from which the kernel takes times of files, and its resolution. */
int64_t weir__file_clock(int64_t *ret_tick);
void weir__sleep(int64_t ns);

/* now + @timeout_ns; INT64_MAX (never) for a negative timeout. */
int64_t weir__deadline(int64_t timeout_ns);

/*
 * How often a call was repeated because it was interrupted, or refused for the
 * moment: some file systems and rings refuse it for ever. It is {0} before the
 * first try.
 */
struct weir__retry {
	unsigned tries;
	int64_t since;
};
/*
 * True if the call may be repeated; after a few tries this sleeps before it
 * returns. False: it was repeated more than 32 times and for more than 1 s.
 */
bool weir__retry(struct weir__retry *retry);

#endif
