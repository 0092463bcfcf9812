/* SPDX-License-Identifier: MIT */
/*
 * Memory of a GPU, host memory that is page-locked for it, and blocking moves
 * by one stream of the device. Page-locked memory is the library's, in huge
 * pages that several threads prefault, registered with the driver; or the
 * driver's own, if registering is refused.
 */
#include "cuda/memory.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define drv weir__cuda_drv
#define PAGE ((size_t)4096)
/* The flags for pages of the library: see weir_buf_alloc(). */
#define PAGE_FLAGS (WEIR_BUF_HUGETLB | WEIR_BUF_HUGETLB_1G | WEIR_BUF_SHARED)

/*
 * The driver's memory type of @ptr; 0: the driver does not know it. A context
 * is current.
 */
static CUresult memory_type(struct weir__cuda *c, const void *ptr,
			    CUmemorytype *ret_type)
{
	CUresult r;

	*ret_type = 0;
	r = drv.cuPointerGetAttribute(ret_type,
				      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				      (CUdeviceptr)(uintptr_t)ptr);
	weir__cuda_note(c, r);
	/* The result for memory that the driver does not know. */
	return r == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : r;
}

bool weir__cuda_is_pinned(struct weir__cuda *c, const void *ptr)
{
	CUmemorytype type;

	return !memory_type(c, ptr, &type) && type == CU_MEMORYTYPE_HOST;
}

/* Register the pages with the driver, for all of its contexts. */
static CUresult lock_pages(struct weir__cuda *c, void *ptr, size_t bytes,
			   unsigned flags)
{
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (!drv.cuMemHostRegister || !drv.cuMemHostUnregister)
		return r;
	r = weir__cuda_push(c);
	if (r)
		return r;
	r = drv.cuMemHostRegister(ptr, bytes,
				  CU_MEMHOSTREGISTER_PORTABLE | flags);
	weir__cuda_leave();
	weir__cuda_note(c, r);
	return r;
}

static CUresult unregister(struct weir__cuda *c, void *ptr)
{
	CUresult r = weir__cuda_push(c);

	if (r)
		return r;
	r = drv.cuMemHostUnregister(ptr);
	weir__cuda_leave();
	weir__cuda_note(c, r);
	return r;
}

/*
 * Returns false if the device may still access the pages. A call that fails is
 * repeated once: the pages stay allocated until then, so their address cannot
 * be that of other memory by now.
 */
static bool unlock_pages(struct weir__cuda *c, void *ptr)
{
	CUresult r = unregister(c, ptr);

	if (!r || atomic_load(&c->lost))
		return !r;
	r = unregister(c, ptr);
	return !r || r == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

static void explain_lesser(struct weir_backend_mem *mem, const char *what,
			   CUresult r)
{
	size_t at = strlen(mem->why);
	char words[160];

	weir__cuda_describe_result((int32_t)r, words, sizeof(words));
	snprintf(mem->why + at, sizeof(mem->why) - at, "%s%s: %s",
		 at ? "; " : "", what, words);
}

void weir__cuda_describe_free(struct weir__cuda *c, CUresult r, char *text,
			      size_t room)
{
	size_t avail, total;
	CUresult info;

	text[0] = '\0';
	if (r != CUDA_ERROR_OUT_OF_MEMORY || !drv.cuMemGetInfo)
		return;
	info = drv.cuMemGetInfo(&avail, &total);
	weir__cuda_note(c, info);
	if (!info)
		snprintf(text, room, " (%zu of %zu are free)", avail, total);
}

static int alloc_device(struct weir__cuda *c, size_t bytes,
			struct weir_backend_mem *mem)
{
	CUdeviceptr ptr = 0;
	char memory[64];
	CUresult r;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	r = drv.cuMemAlloc(&ptr, bytes);
	weir__cuda_describe_free(c, r, memory, sizeof(memory));
	weir__cuda_leave();
	if (r)
		return weir__cuda_fail(c, r, "cuMemAlloc of %zu bytes%s", bytes,
				       memory);
	mem->base = (unsigned char *)(uintptr_t)ptr;
	mem->how = ON_DEVICE;
	/* There are no host pages to prefault. */
	__atomic_store_n(&mem->backed, bytes, __ATOMIC_SEQ_CST);
	return 0;
}

/* The driver's host memory counts towards the root's budget. */
static int host_reserve(struct weir__cuda *c, size_t bytes)
{
	return WEIR_BACKEND_HAS(c->host, host_unreserve)
		       ? c->host->host_reserve(c->host->dev_root(c->dev), bytes)
		       : 0;
}

static void host_unreserve(struct weir__cuda *c, size_t bytes)
{
	if (WEIR_BACKEND_HAS(c->host, host_unreserve))
		c->host->host_unreserve(c->host->dev_root(c->dev), bytes);
}

/*
 * Allocate the driver's own page-locked memory, which the caller has reserved.
 */
static CUresult alloc_drivers(struct weir__cuda *c, size_t bytes,
			      unsigned flags, struct weir_backend_mem *mem)
{
	void *ptr = NULL;
	CUresult r;

	r = weir__cuda_push(c);
	if (!r) {
		r = drv.cuMemHostAlloc(&ptr, bytes,
				       CU_MEMHOSTALLOC_PORTABLE | flags);
		weir__cuda_leave();
		weir__cuda_note(c, r);
	}
	if (r) {
		host_unreserve(c, bytes);
		return r;
	}
	mem->base = ptr;
	mem->how = DRIVERS;
	mem->node = -1;
	mem->got |= WEIR_GOT_LOCKED;
	__atomic_store_n(&mem->backed, bytes, __ATOMIC_SEQ_CST);
	return r;
}

/*
 * Allocate pages of the library, hidden from the children of fork: a device
 * that they are registered with may write to them at any time.
 */
static int alloc_pages(struct weir__cuda *c, size_t bytes,
		       const struct weir_buf_opts *opts,
		       struct weir_backend_mem *mem)
{
	int32_t node = opts->flags & WEIR_BUF_ON_NODE ? opts->node : c->node;
	uint32_t flags = WEIR_BUF_PREFAULT | (opts->flags & PAGE_FLAGS);
	int r;

	/* The device's own node is preferred; only the caller's is strict. */
	if (opts->flags & WEIR_BUF_ON_NODE)
		flags |= opts->flags & WEIR_BUF_STRICT;
	r = c->host->host_alloc(c->host->dev_root(c->dev), WEIR_MEM_HUGE, bytes,
				node, flags, mem);
	if (r < 0)
		return r;
	c->host->host_hide(mem, true);
	mem->how = PAGEABLE;
	return 0;
}

static void free_pages(struct weir__cuda *c, struct weir_backend_mem *mem)
{
	c->host->host_free(c->host->dev_root(c->dev), mem);
}

static int alloc_write_combined(struct weir__cuda *c, size_t bytes,
				struct weir_backend_mem *mem)
{
	int ret = host_reserve(c, bytes);
	CUresult r;

	if (ret < 0)
		return ret;
	r = alloc_drivers(c, bytes, CU_MEMHOSTALLOC_WRITECOMBINED, mem);
	if (r)
		return weir__cuda_fail(
			c, r, "cuMemHostAlloc of %zu bytes, write-combined",
			bytes);
	mem->got |= WEIR_GOT_WRITE_COMBINED;
	return 0;
}

/* Shared pages that the driver has refused to register. */
static int stay_pageable(struct weir__cuda *c, size_t bytes,
			 const struct weir_buf_opts *opts,
			 struct weir_backend_mem *mem, CUresult r)
{
	explain_lesser(mem, "not page-locked: cuMemHostRegister", r);
	if (!(opts->flags & WEIR_BUF_STRICT))
		return 0;
	free_pages(c, mem);
	return weir__cuda_fail(
		c, r,
		"%zu shared bytes cannot be page-locked: cuMemHostRegister",
		bytes);
}

/* Registered pages; else the driver's memory; else pages not page-locked. */
static int alloc_pinned(struct weir__cuda *c, size_t bytes,
			const struct weir_buf_opts *opts,
			struct weir_backend_mem *mem)
{
	char why[sizeof(mem->why)];
	CUresult r;
	int ret = alloc_pages(c, bytes, opts, mem);

	if (ret < 0)
		return ret;
	r = lock_pages(c, mem->base, (bytes + PAGE - 1) & ~(PAGE - 1), 0);
	if (!r) {
		mem->how = REGISTERED;
		mem->got |= WEIR_GOT_LOCKED;
		return 0;
	}
	/* The driver's own memory has no descriptor. */
	if (opts->flags & WEIR_BUF_SHARED)
		return stay_pageable(c, bytes, opts, mem, r);
	explain_lesser(mem, "the driver's own memory: cuMemHostRegister", r);
	memcpy(why, mem->why, sizeof(why));
	free_pages(c, mem);
	memset(mem, 0, sizeof(*mem));
	memcpy(mem->why, why, sizeof(why));
	ret = host_reserve(c, bytes);
	if (ret < 0)
		return ret;
	r = alloc_drivers(c, bytes, 0, mem);
	if (!r)
		return 0;
	if (opts->flags & WEIR_BUF_STRICT || atomic_load(&c->lost))
		return weir__cuda_fail(
			c, r, "%zu bytes cannot be page-locked: cuMemHostAlloc",
			bytes);
	ret = alloc_pages(c, bytes, opts, mem);
	if (ret < 0)
		return ret;
	mem->why[0] = '\0';
	explain_lesser(mem, "not page-locked: cuMemHostAlloc", r);
	return 0;
}

static int cuda_alloc(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      const struct weir_buf_opts *opts,
		      struct weir_backend_mem *mem)
{
	struct weir__cuda *c = weir__cuda_of(dev);

	mem->node = -1;
	if (desc->kind == WEIR_MEM_DEVICE && opts->flags & WEIR_BUF_SHARED)
		return weir__cuda_alloc_shared(c, bytes, mem);
	if (desc->kind == WEIR_MEM_DEVICE && opts->flags & WEIR_BUF_PARKABLE &&
	    weir__cuda_has_virtual())
		return weir__cuda_alloc_virtual(c, bytes, mem);
	if (desc->kind == WEIR_MEM_DEVICE) {
		if (opts->flags & WEIR_BUF_PARKABLE)
			snprintf(
				mem->why, sizeof(mem->why),
				"the driver lacks the calls for virtual memory");
		return alloc_device(c, bytes, mem);
	}
	if (opts->flags & WEIR_BUF_WRITE_COMBINED)
		return alloc_write_combined(c, bytes, mem);
	return alloc_pinned(c, bytes, opts, mem);
}

/* The whole pages that the driver locks for @bytes at @base. */
static size_t locked_length(const void *base, size_t bytes)
{
	size_t before = (uintptr_t)base & (PAGE - 1);

	return (before + bytes + PAGE - 1) & ~(PAGE - 1);
}

/* Returns true if it is freed: a lost device has no memory any more. */
static bool free_drivers(struct weir__cuda *c, struct weir_backend_mem *mem)
{
	CUresult r;

	if (weir__cuda_push(c))
		return mem->how == ON_DEVICE && atomic_load(&c->lost);
	r = mem->how == ON_DEVICE
		    ? drv.cuMemFree((CUdeviceptr)(uintptr_t)mem->base)
		    : drv.cuMemFreeHost(mem->base);
	weir__cuda_leave();
	weir__cuda_note(c, r);
	return !r;
}

static void cuda_free(struct weir_dev *dev,
		      const struct weir_backend_buft *desc, size_t bytes,
		      struct weir_backend_mem *mem)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	bool gone = true;

	switch ((enum mem_kind)mem->how) {
	case NOTHING:
		return;
	case ON_DEVICE:
		gone = free_drivers(c, mem);
		break;
	case VIRTUAL:
	case RESERVED:
		gone = weir__cuda_free_virtual(c, mem);
		break;
	case GRANULES:
		gone = weir__cuda_free_granules(c, mem);
		break;
	case IMPORTED:
		gone = weir__cuda_free_imported(c, mem);
		break;
	case DRIVERS:
		gone = free_drivers(c, mem);
		if (gone)
			host_unreserve(c, bytes);
		break;
	case FOREIGN:
		gone = unlock_pages(c, mem->base);
		break;
	case OF_FILE:
		gone = unlock_pages(c, mem->base);
		if (gone)
			host_unreserve(c, locked_length(mem->base, bytes));
		break;
	case REGISTERED:
		/* Pages that the device may still write to are leaked. */
		gone = unlock_pages(c, mem->base);
		if (gone)
			free_pages(c, mem);
		else
			c->host->host_leak(c->host->dev_root(dev), mem);
		break;
	case PAGEABLE:
		free_pages(c, mem);
		break;
	}
	if (!gone && !weir__cuda_ended(c))
		c->host->log(c->host->dev_root(dev),
			     "%s: %zu bytes could not be freed", desc->name,
			     bytes);
}

/*
 * cuMemFree, cuMemFreeHost and cuMemHostUnregister wait for all work of the
 * context. A lost device is not asked.
 */
static bool cuda_free_waits(struct weir_dev *dev,
			    const struct weir_backend_buft *desc,
			    const struct weir_backend_mem *mem)
{
	(void)desc;
	return mem->how != NOTHING && mem->how != PAGEABLE &&
	       !atomic_load(&weir__cuda_of(dev)->lost);
}

/*
 * True if the caller has page-locked the range; its first and last byte decide.
 */
static bool locked_before(struct weir__cuda *c, const unsigned char *base,
			  size_t bytes)
{
	bool locked;

	if (weir__cuda_push(c))
		return false;
	locked = weir__cuda_is_pinned(c, base) &&
		 weir__cuda_is_pinned(c, base + bytes - 1);
	weir__cuda_leave();
	return locked;
}

/* Add a reason why the memory is not page-locked. */
static void not_locked(struct weir_backend_mem *mem, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void not_locked(struct weir_backend_mem *mem, const char *fmt, ...)
{
	char why[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	snprintf(mem->why, sizeof(mem->why), "not page-locked: %s", why);
}

/* Page-lock host memory of the caller, if the driver can. */
static void register_foreign(struct weir__cuda *c, size_t bytes,
			     struct weir_backend_mem *mem)
{
	CUresult r = lock_pages(c, mem->base, bytes, 0);

	if (r == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
	    locked_before(c, mem->base, bytes)) {
		mem->got |= WEIR_GOT_LOCKED;
	} else if (r) {
		explain_lesser(mem, "not page-locked: cuMemHostRegister", r);
	} else {
		mem->how = FOREIGN;
		mem->got |= WEIR_GOT_LOCKED;
	}
}

/*
 * The same of a file. The program has not asked for that many bytes of RAM: so
 * they must be available, and they count towards the root's budget.
 */
static void register_file(struct weir__cuda *c, size_t bytes,
			  struct weir_backend_mem *mem)
{
	size_t length = locked_length(mem->base, bytes);
	uint64_t avail, total;
	CUresult r;

	if (!c->locks_files) {
		not_locked(mem, "lock=no");
		return;
	}
	if (!c->reads_only) {
		explain_lesser(mem, "not page-locked: cuMemHostRegister",
			       CUDA_ERROR_NOT_SUPPORTED);
		return;
	}
	if (!c->host->host_available(&avail, &total) && length > avail) {
		not_locked(mem, "%zu bytes, and %llu are available", length,
			   (unsigned long long)avail);
		return;
	}
	if (host_reserve(c, length) < 0) {
		not_locked(mem, "the root's budget has no room for %zu bytes",
			   length);
		return;
	}
	r = lock_pages(c, mem->base, bytes, CU_MEMHOSTREGISTER_READ_ONLY);
	if (!r) {
		mem->how = OF_FILE;
		mem->got |= WEIR_GOT_LOCKED;
		return;
	}
	host_unreserve(c, length);
	explain_lesser(mem, "not page-locked: cuMemHostRegister", r);
}

static int cuda_wrap(struct weir_dev *dev, const struct weir_backend_buft *desc,
		     void *ptr, size_t bytes, struct weir_backend_mem *mem)
{
	mem->base = ptr;
	mem->node = -1;
	mem->how = NOTHING;
	__atomic_store_n(&mem->backed, bytes, __ATOMIC_SEQ_CST);
	if (desc->kind == WEIR_MEM_MAPPED)
		register_file(weir__cuda_of(dev), bytes, mem);
	else if (desc->kind != WEIR_MEM_DEVICE)
		register_foreign(weir__cuda_of(dev), bytes, mem);
	return 0;
}

static int cuda_pin(struct weir_dev *dev, void *ptr, size_t bytes)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	CUresult r = lock_pages(c, ptr, bytes, 0);

	if (r == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		return 1;
	return r ? weir__cuda_fail(c, r, "cuMemHostRegister of %zu bytes",
				   bytes)
		 : 0;
}

static int cuda_unpin(struct weir_dev *dev, void *ptr, size_t bytes)
{
	struct weir__cuda *c = weir__cuda_of(dev);

	if (unlock_pages(c, ptr))
		return 0;
	if (!weir__cuda_ended(c))
		c->host->log(
			c->host->dev_root(dev),
			"%s: %zu bytes could not be unregistered, and are leaked",
			c->host->dev_name(dev), bytes);
	return -EIO;
}

/*
 * How many bytes from @ptr on are allocated, contiguously; counting ends at
 * @bytes. Memory that was mapped by cuMemMap (PyTorch's expandable segments)
 * consists of allocations, which the driver reports singly. A context is
 * current.
 */
static CUresult count_allocated(CUdeviceptr ptr, size_t bytes,
				size_t *ret_there)
{
	CUdeviceptr base;
	size_t size, there = 0;
	CUresult r = CUDA_SUCCESS;

	while (!r && there < bytes) {
		r = drv.cuMemGetAddressRange(&base, &size, ptr + there);
		if (!r && (base > ptr + there || size <= ptr + there - base))
			r = CUDA_ERROR_NOT_FOUND;
		if (!r)
			there = base + size - ptr;
	}
	*ret_there = there;
	/* An unknown address after the first allocation ends the count. */
	return there && (r == CUDA_ERROR_NOT_FOUND ||
			 r == CUDA_ERROR_INVALID_VALUE)
		       ? CUDA_SUCCESS
		       : r;
}

int weir__cuda_check_pointer(struct weir_dev *dev, uint64_t ptr, size_t bytes)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	bool known;
	CUmemorytype type;
	size_t there = bytes;
	CUresult r;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	r = memory_type(c, (const void *)(uintptr_t)ptr, &type);
	known = r || type == CU_MEMORYTYPE_DEVICE;
	if (!r && known && drv.cuMemGetAddressRange)
		r = count_allocated((CUdeviceptr)ptr, bytes, &there);
	weir__cuda_leave();
	if (!known)
		return c->host->fail(-EINVAL,
				     "%#llx is no address of device memory",
				     (unsigned long long)ptr);
	if (r)
		return weir__cuda_fail(c, r, "memory at %#llx",
				       (unsigned long long)ptr);
	if (there < bytes)
		return c->host->fail(
			-EINVAL,
			"%zu bytes at %#llx, where %zu are allocated in a row",
			bytes, (unsigned long long)ptr, there);
	return 0;
}

/* Lock a mover that no thread uses, or wait for one. */
static struct weir__cuda_mover *mover_lock(struct weir__cuda *c)
{
	struct weir__cuda_mover *m = c->mover;

	for (unsigned i = 0; i < WEIR__CUDA_MOVERS; i++)
		if (!pthread_mutex_trylock(&m[i].lock))
			return &m[i];
	m += atomic_fetch_add(&c->moves, 1) % WEIR__CUDA_MOVERS;
	pthread_mutex_lock(&m->lock);
	return m;
}

/*
 * Begin a blocking move: enter the context and lock a mover. move_end releases
 * both.
 */
static int move_begin(struct weir_dev *dev, struct weir__cuda_mover **ret_m)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	struct weir__cuda_mover *m;
	CUresult r = CUDA_SUCCESS;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	m = mover_lock(c);
	m->errors_before = atomic_load(&c->unknown_errors);
	if (!m->stream)
		r = drv.cuStreamCreate(&m->stream, CU_STREAM_NON_BLOCKING);
	*ret_m = m;
	if (!r)
		return 0;
	pthread_mutex_unlock(&m->lock);
	weir__cuda_leave();
	return weir__cuda_fail(c, r, "cuStreamCreate");
}

/*
 * The driver's call returned @r: wait for the stream, even if the call failed,
 * since a part may be queued. If the wait fails too, the device may still write
 * to the memory, so it is treated as lost.
 */
static int move_end(struct weir__cuda_mover *m, CUresult r, const char *call,
		    size_t n)
{
	struct weir__cuda *c = m->c;
	CUresult sync = drv.cuStreamSynchronize(m->stream);

	weir__cuda_note(c, sync);
	if (sync && drv.cuStreamSynchronize(m->stream))
		weir__cuda_lose(c, sync);
	if (!r && weir__cuda_unknown_error_since(c, m->errors_before))
		r = CUDA_ERROR_UNKNOWN;
	pthread_mutex_unlock(&m->lock);
	weir__cuda_leave();
	if (!r)
		r = sync;
	return r ? weir__cuda_fail(c, r, "%s of %zu bytes", call, n) : 0;
}

static int cuda_set(struct weir_dev *dev, void *dst, const void *src, size_t n)
{
	struct weir__cuda_mover *m;
	int r = move_begin(dev, &m);

	return r < 0 ? r
		     : move_end(m,
				drv.cuMemcpyHtoDAsync(
					(CUdeviceptr)(uintptr_t)dst, src, n,
					m->stream),
				"cuMemcpyHtoDAsync", n);
}

static int cuda_get(struct weir_dev *dev, void *dst, const void *src, size_t n)
{
	struct weir__cuda_mover *m;
	int r = move_begin(dev, &m);

	return r < 0 ? r
		     : move_end(m,
				drv.cuMemcpyDtoHAsync(
					dst, (CUdeviceptr)(uintptr_t)src, n,
					m->stream),
				"cuMemcpyDtoHAsync", n);
}

static int cuda_fill(struct weir_dev *dev, void *dst, uint8_t byte, size_t n)
{
	struct weir__cuda_mover *m;
	int r = move_begin(dev, &m);

	return r < 0 ? r
		     : move_end(m,
				drv.cuMemsetD8Async((CUdeviceptr)(uintptr_t)dst,
						    byte, n, m->stream),
				"cuMemsetD8Async", n);
}

static int cuda_copy(struct weir_dev *dev, void *dst, const void *src, size_t n)
{
	struct weir__cuda_mover *m;
	int r = move_begin(dev, &m);

	return r < 0 ? r
		     : move_end(m,
				drv.cuMemcpyDtoDAsync(
					(CUdeviceptr)(uintptr_t)dst,
					(CUdeviceptr)(uintptr_t)src, n,
					m->stream),
				"cuMemcpyDtoDAsync", n);
}

static int cuda_copy_from(struct weir_dev *dev, void *dst,
			  struct weir_dev *from, const void *src, size_t n)
{
	struct weir__cuda *s = weir__cuda_of(from);
	struct weir__cuda_mover *m;
	int r;

	if (weir__cuda_of(dev)->context == s->context)
		return cuda_copy(dev, dst, src, n);
	r = move_begin(dev, &m);
	return r < 0 ? r
		     : move_end(m,
				weir__cuda_copy_peer(m->c, dst, s, src, n,
						     m->stream),
				"cuMemcpyPeerAsync", n);
}

const struct weir_backend_mem_ops weir__cuda_mem_ops = {
	.size = sizeof(weir__cuda_mem_ops),
	.alloc = cuda_alloc,
	.free = cuda_free,
	.wrap = cuda_wrap,
	.set = cuda_set,
	.get = cuda_get,
	.fill = cuda_fill,
	.copy = cuda_copy,
	.reach = weir__cuda_reach,
	.copy_from = cuda_copy_from,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.free_waits = cuda_free_waits,
	.trim = weir__cuda_trim,
	.park = weir__cuda_park,
	.unpark = weir__cuda_unpark,
	.reserve = weir__cuda_reserve,
	.commit = weir__cuda_commit,
	.decommit = weir__cuda_decommit,
	.share = weir__cuda_share,
	.wrap_fd = weir__cuda_wrap_fd,
};
