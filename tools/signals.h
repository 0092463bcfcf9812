/* SPDX-License-Identifier: MIT */
/*
 * SIGINT, SIGTERM and SIGHUP while there is something to clean up. The first
 * signal is only recorded, and the command ends in an orderly way. A second
 * signal more than 0.3 s later, or SIGALRM five seconds after the first, calls
 * the clean-up function and ends the process at once, even if a thread hangs in
 * a system call. A signal that was ignored when the command started stays
 * ignored.
 */
#ifndef TOOLS_SIGNALS_H
#define TOOLS_SIGNALS_H

#include <stdbool.h>

/*
 * Catch signals from now on. @tidy is the clean-up function; NULL: none. It
 * runs in a signal handler and may call only what signal-safety(7) allows.
 */
void signals_catch(void (*tidy)(void));
/*
 * The same, but the first signal ends the process at once, after @tidy: for
 * calls that nothing can cancel.
 */
void signals_end(void (*tidy)(void));
/* True if a signal has been caught. */
bool signals_caught(void);
/* Restore the handlers. If a signal was caught, end the process by it. */
void signals_release(void);

#endif
