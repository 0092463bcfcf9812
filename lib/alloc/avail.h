/* SPDX-License-Identifier: MIT */
/* How much memory this process can still allocate. */
#ifndef WEIR__ALLOC_AVAIL_H
#define WEIR__ALLOC_AVAIL_H

#include <stddef.h>
#include <stdint.h>

/*
 * RAM: what is available without swapping (page cache counts as available) and
 * the total. Both are bounded by the limits of the process's cgroups, v1 and
 * v2, and of their parents. @root is a prefix of the paths of /proc and /sys,
 * for tests; else "". Works without /proc. -ENODATA.
 */
int weir__avail_ram(const char *root, uint64_t *ret_free, uint64_t *ret_total);

/*
 * Huge pages of @page bytes that the system has reserved: those that no mapping
 * counts on yet, and all. @root as above. -ENODATA, without a sentence: the
 * kernel has no pages of this size.
 */
int weir__avail_reserved(const char *root, size_t page, uint64_t *ret_free,
			 uint64_t *ret_total);

#endif
