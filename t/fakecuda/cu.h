/* SPDX-License-Identifier: MIT */
/*
 * Calls of the driver that the tests of the stand-in use, looked up with
 * cuGetProcAddress as weir's module does, and the control interface.
 */
#ifndef FAKECUDA_CU_H
#define FAKECUDA_CU_H

#include <cuda.h>

#include "control.h"

/* clang-format off */
#define CU_CALLS(X) \
	X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) \
	X(cuGetErrorString) X(cuDeviceGet) X(cuDeviceGetCount) \
	X(cuDeviceGetName) X(cuDeviceGetUuid) X(cuDeviceTotalMem) \
	X(cuDeviceGetPCIBusId) X(cuDeviceGetAttribute) \
	X(cuDeviceCanAccessPeer) X(cuDevicePrimaryCtxRetain) \
	X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) \
	X(cuDevicePrimaryCtxGetState) X(cuCtxCreate) X(cuCtxDestroy) \
	X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxSetCurrent) \
	X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxSynchronize) \
	X(cuCtxEnablePeerAccess) X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo) \
	X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostRegister) \
	X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) \
	X(cuPointerGetAttribute) X(cuPointerGetAttributes) \
	X(cuMemGetAddressRange) X(cuMemcpyHtoD) X(cuMemcpyDtoH) \
	X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) \
	X(cuMemcpyPeerAsync) X(cuMemcpy2DAsync) X(cuMemcpyBatchAsync) \
	X(cuMemsetD8) X(cuMemsetD8Async) X(cuMemsetD2D8Async) \
	X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamQuery) \
	X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamWaitValue32) \
	X(cuStreamWriteValue32) X(cuLaunchHostFunc) X(cuEventCreate) \
	X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) \
	X(cuEventSynchronize) X(cuEventElapsedTime) X(cuStreamIsCapturing) \
	X(cuStreamBeginCapture) X(cuStreamEndCapture) \
	X(cuThreadExchangeStreamCaptureMode) X(cuMemCreate) X(cuMemRelease) \
	X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemMap) X(cuMemUnmap) \
	X(cuMemSetAccess) X(cuMemRetainAllocationHandle) \
	X(cuMemExportToShareableHandle) X(cuMemImportFromShareableHandle) \
	X(cuMemGetAllocationPropertiesFromHandle) X(cuModuleLoadData) \
	X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) \
	X(cuModuleGetGlobal) X(cuLibraryLoadData) X(cuLibraryUnload) \
	X(cuLibraryGetKernel) X(cuKernelGetFunction) X(cuFuncGetAttribute) \
	X(cuFuncSetAttribute) X(cuLaunchKernel) X(cuLaunchKernelEx) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuGraphCreate) \
	X(cuGraphDestroy) X(cuGraphAddKernelNode) X(cuGraphAddMemcpyNode) \
	X(cuGraphAddMemsetNode) X(cuGraphAddEmptyNode) \
	X(cuGraphAddChildGraphNode) X(cuGraphInstantiate) \
	X(cuGraphExecDestroy) X(cuGraphExecUpdate) \
	X(cuGraphExecKernelNodeSetParams) X(cuGraphLaunch)

#define CONTROL_CALLS(X) \
	X(fakecuda_arm) X(fakecuda_disarm) X(fakecuda_struck) \
	X(fakecuda_release) X(fakecuda_set) X(fakecuda_calls) X(fakecuda_counts) \
	X(fakecuda_finding) X(fakecuda_kernel) X(fakecuda_watch) X(fakecuda_misuse) X(fakecuda_at) X(fakecuda_map) X(fakecuda_unmap)
/* clang-format on */

/*
 * cu.cuMemAlloc(&ptr, n) is a call. The macros of cuda.h turn the name into
 * that of the newest form, both here and where it is used.
 */
#define CU_MEMBER(name) __typeof__(&name) name;
struct cu {
	CU_CALLS(CU_MEMBER)
	CONTROL_CALLS(CU_MEMBER)
	void *library;
};
#undef CU_MEMBER

extern struct cu cu;

/* Open the stand-in of this build, or bail out. */
void cu_open(void);

/* Open it and make the primary context of device 0 current. */
CUcontext cu_start(void);

/* A new stream; new device and page-locked memory. They bail out. */
CUstream cu_stream(void);
CUdeviceptr cu_device(size_t bytes);
void *cu_pinned(size_t bytes);

/*
 * The text of ptx/NAME, or NULL; a module of it; a copy of @bytes in device
 * memory; a launch of one dimension. They bail out, except for a launch.
 */
char *cu_ptx(const char *name);
CUmodule cu_load(const char *name);
CUdeviceptr cu_upload(const void *bytes, size_t n);
int cu_launch(CUmodule module, const char *name, unsigned grid, unsigned block,
	      unsigned shared, void **params);

/* The stand-in's counts now. */
struct fakecuda_counts cu_counts(void);

/* Milliseconds of a monotonic clock. */
double cu_ms(void);

#endif
