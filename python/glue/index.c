/* SPDX-License-Identifier: MIT */
/*
 * Indexes as Python writes them, t[0, :, 2:8], and the bytes that they mean.
 * The sentences of errors are those of safetensors.
 */
#include "part.h"

void glue_part_whole(const struct weir_entry *e, struct part *ret)
{
	ret->ndim = e->ndim;
	for (unsigned i = 0; i < e->ndim; i++) {
		ret->range[i] = (struct range){ 0, e->shape[i], 1 };
		ret->dim[i] = i;
		ret->shape[i] = e->shape[i];
	}
}

/* Raise an exception with the sentence @text, whose reference is taken. */
static int refuse(PyObject *text)
{
	PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;

	Py_XDECREF(text);
	if (bytes)
		glue_fail_text(0, PyBytes_AsString(bytes));
	Py_XDECREF(bytes);
	return -1;
}

/* "1:3" of a slice: without its step. */
static PyObject *spell_slice(PyObject *item)
{
	PyObject *start = PyObject_GetAttrString(item, "start");
	PyObject *stop = start ? PyObject_GetAttrString(item, "stop") : NULL;
	PyObject *empty = PyUnicode_FromString("");
	PyObject *text = NULL;

	if (stop && empty)
		text = PyUnicode_FromFormat("%S:%S",
					    start == Py_None ? empty : start,
					    stop == Py_None ? empty : stop);
	Py_XDECREF(start);
	Py_XDECREF(stop);
	Py_XDECREF(empty);
	return text;
}

/* An index as one writes it, "[0, 1:3]", and the shape of the tensor. */
static PyObject *spell(PyObject *items, const struct weir_entry *e)
{
	Py_ssize_t n = PyTuple_Size(items);
	PyObject *list = PyList_New(n), *shape, *comma, *text = NULL;

	for (Py_ssize_t i = 0; list && i < n; i++) {
		PyObject *item = PyTuple_GetItem(items, i);
		PyObject *one = PySlice_Check(item) ? spell_slice(item)
						    : PyObject_Str(item);

		if (!one || PyList_SetItem(list, i, one) < 0)
			Py_CLEAR(list);
	}
	comma = list ? PyUnicode_FromString(", ") : NULL;
	if (comma)
		text = PyUnicode_Join(comma, list);
	Py_XDECREF(comma);
	Py_XDECREF(list);
	list = text ? glue_shape_tuple(e->shape, e->ndim) : NULL;
	shape = list ? PySequence_List(list) : NULL;
	Py_XDECREF(list);
	list = shape ? PyUnicode_FromFormat("Error during slicing [%U] with "
					    "shape %S",
					    text, shape)
		     : NULL;
	Py_XDECREF(shape);
	Py_XDECREF(text);
	return list;
}

/* Refuse @items: the spelled index, then @why, whose reference is taken. */
static int refuse_items(PyObject *items, const struct weir_entry *e,
			PyObject *why)
{
	PyObject *begin = why ? spell(items, e) : NULL;
	int r = -1;

	if (begin)
		r = refuse(PyUnicode_FromFormat("%U: %U", begin, why));
	Py_XDECREF(begin);
	Py_XDECREF(why);
	return r;
}

/* @number, whose reference is taken, is past the end of dimension @dim. */
static int refuse_number(PyObject *items, const struct weir_entry *e,
			 unsigned dim, PyObject *number)
{
	PyObject *why = NULL;

	if (number)
		why = PyUnicode_FromFormat("index %S out of bounds for tensor "
					   "dimension #%u of size %lld",
					   number, dim,
					   (long long)e->shape[dim]);
	Py_XDECREF(number);
	return refuse_items(items, e, why);
}

/* Refuse a slice that ends past the end of its dimension. */
static int check_stop(PyObject *items, Py_ssize_t at, unsigned dim,
		      const struct weir_entry *e)
{
	PyObject *stop, *one, *last = NULL;

	stop = PyObject_GetAttrString(PyTuple_GetItem(items, at), "stop");
	if (!stop)
		return -1;
	if (stop == Py_None) {
		Py_DECREF(stop);
		return 0;
	}
	one = PyLong_FromLong(1);
	if (one)
		last = PyNumber_Subtract(stop, one);
	Py_XDECREF(one);
	Py_DECREF(stop);
	return refuse_number(items, e, dim, last);
}

/* The range that item @at, a slice, means in dimension @dim. */
static int parse_slice(PyObject *items, Py_ssize_t at, unsigned dim,
		       const struct weir_entry *e, struct range *ret)
{
	Py_ssize_t start, stop, step = 0, size = (Py_ssize_t)e->shape[dim];
	int r = PySlice_Unpack(PyTuple_GetItem(items, at), &start, &stop,
			       &step);

	if (r < 0 && !PyErr_ExceptionMatches(PyExc_ValueError))
		return -1;
	if (r < 0 || step < 1) {
		PyErr_Clear();
		return refuse(PyUnicode_FromFormat(
			"Slice step must be a positive integer, got %zd",
			r < 0 ? (Py_ssize_t)0 : step));
	}
	if (stop > size && check_stop(items, at, dim, e) < 0)
		return -1;
	ret->n = PySlice_AdjustIndices(size, &start, &stop, step);
	ret->start = start;
	ret->step = step;
	return 0;
}

/* The range that item @at, a number, means in dimension @dim. */
static int parse_number(PyObject *items, Py_ssize_t at, unsigned dim,
			const struct weir_entry *e, struct range *ret)
{
	PyObject *number = PyNumber_Index(PyTuple_GetItem(items, at));
	int64_t size = e->shape[dim];
	long long value;
	int overflow;

	if (!number) {
		PyErr_Clear();
		return refuse(PyUnicode_FromFormat(
			"Unsupported slice index at position %zd: expected "
			"slice, int, or ellipsis",
			at));
	}
	value = PyLong_AsLongLongAndOverflow(number, &overflow);
	if (overflow > 0 || (!overflow && value >= size))
		return refuse_number(items, e, dim, number);
	if (overflow < 0 || value < -size) {
		PyObject *text = PyUnicode_FromFormat(
			"Invalid index %S for dimension %u of size %lld",
			number, dim, (long long)size);

		Py_DECREF(number);
		return refuse(text);
	}
	Py_DECREF(number);
	*ret = (struct range){ value < 0 ? value + size : value, 1, 1 };
	return 0;
}

/* Dimensions [from, to) are whole. */
static void keep_all(const struct weir_entry *e, unsigned from, unsigned to,
		     struct part *ret)
{
	for (unsigned i = from; i < to; i++) {
		ret->range[i] = (struct range){ 0, e->shape[i], 1 };
		ret->dim[ret->ndim] = i;
		ret->shape[ret->ndim++] = e->shape[i];
	}
}

static int parse_items(PyObject *items, const struct weir_entry *e,
		       struct part *ret)
{
	Py_ssize_t n = PyTuple_Size(items), given = n;
	unsigned dim = 0;

	for (Py_ssize_t i = 0; i < n; i++)
		given -= PyTuple_GetItem(items, i) == Py_Ellipsis;
	if (n - given > 1)
		return refuse(PyUnicode_FromString("Only one ellipsis (...) is "
						   "allowed in slice index"));
	if (given > (Py_ssize_t)e->ndim)
		return refuse_items(items, e,
				    PyUnicode_FromString(
					    "more slicing indexes than "
					    "dimensions in tensor"));
	ret->ndim = 0;
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PyTuple_GetItem(items, i);
		struct range *range = &ret->range[dim];

		if (item == Py_Ellipsis) {
			unsigned to = dim + e->ndim - (unsigned)given;

			keep_all(e, dim, to, ret);
			dim = to;
			continue;
		}
		if (!PySlice_Check(item)) {
			if (parse_number(items, i, dim, e, range) < 0)
				return -1;
		} else {
			if (parse_slice(items, i, dim, e, range) < 0)
				return -1;
			ret->dim[ret->ndim] = dim;
			ret->shape[ret->ndim++] = range->n;
		}
		dim++;
	}
	keep_all(e, dim, e->ndim, ret);
	return 0;
}

int glue_part_parse(PyObject *index, const struct weir_entry *e,
		    struct part *ret)
{
	PyObject *items, *zero;
	int r;

	if (PyTuple_Check(index))
		return parse_items(index, e, ret);
	if (!PyList_Check(index)) {
		items = PyTuple_Pack(1, index);
	} else if (PyList_Size(index)) {
		return refuse(PyUnicode_FromString(
			"Non empty lists are not implemented"));
	} else {
		/* As t[0:0]. */
		zero = PyLong_FromLong(0);
		items = zero ? Py_BuildValue("(N)",
					     PySlice_New(zero, zero, NULL))
			     : NULL;
		Py_XDECREF(zero);
	}
	r = items ? parse_items(items, e, ret) : -1;
	Py_XDECREF(items);
	return r;
}

int glue_range_check(const struct range *range, const struct weir_entry *e,
		     unsigned block)
{
	const struct range *last = range + e->ndim - 1;
	struct weir_dtype_info info = { .size = sizeof(info) };
	char text[256];

	if (block == 1 || !e->ndim ||
	    (last->start % block == 0 && last->n % block == 0 &&
	     last->step == 1))
		return 0;
	if (weir_dtype_info(e->dtype, &info) < 0)
		info.name = "?";
	snprintf(text, sizeof(text),
		 "tensor '%.*s' is %s, which has blocks of %u elements: a part "
		 "begins and ends between blocks of the last dimension",
		 e->name_len > 80 ? 80 : (int)e->name_len, e->name, info.name,
		 block);
	glue_fail_text(-EINVAL, text);
	return -1;
}

/* Neighbouring levels become one if all their rows have the same distance. */
void glue_rows(const struct weir_entry *e, const struct range *range,
	       const struct weir_dtype_info *dtype, struct rows *ret)
{
	uint64_t stride = dtype->bytes;
	bool inside = true;

	ret->width = dtype->bytes;
	ret->first = 0;
	ret->levels = 0;
	for (int d = (int)e->ndim - 1; d >= 0; d--) {
		uint64_t per = d == (int)e->ndim - 1 ? dtype->block : 1;
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

/* Rows of a constant width become loads and stores. */
static char *copy_level(const struct rows *rows, const char *from, char *dst)
{
	uint64_t n = rows->n[0], pitch = rows->pitch[0], width = rows->width;

#define COPY(bytes)                                                       \
	case bytes:                                                       \
		for (uint64_t i = 0; i < n; i++)                          \
			memcpy(dst + i * bytes, from + i * pitch, bytes); \
		break
	switch (width) {
		COPY(1);
		COPY(2);
		COPY(4);
		COPY(8);
		COPY(16);
	default:
		for (uint64_t i = 0; i < n; i++)
			memcpy(dst + i * width, from + i * pitch, width);
	}
#undef COPY
	return dst + n * width;
}

void glue_rows_copy(const struct rows *rows, const char *tensor, char *dst)
{
	uint64_t at[WEIR_MAX_DIMS] = { 0 };
	unsigned level;

	tensor += rows->first;
	if (!rows->levels) {
		memcpy(dst, tensor, rows->width);
		return;
	}
	do {
		const char *from = tensor;

		for (unsigned i = 1; i < rows->levels; i++)
			from += at[i] * rows->pitch[i];
		dst = copy_level(rows, from, dst);
		for (level = 1; level < rows->levels; level++) {
			if (++at[level] < rows->n[level])
				break;
			at[level] = 0;
		}
	} while (level < rows->levels);
}
