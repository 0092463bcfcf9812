/* SPDX-License-Identifier: MIT */
/* Models: names, shapes, dtypes and metadata of the tensors in files. */
#include "glue.h"
#include <limits.h>
#include <stdlib.h>

PyTypeObject *glue_model_type;

PyObject *glue_shape_tuple(const int64_t *shape, unsigned ndim)
{
	PyObject *tuple = PyTuple_New(ndim);
	PyObject *item;

	for (unsigned i = 0; tuple && i < ndim; i++) {
		item = PyLong_FromLongLong(shape[i]);
		if (!item || PyTuple_SetItem(tuple, i, item) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

/* Names of GGUF files may be anything; those of safetensors are UTF-8. */
static PyObject *text(const char *s, size_t n)
{
	return PyUnicode_DecodeUTF8(s, (Py_ssize_t)n, "surrogateescape");
}

/*
 * The descriptors of the sequence @fds, an array that the caller frees; NULL
 * with an exception.
 */
static struct weir_model_fd *list_fds(PyObject *fds, unsigned *ret_n)
{
	Py_ssize_t n = PySequence_Size(fds);
	struct weir_model_fd *list;
	PyObject *item;

	if (n < 0)
		return NULL;
	list = calloc((size_t)n + 1, sizeof(*list));
	if (!list) {
		PyErr_NoMemory();
		return NULL;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		item = PySequence_GetItem(fds, i);
		list[i].fd = item ? (int)PyLong_AsLong(item) : -1;
		Py_XDECREF(item);
		if (PyErr_Occurred()) {
			free(list);
			return NULL;
		}
	}
	*ret_n = (unsigned)n;
	return list;
}

/* What a model is opened by: a path, descriptors or URLs, the others NULL. */
struct given {
	PyObject *path; /* bytes */
	struct weir_model_fd *fd;
	PyObject **url; /* bytes */
	unsigned n;     /* of fd or url */
};

static void given_free(struct given *given)
{
	for (unsigned i = 0; given->url && i < given->n; i++)
		Py_XDECREF(given->url[i]);
	Py_XDECREF(given->path);
	free(given->url);
	free(given->fd);
}

static int list_urls(PyObject *urls, struct given *given)
{
	Py_ssize_t n = PySequence_Size(urls);
	PyObject *item;
	int r = 1;

	if (n < 0)
		return -1;
	given->url = calloc((size_t)n + 1, sizeof(*given->url));
	if (!given->url) {
		PyErr_NoMemory();
		return -1;
	}
	while (r > 0 && given->n < (size_t)n) {
		item = PySequence_GetItem(urls, given->n);
		r = item ? PyUnicode_FSConverter(item, &given->url[given->n])
			 : 0;
		Py_XDECREF(item);
		given->n += r > 0;
	}
	return r > 0 ? 0 : -1;
}

static int open_urls(struct weir *weir, char **url, unsigned n,
		     const struct weir_model_opts *opts,
		     struct weir_model **ret_model)
{
	struct weir_file **file = calloc((size_t)n + 1, sizeof(*file));
	int r = file ? 0 : -ENOMEM;

	for (unsigned i = 0; i < n && r >= 0; i++)
		r = weir_file_open(weir, url[i], NULL, &file[i]);
	if (r >= 0)
		r = weir_model_open_files(weir, file, n, opts, ret_model);
	for (unsigned i = 0; file && i < n; i++)
		weir_file_close(file[i]);
	free(file);
	return r;
}

static int open_given(struct weir *weir, const struct given *given,
		      const char *path, char **url,
		      const struct weir_model_opts *opts,
		      struct weir_model **ret_model)
{
	if (given->fd)
		return weir_model_open_fds(weir, given->fd, given->n, opts,
					   ret_model);
	if (url)
		return open_urls(weir, url, given->n, opts, ret_model);
	return weir_model_open(weir, path, opts, ret_model);
}

static int model_open(PyObject *owner, const struct given *given,
		      const struct weir_model_opts *opts,
		      struct weir_model **ret_model)
{
	const char *path = given->path ? PyBytes_AsString(given->path) : NULL;
	struct glue_root *root = glue_root_of(owner);
	struct weir *weir;
	char **url = NULL;
	int r;

	if (!root)
		return -1;
	if (given->url) {
		url = calloc((size_t)given->n + 1, sizeof(*url));
		if (!url) {
			PyErr_NoMemory();
			return -1;
		}
	}
	for (unsigned i = 0; url && i < given->n; i++)
		url[i] = PyBytes_AsString(given->url[i]);
	weir = glue_root_enter(root);
	Py_BEGIN_ALLOW_THREADS r =
		open_given(weir, given, path, url, opts, ret_model);
	Py_END_ALLOW_THREADS glue_root_leave(root);
	free(url);
	if (r < 0) {
		glue_fail(r);
		return -1;
	}
	return 0;
}

/* Model(root, path=None, fds=None, flags=0, memory=0, urls=None) */
static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	static char *names[] = { "root",   "path", "fds", "flags",
				 "memory", "urls", NULL };
	struct weir_model_opts opts = WEIR_MODEL_OPTS_INIT;
	PyObject *owner, *path = Py_None, *fds = Py_None, *urls = Py_None;
	unsigned long long memory = 0;
	struct given given = { 0 };
	struct weir_model *model;
	struct glue_model *self;
	int r = 0;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "O|OOIKO:Model", names,
					 &owner, &path, &fds, &opts.flags,
					 &memory, &urls))
		return NULL;
	opts.memory = memory;
	if (fds != Py_None) {
		given.fd = list_fds(fds, &given.n);
		r = given.fd ? 0 : -1;
	} else if (urls != Py_None) {
		r = list_urls(urls, &given);
	} else if (!PyUnicode_FSConverter(path, &given.path)) {
		r = -1;
	}
	if (r >= 0)
		r = model_open(owner, &given, &opts, &model);
	given_free(&given);
	if (r < 0)
		return NULL;
	self = (struct glue_model *)PyType_GenericAlloc(type, 0);
	if (!self) {
		weir_model_close(model);
		return NULL;
	}
	Py_INCREF(owner);
	self->root = (struct glue_root *)owner;
	self->model = model;
	return (PyObject *)self;
}

static void model_dealloc(PyObject *o)
{
	struct glue_model *self = (struct glue_model *)o;

	glue_maps_free(self);
	weir_model_close(self->model);
	Py_XDECREF(self->names);
	Py_XDECREF(self->root);
	glue_free(o);
}

struct weir_model *glue_model_of(struct glue_model *self)
{
	if (self->model && !self->closing)
		return self->model;
	glue_fail_text(-EBADF, "the model was closed");
	return NULL;
}

void glue_model_enter(struct glue_model *self)
{
	self->busy++;
	glue_root_enter(self->root);
}

void glue_model_leave(struct glue_model *self)
{
	glue_root_leave(self->root);
	if (--self->busy || !self->closing)
		return;
	glue_maps_free(self);
	weir_model_close(self->model);
	self->model = NULL;
}

static PyObject *model_close(PyObject *o, PyObject *unused)
{
	struct glue_model *self = (struct glue_model *)o;

	(void)unused;
	self->closing = true;
	Py_CLEAR(self->names);
	if (self->busy)
		Py_RETURN_NONE;
	glue_maps_free(self);
	weir_model_close(self->model);
	self->model = NULL;
	Py_RETURN_NONE;
}

PyObject *glue_model_names(struct glue_model *self)
{
	struct weir_entry entry = { .size = sizeof(entry) };
	struct weir_model *model = glue_model_of(self);
	PyObject *tuple, *name;
	size_t n;

	if (!model || self->names)
		return self->names;
	n = weir_model_count(model);
	tuple = PyTuple_New((Py_ssize_t)n);
	for (size_t i = 0; tuple && i < n; i++) {
		int r = weir_model_tensor(model, i, &entry);

		if (r < 0) {
			Py_DECREF(tuple);
			return glue_fail(r);
		}
		name = text(entry.name, entry.name_len);
		if (!name || PyTuple_SetItem(tuple, (Py_ssize_t)i, name) < 0)
			Py_CLEAR(tuple);
	}
	self->names = tuple;
	return tuple;
}

static PyObject *model_names(PyObject *o, PyObject *unused)
{
	PyObject *names = glue_model_names((struct glue_model *)o);

	(void)unused;
	Py_XINCREF(names);
	return names;
}

static PyObject *entry_tuple(const struct weir_entry *e)
{
	PyObject *shape = glue_shape_tuple(e->shape, e->ndim);

	if (!shape)
		return NULL;
	return Py_BuildValue("INKIK", (unsigned)e->dtype, shape,
			     (unsigned long long)e->bytes, e->shard,
			     (unsigned long long)e->offset);
}

static PyObject *model_entry(PyObject *o, PyObject *arg)
{
	struct weir_model *model = glue_model_of((struct glue_model *)o);
	struct weir_entry entry = { .size = sizeof(entry) };
	size_t i = PyLong_AsSize_t(arg);
	int r;

	if (!model || PyErr_Occurred())
		return NULL;
	r = weir_model_tensor(model, i, &entry);
	return r < 0 ? glue_fail(r) : entry_tuple(&entry);
}

int glue_model_find(struct glue_model *self, PyObject *name, size_t *ret_i)
{
	PyObject *bytes;
	Py_ssize_t n;
	char *text;
	int r;

	if (!PyUnicode_Check(name)) {
		PyErr_SetString(PyExc_TypeError,
				"argument 'name': a name is a str");
		return -1;
	}
	bytes = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape");
	if (!bytes) {
		PyErr_Clear();
		return 0;
	}
	r = PyBytes_AsStringAndSize(bytes, &text, &n) < 0 ? -1 : 0;
	/* No name has a zero byte in it. */
	if (r >= 0 && strlen(text) == (size_t)n)
		r = weir_model_find(self->model, text, ret_i) >= 0;
	Py_DECREF(bytes);
	return r;
}

static PyObject *model_find(PyObject *o, PyObject *arg)
{
	struct glue_model *self = (struct glue_model *)o;
	size_t i;
	int r;

	if (!glue_model_of(self))
		return NULL;
	r = glue_model_find(self, arg, &i);
	if (r < 0)
		return NULL;
	return r ? PyLong_FromSize_t(i) : PyLong_FromLong(-1);
}

static PyObject *model_files(PyObject *o, PyObject *unused)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_model *model = glue_model_of((struct glue_model *)o);
	PyObject *list = model ? PyList_New(0) : NULL;
	struct weir_file *file;
	PyObject *path;
	int r = 0;

	(void)unused;
	for (unsigned i = 0; list && (file = weir_model_file(model, i)); i++) {
		r = weir_file_info(file, &info);
		path = r < 0 ? NULL : PyUnicode_DecodeFSDefault(info.path);
		if (!path || PyList_Append(list, path) < 0)
			Py_CLEAR(list);
		Py_XDECREF(path);
	}
	return r < 0 ? glue_fail(r) : list;
}

static struct weir_file *file_at(PyObject *o, PyObject *number)
{
	struct weir_model *model = glue_model_of((struct glue_model *)o);
	unsigned long i = model ? PyLong_AsUnsignedLong(number) : 0;
	struct weir_file *file = NULL;

	if (model && !PyErr_Occurred()) {
		file = i <= UINT_MAX ? weir_model_file(model, (unsigned)i)
				     : NULL;
		if (!file)
			PyErr_SetString(PyExc_IndexError,
					"there are not as many files");
	}
	return file;
}

/* False with an exception: there is no such file. */
static bool file_info(PyObject *o, PyObject *number,
		      struct weir_file_info *info)
{
	struct weir_file *file = file_at(o, number);
	int r;

	if (!file)
		return false;
	info->size = sizeof(*info);
	r = weir_file_info(file, info);
	if (r < 0)
		glue_fail(r);
	return r >= 0;
}

static PyObject *model_size(PyObject *o, PyObject *number)
{
	struct weir_file_info info;

	return file_info(o, number, &info)
		       ? PyLong_FromUnsignedLongLong(info.bytes)
		       : NULL;
}

static PyObject *model_published(PyObject *o, PyObject *number)
{
	struct weir_file_info info;

	return file_info(o, number, &info) ? PyUnicode_FromString(info.sha256)
					   : NULL;
}

static PyObject *model_sha256(PyObject *o, PyObject *number)
{
	struct weir_file *file = file_at(o, number);
	unsigned char digest[64];
	int r;

	if (!file)
		return NULL;
	glue_model_enter((struct glue_model *)o);
	Py_BEGIN_ALLOW_THREADS r =
		weir_file_digest(file, WEIR_DIGEST_SHA256, digest);
	Py_END_ALLOW_THREADS glue_model_leave((struct glue_model *)o);
	return r < 0 ? glue_fail(r)
		     : PyBytes_FromStringAndSize((char *)digest, r);
}

static PyObject *model_info(PyObject *o, PyObject *unused)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_model *model = glue_model_of((struct glue_model *)o);
	int r;

	(void)unused;
	if (!model)
		return NULL;
	r = weir_model_info(model, &info);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue("{s:N,s:s,s:K,s:K,s:I,s:K}", "path",
			     PyUnicode_DecodeFSDefault(info.path), "format",
			     info.format, "bytes",
			     (unsigned long long)info.bytes, "count",
			     (unsigned long long)info.count, "files",
			     info.shards, "unlisted",
			     (unsigned long long)info.unlisted);
}

static PyObject *value_object(const struct weir_model *model,
			      const struct weir_value *v);

static PyObject *array_list(const struct weir_model *model,
			    const struct weir_value *v)
{
	struct weir_value item = { .size = sizeof(item) };
	PyObject *list = PyList_New((Py_ssize_t)v->len);
	PyObject *object;
	int r;

	for (size_t i = 0; list && i < v->len; i++) {
		r = weir_model_meta_item(model, v, i, &item);
		if (r < 0) {
			Py_DECREF(list);
			return glue_fail(r);
		}
		object = value_object(model, &item);
		if (!object || PyList_SetItem(list, (Py_ssize_t)i, object) < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *value_object(const struct weir_model *model,
			      const struct weir_value *v)
{
	switch (v->type) {
	case WEIR_VALUE_STRING:
		return text(v->str, v->len);
	case WEIR_VALUE_BOOL:
		return PyBool_FromLong((long)v->u);
	case WEIR_VALUE_U8:
	case WEIR_VALUE_U16:
	case WEIR_VALUE_U32:
	case WEIR_VALUE_U64:
		return PyLong_FromUnsignedLongLong(v->u);
	case WEIR_VALUE_F32:
	case WEIR_VALUE_F64:
		return PyFloat_FromDouble(v->f);
	case WEIR_VALUE_ARRAY:
		return array_list(model, v);
	default:
		return PyLong_FromLongLong(v->i);
	}
}

static int add_pair(PyObject *dict, const struct weir_model *model, size_t i)
{
	struct weir_value v = { .size = sizeof(v) };
	PyObject *key, *value;
	int r;

	r = weir_model_meta_at(model, i, &v);
	if (r < 0) {
		glue_fail(r);
		return -1;
	}
	key = text(v.key, v.key_len);
	value = key ? value_object(model, &v) : NULL;
	r = value ? PyDict_SetItem(dict, key, value) : -1;
	Py_XDECREF(key);
	Py_XDECREF(value);
	return r;
}

static PyObject *model_metadata(PyObject *o, PyObject *unused)
{
	struct weir_model_info info = { .size = sizeof(info) };
	struct weir_model *model = glue_model_of((struct glue_model *)o);
	PyObject *dict;
	int r;

	(void)unused;
	if (!model)
		return NULL;
	r = weir_model_info(model, &info);
	if (r < 0)
		return glue_fail(r);
	dict = PyDict_New();
	for (size_t i = 0; dict && i < info.meta; i++)
		if (add_pair(dict, model, i) < 0)
			Py_CLEAR(dict);
	return dict;
}

static Py_ssize_t model_length(PyObject *o)
{
	struct weir_model *model = glue_model_of((struct glue_model *)o);

	return model ? (Py_ssize_t)weir_model_count(model) : -1;
}

static PyObject *model_root(PyObject *o, void *unused)
{
	PyObject *root = (PyObject *)((struct glue_model *)o)->root;

	(void)unused;
	Py_INCREF(root);
	return root;
}

static PyObject *model_is_closed(PyObject *o, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct glue_model *)o)->closing);
}

static PyMethodDef methods[] = {
	{ "close", model_close, METH_NOARGS,
	  "Close the model. Its loads and tensors stay." },
	{ "names", model_names, METH_NOARGS,
	  "The names of all tensors, in the order of the files: a tuple." },
	{ "entry", model_entry, METH_O,
	  "entry(i): (dtype, shape, bytes, file, offset) of tensor i." },
	{ "find", model_find, METH_O,
	  "find(name): the number of the tensor of this name, or -1." },
	{ "read", (PyCFunction)(void (*)(void))glue_model_read,
	  METH_VARARGS | METH_KEYWORDS,
	  "read(i, device=None, kind=0, way=0, dtype=0): tensor i." },
	{ "get", glue_model_get, METH_VARARGS,
	  "get(name, device, maker, want): the tensor of this name as MAKER makes "
	  "it, or None. WANT: PART_READ, PART_VIEW, PART_MAP or PART_COPY of a "
	  "mapping of its file, where that is possible, for memory of the CPU." },
	{ "part", glue_model_part, METH_VARARGS,
	  "part(i, index, device, maker, want): the part of tensor i that "
	  "INDEX means." },
	{ "views", glue_model_views, METH_VARARGS,
	  "views(maker): after absent(), all tensors as views of mappings of "
	  "the files, by name; None: they have to be loaded." },
	{ "absent", glue_model_absent, METH_NOARGS,
	  "Map the files. The mappings of those that are not in the page cache, "
	  "as a list of Memory; None: a file cannot be mapped." },
	{ "read_slice", glue_model_read_slice, METH_VARARGS,
	  "read_slice(i, ranges, device=None): a part of tensor i; RANGES has "
	  "(start, number, step) for each dimension." },
	{ "files", model_files, METH_NOARGS,
	  "The paths of its files, in their order." },
	{ "size", model_size, METH_O, "size(i): the bytes of file i." },
	{ "sha256", model_sha256, METH_O,
	  "sha256(i): the SHA-256 sum of file i: bytes." },
	{ "published", model_published, METH_O,
	  "published(i): the published SHA-256 of file i, in hexadecimal "
	  "digits; '': none is known." },
	{ "info", model_info, METH_NOARGS, "The model: a dictionary." },
	{ "metadata", model_metadata, METH_NOARGS,
	  "The metadata: a new dictionary." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef members[] = {
	{ "root", model_root, NULL, "Its root.", NULL },
	{ "closed", model_is_closed, NULL, "True if it was closed.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "A model: what is in its files." },
	{ Py_tp_new, model_new },
	{ Py_tp_dealloc, model_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ Py_sq_length, model_length },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Model",
	.basicsize = sizeof(struct glue_model),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_model_init(PyObject *module)
{
	glue_model_type = glue_type(module, "Model", &spec);
	return glue_model_type ? 0 : -1;
}
