/* SPDX-License-Identifier: MIT */
#include "null.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/sys.h"
#include "io/engine_state.h"
#include "io/loop.h"
#include "io/method.h"
#include "io/op.h"

struct null_server null_source, null_sink;

static int64_t serve(struct null_server *s, uint64_t bytes, int64_t now)
{
	int64_t turn = s->free > now ? s->free : now;

	s->free = turn + (int64_t)((double)bytes / s->rate);
	return s->free + s->latency;
}

/* Requests in flight, in the order in which they end. */
struct fifo {
	struct entry {
		void *what;
		int64_t ends;
	} entry[4096];
	unsigned head, tail;
};

static void add(struct fifo *f, void *what, int64_t ends)
{
	f->entry[f->tail++ % 4096] = (struct entry){ what, ends };
}

static void *take_due(struct fifo *f, int64_t now)
{
	if (f->head == f->tail || f->entry[f->head % 4096].ends > now)
		return NULL;
	return f->entry[f->head++ % 4096].what;
}

static struct fifo reads;

static int source_open(struct weir__loop *loop)
{
	(void)loop;
	/* Sleeps end up to 3 us late rather than 50. */
	prctl(PR_SET_TIMERSLACK, 1);
	return 0;
}

static void source_close(struct weir__loop *loop)
{
	(void)loop;
}

static void source_submit(struct weir__loop *loop, struct weir__op *op)
{
	(void)loop;
	add(&reads, op, serve(&null_source, op->len, weir__now()));
}

static void sleep_until(struct weir__loop *loop, int64_t limit)
{
	struct pollfd fd = { .fd = loop->reactor.wakefd.fd, .events = POLLIN };
	int64_t now = weir__now(), until = INT64_MAX;
	struct timespec ts;
	uint64_t count;

	if (reads.head != reads.tail)
		until = reads.entry[reads.head % 4096].ends;
	if (limit >= 0 && now + limit < until)
		until = now + limit;
	if (until <= now)
		return;
	ts.tv_sec = (until - now) / 1000000000;
	ts.tv_nsec = (until - now) % 1000000000;
	if (!weir__owner_release(&loop->reactor.owner))
		return;
	if (ppoll(&fd, 1, until == INT64_MAX ? NULL : &ts, NULL) == 1)
		if (read(fd.fd, &count, sizeof(count)) < 0)
			perror("eventfd");
	weir__owner_acquire(&loop->reactor.owner);
}

static void source_wait(struct weir__loop *loop, int64_t limit)
{
	struct weir__op *op;

	if (limit)
		sleep_until(loop, limit);
	while ((op = take_due(&reads, weir__now())))
		weir__op_advance(loop, op, op->len);
}

const struct weir__method_ops null_method = {
	.size = sizeof(null_method),
	.io = WEIR_IO_SYNC,
	.name = "null",
	.open = source_open,
	.close = source_close,
	.submit = source_submit,
	.wait = source_wait,
};

static struct fifo copies;

static int sink_open(struct weir_dev *dev, unsigned flags, const char *name,
		     void **ret_queue)
{
	(void)dev, (void)flags, (void)name;
	*ret_queue = &copies;
	return 0;
}

static void sink_close(void *queue)
{
	(void)queue;
}

static int sink_submit(void *queue, struct weir_backend_work *work)
{
	add(queue, work, serve(&null_sink, work->width, weir__now()));
	return 0;
}

static int sink_poll(void *queue)
{
	struct weir_backend_work *work;

	while ((work = take_due(queue, weir__now())))
		work->done(work, 0, 0);
	return (int)(copies.tail - copies.head);
}

static const struct weir_backend_queue_ops sink_queue = {
	.size = sizeof(sink_queue),
	.open = sink_open,
	.close = sink_close,
	.submit = sink_submit,
	.poll = sink_poll,
};

static int sink_probe(struct weir *weir, const struct weir_backend_host *host,
		      struct weir_backend_probe *probe)
{
	static const struct weir_backend_buft buft = {
		.size = sizeof(buft),
		.name = "NULL0",
		.kind = WEIR_MEM_DEVICE,
		.align = 256,
		.max = SIZE_MAX,
	};
	static const struct weir_backend_buft *const bufts[] = { &buft };
	static const struct weir_backend_dev desc = {
		.size = sizeof(desc),
		.name = "NULL0",
		.description = "keeps time, moves nothing",
		.type = WEIR_DEV_GPU,
		.node = -1,
		.n_bufts = 1,
		.buft = bufts,
	};

	(void)weir;
	return host->dev_describe(probe, &desc);
}

static int sink_dev_open(struct weir_dev *dev, unsigned i, const char *params,
			 void **ret_state)
{
	(void)dev, (void)i, (void)params;
	*ret_state = &copies;
	return 0;
}

static void sink_dev_close(struct weir_dev *dev, void *state)
{
	(void)dev, (void)state;
}

static int sink_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
		       uint64_t *ret_total)
{
	(void)dev, (void)i;
	*ret_free = *ret_total = 1ull << 40;
	return 0;
}

static int sink_alloc(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      const struct weir_buf_opts *opts,
		      struct weir_backend_mem *mem)
{
	(void)dev, (void)desc, (void)bytes, (void)opts;
	mem->base = (unsigned char *)(1ull << 40);
	return 0;
}

static void sink_free(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      struct weir_backend_mem *mem)
{
	(void)dev, (void)desc, (void)bytes, (void)mem;
}

static int sink_move(struct weir_dev *dev, void *dst, const void *src, size_t n)
{
	(void)dev, (void)dst, (void)src, (void)n;
	return 0;
}

static int sink_fill(struct weir_dev *dev, void *dst, uint8_t byte, size_t n)
{
	(void)dev, (void)dst, (void)byte, (void)n;
	return 0;
}

static const struct weir_backend_mem_ops sink_mem = {
	.size = sizeof(sink_mem),
	.alloc = sink_alloc,
	.free = sink_free,
	.set = sink_move,
	.get = sink_move,
	.fill = sink_fill,
	.copy = sink_move,
};

static const struct weir_backend null_backend = {
	.size = sizeof(null_backend),
	.abi = WEIR_BACKEND_ABI,
	.name = "NULL",
	.probe = sink_probe,
	.dev_open = sink_dev_open,
	.dev_close = sink_dev_close,
	.dev_memory = sink_memory,
	.mem = &sink_mem,
	.queue = &sink_queue,
};

const struct weir_backend *null_entry(const struct weir_backend_host *host,
				      int *ret_err)
{
	(void)host;
	(void)ret_err;
	return &null_backend;
}
