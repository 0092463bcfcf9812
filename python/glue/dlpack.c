/* SPDX-License-Identifier: MIT */
/* Tensors for frameworks: capsules of DLPack, and its C exchange. */
#include "glue.h"
#include "dlpack.h"
#include <stdlib.h>

#define LEGACY "dltensor"
#define VERSIONED "dltensor_versioned"

/* By enum weir_dtype; bits 0: DLPack has no such dtype. */
static const struct dlpack_dtype dtypes[] = {
	[WEIR_DTYPE_BOOL] = { DLPACK_BOOL, 8, 1 },
	[WEIR_DTYPE_U8] = { DLPACK_UINT, 8, 1 },
	[WEIR_DTYPE_I8] = { DLPACK_INT, 8, 1 },
	[WEIR_DTYPE_U16] = { DLPACK_UINT, 16, 1 },
	[WEIR_DTYPE_I16] = { DLPACK_INT, 16, 1 },
	[WEIR_DTYPE_U32] = { DLPACK_UINT, 32, 1 },
	[WEIR_DTYPE_I32] = { DLPACK_INT, 32, 1 },
	[WEIR_DTYPE_U64] = { DLPACK_UINT, 64, 1 },
	[WEIR_DTYPE_I64] = { DLPACK_INT, 64, 1 },
	[WEIR_DTYPE_F16] = { DLPACK_FLOAT, 16, 1 },
	[WEIR_DTYPE_BF16] = { DLPACK_BFLOAT, 16, 1 },
	[WEIR_DTYPE_F32] = { DLPACK_FLOAT, 32, 1 },
	[WEIR_DTYPE_F64] = { DLPACK_FLOAT, 64, 1 },
	[WEIR_DTYPE_C64] = { DLPACK_COMPLEX, 64, 1 },
	[WEIR_DTYPE_F8_E5M2] = { DLPACK_F8_E5M2, 8, 1 },
	[WEIR_DTYPE_F8_E4M3] = { DLPACK_F8_E4M3FN, 8, 1 },
	[WEIR_DTYPE_F8_E8M0] = { DLPACK_F8_E8M0FNU, 8, 1 },
	[WEIR_DTYPE_F8_E4M3FNUZ] = { DLPACK_F8_E4M3FNUZ, 8, 1 },
	[WEIR_DTYPE_F8_E5M2FNUZ] = { DLPACK_F8_E5M2FNUZ, 8, 1 },
};

bool glue_dlpack_has(uint32_t dtype)
{
	return dtype < sizeof(dtypes) / sizeof(*dtypes) && dtypes[dtype].bits;
}

/*
 * The memory of a capsule. A consumer may free it on any thread, also after the
 * interpreter has ended, so it has a reference to the buffer and, if that can
 * be parked, an owner for the load, which parks it.
 */
struct held {
	union {
		struct dlpack_managed legacy;
		struct dlpack_versioned versioned;
	};
	struct weir_buf *buf;
	struct glue_owner *load; /* or NULL */
	int64_t dims[2 * WEIR_MAX_DIMS];
};

static void held_free(struct held *held)
{
	weir_buf_free(held->buf);
	if (held->load)
		glue_owner_release(held->load);
	free(held);
}

static void legacy_delete(struct dlpack_managed *self)
{
	held_free((struct held *)self);
}

static void versioned_delete(struct dlpack_versioned *self)
{
	held_free((struct held *)self);
}

static void fill(struct dlpack_tensor *dl, struct held *held,
		 const struct glue_tensor *t)
{
	struct dlpack_dtype bytes = { DLPACK_UINT, 8, 1 };
	unsigned width;

	dl->dtype = glue_dlpack_has(t->dtype) ? dtypes[t->dtype] : bytes;
	width = dl->dtype.bits / 8;
	dl->data = t->bytes ? t->data : NULL;
	dl->device_type = t->memory->device_type;
	dl->device_id = t->memory->device_id;
	dl->ndim = t->view_ndim;
	dl->shape = held->dims;
	dl->strides = held->dims + WEIR_MAX_DIMS;
	dl->byte_offset = 0;
	for (int i = 0; i < dl->ndim; i++) {
		dl->shape[i] = t->view_shape[i];
		dl->strides[i] = t->view_stride[i] / width;
	}
}

static struct held *held_new(const struct glue_tensor *t)
{
	struct held *held = malloc(sizeof(*held));

	if (!held) {
		PyErr_NoMemory();
		return NULL;
	}
	held->load = NULL;
	if (t->memory->load) {
		held->load = glue_owner_new((PyObject *)t->memory->load);
		if (!held->load) {
			free(held);
			return NULL;
		}
	}
	held->buf = weir_buf_ref(t->memory->buf);
	return held;
}

static struct held *versioned_new(const struct glue_tensor *t)
{
	struct held *held = held_new(t);

	if (!held)
		return NULL;
	held->versioned.version.major = DLPACK_MAJOR;
	held->versioned.version.minor = DLPACK_MINOR;
	held->versioned.ctx = held;
	held->versioned.deleter = versioned_delete;
	held->versioned.flags = t->memory->readonly ? DLPACK_READ_ONLY : 0;
	fill(&held->versioned.tensor, held, t);
	return held;
}

/* A capsule that nobody took still owns its tensor. */
static void capsule_free(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, VERSIONED))
		versioned_delete(PyCapsule_GetPointer(capsule, VERSIONED));
	else if (PyCapsule_IsValid(capsule, LEGACY))
		legacy_delete(PyCapsule_GetPointer(capsule, LEGACY));
}

static PyObject *make_capsule(struct held *held, const char *name)
{
	PyObject *capsule;

	if (!held)
		return NULL;
	capsule = PyCapsule_New(held, name, capsule_free);
	if (!capsule)
		held_free(held);
	return capsule;
}

PyObject *glue_capsule(struct glue_tensor *t)
{
	return make_capsule(versioned_new(t), VERSIONED);
}

static PyObject *legacy_capsule(struct glue_tensor *t)
{
	struct held *held;

	if (t->memory->readonly) {
		PyErr_SetString(PyExc_BufferError,
				"this tensor is read-only, which capsules "
				"before DLPack 1.0 cannot say");
		return NULL;
	}
	held = held_new(t);
	if (!held)
		return NULL;
	held->legacy.ctx = held;
	held->legacy.deleter = legacy_delete;
	fill(&held->legacy.tensor, held, t);
	return make_capsule(held, LEGACY);
}

void *glue_exchange_api(PyObject *cls)
{
	struct dlpack_exchange *api = NULL;
	PyObject *capsule;

	capsule = PyObject_GetAttrString(cls, "__dlpack_c_exchange_api__");
	if (capsule)
		api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
	Py_XDECREF(capsule);
	PyErr_Clear();
	while (api && api->version.major != DLPACK_MAJOR)
		api = api->prev;
	return api;
}

PyObject *glue_exchange(struct glue_tensor *t, void *api)
{
	struct dlpack_exchange *exchange = api;
	struct held *held = versioned_new(t);
	void *object = NULL;

	if (!held)
		return NULL;
	if (exchange->to_object(&held->versioned, &object) < 0 || !object) {
		held_free(held);
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_BufferError,
					"the framework takes no such tensor");
		return NULL;
	}
	return object;
}

/* Make the consumer's CUstream wait for the tensor; 0, or 1: it cannot. */
static int stream_wait(const struct glue_tensor *t, uintptr_t native)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buft_info buft = { .size = sizeof(buft) };
	struct weir_stream *stream;
	int r;

	Py_BEGIN_ALLOW_THREADS r = weir_buf_info(t->memory->buf, &info);
	if (r >= 0)
		r = weir_buft_info(info.buft, &buft);
	if (r >= 0)
		r = weir_cuda_stream_wrap(
			buft.dev, (struct CUstream_st *)native, &stream);
	if (r >= 0) {
		r = weir_stream_wait(stream, t->ready);
		weir_stream_free(stream);
	}
	Py_END_ALLOW_THREADS return r < 0;
}

/* @stream is what the consumer gave: None, -1 or the number of a CUstream. */
static int order(struct glue_tensor *t, PyObject *stream)
{
	long long native = 0;

	if (glue_memory_check(t->memory) < 0)
		return -1;
	if (!t->ready || t->arrived)
		return 0;
	if (t->memory->device_type == DLPACK_CUDA) {
		if (stream != Py_None)
			native = PyLong_AsLongLong(stream);
		if (native == -1)
			return PyErr_Occurred() ? -1 : 0;
		if (!stream_wait(t, (uintptr_t)native))
			return 0;
	}
	return glue_tensor_wait(t);
}

static bool same_device(const struct glue_tensor *t, PyObject *device)
{
	int type, id;

	if (device == Py_None)
		return true;
	if (!PyArg_ParseTuple(device, "ii:dl_device", &type, &id))
		return false;
	if (type == t->memory->device_type && id == t->memory->device_id)
		return true;
	PyErr_SetString(PyExc_BufferError,
			"a tensor is exported on its own device only");
	return false;
}

PyObject *glue_tensor_dlpack(PyObject *self, PyObject *args, PyObject *kw)
{
	static char *names[] = { "stream", "max_version", "dl_device", "copy",
				 NULL };
	PyObject *stream = Py_None, *version = Py_None, *device = Py_None;
	struct glue_tensor *t = (struct glue_tensor *)self;
	PyObject *copy = Py_None;
	int major = 0, minor = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|$OOOO:__dlpack__", names,
					 &stream, &version, &device, &copy))
		return NULL;
	if (version != Py_None &&
	    !PyArg_ParseTuple(version, "ii:max_version", &major, &minor))
		return NULL;
	if (copy == Py_True) {
		PyErr_SetString(PyExc_BufferError,
				"a tensor is exported without a copy only");
		return NULL;
	}
	if (!same_device(t, device) || order(t, stream) < 0)
		return NULL;
	return major >= DLPACK_MAJOR ? glue_capsule(t) : legacy_capsule(t);
}

PyObject *glue_tensor_dlpack_device(PyObject *self, PyObject *unused)
{
	struct glue_memory *memory = ((struct glue_tensor *)self)->memory;

	(void)unused;
	return Py_BuildValue("ii", memory->device_type, memory->device_id);
}
