/* SPDX-License-Identifier: MIT */
/* The calls that a copy is made of: one for bytes in a row, or for rows. */
#include "cuda/queue.h"

#define drv weir__cuda_drv
#define BATCH 128u /* copies in one call */

static CUdeviceptr address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

static CUresult copy_rectangle(struct weir__cuda_queue *q,
			       const struct weir__work *w)
{
	CUDA_MEMCPY2D m = {
		.srcMemoryType = w->kind == WEIR__WORK_SET
					 ? CU_MEMORYTYPE_HOST
					 : CU_MEMORYTYPE_DEVICE,
		.srcHost = w->src,
		.srcDevice = address(w->src),
		.srcPitch = w->src_pitch,
		.dstMemoryType = w->kind == WEIR__WORK_GET
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
			  const struct weir__work *w)
{
	if (w->kind == WEIR__WORK_SET)
		return drv.cuMemcpyHtoDAsync(address(w->dst), w->src, w->width,
					     q->stream);
	if (w->kind == WEIR__WORK_GET)
		return drv.cuMemcpyDtoHAsync(w->dst, address(w->src), w->width,
					     q->stream);
	return drv.cuMemcpyDtoDAsync(address(w->dst), address(w->src), w->width,
				     q->stream);
}

CUresult weir__cuda_copy_each_row(struct weir__cuda_queue *q,
				  const struct weir__work *w,
				  weir__cuda_copy_fn *copy)
{
	struct weir__work row = *w;
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
			   const struct weir__work *w)
{
	return w->dst_pitch <= c->max_pitch && w->src_pitch <= c->max_pitch;
}

/* Between places of a device a driver may refuse pitches not its own. */
static CUresult copy_rows(struct weir__cuda_queue *q,
			  const struct weir__work *w)
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

/* False: there is no room. What adjoins the last at both ends is one with it. */
static bool add(struct batch *b, const struct weir__segment *p)
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

/* The driver has no batches on the stream that is called NULL. */
static bool can_batch(const struct weir__cuda_queue *q, const struct batch *b)
{
	return drv.copy_batch && q->c->batches && b->n > 1 && q->stream &&
	       q->stream != CU_STREAM_LEGACY;
}

/*
 * Sources are read when the stream has come there, as by any copy: a slot is
 * used again when the event behind it has passed.
 */
static CUresult copy_all(struct weir__cuda_queue *q, struct batch *b)
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

static CUresult copy_pieces(struct weir__cuda_queue *q,
			    const struct weir__work *w)
{
	struct batch b = { .n = 0 };
	CUresult r = CUDA_SUCCESS;

	for (size_t i = 0; i < w->n_segments && !r; i++) {
		if (add(&b, &w->segment[i]))
			continue;
		r = copy_all(q, &b);
		b.n = 0;
		add(&b, &w->segment[i]);
	}
	return r ? r : copy_all(q, &b);
}

CUresult weir__cuda_copy(struct weir__cuda_queue *q, const struct weir__work *w)
{
	if (w->n_segments)
		return copy_pieces(q, w);
	if ((w->dst_dev || w->src_dev) && weir__cuda_is_between(q, w))
		return weir__cuda_copy_between(q, w);
	return w->rows == 1 ? copy_flat(q, w) : copy_rows(q, w);
}
