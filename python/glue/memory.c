/* SPDX-License-Identifier: MIT */
/*
 * Memory: a buffer of the library, with the buffer protocol. It also wraps
 * memory of the program, whose owner is kept meanwhile.
 */
#include "glue.h"
#include "dlpack.h"
#include <stdatomic.h>
#include <stdlib.h>

PyTypeObject *glue_memory_type;

/* Freeing more than this lets other threads run. */
#define LARGE (1 << 20)

/* An object that is kept until another thread has no use for it. */
struct glue_owner {
	PyObject *object;
	struct glue_owner *next;
};

/*
 * Owners that nobody needs any more. Threads without the GIL add to it; the
 * interpreter drops them when it runs the pending call, or a load starts.
 */
static _Atomic(struct glue_owner *) gone;

void glue_owners_drop(void)
{
	struct glue_owner *owner = atomic_exchange(&gone, NULL);

	while (owner) {
		struct glue_owner *next = owner->next;

		Py_DECREF(owner->object);
		free(owner);
		owner = next;
	}
}

static int drop_pending(void *unused)
{
	(void)unused;
	glue_owners_drop();
	return 0;
}

struct glue_owner *glue_owner_new(PyObject *object)
{
	struct glue_owner *owner = malloc(sizeof(*owner));

	if (!owner) {
		PyErr_NoMemory();
		return NULL;
	}
	Py_INCREF(object);
	owner->object = object;
	return owner;
}

void glue_owner_release(void *arg)
{
	struct glue_owner *owner = arg;
	struct glue_owner *head = atomic_load(&gone);

	do
		owner->next = head;
	while (!atomic_compare_exchange_weak(&gone, &head, owner));
	if (!head && Py_IsInitialized())
		Py_AddPendingCall(drop_pending, NULL);
}

/* Wrap memory of the host, or of a CUDA device. */
static int wrap(struct weir_buft *buft, void *ptr, size_t size,
		struct glue_owner *owner, struct weir_buf **ret_buf)
{
	struct weir_buft_info info = { .size = sizeof(info) };
	int r = weir_buft_info(buft, &info);

	if (r < 0 || info.flags & WEIR_BUFT_HOST)
		return weir_buf_wrap(buft, ptr, size, glue_owner_release, owner,
				     ret_buf);
	return weir_cuda_buf_wrap(info.dev, (uintptr_t)ptr, size,
				  glue_owner_release, owner, ret_buf);
}

int glue_wrap(struct weir_buft *buft, void *ptr, size_t size, PyObject *object,
	      struct weir_buf **ret_buf)
{
	struct glue_owner *owner = glue_owner_new(object);
	int r;

	if (!owner)
		return -1;
	r = wrap(buft, ptr, size, owner, ret_buf);
	if (r < 0) {
		glue_fail(r);
		Py_DECREF(object);
		free(owner);
		return -1;
	}
	return 0;
}

/* Where @buf is, in DLPack's terms. */
static void memory_place(struct glue_memory *self, struct weir_buf *buf)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buft_info buft = { .size = sizeof(buft) };
	struct weir_dev_info dev = { .size = sizeof(dev) };
	uint64_t ptr;

	self->device_type = DLPACK_CPU;
	if (weir_buf_info(buf, &info) < 0)
		return;
	self->bytes = info.bytes;
	if (weir_buft_info(info.buft, &buft) < 0)
		return;
	self->readonly = buft.flags & WEIR_BUFT_READONLY;
	if (buft.flags & WEIR_BUFT_HOST) {
		self->data = weir_buf_data(buf);
		return;
	}
	if (weir_dev_info(buft.dev, &dev) < 0)
		return;
	self->device_type = DLPACK_CUDA;
	if (!strncmp(dev.name, "CUDA", 4))
		self->device_id = atoi(dev.name + 4);
	if (weir_cuda_buf_ptr(buf, &ptr) >= 0)
		self->data = (void *)(uintptr_t)ptr;
}

struct glue_memory *glue_memory_new(struct weir_buf *buf)
{
	struct glue_memory *self;

	self = (struct glue_memory *)PyType_GenericAlloc(glue_memory_type, 0);
	if (!self)
		return NULL;
	memory_place(self, buf);
	self->buf = weir_buf_ref(buf);
	return self;
}

static void memory_dealloc(PyObject *o)
{
	struct glue_memory *self = (struct glue_memory *)o;

	if (self->bytes >= LARGE) {
		Py_BEGIN_ALLOW_THREADS weir_buf_free(self->buf);
		Py_END_ALLOW_THREADS
	} else {
		weir_buf_free(self->buf);
	}
	glue_free(o);
}

int glue_memory_check(const struct glue_memory *memory)
{
	if (!memory->parked)
		return 0;
	glue_fail_text(-EBUSY, "the tensor is parked: unpark() brings it back");
	return -1;
}

static int memory_getbuffer(PyObject *o, Py_buffer *view, int flags)
{
	struct glue_memory *self = (struct glue_memory *)o;

	if (self->device_type != DLPACK_CPU) {
		PyErr_SetString(PyExc_BufferError,
				"this memory is not the host's");
		return -1;
	}
	if (glue_memory_check(self) < 0) {
		view->obj = NULL;
		return -1;
	}
	return PyBuffer_FillInfo(view, o, self->data ? self->data : "",
				 (Py_ssize_t)self->bytes, self->readonly,
				 flags);
}

/* Memory(root, bytes, device="CPU", kind=0): new, with undefined contents. */
static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	static char *names[] = { "root", "bytes", "device", "kind", NULL };
	struct glue_memory *self;
	const char *device = NULL;
	struct glue_root *root;
	struct weir_buft *buft;
	struct weir_buf *buf;
	unsigned kind = 0;
	PyObject *owner;
	Py_ssize_t n;
	int r;

	(void)type;
	if (!PyArg_ParseTupleAndKeywords(args, kw, "On|zI:Memory", names,
					 &owner, &n, &device, &kind))
		return NULL;
	root = glue_root_of(owner);
	buft = root ? glue_buft(root, device, kind) : NULL;
	if (!buft)
		return NULL;
	if (n < 0)
		return glue_fail_text(-EINVAL, "the size is negative");
	glue_root_enter(root);
	Py_BEGIN_ALLOW_THREADS r = weir_buf_alloc(buft, (size_t)n, NULL, &buf);
	Py_END_ALLOW_THREADS glue_root_leave(root);
	if (r < 0)
		return glue_fail(r);
	self = glue_memory_new(buf);
	weir_buf_free(buf);
	return (PyObject *)self;
}

/* tensor(offset, dtype, shape): a contiguous tensor in this memory. */
static PyObject *memory_tensor(PyObject *o, PyObject *args)
{
	struct glue_memory *self = (struct glue_memory *)o;
	int64_t shape[WEIR_MAX_DIMS];
	unsigned long long offset;
	struct weir_tensor t;
	PyObject *dims;
	Py_ssize_t n;
	unsigned dtype;
	int r;

	if (!PyArg_ParseTuple(args, "KIO!:tensor", &offset, &dtype,
			      &PyTuple_Type, &dims))
		return NULL;
	n = PyTuple_Size(dims);
	for (Py_ssize_t i = 0; i < n && i < WEIR_MAX_DIMS; i++) {
		shape[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
		if (shape[i] == -1 && PyErr_Occurred())
			return NULL;
	}
	r = weir_tensor_init(&t, dtype, (unsigned)n, shape);
	if (r >= 0)
		r = weir_tensor_place(&t, self->buf, offset);
	if (r < 0)
		return glue_fail(r);
	return (PyObject *)glue_tensor_new(self, &t);
}

/* share(): another object of the same memory. */
static PyObject *memory_share(PyObject *o, PyObject *unused)
{
	(void)unused;
	return (PyObject *)glue_memory_new(((struct glue_memory *)o)->buf);
}

/* alone(): False while another object, or a framework, has the memory. */
static PyObject *memory_alone(PyObject *o, PyObject *unused)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	int r = weir_buf_info(((struct glue_memory *)o)->buf, &info);

	(void)unused;
	return PyBool_FromLong(r >= 0 && info.refs == 1);
}

static PyObject *memory_address(PyObject *self, void *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(((struct glue_memory *)self)->data);
}

static Py_ssize_t memory_length(PyObject *self)
{
	return (Py_ssize_t)((struct glue_memory *)self)->bytes;
}

static PyMethodDef methods[] = {
	{ "tensor", memory_tensor, METH_VARARGS,
	  "tensor(offset, dtype, shape): a contiguous tensor in this memory." },
	{ "fetch", glue_map_fetch, METH_VARARGS,
	  "fetch(offset, bytes): read this part of a mapping from its file. "
	  "False if not all of it is in memory now." },
	{ "share", memory_share, METH_NOARGS,
	  "share(): another object of the same memory." },
	{ "alone", memory_alone, METH_NOARGS,
	  "alone(): True if no other object has the memory, and no tensor." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef members[] = {
	{ "address", memory_address, NULL, "Address of its first byte.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
	  "Memory of the library, freed with the last tensor in it." },
	{ Py_tp_new, memory_new },
	{ Py_tp_dealloc, memory_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ Py_sq_length, memory_length },
	{ Py_bf_getbuffer, memory_getbuffer },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Memory",
	.basicsize = sizeof(struct glue_memory),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_memory_init(PyObject *module)
{
	glue_memory_type = glue_type(module, "Memory", &spec);
	return glue_memory_type ? 0 : -1;
}
