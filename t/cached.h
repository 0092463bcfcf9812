/* SPDX-License-Identifier: MIT */
/*
 * A page cache that has all bytes of all files or none, whatever the kernel
 * evicts and whether the file system has reads that do not wait. For tests
 * that link with T_CACHED_FLAGS.
 */
#ifndef T_CACHED_H
#define T_CACHED_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool cached; /* true at first */

#endif
