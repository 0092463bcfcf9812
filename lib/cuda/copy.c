/* SPDX-License-Identifier: MIT */
/*
 * The driver calls of a copy: of flat bytes, of rows, of a scatter copy, or
 * between devices. The driver makes the last over the bus if one device may
 * access the memory of the other, else through host memory of the driver, which
 * is slower, but asynchronous too.
 */
#include "cuda/queue.h"

#include <errno.h>

#define drv weir__cuda_drv
#define BATCH 128u /* copies in one call */

typedef CUresult copy_fn(struct weir__cuda_queue *q,
			 const struct weir_backend_work *w);

static CUdeviceptr address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

static CUresult copy_rectangle(struct weir__cuda_queue *q,
			       const struct weir_backend_work *w)
{
	CUDA_MEMCPY2D m = {
		.srcMemoryType = w->kind == WEIR_WORK_SET
					 ? CU_MEMORYTYPE_HOST
					 : CU_MEMORYTYPE_DEVICE,
		.srcHost = w->src,
		.srcDevice = address(w->src),
		.srcPitch = w->src_pitch,
		.dstMemoryType = w->kind == WEIR_WORK_GET
					 ? CU_MEMORYTYPE_HOST
					 : CU_MEMORYTYPE_DEVICE,
		.dstHost = w->dst,
		.dstDevice = address(w->dst),
		.dstPitch = w->dst_pitch,
		.WidthInBytes = w->width,
		.Height = w->rows,
	};

	return drv.cuMemcpy2DAsync(&m, q->stream);
}

static CUresult copy_flat(struct weir__cuda_queue *q,
			  const struct weir_backend_work *w)
{
	if (w->kind == WEIR_WORK_SET)
		return drv.cuMemcpyHtoDAsync(address(w->dst), w->src, w->width,
					     q->stream);
	if (w->kind == WEIR_WORK_GET)
		return drv.cuMemcpyDtoHAsync(w->dst, address(w->src), w->width,
					     q->stream);
	return drv.cuMemcpyDtoDAsync(address(w->dst), address(w->src), w->width,
				     q->stream);
}

/* Copy row by row, each by @copy: for a pitch that is too large. */
static CUresult copy_each_row(struct weir__cuda_queue *q,
			      const struct weir_backend_work *w, copy_fn *copy)
{
	struct weir_backend_work row = *w;
	CUresult r = CUDA_SUCCESS;

	row.rows = 1;
	for (size_t i = 0; i < w->rows && !r; i++) {
		row.dst = w->dst + i * w->dst_pitch;
		row.src = w->src + i * w->src_pitch;
		r = copy(q, &row);
	}
	return r;
}

static bool pitch_fits(const struct weir__cuda *c,
		       const struct weir_backend_work *w)
{
	return w->dst_pitch <= c->max_pitch && w->src_pitch <= c->max_pitch;
}

/*
 * Inside a device a driver may refuse pitches that cuMemAllocPitch has not set.
 */
static CUresult copy_rows(struct weir__cuda_queue *q,
			  const struct weir_backend_work *w)
{
	CUresult r = CUDA_ERROR_INVALID_VALUE;

	if (pitch_fits(q->c, w))
		r = copy_rectangle(q, w);
	return r == CUDA_ERROR_INVALID_VALUE ? copy_each_row(q, w, copy_flat)
					     : r;
}

struct batch {
	CUdeviceptr dst[BATCH], src[BATCH];
	size_t bytes[BATCH], n;
};

/*
 * Returns false if the batch is full. A copy whose source and destination
 * follow those of the last is merged with it.
 */
static bool batch_add(struct batch *b, const struct weir_backend_copy *p)
{
	CUdeviceptr dst = address(p->dst), src = address(p->src);
	size_t last = b->n - 1;

	if (b->n && b->dst[last] + b->bytes[last] == dst &&
	    b->src[last] + b->bytes[last] == src) {
		b->bytes[last] += p->bytes;
		return true;
	}
	if (b->n == BATCH)
		return false;
	b->dst[b->n] = dst;
	b->src[b->n] = src;
	b->bytes[b->n++] = p->bytes;
	return true;
}

/* The driver takes no batches on the default stream. */
static bool can_batch(const struct weir__cuda_queue *q, const struct batch *b)
{
	return drv.copy_batch && q->c->batches && b->n > 1 && q->stream &&
	       q->stream != CU_STREAM_LEGACY;
}

/*
 * The driver reads the sources in the order of the stream, as for any copy: a
 * slot can be used again when the event after the batch is complete.
 */
static CUresult batch_copy(struct weir__cuda_queue *q, struct batch *b)
{
	CUmemcpyAttributes attr = {
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
	};
	size_t first = 0, failed;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;

	if (can_batch(q, b))
		r = drv.copy_batch(b->dst, b->src, b->bytes, b->n, &attr,
				   &first, 1, &failed, q->stream);
	if (r != CUDA_ERROR_NOT_SUPPORTED)
		return r;
	r = CUDA_SUCCESS;
	for (size_t i = 0; i < b->n && !r; i++)
		r = drv.cuMemcpyHtoDAsync(b->dst[i],
					  (const void *)(uintptr_t)b->src[i],
					  b->bytes[i], q->stream);
	return r;
}

static CUresult copy_scatter(struct weir__cuda_queue *q,
			     const struct weir_backend_work *w)
{
	struct batch b = { .n = 0 };
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < w->n_copies && !r; i++) {
		if (batch_add(&b, &w->copy[i]))
			continue;
		r = batch_copy(q, &b);
		b.n = 0;
		batch_add(&b, &w->copy[i]);
	}
	return r ? r : batch_copy(q, &b);
}

/* Let @c access the memory of @other; a context is current. */
static CUresult peer_enable(struct weir__cuda *c, struct weir__cuda *other)
{
	int can = 0;
	CUresult r;

	if (!drv.cuDeviceCanAccessPeer || !drv.cuCtxEnablePeerAccess)
		return CUDA_ERROR_NOT_SUPPORTED;
	r = drv.cuDeviceCanAccessPeer(&can, c->device, other->device);
	if (r || !can)
		return r ? r : CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	r = drv.cuCtxEnablePeerAccess(other->context, 0);
	return r == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ? CUDA_SUCCESS : r;
}

/* Returns true if access of @c to @other was requested before. */
static bool peer_asked(struct weir__cuda *c, const struct weir__cuda *other)
{
	uint64_t bit = (uint64_t)1 << other->device % 64;

	return atomic_load(&c->reached) & bit ||
	       atomic_fetch_or(&c->reached, bit) & bit;
}

int weir__cuda_reach(struct weir_dev *dev, struct weir_dev *other)
{
	struct weir__cuda *c = weir__cuda_of(dev), *o = weir__cuda_of(other);
	char words[160];
	CUresult r;
	int ret;

	if (atomic_load(&o->lost))
		return weir__cuda_enter(o); /* -ENODEV with its sentence */
	/* Virtual devices of one GPU share its context. */
	if (c->context == o->context || peer_asked(c, o))
		return 0;
	ret = weir__cuda_enter(c);
	if (ret < 0)
		return ret;
	r = peer_enable(c, o);
	weir__cuda_leave();
	if (!r)
		return 0;
	weir__cuda_note(c, r);
	weir__cuda_describe_result((int32_t)r, words, sizeof(words));
	c->host->log(
		c->host->dev_root(dev),
		"%s has no access to memory of %s: copies between them go through the host (%s)",
		c->host->dev_name(dev), c->host->dev_name(other), words);
	return 0;
}

CUresult weir__cuda_copy_peer(struct weir__cuda *dst_dev, void *dst,
			      struct weir__cuda *src_dev, const void *src,
			      size_t n, CUstream stream)
{
	return drv.cuMemcpyPeerAsync((CUdeviceptr)(uintptr_t)dst,
				     dst_dev->context,
				     (CUdeviceptr)(uintptr_t)src,
				     src_dev->context, n, stream);
}

static struct weir__cuda *device_of(const struct weir__cuda_queue *q,
				    struct weir_dev *dev)
{
	return dev ? weir__cuda_of(dev) : q->c;
}

static CUresult peer_copy_row(struct weir__cuda_queue *q,
			      const struct weir_backend_work *w)
{
	return weir__cuda_copy_peer(device_of(q, w->dst_dev), w->dst,
				    device_of(q, w->src_dev), w->src, w->width,
				    q->stream);
}

static CUresult peer_copy_rectangle(struct weir__cuda_queue *q,
				    const struct weir_backend_work *w)
{
	struct weir__cuda *d = device_of(q, w->dst_dev);
	struct weir__cuda *s = device_of(q, w->src_dev);
	CUDA_MEMCPY3D_PEER m = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = (CUdeviceptr)(uintptr_t)w->src,
		.srcContext = s->context,
		.srcPitch = w->src_pitch,
		.srcHeight = w->rows,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = (CUdeviceptr)(uintptr_t)w->dst,
		.dstContext = d->context,
		.dstPitch = w->dst_pitch,
		.dstHeight = w->rows,
		.WidthInBytes = w->width,
		.Height = w->rows,
		.Depth = 1,
	};

	return pitch_fits(d, w) && pitch_fits(s, w)
		       ? drv.cuMemcpy3DPeerAsync(&m, q->stream)
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult peer_copy(struct weir__cuda_queue *q,
			  const struct weir_backend_work *w)
{
	CUresult r = w->rows == 1 ? peer_copy_row(q, w)
				  : peer_copy_rectangle(q, w);

	/* The pitch is too large, or the driver refuses it. */
	return r == CUDA_ERROR_INVALID_VALUE && w->rows > 1
		       ? copy_each_row(q, w, peer_copy_row)
		       : r;
}

/* True if an end of the copy is on another device than the queue. */
static bool is_between(const struct weir__cuda_queue *q,
		       const struct weir_backend_work *w)
{
	return device_of(q, w->dst_dev)->context != q->c->context ||
	       device_of(q, w->src_dev)->context != q->c->context;
}

/* Returns the device of the copy that is not the queue's. */
static struct weir__cuda *other_end(const struct weir__cuda_queue *q,
				    struct weir__cuda *d, struct weir__cuda *s)
{
	return d->context == q->c->context ? s : d;
}

/*
 * If a call fails because the other device is lost, this one may still work:
 * the queue's own stream tells which.
 */
static CUresult copy_between(struct weir__cuda_queue *q,
			     const struct weir_backend_work *w)
{
	struct weir__cuda *d = device_of(q, w->dst_dev);
	struct weir__cuda *s = device_of(q, w->src_dev);
	struct weir__cuda *other = other_end(q, d, s);
	CUresult r;

	if (atomic_load(&d->lost) || atomic_load(&s->lost))
		return CUDA_ERROR_INVALID_CONTEXT;
	r = peer_copy(q, w);
	if (!weir__cuda_is_fatal(r) ||
	    weir__cuda_is_fatal(drv.cuStreamQuery(q->stream)))
		return r;
	weir__cuda_note(other, r);
	return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult weir__cuda_copy(struct weir__cuda_queue *q,
			 const struct weir_backend_work *w)
{
	if (w->n_copies)
		return copy_scatter(q, w);
	if ((w->dst_dev || w->src_dev) && is_between(q, w))
		return copy_between(q, w);
	return w->rows == 1 ? copy_flat(q, w) : copy_rows(q, w);
}
