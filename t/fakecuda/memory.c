/* SPDX-License-Identifier: MIT */
/*
 * The ranges of memory that the driver knows (device memory and page-locked
 * host memory), as a sorted list; and device memory itself.
 */
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "kernel.h"

#define GRAIN ((size_t)512)
#define LARGE      \
	((size_t)1 \
	 << 20) /* this and larger sizes begin at multiples of 2 MiB */
#define POISON ((size_t)1 << 20) /* bytes at each end of fresh memory */

/* Sorted by address; none overlap. */
static struct fc_range **ranges;
static size_t n_ranges, room;
static uint64_t last_id;

/* The first range that ends after @at. */
static size_t position(uintptr_t at)
{
	size_t low = 0, high = n_ranges, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (ranges[mid]->end > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* The range that contains the byte at @ptr, or NULL. */
struct fc_range *fc_range_of(const void *ptr)
{
	uintptr_t at = (uintptr_t)ptr;
	size_t i = position(at);

	return i < n_ranges && ranges[i]->start <= at ? ranges[i] : NULL;
}

bool fc_range_overlaps(uintptr_t start, uintptr_t end)
{
	size_t i = position(start);

	return i < n_ranges && ranges[i]->start < end;
}

/* True if work may go on in the range that follows. */
static bool adjoins(const struct fc_range *range)
{
	return range->piece || (range->mapped && range->memory == FC_DEVICE);
}

uintptr_t fc_range_end(const struct fc_range *range)
{
	size_t i = position(range->start);

	while (adjoins(range) && ++i < n_ranges && adjoins(ranges[i]) &&
	       ranges[i]->start == range->end)
		range = ranges[i];
	return range->end;
}

/* Copies @range, which must not overlap another. NULL: no memory. */
struct fc_range *fc_range_add(const struct fc_range *range)
{
	struct fc_range *copy, **more;
	size_t i;

	if (n_ranges == room) {
		more = realloc(ranges, (2 * room + 64) * sizeof(*ranges));
		if (!more)
			return NULL;
		ranges = more;
		room = 2 * room + 64;
	}
	copy = malloc(sizeof(*copy));
	if (!copy)
		return NULL;
	*copy = *range;
	copy->id = ++last_id;
	i = position(range->start);
	memmove(&ranges[i + 1], &ranges[i], (n_ranges - i) * sizeof(*ranges));
	ranges[i] = copy;
	n_ranges++;
	return copy;
}

void fc_range_remove(struct fc_range *range)
{
	size_t i = position(range->start);

	n_ranges--;
	memmove(&ranges[i], &ranges[i + 1], (n_ranges - i) * sizeof(*ranges));
	free(range);
}

/* The driver's mapping of @ptr. */
void *fc_shadow(struct fc_device *dev, const void *ptr)
{
	return dev->shadow + ((uintptr_t)ptr - (uintptr_t)dev->base);
}

void *fakecuda_at(uint64_t ptr)
{
	struct fc_range *range;
	void *ret = NULL;

	pthread_mutex_lock(&fc.lock);
	range = fc_range_of((void *)(uintptr_t)ptr);
	if (range && range->memory == FC_DEVICE)
		ret = fc_shadow(range->device, (void *)(uintptr_t)ptr);
	/* The caller may write there. */
	if (ret)
		fc_written(ret, range->end - ptr);
	pthread_mutex_unlock(&fc.lock);
	return ret;
}

/* A gap of @size between @from and the end of the device; 0: none. */
static uintptr_t gap(const struct fc_device *dev, uintptr_t from, size_t size)
{
	size_t align = size >= LARGE ? 2 * LARGE : GRAIN;
	uintptr_t end = (uintptr_t)dev->base + dev->span, at = from;
	size_t i;

	for (i = position(from);; i++) {
		at = (at + align - 1) / align * align;
		if (at > end || end - at < size)
			return 0;
		/* A guard before the next range. */
		if (i == n_ranges || at + size + GRAIN <= ranges[i]->start)
			return at;
		at = ranges[i]->end + GRAIN;
	}
}

/* Next fit, so that freed addresses are not used again soon. */
uintptr_t fc_room(struct fc_device *dev, size_t size)
{
	uintptr_t base = (uintptr_t)dev->base, at;

	at = gap(dev, base + dev->cursor, size);
	if (!at)
		at = gap(dev, base, size);
	if (at)
		dev->cursor = at + size + GRAIN - base;
	return at;
}

/* Fresh memory must not be zero, so that no program relies on it. */
void fc_poison(struct fc_device *dev, uintptr_t at, size_t size)
{
	char *p = fc_shadow(dev, (void *)at);
	size_t n = size < POISON ? size : POISON;

	if (fc.opt.dry)
		return;
	memset(p, 0xcd, n);
	memset(p + size - n, 0xcd, n);
}

static CUresult device_alloc(struct fc_call *call, CUdeviceptr *ret,
			     size_t bytes)
{
	struct fc_device *dev = call->ctx->device;
	size_t size = (bytes + GRAIN - 1) / GRAIN * GRAIN;
	struct fc_range range = { .memory = FC_DEVICE,
				  .ctx = call->ctx,
				  .device = dev };

	if (!bytes || !ret)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "%zu bytes",
				bytes);
	if (size < bytes || dev->used >= fc.opt.mem ||
	    size > fc.opt.mem - dev->used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range.start = fc_room(dev, size);
	range.end = range.start + bytes;
	if (!range.start || !fc_range_add(&range))
		return CUDA_ERROR_OUT_OF_MEMORY;
	dev->used += size;
	fc.count.device_bytes += size;
	if (fc.count.device_bytes > fc.count.device_peak)
		fc.count.device_peak = fc.count.device_bytes;
	fc_made(FAKECUDA_DEVICE_MEMORY);
	fc_poison(dev, range.start, size);
	*ret = range.start;
	fc_note(call, "%zu -> %#llx ", bytes, *ret);
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes)
{
	FC_ENTER("cuMemAlloc", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, device_alloc(&call, ret, bytes));
}

static void set_bits(unsigned char *bits, uint64_t from, uint64_t n)
{
	uint64_t end = from + n;

	for (; from < end && from % 8; from++)
		__atomic_fetch_or(&bits[from / 8],
				  (unsigned char)(1u << from % 8),
				  __ATOMIC_RELAXED);
	memset(bits + from / 8, 0xff, (end - from) / 8);
	for (from += (end - from) / 8 * 8; from < end; from++)
		__atomic_fetch_or(&bits[from / 8],
				  (unsigned char)(1u << from % 8),
				  __ATOMIC_RELAXED);
}

void fc_written(const void *shadow, size_t bytes)
{
	uintptr_t at = (uintptr_t)shadow;
	unsigned i;

	for (i = 0; i < fc.opt.devices; i++) {
		const struct fc_device *dev = &fc.device[i];
		uintptr_t base = (uintptr_t)dev->shadow;

		if (base && at >= base && at - base < dev->span)
			set_bits(dev->written, at - base, bytes);
	}
}

static bool is_tracked(const struct fc_device *dev, uint64_t from)
{
	const struct fc_range *r = fc_range_of(dev->base + from);

	return r && !r->mapped;
}

bool fc_is_written(const void *shadow, size_t bytes)
{
	uintptr_t at = (uintptr_t)shadow;
	bool all = true;

	for (unsigned i = 0; i < fc.opt.devices; i++) {
		const struct fc_device *dev = &fc.device[i];
		uintptr_t base = (uintptr_t)dev->shadow;

		if (!base || at < base || at - base >= dev->span)
			continue;
		for (uint64_t b = at - base; b < at - base + bytes; b++)
			all = all && dev->written[b / 8] >> b % 8 & 1;
		if (!all)
			all = !is_tracked(dev, at - base);
	}
	return all;
}

/* Whole pages of bits are dropped, so that they take no memory. */
static void unwritten(struct fc_device *dev, uint64_t from, size_t bytes)
{
	unsigned char *at = dev->written + from / 8;
	uintptr_t first = ((uintptr_t)at + 4095) & ~(uintptr_t)4095;
	uintptr_t last = (uintptr_t)(at + bytes / 8) & ~(uintptr_t)4095;

	if (first >= last) {
		memset(at, 0, bytes / 8);
		return;
	}
	memset(at, 0, first - (uintptr_t)at);
	memset((void *)last, 0, (uintptr_t)(at + bytes / 8) - last);
	madvise((void *)first, last - first, MADV_DONTNEED);
}

static bool reaches(const struct CUctx_st *ctx, const struct fc_range *r)
{
	return r->memory == FC_HOST || r->memory == FC_REGISTERED ||
	       (r->memory == FC_DEVICE &&
		(r->device == ctx->device ||
		 ctx->peers >> r->device->ordinal & 1));
}

/* Under fc.lock. Ranges are not freed while work of the context runs. */
size_t fc_ranges_of(struct CUctx_st *ctx, struct ptx_range **ret)
{
	struct ptx_range *list = calloc(n_ranges + 1, sizeof(*list));
	size_t i, n = 0;

	for (i = 0; list && i < n_ranges; i++) {
		const struct fc_range *r = ranges[i];
		bool dev = r->memory == FC_DEVICE;

		if (!reaches(ctx, r))
			continue;
		list[n].start = r->start;
		list[n].end = r->end;
		list[n].readonly = r->readonly;
		list[n].at = dev ? fc_shadow(r->device, (void *)r->start)
				 : (void *)r->start;
		list[n].valid = dev && !r->mapped ? r->device->written : NULL;
		list[n].valid_base = (uintptr_t)r->device->base;
		n++;
	}
	*ret = list;
	return n;
}

/* Punches whole pages out of the memfd. */
void fc_punch(struct fc_device *dev, uintptr_t at, size_t size)
{
	fallocate(dev->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)(at - (uintptr_t)dev->base), (off_t)size);
	unwritten(dev, at - (uintptr_t)dev->base, size);
}

void fc_device_memory_free(struct fc_range *range)
{
	struct fc_device *dev = range->device;
	size_t size = (range->end - range->start + GRAIN - 1) / GRAIN * GRAIN;

	fc_punch(dev, range->start, size);
	dev->used -= size;
	fc.count.device_bytes -= size;
	fc_range_remove(range);
}

/* Like a real driver, waits until all work of the context is done. */
static CUresult device_free(struct fc_call *call, CUdeviceptr ptr)
{
	struct fc_range *range;
	CUresult result;

	if (!ptr)
		return CUDA_SUCCESS;
	fc_streams_wait(call->ctx);
	result = fc_context_error(call->ctx);
	if (result != CUDA_SUCCESS)
		return result;
	range = fc_range_of((void *)(uintptr_t)ptr);
	if (!range || range->memory != FC_DEVICE || range->start != ptr ||
	    range->piece || range->mapped || range->code)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%#llx is no allocation", ptr);
	fc_went(FAKECUDA_DEVICE_MEMORY);
	fc_device_memory_free(range);
	fc_note(call, "%#llx ", ptr);
	return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	FC_ENTER("cuMemFree", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, device_free(&call, ptr));
}

/* Under fc.lock. 0: no room. */
static uintptr_t map_pieces(struct fc_device *dev, size_t bytes, unsigned n)
{
	struct fc_range range = { .memory = FC_DEVICE,
				  .device = dev,
				  .piece = true };
	uintptr_t at = fc_room(dev, n * bytes);

	for (unsigned i = 0; at && i < n; i++) {
		range.start = at + i * bytes;
		range.end = range.start + bytes;
		if (!fc_range_add(&range))
			return 0;
		dev->used += bytes;
		fc.count.device_bytes += bytes;
		fc_poison(dev, range.start, bytes);
	}
	return at;
}

uint64_t fakecuda_map(int ordinal, size_t bytes, unsigned n)
{
	uintptr_t at = 0;

	if (ordinal < 0 || (unsigned)ordinal >= fc.opt.devices || !bytes ||
	    bytes % GRAIN)
		return 0;
	pthread_mutex_lock(&fc.lock);
	at = map_pieces(&fc.device[ordinal], bytes, n);
	pthread_mutex_unlock(&fc.lock);
	return at;
}

void fakecuda_unmap(uint64_t ptr)
{
	struct fc_range *range;

	pthread_mutex_lock(&fc.lock);
	while ((range = fc_range_of((void *)(uintptr_t)ptr)) && range->piece) {
		ptr = range->end;
		fc_device_memory_free(range);
	}
	pthread_mutex_unlock(&fc.lock);
}

CUresult cuMemGetInfo_v2(size_t *ret_free, size_t *ret_total)
{
	FC_ENTER("cuMemGetInfo", FC_CTX);
	uint64_t used = call.ctx->device->used;

	if (ret_free)
		*ret_free = fc.opt.mem > used ? fc.opt.mem - used : 0;
	if (ret_total)
		*ret_total = fc.opt.mem;
	return fc_leave(&call, CUDA_SUCCESS);
}

/* Free all memory of a context that ends. */
void fc_memory_drop(struct CUctx_st *ctx)
{
	static const enum fakecuda_thing things[] = {
		[FC_DEVICE] = FAKECUDA_DEVICE_MEMORY,
		[FC_HOST] = FAKECUDA_HOST_MEMORY,
		[FC_REGISTERED] = FAKECUDA_REGISTERED,
	};
	size_t i = n_ranges;

	while (i--) {
		struct fc_range *range = ranges[i];

		if (range->ctx != ctx || range->code)
			continue;
		fc_went_with_context(things[range->memory]);
		if (range->memory == FC_DEVICE)
			fc_device_memory_free(range);
		else
			fc_host_memory_free(range);
	}
}
