/* SPDX-License-Identifier: MIT */
/* Loads: from the tensors that the caller chose to their arrival. */
#include "glue.h"
#include "request.h"
#include <stdlib.h>

PyTypeObject *glue_load_type;

static void list_add(struct glue_load *self)
{
	struct glue_root *root = self->root;

	self->next = root->loads;
	if (root->loads)
		root->loads->prev = self;
	root->loads = self;
	self->listed = true;
}

static void list_remove(struct glue_load *self)
{
	if (!self->listed)
		return;
	if (self->prev)
		self->prev->next = self->next;
	else
		self->root->loads = self->next;
	if (self->next)
		self->next->prev = self->prev;
	self->prev = self->next = NULL;
	self->listed = false;
}

/*
 * Load(model, indices=None, slices=None, targets=None, device=None, kind=0,
 * way=0, dtype=0, align=0, priority=0, depth=0, flags=0)
 *
 * Starts at once. Without indices all tensors of the model are loaded.
 */
static PyObject *load_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct request rq;
	struct glue_load *self;
	int r;

	if (glue_request_parse(&rq, args, kw) < 0)
		return NULL;
	self = (struct glue_load *)PyType_GenericAlloc(type, 0);
	r = self ? glue_request_start(&rq, &self->load) : -1;
	if (r >= 0) {
		r = weir_load_weights(self->load, &self->weights);
		if (r < 0)
			glue_fail(r);
	}
	if (r < 0) {
		glue_request_end(&rq);
		Py_XDECREF(self);
		return NULL;
	}
	Py_INCREF(rq.model);
	self->model = rq.model;
	Py_INCREF(rq.model->root);
	self->root = rq.model->root;
	self->parkable = rq.select.buf_flags & WEIR_BUF_PARKABLE;
	self->count = weir_weights_count(self->weights);
	self->index = rq.index;
	rq.index = NULL;
	glue_request_end(&rq);
	list_add(self);
	return (PyObject *)self;
}

/* What has not arrived by now never does. */
static void load_close(struct glue_load *self)
{
	struct weir_load *load = self->load;

	list_remove(self);
	self->load = NULL;
	if (!load)
		return;
	if (!self->done)
		weir_load_cancel(load);
	weir_load_free(load);
	weir_event_free(self->returning);
	self->returning = NULL;
	weir_weights_free(self->weights);
	self->weights = NULL;
	for (size_t i = 0; i < self->memories; i++) {
		self->memory[i]->load = NULL;
		Py_DECREF(self->memory[i]);
	}
	free(self->memory);
	self->memory = NULL;
	self->memories = 0;
}

static void load_dealloc(PyObject *o)
{
	struct glue_load *self = (struct glue_load *)o;

	load_close(self);
	free(self->index);
	Py_XDECREF(self->model);
	Py_XDECREF(self->root);
	glue_free(o);
}

struct weir_load *glue_load_of(struct glue_load *self)
{
	if (!self->load)
		glue_fail_text(-EBADF, "the load was closed");
	return self->load;
}

static PyObject *close_load(PyObject *self, PyObject *unused)
{
	struct glue_load *load = (struct glue_load *)self;

	(void)unused;
	if (load->busy) {
		weir_load_cancel(load->load);
		return glue_fail_text(-EBUSY, "a thread waits for the load");
	}
	load_close(load);
	Py_RETURN_NONE;
}

/* The object of the buffer @buf, borrowed: one for all tensors in it. */
static struct glue_memory *memory_of(struct glue_load *self,
				     struct weir_buf *buf)
{
	struct glue_memory **list;
	struct glue_memory *memory;

	for (size_t i = self->memories; i-- > 0;)
		if (self->memory[i]->buf == buf)
			return self->memory[i];
	memory = glue_memory_new(buf);
	if (!memory)
		return NULL;
	list = realloc(self->memory, (self->memories + 1) * sizeof(*list));
	if (!list) {
		Py_DECREF(memory);
		PyErr_NoMemory();
		return NULL;
	}
	memory->load = self->parkable ? self : NULL;
	self->memory = list;
	list[self->memories++] = memory;
	return memory;
}

/* The member of a joined buffer that @t is in. */
static void find_member(struct weir_tensor *t)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buf *member;

	for (unsigned i = 0; (member = weir_buf_member(t->buf, i)); i++) {
		if (weir_buf_info(member, &info) < 0 ||
		    t->offset < info.bytes) {
			t->buf = member;
			return;
		}
		t->offset -= info.bytes;
	}
}

struct glue_tensor *glue_load_tensor_new(struct glue_load *self, size_t i)
{
	const struct weir_tensor *found;
	struct glue_memory *memory;
	struct weir_tensor t;

	if (!glue_load_of(self))
		return NULL;
	if (self->parked) {
		glue_fail_text(-EBUSY, "the load is parked");
		return NULL;
	}
	found = weir_weights_get(self->weights, i);
	if (!found || !found->buf) {
		PyErr_SetString(PyExc_IndexError,
				"the load has no such tensor");
		return NULL;
	}
	t = *found;
	find_member(&t);
	memory = memory_of(self, t.buf);
	return memory ? glue_tensor_new(memory, &t) : NULL;
}

static int attempt_wait(void *load, int64_t ns)
{
	return weir_load_wait(load, ns);
}

/*
 * Wait for all tensors. After Ctrl-C the load is cancelled, and its reads have
 * a moment to end.
 */
static int wait_all(struct glue_load *self, int64_t timeout_ns)
{
	int r;

	self->busy++;
	r = glue_wait(attempt_wait, self->load, timeout_ns);
	if (r == GLUE_INTERRUPTED) {
		weir_load_cancel(self->load);
		Py_BEGIN_ALLOW_THREADS(void)
			weir_load_wait(self->load, GLUE_SLICE_NS / 2);
		Py_END_ALLOW_THREADS
	}
	self->busy--;
	if (r >= 0 && r != GLUE_INTERRUPTED)
		self->done = true;
	return r;
}

int glue_load_wait(struct glue_load *self)
{
	int r;

	if (!glue_load_of(self))
		return -1;
	r = self->done ? 0 : wait_all(self, -1);
	if (r < 0)
		glue_fail(r);
	return r ? -1 : 0;
}

static int64_t to_ns(double seconds)
{
	if (seconds < 0 || seconds > 1e9)
		return -1;
	return (int64_t)(seconds * 1e9);
}

static PyObject *load_wait(PyObject *o, PyObject *args)
{
	struct glue_load *self = (struct glue_load *)o;
	double timeout = -1;
	int r;

	if (!PyArg_ParseTuple(args, "|d:wait", &timeout) || !glue_load_of(self))
		return NULL;
	r = self->done ? 0 : wait_all(self, to_ns(timeout));
	if (r == GLUE_INTERRUPTED)
		return NULL;
	if (r < 0)
		return glue_fail(r);
	Py_RETURN_NONE;
}

struct next {
	struct weir_load *load;
	size_t i;
};

static int attempt_next(void *arg, int64_t ns)
{
	struct next *next = arg;

	return weir_load_next(next->load, ns, &next->i);
}

static PyObject *load_next(PyObject *o, PyObject *args)
{
	struct glue_load *self = (struct glue_load *)o;
	struct weir_failure failure;
	struct next next = { 0 };
	double timeout = -1;
	int r;

	if (!PyArg_ParseTuple(args, "|d:next", &timeout) || !glue_load_of(self))
		return NULL;
	next.load = self->load;
	self->busy++;
	r = glue_wait(attempt_next, &next, to_ns(timeout));
	if (r == GLUE_INTERRUPTED)
		weir_load_cancel(self->load);
	self->busy--;
	switch (r) {
	case GLUE_INTERRUPTED:
		return NULL;
	case WEIR_NEXT_ARRIVED:
		return PyLong_FromSize_t(next.i);
	case WEIR_NEXT_FAILED:
		r = weir_load_error(self->load, next.i, &failure);
		return glue_fail_text(r, failure.text);
	case 0:
		r = weir_load_wait(self->load, -1);
		if (r < 0)
			return glue_fail(r);
		self->done = true;
		Py_RETURN_NONE;
	default:
		return glue_fail(r);
	}
}

static PyObject *load_cancel(PyObject *o, PyObject *unused)
{
	struct glue_load *self = (struct glue_load *)o;
	int r;

	(void)unused;
	if (!glue_load_of(self))
		return NULL;
	r = weir_load_cancel(self->load);
	if (r < 0)
		return glue_fail(r);
	Py_RETURN_NONE;
}

static PyObject *load_fileno(PyObject *o, PyObject *unused)
{
	struct glue_load *self = (struct glue_load *)o;
	int r;

	(void)unused;
	if (!glue_load_of(self))
		return NULL;
	r = weir_load_fd(self->load);
	return r < 0 ? glue_fail(r) : PyLong_FromLong(r);
}

static PyObject *load_progress(PyObject *o, PyObject *unused)
{
	struct weir_progress p = { .size = sizeof(p) };
	struct glue_load *self = (struct glue_load *)o;
	int r;

	(void)unused;
	if (!glue_load_of(self))
		return NULL;
	r = weir_load_progress(self->load, &p);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:d}", "bytes",
			     (unsigned long long)p.bytes, "total",
			     (unsigned long long)p.total, "tensors",
			     (unsigned long long)p.tensors, "failed",
			     (unsigned long long)p.failed, "count",
			     (unsigned long long)p.count, "elapsed",
			     (double)p.elapsed / 1e9);
}

static PyObject *load_report(PyObject *o, PyObject *unused)
{
	struct weir_load_report p = { .size = sizeof(p) };
	struct glue_load *self = (struct glue_load *)o;
	int r;

	(void)unused;
	if (!glue_load_of(self))
		return NULL;
	r = weir_load_report(self->load, &p);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue(
		"{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:d,s:s,s:I,s:s,s:K,s:K}",
		"bytes", (unsigned long long)p.bytes, "in_place",
		(unsigned long long)p.in_place, "staged",
		(unsigned long long)p.staged, "buffered",
		(unsigned long long)p.buffered, "mapped",
		(unsigned long long)p.mapped, "over_read",
		(unsigned long long)p.over_read, "chunks",
		(unsigned long long)p.chunks, "retries",
		(unsigned long long)p.retries, "staging",
		(unsigned long long)p.staging, "memory",
		(unsigned long long)p.memory, "memory_peak",
		(unsigned long long)p.memory_peak, "prefault",
		(double)p.prefault_ns / 1e9, "elapsed", (double)p.elapsed / 1e9,
		"io", p.io == WEIR_IO_URING ? "io_uring" : "threads",
		"fallbacks", p.fallbacks, "note", p.note, "remote",
		(unsigned long long)p.remote, "cached",
		(unsigned long long)p.cached);
}

/* Leave @t with an event that is done when tensor @i has arrived. */
static int set_ready(struct glue_load *self, size_t i, struct glue_tensor *t)
{
	struct weir_event *event;
	int r;

	r = weir_event_new(self->root->weir, 0, &event);
	if (r >= 0) {
		r = weir_load_record(self->load, i, event);
		if (r >= 0 && weir_event_query(event) != 1) {
			t->ready = event;
			Py_INCREF(self);
			t->load = self;
			return 0;
		}
		weir_event_free(event);
	}
	if (r < 0)
		glue_fail(r);
	return r;
}

/* tensor(i, arrived=False) */
static PyObject *load_tensor(PyObject *o, PyObject *args)
{
	struct glue_load *self = (struct glue_load *)o;
	struct glue_tensor *t;
	int arrived = 0;
	Py_ssize_t i;

	if (!PyArg_ParseTuple(args, "n|p:tensor", &i, &arrived))
		return NULL;
	t = glue_load_tensor_new(self, (size_t)i);
	if (!t || arrived || self->done)
		return (PyObject *)t;
	if (!glue_root_of((PyObject *)self->root) ||
	    set_ready(self, (size_t)i, t) < 0) {
		Py_DECREF(t);
		return NULL;
	}
	return (PyObject *)t;
}

static PyObject *load_index(PyObject *o, PyObject *arg)
{
	struct glue_load *self = (struct glue_load *)o;
	size_t i = PyLong_AsSize_t(arg);

	if (PyErr_Occurred())
		return NULL;
	if (i >= self->count) {
		PyErr_SetString(PyExc_IndexError,
				"the load has no such tensor");
		return NULL;
	}
	return PyLong_FromSize_t(self->index ? self->index[i] : i);
}

static Py_ssize_t load_length(PyObject *self)
{
	return (Py_ssize_t)((struct glue_load *)self)->count;
}

static PyObject *load_is_done(PyObject *self, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((struct glue_load *)self)->done);
}

static PyMethodDef methods[] = {
	{ "wait", load_wait, METH_VARARGS,
	  "wait(seconds=-1): block until all tensors have arrived." },
	{ "next", load_next, METH_VARARGS,
	  "next(seconds=-1): the number of the next tensor that has arrived, or "
	  "None after the last one." },
	{ "cancel", load_cancel, METH_NOARGS, "Start no more reads." },
	{ "fileno", load_fileno, METH_NOARGS,
	  "A descriptor that is readable while next() would not block." },
	{ "progress", load_progress, METH_NOARGS,
	  "Bytes and tensors so far: a dictionary." },
	{ "report", load_report, METH_NOARGS,
	  "How the bytes were read: a dictionary." },
	{ "tensor", load_tensor, METH_VARARGS,
	  "tensor(i, arrived=False): tensor i of the load. Its users wait for "
	  "its bytes, unless the caller knows that they have arrived." },
	{ "index", load_index, METH_O,
	  "index(i): the number of tensor i in the model." },
	{ "all", (PyCFunction)(void (*)(void))glue_load_all, METH_VARARGS,
	  "all(maker): wait, and make a dictionary of all tensors by name." },
	{ "make", glue_load_make, METH_VARARGS,
	  "make(i, maker): tensor i, which has arrived, as MAKER makes it." },
	{ "digest", glue_load_digest, METH_O,
	  "digest(i): the digest of tensor i, computed as it was read." },
	{ "manifest", glue_load_manifest, METH_NOARGS,
	  "The digests of all tensors of the model: a Manifest." },
	{ "park", glue_load_park, METH_VARARGS,
	  "park(plain, folder, unchanged, changed): release the memory." },
	{ "unpark", glue_load_unpark, METH_NOARGS,
	  "Wait until the tensors are back at their addresses." },
	{ "park_info", glue_load_park_info, METH_NOARGS,
	  "Where the bytes are: a dictionary." },
	{ "close", close_load, METH_NOARGS,
	  "Cancel what has not arrived, and let go of the memory." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef members[] = {
	{ "done", load_is_done, NULL,
	  "True if wait() or next() has seen its successful end.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "A load, which runs in the background." },
	{ Py_tp_new, load_new },
	{ Py_tp_dealloc, load_dealloc },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, members },
	{ Py_sq_length, load_length },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Load",
	.basicsize = sizeof(struct glue_load),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_load_init(PyObject *module)
{
	glue_load_type = glue_type(module, "Load", &spec);
	return glue_load_type ? 0 : -1;
}
