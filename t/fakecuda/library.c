/* SPDX-License-Identifier: MIT */
/*
 * What a library above the driver needs of it, such as the stand-in for
 * cuBLASLt: its calls are counted, logged and armed by their names, and its
 * work is queued on streams, as are kernels.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "kernel.h"

#define SITES_MAX 32u

static struct fc_site *site_of(const char *name, unsigned need)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct fc_site sites[SITES_MAX];
	struct fc_site *found = NULL;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < SITES_MAX && !found; i++) {
		if (!sites[i].name) {
			sites[i].name = name;
			sites[i].need = need;
		}
		if (!strcmp(sites[i].name, name))
			found = &sites[i];
	}
	pthread_mutex_unlock(&lock);
	if (!found)
		abort();
	return found;
}

int fakecuda_library_call(const char *fn)
{
	struct fc_call call;
	CUresult result = fc_enter(&call, site_of(fn, FC_CTX));

	return result ? (int)result : (int)fc_leave(&call, CUDA_SUCCESS);
}

void fakecuda_library_wrong(const char *fn, const char *what)
{
	pthread_mutex_lock(&fc.lock);
	fc.count.misuse++;
	snprintf(fc.misuse, sizeof(fc.misuse), "%s: %s", fn, what);
	pthread_mutex_unlock(&fc.lock);
}

unsigned fakecuda_library_version(void)
{
	unsigned version;

	pthread_mutex_lock(&fc.lock);
	version = fc.opt.cublaslt;
	pthread_mutex_unlock(&fc.lock);
	return version;
}

/* Place the rows that the work reads or writes. */
static CUresult place(struct fc_call *call, const struct fakecuda_rows *rows,
		      struct fc_move *move)
{
	const void *ptr = (const void *)(uintptr_t)rows->ptr;
	struct fc_side side;
	CUresult result;

	result = rows->written ? fc_place_written(call, ptr, rows->width,
						  rows->n, rows->pitch, &side)
			       : fc_place(call, ptr, rows->width, rows->n,
					  rows->pitch, &side);
	if (result != CUDA_SUCCESS)
		return result;
	if (side.memory != FC_DEVICE || side.device != call->ctx->device)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%p is not memory of the device", ptr);
	*move = (struct fc_move){ .dst = (char *)(uintptr_t)side.at,
				  .width = rows->width,
				  .height = rows->n,
				  .dst_pitch = rows->pitch,
				  .src_pitch = rows->written };
	return CUDA_SUCCESS;
}

static CUresult queue(struct fc_call *call, CUstream handle,
		      const struct fakecuda_rows *rows, unsigned n,
		      fakecuda_library_fn *fn, void *arg)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	struct fc_op *op = fc_op_new(FC_LIBRARY_WORK, n);
	CUresult result = stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;

	op->library = fn;
	op->stage = arg;
	for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++)
		result = place(call, &rows[i], &op->moves[i]);
	if (result != CUDA_SUCCESS) {
		fc_op_free(op);
		return result;
	}
	fc_note(call, "stream %llu ", (unsigned long long)stream->id);
	fc_queue(call, stream, op);
	return CUDA_SUCCESS;
}

int fakecuda_library_queue(const char *name, void *stream,
			   const struct fakecuda_rows *rows, unsigned n,
			   fakecuda_library_fn *fn, void *arg)
{
	struct fc_call call;
	CUresult result = fc_enter(&call, site_of(name, FC_CTX | FC_QUEUE));

	if (result != CUDA_SUCCESS) {
		free(arg);
		return (int)result;
	}
	return (int)fc_leave(&call, queue(&call, stream, rows, n, fn, arg));
}

/* A real one would compute with what is there. */
static bool all_written(const struct fc_op *op)
{
	bool all = true;

	for (size_t i = 0; i < op->count; i++)
		for (size_t row = 0; row < op->moves[i].height; row++)
			all = all &&
			      (op->moves[i].src_pitch ||
			       fc_is_written(
				       op->moves[i].dst +
					       row * op->moves[i].dst_pitch,
				       op->moves[i].width));
	return all;
}

void fc_run_library(struct fc_op *op)
{
	char *at[FAKECUDA_LIBRARY_ROWS];
	bool all = op->dry || !fc.opt.kernelcheck || all_written(op);

	for (size_t i = 0; i < op->count; i++)
		at[i] = op->moves[i].dst;
	pthread_mutex_unlock(&fc.lock);
	if (!op->dry)
		op->library(op->stage, at);
	for (size_t i = 0; i < op->count; i++)
		for (size_t row = 0; row < op->moves[i].height; row++)
			if (op->moves[i].src_pitch)
				fc_written(op->moves[i].dst +
						   row * op->moves[i].dst_pitch,
					   op->moves[i].width);
	pthread_mutex_lock(&fc.lock);
	if (!all) {
		fc.count.findings++;
		snprintf(fc.finding, sizeof(fc.finding),
			 "a library reads memory that was never written");
	}
}
