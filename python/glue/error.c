/* SPDX-License-Identifier: MIT */
/* Errors of the library become exceptions, and waits that Ctrl-C can end. */
#include "glue.h"

/* weir._errors.make(errno, sentence), which returns an exception. */
static PyObject *make_error;

/* The only interpreter that may use the module: it has one state. */
static PyInterpreterState *user;

PyObject *glue_set_errors(PyObject *module, PyObject *factory)
{
	PyObject *old = make_error;

	(void)module;
	if (user && user != PyInterpreterState_Get()) {
		PyErr_SetString(PyExc_ImportError,
				"weir: another interpreter of this process has "
				"imported it, and only one can");
		return NULL;
	}
	user = PyInterpreterState_Get();
	Py_INCREF(factory);
	make_error = factory;
	Py_XDECREF(old);
	Py_RETURN_NONE;
}

PyObject *glue_fail_text(int err, const char *text)
{
	PyObject *error;

	if (glue_ends_thread(err)) {
		PyErr_SetNone(PyExc_SystemExit);
		return NULL;
	}
	if (!make_error) {
		PyErr_SetString(PyExc_RuntimeError, text);
		return NULL;
	}
	error = PyObject_CallFunction(
		make_error, "iN", -err,
		PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text),
				     "replace"));
	if (!error)
		return NULL;
	PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_DECREF(error);
	return NULL;
}

PyObject *glue_fail(int err)
{
	return glue_fail_text(err, weir_error());
}

int glue_wait(int (*attempt)(void *arg, int64_t ns), void *arg,
	      int64_t timeout_ns)
{
	int64_t ns = GLUE_SLICE_NS;
	int r;

	for (;;) {
		if (timeout_ns >= 0 && timeout_ns < ns)
			ns = timeout_ns;
		Py_BEGIN_ALLOW_THREADS r = attempt(arg, ns);
		Py_END_ALLOW_THREADS if (PyErr_CheckSignals() <
					 0) return GLUE_INTERRUPTED;
		if (r != -ETIMEDOUT || ns == timeout_ns)
			return r;
		if (timeout_ns >= 0)
			timeout_ns -= ns;
	}
}
