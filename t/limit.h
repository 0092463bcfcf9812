/* SPDX-License-Identifier: MIT */
#ifndef LIMIT_H
#define LIMIT_H

#include <stddef.h>

/*
 * Let this process have @more bytes of address space from now on, so that an
 * allocation of what a file claims fails. Under sanitizers, which need more
 * addresses than there is memory, nothing is limited.
 */
void limit_memory(size_t more);

/*
 * One check: @child, which limits itself, ends with status 0, in a process of
 * its own. Skipped under sanitizers.
 */
void limited_child(int (*child)(void), const char *title);

#endif
