/* SPDX-License-Identifier: MIT */
/* Roots: weir_open(), the devices, and the end of the interpreter. */
#include "glue.h"
#include <time.h>

PyTypeObject *glue_root_type;

/* All open roots. */
static struct glue_root *roots;

/* The interpreter ends: threads that go on do not get a new root. */
static bool ended;
static unsigned long ender; /* the thread that ends it */

struct glue_root *glue_roots(void)
{
	return roots;
}

static PyObject *root_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	static char *names[] = { "io",          "reactors",      "depth",
				 "copiers",     "chunk",         "staging",
				 "keep",        "budget",        "io_cpus",
				 "module_path", "close_timeout", "read_timeout",
				 "cache",       "cache_bytes",   NULL };
	struct weir_opts opts = WEIR_OPTS_INIT;
	unsigned long long chunk = 0, staging = 0, keep = 0, budget = 0,
			   cache_bytes = 0;
	long long close_timeout = 0, read_timeout = 0;
	struct glue_root *self;
	struct weir *weir;
	int r;

	if (!PyArg_ParseTupleAndKeywords(
		    args, kw, "|$IIIIKKKKzzLLzK:Root", names, &opts.io,
		    &opts.reactors, &opts.depth, &opts.copiers, &chunk,
		    &staging, &keep, &budget, &opts.io_cpus, &opts.module_path,
		    &close_timeout, &read_timeout, &opts.cache, &cache_bytes))
		return NULL;
	opts.chunk = chunk;
	opts.staging = staging;
	opts.keep = keep;
	opts.budget = budget;
	opts.cache_bytes = cache_bytes;
	opts.close_timeout = close_timeout;
	opts.read_timeout = read_timeout;
	if (ended)
		return glue_fail_text(-ESHUTDOWN, "the interpreter ends");
	r = weir_open(&opts, &weir);
	if (r < 0)
		return glue_fail(r);
	self = (struct glue_root *)PyType_GenericAlloc(type, 0);
	if (!self) {
		weir_close(weir);
		return NULL;
	}
	self->weir = weir;
	self->next = roots;
	if (roots)
		roots->prev = self;
	roots = self;
	return (PyObject *)self;
}

struct weir *glue_root_enter(struct glue_root *self)
{
	Py_INCREF(self);
	self->busy++;
	return self->weir;
}

void glue_root_leave(struct glue_root *self)
{
	struct weir *weir = self->late;

	if (--self->busy == 0 && weir) {
		self->late = NULL;
		Py_BEGIN_ALLOW_THREADS weir_close(weir);
		Py_END_ALLOW_THREADS
	}
	Py_DECREF(self);
}

/*
 * weir_close() may run while no other thread is in a call with the root. Such
 * calls open files and allocate memory. They get 1 s; then the last one of them
 * closes the root.
 */
static bool wait_idle(struct glue_root *self)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	for (int i = 0; self->busy && i < 1000; i++) {
		Py_BEGIN_ALLOW_THREADS nanosleep(&ms, NULL);
		Py_END_ALLOW_THREADS
	}
	return !self->busy;
}

/* Cancels its loads, so that the root need not wait for their reads. */
static void root_close(struct glue_root *self)
{
	struct weir *weir = self->weir;

	if (!weir)
		return;
	self->weir = NULL;
	if (self->prev)
		self->prev->next = self->next;
	else
		roots = self->next;
	if (self->next)
		self->next->prev = self->prev;
	self->prev = self->next = NULL;
	for (struct glue_load *l = self->loads; l; l = l->next)
		if (l->load)
			weir_load_cancel(l->load);
	if (!wait_idle(self)) {
		self->late = weir;
		return;
	}
	Py_BEGIN_ALLOW_THREADS weir_close(weir);
	Py_END_ALLOW_THREADS
}

static void root_dealloc(PyObject *self)
{
	root_close((struct glue_root *)self);
	glue_free(self);
}

static PyObject *close_root(PyObject *self, PyObject *unused)
{
	(void)unused;
	root_close((struct glue_root *)self);
	Py_RETURN_NONE;
}

bool glue_ends_thread(int err)
{
	return ended && ender != PyThread_get_thread_ident() &&
	       (err == -ESHUTDOWN || err == -ECANCELED);
}

PyObject *glue_shutdown(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	ended = true;
	ender = PyThread_get_thread_ident();
	while (roots) {
		struct glue_root *root = roots;

		Py_INCREF(root);
		root_close(root);
		Py_DECREF(root);
	}
	glue_owners_drop();
	Py_RETURN_NONE;
}

/*
 * The library refuses calls with objects of the parent. Threads of the parent
 * that were in calls are not here.
 */
PyObject *glue_forked(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	while (roots) {
		struct glue_root *root = roots;

		roots = root->next;
		root->prev = root->next = NULL;
		root->weir = NULL;
		root->busy = 0;
	}
	Py_RETURN_NONE;
}

struct glue_root *glue_root_of(PyObject *o)
{
	struct glue_root *self = (struct glue_root *)o;

	if (!PyObject_TypeCheck(o, glue_root_type)) {
		PyErr_SetString(PyExc_TypeError, "not a Root");
		return NULL;
	}
	if (!self->weir) {
		glue_fail_text(-ESHUTDOWN, "the root was closed");
		return NULL;
	}
	return self;
}

struct weir_buft *glue_buft(struct glue_root *root, const char *name,
			    unsigned kind)
{
	struct weir *weir = glue_root_enter(root);
	struct weir_buft *buft;
	struct weir_dev *dev;
	int r;

	if (!weir) {
		/* Another thread has closed it, without the GIL here. */
		glue_root_leave(root);
		glue_fail_text(-ESHUTDOWN, "the root was closed");
		return NULL;
	}
	/* The first call for another device than the CPU loads modules. */
	Py_BEGIN_ALLOW_THREADS r = 0;
	if (!name || !strcmp(name, "CPU"))
		dev = weir_dev_get(weir, 0);
	else
		r = weir_dev_configure(weir, name, &dev);
	if (r >= 0 && !dev)
		r = -EPERM;
	if (r >= 0)
		r = weir_dev_buft(dev, kind, &buft);
	Py_END_ALLOW_THREADS glue_root_leave(root);
	if (r < 0) {
		glue_fail(r);
		return NULL;
	}
	return buft;
}

static PyObject *device_dict(struct weir_dev *dev)
{
	struct weir_dev_info info = { .size = sizeof(info) };
	uint64_t available = 0, total = 0;
	int r;

	r = weir_dev_info(dev, &info);
	if (r < 0)
		return glue_fail(r);
	if (weir_dev_memory(dev, &available, &total) < 0)
		available = total = 0;
	return Py_BuildValue("{s:s,s:s,s:s,s:I,s:i,s:s,s:K,s:K}", "name",
			     info.name, "description", info.description,
			     "backend", info.backend, "type", info.type, "node",
			     info.node, "pci", info.pci, "free",
			     (unsigned long long)available, "total",
			     (unsigned long long)total);
}

static PyObject *root_devices(PyObject *o, PyObject *unused)
{
	struct glue_root *self = glue_root_of(o);
	PyObject *list, *item;
	struct weir *weir;
	unsigned n;
	int r;

	(void)unused;
	if (!self)
		return NULL;
	weir = glue_root_enter(self);
	Py_BEGIN_ALLOW_THREADS n = weir_dev_count(weir);
	Py_END_ALLOW_THREADS list = PyList_New(0);
	for (unsigned i = 0; list && i < n; i++) {
		item = device_dict(weir_dev_get(weir, i));
		r = item ? PyList_Append(list, item) : -1;
		Py_XDECREF(item);
		if (r < 0)
			Py_CLEAR(list);
	}
	glue_root_leave(self);
	return list;
}

static PyObject *root_io_info(PyObject *o, PyObject *unused)
{
	struct weir_io_info info = { .size = sizeof(info) };
	struct glue_root *self = glue_root_of(o);
	struct weir *weir;
	int r;

	(void)unused;
	if (!self)
		return NULL;
	weir = glue_root_enter(self);
	Py_BEGIN_ALLOW_THREADS r = weir_io_info(weir, &info);
	Py_END_ALLOW_THREADS glue_root_leave(self);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue(
		"{s:s,s:I,s:I,s:I,s:K,s:K,s:s}", "method",
		info.method == WEIR_IO_URING ? "io_uring" : "threads",
		"reactors", info.reactors, "depth", info.depth, "copiers",
		info.copiers, "chunk", (unsigned long long)info.chunk,
		"staging", (unsigned long long)info.staging, "why", info.why);
}

static PyObject *root_trim(PyObject *o, PyObject *args)
{
	struct glue_root *self = glue_root_of(o);
	Py_ssize_t keep = 0;
	struct weir *weir;
	int r;

	if (!self || !PyArg_ParseTuple(args, "|n:trim", &keep))
		return NULL;
	weir = glue_root_enter(self);
	Py_BEGIN_ALLOW_THREADS r = weir_trim(weir, (size_t)keep);
	Py_END_ALLOW_THREADS glue_root_leave(self);
	if (r < 0)
		return glue_fail(r);
	Py_RETURN_NONE;
}

static PyObject *root_is_closed(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!((struct glue_root *)self)->weir);
}

static PyMethodDef methods[] = {
	{ "close", close_root, METH_NOARGS,
	  "Cancel the loads of the root and close it." },
	{ "devices", root_devices, METH_NOARGS,
	  "The devices: a list of dictionaries." },
	{ "io_info", root_io_info, METH_NOARGS,
	  "How files are read: a dictionary. Starts the I/O engine." },
	{ "trim", root_trim, METH_VARARGS,
	  "Return kept memory to the system until at most KEEP bytes are left." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef members[] = {
	{ "closed", root_is_closed, NULL, "True if the root was closed.",
	  NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
	  "A root of the library: devices, I/O engine, kept memory." },
	{ Py_tp_new, root_new },
	{ Py_tp_dealloc, root_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Root",
	.basicsize = sizeof(struct glue_root),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
	.slots = slots,
};

int glue_root_init(PyObject *module)
{
	glue_root_type = glue_type(module, "Root", &spec);
	return glue_root_type ? 0 : -1;
}
