/* SPDX-License-Identifier: MIT */
/* Runs of a plan: inputs from objects of Python, and outputs in new memory. */
#include "glue.h"
#include "dlpack.h"
#include <stdio.h>
#include <stdlib.h>

PyTypeObject *glue_run_type;

/* At most as many bytes of outputs are copied with the GIL. */
#define SMALL 65536
/* How long a run may take until others are asked whether it goes on. */
#define SHORT_NS 5000000

/* A copy of @plan; @block: wait for one. NULL with an exception. */
static struct glue_run *run_new(struct glue_plan *plan, bool block)
{
	struct glue_run *self;

	self = (struct glue_run *)PyType_GenericAlloc(glue_run_type, 0);
	if (!self)
		return NULL;
	Py_INCREF(plan);
	self->plan = plan;
	self->copy = glue_copy_take(plan, block);
	if (!self->copy)
		Py_CLEAR(self);
	return self;
}

static void release(struct glue_run *self)
{
	if (!self->copy)
		return;
	self->late = true;
	if (self->busy)
		return;
	glue_copy_give(self->plan, self->copy);
	self->copy = NULL;
}

static void run_dealloc(PyObject *o)
{
	struct glue_run *self = (struct glue_run *)o;

	release(self);
	Py_XDECREF(self->plan);
	glue_free(o);
}

/* Around calls that use the copy, which another thread may release. */
static struct glue_copy *enter(struct glue_run *self)
{
	Py_INCREF(self);
	self->busy++;
	return self->copy;
}

static void leave(struct glue_run *self)
{
	if (--self->busy == 0 && self->late)
		release(self);
	Py_DECREF(self);
}

/* The dtype of elements of a buffer, or NONE. */
static uint32_t format_dtype(const char *format, Py_ssize_t itemsize)
{
	static const uint32_t sign[] = {
		0, WEIR_DTYPE_I8, WEIR_DTYPE_I16, 0, WEIR_DTYPE_I32, 0, 0,
		0, WEIR_DTYPE_I64
	};
	static const uint32_t plain[] = {
		0, WEIR_DTYPE_U8, WEIR_DTYPE_U16, 0, WEIR_DTYPE_U32, 0, 0,
		0, WEIR_DTYPE_U64
	};

	if (!format)
		return WEIR_DTYPE_U8;
	if (*format == '<' || *format == '@' || *format == '=')
		format++;
	if (itemsize < 1 || itemsize > 8)
		return WEIR_DTYPE_NONE;
	if (!strcmp(format, "Zf"))
		return WEIR_DTYPE_C64;
	if (!*format || format[1])
		return WEIR_DTYPE_NONE;
	switch (*format) {
	case '?':
		return WEIR_DTYPE_BOOL;
	case 'e':
		return WEIR_DTYPE_F16;
	case 'f':
		return WEIR_DTYPE_F32;
	case 'd':
		return WEIR_DTYPE_F64;
	default:
		if (strchr("bhilq", *format))
			return sign[itemsize];
		return strchr("BHILQ", *format) ? plain[itemsize]
						: WEIR_DTYPE_NONE;
	}
}

static void describe(char *text, size_t size, uint32_t dtype, unsigned ndim,
		     const int64_t *shape)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	size_t at;

	(void)weir_dtype_info(dtype, &info);
	at = (size_t)snprintf(text, size, "%s [", info.name ? info.name : "?");
	for (unsigned i = 0; i < ndim && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, "%s%lld",
				       i ? ", " : "", (long long)shape[i]);
	if (at < size)
		snprintf(text + at, size - at, "]");
}

/* -1 with an exception unless @dtype and @shape are those of input @want. */
static int check(const struct weir_tensor *want, uint32_t dtype, unsigned ndim,
		 const int64_t *shape)
{
	char text[512], is[192], needs[192];

	if (dtype == want->dtype && ndim == want->ndim &&
	    !memcmp(shape, want->shape, ndim * sizeof(*shape)))
		return 0;
	describe(is, sizeof(is), dtype, ndim, shape);
	describe(needs, sizeof(needs), want->dtype, want->ndim, want->shape);
	snprintf(text, sizeof(text), "input '%s' is %s, the graph needs %s",
		 want->name ? want->name : "", is, needs);
	glue_fail_text(-EINVAL, text);
	return -1;
}

static int set_bytes(struct glue_run *self, const struct weir_node *node,
		     const void *data, size_t bytes)
{
	int r;

	if (bytes <= SMALL) {
		r = weir_run_input(self->copy->run, node, data, bytes);
	} else {
		Py_BEGIN_ALLOW_THREADS r =
			weir_run_input(self->copy->run, node, data, bytes);
		Py_END_ALLOW_THREADS
	}
	if (r < 0)
		glue_fail(r);
	return r < 0 ? -1 : 0;
}

static int set_view(struct glue_run *self, const struct weir_node *node,
		    const Py_buffer *view)
{
	int64_t shape[WEIR_MAX_DIMS] = { 0 };
	uint32_t dtype = format_dtype(view->format, view->itemsize);
	unsigned ndim = (unsigned)view->ndim;

	for (unsigned i = 0; i < ndim && i < WEIR_MAX_DIMS; i++)
		shape[i] = view->shape[i];
	if (check(weir_node_tensor(node), dtype,
		  ndim <= WEIR_MAX_DIMS ? ndim : WEIR_MAX_DIMS, shape) < 0)
		return -1;
	return set_bytes(self, node, view->buf, (size_t)view->len);
}

/* A tensor of the library is copied when it has arrived: the run waits. */
static int set_tensor(struct glue_run *self, const struct weir_node *node,
		      struct glue_tensor *tensor)
{
	struct weir_tensor t;
	int r;

	if (glue_memory_check(tensor->memory) < 0 ||
	    check(weir_node_tensor(node), tensor->dtype, (unsigned)tensor->ndim,
		  tensor->shape) < 0)
		return -1;
	if (!self->copy->keep)
		self->copy->keep = PyList_New(0);
	if (!self->copy->keep ||
	    PyList_Append(self->copy->keep, (PyObject *)tensor) < 0)
		return -1;
	r = glue_tensor_describe(tensor, &t);
	if (r >= 0)
		r = weir_run_input_tensor(self->copy->run, node, &t,
					  tensor->ready);
	if (r < 0)
		glue_fail(r);
	return r < 0 ? -1 : 0;
}

/* What is no buffer: DESCRIBE(name, value) returns a Spec. */
static int set_spec(struct glue_run *self, const struct weir_node *node,
		    PyObject *value, PyObject *spec_of)
{
	const struct weir_tensor *want = weir_node_tensor(node);
	unsigned long long address;
	int64_t shape[WEIR_MAX_DIMS];
	PyObject *spec, *dims, *owner;
	unsigned dtype, ndim;
	Py_ssize_t bytes;
	int r = -1;

	spec = PyObject_CallFunction(spec_of, "zO", want->name, value);
	if (!spec)
		return -1;
	if (PyArg_ParseTuple(spec, "KnIOO", &address, &bytes, &dtype, &dims,
			     &owner) &&
	    glue_numbers(dims, shape, &ndim) == 0 &&
	    check(want, dtype, ndim, shape) == 0)
		r = set_bytes(self, node, (void *)(uintptr_t)address,
			      (size_t)bytes);
	Py_DECREF(spec);
	return r;
}

static int set_input(struct glue_run *self, size_t i, PyObject *value,
		     PyObject *spec_of)
{
	const struct weir_node *node = self->plan->node[i];
	Py_buffer view;
	int r;

	if (PyObject_TypeCheck(value, glue_tensor_type))
		return set_tensor(self, node, (struct glue_tensor *)value);
	/* Without PyBUF_STRIDES only contiguous arrays are given. */
	if (PyObject_GetBuffer(value, &view, PyBUF_ND | PyBUF_FORMAT) < 0) {
		PyErr_Clear();
		return set_spec(self, node, value, spec_of);
	}
	if (format_dtype(view.format, view.itemsize) == WEIR_DTYPE_NONE)
		r = set_spec(self, node, value, spec_of);
	else
		r = set_view(self, node, &view);
	PyBuffer_Release(&view);
	return r;
}

static int set_inputs(struct glue_run *self, PyObject *values,
		      PyObject *spec_of)
{
	if ((size_t)PyTuple_Size(values) != self->plan->inputs) {
		glue_fail_text(-EINVAL, "another number of inputs");
		return -1;
	}
	Py_CLEAR(self->copy->keep);
	for (size_t i = 0; i < self->plan->inputs; i++)
		if (set_input(self, i, PyTuple_GetItem(values, (Py_ssize_t)i),
			      spec_of) < 0)
			return -1;
	return 0;
}

static int attempt(void *run, int64_t ns)
{
	return weir_run_wait(run, ns);
}

/* Wait until it has ended. Ctrl-C stops it. -1 with an exception. */
static int wait(struct glue_copy *copy, int64_t ns)
{
	int r = glue_wait(attempt, copy->run, ns);

	if (r == GLUE_INTERRUPTED) {
		weir_run_cancel(copy->run);
		return -1;
	}
	if (r != -ETIMEDOUT)
		copy->running = false;
	if (r < 0)
		glue_fail(r);
	return r < 0 ? -1 : 0;
}

/* The run before was cancelled, and may not have ended. */
static int wait_ending(struct glue_copy *copy)
{
	if (copy->running &&
	    glue_wait(attempt, copy->run, -1) == GLUE_INTERRUPTED)
		return -1;
	copy->running = false;
	return 0;
}

/* Begin, and wait for @ns. 1: it goes on. -1 with an exception. */
static int begin(struct glue_run *self, PyObject *values, PyObject *spec_of,
		 PyObject *streams, int64_t ns)
{
	struct glue_root *root = self->plan->graph->root;
	struct weir_run *run = self->copy->run;
	int r;

	if (!glue_root_of((PyObject *)root) || wait_ending(self->copy) < 0 ||
	    set_inputs(self, values, spec_of) < 0)
		return -1;
	glue_root_enter(root);
	self->copy->running = true;
	r = glue_graph_start(self->plan->graph, run, streams, ns);
	glue_root_leave(root);
	self->copy->running = r == -ETIMEDOUT;
	if (r == GLUE_INTERRUPTED)
		return -1;
	if (r == -ETIMEDOUT)
		return 1;
	if (r < 0)
		glue_fail(r);
	return r < 0 ? -1 : 0;
}

/* Memory for an output; the library's own comes in whole pages. */
static struct glue_memory *alloc(struct glue_plan *plan, size_t bytes)
{
	struct glue_memory *memory;
	struct weir_buf *buf;
	void *data;
	int r;

	if (!bytes || bytes > SMALL) {
		r = weir_buf_alloc(plan->buft, bytes, NULL, &buf);
	} else {
		data = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
		if (!data) {
			PyErr_NoMemory();
			return NULL;
		}
		r = weir_buf_wrap(plan->buft, data, bytes, free, data, &buf);
		if (r < 0)
			free(data);
	}
	if (r < 0) {
		glue_fail(r);
		return NULL;
	}
	memory = glue_memory_new(buf);
	weir_buf_free(buf);
	return memory;
}

/* Output @i as MAKER makes it: a contiguous copy. */
static PyObject *output(struct glue_run *self, size_t i,
			struct glue_maker *maker)
{
	struct glue_plan *plan = self->plan;
	struct glue_memory *memory;
	struct glue_tensor *tensor;
	PyObject *object = NULL;
	struct weir_tensor t;
	size_t bytes;
	int r;

	r = weir_run_output(self->copy->run, plan->node[plan->inputs + i], &t);
	if (r >= 0)
		r = weir_tensor_bytes(&t, &bytes);
	if (r < 0)
		return glue_fail(r);
	memory = alloc(plan, bytes);
	if (!memory)
		return NULL;
	if (bytes <= SMALL) {
		r = weir_tensor_get(&t, 0, memory->data, bytes);
	} else {
		Py_BEGIN_ALLOW_THREADS r =
			weir_tensor_get(&t, 0, memory->data, bytes);
		Py_END_ALLOW_THREADS
	}
	t.buf = NULL;
	t.offset = 0;
	tensor = r < 0 ? (struct glue_tensor *)glue_fail(r)
		       : glue_tensor_new(memory, &t);
	if (tensor)
		object = glue_make(maker, tensor);
	Py_XDECREF(tensor);
	Py_DECREF(memory);
	return object;
}

static PyObject *outputs(struct glue_run *self, struct glue_maker *maker)
{
	Py_ssize_t n = (Py_ssize_t)self->plan->outputs;
	PyObject *item, *tuple = PyTuple_New(n);

	if (!glue_root_of((PyObject *)self->plan->graph->root))
		Py_CLEAR(tuple);
	for (Py_ssize_t i = 0; tuple && i < n; i++) {
		item = output(self, (size_t)i, maker);
		/* Steals the reference. */
		if (!item || PyTuple_SetItem(tuple, i, item) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

PyObject *glue_plan_compute(PyObject *o, PyObject *args)
{
	PyObject *values, *spec_of, *maker, *streams, *results = NULL;
	struct glue_run *run;
	int r;

	if (!PyArg_ParseTuple(args, "O!OO!O!:compute", &PyTuple_Type, &values,
			      &spec_of, glue_maker_type, &maker, &PyTuple_Type,
			      &streams))
		return NULL;
	run = run_new((struct glue_plan *)o, true);
	if (!run)
		return NULL;
	r = begin(run, values, spec_of, streams, SHORT_NS);
	if (r > 0)
		r = wait(run->copy, -1);
	if (r >= 0)
		results = outputs(run, (struct glue_maker *)maker);
	Py_DECREF(run);
	return results;
}

PyObject *glue_plan_start(PyObject *o, PyObject *args)
{
	PyObject *values, *spec_of, *streams;
	struct glue_run *run;

	if (!PyArg_ParseTuple(args, "O!OO!:start", &PyTuple_Type, &values,
			      &spec_of, &PyTuple_Type, &streams))
		return NULL;
	run = run_new((struct glue_plan *)o, false);
	if (run && begin(run, values, spec_of, streams, 0) < 0)
		Py_CLEAR(run);
	return (PyObject *)run;
}

static PyObject *run_wait(PyObject *o, PyObject *args)
{
	struct glue_run *self = (struct glue_run *)o;
	double seconds = -1;
	int r = 0;

	if (!PyArg_ParseTuple(args, "|d:wait", &seconds))
		return NULL;
	if (enter(self))
		r = wait(self->copy, seconds < 0 || seconds > 1e9
					     ? -1
					     : (int64_t)(seconds * 1e9));
	leave(self);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *run_outputs(PyObject *o, PyObject *maker)
{
	struct glue_run *self = (struct glue_run *)o;
	PyObject *results = NULL;

	if (!PyObject_TypeCheck(maker, glue_maker_type)) {
		PyErr_SetString(PyExc_TypeError, "not a Maker");
		return NULL;
	}
	if (enter(self))
		results = outputs(self, (struct glue_maker *)maker);
	else
		glue_fail_text(-EBADF, "the run was released");
	leave(self);
	return results;
}

static PyObject *run_cancel(PyObject *o, PyObject *unused)
{
	struct glue_run *self = (struct glue_run *)o;

	(void)unused;
	if (self->copy)
		weir_run_cancel(self->copy->run);
	Py_RETURN_NONE;
}

static PyObject *run_release(PyObject *self, PyObject *unused)
{
	(void)unused;
	release((struct glue_run *)self);
	Py_RETURN_NONE;
}

static PyObject *run_fileno(PyObject *o, PyObject *unused)
{
	struct glue_run *self = (struct glue_run *)o;
	struct glue_root *root = self->plan->graph->root;
	struct glue_copy *copy = self->copy;
	int r = 0;

	(void)unused;
	if (!glue_root_of((PyObject *)root))
		return NULL;
	if (!copy)
		Py_RETURN_NONE;
	if (!copy->end)
		r = weir_event_new(root->weir, 0, &copy->end);
	if (r >= 0)
		r = weir_run_record(copy->run, copy->end);
	if (r >= 0)
		r = weir_event_fd(copy->end);
	return r < 0 ? glue_fail(r) : PyLong_FromLong(r);
}

static PyObject *run_report(PyObject *o, PyObject *unused)
{
	struct weir_run_report p = { .size = sizeof(p) };
	struct glue_copy *copy = ((struct glue_run *)o)->copy;
	int r;

	(void)unused;
	if (!copy)
		Py_RETURN_NONE;
	r = weir_run_report(copy->run, &p);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:K,s:K,s:K,s:O}", "total",
			     (double)p.total_ns / 1e9, "queued",
			     (double)p.queued_ns / 1e9, "wait",
			     (double)p.wait_ns / 1e9, "compute",
			     (double)p.compute_ns / 1e9, "prefetch_wait",
			     (double)p.prefetch_wait_ns / 1e9, "nodes",
			     (unsigned long long)p.nodes, "kept",
			     (unsigned long long)p.kept, "prefetched",
			     (unsigned long long)p.prefetched, "running",
			     p.running ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
	{ "wait", run_wait, METH_VARARGS,
	  "wait(seconds=-1): block until it has ended." },
	{ "outputs", run_outputs, METH_O,
	  "outputs(maker): copies of the outputs, a tuple." },
	{ "cancel", run_cancel, METH_NOARGS, "No further operation begins." },
	{ "release", run_release, METH_NOARGS,
	  "Return its copy to the plan, when the last call has ended." },
	{ "fileno", run_fileno, METH_NOARGS,
	  "A descriptor that is readable when it has ended, or None if it was "
	  "released." },
	{ "report", run_report, METH_NOARGS,
	  "Times and counts: a dictionary, or None if it was released." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "A run of a plan; dropping it cancels it." },
	{ Py_tp_new, glue_not_made },
	{ Py_tp_dealloc, run_dealloc },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Run",
	.basicsize = sizeof(struct glue_run),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_run_init(PyObject *module)
{
	glue_run_type = glue_type(module, "Run", &spec);
	return glue_run_type ? 0 : -1;
}
