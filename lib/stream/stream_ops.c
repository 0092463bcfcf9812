/* SPDX-License-Identifier: MIT */
/*
 * The public operations on memory, and host functions: each checks its
 * arguments, makes one operation, and queues it. A copy of a tensor with gaps
 * between its bytes (a view) is made by several operations.
 */
#include <errno.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/access.h"
#include "mem/tensor.h"
#include "stream/stream.h"

/* Called on the backend's thread. */
static void work_done(struct weir_backend_work *work, int res, int32_t native)
{
	struct weir__stream_op *op =
		weir__container(work, struct weir__stream_op, work);
	char reason[64];
	int err = weir__dev_result(op->stream->dev, "work", res);

	if (err == 0)
		weir__stream_op_finish(op, NULL);
	else if (work->kind == WEIR_WORK_CALL && !native)
		weir__stream_op_fail(op, err, native,
				     "the host function returned %d", res);
	else
		weir__stream_op_fail(op, err, native, "%s%s",
				     strerror_r(-err, reason, sizeof(reason)),
				     weir__dev_describe_error(op->stream->dev,
							      native));
}

int weir__stream_op_begin(struct weir_stream *s, const char *what,
			  enum weir_backend_work_kind kind,
			  struct weir__stream_op **ret_op)
{
	struct weir__stream_op *op;
	int r = weir__root_enter(s->timeline.weir);

	if (r == 0)
		r = weir__stream_op_new(s, what, &op);
	if (r < 0)
		return r;
	op->work.kind = kind;
	op->work.done = work_done;
	op->work.rows = 1;
	*ret_op = op;
	return 0;
}

static int add_memory(struct weir__stream_op *op, const void *addr, uint64_t n,
		      bool write)
{
	if (!op->mem.n)
		op->bytes = n;
	return weir__ranges_add(&op->mem, (uintptr_t)addr, (uintptr_t)addr + n,
				write);
}

/*
 * Check that the stream's device can access the memory: its own, the host's, or
 * a peer's.
 */
static int check_device(const struct weir__stream_op *op,
			const struct weir_tensor *t, const struct weir_buf *buf)
{
	struct weir_dev *dev = buf->buft->dev;
	int r = dev == op->stream->dev || weir__buf_is_host(buf);

	/* Only copies access the memory of another device. */
	if (!r && op->work.kind == WEIR_WORK_COPY)
		r = weir__dev_reach(op->stream->dev, dev);
	return r ? r
		 : weir__fail(-EINVAL,
			      "%s is in memory of %s, out of reach of %s",
			      weir__tensor_label(t), dev->desc.name,
			      op->stream->label);
}

/* Check that the stream may access bytes of @buf. */
static int check_access(const struct weir__stream_op *op,
			const struct weir_tensor *t, const struct weir_buf *buf,
			bool write)
{
	const struct weir_stream *s = op->stream;
	int r;

	if (buf->buft->dev->weir != s->timeline.weir)
		return weir__fail(-EINVAL, "%s and %s belong to two roots",
				  weir__tensor_label(t), s->label);
	r = check_device(op, t, buf);
	if (r >= 0 && atomic_load_explicit(&buf->parked, memory_order_relaxed))
		r = weir__buf_check_there(buf, weir__tensor_label(t));
	if (r < 0)
		return r;
	if (write && weir__buf_is_readonly(buf))
		return weir__fail(-EROFS, "%s is in %s, which is read-only",
				  weir__tensor_label(t), buf->buft->desc.name);
	return 0;
}

void weir__stream_op_lend(struct weir__stream_op *op,
			  struct weir__access *access,
			  struct weir__range *range, size_t n)
{
	op->lent = true;
	op->access = access;
	op->access_cap = n;
	op->mem.list = range;
	op->mem.cap = n;
}

static int grow_accesses(struct weir__stream_op *op)
{
	struct weir__access *list = weir__grow_few(op->access, op->few_access,
						   &op->access_cap,
						   op->n_access, sizeof(*list));

	if (!list)
		return -ENOMEM;
	op->access = list;
	return 0;
}

static int add_access(struct weir__stream_op *op, const struct weir_tensor *t,
		      struct weir_buf *buf, uint64_t off, uint64_t n,
		      bool write)
{
	struct weir__access *access;
	int r = op->n_access == op->access_cap ? grow_accesses(op) : 0;

	if (r < 0)
		return r;
	if (weir__races_on(op->stream->timeline.weir))
		weir__op_races_name(op, op->n_access, t);
	access = &op->access[op->n_access++];
	memset(access, 0, sizeof(*access));
	access->buf = weir_buf_ref(buf);
	access->lo = off;
	access->hi = off + n;
	access->write = write;
	return 0;
}

int weir__stream_op_access_buf(struct weir__stream_op *op,
			       const struct weir_tensor *t,
			       struct weir_buf *buf, uint64_t off, uint64_t n,
			       bool write)
{
	int r = check_access(op, t, buf, write);

	if (r == 0)
		r = add_memory(op, buf->mem.base + off, n, write);
	return r < 0 ? r : add_access(op, t, buf, off, n, write);
}

int weir__stream_op_hold(struct weir__stream_op *op,
			 const struct weir_tensor *t, uint64_t n)
{
	unsigned char *addr;
	struct weir_buf *buf;
	uint64_t at;
	int r = weir__tensor_range(t, 0, n, &buf, &at, &addr);

	return r < 0 ? r : add_access(op, t, buf, at, n, false);
}

int weir__stream_op_access(struct weir__stream_op *op,
			   const struct weir_tensor *t, uint64_t off,
			   uint64_t n, bool write, unsigned char **ret_addr)
{
	struct weir_buf *buf;
	uint64_t at;
	int r = weir__tensor_range(t, off, n, &buf, &at, ret_addr);

	return r < 0 ? r : weir__stream_op_access_buf(op, t, buf, at, n, write);
}

/* Add an access to the program's memory. */
static int access_host(struct weir__stream_op *op, const void *ptr, uint64_t n,
		       bool write)
{
	uint64_t end;

	if ((!ptr && n) || weir__add_over((uintptr_t)ptr, n, &end))
		return weir__fail(
			-EINVAL, "%llu bytes at address %p are no valid memory",
			(unsigned long long)n, ptr);
	return add_memory(op, ptr, n, write);
}

int weir__stream_op_end(struct weir__stream_op *op, int r)
{
	struct weir_stream *s = op->stream;

	if (r == 0 && op->mem.n)
		return weir__stream_op_queue(op);
	weir__stream_op_drop(op);
	return r < 0 ? r : weir__stream_check(s);
}

/*
 * Fill in rows between a tensor and the program's memory. The caller sets the
 * addresses of the work.
 */
static int op_set_rows(struct weir__stream_op *op, const struct weir_tensor *t,
		       const struct weir_rect *rect, const void *host,
		       bool to_tensor, unsigned char **ret_addr)
{
	struct weir_backend_work *w = &op->work;
	uint64_t bytes, host_bytes;
	int r = weir__rect_bytes(rect, rect->pitch, &bytes);

	if (r == 0)
		r = weir__rect_bytes(rect, rect->host_pitch, &host_bytes);
	if (r == 0)
		r = weir__stream_op_access(op, t, rect->off, bytes, to_tensor,
					   ret_addr);
	if (r == 0)
		r = access_host(op, host, host_bytes, !to_tensor);
	w->width = rect->width;
	w->rows = rect->rows;
	w->dst_pitch = to_tensor ? rect->pitch : rect->host_pitch;
	w->src_pitch = to_tensor ? rect->host_pitch : rect->pitch;
	return r;
}

/* True if the tensor is in host memory. False if it could not be resolved. */
static bool tensor_on_host(const struct weir__stream_op *op)
{
	return op->n_access && weir__buf_is_host(op->access[0].buf);
}

static int set_rows(struct weir_stream *s, const struct weir_tensor *dst,
		    const struct weir_rect *rect, const void *src)
{
	struct weir__stream_op *op;
	int r = weir__stream_op_begin(s, "set", WEIR_WORK_SET, &op);

	if (r < 0)
		return r;
	op->work.src = src;
	op->work.src_host = true;
	r = op_set_rows(op, dst, rect, src, true, &op->work.dst);
	op->work.dst_host = tensor_on_host(op);
	return weir__stream_op_end(op, r);
}

static int get_rows(struct weir_stream *s, const struct weir_tensor *src,
		    const struct weir_rect *rect, void *dst)
{
	unsigned char *addr = NULL;
	struct weir__stream_op *op;
	int r = weir__stream_op_begin(s, "get", WEIR_WORK_GET, &op);

	if (r < 0)
		return r;
	r = op_set_rows(op, src, rect, dst, false, &addr);
	op->work.src = addr;
	op->work.dst = dst;
	op->work.dst_host = true;
	op->work.src_host = tensor_on_host(op);
	return weir__stream_op_end(op, r);
}

int weir_stream_set(struct weir_stream *stream, const struct weir_tensor *dst,
		    size_t off, const void *src, size_t n)
{
	struct weir_rect rect = weir__flat_rect(off, n);

	WEIR__ENTER();
	return set_rows(stream, dst, &rect, src);
}

int weir_stream_get(struct weir_stream *stream, const struct weir_tensor *src,
		    size_t off, void *dst, size_t n)
{
	struct weir_rect rect = weir__flat_rect(off, n);

	WEIR__ENTER();
	return get_rows(stream, src, &rect, dst);
}

int weir_stream_set_2d(struct weir_stream *stream,
		       const struct weir_tensor *dst,
		       const struct weir_rect *rect, const void *src)
{
	WEIR__ENTER();
	return set_rows(stream, dst, rect, src);
}

int weir_stream_get_2d(struct weir_stream *stream,
		       const struct weir_tensor *src,
		       const struct weir_rect *rect, void *dst)
{
	WEIR__ENTER();
	return get_rows(stream, src, rect, dst);
}

int weir_stream_fill(struct weir_stream *stream, const struct weir_tensor *dst,
		     size_t off, size_t n, uint8_t byte)
{
	struct weir__stream_op *op;
	int r;

	WEIR__ENTER();
	r = weir__stream_op_begin(stream, "fill", WEIR_WORK_FILL, &op);
	if (r < 0)
		return r;
	op->work.byte = byte;
	op->work.width = n;
	r = weir__stream_op_access(op, dst, off, n, true, &op->work.dst);
	op->work.dst_host = tensor_on_host(op);
	return weir__stream_op_end(op, r);
}

int weir_stream_call(struct weir_stream *stream, int (*fn)(void *arg),
		     void *arg)
{
	struct weir__stream_op *op;
	int r;

	WEIR__ENTER();
	r = weir__stream_op_begin(stream, "call", WEIR_WORK_CALL, &op);
	if (r < 0)
		return r;
	op->work.call = fn;
	op->work.arg = arg;
	if (weir__races_on(stream->timeline.weir))
		weir__op_races_call(op);
	return stream->mode->queue_call(op);
}

struct stream_copy {
	struct weir_stream *stream;
	const struct weir_tensor *dst, *src;
	uint64_t bytes; /* bytes of each, gaps included */
	size_t row;     /* contiguous bytes in both */
	unsigned outer; /* dimensions over which rows repeat */
	struct weir__stream_op *first, **end; /* linked by next */
};

/* Add an access to all bytes of @t, gaps included. */
static int access_whole(struct weir__stream_op *op, const struct weir_tensor *t,
			uint64_t bytes, bool write, unsigned char **ret_addr)
{
	struct weir_buf *buf;
	uint64_t at;
	int r;

	if (!t->buf)
		return weir__fail(-EINVAL, "%s is not placed in a buffer",
				  weir__tensor_label(t));
	r = weir__buf_range(t->buf, t->offset, bytes, &buf, &at);
	if (r < 0)
		return r;
	*ret_addr = buf->mem.base + at;
	return weir__stream_op_access_buf(op, t, buf, at, bytes, write);
}

/*
 * Returns the device of @buf if it is neither the host nor the stream's, else
 * NULL.
 */
static struct weir_dev *other_device(const struct weir__stream_op *op,
				     const struct weir_buf *buf)
{
	struct weir_dev *dev = buf->buft->dev;

	return weir__buf_is_host(buf) || dev == op->stream->dev ? NULL : dev;
}

/* The kind of work depends on which of the two are in host memory. */
static int choose_kind(struct weir__stream_op *op, const struct stream_copy *c)
{
	const struct weir_buf *src = op->access[0].buf;
	const struct weir_buf *dst = op->access[1].buf;
	struct weir_backend_work *w = &op->work;

	w->src_host = weir__buf_is_host(src);
	w->dst_host = weir__buf_is_host(dst);
	w->src_dev = other_device(op, src);
	w->dst_dev = other_device(op, dst);
	if (w->src_host == w->dst_host)
		return 0;
	w->kind = w->src_host ? WEIR_WORK_SET : WEIR_WORK_GET;
	return w->src_dev || w->dst_dev
		       ? weir__fail(
				 -EINVAL,
				 "%s to %s: a copy between host memory and a device needs a stream of that device, not %s",
				 weir__tensor_label(c->src),
				 weir__tensor_label(c->dst), op->stream->label)
		       : 0;
}

/* Equal addresses of two devices are different memory. */
static bool one_memory(const struct weir_backend_work *w)
{
	return w->src_host == w->dst_host && w->src_dev == w->dst_dev;
}

/*
 * Append a copy of the rectangle at @off of both tensors. Returns 1 if both are
 * the same memory, so that there is nothing to copy.
 */
static int add_rectangle(struct stream_copy *c, uint64_t off)
{
	unsigned char *src = NULL, *dst = NULL;
	struct weir__stream_op *op;
	int r = weir__stream_op_begin(c->stream, "copy", WEIR_WORK_COPY, &op);

	if (r < 0)
		return r;
	*c->end = op;
	c->end = &op->next;
	if ((r = access_whole(op, c->src, c->bytes, false, &src)) < 0 ||
	    (r = access_whole(op, c->dst, c->bytes, true, &dst)) < 0)
		return r;
	r = choose_kind(op, c);
	if (r < 0)
		return r;
	if (src == dst && one_memory(&op->work))
		return 1;
	if (src < dst + c->bytes && dst < src + c->bytes &&
	    one_memory(&op->work))
		return weir__fail(-EINVAL, "%s and %s overlap",
				  weir__tensor_label(c->dst),
				  weir__tensor_label(c->src));
	op->work.src = src + off;
	op->work.dst = dst + off;
	op->work.width = c->row;
	if (c->outer) {
		op->work.rows = weir__tensor_steps(c->src, c->outer - 1);
		op->work.src_pitch = (size_t)c->src->stride[c->outer - 1];
		op->work.dst_pitch = op->work.src_pitch;
	}
	return 0;
}

static int add_rectangles(struct stream_copy *c)
{
	int64_t index[WEIR_MAX_DIMS] = { 0 };
	unsigned loops;
	uint64_t off = 0;
	int r;

	c->outer = weir__tensor_outer(c->src, &c->row);
	loops = c->outer ? c->outer - 1 : 0;
	do
		r = add_rectangle(c, off);
	while (r == 0 && weir__tensor_next_row(c->src, loops, index, &off));
	return r;
}

/*
 * Queue the rectangles if @r is 0. Otherwise, and after the first failure, drop
 * them.
 */
static int copy_queue_all(struct stream_copy *c, int r)
{
	struct weir__stream_op *op;

	while ((op = c->first)) {
		c->first = op->next;
		op->next = NULL;
		if (r == 0)
			r = weir__stream_op_queue(op);
		else
			weir__stream_op_drop(op);
	}
	return r < 0 ? r : 0;
}

int weir__stream_copy(struct weir_stream *stream, const struct weir_tensor *dst,
		      const struct weir_tensor *src)
{
	struct stream_copy c = { .stream = stream, .dst = dst, .src = src };
	int r;

	c.end = &c.first;
	if ((r = weir__tensor_bytes(dst, &c.bytes)) < 0 ||
	    (r = weir__tensor_bytes(src, &c.bytes)) < 0 ||
	    (r = weir__tensor_same(dst, src)) < 0)
		return r;
	/*
	 * An empty tensor has no rectangle, but add_rectangles() makes at least
	 * one.
	 */
	return c.bytes ? copy_queue_all(&c, add_rectangles(&c))
		       : weir__stream_check(stream);
}

int weir_stream_copy(struct weir_stream *stream, const struct weir_tensor *dst,
		     const struct weir_tensor *src)
{
	WEIR__ENTER();
	return weir__stream_copy(stream, dst, src);
}
