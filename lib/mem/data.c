/* SPDX-License-Identifier: MIT */
/*
 * Blocking access to the bytes of tensors. Host memory is copied here, device
 * memory by its backend.
 */
#include <string.h>

#include "core/error.h"
#include "races/races.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "mem/access.h"
#include "mem/buf.h"
#include "mem/tensor.h"

#define BOUNCE_BYTES ((size_t)1 << 20)

/* An address in a buffer. */
struct buf_addr {
	struct weir_buf *buf;
	unsigned char *addr;
};

static int check_writable(const struct weir_buf *buf)
{
	if (weir__buf_is_readonly(buf))
		return weir__fail(-EROFS, "the buffer of %s is read-only",
				  buf->buft->desc.name);
	return 0;
}

/* Find the bytes, check them, and wait for queued work that conflicts. */
static int access_begin(const struct weir_tensor *t, size_t off, size_t n,
			bool write, struct buf_addr *ret_place)
{
	uint64_t at;
	int r = weir__tensor_range(t, off, n, &ret_place->buf, &at,
				   &ret_place->addr);

	if (r < 0 ||
	    (r = weir__root_enter(ret_place->buf->buft->dev->weir)) < 0 ||
	    (write && (r = check_writable(ret_place->buf)) < 0))
		return r;
	return n ? weir__buf_quiesce(ret_place->buf, at, at + n, write) : 0;
}

/* Return the result of a backend's function as a blocking call does. */
static int move_result(const struct weir_dev *dev, const char *what, int r)
{
	return weir__cause_errno(weir__dev_result(dev, what, r));
}

static int place_set(const struct buf_addr *dst, const void *src, size_t n)
{
	struct weir_dev *dev = dst->buf->buft->dev;

	if (!weir__buf_is_host(dst->buf))
		return move_result(dev, "mem->set",
				   dev->backend->mem->set(dev, dst->addr, src,
							  n));
	memcpy(dst->addr, src, n);
	return 0;
}

static int place_get(const struct buf_addr *src, void *dst, size_t n)
{
	struct weir_dev *dev = src->buf->buft->dev;

	if (!weir__buf_is_host(src->buf))
		return move_result(dev, "mem->get",
				   dev->backend->mem->get(dev, dst, src->addr,
							  n));
	memcpy(dst, src->addr, n);
	return 0;
}

static int place_fill(const struct buf_addr *dst, uint8_t byte, size_t n)
{
	struct weir_dev *dev = dst->buf->buft->dev;

	if (!weir__buf_is_host(dst->buf))
		return move_result(dev, "mem->fill",
				   dev->backend->mem->fill(dev, dst->addr, byte,
							   n));
	memset(dst->addr, byte, n);
	return 0;
}

/* Report the access to the caller's own memory, for which no call waits. */
static void races_access(const struct buf_addr *place, const char *what,
			 const void *host, size_t width, size_t pitch,
			 uint64_t rows, bool write)
{
	struct weir *weir = place->buf->buft->dev->weir;
	const struct weir__races_bytes bytes = { .lo = (uintptr_t)host,
						 .width = width,
						 .pitch = pitch,
						 .rows = rows,
						 .write = write };

	if (weir__races_on(weir))
		weir__races_host_access(weir, what, &bytes);
}

int weir__tensor_set(const struct weir_tensor *dst, size_t off, const void *src,
		     size_t n)
{
	struct buf_addr to;
	int r;

	if (n && !src)
		return weir__fail(-EINVAL, "%zu bytes from NULL", n);
	r = access_begin(dst, off, n, true, &to);
	if (r == 0 && n)
		races_access(&to, "weir_tensor_set", src, n, n, 1, false);
	return r < 0 || !n ? r : place_set(&to, src, n);
}

int weir_tensor_set(const struct weir_tensor *dst, size_t off, const void *src,
		    size_t n)
{
	WEIR__ENTER();
	return weir__tensor_set(dst, off, src, n);
}

int weir_tensor_get(const struct weir_tensor *src, size_t off, void *dst,
		    size_t n)
{
	struct buf_addr from;
	int r;

	WEIR__ENTER();
	if (n && !dst)
		return weir__fail(-EINVAL, "%zu bytes to NULL", n);
	r = access_begin(src, off, n, false, &from);
	if (r == 0 && n)
		races_access(&from, "weir_tensor_get", dst, n, n, 1, true);
	return r < 0 || !n ? r : place_get(&from, dst, n);
}

/* The same as access_begin() for a rectangle. */
static int access_begin_rect(const struct weir_tensor *t,
			     const struct weir_rect *rect, bool write,
			     struct buf_addr *ret_place)
{
	uint64_t bytes, host_bytes;
	int r = weir__rect_bytes(rect, rect->pitch, &bytes);

	if (r == 0)
		r = weir__rect_bytes(rect, rect->host_pitch, &host_bytes);
	return r < 0 ? r : access_begin(t, rect->off, bytes, write, ret_place);
}

/*
 * Return the same rectangle, as one row if there are no gaps between its rows.
 */
static struct weir_rect rect_joined(const struct weir_rect *rect)
{
	struct weir_rect one = *rect;

	if (rect->pitch == rect->width && rect->host_pitch == rect->width) {
		one.width = rect->width * rect->rows;
		one.rows = 1;
	}
	return one;
}

static bool rect_empty(const struct weir_rect *rect)
{
	return !rect->width || !rect->rows;
}

static int rect_set(const struct buf_addr *to, const struct weir_rect *rect,
		    const unsigned char *src)
{
	int r = 0;

	for (uint64_t k = 0; k < rect->rows && !r; k++) {
		struct buf_addr row = { to->buf, to->addr + k * rect->pitch };

		r = place_set(&row, src + k * rect->host_pitch, rect->width);
	}
	return r;
}

static int rect_get(const struct buf_addr *from, const struct weir_rect *rect,
		    unsigned char *dst)
{
	int r = 0;

	for (uint64_t k = 0; k < rect->rows && !r; k++) {
		struct buf_addr row = { from->buf,
					from->addr + k * rect->pitch };

		r = place_get(&row, dst + k * rect->host_pitch, rect->width);
	}
	return r;
}

int weir_tensor_set_2d(const struct weir_tensor *dst,
		       const struct weir_rect *rect, const void *src)
{
	struct weir_rect rows = rect_joined(rect);
	struct buf_addr to;
	int r;

	WEIR__ENTER();
	if (!rect_empty(rect) && !src)
		return weir__fail(-EINVAL, "%llu rows from NULL",
				  (unsigned long long)rect->rows);
	r = access_begin_rect(dst, rect, true, &to);
	if (r == 0 && !rect_empty(rect))
		races_access(&to, "weir_tensor_set_2d", src, rect->width,
			     rect->host_pitch, rect->rows, false);
	return r < 0 || rect_empty(rect) ? r : rect_set(&to, &rows, src);
}

int weir_tensor_get_2d(const struct weir_tensor *src,
		       const struct weir_rect *rect, void *dst)
{
	struct weir_rect rows = rect_joined(rect);
	struct buf_addr from;
	int r;

	WEIR__ENTER();
	if (!rect_empty(rect) && !dst)
		return weir__fail(-EINVAL, "%llu rows to NULL",
				  (unsigned long long)rect->rows);
	r = access_begin_rect(src, rect, false, &from);
	if (r == 0 && !rect_empty(rect))
		races_access(&from, "weir_tensor_get_2d", dst, rect->width,
			     rect->host_pitch, rect->rows, true);
	return r < 0 || rect_empty(rect) ? r : rect_get(&from, &rows, dst);
}

int weir_tensor_fill(const struct weir_tensor *dst, size_t off, size_t n,
		     uint8_t byte)
{
	struct buf_addr to;
	int r;

	WEIR__ENTER();
	r = access_begin(dst, off, n, true, &to);
	return r < 0 || !n ? r : place_fill(&to, byte, n);
}

static int clear_one(struct weir_buf *buf, uint8_t byte)
{
	struct buf_addr all = { .buf = buf, .addr = buf->mem.base };
	int r = check_writable(buf);

	if (r >= 0)
		r = weir__buf_check_there(buf, "the buffer");
	if (r >= 0)
		r = weir__buf_check_memory(buf, 0, buf->bytes);
	if (r < 0 || !buf->bytes)
		return r;
	r = weir__buf_quiesce(buf, 0, buf->bytes, true);
	if (!r)
		r = place_fill(&all, byte, buf->bytes);
	if (!r &&
	    buf->bytes > __atomic_load_n(&buf->mem.backed, __ATOMIC_SEQ_CST))
		__atomic_store_n(&buf->mem.backed, buf->bytes,
				 __ATOMIC_SEQ_CST);
	return r;
}

int weir_buf_clear(struct weir_buf *buf, uint8_t byte)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(buf->buft->dev->weir);
	if (r < 0 || !buf->member)
		return r < 0 ? r : clear_one(buf, byte);
	for (unsigned i = 0; i < buf->n_members && r >= 0; i++)
		r = check_writable(buf->member[i]);
	for (unsigned i = 0; i < buf->n_members && !r; i++)
		r = clear_one(buf->member[i], byte);
	return r;
}

/* A copy of one tensor to another, row by row. */
struct tensor_copy {
	struct buf_addr dst, src;
	bool reached; /* true if the backend copies between the two devices */
	unsigned char *bounce; /* else host memory between them, or NULL */
};

static int copy_bounced(const struct tensor_copy *c, size_t off, size_t n)
{
	for (size_t at = 0; at < n; at += BOUNCE_BYTES) {
		size_t len = n - at < BOUNCE_BYTES ? n - at : BOUNCE_BYTES;
		struct buf_addr to = { c->dst.buf, c->dst.addr + off + at };
		struct buf_addr from = { c->src.buf, c->src.addr + off + at };
		int r = place_get(&from, c->bounce, len);

		if (!r)
			r = place_set(&to, c->bounce, len);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Copy @n bytes at @off of both. */
static int copy_row(const struct tensor_copy *c, size_t off, size_t n)
{
	struct buf_addr to = { c->dst.buf, c->dst.addr + off };
	struct buf_addr from = { c->src.buf, c->src.addr + off };
	struct weir_dev *dev = to.buf->buft->dev;

	if (weir__buf_is_host(from.buf))
		return place_set(&to, from.addr, n);
	if (weir__buf_is_host(to.buf))
		return place_get(&from, to.addr, n);
	if (c->bounce)
		return copy_bounced(c, off, n);
	if (c->reached)
		return move_result(dev, "mem->copy_from",
				   dev->backend->mem->copy_from(
					   dev, to.addr, from.buf->buft->dev,
					   from.addr, n));
	return move_result(dev, "mem->copy",
			   dev->backend->mem->copy(dev, to.addr, from.addr, n));
}

static int copy_rows(const struct tensor_copy *c, const struct weir_tensor *t,
		     uint64_t bytes)
{
	int64_t index[WEIR_MAX_DIMS] = { 0 };
	uint64_t off = 0;
	unsigned outer;
	size_t row;
	int r;

	if (weir__tensor_contiguous(t))
		return copy_row(c, 0, bytes);
	outer = weir__tensor_outer(t, &row);
	do
		r = copy_row(c, off, row);
	while (!r && weir__tensor_next_row(t, outer, index, &off));
	return r;
}

/* The same as access_begin(), for a tensor that may have gaps. */
static int access_begin_whole(const struct weir_tensor *t, uint64_t bytes,
			      bool write, struct buf_addr *ret_place)
{
	uint64_t at;
	int r;

	if (!t->buf)
		return weir__fail(-EINVAL, "%s is not placed in a buffer",
				  weir__tensor_label(t));
	r = weir__buf_range(t->buf, t->offset, bytes, &ret_place->buf, &at);
	if (r < 0 ||
	    (r = weir__root_enter(ret_place->buf->buft->dev->weir)) < 0 ||
	    (write && (r = check_writable(ret_place->buf)) < 0))
		return r;
	ret_place->addr = ret_place->buf->mem.base + at;
	return bytes ? weir__buf_quiesce(ret_place->buf, at, at + bytes, write)
		     : 0;
}

static bool one_memory(const struct tensor_copy *c)
{
	return (weir__buf_is_host(c->dst.buf) &&
		weir__buf_is_host(c->src.buf)) ||
	       c->dst.buf->buft->dev == c->src.buf->buft->dev;
}

/*
 * Return 1 if both are the same bytes, 0 if they are disjoint, < 0 if they
 * overlap. Addresses are compared, since the caller may wrap the same memory
 * twice.
 */
static int compare_places(const struct tensor_copy *c, uint64_t bytes)
{
	uintptr_t dst = (uintptr_t)c->dst.addr, src = (uintptr_t)c->src.addr;
	uintptr_t apart = dst < src ? src - dst : dst - src;

	if (!bytes || !one_memory(c))
		return 0;
	if (!apart)
		return 1;
	if (apart < bytes)
		return weir__fail(-EINVAL,
				  "%llu bytes each, %llu apart: they overlap",
				  (unsigned long long)bytes,
				  (unsigned long long)apart);
	return 0;
}

/*
 * Choose how to copy between devices: by the backend, or through a bounce
 * buffer.
 */
static int join_devices(struct tensor_copy *c)
{
	int r = weir__dev_reach(c->dst.buf->buft->dev, c->src.buf->buft->dev);

	if (r < 0)
		return r;
	c->reached = r;
	if (!r)
		c->bounce = weir__malloc(BOUNCE_BYTES);
	return r || c->bounce ? 0
			      : weir__fail(-ENOMEM, "no memory for %zu bytes",
					   BOUNCE_BYTES);
}

static int copy_placed(struct tensor_copy *c, const struct weir_tensor *t,
		       uint64_t bytes)
{
	int r = compare_places(c, bytes);

	if (r || !bytes)
		return r < 0 ? r : 0;
	if (!weir__buf_is_host(c->dst.buf) && !weir__buf_is_host(c->src.buf) &&
	    !one_memory(c))
		r = join_devices(c);
	if (!r)
		r = copy_rows(c, t, bytes);
	weir__free(c->bounce);
	return r;
}

int weir_tensor_copy(const struct weir_tensor *dst,
		     const struct weir_tensor *src)
{
	struct tensor_copy c = { .bounce = NULL };
	uint64_t bytes;
	int r;

	WEIR__ENTER();
	r = weir__tensor_bytes(dst, &bytes);
	if (r < 0 || (r = weir__tensor_same(dst, src)) < 0 ||
	    (r = access_begin_whole(src, bytes, false, &c.src)) < 0 ||
	    (r = access_begin_whole(dst, bytes, true, &c.dst)) < 0)
		return r;
	return copy_placed(&c, dst, bytes);
}
