/* SPDX-License-Identifier: MIT */
/*
 * Between slots and devices. Each reactor has a queue of its own for each device
 * that it copies to or from: no lock, and the driver's stream belongs to one thread.
 * Queues are opened at the first copy and closed with the reactor.
 */
#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "alloc/touch.h"
#include "error.h"
#include "io/reactor.h"
#include "sys.h"
#include "trace.h"

#define MAX_DEVICES 16u

struct weir__copies {
	struct copy_queue {
		struct weir_dev *dev;
		void *queue;
		bool pinned; /* the slots, by this device */
		_Atomic uint32_t out;
	} queue[MAX_DEVICES];
	_Atomic unsigned n; /* grows when one is there in full */
};

/* Is another device of this backend there, for which they are locked too? */
static bool pinned_before(const struct weir__copies *c,
			  const struct weir_dev *dev)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->queue[i].dev->backend == dev->backend &&
		    c->queue[i].pinned)
			return true;
	return false;
}

/*
 * Page-lock the slots for the device, once: copies run at the bus's rate, and
 * beside the host. Without that it works, slower, and is told.
 */
static void pin_slots(struct weir__reactor *r, struct copy_queue *q)
{
	const struct weir__mem_ops *mem = q->dev->backend->mem;
	size_t bytes;
	void *addr;

	if (!mem->pin || pinned_before(r->copies, q->dev))
		return;
	weir__slots_range(r->slots, &addr, &bytes);
	/* The driver would bring the pages in one by one. */
	weir__touch_all(r->eng->weir, addr, bytes, NULL);
	q->pinned = mem->pin(q->dev, addr, bytes) == 0;
	if (q->pinned)
		weir__slots_pinned(r->slots, true);
	else
		weir__engine_explain(r->eng, false,
				     "page-locked slots for %s: %.180s",
				     q->dev->desc.name, weir_error());
}

static void unpin_slots(struct weir__reactor *r, struct copy_queue *q)
{
	size_t bytes;
	void *addr;

	if (!q->pinned)
		return;
	weir__slots_range(r->slots, &addr, &bytes);
	/* Else they stay locked, and are not unmapped either. */
	if (q->dev->backend->mem->unpin(q->dev, addr, bytes) == 0)
		weir__slots_pinned(r->slots, false);
}

static int open_queue(struct weir__reactor *r, struct weir_dev *dev,
		      struct copy_queue **ret)
{
	struct weir__copies *c = r->copies;
	struct copy_queue *q = &c->queue[c->n];
	int err;

	if (c->n == MAX_DEVICES)
		return weir__fail(-EMFILE, "copies to more than %u devices",
				  MAX_DEVICES);
	err = weir__dev_use(dev);
	if (err >= 0)
		err = weir__dev_result(dev, "queue->open",
				       dev->backend->queue->open(
					       dev, 0, "weir-io", &q->queue));
	if (err < 0)
		return err;
	q->dev = dev;
	pin_slots(r, q);
	atomic_fetch_add(&c->n, 1);
	*ret = q;
	return 0;
}

static int find_queue(struct weir__reactor *r, struct weir_dev *dev,
		      struct copy_queue **ret)
{
	struct weir__copies *c = r->copies;

	if (!c) {
		c = weir__calloc(1, sizeof(*c));
		if (!c)
			return weir__fail(-ENOMEM, "no memory for copies");
		atomic_store(&r->copies, c);
	}
	for (unsigned i = 0; i < c->n; i++)
		if (c->queue[i].dev == dev) {
			*ret = &c->queue[i];
			return 0;
		}
	return open_queue(r, dev, ret);
}

/* On the reactor, from poll; or on a thread of the backend. */
static void copied(struct weir__work *work, int res, int32_t native)
{
	struct weir__op *op =
		(struct weir__op *)((char *)work -
				    offsetof(struct weir__op, work));
	struct copy_queue *q = work->arg;

	op->res = res;
	op->native = native;
	weir__trace_span(op->reactor->eng->weir, WEIR__TRACK_COPIER,
			 op->reactor->index, op->lane,
			 op->write ? "copy from device" : "copy to device",
			 op->copying, op->job->ext[op->ext].off + op->lo,
			 op->hi - op->lo);
	if (q)
		atomic_fetch_sub(&q->out, 1);
	weir__reactor_post(op->reactor, &op->msg);
}

/* Polled here and nowhere else, what was given to it is still out. */
static bool is_handed(struct copy_queue *q)
{
	const struct weir__queue_ops *ops = q->dev->backend->queue;

	return ops->poll && ops->handed && ops->handed(q->queue);
}

/* A queue of ours there is in every case: with it slots are page-locked. */
int weir__copy_start(struct weir__op *op)
{
	const struct weir__extent *e = &op->job->ext[op->ext];
	struct copy_queue *q = NULL;
	int r = find_queue(op->reactor, e->dev, &q);

	if (r < 0)
		return r;
	op->work = (struct weir__work){
		.kind = op->write ? WEIR__WORK_GET : WEIR__WORK_SET,
		.dst = op->write ? op->payload : e->addr + op->lo,
		.src = op->write ? e->addr + op->lo : op->payload,
		.dst_host = op->write,
		.src_host = !op->write,
		.width = op->hi - op->lo,
		.rows = 1,
		.arg = q,
		.done = copied,
	};
	if (e->together > 1)
		weir__pieces_make(op);
	op->copying = weir__trace_now(op->reactor->eng->weir);
	if (op->job->copy) {
		op->work.arg = NULL;
		op->job->copy(op->job, &op->work);
		return 0;
	}
	atomic_fetch_add(&q->out, 1);
	r = weir__dev_result(e->dev, "queue->submit",
			     e->dev->backend->queue->submit(q->queue,
							    &op->work));
	if (r < 0)
		atomic_fetch_sub(&q->out, 1);
	else if (op->job->handed && is_handed(q))
		weir__chunk_handed(op->job, op->ext, op->lo, op->hi);
	return r;
}

bool weir__copy_poll(struct weir__reactor *r)
{
	bool out = false;

	for (unsigned i = 0; r->copies && i < r->copies->n; i++) {
		struct copy_queue *q = &r->copies->queue[i];
		const struct weir__queue_ops *ops = q->dev->backend->queue;

		if (!ops->poll || !atomic_load(&q->out))
			continue;
		ops->poll(q->queue);
		out = out || atomic_load(&q->out);
	}
	return out;
}

/* False: the root does not wait any longer for who is in the queues. */
static bool lock_to_close(struct weir__engine *eng)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	while (pthread_rwlock_trywrlock(&eng->copy_lock)) {
		if (weir__now() >= eng->deadline)
			return false;
		nanosleep(&ts, NULL);
	}
	return true;
}

void weir__copy_close(struct weir__reactor *r)
{
	struct weir__copies *c = r->copies;

	if (!c)
		return;
	if (!lock_to_close(r->eng)) {
		weir__log(
			r->eng->weir,
			"weir_close: a caller is held by a native stream; what he uses is leaked");
		atomic_store(&r->eng->leaked, true);
		return;
	}
	atomic_store(&r->copies, NULL);
	pthread_rwlock_unlock(&r->eng->copy_lock);
	for (unsigned i = 0; i < c->n; i++) {
		struct copy_queue *q = &c->queue[i];

		q->dev->backend->queue->close(q->queue);
		unpin_slots(r, q);
	}
	weir__free(c);
}

int weir__engine_queues(struct weir__engine *eng,
			const struct weir__queue_ops *ops,
			int (*fn)(void *arg, void *queue), void *arg)
{
	int ret = 0;

	pthread_rwlock_rdlock(&eng->copy_lock);
	for (unsigned i = 0; i < eng->n_reactors; i++) {
		struct weir__copies *c = atomic_load(&eng->reactor[i].copies);

		for (unsigned k = 0; c && k < c->n && ret >= 0; k++)
			if (c->queue[k].dev->backend->queue == ops)
				ret = fn(arg, c->queue[k].queue);
	}
	pthread_rwlock_unlock(&eng->copy_lock);
	return ret < 0 ? ret : 0;
}
