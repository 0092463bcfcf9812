/* SPDX-License-Identifier: MIT */
/* Manifests, and the digests that a load has computed. */
#include "glue.h"

PyTypeObject *glue_manifest_type;

/* An object that has @manifest from now on; closes it after a failure. */
static PyObject *wrap(struct weir_manifest *manifest)
{
	struct glue_manifest *self;

	self = (struct glue_manifest *)PyType_GenericAlloc(glue_manifest_type,
							   0);
	if (self)
		self->manifest = manifest;
	else
		weir_manifest_close(manifest);
	return (PyObject *)self;
}

/* Manifest(root, path): reads a manifest. */
static PyObject *manifest_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct weir_manifest *manifest;
	PyObject *owner, *path = NULL;
	struct glue_root *root;
	int r = -1;

	(void)type;
	(void)kw;
	if (!PyArg_ParseTuple(args, "OO&:Manifest", &owner,
			      PyUnicode_FSConverter, &path))
		return NULL;
	root = glue_root_of(owner);
	if (root) {
		const char *name = PyBytes_AsString(path);
		struct weir *weir = glue_root_enter(root);

		Py_BEGIN_ALLOW_THREADS r =
			weir_manifest_open(weir, name, &manifest);
		Py_END_ALLOW_THREADS glue_root_leave(root);
	}
	Py_DECREF(path);
	if (!root)
		return NULL;
	return r < 0 ? glue_fail(r) : wrap(manifest);
}

static void manifest_dealloc(PyObject *o)
{
	weir_manifest_close(((struct glue_manifest *)o)->manifest);
	glue_free(o);
}

static PyObject *manifest_info(PyObject *o, PyObject *unused)
{
	struct weir_manifest_info info = { .size = sizeof(info) };
	struct glue_manifest *self = (struct glue_manifest *)o;
	Py_ssize_t n;
	int r;

	(void)unused;
	r = weir_manifest_info(self->manifest, &info);
	if (r < 0)
		return glue_fail(r);
	n = info.kind == WEIR_DIGEST_XXH3 ? 16 : 32;
	return Py_BuildValue("{s:I,s:K,s:y#}", "kind", info.kind, "count",
			     (unsigned long long)info.count, "digest",
			     (const char *)info.digest, n);
}

static PyObject *manifest_write(PyObject *o, PyObject *arg)
{
	struct glue_manifest *self = (struct glue_manifest *)o;
	long fd = PyLong_AsLong(arg);
	int r;

	if (PyErr_Occurred())
		return NULL;
	Py_BEGIN_ALLOW_THREADS r = weir_manifest_write(self->manifest, (int)fd);
	Py_END_ALLOW_THREADS if (r < 0) return glue_fail(r);
	Py_RETURN_NONE;
}

PyObject *glue_load_digest(PyObject *o, PyObject *arg)
{
	struct glue_load *self = (struct glue_load *)o;
	size_t i = PyLong_AsSize_t(arg);
	uint8_t digest[32];
	int r;

	if (PyErr_Occurred() || !glue_load_of(self))
		return NULL;
	r = weir_load_digest(self->load, i, digest);
	return r < 0 ? glue_fail(r)
		     : PyBytes_FromStringAndSize((const char *)digest, r);
}

PyObject *glue_load_manifest(PyObject *o, PyObject *unused)
{
	struct glue_load *self = (struct glue_load *)o;
	struct weir_manifest *manifest;
	int r;

	(void)unused;
	if (!glue_load_of(self))
		return NULL;
	r = weir_load_manifest(self->load, &manifest);
	return r < 0 ? glue_fail(r) : wrap(manifest);
}

static PyMethodDef methods[] = {
	{ "info", manifest_info, METH_NOARGS,
	  "Kind, number of tensors, digest of the whole: a dictionary." },
	{ "write", manifest_write, METH_O, "write(fd): the manifest as JSON." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "The digests of the tensors of a model." },
	{ Py_tp_new, manifest_new },
	{ Py_tp_dealloc, manifest_dealloc },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Manifest",
	.basicsize = sizeof(struct glue_manifest),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_manifest_init(PyObject *module)
{
	glue_manifest_type = glue_type(module, "Manifest", &spec);
	return glue_manifest_type ? 0 : -1;
}
