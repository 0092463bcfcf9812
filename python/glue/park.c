/* SPDX-License-Identifier: MIT */
/* Parking: the tensors of a load leave their memory, and come back to it. */
#include "glue.h"
#include <stdlib.h>

static void set_parked(struct glue_load *self, bool parked)
{
	self->parked = parked;
	for (size_t i = 0; i < self->memories; i++)
		self->memory[i]->parked = parked;
}

/* The numbers in the sequence @list. */
static int read_changed(PyObject *list, size_t **ret, size_t *ret_n)
{
	Py_ssize_t n = PySequence_Size(list);
	size_t *numbers;

	if (n < 0)
		return -1;
	numbers = calloc((size_t)n + 1, sizeof(*numbers));
	if (!numbers) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
		PyObject *item = PySequence_GetItem(list, i);

		if (item)
			numbers[i] = PyLong_AsSize_t(item);
		Py_XDECREF(item);
	}
	if (PyErr_Occurred()) {
		free(numbers);
		return -1;
	}
	*ret = numbers;
	*ret_n = (size_t)n;
	return 0;
}

/*
 * Begin a call that parks or unparks. The root, or NULL with an exception:
 * another thread may close the load whenever the GIL is released, unless it is
 * busy.
 */
static struct weir *enter(struct glue_load *self)
{
	if (!glue_load_of(self) || !glue_root_of((PyObject *)self->root))
		return NULL;
	if (self->busy) {
		glue_fail_text(-EBUSY, "another thread waits for the tensors, "
				       "or parks or unparks them");
		return NULL;
	}
	self->busy++;
	return glue_root_enter(self->root);
}

static void leave(struct glue_load *self)
{
	glue_root_leave(self->root);
	self->busy--;
}

/* The load was entered, and is left. -1 with an exception. */
static int park(struct glue_load *self, bool plain, struct weir_park_opts *opts)
{
	int r = 0;

	if (plain) {
		opts->buft = glue_buft(self->root, NULL, WEIR_MEM_PLAIN);
		r = opts->buft ? 0 : -1;
	}
	if (r == 0) {
		Py_BEGIN_ALLOW_THREADS r =
			weir_weights_park(self->weights, opts);
		Py_END_ALLOW_THREADS if (r < 0) glue_fail(r);
	}
	if (r >= 0)
		set_parked(self, true);
	leave(self);
	return r < 0 ? -1 : 0;
}

/*
 * park(plain, folder, unchanged, changed): without folder to memory that is
 * page-locked for the device, or plain memory.
 */
PyObject *glue_load_park(PyObject *o, PyObject *args)
{
	struct weir_park_opts opts = WEIR_PARK_OPTS_INIT;
	struct glue_load *self = (struct glue_load *)o;
	int plain, unchanged, r;
	size_t *numbers;
	PyObject *changed;

	if (!PyArg_ParseTuple(args, "pzpO:park", &plain, &opts.folder,
			      &unchanged, &changed) ||
	    read_changed(changed, &numbers, &opts.n_changed) < 0)
		return NULL;
	opts.changed = opts.n_changed ? numbers : NULL;
	/* The only targets that weir.load() parks are in memory of the load. */
	opts.flags = WEIR_PARK_TARGETS | (unchanged ? WEIR_PARK_CONSTANT : 0);
	r = enter(self) ? park(self, plain, &opts) : -1;
	free(numbers);
	if (r < 0)
		return NULL;
	Py_RETURN_NONE;
}

static int event_wait(void *event, int64_t ns)
{
	return weir_event_wait(event, ns);
}

static int start_return(struct glue_load *self, struct weir *weir)
{
	struct weir_event *event;
	int r = weir_event_new(weir, 0, &event);

	if (r < 0)
		return r;
	r = weir_weights_unpark(self->weights, event);
	if (r < 0)
		weir_event_free(event);
	else
		self->returning = event;
	return r;
}

/* After Ctrl-C the bytes go on coming, and the next call waits for them. */
PyObject *glue_load_unpark(PyObject *o, PyObject *unused)
{
	struct glue_load *self = (struct glue_load *)o;
	struct weir *weir;
	int r = 0;

	(void)unused;
	weir = enter(self);
	if (!weir)
		return NULL;
	if (!self->returning) {
		Py_BEGIN_ALLOW_THREADS r = start_return(self, weir);
		Py_END_ALLOW_THREADS
	}
	if (r >= 0)
		r = glue_wait(event_wait, self->returning, -1);
	if (r != GLUE_INTERRUPTED) {
		weir_event_free(self->returning);
		self->returning = NULL;
	}
	if (r < 0)
		glue_fail(r);
	else if (r != GLUE_INTERRUPTED)
		set_parked(self, false);
	leave(self);
	if (r < 0 || r == GLUE_INTERRUPTED)
		return NULL;
	Py_RETURN_NONE;
}

PyObject *glue_load_park_info(PyObject *o, PyObject *unused)
{
	static const char *const states[] = {
		[WEIR_PARK_RESIDENT] = "resident",
		[WEIR_PARK_PARKED] = "parked",
		[WEIR_PARK_RETURNING] = "returning",
		[WEIR_PARK_FAILED] = "failed",
	};
	struct weir_park_info info = { .size = sizeof(info) };
	struct glue_load *self = (struct glue_load *)o;
	int r;

	(void)unused;
	if (!glue_load_of(self))
		return NULL;
	r = weir_weights_park_info(self->weights, &info);
	if (r < 0)
		return glue_fail(r);
	return Py_BuildValue("{s:s,s:K,s:K,s:K}", "state", states[info.state],
			     "released", (unsigned long long)info.released,
			     "copied", (unsigned long long)info.copied, "again",
			     (unsigned long long)info.again);
}

static bool has_address(const struct glue_load *load, uintptr_t address)
{
	for (size_t i = 0; i < load->memories; i++) {
		const struct glue_memory *memory = load->memory[i];

		if (address >= (uintptr_t)memory->data &&
		    address - (uintptr_t)memory->data < memory->bytes)
			return true;
	}
	return false;
}

/* Find the load of an address: tensors of a framework keep their load. */
PyObject *glue_parkable_at(PyObject *module, PyObject *o)
{
	uintptr_t address = (uintptr_t)PyLong_AsVoidPtr(o);

	(void)module;
	if (PyErr_Occurred())
		return NULL;
	for (struct glue_root *root = glue_roots(); root; root = root->next)
		for (struct glue_load *l = root->loads; l; l = l->next)
			if (l->parkable && has_address(l, address)) {
				Py_INCREF(l);
				return (PyObject *)l;
			}
	Py_RETURN_NONE;
}
