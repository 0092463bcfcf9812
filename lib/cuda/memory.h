/* SPDX-License-Identifier: MIT */
/* Functions shared by the files about memory of a GPU. */
#ifndef WEIR__CUDA_MEMORY_H
#define WEIR__CUDA_MEMORY_H

#include "cuda/cuda.h"

/* weir_backend_mem.how: what the memory is, which decides how it is freed. */
enum mem_kind {
	NOTHING,    /* the caller's, and not registered */
	ON_DEVICE,  /* cuMemAlloc */
	VIRTUAL,    /* cuMemMap; mem->handle has the mapped bytes */
	RESERVED,   /* the same, parked: cuMemAddressReserve only */
	GRANULES,   /* cuMemMap, in granules; mem->handle has what is mapped */
	IMPORTED,   /* cuMemMap of a descriptor's; mem->handle has where */
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
 * For the following a context is current. Create physical memory and map it to
 * reserved addresses, without access. The mapping keeps it: its handle is
 * released at once.
 */
CUresult weir__cuda_map_new(const struct weir__cuda *c, CUdeviceptr ptr,
			    size_t size);
/*
 * Let @c, and the devices that can access its memory, use mapped memory: whole
 * mappings, which adjoin.
 */
CUresult weir__cuda_set_access(const struct weir__cuda *c, CUdeviceptr ptr,
			       size_t size);
/* Both, or neither. */
CUresult weir__cuda_map_memory(const struct weir__cuda *c, CUdeviceptr ptr,
			       size_t size);
/*
 * Allocate device memory whose addresses can outlive it; or that other
 * processes can have, which fails with -EOPNOTSUPP if the device or the driver
 * cannot do it.
 */
int weir__cuda_alloc_virtual(struct weir__cuda *c, size_t bytes,
			     struct weir_backend_mem *mem);
int weir__cuda_alloc_shared(struct weir__cuda *c, size_t bytes,
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
/* share and wrap_fd of the table. */
int weir__cuda_share(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     size_t bytes, struct weir_backend_mem *mem, int *ret_fd);
int weir__cuda_wrap_fd(struct weir_dev *dev,
		       const struct weir_backend_buft *desc, int fd,
		       uint64_t off, size_t bytes, bool readonly,
		       struct weir_backend_mem *mem);
/* Free memory of wrap_fd. Returns true if it is freed. */
bool weir__cuda_free_imported(struct weir__cuda *c,
			      struct weir_backend_mem *mem);

/*
 * memory.c. After a driver call that returned @r: " (N of M are free)" if that
 * is CUDA_ERROR_OUT_OF_MEMORY, else "". A context is current.
 */
void weir__cuda_describe_free(struct weir__cuda *c, CUresult r, char *text,
			      size_t room);

/* granules.c: reserve, commit and decommit of the table. */
int weir__cuda_reserve(struct weir_dev *dev,
		       const struct weir_backend_buft *desc, size_t bytes,
		       const struct weir_buf_opts *opts,
		       struct weir_backend_mem *mem, size_t *ret_granule);
int weir__cuda_commit(struct weir_dev *dev,
		      const struct weir_backend_buft *desc,
		      struct weir_backend_mem *mem, size_t off, size_t bytes);
int weir__cuda_decommit(struct weir_dev *dev,
			const struct weir_backend_buft *desc,
			struct weir_backend_mem *mem, size_t off, size_t bytes);
/* Free the addresses and what is committed. Returns true if all is freed. */
bool weir__cuda_free_granules(struct weir__cuda *c,
			      struct weir_backend_mem *mem);

#endif
