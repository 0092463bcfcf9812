/* SPDX-License-Identifier: MIT */
/*
 * The entry points by name and version, and cuGetProcAddress, which looks them
 * up. Each line: the base name, the first CUDA version whose header declares
 * the function in this form, the function.
 */
#include <string.h>

#include "fakecuda.h"

#define ENTRY(name, version, symbol)             \
	{                                        \
#name, version, (void *)(symbol) \
	}

static const struct entry {
	const char *name;
	int version;
	void *function;
} entries[] = {
	ENTRY(cuInit, 2000, cuInit),
	ENTRY(cuDriverGetVersion, 2020, cuDriverGetVersion),
	ENTRY(cuGetErrorName, 6000, cuGetErrorName),
	ENTRY(cuGetErrorString, 6000, cuGetErrorString),
	ENTRY(cuGetProcAddress, 11030, cuGetProcAddress),
	ENTRY(cuGetProcAddress, 12000, cuGetProcAddress_v2),

	ENTRY(cuDeviceGet, 2000, cuDeviceGet),
	ENTRY(cuDeviceGetCount, 2000, cuDeviceGetCount),
	ENTRY(cuDeviceGetName, 2000, cuDeviceGetName),
	ENTRY(cuDeviceGetUuid, 9020, cuDeviceGetUuid),
	ENTRY(cuDeviceGetUuid, 11040, cuDeviceGetUuid_v2),
	ENTRY(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2),
	ENTRY(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId),
	ENTRY(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute),
	ENTRY(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer),

	ENTRY(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain),
	ENTRY(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2),
	ENTRY(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2),
	ENTRY(cuDevicePrimaryCtxGetState, 7000, cuDevicePrimaryCtxGetState),
	ENTRY(cuDevicePrimaryCtxSetFlags, 11000, cuDevicePrimaryCtxSetFlags_v2),
	ENTRY(cuCtxCreate, 3020, cuCtxCreate_v2),
	ENTRY(cuCtxCreate, 12050, cuCtxCreate_v4),
	ENTRY(cuCtxDestroy, 4000, cuCtxDestroy_v2),
	ENTRY(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2),
	ENTRY(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2),
	ENTRY(cuCtxSetCurrent, 4000, cuCtxSetCurrent),
	ENTRY(cuCtxGetCurrent, 4000, cuCtxGetCurrent),
	ENTRY(cuCtxGetDevice, 2000, cuCtxGetDevice),
	ENTRY(cuCtxGetFlags, 7000, cuCtxGetFlags),
	ENTRY(cuCtxGetStreamPriorityRange, 5050, cuCtxGetStreamPriorityRange),
	ENTRY(cuCtxSynchronize, 2000, cuCtxSynchronize),
	ENTRY(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess),
	ENTRY(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess),

	ENTRY(cuMemAlloc, 3020, cuMemAlloc_v2),
	ENTRY(cuMemFree, 3020, cuMemFree_v2),
	ENTRY(cuMemGetInfo, 3020, cuMemGetInfo_v2),
	ENTRY(cuMemGetAddressRange, 3020, cuMemGetAddressRange_v2),
	ENTRY(cuMemGetAllocationGranularity, 10020,
	      cuMemGetAllocationGranularity),
	ENTRY(cuMemAddressReserve, 10020, cuMemAddressReserve),
	ENTRY(cuMemAddressFree, 10020, cuMemAddressFree),
	ENTRY(cuMemCreate, 10020, cuMemCreate),
	ENTRY(cuMemRelease, 10020, cuMemRelease),
	ENTRY(cuMemMap, 10020, cuMemMap),
	ENTRY(cuMemUnmap, 10020, cuMemUnmap),
	ENTRY(cuMemSetAccess, 10020, cuMemSetAccess),
	ENTRY(cuMemRetainAllocationHandle, 11000, cuMemRetainAllocationHandle),
	ENTRY(cuMemExportToShareableHandle, 10020,
	      cuMemExportToShareableHandle),
	ENTRY(cuMemImportFromShareableHandle, 10020,
	      cuMemImportFromShareableHandle),
	ENTRY(cuMemGetAllocationPropertiesFromHandle, 10020,
	      cuMemGetAllocationPropertiesFromHandle),
	ENTRY(cuMemHostAlloc, 2020, cuMemHostAlloc),
	ENTRY(cuMemAllocHost, 3020, cuMemAllocHost_v2),
	ENTRY(cuMemFreeHost, 2000, cuMemFreeHost),
	ENTRY(cuMemHostRegister, 6050, cuMemHostRegister_v2),
	ENTRY(cuMemHostUnregister, 4000, cuMemHostUnregister),
	ENTRY(cuMemHostGetDevicePointer, 3020, cuMemHostGetDevicePointer_v2),
	ENTRY(cuMemHostGetFlags, 2030, cuMemHostGetFlags),
	ENTRY(cuPointerGetAttribute, 4000, cuPointerGetAttribute),
	ENTRY(cuPointerGetAttributes, 7000, cuPointerGetAttributes),

	ENTRY(cuMemcpy, 4000, cuMemcpy),
	ENTRY(cuMemcpyAsync, 4000, cuMemcpyAsync),
	ENTRY(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2),
	ENTRY(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2),
	ENTRY(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2),
	ENTRY(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2),
	ENTRY(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2),
	ENTRY(cuMemcpyDtoDAsync, 3020, cuMemcpyDtoDAsync_v2),
	ENTRY(cuMemcpyPeerAsync, 4000, cuMemcpyPeerAsync),
	ENTRY(cuMemcpy3DPeerAsync, 4000, cuMemcpy3DPeerAsync),
	ENTRY(cuMemcpy2DAsync, 3020, cuMemcpy2DAsync_v2),
	ENTRY(cuMemcpyBatchAsync, 12080, cuMemcpyBatchAsync),
	ENTRY(cuMemcpyBatchAsync, 13000, cuMemcpyBatchAsync_v2),
	ENTRY(cuMemsetD8, 3020, cuMemsetD8_v2),
	ENTRY(cuMemsetD8Async, 3020, cuMemsetD8Async),
	ENTRY(cuMemsetD2D8Async, 3020, cuMemsetD2D8Async),

	ENTRY(cuStreamCreate, 2000, cuStreamCreate),
	ENTRY(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority),
	ENTRY(cuStreamDestroy, 4000, cuStreamDestroy_v2),
	ENTRY(cuStreamQuery, 2000, cuStreamQuery),
	ENTRY(cuStreamSynchronize, 2000, cuStreamSynchronize),
	ENTRY(cuStreamGetCtx, 9020, cuStreamGetCtx),
	ENTRY(cuStreamGetFlags, 5050, cuStreamGetFlags),
	ENTRY(cuStreamGetPriority, 5050, cuStreamGetPriority),
	ENTRY(cuStreamGetId, 12000, cuStreamGetId),
	ENTRY(cuStreamIsCapturing, 10000, cuStreamIsCapturing),
	ENTRY(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2),
	ENTRY(cuStreamEndCapture, 10000, cuStreamEndCapture),
	ENTRY(cuThreadExchangeStreamCaptureMode, 10010,
	      cuThreadExchangeStreamCaptureMode),
	ENTRY(cuStreamWaitEvent, 3020, cuStreamWaitEvent),
	ENTRY(cuStreamWaitValue32, 11070, cuStreamWaitValue32_v2),
	ENTRY(cuStreamWaitValue64, 11070, cuStreamWaitValue64_v2),
	ENTRY(cuStreamWriteValue32, 11070, cuStreamWriteValue32_v2),
	ENTRY(cuStreamWriteValue64, 11070, cuStreamWriteValue64_v2),
	ENTRY(cuLaunchHostFunc, 10000, cuLaunchHostFunc),

	ENTRY(cuModuleLoadData, 2000, cuModuleLoadData),
	ENTRY(cuModuleLoadDataEx, 2010, cuModuleLoadDataEx),
	ENTRY(cuModuleUnload, 2000, cuModuleUnload),
	ENTRY(cuModuleGetFunction, 2000, cuModuleGetFunction),
	ENTRY(cuModuleGetFunctionCount, 12040, cuModuleGetFunctionCount),
	ENTRY(cuModuleGetGlobal, 3020, cuModuleGetGlobal_v2),
	ENTRY(cuLibraryLoadData, 12000, cuLibraryLoadData),
	ENTRY(cuLibraryUnload, 12000, cuLibraryUnload),
	ENTRY(cuLibraryGetKernel, 12000, cuLibraryGetKernel),
	ENTRY(cuLibraryGetModule, 12000, cuLibraryGetModule),
	ENTRY(cuKernelGetFunction, 12000, cuKernelGetFunction),
	ENTRY(cuFuncGetAttribute, 2020, cuFuncGetAttribute),
	ENTRY(cuFuncSetAttribute, 9000, cuFuncSetAttribute),
	ENTRY(cuFuncGetParamInfo, 12040, cuFuncGetParamInfo),
	ENTRY(cuFuncLoad, 12040, cuFuncLoad),
	ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,
	      cuOccupancyMaxActiveBlocksPerMultiprocessor),
	ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000,
	      cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags),
	ENTRY(cuLaunchKernel, 4000, cuLaunchKernel),
	ENTRY(cuLaunchKernelEx, 11060, cuLaunchKernelEx),

	ENTRY(cuGraphCreate, 10000, cuGraphCreate),
	ENTRY(cuGraphDestroy, 10000, cuGraphDestroy),
	ENTRY(cuGraphAddKernelNode, 12000, cuGraphAddKernelNode_v2),
	ENTRY(cuGraphAddMemcpyNode, 10000, cuGraphAddMemcpyNode),
	ENTRY(cuGraphAddMemsetNode, 10000, cuGraphAddMemsetNode),
	ENTRY(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode),
	ENTRY(cuGraphAddChildGraphNode, 10000, cuGraphAddChildGraphNode),
	ENTRY(cuGraphNodeGetType, 10000, cuGraphNodeGetType),
	ENTRY(cuGraphKernelNodeSetParams, 12000, cuGraphKernelNodeSetParams_v2),
	ENTRY(cuGraphInstantiate, 12000, cuGraphInstantiateWithFlags),
	ENTRY(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags),
	ENTRY(cuGraphExecDestroy, 10000, cuGraphExecDestroy),
	ENTRY(cuGraphExecUpdate, 12000, cuGraphExecUpdate_v2),
	ENTRY(cuGraphExecKernelNodeSetParams, 12000,
	      cuGraphExecKernelNodeSetParams_v2),
	ENTRY(cuGraphExecMemcpyNodeSetParams, 10020,
	      cuGraphExecMemcpyNodeSetParams),
	ENTRY(cuGraphExecMemsetNodeSetParams, 10020,
	      cuGraphExecMemsetNodeSetParams),
	ENTRY(cuGraphUpload, 11010, cuGraphUpload),
	ENTRY(cuGraphLaunch, 10000, cuGraphLaunch),

	ENTRY(cuEventCreate, 2000, cuEventCreate),
	ENTRY(cuEventDestroy, 4000, cuEventDestroy_v2),
	ENTRY(cuEventRecord, 2000, cuEventRecord),
	ENTRY(cuEventRecordWithFlags, 11010, cuEventRecordWithFlags),
	ENTRY(cuEventQuery, 2000, cuEventQuery),
	ENTRY(cuEventSynchronize, 2000, cuEventSynchronize),
	ENTRY(cuEventElapsedTime, 2000, cuEventElapsedTime),
	ENTRY(cuEventElapsedTime, 12080, cuEventElapsedTime_v2),
};

/* True if the entry is switched off by its own name or with its ability. */
static bool absent(const char *name)
{
	return fc_no(name) ||
	       (!strcmp(name, "cuMemcpyBatchAsync") && fc_no("batch")) ||
	       (!strcmp(name, "cuMemAddressReserve") && fc_no("virtual"));
}

/* The newest form that the versions of both the program and the driver have. */
static CUresult find(struct fc_call *call, const char *name, int version,
		     void **ret, CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult s = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	size_t i;

	*ret = NULL;
	if (version > (int)fc.opt.version)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (strcmp(entries[i].name, name) || absent(name) ||
		    entries[i].version > (int)fc.opt.version)
			continue;
		if (entries[i].version <= version)
			*ret = entries[i].function;
		s = *ret ? CU_GET_PROC_ADDRESS_SUCCESS
			 : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	}
	if (status)
		*status = s;
	fc_note(call, "%s %d ", name, version);
	return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *name, void **ret, int version,
			     cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	FC_ENTER("cuGetProcAddress", FC_BARE);
	/* The forms for per-thread streams are other functions. */
	if (!name || !ret || flags & ~(cuuint64_t)1)
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	return fc_leave(&call, find(&call, name, version, ret, status));
}

/* The form of CUDA 11.3: a name that is not found is an error. */
CUresult cuGetProcAddress(const char *name, void **ret, int version,
			  cuuint64_t flags)
{
	CUresult result = cuGetProcAddress_v2(name, ret, version, flags, NULL);

	return result == CUDA_SUCCESS && !*ret ? CUDA_ERROR_NOT_FOUND : result;
}
