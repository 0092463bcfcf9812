/* SPDX-License-Identifier: MIT */
/* What the files about memory of a GPU share. */
#ifndef WEIR__CUDA_MEMORY_H
#define WEIR__CUDA_MEMORY_H

#include "cuda/cuda.h"

/* weir_backend_mem.how: what the memory is, which decides how it is freed. */
enum mem_kind {
	NOTHING,    /* the caller's, and not registered */
	ON_DEVICE,  /* cuMemAlloc */
	VIRTUAL,    /* cuMemMap; mem->handle has the mapped bytes */
	RESERVED,   /* the same, parked: cuMemAddressReserve only */
	REGISTERED, /* the library's, cuMemHostRegister */
	FOREIGN,    /* the caller's, cuMemHostRegister */
	OF_FILE,    /* pages of a file, cuMemHostRegister, and counted */
	DRIVERS,    /* cuMemHostAlloc */
	PAGEABLE    /* the library's, not locked */
};

/* virtual.c. True if the driver has the calls for virtual memory. */
bool weir__cuda_has_virtual(void);
/* Properties of physical memory of @c, for virtual addresses. */
CUmemAllocationProp weir__cuda_memory_prop(const struct weir__cuda *c);
/*
 * Create physical memory and map it to reserved addresses. The mapping keeps
 * it: its handle is released at once. A context is current.
 */
CUresult weir__cuda_map_memory(const struct weir__cuda *c, CUdeviceptr ptr,
			       size_t size);
/* Allocate device memory whose addresses can outlive it. */
int weir__cuda_alloc_virtual(struct weir__cuda *c, size_t bytes,
			     struct weir_backend_mem *mem);
/*
 * Unmap the memory if it is mapped, and free the addresses. Returns true if it
 * is freed.
 */
bool weir__cuda_free_virtual(struct weir__cuda *c,
			     struct weir_backend_mem *mem);
/* park and unpark of the table. */
int weir__cuda_park(struct weir_dev *dev, const struct weir_backend_buft *desc,
		    size_t bytes, struct weir_backend_mem *mem);
int weir__cuda_unpark(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      struct weir_backend_mem *mem);

#endif
