/* SPDX-License-Identifier: MIT */
/* Tensors: a place in memory with a dtype, a shape and strides. */
#include "glue.h"
#include "dlpack.h"

PyTypeObject *glue_tensor_type;

/* Formats of the struct module by enum weir_dtype; NULL: there is none. */
static const char *const formats[] = {
	[WEIR_DTYPE_BOOL] = "?",  [WEIR_DTYPE_U8] = "B",
	[WEIR_DTYPE_I8] = "b",    [WEIR_DTYPE_U16] = "H",
	[WEIR_DTYPE_I16] = "h",   [WEIR_DTYPE_U32] = "I",
	[WEIR_DTYPE_I32] = "i",   [WEIR_DTYPE_U64] = "Q",
	[WEIR_DTYPE_I64] = "q",   [WEIR_DTYPE_F16] = "e",
	[WEIR_DTYPE_BF16] = NULL, [WEIR_DTYPE_F32] = "f",
	[WEIR_DTYPE_F64] = "d",   [WEIR_DTYPE_C64] = "Zf",
};

static const char *format(uint32_t dtype)
{
	return dtype < sizeof(formats) / sizeof(*formats) ? formats[dtype]
							  : NULL;
}

/*
 * Others see a tensor of a dtype that they do not have as bytes: the last
 * dimension counts bytes.
 */
static void set_view(struct glue_tensor *self, const struct weir_tensor *t)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	int last = self->ndim - 1;

	self->view_ndim = self->ndim;
	for (int i = 0; i < self->ndim; i++) {
		self->view_shape[i] = t->shape[i];
		self->view_stride[i] = t->stride[i];
	}
	if (weir_dtype_info(t->dtype, &info) < 0)
		return;
	self->itemsize = info.bytes;
	if (glue_dlpack_has(t->dtype))
		return;
	self->itemsize = 1;
	if (last >= 0 && t->shape[last] % info.block == 0) {
		self->view_shape[last] =
			t->shape[last] / info.block * info.bytes;
		self->view_stride[last] = 1;
		return;
	}
	self->view_ndim = 1;
	self->view_shape[0] = self->bytes;
	self->view_stride[0] = 1;
}

struct glue_tensor *glue_tensor_new(struct glue_memory *memory,
				    const struct weir_tensor *t)
{
	struct glue_tensor *self;
	size_t bytes = 0;

	self = (struct glue_tensor *)PyType_GenericAlloc(glue_tensor_type, 0);
	if (!self)
		return NULL;
	Py_INCREF(memory);
	self->memory = memory;
	self->data = (char *)memory->data + t->offset;
	self->dtype = t->dtype;
	self->ndim = (int)t->ndim;
	(void)weir_tensor_bytes(t, &bytes);
	self->bytes = (Py_ssize_t)bytes;
	memcpy(self->shape, t->shape, sizeof(self->shape));
	memcpy(self->stride, t->stride, sizeof(self->stride));
	set_view(self, t);
	return self;
}

int glue_tensor_describe(const struct glue_tensor *self, struct weir_tensor *t)
{
	int r = weir_tensor_init(t, self->dtype, (unsigned)self->ndim,
				 self->shape);

	if (r < 0)
		return r;
	memcpy(t->stride, self->stride, sizeof(t->stride));
	return weir_tensor_place(
		t, self->memory->buf,
		(uint64_t)(self->data - (char *)self->memory->data));
}

static void tensor_dealloc(PyObject *o)
{
	struct glue_tensor *self = (struct glue_tensor *)o;

	weir_event_free(self->ready);
	Py_XDECREF(self->load);
	Py_XDECREF(self->memory);
	glue_free(o);
}

static int event_wait(void *event, int64_t ns)
{
	return weir_event_wait(event, ns);
}

int glue_tensor_wait(struct glue_tensor *self)
{
	struct weir_event *ready = self->ready;
	int r;

	if (glue_memory_check(self->memory) < 0)
		return -1;
	if (!ready || self->arrived)
		return 0;
	r = glue_wait(event_wait, ready, -1);
	if (r == GLUE_INTERRUPTED)
		return -1;
	if (r < 0) {
		glue_fail(r);
		return -1;
	}
	/* Other threads may wait for the event: it stays. */
	self->arrived = true;
	return 0;
}

/* As others see it from now on: bytes. */
void glue_tensor_as_bytes(struct glue_tensor *self)
{
	self->dtype = WEIR_DTYPE_U8;
	self->itemsize = 1;
	self->view_ndim = 1;
	self->view_shape[0] = self->bytes;
	self->view_stride[0] = 1;
}

/* What a failed request for a buffer says. */
static int refuse(const char *why)
{
	PyErr_SetString(PyExc_BufferError, why);
	return -1;
}

static bool contiguous(const struct glue_tensor *self)
{
	Py_ssize_t expected = self->itemsize;

	for (int i = self->view_ndim - 1; i >= 0; i--) {
		if (self->view_shape[i] == 0)
			return true;
		if (self->view_shape[i] != 1 &&
		    self->view_stride[i] != expected)
			return false;
		expected *= self->view_shape[i];
	}
	return true;
}

static void describe_bytes(struct glue_tensor *self, Py_buffer *view)
{
	const char *name = format(self->dtype);
	bool raw = !name && self->itemsize > 1;

	if (!name)
		name = "B";
	view->itemsize = self->itemsize;
	view->ndim = self->view_ndim;
	view->shape = self->view_shape;
	view->strides = self->view_stride;
	/* The protocol wants a char *, and nobody writes to it. */
	memcpy(&view->format, &name, sizeof(name));
	/* DLPack has the dtype, the struct module does not. */
	if (raw) {
		self->bytes_shape = self->bytes;
		self->bytes_stride = 1;
		view->itemsize = 1;
		view->ndim = 1;
		view->shape = &self->bytes_shape;
		view->strides = &self->bytes_stride;
	}
}

static int tensor_getbuffer(PyObject *o, Py_buffer *view, int flags)
{
	struct glue_tensor *self = (struct glue_tensor *)o;

	view->obj = NULL;
	if (self->memory->device_type != DLPACK_CPU)
		return refuse("this tensor is not in memory of the host");
	if ((flags & PyBUF_WRITABLE) && self->memory->readonly)
		return refuse("this tensor is read-only");
	if (!contiguous(self))
		return refuse("this tensor is not contiguous");
	if (glue_tensor_wait(self) < 0)
		return -1;
	memset(view, 0, sizeof(*view));
	describe_bytes(self, view);
	view->buf = self->data ? self->data : "";
	view->len = self->bytes;
	view->readonly = self->memory->readonly;
	if (!(flags & PyBUF_FORMAT))
		view->format = NULL;
	if ((flags & PyBUF_ND) != PyBUF_ND)
		view->shape = NULL;
	if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES)
		view->strides = NULL;
	Py_INCREF(o);
	view->obj = o;
	return 0;
}

static PyObject *tensor_wait(PyObject *self, PyObject *unused)
{
	(void)unused;
	if (glue_tensor_wait((struct glue_tensor *)self) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *get_shape(PyObject *o, void *unused)
{
	struct glue_tensor *self = (struct glue_tensor *)o;

	(void)unused;
	return glue_shape_tuple(self->shape, (unsigned)self->ndim);
}

static PyObject *get_strides(PyObject *o, void *unused)
{
	struct glue_tensor *self = (struct glue_tensor *)o;

	(void)unused;
	return glue_shape_tuple(self->stride, (unsigned)self->ndim);
}

static PyObject *get_dtype(PyObject *o, void *unused)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	struct glue_tensor *self = (struct glue_tensor *)o;

	(void)unused;
	if (weir_dtype_info(self->dtype, &info) < 0)
		Py_RETURN_NONE;
	return PyUnicode_FromString(info.name);
}

static PyObject *get_code(PyObject *o, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLong(((struct glue_tensor *)o)->dtype);
}

static PyObject *get_address(PyObject *o, void *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(((struct glue_tensor *)o)->data);
}

static PyObject *get_nbytes(PyObject *o, void *unused)
{
	(void)unused;
	return PyLong_FromSsize_t(((struct glue_tensor *)o)->bytes);
}

static PyObject *get_memory(PyObject *o, void *unused)
{
	PyObject *memory = (PyObject *)((struct glue_tensor *)o)->memory;

	(void)unused;
	Py_INCREF(memory);
	return memory;
}

static PyObject *get_device(PyObject *o, void *unused)
{
	struct glue_memory *memory = ((struct glue_tensor *)o)->memory;

	(void)unused;
	if (memory->device_type == DLPACK_CPU)
		return PyUnicode_FromString("cpu");
	return PyUnicode_FromFormat("cuda:%d", (int)memory->device_id);
}

static PyObject *get_readonly(PyObject *o, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct glue_tensor *)o)->memory->readonly);
}

/* <weir.Tensor BF16 [2048, 64] on cpu> */
static PyObject *tensor_repr(PyObject *o)
{
	PyObject *dtype = get_dtype(o, NULL), *device = get_device(o, NULL);
	PyObject *shape = get_shape(o, NULL), *list = NULL, *text = NULL;

	if (dtype && device && shape)
		list = PySequence_List(shape);
	if (list)
		text = PyUnicode_FromFormat("<weir.Tensor %S %S on %S>", dtype,
					    list, device);
	Py_XDECREF(list);
	Py_XDECREF(shape);
	Py_XDECREF(device);
	Py_XDECREF(dtype);
	return text;
}

static PyMethodDef methods[] = {
	{ "__dlpack__", (PyCFunction)(void (*)(void))glue_tensor_dlpack,
	  METH_VARARGS | METH_KEYWORDS,
	  "__dlpack__(*, stream=None, max_version=None, dl_device=None, "
	  "copy=None): a capsule of DLPack." },
	{ "__dlpack_device__", glue_tensor_dlpack_device, METH_NOARGS,
	  "The type and number of the device, as DLPack has them." },
	{ "wait", tensor_wait, METH_NOARGS,
	  "Block until the bytes have arrived." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef members[] = {
	{ "shape", get_shape, NULL, "Elements of each dimension.", NULL },
	{ "strides", get_strides, NULL,
	  "Bytes between neighbours of each dimension.", NULL },
	{ "dtype", get_dtype, NULL, "Name of the dtype, \"BF16\".", NULL },
	{ "code", get_code, NULL, "Number of the dtype.", NULL },
	{ "address", get_address, NULL, "Address of its first byte.", NULL },
	{ "nbytes", get_nbytes, NULL, "Bytes of the tensor.", NULL },
	{ "memory", get_memory, NULL, "The memory that it is in.", NULL },
	{ "device", get_device, NULL, "\"cpu\" or \"cuda:0\".", NULL },
	{ "readonly", get_readonly, NULL, "True if it may not be written to.",
	  NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "A tensor. torch.from_dlpack(), numpy.from_dlpack() and "
		     "memoryview() use it without a copy." },
	{ Py_tp_new, glue_not_made },
	{ Py_tp_repr, tensor_repr },
	{ Py_tp_dealloc, tensor_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ Py_bf_getbuffer, tensor_getbuffer },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Tensor",
	.basicsize = sizeof(struct glue_tensor),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_tensor_init(PyObject *module)
{
	glue_tensor_type = glue_type(module, "Tensor", &spec);
	return glue_tensor_type ? 0 : -1;
}
