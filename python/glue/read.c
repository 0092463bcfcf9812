/* SPDX-License-Identifier: MIT */
/* One tensor, or any part of one, read at once. */
#include "glue.h"
#include "request.h"

static int attempt_wait(void *load, int64_t ns)
{
	return weir_load_wait(load, ns);
}

/* The tensor of a load of one tensor. */
static PyObject *take_first(struct weir_load *load)
{
	struct glue_tensor *tensor = NULL;
	struct weir_weights *weights;
	struct glue_memory *memory;
	const struct weir_tensor *t;
	int r;

	r = weir_load_weights(load, &weights);
	if (r < 0)
		return glue_fail(r);
	t = weir_weights_get(weights, 0);
	memory = t ? glue_memory_new(t->buf) : NULL;
	if (memory)
		tensor = glue_tensor_new(memory, t);
	Py_XDECREF(memory);
	weir_weights_free(weights);
	return (PyObject *)tensor;
}

static PyObject *read_request(struct request *rq)
{
	PyObject *tensor = NULL;
	struct weir_load *load;
	int r;

	if (glue_request_start(rq, &load) < 0)
		return NULL;
	r = weir_load_wait(load, 0);
	if (r == -ETIMEDOUT)
		r = glue_wait(attempt_wait, load, -1);
	if (r == GLUE_INTERRUPTED)
		weir_load_cancel(load);
	else if (r < 0)
		glue_fail(r);
	else
		tensor = take_first(load);
	weir_load_free(load);
	return tensor;
}

/* Memory of malloc(3) is as good as the CPU's for a small tensor. */
static struct glue_tensor *read_one(struct glue_model *self, size_t i,
				    const char *device, unsigned kind,
				    struct request *rq)
{
	PyObject *tensor = NULL;

	rq->select.size = sizeof(rq->select);
	rq->load.size = sizeof(rq->load);
	rq->buft = glue_buft(self->root, device, kind);
	rq->small = !kind && (!device || !strcmp(device, "CPU"));
	if (rq->buft && glue_request_one(rq, self, i) >= 0)
		tensor = read_request(rq);
	glue_request_end(rq);
	return (struct glue_tensor *)tensor;
}

PyObject *glue_model_read(PyObject *o, PyObject *args, PyObject *kw)
{
	static char *names[] = { "i", "device", "kind", "way", "dtype", NULL };
	struct glue_model *self = (struct glue_model *)o;
	struct request rq = { 0 };
	const char *device = NULL;
	unsigned kind = 0;
	Py_ssize_t i;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "n|zIII:read", names, &i,
					 &device, &kind, &rq.select.way,
					 &rq.select.dtype) ||
	    !glue_model_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	return (PyObject *)read_one(self, (size_t)i, device, kind, &rq);
}

PyObject *glue_model_get(PyObject *o, PyObject *args)
{
	struct glue_model *self = (struct glue_model *)o;
	struct glue_tensor *tensor;
	struct request rq = { 0 };
	PyObject *maker, *object;
	const char *device;
	const char *name;
	size_t i;

	if (!PyArg_ParseTuple(args, "szO!:get", &name, &device, glue_maker_type,
			      &maker) ||
	    !glue_model_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	if (weir_model_find(self->model, name, &i) < 0)
		Py_RETURN_NONE;
	tensor = read_one(self, i, device, 0, &rq);
	object = tensor ? glue_make((struct glue_maker *)maker, tensor) : NULL;
	Py_XDECREF(tensor);
	return object;
}

/* A range of indices of one dimension. */
struct range {
	int64_t start, n, step;
};

/*
 * The bytes of a part of a tensor: rows of width bytes. The innermost level of
 * rows is a rectangle; the levels around it are counted through.
 */
struct rows {
	uint64_t width, first;
	unsigned levels;
	uint64_t n[WEIR_MAX_DIMS], pitch[WEIR_MAX_DIMS];
};

/*
 * Divide @e by @range into rows. Neighbouring levels become one if all their
 * rows have the same distance.
 */
static void find_rows(const struct weir_entry *e, const struct range *range,
		      uint64_t block_bytes, uint64_t block, struct rows *ret)
{
	uint64_t stride = block_bytes;
	bool inside = true;

	ret->width = block_bytes;
	ret->first = 0;
	ret->levels = 0;
	for (int d = (int)e->ndim - 1; d >= 0; d--) {
		uint64_t per = d == (int)e->ndim - 1 ? block : 1;
		uint64_t size = (uint64_t)e->shape[d] / per;
		uint64_t n = (uint64_t)range[d].n / per;
		uint64_t pitch = stride * (uint64_t)range[d].step;
		unsigned top = ret->levels;

		ret->first += stride * ((uint64_t)range[d].start / per);
		if (n == 1)
			inside = inside && size == 1;
		else if (inside && range[d].step == 1)
			ret->width *= n;
		else if (top && pitch == ret->n[top - 1] * ret->pitch[top - 1])
			ret->n[top - 1] *= n;
		else {
			ret->n[top] = n;
			ret->pitch[top] = pitch;
			ret->levels++;
		}
		inside = inside && range[d].step == 1 && n == size;
		stride *= size;
	}
}

/* Queue the rectangles of @rows into @dst. */
static int queue_rows(struct weir_stream *stream, struct weir_file *file,
		      uint64_t off, const struct rows *rows,
		      const struct weir_tensor *dst)
{
	struct weir_rect rect = { .width = rows->width,
				  .rows = rows->levels ? rows->n[0] : 1,
				  .pitch = rows->width,
				  .host_pitch = rows->levels ? rows->pitch[0]
							     : rows->width };
	uint64_t at[WEIR_MAX_DIMS] = { 0 };
	unsigned level;
	int r;

	off += rows->first;
	if (!rows->levels)
		return weir_stream_read(stream, file, off, dst, 0, rows->width);
	for (;;) {
		uint64_t from = off;

		for (unsigned i = 1; i < rows->levels; i++)
			from += at[i] * rows->pitch[i];
		r = weir_stream_read_2d(stream, file, from, dst, &rect);
		if (r < 0)
			return r;
		rect.off += rect.width * rect.rows;
		for (level = 1; level < rows->levels; level++) {
			if (++at[level] < rows->n[level])
				break;
			at[level] = 0;
		}
		if (level >= rows->levels)
			return 0;
	}
}

static int attempt_sync(void *stream, int64_t ns)
{
	return weir_stream_sync(stream, ns);
}

/* Read @rows of tensor @e into @dst. Sets an exception. */
static int read_rows(struct glue_model *self, const struct weir_entry *e,
		     const struct rows *rows, const struct weir_tensor *dst)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buft_info buft = { .size = sizeof(buft) };
	struct weir_stream *stream;
	struct weir_file *file = weir_model_file(self->model, e->shard);
	int r;

	glue_model_enter(self);
	Py_BEGIN_ALLOW_THREADS r = weir_buf_info(dst->buf, &info);
	if (r >= 0)
		r = weir_buft_info(info.buft, &buft);
	if (r >= 0)
		r = weir_stream_new(buft.dev, NULL, &stream);
	if (r >= 0) {
		r = queue_rows(stream, file, e->offset, rows, dst);
		if (r < 0)
			weir_stream_free(stream);
	}
	Py_END_ALLOW_THREADS glue_model_leave(self);
	if (r >= 0) {
		r = glue_wait(attempt_sync, stream, -1);
		weir_stream_free(stream);
	}
	if (r < 0)
		glue_fail(r);
	return r ? -1 : 0;
}

/* A new contiguous tensor of the shape of @range. */
static int alloc_part(struct glue_model *self, const struct weir_entry *e,
		      const struct range *range, const char *device,
		      struct weir_tensor *ret)
{
	struct weir_buft *buft = glue_buft(self->root, device, 0);
	int64_t shape[WEIR_MAX_DIMS];
	struct weir_buf *buf;
	int r;

	if (!buft)
		return -1;
	for (unsigned i = 0; i < e->ndim; i++)
		shape[i] = range[i].n;
	r = weir_tensor_init(ret, e->dtype, e->ndim, shape);
	if (r >= 0) {
		size_t bytes = 0;

		glue_root_enter(self->root);
		Py_BEGIN_ALLOW_THREADS r = weir_tensor_bytes(ret, &bytes);
		if (r >= 0)
			r = weir_buf_alloc(buft, bytes, NULL, &buf);
		Py_END_ALLOW_THREADS glue_root_leave(self->root);
	}
	if (r >= 0)
		r = weir_tensor_place(ret, buf, 0);
	if (r < 0)
		glue_fail(r);
	return r < 0 ? -1 : 0;
}

/* One range for each dimension of @e, inside it and in whole blocks. */
static int read_ranges(PyObject *ranges, const struct weir_entry *e,
		       unsigned block, struct range *ret)
{
	for (unsigned i = 0; i < e->ndim; i++) {
		PyObject *item = PySequence_GetItem(ranges, i);
		long long start, n, step;
		unsigned per = i == e->ndim - 1 ? block : 1;
		int r;

		r = item && PyArg_ParseTuple(item, "LLL", &start, &n, &step);
		Py_XDECREF(item);
		if (!r)
			return -1;
		if (start < 0 || n < 0 || step < 1 || start > e->shape[i] ||
		    (n && (n - 1) > (e->shape[i] - 1 - start) / step)) {
			glue_fail_text(-EINVAL,
				       "a range exceeds its dimension");
			return -1;
		}
		if (start % per || n % per || (per > 1 && step > 1)) {
			glue_fail_text(-EINVAL, "a range divides the blocks of "
						"the dtype");
			return -1;
		}
		ret[i].start = start;
		ret[i].n = n;
		ret[i].step = step;
	}
	return 0;
}

PyObject *glue_model_read_slice(PyObject *o, PyObject *args)
{
	struct glue_model *self = (struct glue_model *)o;
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct weir_entry e = { .size = sizeof(e) };
	struct glue_memory *memory = NULL;
	struct range range[WEIR_MAX_DIMS];
	PyObject *ranges, *tensor = NULL;
	const char *device = NULL;
	struct weir_tensor t;
	struct rows rows;
	Py_ssize_t i;
	size_t bytes;
	int r;

	if (!PyArg_ParseTuple(args, "nO|z:read_slice", &i, &ranges, &device) ||
	    !glue_model_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	r = weir_model_tensor(self->model, (size_t)i, &e);
	if (r >= 0)
		r = weir_dtype_info(e.dtype, &info);
	if (r < 0)
		return glue_fail(r);
	if (read_ranges(ranges, &e, info.block, range) < 0 ||
	    alloc_part(self, &e, range, device, &t) < 0)
		return NULL;
	find_rows(&e, range, info.bytes, info.block, &rows);
	(void)weir_tensor_bytes(&t, &bytes);
	if (!bytes || !read_rows(self, &e, &rows, &t))
		memory = glue_memory_new(t.buf);
	if (memory)
		tensor = (PyObject *)glue_tensor_new(memory, &t);
	Py_XDECREF(memory);
	weir_buf_free(t.buf);
	return tensor;
}
