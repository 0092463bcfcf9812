/* SPDX-License-Identifier: MIT */
/*
 * libweir-torch.so: weir's heaps as PyTorch's allocator of GPU memory, for
 * torch.cuda.memory.CUDAPluggableAllocator. weir-hooks(7) describes it.
 *
 * PyTorch passes no context to these functions, so the root, a heap for each
 * device and a weir stream for each CUDA stream are global. They are made at
 * the first use and never freed, because PyTorch may free memory until the
 * process exits. Any thread may call these functions. Allocating a block, and
 * freeing one that no other stream uses, takes no lock here.
 *
 * In a child of fork(2) each call of the library fails. A lock may be held
 * there by a thread that the child does not have, so a lock is taken only after
 * a call of the library has succeeded.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <weir.h>
#include <weir/cuda.h>

/* Kept blocks that are tried again whenever another block is freed. */
#define TRIED_AGAIN 2u

#define STREAM_BITS 6u
#define USE_BITS 16u

/* A CUDA stream of the program. It is never freed. */
struct stream {
	struct CUstream_st *cuda;
	struct weir_stream *weir;
	struct stream *next;
};

/* A use of a block by another stream than its own. */
struct use {
	uint64_t addr;
	struct CUstream_st *cuda;
	_Atomic(struct use *) next;
};

/* A block that PyTorch has freed in @cuda, and that could not be freed yet. */
struct kept {
	uint64_t addr;
	struct CUstream_st *cuda;
	struct kept *next;
};

struct device {
	int number;
	struct device *next;
	struct weir_dev *dev;
	struct weir_heap *heap;
	/* Lists by hash. Streams are only added, without the lock. */
	_Atomic(struct stream *) streams[1u << STREAM_BITS];
	/*
	 * By hash of the block: 1 << USE_BITS lists. The lock guards them, but
	 * any thread may read whether a list is empty.
	 */
	_Atomic(struct use *) *uses;
	pthread_mutex_t lock; /* guards what follows */
	/* The oldest block first. Any thread may read n_kept. */
	struct kept *kept, **kept_end;
	_Atomic unsigned n_kept;
	/* Waits for all streams that use a block, which is then freed in it. */
	struct weir_stream *joint;
	struct weir_event *joined;
};

static struct {
	_Atomic pid_t owner;  /* the process that opened first; 0: none */
	pthread_mutex_t lock; /* guards opening */
	struct weir *weir;
	_Atomic(struct device *) devices; /* only added to */
} torch = { .lock = PTHREAD_MUTEX_INITIALIZER };

/*
 * Why the last failure of this thread happened, if the library has not failed.
 * NULL: weir_error() says why.
 */
static _Thread_local const char *reason;

WEIR_API void *weir_torch_alloc(ssize_t size, int device,
				struct CUstream_st *stream);
WEIR_API void weir_torch_free(void *ptr, ssize_t size, int device,
			      struct CUstream_st *stream);
WEIR_API void weir_torch_record_stream(void *ptr, struct CUstream_st *stream);
WEIR_API void weir_torch_empty_cache(void);

static int fail(int r, const char *why)
{
	reason = why;
	return r;
}

static int fail_no_memory(void)
{
	return fail(-ENOMEM, "no memory for bookkeeping");
}

/* PyTorch expects no errors from these functions. */
static void complain(const char *call, int device, int r)
{
	fprintf(stderr, "%s: device %d: %s: %s\n", call, device, strerror(-r),
		reason ? reason : weir_error());
	reason = NULL;
}

static size_t hash(uint64_t key, unsigned bits)
{
	return key * 0x9e3779b97f4a7c15u >> (64 - bits);
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
	d->kept_end = &d->kept;
	pthread_mutex_init(&d->lock, NULL);
	return d;
}

/* torch.lock is held. */
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
		return fail_no_memory();
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
		return fail(-EPERM, "not possible in a child of fork(2)");
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

/* If several threads add the same stream, they all get that of the first. */
static int stream_add(struct device *d, _Atomic(struct stream *) *list,
		      struct CUstream_st *cuda, struct stream **ret_stream)
{
	struct stream *s = calloc(1, sizeof(*s)), *first = atomic_load(list);
	int r;

	if (!s)
		return fail_no_memory();
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

/* Get the weir stream around a CUDA stream. Takes no lock. */
static int stream_get(struct device *d, struct CUstream_st *cuda,
		      struct weir_stream **ret_stream)
{
	_Atomic(struct stream *) *list =
		&d->streams[hash((uintptr_t)cuda, STREAM_BITS)];
	struct stream *s = stream_find(atomic_load(list), cuda);
	int r = s ? 0 : stream_add(d, list, cuda, &s);

	if (r == 0)
		*ret_stream = s->weir;
	return r;
}

/*
 * If the stream has failed, make it usable again. That is safe: a heap hands
 * out no memory for which the stream could not wait. False: it has not failed,
 * its work has not ended, or its device is lost. Never blocks.
 */
static bool stream_recover(struct weir_stream *stream)
{
	struct weir_failure f;

	return weir_stream_error(stream, &f) < 0 &&
	       weir_stream_reset(stream) == 0;
}

static _Atomic(struct use *) *uses_of(struct device *d, uint64_t addr)
{
	return &d->uses[hash(addr, USE_BITS)];
}

/* The lock is held. */
static bool use_known(struct device *d, uint64_t addr,
		      const struct CUstream_st *cuda)
{
	const struct use *u = *uses_of(d, addr);

	while (u && (u->addr != addr || u->cuda != cuda))
		u = u->next;
	return u;
}

/* Stream @cuda uses the block at @addr too. The caller has found the block. */
static int use_add(struct device *d, uint64_t addr, struct CUstream_st *cuda)
{
	_Atomic(struct use *) *list = uses_of(d, addr);
	struct use *u = calloc(1, sizeof(*u));

	if (!u)
		return fail_no_memory();
	u->addr = addr;
	u->cuda = cuda;
	pthread_mutex_lock(&d->lock);
	if (use_known(d, addr, cuda)) {
		free(u);
	} else {
		u->next = *list;
		*list = u;
	}
	pthread_mutex_unlock(&d->lock);
	return 0;
}

/* Make the joint stream wait for the work that is now in @cuda. */
static int joint_wait(struct device *d, struct CUstream_st *cuda)
{
	struct weir_stream *s;
	int r = stream_get(d, cuda, &s);

	if (r < 0)
		return r;
	r = weir_stream_record(s, d->joined);
	if (r < 0 && stream_recover(s))
		r = weir_stream_record(s, d->joined);
	return r < 0 ? r : weir_stream_wait(d->joint, d->joined);
}

/*
 * If other streams than @own use the block, let the joint stream wait for all
 * of them, and set *stream to it. The lock is held.
 */
static int uses_join(struct device *d, uint64_t addr, struct CUstream_st *own,
		     struct weir_stream **stream)
{
	bool joins = false;
	int r = 0;

	for (struct use *u = *uses_of(d, addr); r == 0 && u; u = u->next) {
		if (u->addr != addr || u->cuda == own)
			continue;
		if (!joins)
			r = joint_wait(d, own);
		if (r == 0)
			r = joint_wait(d, u->cuda);
		joins = true;
	}
	if (r == 0 && joins)
		*stream = d->joint;
	return r;
}

/* Forget the uses of a block that is free. The lock is held. */
static void uses_drop(struct device *d, uint64_t addr)
{
	_Atomic(struct use *) *at = uses_of(d, addr);
	struct use *u;

	while ((u = *at)) {
		if (u->addr != addr) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		free(u);
	}
}

/* Free a block that may have uses, which remain if that fails. */
static int used_free(struct device *d, const struct weir_block *block,
		     struct CUstream_st *own, struct weir_stream *s)
{
	int r;

	pthread_mutex_lock(&d->lock);
	r = uses_join(d, block->addr, own, &s);
	/* A joint stream that has failed queues no more waits. */
	if (r < 0 && stream_recover(d->joint))
		r = uses_join(d, block->addr, own, &s);
	if (r == 0)
		r = weir_heap_free(block, s);
	if (r == 0)
		uses_drop(d, block->addr);
	pthread_mutex_unlock(&d->lock);
	return r;
}

/*
 * Free the block at @addr in @cuda, after the work of all streams that use it.
 */
static int block_free(struct device *d, uint64_t addr, struct CUstream_st *cuda)
{
	struct weir_block block;
	struct weir_stream *s;
	int r = weir_heap_find(d->heap, addr, &block);

	if (r == 0)
		r = stream_get(d, cuda, &s);
	if (r < 0)
		return r;
	return atomic_load(uses_of(d, addr)) ? used_free(d, &block, cuda, s)
					     : weir_heap_free(&block, s);
}

static void kept_append(struct device *d, struct kept *b)
{
	b->next = NULL;
	pthread_mutex_lock(&d->lock);
	*d->kept_end = b;
	d->kept_end = &b->next;
	atomic_fetch_add(&d->n_kept, 1);
	pthread_mutex_unlock(&d->lock);
}

static struct kept *kept_take(struct device *d)
{
	struct kept *b;

	pthread_mutex_lock(&d->lock);
	b = d->kept;
	if (b) {
		d->kept = b->next;
		if (!d->kept)
			d->kept_end = &d->kept;
		atomic_fetch_sub(&d->n_kept, 1);
	}
	pthread_mutex_unlock(&d->lock);
	return b;
}

/*
 * Keep a block that could not be freed, since work may still use it: a later
 * call frees it. Without memory for this the block stays allocated for ever.
 */
static void kept_add(struct device *d, uint64_t addr, struct CUstream_st *cuda)
{
	struct kept *b = calloc(1, sizeof(*b));

	if (!b)
		return;
	b->addr = addr;
	b->cuda = cuda;
	kept_append(d, b);
}

/*
 * Try to free up to @most kept blocks, the oldest first. Not in a child of
 * fork(2).
 */
static void kept_retry(struct device *d, unsigned most)
{
	unsigned n = atomic_load(&d->n_kept);
	struct kept *b;

	if (n > most)
		n = most;
	while (n-- && (b = kept_take(d))) {
		if (block_free(d, b->addr, b->cuda) < 0)
			kept_append(d, b);
		else
			free(b);
	}
	/* These failures are not reported. */
	reason = NULL;
}

static int stream_sync(struct weir_stream *s)
{
	int r = weir_stream_sync(s, -1);

	if (r < 0 && stream_recover(s))
		r = weir_stream_sync(s, -1);
	return r;
}

/*
 * Wait for the work that is now queued in the device's streams, in all of them
 * even if one fails. Returns the first failure.
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
 * Wait for all work, so that the blocks that were freed so far can be allocated
 * again, and give empty buffers back while the heap has more than @keep bytes.
 * The first trim marks the present ends of the streams; after the second wait
 * the heap knows that they are done.
 */
static int device_drain(struct device *d, size_t keep)
{
	int r = weir_heap_trim(d->heap, keep), sync = 0;

	for (unsigned i = 0; r == 0 && i < 2; i++) {
		sync = streams_sync(d);
		kept_retry(d, UINT_MAX);
		r = weir_heap_trim(d->heap, keep);
	}
	return r < 0 ? r : sync;
}

/*
 * PyTorch cannot continue without memory, so if there is none this waits for
 * the memory that is pending.
 */
static int device_alloc_block(struct device *d, size_t size,
			      struct CUstream_st *cuda,
			      struct weir_block *ret_block)
{
	struct weir_stream *s;
	int r = stream_get(d, cuda, &s);

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
		r = block_free(d, (uintptr_t)ptr, stream);
	if (r == 0) {
		kept_retry(d, TRIED_AGAIN);
		return;
	}
	complain("weir_torch_free", device, r);
	/* Memory of another allocator is not kept, and nothing after a fork. */
	if (d && r != -ENOENT && r != -EPERM)
		kept_add(d, (uintptr_t)ptr, stream);
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
		r = use_add(d, (uintptr_t)ptr, stream);
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
