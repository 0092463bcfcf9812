/* SPDX-License-Identifier: MIT */
/* What the process has used so far. */
#ifndef TOOLS_USAGE_H
#define TOOLS_USAGE_H

#include <stdint.h>

/* User and system time of all threads. */
double cpu_seconds(void);
/* The most bytes of memory that were resident at once. */
uint64_t peak_rss(void);

#endif
