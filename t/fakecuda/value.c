/* SPDX-License-Identifier: MIT */
/*
 * Operations other than copies: fills, waits for values, writes of values, host
 * functions.
 */
#include "copy.h"
#include "kernel.h"

#define LOOK_EVERY 20000u /* ns */

static uint64_t value_of(const struct fc_op *op)
{
	if (op->wide)
		return __atomic_load_n((uint64_t *)op->addr, __ATOMIC_ACQUIRE);
	return __atomic_load_n((uint32_t *)op->addr, __ATOMIC_ACQUIRE);
}

static bool reached(const struct fc_op *op)
{
	uint64_t now = value_of(op);
	uint64_t mask = op->wide ? UINT64_MAX : UINT32_MAX;

	switch (op->flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return op->wide ? (int64_t)(now - op->value) >= 0
				: (int32_t)(uint32_t)(now - op->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return now == op->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & op->value) != 0;
	default:
		return (~(now | op->value) & mask) != 0;
	}
}

/* Changes of memory cannot be waited for, so it is polled. */
void fc_run_wait_value(struct fc_op *op)
{
	while (!reached(op) && !fc_op_dropped(op)) {
		pthread_mutex_unlock(&fc.lock);
		fc_sleep_until(fc_now() + LOOK_EVERY);
		pthread_mutex_lock(&fc.lock);
	}
	op->stream->time = fc_now();
}

void fc_run_write_value(struct fc_op *op)
{
	if (op->wide)
		__atomic_store_n((uint64_t *)op->addr, op->value,
				 __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint32_t *)op->addr, (uint32_t)op->value,
				 __ATOMIC_RELEASE);
	op->stream->time = fc_now();
}

static CUresult queue_value(struct fc_call *call, CUstream handle,
			    CUdeviceptr addr, struct fc_op *op)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	size_t size = op->wide ? 8 : 4;
	struct fc_side side;
	CUresult result = CUDA_SUCCESS;

	if (fc_no("waitvalue"))
		result = CUDA_ERROR_NOT_SUPPORTED;
	else if (!stream)
		result = CUDA_ERROR_INVALID_HANDLE;
	else if (addr % size)
		result = fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				  "%#llx is not aligned", addr);
	else
		result = fc_place(call, (void *)(uintptr_t)addr, size, 1, 0,
				  &side);
	if (result == CUDA_SUCCESS && side.memory == FC_UNKNOWN)
		result = fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				  "%#llx is pageable", addr);
	if (result != CUDA_SUCCESS) {
		fc_op_free(op);
		return result;
	}
	op->addr = (void *)(uintptr_t)side.at;
	fc_note(call, "stream %llu %#llx ", (unsigned long long)stream->id,
		addr);
	fc_queue(call, stream, op);
	return CUDA_SUCCESS;
}

static CUresult value(struct fc_call *call, enum fc_what what, CUstream stream,
		      CUdeviceptr addr, uint64_t number, unsigned flags,
		      bool wide)
{
	struct fc_op *op = fc_op_new(what, 0);

	op->value = number;
	op->flags = flags;
	op->wide = wide;
	return queue_value(call, stream, addr, op);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr,
				cuuint32_t number, unsigned int flags)
{
	FC_ENTER("cuStreamWaitValue32", FC_CTX | FC_QUEUE);
	return fc_leave(&call, value(&call, FC_WAIT_VALUE, stream, addr, number,
				     flags, false));
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr,
				cuuint64_t number, unsigned int flags)
{
	FC_ENTER("cuStreamWaitValue64", FC_CTX | FC_QUEUE);
	return fc_leave(&call, value(&call, FC_WAIT_VALUE, stream, addr, number,
				     flags, true));
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr,
				 cuuint32_t number, unsigned int flags)
{
	FC_ENTER("cuStreamWriteValue32", FC_CTX | FC_QUEUE);
	return fc_leave(&call, value(&call, FC_WRITE_VALUE, stream, addr,
				     number, flags, false));
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr,
				 cuuint64_t number, unsigned int flags)
{
	FC_ENTER("cuStreamWriteValue64", FC_CTX | FC_QUEUE);
	return fc_leave(&call, value(&call, FC_WRITE_VALUE, stream, addr,
				     number, flags, true));
}

static CUresult host_fn(struct fc_call *call, CUstream handle, CUhostFn fn,
			void *arg)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	struct fc_op *op;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!fn)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "no function");
	op = fc_op_new(FC_HOST_FN, 0);
	op->fn = fn;
	op->arg = arg;
	fc_queue(call, stream, op);
	return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
	FC_ENTER("cuLaunchHostFunc", FC_CTX | FC_QUEUE);
	return fc_leave(&call, host_fn(&call, stream, fn, arg));
}

CUresult fc_fill(struct fc_call *call, CUdeviceptr dst, size_t pitch,
		 unsigned char byte, size_t width, size_t height,
		 CUstream handle)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	struct fc_side side;
	struct fc_op *op;
	CUresult result;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!width || !height)
		return CUDA_SUCCESS;
	result = fc_place_written(call, (void *)(uintptr_t)dst, width, height,
				  pitch, &side);
	if (result != CUDA_SUCCESS)
		return result;
	if (side.memory == FC_UNKNOWN)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%#llx is pageable", dst);
	op = fc_op_new(FC_FILL, 1);
	op->moves->dst = (char *)(uintptr_t)side.at;
	op->moves->width = width;
	op->moves->height = height;
	op->moves->dst_pitch = pitch;
	op->fill = byte;
	fc_note(call, "stream %llu %#llx %zu ", (unsigned long long)stream->id,
		dst, width);
	fc_queue(call, stream, op);
	return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char byte, size_t bytes,
			 CUstream stream)
{
	FC_ENTER("cuMemsetD8Async", FC_CTX | FC_QUEUE);
	return fc_leave(&call,
			fc_fill(&call, dst, bytes, byte, bytes, 1, stream));
}

/* Asynchronous for device memory, as with a real driver. */
CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char byte, size_t bytes)
{
	FC_ENTER("cuMemsetD8", FC_CTX | FC_QUEUE);
	return fc_leave(&call,
			fc_fill(&call, dst, bytes, byte, bytes, 1, NULL));
}

CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char byte,
			   size_t width, size_t height, CUstream stream)
{
	FC_ENTER("cuMemsetD2D8Async", FC_CTX | FC_QUEUE);
	return fc_leave(&call, fc_fill(&call, dst, pitch, byte, width, height,
				       stream));
}
