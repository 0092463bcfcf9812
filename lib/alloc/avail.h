/* SPDX-License-Identifier: MIT */
/* How much memory this process can still have, and who limits it. */
#ifndef WEIR__ALLOC_AVAIL_H
#define WEIR__ALLOC_AVAIL_H

#include <stdint.h>

/*
 * RAM: what can be had without pushing anything out that is in use, and what
 * there is; each bounded by the limits of the process's cgroups (v1 and v2)
 * and of those above them. Page cache counts as free. @root is put before the
 * paths of /proc and /sys ("" but in tests). Works without /proc. -ENODATA.
 */
int weir__avail_ram(const char *root, uint64_t *ret_free, uint64_t *ret_total);

/* Address space left under RLIMIT_AS; UINT64_MAX without one. */
uint64_t weir__avail_space(void);

#endif
