/* SPDX-License-Identifier: MIT */
/* Graphs: nodes are numbers here, and operations come from weir_op_info(). */
#include "glue.h"
#include "dlpack.h"

PyTypeObject *glue_graph_type;

/* The most bytes of parameters of an operation, and its most sources. */
#define PARAMS 512
#define SOURCES 64

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	struct glue_graph *self;
	PyObject *owner;
	int r;

	(void)kw;
	if (!PyArg_ParseTuple(args, "O:Graph", &owner) || !glue_root_of(owner))
		return NULL;
	self = (struct glue_graph *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	Py_INCREF(owner);
	self->root = (struct glue_root *)owner;
	pthread_mutex_init(&self->starting, NULL);
	self->keep = PyList_New(0);
	r = weir_graph_new(&self->graph);
	if (r < 0)
		glue_fail(r);
	if (r < 0 || !self->keep)
		Py_CLEAR(self);
	return (PyObject *)self;
}

static void graph_dealloc(PyObject *o)
{
	struct glue_graph *self = (struct glue_graph *)o;

	weir_graph_free(self->graph);
	for (unsigned i = 0; i < GLUE_CUDA_MAX; i++)
		weir_event_free(self->order[i].event);
	pthread_mutex_destroy(&self->starting);
	Py_XDECREF(self->keep);
	Py_XDECREF(self->root);
	glue_free(o);
}

/*
 * The number of a new node. A failure becomes an exception, and the graph goes
 * on without it.
 */
static PyObject *number(struct glue_graph *self, struct weir_node *node)
{
	int r;

	if (node)
		return PyLong_FromSize_t(weir_graph_count(self->graph) - 1);
	r = weir_graph_error(self->graph, NULL);
	glue_fail(r);
	weir_graph_clear_error(self->graph);
	return NULL;
}

int glue_graph_check(const struct glue_graph *self)
{
	if (!self->busy)
		return 0;
	glue_fail_text(-EBUSY, "another thread compiles the graph");
	return -1;
}

struct weir_node *glue_graph_node(struct glue_graph *self, PyObject *i)
{
	size_t at = PyLong_AsSize_t(i);
	struct weir_node *node;

	if (PyErr_Occurred())
		return NULL;
	node = weir_graph_node(self->graph, at);
	if (!node)
		PyErr_SetString(PyExc_IndexError, "the graph has no such node");
	return node;
}

/*
 * Find the event that a leaf in @memory waits for: that of the device; NULL in
 * host memory. An event that was never recorded is done. Returns 0, or -1 with
 * an exception.
 */
static int find_order(struct glue_graph *self, const struct glue_memory *memory,
		      struct weir_event **ret_event)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	struct weir_buft_info buft = { .size = sizeof(buft) };
	struct glue_order *order;
	int r = 0;

	*ret_event = NULL;
	if (memory->device_type != DLPACK_CUDA || memory->device_id < 0 ||
	    memory->device_id >= GLUE_CUDA_MAX)
		return 0;
	order = &self->order[memory->device_id];
	if (!order->event) {
		r = weir_buf_info(memory->buf, &info);
		if (r >= 0)
			r = weir_buft_info(info.buft, &buft);
		if (r >= 0)
			r = weir_event_new(self->root->weir, 0, &order->event);
		order->dev = buft.dev;
	}
	*ret_event = order->event;
	if (r < 0)
		glue_fail(r);
	return r < 0 ? -1 : 0;
}

/* Let leaves of a device wait for what is queued in a stream. */
static int record(const struct glue_order *order, uintptr_t native)
{
	struct weir_stream *stream;
	int r = weir_cuda_stream_wrap(order->dev, (struct CUstream_st *)native,
				      &stream);

	if (r < 0)
		return r;
	r = weir_stream_record(stream, order->event);
	weir_stream_free(stream);
	return r;
}

int glue_graph_start(struct glue_graph *self, struct weir_run *run,
		     PyObject *streams, int64_t wait_ns)
{
	uintptr_t native[GLUE_CUDA_MAX];
	bool wanted[GLUE_CUDA_MAX] = { false };
	Py_ssize_t n = PyTuple_Size(streams);
	unsigned long long number;
	unsigned device;
	int r = 0;

	for (Py_ssize_t i = 0; i < n; i++) {
		if (!PyArg_ParseTuple(PyTuple_GetItem(streams, i), "IK:stream",
				      &device, &number))
			return GLUE_INTERRUPTED;
		if (device < GLUE_CUDA_MAX && self->order[device].event) {
			wanted[device] = true;
			native[device] = (uintptr_t)number;
		}
	}
	Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&self->starting);
	for (unsigned i = 0; n && i < GLUE_CUDA_MAX && r >= 0; i++)
		if (wanted[i])
			r = record(&self->order[i], native[i]);
	if (r >= 0)
		r = weir_run_start(run);
	pthread_mutex_unlock(&self->starting);
	if (r >= 0)
		r = weir_run_wait(run, wait_ns);
	Py_END_ALLOW_THREADS return r;
}

/* A leaf in @buf, which the graph keeps, with the object @keep. */
static PyObject *leaf(struct glue_graph *self, const struct weir_tensor *t,
		      struct weir_event *event, PyObject *keep)
{
	PyObject *result;

	if (glue_graph_check(self) < 0)
		return NULL;
	result = number(self, weir_graph_leaf(self->graph, t, event));
	if (result && PyList_Append(self->keep, keep) < 0)
		Py_CLEAR(result);
	return result;
}

/*
 * leaf(name, device, (address, dtype, shape, strides or None, owner)): memory
 * of the program.
 */
static PyObject *graph_leaf(PyObject *o, PyObject *args)
{
	struct glue_graph *self = (struct glue_graph *)o;
	PyObject *place, *memory, *result = NULL;
	struct weir_event *event;
	const char *name, *device;
	struct weir_buft *buft;
	struct weir_buf *buf;
	struct weir_tensor t;

	if (!PyArg_ParseTuple(args, "zzO!:leaf", &name, &device, &PyTuple_Type,
			      &place) ||
	    !glue_root_of((PyObject *)self->root))
		return NULL;
	glue_owners_drop();
	buft = glue_buft(self->root, device, WEIR_MEM_DEVICE);
	if (!buft || glue_place(buft, place, &t, &buf) < 0)
		return NULL;
	memory = (PyObject *)glue_memory_new(buf);
	weir_buf_free(buf);
	t.name = name;
	if (memory &&
	    find_order(self, (struct glue_memory *)memory, &event) >= 0)
		result = leaf(self, &t, event, memory);
	Py_XDECREF(memory);
	return result;
}

/* leaf_tensor(name, tensor): a tensor of the library, which may still come. */
static PyObject *graph_leaf_tensor(PyObject *o, PyObject *args)
{
	struct glue_graph *self = (struct glue_graph *)o;
	struct glue_tensor *tensor;
	struct weir_event *event;
	struct weir_tensor t;
	const char *name;
	PyObject *source;
	int r;

	if (!PyArg_ParseTuple(args, "zO!:leaf_tensor", &name, glue_tensor_type,
			      &source))
		return NULL;
	tensor = (struct glue_tensor *)source;
	if (glue_memory_check(tensor->memory) < 0)
		return NULL;
	r = glue_tensor_describe(tensor, &t);
	if (r < 0)
		return glue_fail(r);
	t.name = name;
	event = tensor->arrived ? NULL : tensor->ready;
	if (!event && find_order(self, tensor->memory, &event) < 0)
		return NULL;
	return leaf(self, &t, event, source);
}

/* leaf_file(name, model, i): tensor i of a model, which runs read. */
static PyObject *graph_leaf_file(PyObject *o, PyObject *args)
{
	struct weir_entry e = { .size = sizeof(e) };
	struct glue_graph *self = (struct glue_graph *)o;
	struct weir_model *model;
	struct weir_node *node;
	struct weir_tensor t;
	PyObject *source, *result;
	const char *name;
	Py_ssize_t i;
	int r;

	if (!PyArg_ParseTuple(args, "zO!n:leaf_file", &name, glue_model_type,
			      &source, &i))
		return NULL;
	model = glue_model_of((struct glue_model *)source);
	if (!model || glue_graph_check(self) < 0)
		return NULL;
	r = weir_model_tensor(model, (size_t)i, &e);
	if (r >= 0)
		r = weir_tensor_init(&t, e.dtype, e.ndim, e.shape);
	if (r < 0)
		return glue_fail(r);
	t.name = name;
	node = weir_graph_leaf_file(self->graph, &t,
				    weir_model_file(model, e.shard), e.offset);
	result = number(self, node);
	if (result && PyList_Append(self->keep, source) < 0)
		Py_CLEAR(result);
	return result;
}

static PyObject *graph_input(PyObject *o, PyObject *args)
{
	struct glue_graph *self = (struct glue_graph *)o;
	int64_t shape[WEIR_MAX_DIMS];
	unsigned dtype, ndim;
	const char *name;
	PyObject *dims;

	if (!PyArg_ParseTuple(args, "zIO:input", &name, &dtype, &dims) ||
	    glue_numbers(dims, shape, &ndim) < 0 || glue_graph_check(self) < 0)
		return NULL;
	return number(self,
		      weir_graph_input(self->graph, name, dtype, ndim, shape));
}

/* op(number, parameters, sources, name): the bytes of a struct weir_op_*. */
static PyObject *graph_op(PyObject *o, PyObject *args)
{
	_Alignas(8) unsigned char params[PARAMS];
	struct weir_node *node, *src[SOURCES];
	struct glue_graph *self = (struct glue_graph *)o;
	const char *bytes, *name;
	PyObject *list, *item;
	Py_ssize_t size, n;
	int op;

	if (!PyArg_ParseTuple(args, "iy#O!z:op", &op, &bytes, &size,
			      &PyTuple_Type, &list, &name) ||
	    glue_graph_check(self) < 0)
		return NULL;
	n = PyTuple_Size(list);
	if (n > SOURCES || size > PARAMS)
		return glue_fail_text(-E2BIG, "more than 64 sources");
	memcpy(params, bytes, (size_t)size);
	for (Py_ssize_t i = 0; i < n; i++) {
		item = PyTuple_GetItem(list, i);
		src[i] = item == Py_None ? NULL : glue_graph_node(self, item);
		if (!src[i] && item != Py_None)
			return NULL;
	}
	node = weir_graph_op(self->graph, (enum weir_op)op,
			     size ? params : NULL, (size_t)size, src,
			     (unsigned)n);
	if (node && name)
		node = weir_node_set_name(node, name);
	return number(self, node);
}

/* What @mark does to node @i: it may refuse. */
static PyObject *mark(PyObject *o, PyObject *i,
		      struct weir_node *(*set)(struct weir_graph *g,
					       struct weir_node *node))
{
	struct glue_graph *self = (struct glue_graph *)o;
	struct weir_node *node = glue_graph_node(self, i);

	if (!node || glue_graph_check(self) < 0)
		return NULL;
	if (!set(self->graph, node))
		return number(self, NULL);
	Py_RETURN_NONE;
}

static PyObject *graph_output(PyObject *self, PyObject *i)
{
	return mark(self, i, weir_graph_output);
}

static PyObject *graph_unmark(PyObject *self, PyObject *i)
{
	return mark(self, i, weir_graph_unmark);
}

static PyObject *graph_constant(PyObject *self, PyObject *i)
{
	return mark(self, i, weir_graph_constant);
}

static bool contiguous(const struct weir_tensor *t)
{
	struct weir_tensor plain;

	return weir_tensor_init(&plain, t->dtype, t->ndim, t->shape) >= 0 &&
	       !memcmp(plain.stride, t->stride, t->ndim * sizeof(*t->stride));
}

/* node(i): (operation, name, dtype, shape, contiguous). */
static PyObject *graph_node(PyObject *o, PyObject *i)
{
	struct weir_node_info info = { .size = sizeof(info) };
	struct weir_node *node = glue_graph_node((struct glue_graph *)o, i);
	const struct weir_tensor *t = weir_node_tensor(node);
	int r;

	if (!node)
		return NULL;
	r = weir_node_info(node, &info);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue("szINi", info.op_name, t->name, t->dtype,
			     glue_shape_tuple(t->shape, t->ndim),
			     contiguous(t));
}

static Py_ssize_t graph_length(PyObject *self)
{
	return (Py_ssize_t)weir_graph_count(((struct glue_graph *)self)->graph);
}

/* A list of the strings of @words, whose end is NULL; None: there are none. */
static PyObject *strings(const char *const *words, unsigned most)
{
	PyObject *list, *word;
	int r = 0;

	if (!words)
		Py_RETURN_NONE;
	list = PyList_New(0);
	for (unsigned i = 0; list && i < most && words[i]; i++) {
		word = PyUnicode_FromString(words[i]);
		r = word ? PyList_Append(list, word) : -1;
		Py_XDECREF(word);
		if (r < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyObject *parameters(const struct weir_op_param *p)
{
	PyObject *item, *list = PyList_New(0);
	int r;

	for (; list && p->name; p++) {
		item = Py_BuildValue("sIIN", p->name, p->type, p->offset,
				     strings(p->words, UINT32_MAX));
		r = item ? PyList_Append(list, item) : -1;
		Py_XDECREF(item);
		if (r < 0)
			Py_CLEAR(list);
	}
	return list;
}

PyObject *glue_operations(PyObject *module, PyObject *unused)
{
	struct weir_op_info info = { .size = sizeof(info) };
	PyObject *item, *list = PyList_New(0);
	int r;

	(void)module;
	(void)unused;
	for (int op = 0; list && weir_op_info(op, &info) == 0; op++) {
		item = Py_BuildValue("issNIiIN", op, info.name, info.summary,
				     strings(info.source, WEIR_OP_SOURCES),
				     info.required, info.any != 0,
				     info.params_size, parameters(info.params));
		r = item ? PyList_Append(list, item) : -1;
		Py_XDECREF(item);
		if (r < 0)
			Py_CLEAR(list);
	}
	return list;
}

static PyMethodDef methods[] = {
	{ "leaf", graph_leaf, METH_VARARGS,
	  "leaf(name, device, (address, dtype, shape, strides, owner)): a node "
	  "for memory of the program." },
	{ "leaf_tensor", graph_leaf_tensor, METH_VARARGS,
	  "leaf_tensor(name, tensor): a node for a tensor of the library." },
	{ "leaf_file", graph_leaf_file, METH_VARARGS,
	  "leaf_file(name, model, i): a node for a tensor that runs read." },
	{ "input", graph_input, METH_VARARGS,
	  "input(name, dtype, shape): a node that each run gets." },
	{ "op", graph_op, METH_VARARGS,
	  "op(number, parameters, sources, name): a node of an operation." },
	{ "output", graph_output, METH_O, "output(i): runs return node i." },
	{ "unmark", graph_unmark, METH_O, "unmark(i): they do not." },
	{ "constant", graph_constant, METH_O,
	  "constant(i): the bytes of leaf i do not change." },
	{ "node", graph_node, METH_O,
	  "node(i): (operation, name, dtype, shape, contiguous)." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "A graph of operations; its nodes are numbers." },
	{ Py_tp_new, graph_new },
	{ Py_tp_dealloc, graph_dealloc },
	{ Py_tp_methods, methods },
	{ Py_sq_length, graph_length },
	{ 0, NULL },
};

static PyType_Spec spec = {
	.name = "weir._weir.Graph",
	.basicsize = sizeof(struct glue_graph),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};

int glue_graph_init(PyObject *module)
{
	glue_graph_type = glue_type(module, "Graph", &spec);
	return glue_graph_type ? 0 : -1;
}
