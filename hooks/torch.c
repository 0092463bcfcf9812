/* SPDX-License-Identifier: MIT */
/*
 * libweir-torch.so: weir's heaps as PyTorch's allocator of GPU memory, for
 * torch.cuda.memory.CUDAPluggableAllocator. weir-hooks(7) describes it.
 *
 * PyTorch passes no context to these functions, so the root, a heap for each
 * device and a weir stream for each CUDA stream are global. They are made at
 * the first use and never freed: PyTorch may free memory until the process
 * exits. Any thread may call.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <weir.h>
#include <weir/cuda.h>

#define BUCKETS 64u
#define EMPTY_ROUNDS 16u

/* A CUDA stream of the program; never freed. */
struct stream {
	struct CUstream_st *cuda;
	struct weir_stream *weir;
	struct stream *next;
};

/* A use of a block by another stream than its own. */
struct use {
	uint64_t addr;
	struct weir_stream *stream;
	struct use *next;
};

struct device {
	int number;
	struct device *next;
	struct weir_dev *dev;
	struct weir_heap *heap;
	pthread_mutex_t lock; /* guards the members below */
	struct stream *streams[BUCKETS];
	struct use *uses;
	/* Waits for all streams that use a block, which is then freed in it. */
	struct weir_stream *joint;
	struct weir_event *joined;
};

static struct {
	pthread_mutex_t lock; /* guards opening */
	struct weir *weir;
	struct device *devices; /* only added to; read without the lock */
} torch = { .lock = PTHREAD_MUTEX_INITIALIZER };

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
		weir_error());
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

/* Called with the lock. */
static int device_make(int number, struct device **ret_device)
{
	struct device *d;
	int r = 0;

	if (!torch.weir)
		r = weir_open(NULL, &torch.weir);
	if (r < 0)
		return r;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	pthread_mutex_init(&d->lock, NULL);
	r = device_init(d, number);
	if (r < 0) {
		free(d);
		return r;
	}
	d->next = torch.devices;
	__atomic_store_n(&torch.devices, d, __ATOMIC_RELEASE);
	*ret_device = d;
	return 0;
}

static struct device *device_find(int number)
{
	struct device *d = __atomic_load_n(&torch.devices, __ATOMIC_ACQUIRE);

	while (d && d->number != number)
		d = d->next;
	return d;
}

static int device_get(int number, struct device **ret_device)
{
	struct device *d = device_find(number);
	int r = 0;

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

static int stream_add(struct device *d, struct CUstream_st *cuda,
		      struct stream **list)
{
	struct stream *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->cuda = cuda;
	r = weir_cuda_stream_wrap(d->dev, cuda, &s->weir);
	if (r < 0) {
		free(s);
		return r;
	}
	s->next = *list;
	*list = s;
	return 0;
}

/* The weir stream around a CUDA stream. Called with the device's lock. */
static int stream_get(struct device *d, struct CUstream_st *cuda,
		      struct weir_stream **ret_stream)
{
	struct stream **list = &d->streams[((uintptr_t)cuda >> 4) % BUCKETS];
	struct stream *s = *list;
	int r = 0;

	while (s && s->cuda != cuda)
		s = s->next;
	if (!s) {
		r = stream_add(d, cuda, list);
		s = *list;
	}
	if (r == 0)
		*ret_stream = s->weir;
	return r;
}

void *weir_torch_alloc(ssize_t size, int device, struct CUstream_st *stream)
{
	struct weir_stream *s;
	struct weir_block block;
	struct device *d;
	int r;

	if (size <= 0)
		return NULL;
	r = device_get(device, &d);
	if (r == 0) {
		pthread_mutex_lock(&d->lock);
		r = stream_get(d, stream, &s);
		pthread_mutex_unlock(&d->lock);
	}
	if (r == 0)
		r = weir_heap_alloc(d->heap, (size_t)size, 0, s, &block);
	if (r < 0) {
		complain("weir_torch_alloc", device, r);
		return NULL;
	}
	return (void *)(uintptr_t)block.addr;
}

static int joint_wait(struct device *d, struct weir_stream *stream)
{
	int r = weir_stream_record(stream, d->joined);

	return r < 0 ? r : weir_stream_wait(d->joint, d->joined);
}

/*
 * If other streams than *stream use the block, set *stream to the joint stream,
 * which then waits for all of them. Takes the uses from the list.
 */
static int uses_join(struct device *d, uint64_t addr,
		     struct weir_stream **stream)
{
	struct weir_stream *own = *stream;
	struct use **at = &d->uses, *u;
	int r = 0;

	while ((u = *at)) {
		if (u->addr != addr) {
			at = &u->next;
			continue;
		}
		if (r == 0 && u->stream != own && *stream == own)
			r = joint_wait(d, own);
		if (r == 0 && u->stream != own) {
			r = joint_wait(d, u->stream);
			*stream = d->joint;
		}
		*at = u->next;
		free(u);
	}
	return r;
}

static int block_free(struct device *d, uint64_t addr,
		      struct CUstream_st *stream)
{
	struct weir_block block;
	struct weir_stream *s;
	int r;

	pthread_mutex_lock(&d->lock);
	r = stream_get(d, stream, &s);
	if (r == 0)
		r = uses_join(d, addr, &s);
	pthread_mutex_unlock(&d->lock);
	if (r == 0)
		r = weir_heap_find(d->heap, addr, &block);
	return r < 0 ? r : weir_heap_free(&block, s);
}

/* On failure the block stays allocated: it may still be in use. */
void weir_torch_free(void *ptr, ssize_t size, int device,
		     struct CUstream_st *stream)
{
	struct device *d;
	int r;

	(void)size;
	if (!ptr)
		return;
	r = device_get(device, &d);
	if (r == 0)
		r = block_free(d, (uintptr_t)ptr, stream);
	if (r < 0)
		complain("weir_torch_free", device, r);
}

static bool use_known(const struct device *d, const struct use *use)
{
	const struct use *u = d->uses;

	while (u && (u->addr != use->addr || u->stream != use->stream))
		u = u->next;
	return u;
}

static int use_add(struct device *d, uint64_t addr, struct CUstream_st *cuda)
{
	struct use *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return -ENOMEM;
	u->addr = addr;
	pthread_mutex_lock(&d->lock);
	r = stream_get(d, cuda, &u->stream);
	if (r < 0 || use_known(d, u)) {
		free(u);
	} else {
		u->next = d->uses;
		d->uses = u;
	}
	pthread_mutex_unlock(&d->lock);
	return r;
}

void weir_torch_record_stream(void *ptr, struct CUstream_st *stream)
{
	struct device *d = __atomic_load_n(&torch.devices, __ATOMIC_ACQUIRE);
	struct weir_block block;
	int r;

	while (d && weir_heap_find(d->heap, (uintptr_t)ptr, &block) < 0)
		d = d->next;
	if (!d)
		return;
	r = use_add(d, (uintptr_t)ptr, stream);
	if (r < 0)
		complain("weir_torch_record_stream", d->number, r);
}

/* Wait for the work that is now queued in the device's streams. */
static int streams_sync(struct device *d)
{
	int r = 0;

	pthread_mutex_lock(&d->lock);
	for (unsigned i = 0; i < BUCKETS && r == 0; i++)
		for (struct stream *s = d->streams[i]; s && r == 0; s = s->next)
			r = weir_stream_sync(s->weir, -1);
	if (r == 0)
		r = weir_stream_sync(d->joint, -1);
	pthread_mutex_unlock(&d->lock);
	return r;
}

/*
 * A trim marks the present ends of some streams, so that the heap knows later
 * that their work is done. Other threads may free more meanwhile.
 */
static int device_empty(struct device *d)
{
	struct weir_heap_stats s = { .size = sizeof(s), .pending = 1 };
	int r = 0;

	for (unsigned i = 0; r == 0 && s.pending && i < EMPTY_ROUNDS; i++) {
		if (i)
			r = streams_sync(d);
		if (r == 0)
			r = weir_heap_trim(d->heap, 0);
		if (r == 0)
			r = weir_heap_stats(d->heap, &s);
	}
	return r;
}

void weir_torch_empty_cache(void)
{
	struct device *d = __atomic_load_n(&torch.devices, __ATOMIC_ACQUIRE);

	for (; d; d = d->next) {
		int r = device_empty(d);

		if (r < 0)
			complain("weir_torch_empty_cache", d->number, r);
	}
}
