/* SPDX-License-Identifier: MIT */
/*
 * Tensors of a file, and parts of them, as objects of a framework: views of a
 * mapping, copies of it, or memory that they are read into.
 */
#include "part.h"
#include <stdlib.h>

/*
 * From this size on the library's reads are worth their cost: they use several
 * threads, huge pages, and direct reads of what is not in the page cache.
 */
#define LARGE (1 << 20)

static uint64_t rows_bytes(const struct rows *rows)
{
	uint64_t bytes = rows->width;

	for (unsigned i = 0; i < rows->levels; i++)
		bytes *= rows->n[i];
	return bytes;
}

/* How the part of @e in @rows becomes an object, if it is mapped at @data. */
static enum want choose(enum want want, const struct glue_maker *maker,
			const struct weir_entry *e, const struct rows *rows,
			const struct weir_dtype_info *dtype, const char *data)
{
	bool small = rows_bytes(rows) < LARGE;

	/* Arrays of NumPy are the program's own, as those of safetensors. */
	if (glue_maker_copies(maker) || (uintptr_t)data % dtype->align ||
	    (rows->levels && !glue_maker_strides(maker, e->dtype)))
		want = WANT_COPY;
	if (want == WANT_VIEW && !small && !glue_map_resident(data, e->bytes))
		want = WANT_READ;
	if (want == WANT_MAP)
		want = WANT_VIEW;
	return want == WANT_COPY && !small ? WANT_READ : want;
}

/* The tensor of @part in a mapping. */
static struct glue_tensor *view_new(struct glue_memory *memory,
				    const struct weir_entry *e,
				    const struct part *part,
				    const struct rows *rows)
{
	struct weir_tensor t, whole;
	int r = weir_tensor_init(&t, e->dtype, part->ndim, part->shape);

	if (r >= 0 && rows->levels)
		r = weir_tensor_init(&whole, e->dtype, e->ndim, e->shape);
	if (r < 0) {
		glue_fail(r);
		return NULL;
	}
	t.offset = e->offset + rows->first;
	for (unsigned i = 0; rows->levels && i < part->ndim; i++)
		t.stride[i] = whole.stride[part->dim[i]] *
			      part->range[part->dim[i]].step;
	return glue_tensor_new(memory, &t);
}

/* An array of NumPy with the shape of @t and the bytes of @rows. */
static PyObject *copy_array(struct glue_maker *maker, struct glue_tensor *t,
			    const struct rows *rows, const char *data)
{
	PyObject *bytes = PyByteArray_FromStringAndSize(NULL, t->bytes);
	PyObject *array = NULL;

	if (bytes && t->bytes)
		glue_rows_copy(rows, data, PyByteArray_AsString(bytes));
	if (bytes)
		array = glue_make_array(maker, t, bytes, 0);
	Py_XDECREF(bytes);
	return array;
}

/* A buffer of @bytes; whole pages would cost more than to copy them. */
static struct weir_buf *alloc_small(struct glue_model *self, size_t bytes)
{
	struct weir_buft *buft = glue_buft(self->root, NULL, WEIR_MEM_PLAIN);
	void *memory = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
	struct weir_buf *buf = NULL;
	int r = memory ? 0 : -ENOMEM;

	if (buft && memory)
		r = weir_buf_wrap(buft, memory, bytes, free, memory, &buf);
	if (!buf)
		free(memory);
	if (buft && r == -ENOMEM && !memory)
		PyErr_NoMemory();
	else if (buft && r < 0)
		glue_fail(r);
	return buf;
}

/* A tensor of @part with the bytes of @rows. */
static struct glue_tensor *copy_new(struct glue_model *self,
				    const struct weir_entry *e,
				    const struct part *part,
				    const struct rows *rows, const char *data)
{
	size_t bytes = (size_t)rows_bytes(rows);
	struct glue_memory *memory = NULL;
	struct glue_tensor *tensor = NULL;
	struct weir_buf *buf;
	struct weir_tensor t;
	int r = weir_tensor_init(&t, e->dtype, part->ndim, part->shape);

	if (r < 0) {
		glue_fail(r);
		return NULL;
	}
	buf = alloc_small(self, bytes);
	if (buf && bytes)
		glue_rows_copy(rows, data, weir_buf_data(buf));
	if (buf)
		memory = glue_memory_new(buf);
	if (memory)
		tensor = glue_tensor_new(memory, &t);
	Py_XDECREF(memory);
	weir_buf_free(buf);
	return tensor;
}

/* What was read, in the shape of @part. */
static struct glue_tensor *read_new(struct glue_model *self, size_t i,
				    const struct weir_entry *e,
				    const struct part *part,
				    const struct rows *rows, const char *device)
{
	struct glue_tensor *read, *tensor;
	struct weir_tensor t;
	int r;

	if (!rows->levels && rows->width == e->bytes)
		read = glue_read_whole(self, i, device);
	else
		read = glue_read_rows(self, e, part->range, rows, device);
	if (!read || (unsigned)read->ndim == part->ndim)
		return read;
	r = weir_tensor_init(&t, e->dtype, part->ndim, part->shape);
	if (r < 0) {
		Py_DECREF(read);
		glue_fail(r);
		return NULL;
	}
	t.offset = (uint64_t)(read->data - (char *)read->memory->data);
	tensor = glue_tensor_new(read->memory, &t);
	Py_DECREF(read);
	return tensor;
}

static PyObject *part_object(struct glue_model *self, size_t i,
			     const struct weir_entry *e,
			     const struct part *part, const char *device,
			     struct glue_maker *maker, enum want want)
{
	struct weir_dtype_info dtype = { .size = sizeof(dtype) };
	struct glue_memory *memory = NULL;
	struct glue_tensor *tensor;
	const char *data = NULL;
	PyObject *object;
	struct rows rows;
	int r = weir_dtype_info(e->dtype, &dtype);

	if (r < 0)
		return glue_fail(r);
	if (glue_range_check(part->range, e, dtype.block) < 0 ||
	    glue_maker_check(maker, e->dtype, self, i) < 0)
		return NULL;
	glue_rows(e, part->range, &dtype, &rows);
	if (want != WANT_READ) {
		r = glue_map(self, e, &memory);
		if (r < 0)
			return NULL;
		if (r > 0)
			data = (char *)memory->data + e->offset;
		want = data ? choose(want, maker, e, &rows, &dtype, data)
			    : WANT_READ;
	}
	if (want == WANT_READ)
		tensor = read_new(self, i, e, part, &rows, device);
	else if (want == WANT_VIEW || glue_maker_copies(maker))
		tensor = view_new(memory, e, part, &rows);
	else
		tensor = copy_new(self, e, part, &rows, data);
	if (!tensor)
		return NULL;
	if (want == WANT_COPY && glue_maker_copies(maker))
		object = copy_array(maker, tensor, &rows, data);
	else
		object = glue_make(maker, tensor);
	Py_DECREF(tensor);
	return object;
}

PyObject *glue_model_get(PyObject *o, PyObject *args)
{
	struct glue_model *self = (struct glue_model *)o;
	struct weir_entry e = { .size = sizeof(e) };
	PyObject *name, *maker;
	const char *device;
	struct part part;
	PyObject *object;
	int want, r;
	size_t i;

	if (!PyArg_ParseTuple(args, "OsO!i:get", &name, &device,
			      glue_maker_type, &maker, &want) ||
	    !glue_model_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	r = glue_model_find(self, name, &i);
	if (r < 0)
		return NULL;
	if (!r)
		Py_RETURN_NONE;
	r = weir_model_tensor(self->model, i, &e);
	if (r < 0)
		return glue_fail(r);
	glue_part_whole(&e, &part);
	glue_model_enter(self);
	object = part_object(self, i, &e, &part, device,
			     (struct glue_maker *)maker, (enum want)want);
	glue_model_leave(self);
	return object;
}

PyObject *glue_model_part(PyObject *o, PyObject *args)
{
	struct glue_model *self = (struct glue_model *)o;
	struct weir_entry e = { .size = sizeof(e) };
	PyObject *maker, *index;
	const char *device;
	PyObject *object = NULL;
	struct part part;
	int want, r;
	Py_ssize_t i;

	if (!PyArg_ParseTuple(args, "nOsO!i:part", &i, &index, &device,
			      glue_maker_type, &maker, &want) ||
	    !glue_model_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	r = weir_model_tensor(self->model, (size_t)i, &e);
	if (r < 0)
		return glue_fail(r);
	glue_model_enter(self);
	if (glue_part_parse(index, &e, &part) >= 0)
		object = part_object(self, (size_t)i, &e, &part, device,
				     (struct glue_maker *)maker,
				     (enum want)want);
	glue_model_leave(self);
	return object;
}

/* Add a view of tensor @i to @dict; 0: it is no view, -1: an exception. */
static int add_view(struct glue_model *self, size_t i, PyObject *dict,
		    PyObject *name, struct glue_maker *maker)
{
	struct weir_dtype_info dtype = { .size = sizeof(dtype) };
	struct weir_entry e = { .size = sizeof(e) };
	struct glue_memory *memory;
	struct glue_tensor *tensor;
	struct rows rows = { 0 };
	PyObject *object = NULL;
	struct part part;
	int r;

	r = weir_model_tensor(self->model, i, &e);
	if (r >= 0)
		r = weir_dtype_info(e.dtype, &dtype);
	if (r < 0) {
		glue_fail(r);
		return -1;
	}
	memory = glue_map_of(self, &e);
	if (!memory || ((uintptr_t)memory->data + e.offset) % dtype.align)
		return 0;
	glue_part_whole(&e, &part);
	tensor = view_new(memory, &e, &part, &rows);
	if (tensor)
		object = glue_make(maker, tensor);
	r = object ? PyDict_SetItem(dict, name, object) : -1;
	Py_XDECREF(tensor);
	Py_XDECREF(object);
	return r < 0 ? -1 : 1;
}

PyObject *glue_model_views(PyObject *o, PyObject *args)
{
	struct glue_model *self = (struct glue_model *)o;
	PyObject *maker, *names, *dict;
	Py_ssize_t n;
	int r = 1;

	if (!PyArg_ParseTuple(args, "O!:views", glue_maker_type, &maker) ||
	    !glue_model_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	names = glue_model_names(self);
	if (!names)
		return NULL;
	Py_INCREF(names);
	n = PyTuple_Size(names);
	dict = PyDict_New();
	if (!dict)
		r = -1;
	if (glue_maker_copies((struct glue_maker *)maker))
		r = 0;
	glue_model_enter(self);
	for (Py_ssize_t i = 0; r > 0 && i < n; i++)
		r = add_view(self, (size_t)i, dict, PyTuple_GetItem(names, i),
			     (struct glue_maker *)maker);
	glue_model_leave(self);
	Py_DECREF(names);
	if (r > 0)
		return dict;
	Py_XDECREF(dict);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

/*
 * 1: all files are mapped, and in @list unless they are in the page cache; 0:
 * one cannot be mapped; -1 with an exception.
 */
static int map_all(struct glue_model *self, PyObject *list)
{
	struct weir_entry e = { .size = sizeof(e) };
	struct glue_memory *memory, *seen = NULL;
	size_t n = weir_model_count(self->model);
	int r;

	/* Tensors are in the order of the files. */
	for (size_t i = 0; i < n; i++) {
		r = weir_model_tensor(self->model, i, &e);
		if (r < 0) {
			glue_fail(r);
			return -1;
		}
		if (seen && glue_map_of(self, &e) == seen)
			continue;
		r = glue_map(self, &e, &memory);
		if (r <= 0)
			return r;
		if (!glue_map_resident(memory->data, memory->bytes) &&
		    PyList_Append(list, (PyObject *)memory) < 0)
			return -1;
		seen = memory;
	}
	return 1;
}

PyObject *glue_model_absent(PyObject *o, PyObject *unused)
{
	struct glue_model *self = (struct glue_model *)o;
	PyObject *list;
	int r;

	(void)unused;
	if (!glue_model_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	list = PyList_New(0);
	if (!list)
		return NULL;
	glue_model_enter(self);
	r = map_all(self, list);
	glue_model_leave(self);
	if (r > 0)
		return list;
	Py_DECREF(list);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}
