/* SPDX-License-Identifier: MIT */
/* The driver calls of a copy of flat bytes, of rows, or of a scatter copy. */
#include "cuda/queue.h"

#define drv weir__cuda_drv
#define BATCH 128u /* copies in one call */

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

CUresult weir__cuda_copy_each_row(struct weir__cuda_queue *q,
				  const struct weir_backend_work *w,
				  weir__cuda_copy_fn *copy)
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

bool weir__cuda_pitch_fits(const struct weir__cuda *c,
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

	if (weir__cuda_pitch_fits(q->c, w))
		r = copy_rectangle(q, w);
	return r == CUDA_ERROR_INVALID_VALUE
		       ? weir__cuda_copy_each_row(q, w, copy_flat)
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

CUresult weir__cuda_copy(struct weir__cuda_queue *q,
			 const struct weir_backend_work *w)
{
	if (w->n_copies)
		return copy_scatter(q, w);
	if ((w->dst_dev || w->src_dev) && weir__cuda_is_between(q, w))
		return weir__cuda_copy_between(q, w);
	return w->rows == 1 ? copy_flat(q, w) : copy_rows(q, w);
}
