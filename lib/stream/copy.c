/* SPDX-License-Identifier: MIT */
/*
 * Copies from tensor to tensor. Tensors with gaps between their bytes (views)
 * are copied as rectangles, one operation each.
 */
#include <errno.h>

#include "core/error.h"
#include "core/sys.h"
#include "mem/tensor.h"
#include "stream/stream.h"

struct copy {
	struct weir_stream *stream;
	const struct weir_tensor *dst, *src;
	uint64_t bytes; /* of each, gaps included */
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

/* The device of @buf if it is neither the host nor the stream's, or NULL. */
static struct weir_dev *other_device(const struct weir__stream_op *op,
				     const struct weir_buf *buf)
{
	struct weir_dev *dev = buf->buft->dev;

	return weir__buf_is_host(buf) || dev == op->stream->dev ? NULL : dev;
}

/* The kind of work depends on which of the two are in host memory. */
static int choose_kind(struct weir__stream_op *op, const struct copy *c)
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
 * Append the rectangle at @off of both tensors. Returns 1 if both are the same
 * memory, and there is nothing to copy.
 */
static int add_rectangle(struct copy *c, uint64_t off)
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

static int add_rectangles(struct copy *c)
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
 * Queue the rectangles if @r is 0; if not, or after the first failure, drop
 * them.
 */
static int copy_queue_all(struct copy *c, int r)
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
	struct copy c = { .stream = stream, .dst = dst, .src = src };
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
