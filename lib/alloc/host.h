/* SPDX-License-Identifier: MIT */
/*
 * Host memory for backends, as struct weir_backend_host describes it. The other
 * functions of that table are those of arena.h and
 * addresses.h.
 */
#ifndef WEIR__HOST_H
#define WEIR__HOST_H

#include <weir/backend.h>

int weir__host_alloc(struct weir *weir, enum weir_mem kind, size_t bytes,
		     int32_t node, uint32_t flags,
		     struct weir_backend_mem *mem);
int weir__host_reserve(struct weir *weir, enum weir_mem kind, size_t bytes,
		       int32_t node, uint32_t flags,
		       struct weir_backend_mem *mem, size_t *ret_granule);
int weir__host_available(uint64_t *ret_free, uint64_t *ret_total);
int weir__host_nodes(enum weir_mem kind, int32_t node, uint64_t *ret_free,
		     uint64_t *ret_total);

#endif
