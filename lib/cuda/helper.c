/* SPDX-License-Identifier: MIT */
/*
 * The helper of a queue: a thread for work that would block its caller or the
 * device: host functions, moves of memory that is not page-locked (through a
 * bounce buffer that is), moves inside host memory, and launches of kernels.
 * Work that is submitted after such work goes through it too, so that the order
 * is kept.
 */
#include "cuda/queue.h"

#include <errno.h>
#include <string.h>

#define drv weir__cuda_drv
#define HALF ((size_t)1 << 20) /* half of the bounce buffer */

static bool has_src(const struct weir_backend_work *w)
{
	return w->kind == WEIR_WORK_SET || w->kind == WEIR_WORK_GET ||
	       w->kind == WEIR_WORK_COPY;
}

bool weir__cuda_on_host(const struct weir_backend_work *w)
{
	return w->dst_host && (w->src_host || !has_src(w));
}

bool weir__cuda_blocks(struct weir__cuda *c, const struct weir_backend_work *w)
{
	const void *host = w->dst_host ? w->dst : w->src;

	if (!w->dst_host && !w->src_host)
		return false;
	return weir__cuda_on_host(w) || !weir__cuda_is_pinned(c, host);
}

void weir__cuda_run_on_host(const struct weir_backend_work *w)
{
	for (size_t i = 0; i < w->rows; i++) {
		unsigned char *dst = w->dst + i * w->dst_pitch;

		if (has_src(w))
			memmove(dst, w->src + i * w->src_pitch, w->width);
		else
			memset(dst, w->byte, w->width);
	}
}

/* Returns false if the driver gets pageable memory itself, and may block. */
static bool have_bounce(struct weir__cuda_queue *q)
{
	CUresult r = CUDA_SUCCESS;
	void *ptr = NULL;

	if (q->bounce || q->no_bounce)
		return q->bounce;
	q->no_bounce = true;
	for (unsigned i = 0; i < 2 && !r; i++)
		if (!q->bounced[i])
			r = drv.cuEventCreate(&q->bounced[i],
					      CU_EVENT_DISABLE_TIMING |
						      CU_EVENT_BLOCKING_SYNC);
	if (!r) {
		pthread_mutex_lock(&q->c->bounce_lock);
		ptr = q->c->bounces;
		if (ptr)
			q->c->bounces = *(void **)ptr;
		pthread_mutex_unlock(&q->c->bounce_lock);
	}
	if (!r && !ptr)
		r = drv.cuMemHostAlloc(&ptr, 2 * HALF,
				       CU_MEMHOSTALLOC_PORTABLE);
	weir__cuda_note(q->c, r);
	q->bounce = ptr;
	return ptr;
}

void weir__cuda_helper_close(struct weir__cuda_queue *q)
{
	for (unsigned i = 0; i < 2; i++)
		if (q->bounced[i])
			weir__cuda_note(q->c,
					drv.cuEventDestroy(q->bounced[i]));
	if (!q->bounce)
		return;
	pthread_mutex_lock(&q->c->bounce_lock);
	*(void **)(void *)q->bounce = q->c->bounces;
	q->c->bounces = q->bounce;
	pthread_mutex_unlock(&q->c->bounce_lock);
}

/* Fill one half while the device copies from the other. */
static CUresult bounce_up(struct weir__cuda_queue *q,
			  struct weir_backend_work *w)
{
	CUresult r = CUDA_SUCCESS;

	for (size_t at = 0, i = 0; at < w->width && !r; at += HALF, i++) {
		size_t n = w->width - at < HALF ? w->width - at : HALF;
		unsigned char *half = q->bounce + i % 2 * HALF;

		r = drv.cuEventSynchronize(q->bounced[i % 2]);
		if (r)
			break;
		memcpy(half, w->src + at, n);
		r = drv.cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)w->dst + at,
					  half, n, q->stream);
		if (!r)
			r = drv.cuEventRecord(q->bounced[i % 2], q->stream);
	}
	return r;
}

static CUresult bounce_scatter(struct weir__cuda_queue *q,
			       struct weir_backend_work *w)
{
	struct weir_backend_work one = *w;
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < w->n_copies && !r; i++) {
		one.dst = w->copy[i].dst;
		one.src = w->copy[i].src;
		one.width = w->copy[i].bytes;
		r = bounce_up(q, &one);
	}
	return r;
}

static CUresult bounce_down(struct weir__cuda_queue *q,
			    struct weir_backend_work *w)
{
	CUresult r = CUDA_SUCCESS;

	for (size_t at = 0; at < w->width && !r; at += HALF) {
		size_t n = w->width - at < HALF ? w->width - at : HALF;

		r = drv.cuMemcpyDtoHAsync(q->bounce,
					  (CUdeviceptr)(uintptr_t)w->src + at,
					  n, q->stream);
		if (!r)
			r = drv.cuEventRecord(q->bounced[0], q->stream);
		if (!r)
			r = drv.cuEventSynchronize(q->bounced[0]);
		if (!r)
			memcpy(w->dst + at, q->bounce, n);
	}
	return r;
}

/*
 * A move through the bounce buffer that failed (@r) may have queued copies
 * without an event after them: wait until the stream is idle before the buffer
 * is used again. If that wait fails too, the device is treated as lost.
 */
static CUresult bounce_settle(struct weir__cuda_queue *q, CUresult r)
{
	CUresult sync;

	if (!r)
		return r;
	sync = drv.cuStreamSynchronize(q->stream);
	if (sync)
		sync = drv.cuStreamSynchronize(q->stream);
	if (sync)
		weir__cuda_lose(q->c, sync);
	return r;
}

/* Do the work, or issue it. A context is current, no lock is held. */
static CUresult helper_run(struct weir__cuda_queue *q,
			   struct weir_backend_work *w,
			   struct weir__cuda_computed *computed)
{
	CUresult r;

	if (w->kind == WEIR_WORK_COMPUTE)
		return weir__cuda_compute(q, w, computed);
	if (weir__cuda_on_host(w)) {
		r = drv.cuStreamSynchronize(q->stream);
		if (!r)
			weir__cuda_run_on_host(w);
		return r;
	}
	if (!weir__cuda_blocks(q->c, w) || w->rows != 1 || !have_bounce(q))
		return weir__cuda_issue(q, w);
	if (w->n_copies)
		r = bounce_scatter(q, w);
	else if (w->kind == WEIR_WORK_SET)
		r = bounce_up(q, w);
	else
		r = bounce_down(q, w);
	return bounce_settle(q, r);
}

static void helper_call(struct weir__cuda_queue *q, struct weir_backend_work *w)
{
	int res;

	pthread_mutex_lock(&q->lock);
	q->n_with_helper--;
	pthread_mutex_unlock(&q->lock);
	res = w->call(w->arg);
	w->done(w, res < 0 ? res : 0, 0);
}

/* poll finds its end by the event after its copies. */
static void helper_do(struct weir__cuda_queue *q, struct weir_backend_work *w)
{
	unsigned unknown_errors = atomic_load(&q->c->unknown_errors);
	struct weir__cuda_computed computed = { 0 };
	CUresult r = weir__cuda_push(q->c);
	bool entered = !r;
	int ret;

	if (entered)
		r = helper_run(q, w, &computed);
	pthread_mutex_lock(&q->lock);
	q->n_with_helper--;
	ret = weir__cuda_track(q, w, unknown_errors, entered, r, &computed);
	if (ret < 0) {
		/* There is no memory for a flight: wait here. */
		w->leaked = entered && drv.cuStreamSynchronize(q->stream);
		q->out--;
	}
	pthread_mutex_unlock(&q->lock);
	if (entered)
		weir__cuda_leave();
	if (ret < 0) {
		if (w->kind == WEIR_WORK_COMPUTE)
			weir__cuda_computed(q->c, w, &computed, w->leaked);
		w->done(w, ret, 0);
	}
}

/* Wait for the next work; NULL: the queue was closed. q->lock is held. */
static struct weir_backend_work *helper_next_work(struct weir__cuda_queue *q)
{
	struct weir_backend_work *w;

	while (!(w = q->todo) && !q->closed)
		pthread_cond_wait(&q->more, &q->lock);
	if (!w)
		return NULL;
	q->todo = w->next;
	if (!q->todo)
		q->todo_end = &q->todo;
	return w;
}

static void *helper_main(void *arg)
{
	struct weir__cuda_queue *q = arg;
	struct weir_backend_work *w;

	for (;;) {
		pthread_mutex_lock(&q->lock);
		w = helper_next_work(q);
		pthread_mutex_unlock(&q->lock);
		if (!w)
			break;
		if (w->kind == WEIR_WORK_CALL)
			helper_call(q, w);
		else
			helper_do(q, w);
	}
	weir__cuda_host.free(q);
	return NULL;
}

int weir__cuda_to_helper(struct weir__cuda_queue *q,
			 struct weir_backend_work *w)
{
	pthread_t thread;
	int r;

	if (!q->started) {
		r = weir__cuda_host.thread(&thread, q->name, helper_main, q);
		if (r < 0)
			return r;
		pthread_detach(thread);
		q->started = true;
	}
	w->next = NULL;
	*q->todo_end = w;
	q->todo_end = &w->next;
	q->n_with_helper++;
	pthread_cond_signal(&q->more);
	return 0;
}
