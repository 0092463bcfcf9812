/* SPDX-License-Identifier: MIT */
/*
 * How a copy is done depends on its two ends.
 *
 * Between device memory and page-locked host memory it is queued, and the
 * call returns. To pageable memory, and between two host addresses, the call
 * returns when the copy is done. A pageable source is copied to memory of the
 * driver before the call returns: up to 64 KiB immediately; a larger one after
 * the stream's earlier work, in blocks, of which at most two wait for the
 * engine.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"

#define STAGE_AT_ONCE ((size_t)64 << 10)
#define STAGE_PIECE ((size_t)2 << 20)
#define STAGE_DEPTH 2u

/* Copies of one kind, which become one operation. */
struct job {
	struct fc_call *call;
	struct CUstream_st *stream;
	enum fc_order order;
	bool sync;
	bool from_pageable, to_pageable, host_only;
	enum fc_direction direction;
	struct fc_engine *engine;
	uint64_t bytes;
};

static bool is_host(const struct fc_side *side)
{
	return side->memory != FC_DEVICE;
}

static void kind_of(struct job *job, const struct fc_side *dst,
		    const struct fc_side *src)
{
	job->from_pageable = src->memory == FC_UNKNOWN;
	job->to_pageable = dst->memory == FC_UNKNOWN;
	job->host_only = is_host(dst) && is_host(src);
	job->engine = NULL;
	if (is_host(dst)) {
		job->direction = FC_TO_HOST;
		if (!is_host(src))
			job->engine = &src->device->engine[FC_TO_HOST];
	} else if (is_host(src)) {
		job->direction = FC_TO_DEVICE;
		job->engine = &dst->device->engine[FC_TO_DEVICE];
	} else {
		job->direction = FC_TO_PEER;
		if (dst->device != src->device)
			job->engine = &src->device->engine[FC_TO_PEER];
	}
}

static bool same_kind(const struct job *a, const struct job *b)
{
	return a->from_pageable == b->from_pageable &&
	       a->to_pageable == b->to_pageable &&
	       a->host_only == b->host_only && a->direction == b->direction &&
	       a->engine == b->engine;
}

/* Check both ends of @request and set the kind of copy in @job. */
static CUresult resolve(struct fc_call *call, const struct fc_request *request,
			struct job *job, struct fc_move *ret)
{
	struct fc_side dst, src;
	CUresult result;

	result = fc_place_written(call, request->dst, request->width,
				  request->height, request->dst_pitch, &dst);
	if (result == CUDA_SUCCESS)
		result = fc_place(call, request->src, request->width,
				  request->height, request->src_pitch, &src);
	if (result != CUDA_SUCCESS)
		return result;
	kind_of(job, &dst, &src);
	/* A side may be the source, so its address is const. */
	ret->dst = (char *)(uintptr_t)dst.at;
	ret->src = src.at;
	ret->width = request->width;
	ret->height = request->height;
	ret->dst_pitch = request->dst_pitch;
	ret->src_pitch = request->src_pitch;
	job->bytes = (uint64_t)request->width * request->height;
	return CUDA_SUCCESS;
}

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "fakecuda: no memory\n");
	abort();
}

/* Copy the sources, row after row, to memory of the operation. */
static void stage(struct fc_op *op)
{
	char *at;
	size_t i, row;

	if (fc.opt.dry)
		return;
	op->stage = need(malloc(op->bytes ? op->bytes : 1));
	at = op->stage;
	pthread_mutex_unlock(&fc.lock);
	for (i = 0; i < op->count; i++) {
		struct fc_move *move = &op->moves[i];
		const char *from = move->src;

		move->src = at;
		for (row = 0; row < move->height; row++) {
			memcpy(at, from + row * move->src_pitch, move->width);
			at += move->width;
		}
		move->src_pitch = move->width;
	}
	pthread_mutex_lock(&fc.lock);
}

/*
 * Sum the sources, unless work that is already queued may rightly change
 * them.
 */
static void remember(struct fc_op *op)
{
	if (!fc.opt.check || fc.opt.dry || op->stage || fc.writers ||
	    op->direction != FC_TO_DEVICE)
		return;
	pthread_mutex_unlock(&fc.lock);
	op->sum = fc_moves_sum(op->moves, op->count);
	op->summed = true;
	pthread_mutex_lock(&fc.lock);
}

static struct fc_op *operation(const struct job *job,
			       const struct fc_move *moves, size_t count)
{
	struct fc_op *op = fc_op_new(FC_COPY, count);

	memcpy(op->moves, moves, count * sizeof(*moves));
	op->engine = job->engine;
	op->direction = job->direction;
	op->bytes = job->bytes;
	return op;
}

static void wait_for(struct job *job, uint64_t back)
{
	if (job->stream->queued > back)
		fc_stream_wait(job->stream, job->stream->queued - back);
}

/* A row of pageable memory that is larger than one block. */
static void submit_pieces(struct job *job, const struct fc_move *move)
{
	struct fc_move piece = *move;
	struct fc_op *op;
	size_t left = move->width;

	wait_for(job, 0);
	while (left) {
		piece.width = left < STAGE_PIECE ? left : STAGE_PIECE;
		job->bytes = piece.width;
		wait_for(job, STAGE_DEPTH - 1);
		op = operation(job, &piece, 1);
		stage(op);
		fc_queue(job->call, job->stream, op);
		piece.dst += piece.width;
		piece.src += piece.width;
		left -= piece.width;
	}
}

static void submit(struct job *job, const struct fc_move *moves, size_t count)
{
	bool large = job->from_pageable && !job->host_only &&
		     job->bytes > STAGE_AT_ONCE;
	struct fc_op *op;

	if (job->from_pageable || job->to_pageable)
		fc.count.pageable += job->bytes;
	if (large && count == 1 && moves->height == 1) {
		submit_pieces(job, moves);
		return;
	}
	if (large)
		wait_for(job, 0);
	op = operation(job, moves, count);
	if ((job->from_pageable && !job->host_only) ||
	    job->order == FC_ORDER_NOW)
		stage(op);
	else
		remember(op);
	fc_queue(job->call, job->stream, op);
}

static CUresult finish(struct job *job)
{
	if (!job->sync && !job->to_pageable && !job->host_only)
		return CUDA_SUCCESS;
	wait_for(job, 0);
	return fc_context_error(job->call->ctx);
}

/* Neighbouring copies of one kind become one operation. */
static CUresult submit_groups(struct job *jobs, const struct fc_move *moves,
			      size_t count)
{
	CUresult result = CUDA_SUCCESS;
	size_t i, n;

	for (i = 0; i < count && result == CUDA_SUCCESS; i += n) {
		for (n = 1; i + n < count; n++) {
			if (!same_kind(&jobs[i], &jobs[i + n]))
				break;
			jobs[i].bytes += jobs[i + n].bytes;
		}
		submit(&jobs[i], &moves[i], n);
		result = finish(&jobs[i]);
	}
	return result;
}

CUresult fc_copy(struct fc_call *call, CUstream handle,
		 const struct fc_request *requests, size_t count,
		 enum fc_order order, bool sync)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	CUresult result = CUDA_SUCCESS;
	struct fc_move *moves;
	struct job *jobs;
	size_t i, n = 0;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	moves = need(calloc(count + 1, sizeof(*moves)));
	jobs = need(calloc(count + 1, sizeof(*jobs)));
	for (i = 0; i < count && result == CUDA_SUCCESS; i++) {
		if (!requests[i].width || !requests[i].height)
			continue;
		jobs[n].call = call;
		jobs[n].stream = stream;
		jobs[n].order = order;
		jobs[n].sync = sync;
		result = resolve(call, &requests[i], &jobs[n], &moves[n]);
		n++;
	}
	if (result == CUDA_SUCCESS) {
		fc_note(call, "stream %llu %p <- %p %zu count %zu ",
			(unsigned long long)stream->id, requests->dst,
			requests->src, requests->width, count);
		result = submit_groups(jobs, moves, n);
	}
	free(moves);
	free(jobs);
	return result;
}
