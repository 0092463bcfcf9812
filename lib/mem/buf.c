/* SPDX-License-Identifier: MIT */
#include "mem/access.h"
#include "mem/buf.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "races/races.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "mem/tensor.h"

int weir_buft_info(const struct weir_buft *buft,
		   struct weir_buft_info *ret_info)
{
	const struct weir_backend_buft *d = &buft->desc;
	struct weir_buft_info info = {
		.size = sizeof(info),
		.name = d->name,
		.dev = buft->dev,
		.kind = d->kind,
		.flags = d->flags,
		.align = d->align,
		.max = d->max,
		.used = atomic_load(&buft->used),
		.budget = atomic_load(&buft->budget),
	};
	int r;

	WEIR__ENTER();
	r = weir__root_read(buft->dev->weir);
	if (r < 0)
		return r;
	return weir__info_out(ret_info, &info, sizeof(info));
}

int weir_buft_set_budget(struct weir_buft *buft, uint64_t bytes)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(buft->dev->weir);
	if (!r)
		atomic_store(&buft->budget, bytes);
	return r;
}

int weir__buft_charge(struct weir_buft *buft, size_t size)
{
	uint64_t used = atomic_load(&buft->used), budget;

	do {
		budget = atomic_load(&buft->budget);
		if (budget && (size > budget || used > budget - size))
			return weir__fail(
				-ENOMEM,
				"%zu bytes are needed, %llu of the budget of %llu of %s are in use",
				size, (unsigned long long)used,
				(unsigned long long)budget, buft->desc.name);
	} while (
		!atomic_compare_exchange_weak(&buft->used, &used, used + size));
	return 0;
}

int weir__buft_need(const struct weir_buft *buft, const struct weir_tensor *t,
		    uint64_t *ret_bytes)
{
	const struct weir_backend_mem_ops *ops = buft->dev->backend->mem;
	uint64_t bytes;
	int r = weir__tensor_bytes(t, &bytes);

	if (r < 0)
		return r;
	*ret_bytes = bytes;
	if (ops->alloc_size) {
		size_t padded =
			ops->alloc_size(buft->dev, &buft->desc, t, bytes);

		/* A backend may add padding, but not remove bytes. */
		*ret_bytes = padded > bytes ? padded : bytes;
	}
	return 0;
}

size_t weir_buft_alloc_size(const struct weir_buft *buft,
			    const struct weir_tensor *t)
{
	uint64_t bytes;

	WEIR__ENTER();
	if (weir__root_read(buft->dev->weir) < 0 ||
	    weir__buft_need(buft, t, &bytes) < 0)
		return 0;
	return bytes;
}

int weir__buft_memory(const struct weir_buft *buft, uint64_t *ret_free,
		      uint64_t *ret_total)
{
	struct weir_dev *dev = buft->dev;
	const struct weir_backend_mem_ops *ops = dev->backend->mem;
	uint64_t avail, total;
	int r = weir__root_enter(dev->weir);

	if (r < 0)
		return r;
	r = ops->memory ? ops->memory(dev, &buft->desc, &avail, &total)
			: -EOPNOTSUPP;
	if (r == -EOPNOTSUPP) {
		if (buft->desc.flags & WEIR_BUFT_HOST)
			dev = weir_dev_get(dev->weir, 0);
		return weir__dev_memory(dev, ret_free, ret_total);
	}
	r = weir__dev_result(dev, "mem->memory", r);
	if (r < 0)
		return r;
	*ret_free = avail;
	*ret_total = total;
	return 0;
}

int weir_buft_memory(const struct weir_buft *buft, uint64_t *ret_free,
		     uint64_t *ret_total)
{
	WEIR__ENTER();
	return weir__buft_memory(buft, ret_free, ret_total);
}

struct weir_buf *weir__buf_new(struct weir_buft *buft, size_t size)
{
	struct weir_buf *buf = weir__slab_alloc(&buft->dev->bufs, sizeof(*buf));

	if (!buf)
		return NULL;
	atomic_init(&buf->refs, 1);
	buf->buft = buft;
	buf->bytes = size;
	buf->mem.node = -1;
	/*
	 * The address of an empty buffer is aligned and not NULL, and nothing
	 * is mapped there.
	 */
	buf->mem.base =
		(unsigned char *)(buft->desc.align < WEIR__PAGE
					  ? (uintptr_t)WEIR__PAGE
					  : (uintptr_t)buft->desc.align);
	pthread_mutex_init(&buf->lock, NULL);
	weir__root_ref(buft->dev->weir);
	return buf;
}

void weir__buf_drop(struct weir_buf *buf)
{
	struct weir_dev *dev = buf->buft->dev;
	struct weir *weir = dev->weir;

	pthread_mutex_destroy(&buf->lock);
	weir__free(buf->member);
	weir__free(buf->member_at);
	weir__free(buf->reserved);
	weir__slab_free(&dev->bufs, buf);
	weir__root_put(weir);
}

#define FLAGS                                                            \
	(WEIR_BUF_STRICT | WEIR_BUF_PREFAULT | WEIR_BUF_WRITE_COMBINED | \
	 RESERVED | WEIR_BUF_SHARED | WEIR_BUF_PARKABLE)
#define RESERVED (WEIR_BUF_HUGETLB | WEIR_BUF_HUGETLB_1G)

int weir__buft_check_flags(const struct weir_buft *buft, uint32_t flags)
{
	const struct weir_backend_buft *d = &buft->desc;
	bool host = d->flags & WEIR_BUFT_HOST;

	if (flags & ~FLAGS)
		return weir__fail(-EINVAL, "flags 0x%x has bits unknown here",
				  flags);
	if (flags & WEIR_BUF_WRITE_COMBINED &&
	    (d->kind != WEIR_MEM_PINNED ||
	     flags & (RESERVED | WEIR_BUF_SHARED)))
		return weir__fail(
			-EINVAL,
			d->kind == WEIR_MEM_PINNED
				? "%s: write-combined memory is neither shared nor in reserved pages"
				: "only memory of kind PINNED can be write-combined, not %s",
			d->name);
	if (flags & WEIR_BUF_SHARED && !host && !buft->dev->backend->mem->share)
		return weir__fail(-EOPNOTSUPP,
				  "%s: memory of this device cannot be shared",
				  d->name);
	if (flags & RESERVED && (!host || d->kind == WEIR_MEM_PLAIN))
		return weir__fail(
			-EINVAL,
			"only host memory in huge pages can have reserved ones, not %s",
			d->name);
	if (flags & WEIR_BUF_PARKABLE &&
	    (d->kind == WEIR_MEM_PINNED || d->kind == WEIR_MEM_MAPPED ||
	     flags & (RESERVED | WEIR_BUF_SHARED)))
		return weir__fail(
			-EINVAL,
			"memory of %s that is page-locked for a device, mapped, shared or in reserved pages cannot be parked",
			d->name);
	return 0;
}

int weir__buf_check_alloc(const struct weir_buft *buft, size_t size,
			  const struct weir_buf_opts *o)
{
	const struct weir_backend_buft *d = &buft->desc;
	int r = weir__buft_check_flags(buft, o->flags & ~WEIR_BUF_ON_NODE);

	if (r < 0)
		return r;
	if (o->flags & WEIR_BUF_ON_NODE && o->node < 0)
		return weir__fail(-EINVAL, "there is no NUMA node %d", o->node);
	if (!(o->flags & WEIR_BUF_ON_NODE) && o->node)
		return weir__fail(-EINVAL,
				  "node is %d without WEIR_BUF_ON_NODE",
				  o->node);
	if (d->flags & WEIR_BUFT_READONLY)
		return weir__fail(-EOPNOTSUPP,
				  "memory of kind %s is made by weir_buf_map",
				  d->name);
	if (size > d->max)
		return weir__fail(-EINVAL,
				  "%zu bytes, the largest buffer of %s has %zu",
				  size, d->name, d->max);
	return 0;
}

/*
 * Backends may ignore flags. Fail if the memory lacks a property that the
 * caller cannot do without.
 */
static int check_got(const struct weir_buft *buft, uint32_t flags,
		     const struct weir_backend_mem *mem)
{
	if (flags & WEIR_BUF_SHARED && !(mem->got & WEIR_GOT_SHARED))
		return weir__fail(-EOPNOTSUPP, "%s cannot be shared%s%s",
				  buft->desc.name, mem->why[0] ? ": " : "",
				  mem->why);
	if (flags & WEIR_BUF_STRICT && flags & RESERVED &&
	    !(mem->got & WEIR_GOT_HUGETLB))
		return weir__fail(-EOPNOTSUPP, "%s has no reserved pages%s%s",
				  buft->desc.name, mem->why[0] ? ": " : "",
				  mem->why);
	if (flags & WEIR_BUF_STRICT && flags & WEIR_BUF_PARKABLE &&
	    !(mem->got & WEIR_GOT_PARKABLE))
		return weir__fail(-EOPNOTSUPP, "%s cannot be parked%s%s",
				  buft->desc.name, mem->why[0] ? ": " : "",
				  mem->why);
	return 0;
}

static int alloc_mem(struct weir_buft *buft, size_t size,
		     const struct weir_buf_opts *o,
		     struct weir_backend_mem *mem)
{
	struct weir_dev *dev = buft->dev;
	const struct weir_backend_mem_ops *ops = dev->backend->mem;
	int r = weir__dev_use(dev);

	if (r < 0)
		return r;
	mem->base = NULL;
	r = ops->alloc(dev, &buft->desc, size, o, mem);
	r = weir__dev_result(dev, "mem->alloc", r);
	if (r < 0)
		return r;
	if (!ops->park)
		mem->got &= ~WEIR_GOT_PARKABLE;
	if (mem->base && !((uintptr_t)mem->base & (buft->desc.align - 1)))
		r = check_got(buft, o->flags, mem);
	else
		r = weir__fail(
			-EIO,
			"%s: its backend returned memory at %p, not at a multiple of %zu",
			buft->desc.name, (void *)mem->base, buft->desc.align);
	if (r < 0)
		ops->free(dev, &buft->desc, size, mem);
	return r;
}

/* Count and allocate the memory of @buf. */
static int charge_and_alloc(struct weir_buf *buf, const struct weir_buf_opts *o)
{
	struct weir_buft *buft = buf->buft;
	int r = weir__buft_charge(buft, buf->bytes);

	if (r < 0)
		return r;
	r = buf->bytes ? alloc_mem(buft, buf->bytes, o, &buf->mem) : 0;
	if (r < 0) {
		memset(&buf->mem, 0, sizeof(buf->mem));
		buf->mem.node = -1;
		atomic_fetch_sub(&buft->used, buf->bytes);
	}
	return r;
}

static int charge_and_alloc_again(struct weir_buf *buf,
				  const struct weir_buf_opts *o)
{
	struct weir__shortage shortage;
	int r;

	weir__shortage_begin(&shortage, buf->buft->dev->weir, buf->buft,
			     buf->bytes);
	do
		r = charge_and_alloc(buf, o);
	while (weir__shortage_again(&shortage, r));
	return r;
}

int weir__buf_alloc(struct weir_buft *buft, size_t size,
		    const struct weir_buf_opts *opts, struct weir_buf **ret_buf)
{
	struct weir_buf_opts o;
	struct weir_buf *buf;
	int r = weir__root_enter(buft->dev->weir);

	if (r < 0 || (r = weir__opts_in(&o, sizeof(o), opts)) < 0 ||
	    (r = weir__buf_check_alloc(buft, size, &o)) < 0)
		return r;
	buf = weir__buf_new(buft, size);
	if (!buf)
		return weir__fail(-ENOMEM, "no memory for a buffer's object");
	r = charge_and_alloc_again(buf, &o);
	if (r < 0) {
		weir__buf_drop(buf);
		return r;
	}
	buf->mem.got |= WEIR_GOT_OWNED;
	*ret_buf = buf;
	return 0;
}

int weir_buf_alloc(struct weir_buft *buft, size_t size,
		   const struct weir_buf_opts *opts, struct weir_buf **ret_buf)
{
	WEIR__ENTER();
	return weir__buf_alloc(buft, size, opts, ret_buf);
}

static int wrap_mem(struct weir_buft *buft, void *ptr, size_t size,
		    struct weir_backend_mem *mem)
{
	struct weir_dev *dev = buft->dev;
	int r;

	if (!dev->backend->mem->wrap)
		return weir__fail(
			-EOPNOTSUPP,
			"%s: this kind cannot wrap memory of the caller",
			buft->desc.name);
	r = weir__dev_use(dev);
	if (r < 0)
		return r;
	r = dev->backend->mem->wrap(dev, &buft->desc, ptr, size, mem);
	return weir__dev_result(dev, "mem->wrap", r);
}

int weir__buf_foreign(struct weir_buft *buft, void *ptr, size_t size,
		      void (*release)(void *), void *arg,
		      struct weir_buf **ret_buf)
{
	struct weir__error_saved saved;
	struct weir_buf *buf;
	int r = weir__root_enter(buft->dev->weir);

	if (r < 0)
		return r;
	if (size && !ptr)
		return weir__fail(-EINVAL, "%zu bytes at NULL", size);
	if (size > INT64_MAX || size > UINTPTR_MAX - (uintptr_t)ptr)
		return weir__fail(-EINVAL,
				  "%zu bytes at %p exceed the address space",
				  size, ptr);
	buf = weir__buf_new(buft, size);
	if (!buf)
		return weir__fail(-ENOMEM, "no memory for a buffer's object");
	weir__error_save(&saved);
	r = size ? wrap_mem(buft, ptr, size, &buf->mem) : 0;
	if (r < 0) {
		weir__buf_drop(buf);
		return r;
	}
	/* A success leaves the text of the last failure as it was. */
	weir__error_restore(&saved);
	buf->foreign = true;
	buf->release = release;
	buf->release_arg = arg;
	*ret_buf = buf;
	return 0;
}

int weir_buf_wrap(struct weir_buft *buft, void *ptr, size_t size,
		  void (*release)(void *), void *arg, struct weir_buf **ret_buf)
{
	WEIR__ENTER();
	return weir__buf_foreign(buft, ptr, size, release, arg, ret_buf);
}

int weir__buf_of_fd(struct weir_buft *buft, int fd, uint64_t off, size_t size,
		    bool readonly, struct weir_buf **ret_buf)
{
	struct weir_dev *dev = buft->dev;
	const struct weir_backend_mem_ops *ops = dev->backend->mem;
	struct weir__error_saved saved;
	struct weir_buf *buf;
	int r;

	if (!ops->wrap_fd)
		return weir__fail(
			-EOPNOTSUPP,
			"%s: this device cannot have memory of a descriptor",
			buft->desc.name);
	if (size > buft->desc.max || off > buft->desc.max - size)
		return weir__fail(-EINVAL,
				  "%zu bytes at %llu, %s has at most %zu", size,
				  (unsigned long long)off, buft->desc.name,
				  buft->desc.max);
	r = weir__dev_use(dev);
	if (r < 0)
		return r;
	buf = weir__buf_new(buft, size);
	if (!buf)
		return weir__fail(-ENOMEM, "no memory for a buffer's object");
	weir__error_save(&saved);
	r = weir__dev_result(dev, "mem->wrap_fd",
			     ops->wrap_fd(dev, &buft->desc, fd, off, size,
					  readonly, &buf->mem));
	if (r < 0) {
		weir__buf_drop(buf);
		return r;
	}
	/* A success leaves the text of the last failure as it was. */
	weir__error_restore(&saved);
	buf->foreign = true;
	buf->readonly = readonly;
	*ret_buf = buf;
	return 0;
}

int weir__buf_export(struct weir_buf *buf, int *ret_fd)
{
	struct weir_dev *dev = buf->buft->dev;

	if (buf->foreign || !(buf->mem.got & WEIR_GOT_SHARED))
		return weir__fail(
			-EOPNOTSUPP,
			"the buffer was not allocated with WEIR_BUF_SHARED");
	return weir__dev_result(dev, "mem->share",
				dev->backend->mem->share(dev, &buf->buft->desc,
							 buf->bytes, &buf->mem,
							 ret_fd));
}

struct weir_buf *weir_buf_ref(struct weir_buf *buf)
{
	weir__refs_add(&buf->refs, 1);
	return buf;
}

/*
 * Make the race checker forget the memory of @buf, which another buffer may get
 * next.
 */
static void buf_forget(const struct weir_buf *buf)
{
	uint64_t lo = (uintptr_t)buf->mem.base;

	if (!buf->member)
		weir__races_forget(buf->buft->dev->weir, weir__buf_space(buf),
				   lo, lo + buf->bytes);
}

/* Free the memory of a buffer. The budget counts it as used until now. */
static void free_mem(struct weir__reclaimed *x)
{
	struct weir_buf *buf = weir__container(x, struct weir_buf, reclaimed);
	struct weir_dev *dev = buf->buft->dev;

	if (buf->bytes && !buf->member)
		dev->backend->mem->free(dev, &buf->buft->desc, buf->bytes,
					&buf->mem);
	if (!buf->foreign && !buf->member && !atomic_load(&buf->parked))
		atomic_fetch_sub(&buf->buft->used, weir__buf_committed(buf));
}

static void free_rest(struct weir__reclaimed *x)
{
	struct weir_buf *buf = weir__container(x, struct weir_buf, reclaimed);

	if (buf->release)
		buf->release(buf->release_arg);
	weir__buf_drop(buf);
}

static bool free_waits(struct weir_buf *buf)
{
	struct weir_dev *dev = buf->buft->dev;
	const struct weir_backend_mem_ops *ops = dev->backend->mem;

	return buf->bytes && !buf->member && ops->free_waits &&
	       ops->free_waits(dev, &buf->buft->desc, &buf->mem);
}

/*
 * Drop a reference. True if it was the last. In a child of fork(2) the memory
 * belongs to the parent, so nothing is dropped there.
 */
static bool drop_reference(struct weir_buf *buf)
{
	return buf && weir__root_is_ours(buf->buft->dev->weir) &&
	       weir__refs_drop(&buf->refs);
}

/*
 * Free @buf, whose last reference is gone, so that no work is queued on it. If
 * the program dropped that reference (@by_caller), it may use wrapped memory
 * for something else or free it as soon as this returns. If there is a release
 * function, it may do so only when that is called. @later: the thread of the
 * device calls that function.
 */
static void free_buf(struct weir_buf *buf, bool by_caller, bool later)
{
	struct weir_dev *dev = buf->buft->dev;
	bool now = by_caller && buf->foreign && !buf->release;

	for (unsigned i = 0; i < buf->n_members; i++)
		if (drop_reference(buf->member[i]))
			free_buf(buf->member[i], by_caller, later);
	if (buf->bytes && weir__races_on(dev->weir))
		buf_forget(buf);
	buf->reclaimed.bytes = weir__buf_committed(buf);
	buf->reclaimed.free = free_mem;
	buf->reclaimed.after = free_rest;
	if (!now && ((later && buf->release) || free_waits(buf))) {
		weir__reclaim(dev, &buf->reclaimed);
	} else {
		free_mem(&buf->reclaimed);
		weir__memory_moved(dev);
		free_rest(&buf->reclaimed);
	}
}

void weir__buf_put(struct weir_buf *buf)
{
	if (drop_reference(buf))
		free_buf(buf, false, false);
}

void weir__buf_put_later(struct weir_buf *buf)
{
	if (drop_reference(buf))
		free_buf(buf, false, true);
}

void weir_buf_free(struct weir_buf *buf)
{
	if (drop_reference(buf))
		free_buf(buf, true, false);
}

bool weir__buf_is_host(const struct weir_buf *buf)
{
	return buf->buft->desc.flags & WEIR_BUFT_HOST;
}

uint64_t weir__buft_space(const struct weir_buft *buft)
{
	return buft->desc.flags & WEIR_BUFT_HOST
		       ? 0
		       : weir__races_device(buft->dev);
}

uint64_t weir__buf_space(const struct weir_buf *buf)
{
	return weir__buft_space(buf->buft);
}

/*
 * Combine the properties of a joined buffer with those of a member: the flags
 * that all members have, the node if it is the same, and the first reason.
 */
static void add_member(struct weir_buf_info *info, const struct weir_buf *m)
{
	info->got &= m->mem.got;
	if (info->node != m->mem.node)
		info->node = -1;
	if (!info->why[0])
		memcpy(info->why, m->mem.why, sizeof(info->why));
}

int weir_buf_info(const struct weir_buf *buf, struct weir_buf_info *ret_info)
{
	const struct weir_buf *first = buf->member ? buf->member[0] : buf;
	struct weir_buf_info info = {
		.size = sizeof(info),
		.bytes = buf->bytes,
		.buft = buf->buft,
		.got = first->mem.got,
		.members = buf->n_members,
		.node = first->mem.node,
		.refs = atomic_load(&buf->refs),
	};
	int r;

	WEIR__ENTER();
	r = weir__root_read(buf->buft->dev->weir);
	if (r < 0)
		return r;
	memcpy(info.why, first->mem.why, sizeof(info.why));
	for (unsigned i = 1; i < buf->n_members; i++)
		add_member(&info, buf->member[i]);
	return weir__info_out(ret_info, &info, sizeof(info));
}

int weir__buf_check_parkable(const struct weir_buf *buf)
{
	const char *why = "they were not allocated with WEIR_BUF_PARKABLE";

	if (!buf->bytes || (buf->mem.got & WEIR_GOT_PARKABLE && !buf->n_heaps))
		return 0;
	if (buf->reserved)
		why = "they are addresses of a heap, which commits and gives back their memory";
	else if (buf->n_heaps)
		why = "they are a heap's, which may have other blocks there";
	else if (buf->mem.got & WEIR_GOT_SHARED)
		why = "they are shared, and other processes may use them";
	else if (buf->mem.got & WEIR_GOT_HUGETLB)
		why = "they are in reserved huge pages";
	else if (buf->buft->desc.kind == WEIR_MEM_PINNED)
		why = "they are page-locked for a device";
	else if (!weir__buf_is_host(buf) && buf->mem.why[0])
		why = buf->mem.why;
	return weir__fail(-EOPNOTSUPP, "%zu bytes of %s cannot be parked: %s",
			  buf->bytes, buf->buft->desc.name, why);
}

/* Copies of the library are queued before this, or refused after it. */
static void mark_parked(struct weir_buf *buf)
{
	struct weir__parks *parks = &buf->buft->dev->weir->parks;

	pthread_rwlock_wrlock(&parks->lock);
	atomic_store(&buf->parked, true);
	atomic_fetch_add(&parks->n, 1);
	pthread_rwlock_unlock(&parks->lock);
}

int weir__buf_park(struct weir_buf *buf)
{
	struct weir_dev *dev = buf->buft->dev;
	int r = weir__buf_check_parkable(buf);

	if (r < 0)
		return r;
	mark_parked(buf);
	r = weir__buf_quiesce(buf, 0, buf->bytes, true);
	if (r >= 0 && buf->bytes)
		r = weir__dev_result(
			dev, "mem->park",
			dev->backend->mem->park(dev, &buf->buft->desc,
						buf->bytes, &buf->mem));
	if (r < 0)
		atomic_store(&buf->parked, false);
	else
		atomic_fetch_sub(&buf->buft->used, buf->bytes);
	return r < 0 ? r : 0;
}

static int charge_and_unpark(struct weir_buf *buf)
{
	struct weir_dev *dev = buf->buft->dev;
	int r = weir__buft_charge(buf->buft, buf->bytes);

	if (r < 0)
		return r;
	if (buf->bytes)
		r = weir__dev_result(
			dev, "mem->unpark",
			dev->backend->mem->unpark(dev, &buf->buft->desc,
						  buf->bytes, &buf->mem));
	if (r < 0)
		atomic_fetch_sub(&buf->buft->used, buf->bytes);
	return r;
}

int weir__buf_unpark(struct weir_buf *buf)
{
	struct weir__shortage shortage;
	int r;

	weir__shortage_begin(&shortage, buf->buft->dev->weir, buf->buft,
			     buf->bytes);
	do
		r = charge_and_unpark(buf);
	while (weir__shortage_again(&shortage, r));
	if (r >= 0)
		atomic_store(&buf->parked, false);
	return r;
}

int weir__buf_check_there(const struct weir_buf *buf, const char *name)
{
	return atomic_load_explicit(&buf->parked, memory_order_relaxed)
		       ? weir__fail(
				 -ENODATA,
				 "%s is parked: weir_weights_unpark() brings it back",
				 name)
		       : 0;
}

void *weir_buf_data(struct weir_buf *buf)
{
	if (buf->member || !weir__buf_is_host(buf) ||
	    atomic_load_explicit(&buf->parked, memory_order_relaxed) ||
	    !weir__root_is_ours(buf->buft->dev->weir))
		return NULL;
	return buf->mem.base;
}

static int check_join(struct weir_buf *const *bufs, unsigned n,
		      uint64_t *ret_bytes)
{
	uint64_t sum = 0;

	if (!n || !bufs)
		return weir__fail(-EINVAL, "no buffers to join");
	for (unsigned i = 0; i < n; i++) {
		if (!bufs[i] || bufs[i]->member)
			return weir__fail(-EINVAL, "buffer %u of %u is %s", i,
					  n, bufs[i] ? "joined" : "NULL");
		if (bufs[i]->buft->dev != bufs[0]->buft->dev)
			return weir__fail(
				-EINVAL,
				"buffer %u is memory of %s, the first of %s", i,
				bufs[i]->buft->dev->desc.name,
				bufs[0]->buft->dev->desc.name);
		if (weir__add_over(sum, bufs[i]->bytes, &sum) ||
		    sum > INT64_MAX)
			return weir__fail(
				-EOVERFLOW,
				"the first %u of %u buffers have over 2^63 - 1 bytes",
				i + 1, n);
	}
	*ret_bytes = sum;
	return 0;
}

int weir__buf_join(struct weir_buf *const *bufs, unsigned n,
		   struct weir_buf **ret_buf)
{
	struct weir_buf *buf;
	uint64_t bytes = 0, at = 0;
	int r = check_join(bufs, n, &bytes);

	if (r < 0 || (r = weir__root_enter(bufs[0]->buft->dev->weir)) < 0)
		return r;
	buf = weir__buf_new(bufs[0]->buft, bytes);
	if (!buf)
		return weir__fail(-ENOMEM, "no memory for a buffer's object");
	buf->member = weir__calloc(n, sizeof(struct weir_buf *));
	buf->member_at = weir__calloc(n, sizeof(*buf->member_at));
	if (!buf->member || !buf->member_at) {
		weir__buf_drop(buf);
		return weir__fail(-ENOMEM, "no memory for %u members", n);
	}
	for (unsigned i = 0; i < n; i++) {
		buf->member[i] = weir_buf_ref(bufs[i]);
		buf->member_at[i] = at;
		at += bufs[i]->bytes;
	}
	buf->n_members = n;
	*ret_buf = buf;
	return 0;
}

int weir_buf_join(struct weir_buf *const *bufs, unsigned n,
		  struct weir_buf **ret_buf)
{
	WEIR__ENTER();
	return weir__buf_join(bufs, n, ret_buf);
}

struct weir_buf *weir_buf_member(struct weir_buf *buf, unsigned i)
{
	if (i >= buf->n_members || !weir__root_is_ours(buf->buft->dev->weir))
		return NULL;
	return buf->member[i];
}

/* Return the last member whose offset is at most @off. */
static unsigned member_of(const struct weir_buf *buf, uint64_t off)
{
	unsigned lo = 0, hi = buf->n_members;

	while (hi - lo > 1) {
		unsigned mid = lo + (hi - lo) / 2;

		if (buf->member_at[mid] <= off)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

int weir__buf_range(struct weir_buf *buf, uint64_t off, uint64_t n,
		    struct weir_buf **ret_member, uint64_t *ret_off)
{
	uint64_t at;
	unsigned i;

	if (off > buf->bytes || n > buf->bytes - off)
		return weir__fail(
			-EINVAL,
			"%llu bytes from byte %llu on, the buffer has %zu",
			(unsigned long long)n, (unsigned long long)off,
			buf->bytes);
	if (!buf->member) {
		*ret_member = buf;
		*ret_off = off;
		return weir__buf_check_memory(buf, off, n);
	}
	i = member_of(buf, off);
	at = off - buf->member_at[i];
	if (n > buf->member[i]->bytes - at)
		return weir__fail(
			-EINVAL,
			"%llu bytes from byte %llu on, of which member %u of %u has %llu",
			(unsigned long long)n, (unsigned long long)off, i,
			buf->n_members,
			(unsigned long long)(buf->member[i]->bytes - at));
	*ret_member = buf->member[i];
	*ret_off = at;
	return weir__buf_check_memory(buf->member[i], at, n);
}
