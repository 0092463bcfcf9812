/* SPDX-License-Identifier: MIT */
/*
 * SIGINT, SIGTERM and SIGHUP while there is something to clean up. The first
 * one is only noted; a second one, or five seconds, clean up by the tidy
 * function and end the process at once, whatever it hangs in. A signal that was
 * ignored when we started stays ignored.
 */
#ifndef TOOLS_SIGNALS_H
#define TOOLS_SIGNALS_H

#include <stdbool.h>

/*
 * Note signals from now on. @tidy runs in the handler of the second one, or of
 * SIGALRM: it may only call what signal-safety(7) allows. NULL: nothing to do.
 */
void signals_hold(void (*tidy)(void));
bool signals_caught(void);
/* The defaults again; dies of the signal that was caught, if one was. */
void signals_release(void);

#endif
