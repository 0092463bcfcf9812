/* SPDX-License-Identifier: MIT */
/* Blocking moves to and from memory of a GPU, by one stream of the device. */
#include "cuda/cuda.h"

#define drv weir__cuda_drv

/*
 * Begin a blocking move: enter the context and take c->lock, since the device
 * has one stream for these. move_end releases both.
 */
static int move_begin(struct weir_dev *dev, struct weir__cuda **ret_c)
{
	struct weir__cuda *c = weir__cuda_of(dev);
	CUresult r = CUDA_SUCCESS;
	int ret = weir__cuda_enter(c);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&c->lock);
	c->errors_before = atomic_load(&c->unknown_errors);
	if (!c->blocking)
		r = drv.cuStreamCreate(&c->blocking, CU_STREAM_NON_BLOCKING);
	*ret_c = c;
	if (!r)
		return 0;
	pthread_mutex_unlock(&c->lock);
	weir__cuda_leave();
	return weir__cuda_fail(c, r, "cuStreamCreate");
}

/*
 * The driver's call returned @r: wait for the stream, even if the call failed,
 * since a part may be queued. If the wait fails too, the device may still write
 * to the memory, so it counts as lost.
 */
static int move_end(struct weir__cuda *c, CUresult r, const char *call,
		    size_t n)
{
	CUresult sync = drv.cuStreamSynchronize(c->blocking);

	weir__cuda_note(c, sync);
	if (sync && drv.cuStreamSynchronize(c->blocking))
		weir__cuda_lose(c, sync);
	if (!r && weir__cuda_unknown_error_since(c, c->errors_before))
		r = CUDA_ERROR_UNKNOWN;
	pthread_mutex_unlock(&c->lock);
	weir__cuda_leave();
	if (!r)
		r = sync;
	return r ? weir__cuda_fail(c, r, "%s of %zu bytes", call, n) : 0;
}

int weir__cuda_move_set(struct weir_dev *dev, void *dst, const void *src,
			size_t n)
{
	struct weir__cuda *c;
	int r = move_begin(dev, &c);

	return r < 0 ? r
		     : move_end(c,
				drv.cuMemcpyHtoDAsync(
					(CUdeviceptr)(uintptr_t)dst, src, n,
					c->blocking),
				"cuMemcpyHtoDAsync", n);
}

int weir__cuda_move_get(struct weir_dev *dev, void *dst, const void *src,
			size_t n)
{
	struct weir__cuda *c;
	int r = move_begin(dev, &c);

	return r < 0 ? r
		     : move_end(c,
				drv.cuMemcpyDtoHAsync(
					dst, (CUdeviceptr)(uintptr_t)src, n,
					c->blocking),
				"cuMemcpyDtoHAsync", n);
}

int weir__cuda_move_fill(struct weir_dev *dev, void *dst, uint8_t byte,
			 size_t n)
{
	struct weir__cuda *c;
	int r = move_begin(dev, &c);

	return r < 0 ? r
		     : move_end(c,
				drv.cuMemsetD8Async((CUdeviceptr)(uintptr_t)dst,
						    byte, n, c->blocking),
				"cuMemsetD8Async", n);
}

int weir__cuda_move_copy(struct weir_dev *dev, void *dst, const void *src,
			 size_t n)
{
	struct weir__cuda *c;
	int r = move_begin(dev, &c);

	return r < 0 ? r
		     : move_end(c,
				drv.cuMemcpyDtoDAsync(
					(CUdeviceptr)(uintptr_t)dst,
					(CUdeviceptr)(uintptr_t)src, n,
					c->blocking),
				"cuMemcpyDtoDAsync", n);
}

int weir__cuda_move_copy_from(struct weir_dev *dev, void *dst,
			      struct weir_dev *from, const void *src, size_t n)
{
	struct weir__cuda *c, *s = weir__cuda_of(from);
	int r;

	if (weir__cuda_of(dev)->context == s->context)
		return weir__cuda_move_copy(dev, dst, src, n);
	r = move_begin(dev, &c);
	return r < 0 ? r
		     : move_end(c,
				weir__cuda_copy_peer(c, dst, s, src, n,
						     c->blocking),
				"cuMemcpyPeerAsync", n);
}
