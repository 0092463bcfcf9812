/* SPDX-License-Identifier: MIT */
/* Host memory for backends, as struct weir_backend_host describes it. */
#ifndef WEIR__HOST_H
#define WEIR__HOST_H

#include <weir/backend.h>

int weir__host_alloc(struct weir *weir, enum weir_mem kind, size_t bytes,
		     int32_t node, uint32_t flags,
		     struct weir_backend_mem *mem);
void weir__host_free(struct weir *weir, struct weir_backend_mem *mem);
void weir__host_leak(struct weir *weir, struct weir_backend_mem *mem);
void weir__host_hide(struct weir_backend_mem *mem, bool hidden);
int weir__host_reserve(struct weir *weir, size_t bytes);
void weir__host_unreserve(struct weir *weir, size_t bytes);
int weir__host_available(uint64_t *ret_free, uint64_t *ret_total);
int weir__host_nodes(enum weir_mem kind, int32_t node, uint64_t *ret_free,
		     uint64_t *ret_total);
#endif
