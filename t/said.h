/* SPDX-License-Identifier: MIT */
#ifndef SAID_H
#define SAID_H

/* What @fn writes to stderr, at most 1023 bytes; valid until the next call. */
char *said(void (*fn)(void));

#endif
