/* SPDX-License-Identifier: MIT */
/*
 * For the tests of the stand-in: the calls of the driver that they use, found
 * by cuGetProcAddress as our module finds them, and the control interface.
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
	X(cuThreadExchangeStreamCaptureMode)

#define CONTROL_CALLS(X) \
	X(fakecuda_arm) X(fakecuda_disarm) X(fakecuda_release) \
	X(fakecuda_set) X(fakecuda_calls) X(fakecuda_counts) \
	X(fakecuda_misuse) X(fakecuda_at) X(fakecuda_map) X(fakecuda_unmap)
/* clang-format on */

/*
 * cu.cuMemAlloc(&ptr, n) is a call. The header's macros turn the name into the
 * newest form's, here and where it is used.
 */
#define CU_MEMBER(name) __typeof__(&name) name;
struct cu {
	CU_CALLS(CU_MEMBER)
	CONTROL_CALLS(CU_MEMBER)
	void *library;
};
#undef CU_MEMBER

extern struct cu cu;

/* Opens the stand-in of this build; bails out where that cannot be. */
void cu_open(void);

/* ... and makes the primary context of device 0 current. */
CUcontext cu_start(void);

/* A fresh stream; fresh device and page-locked memory. They bail out. */
CUstream cu_stream(void);
CUdeviceptr cu_device(size_t bytes);
void *cu_pinned(size_t bytes);

/* What the stand-in counts. */
struct fakecuda_counts cu_counts(void);

/* Milliseconds on a clock that only goes forward. */
double cu_ms(void);

#endif
