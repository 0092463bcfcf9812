/* SPDX-License-Identifier: MIT */
/* The names of results, and the driver's texts for them. */
#include "fakecuda.h"

#define WORD(code, text)          \
	{                         \
		code, #code, text \
	}

static const struct word {
	CUresult code;
	const char *name, *text;
} words[] = {
	WORD(CUDA_SUCCESS, "no error"),
	WORD(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
	WORD(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
	WORD(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
	WORD(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
	WORD(CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library"),
	WORD(CUDA_ERROR_DEVICE_UNAVAILABLE,
	     "CUDA-capable device(s) is/are busy or unavailable"),
	WORD(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
	WORD(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
	WORD(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"),
	WORD(CUDA_ERROR_NO_BINARY_FOR_GPU,
	     "no kernel image is available for execution on the device"),
	WORD(CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed"),
	WORD(CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
	     "the provided PTX was compiled with an unsupported toolchain."),
	WORD(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
	WORD(CUDA_ERROR_ECC_UNCORRECTABLE,
	     "uncorrectable ECC error encountered"),
	WORD(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
	     "peer access is not supported between these two devices"),
	WORD(CUDA_ERROR_NVLINK_UNCORRECTABLE,
	     "uncorrectable NVLink error detected during the execution"),
	WORD(CUDA_ERROR_OPERATING_SYSTEM,
	     "OS call failed or operation not supported on this OS"),
	WORD(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
	WORD(CUDA_ERROR_ILLEGAL_STATE,
	     "the operation cannot be performed in the present state"),
	WORD(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
	WORD(CUDA_ERROR_NOT_READY, "device not ready"),
	WORD(CUDA_ERROR_ILLEGAL_ADDRESS,
	     "an illegal memory access was encountered"),
	WORD(CUDA_ERROR_LAUNCH_TIMEOUT,
	     "the launch timed out and was terminated"),
	WORD(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
	     "peer access is already enabled"),
	WORD(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
	     "peer access has not been enabled"),
	WORD(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
	     "cannot set while device is active in this process"),
	WORD(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
	WORD(CUDA_ERROR_ASSERT, "device-side assert triggered"),
	WORD(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
	     "part or all of the requested memory range is already mapped"),
	WORD(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
	     "pointer does not correspond to a registered memory region"),
	WORD(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
	WORD(CUDA_ERROR_ILLEGAL_INSTRUCTION,
	     "an illegal instruction was encountered"),
	WORD(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
	WORD(CUDA_ERROR_INVALID_ADDRESS_SPACE,
	     "operation not supported on global/shared address space"),
	WORD(CUDA_ERROR_INVALID_PC, "invalid program counter"),
	WORD(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"),
	WORD(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
	WORD(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
	WORD(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
	WORD(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH,
	     "system has unsupported display driver / cuda driver "
	     "combination"),
	WORD(CUDA_ERROR_CONTAINED,
	     "Invalid access of peer GPU memory over nvlink or a hardware "
	     "error"),
	WORD(CUDA_ERROR_TENSOR_MEMORY_LEAK, "tensor memory leak"),
	WORD(CUDA_ERROR_MPS_CLIENT_TERMINATED,
	     "MPS client has been terminated by the server"),
	WORD(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	     "operation not permitted when stream is capturing"),
	WORD(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
	     "operation failed due to a previous error during capture"),
	WORD(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
	     "dependency created on uncaptured work in another stream"),
	WORD(CUDA_ERROR_CAPTURED_EVENT,
	     "operation not permitted on an event last recorded in a "
	     "capturing stream"),
	WORD(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
	     "attempt to terminate a thread-local capture sequence from "
	     "another thread"),
	WORD(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
	     "the graph update was not performed because it included changes "
	     "which violated constraints specific to instantiated graph update"),
	WORD(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static const struct word *find(CUresult code)
{
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].code == code)
			return &words[i];
	}
	return NULL;
}

/* These two work at any time, also in a child of fork and after the end. */
CUresult cuGetErrorName(CUresult code, const char **ret)
{
	const struct word *word = find(code);

	*ret = word ? word->name : NULL;
	return word ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **ret)
{
	const struct word *word = find(code);

	*ret = word ? word->text : NULL;
	return word ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
