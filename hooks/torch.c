/* SPDX-License-Identifier: MIT */
/*
 * libweir-torch.so: weir's heaps as PyTorch's allocator of GPU memory, for
 * torch.cuda.memory.CUDAPluggableAllocator. weir-hooks(7) describes it.
 *
 * PyTorch passes no context to these functions, so the root, a heap for each
 * device and a weir stream for each CUDA stream are global. They are made at
 * the first use and never freed: PyTorch may free memory until the process
 * exits. Any thread may call. To allocate a block, and to free one that no
 * other stream uses, takes no lock here.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "torch.h"

/* So many kept blocks are tried again when another one is freed. */
#define TRIED_AGAIN 2u

static struct {
	_Atomic pid_t owner;  /* the process that opened first; 0: none */
	pthread_mutex_t lock; /* guards opening */
	struct weir *weir;
	_Atomic(struct device *) devices; /* only added to */
} torch = { .lock = PTHREAD_MUTEX_INITIALIZER };

_Thread_local const char *weir__torch_reason;

WEIR_API void *weir_torch_alloc(ssize_t size, int device,
				struct CUstream_st *stream);
WEIR_API void weir_torch_free(void *ptr, ssize_t size, int device,
			      struct CUstream_st *stream);
WEIR_API void weir_torch_record_stream(void *ptr, struct CUstream_st *stream);
WEIR_API void weir_torch_empty_cache(void);

/* PyTorch takes no error from these functions. */
static void complain(const char *call, int device, int r)
{
	fprintf(stderr, "%s: device %d: %s: %s\n", call, device, strerror(-r),
		weir__torch_reason ? weir__torch_reason : weir_error());
	weir__torch_reason = NULL;
}

static int device_init(struct device *d, int number)
{
	struct weir_stream_opts o = WEIR_STREAM_OPTS_INIT;
	struct weir_buft *memory;
	char name[24];
	int r;

	d->number = number;
	snprintf(name, sizeof(name), "CUDA%d", number);
	r = weir_dev_find(torch.weir, name, &d->dev);
	if (r == 0)
		r = weir_dev_buft(d->dev, WEIR_MEM_DEVICE, &memory);
	if (r < 0)
		return r;
	o.flags = WEIR_STREAM_NATIVE;
	r = weir_stream_new(d->dev, &o, &d->joint);
	if (r == 0)
		r = weir_event_new(torch.weir, 0, &d->joined);
	if (r == 0)
		r = weir_heap_new(memory, NULL, &d->heap);
	if (r < 0) {
		weir_event_free(d->joined);
		weir_stream_free(d->joint);
	}
	return r;
}

static struct device *device_alloc(void)
{
	struct device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->uses = calloc((size_t)1 << USE_BITS, sizeof(*d->uses));
	if (!d->uses) {
		free(d);
		return NULL;
	}
	d->unfreed_end = &d->unfreed;
	pthread_mutex_init(&d->lock, NULL);
	return d;
}

/* Called with the lock. */
static int device_make(int number, struct device **ret_device)
{
	struct device *d;
	int r = 0;

	if (!torch.weir)
		r = weir_open(NULL, &torch.weir);
	if (r < 0)
		return r;
	d = device_alloc();
	if (!d)
		return weir__torch_no_memory();
	r = device_init(d, number);
	if (r < 0) {
		free(d->uses);
		free(d);
		return r;
	}
	d->next = atomic_load(&torch.devices);
	atomic_store(&torch.devices, d);
	*ret_device = d;
	return 0;
}

static struct device *device_find(int number)
{
	struct device *d = atomic_load(&torch.devices);

	while (d && d->number != number)
		d = d->next;
	return d;
}

/*
 * True except in a child of the process that has opened devices, or tried to.
 */
static bool is_owner(void)
{
	pid_t owner = 0, pid = getpid();

	return atomic_compare_exchange_strong(&torch.owner, &owner, pid) ||
	       owner == pid;
}

static int device_get(int number, struct device **ret_device)
{
	struct device *d = device_find(number);
	int r = 0;

	if (!d && !is_owner())
		return weir__torch_fail(-EPERM,
					"not possible in a child of fork(2)");
	if (!d) {
		pthread_mutex_lock(&torch.lock);
		d = device_find(number);
		if (!d)
			r = device_make(number, &d);
		pthread_mutex_unlock(&torch.lock);
	}
	if (r == 0)
		*ret_device = d;
	return r;
}

static struct stream *stream_find(struct stream *first,
				  const struct CUstream_st *cuda)
{
	while (first && first->cuda != cuda)
		first = first->next;
	return first;
}

/* Several threads may add the same stream: the first one counts. */
static int stream_add(struct device *d, _Atomic(struct stream *) *list,
		      struct CUstream_st *cuda, struct stream **ret_stream)
{
	struct stream *s = calloc(1, sizeof(*s)), *first = atomic_load(list);
	int r;

	if (!s)
		return weir__torch_no_memory();
	s->cuda = cuda;
	r = weir_cuda_stream_wrap(d->dev, cuda, &s->weir);
	if (r < 0) {
		free(s);
		return r;
	}
	do {
		*ret_stream = stream_find(first, cuda);
		if (*ret_stream) {
			weir_stream_free(s->weir);
			free(s);
			return 0;
		}
		s->next = first;
	} while (!atomic_compare_exchange_weak(list, &first, s));
	*ret_stream = s;
	return 0;
}

int weir__torch_stream(struct device *d, struct CUstream_st *cuda,
		       struct weir_stream **ret_stream)
{
	_Atomic(struct stream *) *list =
		&d->streams[weir__torch_hash((uintptr_t)cuda, STREAM_BITS)];
	struct stream *s = stream_find(atomic_load(list), cuda);
	int r = s ? 0 : stream_add(d, list, cuda, &s);

	if (r == 0)
		*ret_stream = s->weir;
	return r;
}

bool weir__torch_recover(struct weir_stream *stream)
{
	struct weir_failure f;

	return weir_stream_error(stream, &f) < 0 &&
	       weir_stream_reset(stream) == 0;
}

static int stream_sync(struct weir_stream *s)
{
	int r = weir_stream_sync(s, -1);

	if (r < 0 && weir__torch_recover(s))
		r = weir_stream_sync(s, -1);
	return r;
}

/*
 * Wait for the work that is now queued in the device's streams. Returns the
 * first failure; the other streams are waited for all the same.
 */
static int streams_sync(struct device *d)
{
	int r = 0, other;

	for (unsigned i = 0; i < 1u << STREAM_BITS; i++)
		for (struct stream *s = d->streams[i]; s; s = s->next) {
			other = stream_sync(s->weir);
			if (r == 0)
				r = other;
		}
	other = stream_sync(d->joint);
	return r < 0 ? r : other;
}

/*
 * Wait for all work, so that what was freed so far is free, and give empty
 * buffers back while the heap has more than @keep bytes. The first trim marks
 * the present ends of the streams; after the second wait the heap knows that
 * they are done.
 */
static int device_drain(struct device *d, size_t keep)
{
	int r = weir_heap_trim(d->heap, keep), sync = 0;

	for (unsigned i = 0; r == 0 && i < 2; i++) {
		sync = streams_sync(d);
		weir__torch_retry(d, UINT_MAX);
		r = weir_heap_trim(d->heap, keep);
	}
	return r < 0 ? r : sync;
}

/* PyTorch cannot go on without memory: then this waits for what is pending. */
static int device_alloc_block(struct device *d, size_t size,
			      struct CUstream_st *cuda,
			      struct weir_block *ret_block)
{
	struct weir_stream *s;
	int r = weir__torch_stream(d, cuda, &s);

	if (r < 0)
		return r;
	r = weir_heap_alloc(d->heap, size, 0, s, ret_block);
	if (r != -ENOMEM)
		return r;
	device_drain(d, SIZE_MAX);
	return weir_heap_alloc(d->heap, size, 0, s, ret_block);
}

void *weir_torch_alloc(ssize_t size, int device, struct CUstream_st *stream)
{
	struct weir_block block;
	struct device *d;
	int r;

	if (size <= 0)
		return NULL;
	r = device_get(device, &d);
	if (r == 0)
		r = device_alloc_block(d, (size_t)size, stream, &block);
	if (r < 0) {
		complain("weir_torch_alloc", device, r);
		return NULL;
	}
	return (void *)(uintptr_t)block.addr;
}

void weir_torch_free(void *ptr, ssize_t size, int device,
		     struct CUstream_st *stream)
{
	struct device *d = NULL;
	int r;

	(void)size;
	if (!ptr)
		return;
	r = device_get(device, &d);
	if (r == 0)
		r = weir__torch_free(d, (uintptr_t)ptr, stream);
	if (r == 0) {
		weir__torch_retry(d, TRIED_AGAIN);
		return;
	}
	complain("weir_torch_free", device, r);
	/* Memory of others is not kept, nor anything in a child of fork(2). */
	if (d && r != -ENOENT && r != -EPERM)
		weir__torch_keep(d, (uintptr_t)ptr, stream);
}

void weir_torch_record_stream(void *ptr, struct CUstream_st *stream)
{
	struct device *d = atomic_load(&torch.devices);
	struct weir_block block;
	int r = -ENOENT;

	for (; d; d = d->next) {
		r = weir_heap_find(d->heap, (uintptr_t)ptr, &block);
		if (r != -ENOENT)
			break;
	}
	if (r == -ENOENT)
		return;
	if (r == 0)
		r = weir__torch_use(d, (uintptr_t)ptr, stream);
	if (r < 0)
		complain("weir_torch_record_stream", d->number, r);
}

void weir_torch_empty_cache(void)
{
	struct device *d = atomic_load(&torch.devices);

	for (; d; d = d->next) {
		int r = device_drain(d, 0);

		if (r < 0)
			complain("weir_torch_empty_cache", d->number, r);
	}
}
