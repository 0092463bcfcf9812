/* SPDX-License-Identifier: MIT */
/*
 * Channels and their workers. A channel is a queue of operations with a
 * thread that runs them in the order in which they were queued. Each stream
 * has a channel of its own, unless FAKECUDA_CHANNELS makes streams share
 * them: then a stream that waits blocks the others of its channel, as on a
 * device with more streams than hardware queues.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "kernel.h"

#define SHARED_MAX 64

struct fc_channel {
	pthread_cond_t work;
	struct fc_op *head, **tail;
	unsigned refs; /* streams */
	bool quit;
};

_Thread_local bool fc_host_fn;

static struct fc_channel *shared[SHARED_MAX];
static unsigned turn;

/* Out of memory in the stand-in itself ends the test. */
static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "fakecuda: no memory\n");
	abort();
}

/* Its moves follow it in the same allocation. */
struct fc_op *fc_op_new(enum fc_what what, size_t moves)
{
	struct fc_op *op =
		need(calloc(1, sizeof(*op) + moves * sizeof(struct fc_move)));

	op->what = what;
	op->moves = (struct fc_move *)(op + 1);
	op->count = moves;
	return op;
}

void fc_op_free(struct fc_op *op)
{
	if (op->mark)
		fc_mark_put(op->mark);
	fc_launch_free(op->launch);
	free(op->stage);
	free(op);
}

bool fc_op_dropped(const struct fc_op *op)
{
	const struct CUctx_st *ctx = op->stream->handle.ctx;

	return !ctx->handle.live || ctx->error != CUDA_SUCCESS ||
	       ctx->device->lost != CUDA_SUCCESS;
}

static void later(struct fc_op *op, uint64_t time)
{
	if (op->stream->time < time)
		op->stream->time = time;
}

static void wait_mark(struct fc_op *op)
{
	while (!op->mark->done && !fc_op_dropped(op))
		pthread_cond_wait(&fc.moved, &fc.lock);
	if (op->mark->done)
		later(op, op->mark->time);
}

static void wait_stream(struct fc_op *op)
{
	while (op->other->done < op->other_number && !fc_op_dropped(op))
		pthread_cond_wait(&fc.moved, &fc.lock);
	later(op, op->other->time);
}

static void run_host_fn(struct fc_op *op)
{
	pthread_mutex_unlock(&fc.lock);
	fc_host_fn = true;
	op->fn(op->arg);
	fc_host_fn = false;
	later(op, fc_now());
	pthread_mutex_lock(&fc.lock);
}

static void run(struct fc_op *op)
{
	switch (op->what) {
	case FC_COPY:
		fc_run_copy(op);
		break;
	case FC_FILL:
		fc_run_fill(op);
		break;
	case FC_MARK:
		/* Engine time: earlier work may have ended in the past. */
		later(op, op->queued_at);
		break;
	case FC_WAIT_MARK:
		wait_mark(op);
		break;
	case FC_WAIT_STREAM:
		wait_stream(op);
		break;
	case FC_WAIT_VALUE:
		fc_run_wait_value(op);
		break;
	case FC_WRITE_VALUE:
		fc_run_write_value(op);
		break;
	case FC_HOST_FN:
		run_host_fn(op);
		break;
	case FC_LAUNCH:
		fc_run_launch(op, op->launch);
		break;
	case FC_LIBRARY_WORK:
		fc_run_library(op);
		break;
	}
}

/* The failure that was armed for the call strikes here. */
static void strike(struct fc_op *op)
{
	struct CUctx_st *ctx = op->stream->handle.ctx;

	switch (op->fault.mode) {
	case FAKECUDA_HANG:
		while (!fc.released && !fc_op_dropped(op))
			pthread_cond_wait(&fc.moved, &fc.lock);
		if (!fc_op_dropped(op))
			run(op);
		break;
	case FAKECUDA_LATE:
		if (fc_sticky(op->fault.code))
			fc_context_fail(ctx, op->fault.code);
		else
			ctx->late = op->fault.code;
		break;
	case FAKECUDA_LOST:
		if (op->what == FC_COPY)
			fc_run_copy(op); /* moves half of the bytes */
		fc_device_lose(ctx->device, op->fault.code);
		break;
	default:
		run(op);
	}
}

static bool may_write_host(const struct fc_op *op)
{
	return op->what == FC_HOST_FN || op->what == FC_LAUNCH ||
	       op->what == FC_WAIT_VALUE || op->what == FC_WRITE_VALUE ||
	       (op->what == FC_COPY && op->direction == FC_TO_HOST);
}

static void finish(struct fc_op *op)
{
	struct CUstream_st *stream = op->stream;

	stream->done = op->number;
	if (op->what == FC_MARK) {
		op->mark->done = true;
		op->mark->time = stream->time;
	}
	fc.writers -= may_write_host(op);
	fc.count.finished++;
	fc_op_free(op);
	fc_stream_settle(stream);
	pthread_cond_broadcast(&fc.moved);
}

static struct fc_op *take(struct fc_channel *channel)
{
	struct fc_op *op;

	while (!channel->head && !channel->quit)
		pthread_cond_wait(&channel->work, &fc.lock);
	op = channel->head;
	if (!op)
		return NULL;
	channel->head = op->next;
	if (!channel->head)
		channel->tail = &channel->head;
	return op;
}

/* A random delay, FAKECUDA_JITTER. */
static void dawdle(void)
{
	double most = fc.opt.jitter * 1e3;
	uint64_t until;

	if (most <= 0)
		return;
	until = fc_now() + (uint64_t)(most * rand_r(&fc.opt.seed) / RAND_MAX);
	pthread_mutex_unlock(&fc.lock);
	fc_sleep_until(until);
	pthread_mutex_lock(&fc.lock);
}

static void *worker(void *arg)
{
	struct fc_channel *channel = arg;
	struct fc_op *op;

	prctl(PR_SET_NAME, "fakecuda");
	prctl(PR_SET_TIMERSLACK, 1ul);
	pthread_mutex_lock(&fc.lock);
	while ((op = take(channel))) {
		dawdle();
		if (!fc_op_dropped(op))
			strike(op);
		finish(op);
	}
	pthread_mutex_unlock(&fc.lock);
	pthread_cond_destroy(&channel->work);
	free(channel);
	return NULL;
}

/* The driver's threads block all signals of the program. */
static int start(struct fc_channel *channel)
{
	pthread_t thread;
	sigset_t all, old;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = pthread_create(&thread, NULL, worker, channel);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!ret)
		pthread_detach(thread);
	return ret;
}

static struct fc_channel *channel_new(void)
{
	struct fc_channel *channel = need(calloc(1, sizeof(*channel)));

	channel->tail = &channel->head;
	pthread_cond_init(&channel->work, NULL);
	if (!start(channel))
		return channel;
	pthread_cond_destroy(&channel->work);
	free(channel);
	return NULL;
}

/* A channel for a new stream. NULL: no thread. Under fc.lock. */
struct fc_channel *fc_channel_get(void)
{
	unsigned n = fc.opt.channels < SHARED_MAX ? fc.opt.channels
						  : SHARED_MAX;
	struct fc_channel **place = n ? &shared[turn++ % n] : NULL;
	struct fc_channel *channel = place && *place ? *place : channel_new();

	if (!channel)
		return NULL;
	if (place)
		*place = channel;
	channel->refs++;
	return channel;
}

/* Shared channels stay. */
void fc_channel_put(struct fc_channel *channel)
{
	if (--channel->refs || fc.opt.channels)
		return;
	channel->quit = true;
	pthread_cond_signal(&channel->work);
}

static void append(struct CUstream_st *stream, struct fc_op *op)
{
	struct fc_channel *channel = stream->channel;

	op->stream = stream;
	op->number = ++stream->queued;
	op->queued_at = fc_now();
	op->dry = fc.opt.dry;
	fc.writers += may_write_host(op);
	fc.count.queued++;
	*channel->tail = op;
	channel->tail = &op->next;
	pthread_cond_signal(&channel->work);
}

static void append_wait(struct CUstream_st *stream, struct CUstream_st *other)
{
	struct fc_op *op;

	if (other->done == other->queued)
		return;
	op = fc_op_new(FC_WAIT_STREAM, 0);
	op->other = other;
	op->other_number = other->queued;
	append(stream, op);
}

/* Stream 0 and streams without CU_STREAM_NON_BLOCKING are in order. */
static void append_order(struct CUstream_st *stream)
{
	struct CUctx_st *ctx = stream->handle.ctx;
	struct CUstream_st *other;

	if (stream->flags & CU_STREAM_NON_BLOCKING || !ctx->legacy)
		return;
	if (stream != ctx->legacy) {
		append_wait(stream, ctx->legacy);
		return;
	}
	for (other = ctx->streams; other; other = other->next) {
		if (other != stream && !(other->flags & CU_STREAM_NON_BLOCKING))
			append_wait(stream, other);
	}
}

/*
 * Take @op, with the failure that is armed for @call. Never blocks. If the
 * stream was destroyed while the call waited between two operations, @op is
 * dropped.
 */
void fc_queue(struct fc_call *call, struct CUstream_st *stream,
	      struct fc_op *op)
{
	if (!stream->channel) {
		fc_op_free(op);
		return;
	}
	/* It becomes part of the graph, which is never launched here. */
	if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
		if (op->what == FC_MARK)
			op->mark->captured = true;
		fc_op_free(op);
		return;
	}
	op->fault = call->fault;
	call->fault.mode = 0;
	append_order(stream);
	append(stream, op);
}
