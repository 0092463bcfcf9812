/* SPDX-License-Identifier: MIT */
/*
 * Copies between devices. The driver makes them: over the bus if one device may
 * access the memory of the other, else through host memory of the driver, which
 * is slower, but asynchronous too.
 */
#include "cuda/queue.h"

#include <errno.h>

#define drv weir__cuda_drv

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

static CUresult copy_row(struct weir__cuda_queue *q,
			 const struct weir_backend_work *w)
{
	return weir__cuda_copy_peer(device_of(q, w->dst_dev), w->dst,
				    device_of(q, w->src_dev), w->src, w->width,
				    q->stream);
}

static CUresult copy_rectangle(struct weir__cuda_queue *q,
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

	return weir__cuda_pitch_fits(d, w) && weir__cuda_pitch_fits(s, w)
		       ? drv.cuMemcpy3DPeerAsync(&m, q->stream)
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult copy_any(struct weir__cuda_queue *q,
			 const struct weir_backend_work *w)
{
	CUresult r = w->rows == 1 ? copy_row(q, w) : copy_rectangle(q, w);

	/* The pitch is too large, or the driver refuses it. */
	return r == CUDA_ERROR_INVALID_VALUE && w->rows > 1
		       ? weir__cuda_copy_each_row(q, w, copy_row)
		       : r;
}

bool weir__cuda_is_between(const struct weir__cuda_queue *q,
			   const struct weir_backend_work *w)
{
	return device_of(q, w->dst_dev)->context != q->c->context ||
	       device_of(q, w->src_dev)->context != q->c->context;
}

/* Of the two devices of the copy, return the one that is not the queue's. */
static struct weir__cuda *other_end(const struct weir__cuda_queue *q,
				    struct weir__cuda *d, struct weir__cuda *s)
{
	return d->context == q->c->context ? s : d;
}

/*
 * If a call fails because the other device is lost, this one may still work:
 * the queue's own stream tells which.
 */
CUresult weir__cuda_copy_between(struct weir__cuda_queue *q,
				 const struct weir_backend_work *w)
{
	struct weir__cuda *d = device_of(q, w->dst_dev);
	struct weir__cuda *s = device_of(q, w->src_dev);
	struct weir__cuda *other = other_end(q, d, s);
	CUresult r;

	if (atomic_load(&d->lost) || atomic_load(&s->lost))
		return CUDA_ERROR_INVALID_CONTEXT;
	r = copy_any(q, w);
	if (!weir__cuda_is_fatal(r) ||
	    weir__cuda_is_fatal(drv.cuStreamQuery(q->stream)))
		return r;
	weir__cuda_note(other, r);
	return CUDA_ERROR_INVALID_CONTEXT;
}
