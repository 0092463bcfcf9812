/* SPDX-License-Identifier: MIT */
/*
 * A module with one device, "EXAMPLE0", whose memory is the host's: the
 * smallest backend that moves bytes. It is C and C++ alike. weir-backend(7)
 * describes the interface. Build it, and see its device:
 *
 *	cc -shared -fPIC $(pkg-config --cflags weir) module.c -o weir-example.so
 *	WEIR_MODULE_PATH=$PWD weir devices
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

static const struct weir_backend_host *host;

/* The work of a queue, from the oldest; poll executes it. */
struct queue {
	pthread_mutex_t lock; /* guards the list */
	struct weir_backend_work *first, **end;
};

static int example_alloc(struct weir_dev *dev,
			 const struct weir_backend_buft *desc, size_t bytes,
			 const struct weir_buf_opts *opts,
			 struct weir_backend_mem *mem)
{
	(void)desc;
	mem->node = -1;
	return host->host_alloc(host->dev_root(dev), WEIR_MEM_PLAIN, bytes, -1,
				opts->flags, mem);
}

static void example_free(struct weir_dev *dev,
			 const struct weir_backend_buft *desc, size_t bytes,
			 struct weir_backend_mem *mem)
{
	(void)desc;
	(void)bytes;
	host->host_free(host->dev_root(dev), mem);
}

static int queue_open(struct weir_dev *dev, unsigned flags, const char *name,
		      void **ret_queue)
{
	struct queue *q = (struct queue *)host->calloc(1, sizeof(*q));

	(void)dev;
	(void)flags;
	if (!q)
		return host->fail(-ENOMEM, "no memory for queue '%s'", name);
	pthread_mutex_init(&q->lock, NULL);
	q->end = &q->first;
	*ret_queue = q;
	return 0;
}

static void queue_close(void *queue)
{
	struct queue *q = (struct queue *)queue;

	pthread_mutex_destroy(&q->lock);
	host->free(q);
}

static int queue_submit(void *queue, struct weir_backend_work *work)
{
	struct queue *q = (struct queue *)queue;

	work->next = NULL;
	pthread_mutex_lock(&q->lock);
	*q->end = work;
	q->end = &work->next;
	pthread_mutex_unlock(&q->lock);
	return 0;
}

static void copy_rows(const struct weir_backend_work *work)
{
	for (size_t i = 0; i < work->n_copies; i++)
		memcpy(work->copy[i].dst, work->copy[i].src,
		       work->copy[i].bytes);
	for (size_t i = 0; !work->n_copies && i < work->rows; i++)
		memmove(work->dst + i * work->dst_pitch,
			work->src + i * work->src_pitch, work->width);
}

static int execute(const struct weir_backend_work *work)
{
	switch (work->kind) {
	case WEIR_WORK_SET:
	case WEIR_WORK_GET:
	case WEIR_WORK_COPY:
		copy_rows(work);
		return 0;
	case WEIR_WORK_FILL:
		for (size_t i = 0; i < work->rows; i++)
			memset(work->dst + i * work->dst_pitch, work->byte,
			       work->width);
		return 0;
	case WEIR_WORK_CALL:
		return work->call(work->arg);
	default:
		return -EOPNOTSUPP;
	}
}

/* The library calls this until it returns 0: no work is left. */
static int queue_poll(void *queue)
{
	struct queue *q = (struct queue *)queue;
	struct weir_backend_work *work, *next;

	pthread_mutex_lock(&q->lock);
	work = q->first;
	q->first = NULL;
	q->end = &q->first;
	pthread_mutex_unlock(&q->lock);
	for (; work; work = next) {
		next = work->next; /* done may free the work */
		work->done(work, execute(work), 0);
	}
	pthread_mutex_lock(&q->lock);
	work = q->first;
	pthread_mutex_unlock(&q->lock);
	return work ? 1 : 0;
}

static int example_probe(struct weir *weir, const struct weir_backend_host *lib,
			 struct weir_backend_probe *probe)
{
	struct weir_backend_buft memory;
	const struct weir_backend_buft *list[1];
	struct weir_backend_dev dev;

	(void)weir;
	memset(&memory, 0, sizeof(memory));
	memory.size = sizeof(memory);
	strcpy(memory.name, "EXAMPLE0");
	memory.kind = WEIR_MEM_DEVICE;
	memory.flags = WEIR_BUFT_HOST;
	memory.align = 64;
	memory.max = SIZE_MAX;
	list[0] = &memory;
	memset(&dev, 0, sizeof(dev));
	dev.size = sizeof(dev);
	strcpy(dev.name, "EXAMPLE0");
	strcpy(dev.description, "an example");
	dev.type = WEIR_DEV_ACCEL;
	dev.node = -1;
	dev.n_bufts = 1;
	dev.buft = list;
	return lib->dev_describe(probe, &dev);
}

static int example_open(struct weir_dev *dev, unsigned i, const char *params,
			void **ret_state)
{
	(void)dev;
	(void)i;
	(void)ret_state;
	return *params ? host->fail(-EINVAL, "unknown parameter '%s'", params)
		       : 0;
}

static int example_memory(struct weir_dev *dev, unsigned i, uint64_t *ret_free,
			  uint64_t *ret_total)
{
	(void)dev;
	(void)i;
	return host->host_available(ret_free, ret_total);
}

static struct weir_backend_mem_ops mem_ops;
static struct weir_backend_queue_ops queue_ops;
static struct weir_backend backend;

#ifdef __cplusplus
extern "C"
#endif
	WEIR_API weir_backend_entry_fn weir_module_entry;

const struct weir_backend *
weir_module_entry(const struct weir_backend_host *lib, int *ret_err)
{
	(void)ret_err;
	host = lib;
	mem_ops.size = sizeof(mem_ops);
	mem_ops.alloc = example_alloc;
	mem_ops.free = example_free;
	queue_ops.size = sizeof(queue_ops);
	queue_ops.open = queue_open;
	queue_ops.close = queue_close;
	queue_ops.submit = queue_submit;
	queue_ops.poll = queue_poll;
	backend.size = sizeof(backend);
	backend.abi = WEIR_BACKEND_ABI;
	backend.name = "EXAMPLE";
	backend.probe = example_probe;
	backend.dev_open = example_open;
	backend.dev_memory = example_memory;
	backend.mem = &mem_ops;
	backend.queue = &queue_ops;
	return &backend;
}
