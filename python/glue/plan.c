/* SPDX-License-Identifier: MIT */
/* Plans: a scheduler with one executable graph, in the library's terms. */
#include "glue.h"
#include <stdlib.h>

PyTypeObject *glue_plan_type;

#define DEVICES 64

/* What Plan() was given. */
struct wish {
	struct weir_dev *dev[DEVICES];
	uint64_t weights[DEVICES];
	unsigned n;
	struct weir_sched_opts opts;
};

static struct weir_dev *device(struct weir *weir, const char *name, int *ret)
{
	struct weir_dev *dev = NULL;

	if (!strcmp(name, "CPU"))
		dev = weir_dev_get(weir, 0);
	else
		*ret = weir_dev_configure(weir, name, &dev);
	return dev;
}

/* The devices of @list, (name, bytes for weights). The root is entered. */
static int find_devices(struct weir *weir, PyObject *list, struct wish *wish)
{
	Py_ssize_t n = PyTuple_Size(list);
	unsigned long long weights;
	const char *name;
	int r = 0;

	if (n > DEVICES) {
		glue_fail_text(-EINVAL, "more than 64 devices");
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		if (!PyArg_ParseTuple(PyTuple_GetItem(list, i), "sK:device",
				      &name, &weights))
			return -1;
		/* The first call for another device than the CPU blocks. */
		Py_BEGIN_ALLOW_THREADS wish->dev[i] = device(weir, name, &r);
		Py_END_ALLOW_THREADS if (r < 0)
		{
			glue_fail(r);
			return -1;
		}
		wish->weights[i] = weights;
	}
	wish->n = (unsigned)n;
	wish->opts.weights = wish->weights;
	return 0;
}

static int compile(struct glue_plan *self, struct weir *weir,
		   const struct wish *wish)
{
	const struct weir_graph *g = self->graph->graph;
	int r;

	self->graph->busy++;
	Py_BEGIN_ALLOW_THREADS r =
		weir_sched_new(wish->dev, wish->n, &wish->opts, &self->sched);
	if (r >= 0)
		r = weir_exec_new(self->sched, g, &self->exec);
	if (r >= 0)
		r = weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_PLAIN,
				  &self->buft);
	if (r >= 0)
		r = glue_copies_new(self, wish->opts.copies);
	Py_END_ALLOW_THREADS self->graph->busy--;
	if (r < 0)
		glue_fail(r);
	return r < 0 ? -1 : 0;
}

/* Drop the inputs that no output needs: a run does not take them. */
static int drop_unused(struct glue_plan *self)
{
	struct weir_node_place place = { .size = sizeof(place) };
	struct weir_node_info info = { .size = sizeof(info) };
	size_t n = 0;

	for (size_t i = 0; i < self->inputs; i++) {
		int r = weir_node_info(self->node[i], &info);

		if (r >= 0)
			r = weir_exec_explain(self->exec, info.index, &place);
		if (r < 0) {
			glue_fail(r);
			return -1;
		}
		if (place.needed)
			self->node[n++] = self->node[i];
	}
	memmove(self->node + n, self->node + self->inputs,
		self->outputs * sizeof(*self->node));
	self->inputs = n;
	return 0;
}

/* Adds the nodes of @list after the first @at. */
static int add_nodes(struct glue_plan *self, PyObject *list, size_t at)
{
	Py_ssize_t n = PyTuple_Size(list);

	for (Py_ssize_t i = 0; i < n; i++) {
		self->node[at] =
			glue_graph_node(self->graph, PyTuple_GetItem(list, i));
		if (!self->node[at++])
			return -1;
	}
	return 0;
}

static int set_nodes(struct glue_plan *self, PyObject *inputs,
		     PyObject *outputs)
{
	self->inputs = (size_t)PyTuple_Size(inputs);
	self->outputs = (size_t)PyTuple_Size(outputs);
	self->node =
		calloc(self->inputs + self->outputs + 1, sizeof(*self->node));
	if (!self->node) {
		PyErr_NoMemory();
		return -1;
	}
	if (add_nodes(self, inputs, 0) < 0)
		return -1;
	return add_nodes(self, outputs, self->inputs);
}

/*
 * Plan(graph, ((device, bytes for weights), ...), inputs, outputs, copies,
 * budget)
 */
static PyObject *plan_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct wish wish = { .opts = WEIR_SCHED_OPTS_INIT };
	PyObject *source, *devices, *inputs, *outputs;
	unsigned long long budget;
	struct glue_root *root;
	struct glue_plan *self;
	struct weir *weir;
	int r;

	(void)kw;
	if (!PyArg_ParseTuple(args, "O!O!O!O!IK:Plan", glue_graph_type, &source,
			      &PyTuple_Type, &devices, &PyTuple_Type, &inputs,
			      &PyTuple_Type, &outputs, &wish.opts.copies,
			      &budget))
		return NULL;
	wish.opts.budget = budget;
	root = glue_root_of((PyObject *)((struct glue_graph *)source)->root);
	if (!root)
		return NULL;
	self = (struct glue_plan *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	Py_INCREF(source);
	self->graph = (struct glue_graph *)source;
	self->keep = PyList_AsTuple(self->graph->keep);
	r = self->keep ? set_nodes(self, inputs, outputs) : -1;
	weir = glue_root_enter(root);
	if (r == 0)
		r = find_devices(weir, devices, &wish);
	if (r == 0)
		r = compile(self, weir, &wish);
	if (r == 0)
		r = drop_unused(self);
	glue_root_leave(root);
	if (r < 0)
		Py_CLEAR(self);
	return (PyObject *)self;
}

static void plan_dealloc(PyObject *o)
{
	struct glue_plan *self = (struct glue_plan *)o;

	glue_copies_free(self);
	sem_destroy(&self->free);
	Py_BEGIN_ALLOW_THREADS weir_exec_free(self->exec);
	weir_sched_free(self->sched);
	Py_END_ALLOW_THREADS free(self->node);
	Py_XDECREF(self->keep);
	Py_XDECREF(self->graph);
	glue_free(o);
}

static PyObject *plan_info(PyObject *o, PyObject *unused)
{
	struct weir_exec_info e = { .size = sizeof(e) };
	int r = weir_exec_info(((struct glue_plan *)o)->exec, &e);

	(void)unused;
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue(
		"{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:I,s:I,s:K}",
		"bytes", (unsigned long long)e.bytes, "results",
		(unsigned long long)e.results, "inputs",
		(unsigned long long)e.inputs, "workspace",
		(unsigned long long)e.workspace, "leaves",
		(unsigned long long)e.leaves, "kept",
		(unsigned long long)e.kept, "prefetched",
		(unsigned long long)e.prefetched, "prefetch_buffer",
		(unsigned long long)e.prefetch_buffer, "nodes",
		(unsigned long long)e.nodes, "computed",
		(unsigned long long)e.computed, "in_place",
		(unsigned long long)e.in_place, "splits", e.splits, "copies",
		e.copies, "transfer_bytes",
		(unsigned long long)e.transfer_bytes);
}

/* explain(i): (device or None, where, why, cause, bytes) of node i. */
static PyObject *plan_explain(PyObject *o, PyObject *arg)
{
	struct weir_node_place place = { .size = sizeof(place) };
	struct weir_dev_info dev = { .size = sizeof(dev) };
	struct glue_plan *self = (struct glue_plan *)o;
	size_t i = PyLong_AsSize_t(arg);
	int r;

	if (PyErr_Occurred())
		return NULL;
	r = weir_exec_explain(self->exec, i, &place);
	if (r >= 0 && place.dev)
		r = weir_dev_info(place.dev, &dev);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue("zIIIK", place.dev ? dev.name : NULL, place.where,
			     place.why, place.cause,
			     (unsigned long long)place.bytes);
}

static PyObject *plan_close(PyObject *o, PyObject *unused)
{
	struct glue_plan *self = (struct glue_plan *)o;

	(void)unused;
	if (!self->closed)
		sem_post(&self->free);
	self->closed = true;
	Py_RETURN_NONE;
}

/* The numbers of the inputs that a run takes. */
static PyObject *plan_inputs(PyObject *o, PyObject *unused)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct glue_plan *self = (struct glue_plan *)o;
	PyObject *tuple = PyTuple_New((Py_ssize_t)self->inputs);
	PyObject *item;

	(void)unused;
	for (size_t i = 0; tuple && i < self->inputs; i++) {
		item = weir_node_info(self->node[i], &info) < 0
			       ? NULL
			       : PyLong_FromUnsignedLongLong(info.index);
		if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyMethodDef methods[] = {
	{ "compute", glue_plan_compute, METH_VARARGS,
	  "compute(inputs, describe, maker, streams): wait for a copy, run, and "
	  "return copies of the outputs, a tuple. STREAMS: (number of a CUDA "
	  "device, CUstream), after whose work the run begins." },
	{ "start", glue_plan_start, METH_VARARGS,
	  "start(inputs, describe, streams): a Run, which has begun, with a free copy." },
	{ "close", plan_close, METH_NOARGS, "Give out no more copies." },
	{ "inputs", plan_inputs, METH_NOARGS,
	  "The numbers of the nodes that a run is given." },
	{ "info", plan_info, METH_NOARGS,
	  "The plan in numbers: a dictionary." },
	{ "explain", plan_explain, METH_O,
	  "explain(i): (device or None, where, why, cause, bytes) of node i." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "An executable graph." },
	{ Py_tp_new, plan_new },
	{ Py_tp_dealloc, plan_dealloc },
	{ Py_tp_methods, methods },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Plan",
	.basicsize = sizeof(struct glue_plan),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_plan_init(PyObject *module)
{
	glue_plan_type = glue_type(module, "Plan", &spec);
	return glue_plan_type ? 0 : -1;
}
