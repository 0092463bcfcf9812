/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver: libcuda.so.1, opened at run time, as one table filled from
 * one list. The only header that includes <cuda.h>.
 *
 * Each entry has the CUDA version whose signature is called. cuGetProcAddress
 * is called with that version, so a newer driver returns the same function.
 */
#ifndef WEIR__CUDA_DRIVER_H
#define WEIR__CUDA_DRIVER_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_backend_host;

/* Entries without which the backend is refused. */
#define WEIR__CUDA_REQUIRED(X)              \
	X(cuInit, 2000)                     \
	X(cuDriverGetVersion, 2020)         \
	X(cuGetErrorName, 6000)             \
	X(cuGetErrorString, 6000)           \
	X(cuDeviceGetCount, 2000)           \
	X(cuDeviceGet, 2000)                \
	X(cuDeviceGetName, 2000)            \
	X(cuDeviceGetAttribute, 2000)       \
	X(cuDeviceTotalMem, 3020)           \
	X(cuDeviceGetPCIBusId, 4010)        \
	X(cuDevicePrimaryCtxRetain, 7000)   \
	X(cuDevicePrimaryCtxRelease, 11000) \
	X(cuCtxPushCurrent, 4000)           \
	X(cuCtxPopCurrent, 4000)            \
	X(cuMemAlloc, 3020)                 \
	X(cuMemFree, 3020)                  \
	X(cuMemHostAlloc, 2020)             \
	X(cuMemFreeHost, 2000)              \
	X(cuPointerGetAttribute, 4000)      \
	X(cuMemcpyHtoDAsync, 3020)          \
	X(cuMemcpyDtoHAsync, 3020)          \
	X(cuMemcpyDtoDAsync, 3020)          \
	X(cuMemcpyPeerAsync, 4000)          \
	X(cuMemcpy2DAsync, 3020)            \
	X(cuMemcpy3DPeerAsync, 4000)        \
	X(cuMemsetD8Async, 3020)            \
	X(cuMemsetD2D8Async, 3020)          \
	X(cuModuleLoadDataEx, 2010)         \
	X(cuModuleUnload, 2000)             \
	X(cuModuleGetFunction, 2000)        \
	X(cuFuncSetAttribute, 9000)         \
	X(cuLaunchKernel, 4000)             \
	X(cuStreamCreate, 2000)             \
	X(cuStreamDestroy, 4000)            \
	X(cuStreamQuery, 2000)              \
	X(cuStreamSynchronize, 2000)        \
	X(cuStreamWaitEvent, 3020)          \
	X(cuLaunchHostFunc, 10000)          \
	X(cuEventCreate, 2000)              \
	X(cuEventDestroy, 4000)             \
	X(cuEventRecord, 2000)              \
	X(cuEventQuery, 2000)               \
	X(cuEventSynchronize, 2000)

/* Entries that a driver may lack: NULL in the table, and an ability is off. */
#define WEIR__CUDA_OPTIONAL(X)                           \
	X(cuDeviceCanAccessPeer, 4000)                   \
	X(cuDeviceGetUuid, 11040)                        \
	X(cuCtxEnablePeerAccess, 4000)                   \
	X(cuMemHostRegister, 6050)                       \
	X(cuMemHostUnregister, 4000)                     \
	X(cuMemGetAddressRange, 3020)                    \
	X(cuMemGetInfo, 3020)                            \
	X(cuMemGetAllocationGranularity, 10020)          \
	X(cuMemAddressReserve, 10020)                    \
	X(cuMemAddressFree, 10020)                       \
	X(cuMemCreate, 10020)                            \
	X(cuMemRelease, 10020)                           \
	X(cuMemMap, 10020)                               \
	X(cuMemUnmap, 10020)                             \
	X(cuMemSetAccess, 10020)                         \
	X(cuMemRetainAllocationHandle, 11000)            \
	X(cuMemExportToShareableHandle, 10020)           \
	X(cuMemImportFromShareableHandle, 10020)         \
	X(cuMemGetAllocationPropertiesFromHandle, 10020) \
	X(cuStreamIsCapturing, 10000)                    \
	X(cuThreadExchangeStreamCaptureMode, 10010)      \
	X(cuFuncLoad, 12040)                             \
	X(cuGraphCreate, 10000)                          \
	X(cuGraphDestroy, 10000)                         \
	X(cuGraphAddKernelNode, 12000)                   \
	X(cuGraphAddMemcpyNode, 10000)                   \
	X(cuGraphAddMemsetNode, 10000)                   \
	X(cuGraphInstantiateWithFlags, 11040)            \
	X(cuGraphUpload, 11010)                          \
	X(cuGraphExecDestroy, 10000)                     \
	X(cuGraphLaunch, 10000)

/*
 * cuMemcpyBatchAsync of CUDA 12.8. The header declares the one of 13.0, which
 * has no argument for the copy that failed; a driver of 13.0 has both.
 */
typedef CUresult weir__cuda_batch_fn(CUdeviceptr *dsts, CUdeviceptr *srcs,
				     size_t *sizes, size_t count,
				     CUmemcpyAttributes *attrs, size_t *firsts,
				     size_t n_attrs, size_t *ret_failed,
				     CUstream stream);

#define WEIR__CUDA_MEMBER(name, version) __typeof__(name) *name;

struct weir__cuda_driver {
	int version;                     /* the driver's: 12080 is CUDA 12.8 */
					 /* clang-format off */
	WEIR__CUDA_REQUIRED(WEIR__CUDA_MEMBER)
	WEIR__CUDA_OPTIONAL(WEIR__CUDA_MEMBER)
					 /* clang-format on */
	weir__cuda_batch_fn *copy_batch; /* optional */
};

/* Filled by weir__cuda_driver_open, and constant from then on. */
extern struct weir__cuda_driver weir__cuda_drv;

/*
 * Open the driver, once for the process; it is never closed. -ENODEV: there is
 * no driver. -ENOSYS: it lacks a required entry; the sentence names the entry
 * and its version.
 */
int weir__cuda_driver_open(const struct weir_backend_host *host);

/* The one place where a driver's result becomes an errno; 0: success. */
int weir__cuda_errno(CUresult result);
/* True if @result means that nothing of the context works any more. */
bool weir__cuda_is_fatal(CUresult result);
/*
 * True if the call was refused because a stream is being captured into a graph.
 */
bool weir__cuda_is_capture(CUresult result);
/* The driver's text for a result: "CUDA_ERROR_OUT_OF_MEMORY: out of memory". */
void weir__cuda_describe_result(int32_t result, char *text, size_t room);

#endif
