/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes that have memory and no CPUs: which kind of memory they have,
 * WEIR_MEM_HBM or WEIR_MEM_FAR, and how much. Read from sysfs at each call.
 *
 * @root is "" or, in tests, a directory with a /sys and a /proc of their own.
 */
#ifndef WEIR__ALLOC_TOPOLOGY_H
#define WEIR__ALLOC_TOPOLOGY_H

#include <stdint.h>

#include <weir/dev.h>

#include "core/numa.h"

/*
 * The nodes of @kind that this process may use; of these, if @near >= 0, only
 * the nearest to node @near. -EOPNOTSUPP: there are none. -EINVAL: there is no
 * node @near.
 */
int weir__topology_nodes(const char *root, enum weir_mem kind, int32_t near,
			 struct weir__nodes *ret_nodes);
/*
 * Bytes of these nodes that are free or could be (page cache), and all bytes.
 * -ENODATA: the kernel does not say.
 */
int weir__topology_room(const char *root, const struct weir__nodes *nodes,
			uint64_t *ret_free, uint64_t *ret_total);

#endif
