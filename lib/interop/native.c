/* SPDX-License-Identifier: MIT */
/* The calls of <weir/cuda.h>. */
#include <weir/cuda.h>

#include "core/error.h"
#include "races/races.h"
#include "interop/cuda_ext.h"
#include "stream/stream.h"

/* Puts @dev into use, and returns the table of its module. */
static int get_ext(struct weir_dev *dev, const struct weir__cuda_ext **ret_ext)
{
	weir__cuda_ext_fn *get;
	int r = weir__root_enter(dev->weir);

	if (r < 0)
		return r;
	get = (weir__cuda_ext_fn *)weir_dev_proc(dev, WEIR__CUDA_EXT);
	if (!get)
		return weir__fail(-EOPNOTSUPP, "%s is not a CUDA device",
				  dev->desc.name);
	r = weir__dev_use(dev);
	*ret_ext = get();
	return r;
}

/* Tells the race checker which streams are around the same CUstream. */
static void races_queue(struct weir_stream *s, const void *cuda)
{
	const void *legacy = (const void *)1; /* CU_STREAM_LEGACY, as NULL */

	if (weir__races_on(s->timeline.weir))
		weir__races_queue(&s->timeline, s->dev,
				  cuda == legacy ? NULL : cuda);
}

int weir_cuda_stream_wrap(struct weir_dev *dev, struct CUstream_st *stream,
			  struct weir_stream **ret_stream)
{
	const struct weir__cuda_ext *ext;
	void *queue;
	int r;

	WEIR__ENTER();
	r = get_ext(dev, &ext);
	if (r == 0)
		r = ext->queue_wrap(dev, stream, &queue);
	if (r == 0)
		r = weir__stream_around(dev, queue, &weir__stream_native, NULL,
					ret_stream);
	if (r == 0)
		races_queue(*ret_stream, stream);
	return r;
}

int weir_cuda_stream_native(struct weir_stream *stream,
			    struct CUstream_st **ret_stream)
{
	const struct weir__cuda_ext *ext;
	void *native;
	int r;

	WEIR__ENTER();
	r = get_ext(stream->dev, &ext);
	if (r == 0)
		r = ext->queue_native(stream->queue, &native);
	if (r < 0)
		return r;
	races_queue(stream, native);
	*ret_stream = native;
	return 0;
}

int weir_cuda_buf_wrap(struct weir_dev *dev, uint64_t ptr, size_t size,
		       void (*release)(void *arg), void *arg,
		       struct weir_buf **ret_buf)
{
	const struct weir__cuda_ext *ext;
	int r;

	WEIR__ENTER();
	r = get_ext(dev, &ext);
	if (r == 0 && size)
		r = ext->check_pointer(dev, ptr, size);
	if (r < 0)
		return r;
	/* buft[0] is the device's own memory (struct weir_backend_dev). */
	return weir__buf_foreign(&dev->buft[0], (void *)(uintptr_t)ptr, size,
				 release, arg, ret_buf);
}

int weir_cuda_buf_ptr(const struct weir_buf *buf, uint64_t *ret_ptr)
{
	struct weir_dev *dev = buf->buft->dev;
	int r;

	WEIR__ENTER();
	r = weir__root_read(dev->weir);
	if (r < 0)
		return r;
	if (buf->n_members)
		return weir__fail(-EINVAL,
				  "a joined buffer has no address of its own");
	if (!weir_dev_proc(dev, WEIR__CUDA_EXT))
		return weir__fail(-EOPNOTSUPP, "%s is not a CUDA device",
				  dev->desc.name);
	*ret_ptr = (uintptr_t)buf->mem.base;
	return 0;
}
