/* SPDX-License-Identifier: MIT */
/* The table of functions that the library offers its backends. */
#ifndef WEIR__HOST_H
#define WEIR__HOST_H

#include <weir/backend.h>

extern const struct weir_backend_host weir__host;

/*
 * Host memory, as the table describes it. lib/alloc/host.c implements these:
 * lib/dev only puts them into the table, since it may not include lib/alloc.
 */
int weir__host_alloc(struct weir *weir, enum weir_mem kind, size_t bytes,
		     int32_t node, uint32_t flags,
		     struct weir_backend_mem *mem);
void weir__host_free(struct weir *weir, struct weir_backend_mem *mem);
void weir__host_leak(struct weir *weir, struct weir_backend_mem *mem);
void weir__host_hide(struct weir_backend_mem *mem, bool hidden);
int weir__host_claim(struct weir *weir, size_t bytes);
void weir__host_unclaim(struct weir *weir, size_t bytes);
int weir__host_available(uint64_t *ret_free, uint64_t *ret_total);
int weir__host_nodes(enum weir_mem kind, int32_t node, uint64_t *ret_free,
		     uint64_t *ret_total);
/* The same for lib/mem/convert.c. */
const struct weir_backend_convert *weir__convert_find(uint32_t from,
						      uint32_t to);
/* The same for lib/mem/dtype.c. NULL: not a dtype. The result is constant. */
const struct weir_dtype_info *weir__dtype(uint32_t dtype);
/* The same for lib/mem/quants.c. */
const uint16_t *weir__dtype_grid(uint32_t dtype);

#endif
