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

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct glue_run *self;
	PyObject *plan;
	int r;

	(void)kw;
	if (!PyArg_ParseTuple(args, "O!:Run", glue_plan_type, &plan))
		return NULL;
	self = (struct glue_run *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	Py_INCREF(plan);
	self->plan = (struct glue_plan *)plan;
	r = weir_run_new(self->plan->exec, &self->run);
	if (r < 0) {
		glue_fail(r);
		Py_CLEAR(self);
	}
	return (PyObject *)self;
}

static void run_dealloc(PyObject *o)
{
	struct glue_run *self = (struct glue_run *)o;

	weir_event_free(self->end);
	weir_run_free(self->run);
	Py_XDECREF(self->keep);
	Py_XDECREF(self->plan);
	glue_free(o);
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
		r = weir_run_input(self->run, node, data, bytes);
	} else {
		Py_BEGIN_ALLOW_THREADS r =
			weir_run_input(self->run, node, data, bytes);
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
	if (!self->keep)
		self->keep = PyList_New(0);
	if (!self->keep || PyList_Append(self->keep, (PyObject *)tensor) < 0)
		return -1;
	r = glue_tensor_describe(tensor, &t);
	if (r >= 0)
		r = weir_run_input_tensor(self->run, node, &t, tensor->ready);
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
	Py_CLEAR(self->keep);
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

/* No further operation begins; the next start waits for the current one. */
static void stop(struct glue_run *self)
{
	weir_run_cancel(self->run);
	self->ending = true;
}

/* Ctrl-C stops the run. */
static int wait(struct glue_run *self, int64_t ns)
{
	int r = glue_wait(attempt, self->run, ns);

	if (r == GLUE_INTERRUPTED)
		stop(self);
	else if (r < 0)
		glue_fail(r);
	return r < 0 || r == GLUE_INTERRUPTED ? -1 : 0;
}

static int wait_ending(struct glue_run *self)
{
	if (!self->ending)
		return 0;
	if (glue_wait(attempt, self->run, -1) == GLUE_INTERRUPTED)
		return -1;
	self->ending = false;
	return 0;
}

/* Begin, and wait for @ns. 1: it goes on. -1 with an exception. */
static int begin(struct glue_run *self, PyObject *values, PyObject *spec_of,
		 int64_t ns)
{
	struct glue_root *root = self->plan->graph->root;
	int r;

	if (!glue_root_of((PyObject *)root) || wait_ending(self) < 0 ||
	    set_inputs(self, values, spec_of) < 0)
		return -1;
	glue_root_enter(root);
	Py_BEGIN_ALLOW_THREADS r = weir_run_start(self->run);
	if (r == 0)
		r = weir_run_wait(self->run, ns);
	Py_END_ALLOW_THREADS glue_root_leave(root);
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

	r = weir_run_output(self->run, plan->node[plan->inputs + i], &t);
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

/* compute(inputs, describe, maker): start, wait, and the outputs. */
static PyObject *run_compute(PyObject *o, PyObject *args)
{
	struct glue_run *self = (struct glue_run *)o;
	PyObject *values, *spec_of, *maker;
	int r;

	if (!PyArg_ParseTuple(args, "O!OO!:compute", &PyTuple_Type, &values,
			      &spec_of, glue_maker_type, &maker))
		return NULL;
	r = begin(self, values, spec_of, SHORT_NS);
	if (r > 0)
		r = wait(self, -1);
	return r < 0 ? NULL : outputs(self, (struct glue_maker *)maker);
}

static PyObject *run_start(PyObject *o, PyObject *args)
{
	PyObject *values, *spec_of;

	if (!PyArg_ParseTuple(args, "O!O:start", &PyTuple_Type, &values,
			      &spec_of) ||
	    begin((struct glue_run *)o, values, spec_of, 0) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *run_wait(PyObject *o, PyObject *args)
{
	double seconds = -1;

	if (!PyArg_ParseTuple(args, "|d:wait", &seconds) ||
	    wait((struct glue_run *)o,
		 seconds < 0 || seconds > 1e9 ? -1 : (int64_t)(seconds * 1e9)) <
		    0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *run_outputs(PyObject *o, PyObject *maker)
{
	if (!PyObject_TypeCheck(maker, glue_maker_type)) {
		PyErr_SetString(PyExc_TypeError, "not a Maker");
		return NULL;
	}
	return outputs((struct glue_run *)o, (struct glue_maker *)maker);
}

static PyObject *run_cancel(PyObject *o, PyObject *unused)
{
	(void)unused;
	stop((struct glue_run *)o);
	Py_RETURN_NONE;
}

static PyObject *run_fileno(PyObject *o, PyObject *unused)
{
	struct glue_run *self = (struct glue_run *)o;
	int r = 0;

	(void)unused;
	if (!glue_root_of((PyObject *)self->plan->graph->root))
		return NULL;
	if (!self->end)
		r = weir_event_new(self->plan->graph->root->weir, 0,
				   &self->end);
	if (r >= 0)
		r = weir_run_record(self->run, self->end);
	if (r >= 0)
		r = weir_event_fd(self->end);
	return r < 0 ? glue_fail(r) : PyLong_FromLong(r);
}

static PyObject *run_report(PyObject *o, PyObject *unused)
{
	struct weir_run_report p = { .size = sizeof(p) };
	int r = weir_run_report(((struct glue_run *)o)->run, &p);

	(void)unused;
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
	{ "compute", run_compute, METH_VARARGS,
	  "compute(inputs, describe, maker): start, wait, and the outputs." },
	{ "start", run_start, METH_VARARGS,
	  "start(inputs, describe): copy the inputs and begin." },
	{ "wait", run_wait, METH_VARARGS,
	  "wait(seconds=-1): block until it has ended." },
	{ "outputs", run_outputs, METH_O,
	  "outputs(maker): copies of the outputs, a tuple." },
	{ "cancel", run_cancel, METH_NOARGS, "No further operation begins." },
	{ "fileno", run_fileno, METH_NOARGS,
	  "A descriptor that is readable when it has ended." },
	{ "report", run_report, METH_NOARGS,
	  "Times and counts of its last start: a dictionary." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "One execution after another of a plan." },
	{ Py_tp_new, run_new },
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
