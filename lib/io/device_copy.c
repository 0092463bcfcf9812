/* SPDX-License-Identifier: MIT */
/*
 * Copies between slots and devices, in the reactor's own queue to the device
 * (queues.c), or in the job's (job->submit_copy).
 */
#include <string.h>

#include "alloc/slots.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"
#include "dev/dev.h"
#include "io/chunk.h"
#include "io/device_copy.h"
#include "io/engine_state.h"
#include "io/job.h"
#include "io/loop.h"
#include "io/op.h"

/* Repacking an extent of up to this size costs less than a copy of its own. */
#define SMALL 1024u
#define MAX_PADDING 4096u

static bool are_neighbours(const struct weir__extent *a,
			   const struct weir__extent *b)
{
	return a->gap_group && a->gap_group == b->gap_group &&
	       a->len <= SMALL && b->len <= SMALL &&
	       b->addr >= a->addr + a->len &&
	       (size_t)(b->addr - a->addr) <= a->len + MAX_PADDING;
}

/*
 * Returns how many of @n extents are neighbours, and together fit @room bytes.
 */
static uint32_t count_neighbours(const struct weir__extent *e, uint32_t n,
				 size_t room)
{
	uint32_t k = 1;

	while (k < n && are_neighbours(&e[k - 1], &e[k]) &&
	       (size_t)(e[k].addr - e->addr) + e[k].len <= room)
		k++;
	return k;
}

/* Bytes left in the second slot. 0 if no slot is free: nothing is repacked. */
static size_t room_for_more(struct weir__loop *loop, struct weir__op *op,
			    size_t used)
{
	if (!op->repack_slot)
		op->repack_slot = weir__slot_get(
			loop->reactor.slots, loop->reactor.eng->chunk_bytes);
	return op->repack_slot ? op->repack_slot->bytes - used : 0;
}

/* Move @n extents to @to, with their distances on the device. */
static struct weir_backend_copy repack(const struct weir__op *op,
				       const struct weir__extent *e, uint32_t n,
				       unsigned char *to)
{
	uint64_t begin = op->extent->off;

	for (uint32_t k = 0; k < n; k++)
		memcpy(to + (e[k].addr - e->addr),
		       op->payload + (e[k].off - begin), e[k].len);
	return (struct weir_backend_copy){
		.dst = e->addr,
		.src = to,
		.bytes = (size_t)(e[n - 1].addr - e->addr) + e[n - 1].len,
	};
}

/*
 * Fill in op->work for a merged chunk: a scatter copy with a copy for each
 * extent, from its place in the slot. Small extents that are neighbours on the
 * device too are repacked in a second slot, with their distances on the device:
 * they and the padding between them become one copy.
 */
static void scatter_make(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir_backend_copy *copy = &op->job->copy[e - op->job->ext];
	size_t n = 0, used = 0, bytes = 0;
	uint32_t k;

	for (uint32_t i = 0; i < e->n_merged; i += k) {
		uint32_t left = e->n_merged - i;

		k = left > 1 && are_neighbours(&e[i], &e[i + 1]) ? left : 1;
		if (k > 1)
			k = count_neighbours(&e[i], k,
					     room_for_more(loop, op, used));
		if (k > 1) {
			copy[n] = repack(op, &e[i], k,
					 op->repack_slot->addr + used);
			used += copy[n].bytes;
		} else {
			copy[n] = (struct weir_backend_copy){
				.dst = e[i].addr,
				.src = op->payload + (e[i].off - e->off),
				.bytes = e[i].len,
			};
		}
		bytes += copy[n++].bytes;
	}
	op->work.copy = copy;
	op->work.n_copies = n;
	op->work.src = copy->src;
	op->work.width = bytes;
}

/* Called by the reactor's owner, in poll(), or on a thread of the backend. */
static void copy_work_done(struct weir_backend_work *work, int res,
			   int32_t native)
{
	struct weir__op *op = weir__container(work, struct weir__op, work);
	struct weir__copy_queue *q = work->arg;

	op->res = res;
	op->native = native;
	weir__trace_span(op->reactor->eng->weir, WEIR__TRACK_COPIER,
			 op->reactor->index, op->track,
			 op->write ? "copy from device" : "copy to device",
			 op->copying, op->extent->off + op->lo,
			 op->hi - op->lo);
	if (q)
		atomic_fetch_sub(&q->out, 1);
	weir__reactor_post(op->reactor, &op->msg);
}

/*
 * True if the copy just queued is submitted to the driver. Only this thread
 * polls the queue, so the copy has not ended meanwhile.
 */
static bool is_submitted(struct weir__copy_queue *q)
{
	const struct weir_backend_queue_ops *ops = q->dev->backend->queue;

	return ops->poll && ops->all_submitted && ops->all_submitted(q->queue);
}

/* Copy the rows in the slot to the device; as one row if there are no gaps. */
static void work_set_rows(struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir__rows rows = weir__chunk_rows(e, op->lo, op->hi);
	struct weir_backend_work *work = &op->work;

	work->dst = rows.addr;
	work->width = rows.out;
	work->rows = rows.n;
	work->dst_pitch = e->mem_pitch;
	work->src_pitch = op->packed ? rows.out : rows.pitch;
	if (work->dst_pitch == rows.out && work->src_pitch == rows.out) {
		work->width *= rows.n;
		work->rows = 1;
	}
}

/* Members that only other kinds of work use are 0 since the op was made. */
static void work_fill(struct weir__op *op)
{
	struct weir_backend_work *work = &op->work;
	unsigned char *memory = op->extent->addr + op->lo;

	work->next = NULL;
	work->kind = op->write ? WEIR_WORK_GET : WEIR_WORK_SET;
	work->dst = op->write ? op->payload : memory;
	work->src = op->write ? memory : op->payload;
	work->dst_host = op->write;
	work->src_host = !op->write;
	work->width = op->hi - op->lo;
	work->rows = 1;
	if (op->extent->unpack)
		work_set_rows(op);
	work->copy = NULL;
	work->n_copies = 0;
	work->done = copy_work_done;
	work->leaked = false;
}

/*
 * A job with a queue of its own (submit_copy) needs the engine's queue too,
 * because opening the engine's queue has page-locked the slots.
 */
int weir__copy_start(struct weir__loop *loop, struct weir__op *op)
{
	const struct weir__extent *e = op->extent;
	struct weir__copy_queue *q =
		weir__reactor_queue(&loop->reactor, e->dev);
	int r;

	if (!q)
		return weir__job_refusal(op->job, e->dev);
	work_fill(op);
	op->work.arg = q;
	if (e->n_merged > 1)
		scatter_make(loop, op);
	op->copying = weir__trace_now(op->reactor->eng->weir);
	if (op->job->submit_copy) {
		op->work.arg = NULL;
		op->job->submit_copy(op->job, &op->work);
		return 0;
	}
	atomic_fetch_add(&q->out, 1);
	r = weir__dev_result(e->dev, "queue->submit",
			     e->dev->backend->queue->submit(q->queue,
							    &op->work));
	if (r < 0)
		atomic_fetch_sub(&q->out, 1);
	else if (op->job->chunk_submitted && is_submitted(q))
		weir__chunk_submitted(op->job, e, op->lo, op->hi);
	return r;
}

bool weir__copy_poll(struct weir__loop *loop)
{
	struct weir__reactor *r = &loop->reactor;
	bool out = false;

	for (unsigned i = 0; i < r->n_queues; i++) {
		struct weir__copy_queue *q = &r->queue[i];
		const struct weir_backend_queue_ops *ops =
			q->dev->backend->queue;

		if (!ops->poll || !atomic_load(&q->out))
			continue;
		ops->poll(q->queue);
		out = out || atomic_load(&q->out);
	}
	return out;
}
