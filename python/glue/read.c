/* SPDX-License-Identifier: MIT */
/* One tensor, or any part of one, read at once. */
#include "part.h"
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

struct glue_tensor *glue_read_whole(struct glue_model *self, size_t i,
				    const char *device)
{
	struct request rq = { 0 };

	return read_one(self, i, device, 0, &rq);
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

struct glue_tensor *glue_read_rows(struct glue_model *self,
				   const struct weir_entry *e,
				   const struct range *range,
				   const struct rows *rows, const char *device)
{
	struct glue_memory *memory = NULL;
	struct glue_tensor *tensor = NULL;
	struct weir_tensor t;
	size_t bytes;

	if (alloc_part(self, e, range, device, &t) < 0)
		return NULL;
	(void)weir_tensor_bytes(&t, &bytes);
	if (!bytes || !read_rows(self, e, rows, &t))
		memory = glue_memory_new(t.buf);
	if (memory)
		tensor = glue_tensor_new(memory, &t);
	Py_XDECREF(memory);
	weir_buf_free(t.buf);
	return tensor;
}

/* One range for each dimension of @e, inside it. */
static int read_ranges(PyObject *ranges, const struct weir_entry *e,
		       struct range *ret)
{
	for (unsigned i = 0; i < e->ndim; i++) {
		PyObject *item = PySequence_GetItem(ranges, i);
		long long start, n, step;
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
		ret[i] = (struct range){ start, n, step };
	}
	return 0;
}

PyObject *glue_model_read_slice(PyObject *o, PyObject *args)
{
	struct glue_model *self = (struct glue_model *)o;
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct weir_entry e = { .size = sizeof(e) };
	struct range range[WEIR_MAX_DIMS];
	const char *device = NULL;
	struct rows rows;
	PyObject *ranges;
	Py_ssize_t i;
	int r;

	if (!PyArg_ParseTuple(args, "nO|z:read_slice", &i, &ranges, &device) ||
	    !glue_model_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	r = weir_model_tensor(self->model, (size_t)i, &e);
	if (r >= 0)
		r = weir_dtype_info(e.dtype, &info);
	if (r < 0)
		return glue_fail(r);
	if (read_ranges(ranges, &e, range) < 0 ||
	    glue_range_check(range, &e, info.block) < 0)
		return NULL;
	glue_rows(&e, range, &info, &rows);
	return (PyObject *)glue_read_rows(self, &e, range, &rows, device);
}
