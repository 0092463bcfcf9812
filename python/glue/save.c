/* SPDX-License-Identifier: MIT */
/* Saves: tensors of the program, or of another model, to files. */
#include "glue.h"

PyTypeObject *glue_save_type;

/* Save(root, path, format=None, shard_bytes=0, flags=0) */
static PyObject *save_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	static char *names[] = { "root",        "path",  "format",
				 "shard_bytes", "flags", NULL };
	struct weir_save_opts opts = WEIR_SAVE_OPTS_INIT;
	unsigned long long shard_bytes = 0;
	struct weir_save *save;
	struct glue_root *root;
	struct glue_save *self;
	PyObject *owner, *path = NULL;
	int r;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "OO&|zKI:Save", names,
					 &owner, PyUnicode_FSConverter, &path,
					 &opts.format, &shard_bytes,
					 &opts.flags))
		return NULL;
	opts.shard_bytes = shard_bytes;
	root = glue_root_of(owner);
	r = root ? weir_save_new(root->weir, PyBytes_AsString(path), &opts,
				 &save)
		 : -1;
	Py_DECREF(path);
	if (!root)
		return NULL;
	if (r < 0)
		return glue_fail(r);
	self = (struct glue_save *)PyType_GenericAlloc(type, 0);
	if (!self) {
		weir_save_free(save);
		return NULL;
	}
	Py_INCREF(root);
	self->root = root;
	self->save = save;
	return (PyObject *)self;
}

static void save_dealloc(PyObject *o)
{
	struct glue_save *self = (struct glue_save *)o;

	if (self->save && !self->done)
		weir_save_cancel(self->save);
	weir_save_free(self->save);
	Py_XDECREF(self->root);
	glue_free(o);
}

/* A contiguous tensor of dtype @dtype and shape @dims. */
static int init_tensor(struct weir_tensor *t, unsigned dtype, PyObject *dims)
{
	int64_t shape[WEIR_MAX_DIMS];
	Py_ssize_t n = PyTuple_Size(dims);
	int r;

	for (Py_ssize_t i = 0; i < n && i < WEIR_MAX_DIMS; i++) {
		shape[i] = PyLong_AsLongLong(PyTuple_GetItem(dims, i));
		if (shape[i] == -1 && PyErr_Occurred())
			return -1;
	}
	r = weir_tensor_init(t, dtype, (unsigned)n, shape);
	if (r < 0)
		glue_fail(r);
	return r < 0 ? -1 : 0;
}

/*
 * add(name, address, dtype, shape, owner, to=0): a contiguous tensor at an
 * address of the host.
 */
static PyObject *save_add(PyObject *o, PyObject *args)
{
	struct glue_save *self = (struct glue_save *)o;
	unsigned long long address;
	unsigned dtype, to = 0;
	PyObject *dims, *owner;
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir_tensor t;
	const char *name;
	size_t bytes;
	int r;

	if (!PyArg_ParseTuple(args, "sKIO!O|I:add", &name, &address, &dtype,
			      &PyTuple_Type, &dims, &owner, &to) ||
	    !glue_root_of((PyObject *)self->root) ||
	    init_tensor(&t, dtype, dims) < 0)
		return NULL;
	buft = glue_buft(self->root, NULL, WEIR_MEM_PLAIN);
	if (!buft)
		return NULL;
	r = weir_tensor_bytes(&t, &bytes);
	if (r < 0)
		return glue_fail(r);
	/* An empty tensor may have no address. */
	if (glue_wrap(buft, address ? (void *)(uintptr_t)address : self, bytes,
		      owner, &buf) < 0)
		return NULL;
	r = weir_tensor_place(&t, buf, 0);
	if (r >= 0)
		r = weir_save_add(self->save, name, &t, to);
	weir_buf_free(buf);
	if (r < 0)
		return glue_fail(r);
	Py_RETURN_NONE;
}

/* add_tensor(name, tensor, to=0): a tensor in any memory of the library. */
static PyObject *save_add_tensor(PyObject *o, PyObject *args)
{
	struct glue_save *self = (struct glue_save *)o;
	struct glue_tensor *source;
	struct weir_tensor t;
	const char *name;
	unsigned to = 0;
	int r;

	if (!PyArg_ParseTuple(args, "sO!|I:add_tensor", &name, glue_tensor_type,
			      &source, &to) ||
	    glue_tensor_wait(source) < 0)
		return NULL;
	r = glue_tensor_describe(source, &t);
	if (r >= 0)
		r = weir_save_add(self->save, name, &t, to);
	if (r < 0)
		return glue_fail(r);
	Py_RETURN_NONE;
}

/* copy(name, model, i, to=0): tensor i of another model. */
static PyObject *save_copy(PyObject *o, PyObject *args)
{
	struct glue_save *self = (struct glue_save *)o;
	struct weir_model *model;
	const char *name;
	PyObject *source;
	unsigned to = 0;
	Py_ssize_t i;
	int r;

	if (!PyArg_ParseTuple(args, "sO!n|I:copy", &name, glue_model_type,
			      &source, &i, &to))
		return NULL;
	model = glue_model_of((struct glue_model *)source);
	if (!model)
		return NULL;
	r = weir_save_copy(self->save, name, model, (size_t)i, NULL, to);
	if (r < 0)
		return glue_fail(r);
	Py_RETURN_NONE;
}

/* copy_meta(model, glob=None): the metadata of another model. */
static PyObject *save_copy_meta(PyObject *o, PyObject *args)
{
	struct glue_save *self = (struct glue_save *)o;
	struct weir_model *model;
	const char *glob = NULL;
	PyObject *source;
	int r;

	if (!PyArg_ParseTuple(args, "O!|z:copy_meta", glue_model_type, &source,
			      &glob))
		return NULL;
	model = glue_model_of((struct glue_model *)source);
	if (!model)
		return NULL;
	r = weir_save_copy_meta(self->save, model, glob);
	return r < 0 ? glue_fail(r) : PyLong_FromLong(r);
}

/* meta(key, value): a pair of strings. */
static PyObject *save_meta(PyObject *o, PyObject *args)
{
	struct weir_value v = { .size = sizeof(v), .type = WEIR_VALUE_STRING };
	struct glue_save *self = (struct glue_save *)o;
	Py_ssize_t key_len, len;
	int r;

	if (!PyArg_ParseTuple(args, "s#s#:meta", &v.key, &key_len, &v.str,
			      &len))
		return NULL;
	v.key_len = (size_t)key_len;
	v.len = (size_t)len;
	r = weir_save_meta(self->save, &v);
	if (r < 0)
		return glue_fail(r);
	Py_RETURN_NONE;
}

static PyObject *save_start(PyObject *o, PyObject *unused)
{
	struct glue_save *self = (struct glue_save *)o;
	int r;

	(void)unused;
	if (!glue_root_of((PyObject *)self->root))
		return NULL;
	glue_root_enter(self->root);
	Py_BEGIN_ALLOW_THREADS r = weir_save_start(self->save, NULL);
	Py_END_ALLOW_THREADS glue_root_leave(self->root);
	if (r < 0)
		return glue_fail(r);
	Py_RETURN_NONE;
}

static int attempt_wait(void *save, int64_t ns)
{
	return weir_save_wait(save, ns);
}

static PyObject *save_wait(PyObject *o, PyObject *args)
{
	struct glue_save *self = (struct glue_save *)o;
	double timeout = -1;
	int r;

	if (!PyArg_ParseTuple(args, "|d:wait", &timeout))
		return NULL;
	r = glue_wait(attempt_wait, self->save,
		      timeout < 0 ? -1 : (int64_t)(timeout * 1e9));
	if (r == GLUE_INTERRUPTED) {
		weir_save_cancel(self->save);
		return NULL;
	}
	if (r < 0)
		return glue_fail(r);
	self->done = true;
	Py_RETURN_NONE;
}

static PyObject *save_progress(PyObject *o, PyObject *unused)
{
	struct weir_progress p = { .size = sizeof(p) };
	struct glue_save *self = (struct glue_save *)o;
	int r;

	(void)unused;
	r = weir_save_progress(self->save, &p);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue("{s:K,s:K}", "bytes", (unsigned long long)p.bytes,
			     "total", (unsigned long long)p.total);
}

static PyObject *save_report(PyObject *o, PyObject *unused)
{
	struct weir_save_report p = { .size = sizeof(p) };
	struct glue_save *self = (struct glue_save *)o;
	int r;

	(void)unused;
	r = weir_save_report(self->save, &p);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:d,s:d,s:s}", "bytes",
			     (unsigned long long)p.bytes, "direct",
			     (unsigned long long)p.direct, "in_place",
			     (unsigned long long)p.in_place, "chunks",
			     (unsigned long long)p.chunks, "retries",
			     (unsigned long long)p.retries, "sync",
			     (double)p.sync_ns / 1e9, "elapsed",
			     (double)p.elapsed / 1e9, "note", p.note);
}

static PyMethodDef methods[] = {
	{ "add", save_add, METH_VARARGS,
	  "add(name, address, dtype, shape, owner, to=0): a contiguous tensor in "
	  "memory of the host, which OWNER keeps." },
	{ "add_tensor", save_add_tensor, METH_VARARGS,
	  "add_tensor(name, tensor, to=0): a tensor in any memory of weir." },
	{ "copy", save_copy, METH_VARARGS,
	  "copy(name, model, i, to=0): tensor i of another model." },
	{ "copy_meta", save_copy_meta, METH_VARARGS,
	  "copy_meta(model, glob=None): the metadata of another model." },
	{ "meta", save_meta, METH_VARARGS, "meta(key, value): two strings." },
	{ "start", save_start, METH_NOARGS, "Begin to write." },
	{ "wait", save_wait, METH_VARARGS,
	  "wait(seconds=-1): block until the files have their names." },
	{ "progress", save_progress, METH_NOARGS,
	  "Bytes so far: a dictionary." },
	{ "report", save_report, METH_NOARGS,
	  "How the bytes were written: a dictionary." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "A save, which writes tensors to files." },
	{ Py_tp_new, save_new },
	{ Py_tp_dealloc, save_dealloc },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Save",
	.basicsize = sizeof(struct glue_save),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_save_init(PyObject *module)
{
	glue_save_type = glue_type(module, "Save", &spec);
	return glue_save_type ? 0 : -1;
}
