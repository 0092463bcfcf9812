/* SPDX-License-Identifier: MIT */
/*
 * Makers: how tensors of the library become objects of a framework, and whole
 * loads a dictionary of them, without a step of Python for each.
 */
#include "glue.h"

PyTypeObject *glue_maker_type;

enum {
	MAKE_TENSOR,   /* make(tensor) */
	MAKE_CAPSULE,  /* make(capsule of DLPack 1) */
	MAKE_EXCHANGE, /* the C exchange of a class */
	MAKE_ARRAY     /* make(shape, dtypes[dtype], memory, offset) */
};

/*
 * Maker(make, mode="tensor", views=None, dtypes=None)
 *
 * mode: "tensor", "capsule", "exchange" or "array". views: for numbers of
 * dtypes a function (object, shape) that makes the tensor of an object of its
 * bytes. dtypes: for "array", the dtypes of NumPy by their numbers here.
 */
static PyObject *maker_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	static const char *const modes[] = { "tensor", "capsule", "exchange",
					     "array" };
	static char *names[] = { "make", "mode", "views", "dtypes", NULL };
	PyObject *make, *views = Py_None, *dtypes = Py_None;
	const char *mode = "tensor";
	struct glue_maker *self;
	int i;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "O|sOO:Maker", names, &make,
					 &mode, &views, &dtypes))
		return NULL;
	for (i = 0; i < 4 && strcmp(mode, modes[i]); i++)
		;
	if (i == 4)
		return glue_fail_text(-EINVAL, "a maker has no such mode");
	self = (struct glue_maker *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	self->mode = i;
	Py_INCREF(make);
	self->make = make;
	Py_INCREF(views);
	self->views = views;
	Py_INCREF(dtypes);
	self->dtypes = dtypes;
	if (i == MAKE_EXCHANGE) {
		self->exchange = glue_exchange_api(make);
		if (!self->exchange) {
			Py_DECREF(self);
			return glue_fail_text(
				-EOPNOTSUPP,
				"the class has no C exchange of DLPack 1");
		}
	}
	return (PyObject *)self;
}

static void maker_dealloc(PyObject *o)
{
	struct glue_maker *self = (struct glue_maker *)o;

	Py_XDECREF(self->make);
	Py_XDECREF(self->views);
	Py_XDECREF(self->dtypes);
	glue_free(o);
}

/* The entry of dtype @code in @table, new; NULL without an exception: none. */
static PyObject *lookup(PyObject *table, uint32_t code)
{
	PyObject *key, *value;

	if (table == Py_None)
		return NULL;
	key = PyLong_FromUnsignedLong(code);
	value = key ? PyDict_GetItemWithError(table, key) : NULL;
	Py_XDECREF(key);
	Py_XINCREF(value);
	return value;
}

bool glue_maker_copies(const struct glue_maker *self)
{
	return self->mode == MAKE_ARRAY;
}

bool glue_maker_strides(const struct glue_maker *self, uint32_t dtype)
{
	PyObject *view;

	if (self->mode != MAKE_EXCHANGE && self->mode != MAKE_CAPSULE)
		return false;
	view = lookup(self->views, dtype);
	Py_XDECREF(view);
	PyErr_Clear();
	return !view && glue_dlpack_has(dtype);
}

int glue_maker_check(struct glue_maker *self, uint32_t dtype,
		     struct glue_model *model, size_t i)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct weir_entry e = { .size = sizeof(e) };
	PyObject *found;
	char text[256];

	if (self->mode != MAKE_ARRAY)
		return 0;
	found = lookup(self->dtypes, dtype);
	if (found) {
		Py_DECREF(found);
		return 0;
	}
	if (PyErr_Occurred())
		return -1;
	if (weir_model_tensor(model->model, i, &e) < 0 ||
	    weir_dtype_info(dtype, &info) < 0)
		return 0; /* the array's maker refuses it */
	snprintf(text, sizeof(text),
		 "NumPy has no dtype for tensor '%.*s', which is %s: install "
		 "ml_dtypes, convert with dtype=\"float32\", or choose another "
		 "framework",
		 e.name_len > 80 ? 80 : (int)e.name_len, e.name, info.name);
	glue_fail_text(-EOPNOTSUPP, text);
	return -1;
}

PyObject *glue_make_array(struct glue_maker *self, struct glue_tensor *t,
			  PyObject *memory, Py_ssize_t offset)
{
	PyObject *dtype = lookup(self->dtypes, t->dtype);
	PyObject *array, *shape;
	int64_t bytes[WEIR_MAX_DIMS];

	if (!dtype && !PyErr_Occurred())
		return glue_fail_text(-EOPNOTSUPP,
				      "NumPy has no dtype for this tensor: "
				      "install ml_dtypes");
	for (int i = 0; i < t->view_ndim; i++)
		bytes[i] = t->view_shape[i];
	shape = dtype ? glue_shape_tuple(bytes, (unsigned)t->view_ndim) : NULL;
	array = shape ? PyObject_CallFunction(self->make, "OOOn", shape, dtype,
					      memory, offset)
		      : NULL;
	Py_XDECREF(shape);
	Py_XDECREF(dtype);
	return array;
}

static PyObject *make_plain(struct glue_maker *self, struct glue_tensor *t)
{
	PyObject *capsule, *object;

	switch (self->mode) {
	case MAKE_EXCHANGE:
		return glue_exchange(t, self->exchange);
	case MAKE_ARRAY:
		return glue_make_array(self, t, (PyObject *)t->memory,
				       t->data - (char *)t->memory->data);
	case MAKE_TENSOR:
		return PyObject_CallFunctionObjArgs(self->make, t, NULL);
	default:
		capsule = glue_capsule(t);
		if (!capsule)
			return NULL;
		object =
			PyObject_CallFunctionObjArgs(self->make, capsule, NULL);
		Py_DECREF(capsule);
		return object;
	}
}

PyObject *glue_make(struct glue_maker *self, struct glue_tensor *t)
{
	PyObject *view = lookup(self->views, t->dtype);
	PyObject *shape, *object, *bytes;

	if (!view)
		return PyErr_Occurred() ? NULL : make_plain(self, t);
	shape = glue_shape_tuple(t->shape, (unsigned)t->ndim);
	glue_tensor_as_bytes(t);
	bytes = shape ? make_plain(self, t) : NULL;
	object = bytes ? PyObject_CallFunctionObjArgs(view, bytes, shape, NULL)
		       : NULL;
	Py_XDECREF(bytes);
	Py_XDECREF(shape);
	Py_DECREF(view);
	return object;
}

static PyObject *maker_call(PyObject *self, PyObject *args, PyObject *kw)
{
	PyObject *t;

	(void)kw;
	if (!PyArg_ParseTuple(args, "O!:Maker", glue_tensor_type, &t) ||
	    glue_tensor_wait((struct glue_tensor *)t) < 0)
		return NULL;
	return glue_make((struct glue_maker *)self, (struct glue_tensor *)t);
}

static PyObject *make_one(struct glue_load *load, size_t i,
			  struct glue_maker *maker)
{
	struct glue_tensor *t = glue_load_tensor_new(load, i);
	size_t at = load->index ? load->index[i] : i;
	PyObject *object = NULL;

	if (t && glue_maker_check(maker, t->dtype, load->model, at) >= 0)
		object = glue_make(maker, t);
	Py_XDECREF(t);
	return object;
}

PyObject *glue_load_make(PyObject *self, PyObject *args)
{
	PyObject *maker;
	Py_ssize_t i;

	if (!PyArg_ParseTuple(args, "nO!:make", &i, glue_maker_type, &maker))
		return NULL;
	return make_one((struct glue_load *)self, (size_t)i,
			(struct glue_maker *)maker);
}

static int add_one(PyObject *dict, PyObject *names, struct glue_load *load,
		   size_t i, struct glue_maker *maker)
{
	size_t at = load->index ? load->index[i] : i;
	PyObject *name = PyTuple_GetItem(names, (Py_ssize_t)at);
	PyObject *object = name ? make_one(load, i, maker) : NULL;
	int r = object ? PyDict_SetItem(dict, name, object) : -1;

	Py_XDECREF(object);
	return r;
}

/* Refuse what would fail when all bytes have been read. */
static int check_all(struct glue_load *load, struct glue_maker *maker)
{
	if (maker->mode != MAKE_ARRAY)
		return 0;
	for (size_t i = 0; i < load->count; i++) {
		const struct weir_tensor *t =
			weir_weights_get(load->weights, i);
		size_t at = load->index ? load->index[i] : i;

		if (t && glue_maker_check(maker, t->dtype, load->model, at) < 0)
			return -1;
	}
	return 0;
}

PyObject *glue_load_all(PyObject *self, PyObject *args)
{
	struct glue_load *load = (struct glue_load *)self;
	PyObject *names, *dict, *maker;

	if (!PyArg_ParseTuple(args, "O!:all", glue_maker_type, &maker))
		return NULL;
	if (!glue_load_of(load) ||
	    check_all(load, (struct glue_maker *)maker) < 0)
		return NULL;
	names = glue_model_names(load->model);
	if (!names)
		return NULL;
	Py_INCREF(names);
	dict = glue_load_wait(load) < 0 ? NULL : PyDict_New();
	for (size_t i = 0; dict && i < load->count; i++)
		if (add_one(dict, names, load, i, (struct glue_maker *)maker) <
		    0)
			Py_CLEAR(dict);
	Py_DECREF(names);
	return dict;
}

static PyObject *get_copies(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(glue_maker_copies((struct glue_maker *)self));
}

static PyGetSetDef members[] = {
	{ "copies", get_copies, NULL,
	  "True if a tensor of a file gets memory of its own.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
	  "Makes objects of a framework of tensors of the library." },
	{ Py_tp_new, maker_new },
	{ Py_tp_dealloc, maker_dealloc },
	{ Py_tp_call, maker_call },
	{ Py_tp_getset, members },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Maker",
	.basicsize = sizeof(struct glue_maker),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_maker_init(PyObject *module)
{
	glue_maker_type = glue_type(module, "Maker", &spec);
	return glue_maker_type ? 0 : -1;
}
