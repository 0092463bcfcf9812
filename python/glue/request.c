/* SPDX-License-Identifier: MIT */
/* Requests: from the arguments of a load to weir_load_start(). */
#include "request.h"
#include <stdlib.h>

/* The most bytes of memory of malloc(3). */
#define SMALL 65536

static int no_memory(void)
{
	PyErr_NoMemory();
	return -1;
}

void glue_request_end(struct request *rq)
{
	for (size_t i = 0; rq->wrapped && i < rq->n; i++)
		weir_buf_free(rq->wrapped[i]);
	free(rq->wrapped);
	free(rq->dst);
	free(rq->sliced);
	free(rq->slice);
	free(rq->index);
}

static int read_indices(struct request *rq, PyObject *indices)
{
	Py_ssize_t n = PySequence_Size(indices);
	PyObject *item;

	if (n < 0)
		return -1;
	rq->n = (size_t)n;
	rq->index = calloc(rq->n + 1, sizeof(*rq->index));
	rq->dst = calloc(rq->n + 1, sizeof(*rq->dst));
	if (!rq->index || !rq->dst)
		return no_memory();
	for (Py_ssize_t i = 0; i < n; i++) {
		item = PySequence_GetItem(indices, i);
		if (!item)
			return -1;
		rq->index[i] = PyLong_AsSize_t(item);
		Py_DECREF(item);
		if (PyErr_Occurred())
			return -1;
	}
	return 0;
}

static int read_slice(PyObject *item, struct weir_slice *slice, bool *sliced)
{
	long long start, n;
	unsigned dim;

	*sliced = item != Py_None;
	if (!*sliced)
		return 0;
	if (!PyArg_ParseTuple(item, "ILL", &dim, &start, &n))
		return -1;
	slice->dim = dim;
	slice->start = start;
	slice->n = n;
	return 0;
}

/* None, or for each tensor None or (dimension, start, number). */
static int read_slices(struct request *rq, PyObject *slices)
{
	PyObject *item;
	int r = 0;

	if (slices == Py_None)
		return 0;
	rq->slice = calloc(rq->n + 1, sizeof(*rq->slice));
	rq->sliced = calloc(rq->n + 1, sizeof(*rq->sliced));
	if (!rq->slice || !rq->sliced)
		return no_memory();
	for (size_t i = 0; !r && i < rq->n; i++) {
		item = PySequence_GetItem(slices, (Py_ssize_t)i);
		r = item ? read_slice(item, &rq->slice[i], &rq->sliced[i]) : -1;
		Py_XDECREF(item);
	}
	return r;
}

int glue_numbers(PyObject *tuple, int64_t *ret, unsigned *ret_n)
{
	Py_ssize_t n = PySequence_Size(tuple);
	PyObject *item;

	if (n < 0)
		return -1;
	if (n > WEIR_MAX_DIMS) {
		glue_fail_text(-EOPNOTSUPP, "more than 8 dimensions");
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		item = PySequence_GetItem(tuple, i);
		if (!item)
			return -1;
		ret[i] = PyLong_AsLongLong(item);
		Py_DECREF(item);
		if (PyErr_Occurred())
			return -1;
	}
	*ret_n = (unsigned)n;
	return 0;
}

int glue_place(struct weir_buft *buft, PyObject *item, struct weir_tensor *t,
	       struct weir_buf **ret_buf)
{
	int64_t shape[WEIR_MAX_DIMS], stride[WEIR_MAX_DIMS];
	PyObject *dims, *strides, *owner;
	unsigned long long address;
	unsigned dtype, ndim, n;
	size_t bytes;
	int r;

	if (!PyArg_ParseTuple(item, "KIOOO", &address, &dtype, &dims, &strides,
			      &owner) ||
	    glue_numbers(dims, shape, &ndim) < 0)
		return -1;
	r = weir_tensor_init(t, dtype, ndim, shape);
	if (r >= 0 && strides != Py_None) {
		if (glue_numbers(strides, stride, &n) < 0)
			return -1;
		if (n != ndim)
			r = -EINVAL;
		else
			memcpy(t->stride, stride, n * sizeof(*stride));
	}
	if (r >= 0)
		r = weir_tensor_bytes(t, &bytes);
	if (r < 0) {
		glue_fail(r);
		return -1;
	}
	/* An empty tensor may have no address. */
	if (glue_wrap(buft, bytes ? (void *)(uintptr_t)address : (void *)t,
		      bytes, owner, ret_buf) < 0)
		return -1;
	r = weir_tensor_place(t, *ret_buf, 0);
	if (r < 0) {
		glue_fail(r);
		weir_buf_free(*ret_buf);
		*ret_buf = NULL;
	}
	return r < 0 ? -1 : 0;
}

static int read_targets(struct request *rq, PyObject *targets)
{
	PyObject *item;
	int r = 0;

	if (targets == Py_None)
		return 0;
	rq->wrapped = calloc(rq->n + 1, sizeof(*rq->wrapped));
	if (!rq->wrapped)
		return no_memory();
	for (size_t i = 0; !r && i < rq->n; i++) {
		item = PySequence_GetItem(targets, (Py_ssize_t)i);
		r = item ? glue_place(rq->buft, item, &rq->dst[i],
				      &rq->wrapped[i])
			 : -1;
		Py_XDECREF(item);
	}
	return r;
}

int glue_request_parse(struct request *rq, PyObject *args, PyObject *kw)
{
	static char *names[] = { "model",  "indices",  "slices",  "targets",
				 "device", "kind",     "way",     "dtype",
				 "align",  "priority", "depth",   "flags",
				 "digest", "verify",   "discard", "buf_flags",
				 NULL };
	PyObject *indices = Py_None, *slices = Py_None, *targets = Py_None;
	PyObject *manifest = Py_None;
	unsigned long long align = 0;
	const char *device = NULL;
	unsigned kind = 0;
	PyObject *model;

	memset(rq, 0, sizeof(*rq));
	rq->select.size = sizeof(rq->select);
	rq->load.size = sizeof(rq->load);
	rq->digest = -1;
	if (!PyArg_ParseTupleAndKeywords(
		    args, kw, "O!|OOO$zIIIKiIIiOpI:Load", names,
		    glue_model_type, &model, &indices, &slices, &targets,
		    &device, &kind, &rq->select.way, &rq->select.dtype, &align,
		    &rq->priority, &rq->load.depth, &rq->load.flags,
		    &rq->digest, &manifest, &rq->discard,
		    &rq->select.buf_flags))
		return -1;
	if (manifest != Py_None &&
	    !PyObject_TypeCheck(manifest, glue_manifest_type)) {
		PyErr_SetString(PyExc_TypeError, "not a Manifest");
		return -1;
	}
	if (manifest != Py_None)
		rq->manifest = (struct glue_manifest *)manifest;
	rq->model = (struct glue_model *)model;
	rq->select.align = align;
	glue_owners_drop();
	if (!glue_model_of(rq->model) ||
	    !glue_root_of((PyObject *)rq->model->root))
		return -1;
	rq->buft = glue_buft(rq->model->root, device, kind);
	if (!rq->buft)
		return -1;
	rq->all = indices == Py_None;
	if (rq->all)
		return 0;
	if (read_indices(rq, indices) < 0 || read_slices(rq, slices) < 0 ||
	    read_targets(rq, targets) < 0) {
		glue_request_end(rq);
		return -1;
	}
	return 0;
}

int glue_request_one(struct request *rq, struct glue_model *model, size_t i)
{
	rq->model = model;
	rq->digest = -1;
	rq->n = 1;
	rq->index = calloc(1, sizeof(*rq->index));
	rq->dst = calloc(1, sizeof(*rq->dst));
	if (!rq->index || !rq->dst)
		return no_memory();
	rq->index[0] = i;
	return 0;
}

/* The dtype of a tensor of dtype @from in memory. */
static uint32_t wanted(const struct request *rq, uint32_t from)
{
	uint32_t to = rq->select.dtype;

	if (!to || from == WEIR_DTYPE_F8_E8M0 ||
	    weir_convert(to, NULL, from, NULL, 0) < 0)
		return from;
	return to;
}

/* The tensor that target @i needs, not placed yet. */
static int shape_target(struct request *rq, size_t i)
{
	struct weir_entry e = { .size = sizeof(e) };
	int r;

	r = weir_model_tensor(rq->model->model, rq->index[i], &e);
	if (r < 0)
		return r;
	/* The library says what is wrong with a slice. */
	if (rq->slice && rq->sliced[i] && rq->slice[i].dim < e.ndim &&
	    rq->slice[i].n >= 0)
		e.shape[rq->slice[i].dim] = rq->slice[i].n;
	return weir_tensor_init(&rq->dst[i], wanted(rq, e.dtype), e.ndim,
				e.shape);
}

/*
 * A buffer for the targets. The library's own come in whole pages, which
 * costs more than to read a small tensor.
 */
static int alloc_targets(struct request *rq, size_t bytes,
			 struct weir_buf **ret_buf)
{
	struct weir_buf_opts opts = WEIR_BUF_OPTS_INIT;
	void *memory;
	int r;

	opts.flags = rq->select.buf_flags;
	if (!rq->small || !bytes || bytes > SMALL)
		return weir_buf_alloc(rq->buft, bytes, &opts, ret_buf);
	memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	if (!memory)
		return -ENOMEM;
	r = weir_buf_wrap(rq->buft, memory, bytes, free, memory, ret_buf);
	if (r < 0)
		free(memory);
	return r;
}

/*
 * Place the tensors of all targets in one new buffer, which the caller frees,
 * after a failure too.
 */
static int place_targets(struct request *rq, struct weir_target *targets,
			 struct weir_buf **ret_buf)
{
	uint64_t *offset = calloc(rq->n + 1, sizeof(*offset));
	uint64_t bytes = 0;
	int r = offset ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < rq->n; i++)
		r = shape_target(rq, i);
	if (r >= 0)
		r = weir_targets_layout(rq->model->model, targets, rq->n, 0,
					rq->select.align, offset, &bytes);
	if (r >= 0)
		r = alloc_targets(rq, bytes, ret_buf);
	for (size_t i = 0; r >= 0 && i < rq->n; i++)
		r = weir_tensor_place(&rq->dst[i], *ret_buf, offset[i]);
	free(offset);
	return r;
}

static int add_targets(struct request *rq, struct weir_plan *plan)
{
	struct weir_target *targets = calloc(rq->n + 1, sizeof(*targets));
	struct weir_buf *buf = NULL;
	int r = 0;

	if (!targets)
		return -ENOMEM;
	for (size_t i = 0; i < rq->n; i++) {
		targets[i].size = sizeof(*targets);
		targets[i].tensor = rq->index[i];
		targets[i].dst = &rq->dst[i];
		targets[i].slice = rq->slice && rq->sliced[i] ? &rq->slice[i]
							      : NULL;
		targets[i].priority = rq->priority;
		targets[i].way = rq->select.way;
	}
	if (!rq->wrapped)
		r = place_targets(rq, targets, &buf);
	if (r >= 0)
		r = weir_plan_add_tensors(plan, targets, rq->n);
	weir_buf_free(buf);
	free(targets);
	return r;
}

static int add_all(struct request *rq, struct weir_plan *plan)
{
	struct weir_sink sink = WEIR_SINK_INIT;

	if (!weir_model_count(rq->model->model))
		return 0;
	sink.way = rq->select.way;
	return rq->discard ? weir_plan_sink(plan, NULL, &sink)
			   : weir_plan_add(plan, NULL, rq->buft, &rq->select);
}

static int add_digests(struct request *rq, struct weir_plan *plan)
{
	if (rq->manifest)
		return weir_plan_verify(plan, rq->manifest->manifest);
	return rq->digest < 0 ? 0 : weir_plan_digest(plan, rq->digest);
}

/* Does not need the GIL. */
static int start(struct request *rq, struct weir_load **ret_load)
{
	struct weir_model *model = rq->model->model;
	struct weir_plan *plan;
	int r;

	r = weir_plan_new(model, &plan);
	if (r < 0)
		return r;
	r = rq->all ? add_all(rq, plan) : add_targets(rq, plan);
	if (r >= 0)
		r = add_digests(rq, plan);
	if (r >= 0)
		r = weir_load_start(plan, &rq->load, ret_load);
	weir_plan_free(plan);
	return r;
}

int glue_request_start(struct request *rq, struct weir_load **ret_load)
{
	int r;

	/* Another thread may have closed it since the request was parsed. */
	if (!rq->model->model) {
		glue_fail_text(-EBADF, "the model was closed");
		return -1;
	}
	glue_model_enter(rq->model);
	Py_BEGIN_ALLOW_THREADS r = start(rq, ret_load);
	Py_END_ALLOW_THREADS glue_model_leave(rq->model);
	if (r < 0) {
		glue_fail(r);
		return -1;
	}
	return 0;
}
