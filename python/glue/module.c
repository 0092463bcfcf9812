/* SPDX-License-Identifier: MIT */
/* The module weir._weir: its functions, and what all types need. */
#include "glue.h"
#include "dlpack.h"
#include "part.h"
#include <dlfcn.h>

PyTypeObject *glue_type(PyObject *module, const char *name, PyType_Spec *spec)
{
	PyObject *type = PyType_FromSpec(spec);

	if (!type)
		return NULL;
	Py_INCREF(type);
	if (PyModule_AddObject(module, name, type) < 0) {
		Py_DECREF(type);
		Py_DECREF(type);
		return NULL;
	}
	return (PyTypeObject *)type;
}

void glue_free(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);

	((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
	Py_DECREF(type);
}

PyObject *glue_not_made(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	PyObject *name = PyObject_GetAttrString((PyObject *)type, "__name__");

	(void)args;
	(void)kw;
	if (name)
		PyErr_Format(PyExc_TypeError,
			     "%U: the calls of weir make such objects, and "
			     "programs cannot",
			     name);
	Py_XDECREF(name);
	return NULL;
}

/* The dtypes: a tuple (number, name, elements of a block, its bytes, align). */
static PyObject *dtypes(PyObject *module, PyObject *unused)
{
	struct weir_dtype_info info = { .size = sizeof(info) };
	PyObject *list = PyList_New(0);
	PyObject *item;
	int r;

	(void)module;
	(void)unused;
	for (int i = 1; list && i < 256; i++) {
		if (weir_dtype_info(i, &info) < 0)
			continue;
		item = Py_BuildValue("isIII", i, info.name, info.block,
				     info.bytes, info.align);
		r = item ? PyList_Append(list, item) : -1;
		Py_XDECREF(item);
		if (r < 0)
			Py_CLEAR(list);
	}
	return list;
}

/* exchange_api(cls): True if the class has DLPack's C exchange. */
static PyObject *exchange_api(PyObject *module, PyObject *cls)
{
	(void)module;
	return PyBool_FromLong(glue_exchange_api(cls) != NULL);
}

static PyObject *convertible(PyObject *module, PyObject *args)
{
	unsigned from, to;

	(void)module;
	if (!PyArg_ParseTuple(args, "II:convertible", &from, &to))
		return NULL;
	return PyBool_FromLong(weir_convert(to, NULL, from, NULL, 0) >= 0);
}

static PyMethodDef functions[] = {
	{ "set_errors", glue_set_errors, METH_O,
	  "Set the function that makes an exception of (errno, sentence)." },
	{ "shutdown", glue_shutdown, METH_NOARGS,
	  "Cancel all loads and close all roots: the interpreter ends." },
	{ "forked", glue_forked, METH_NOARGS,
	  "Forget the roots of the process that forked." },
	{ "dtypes", dtypes, METH_NOARGS,
	  "All dtypes: (number, name, elements of a block, its bytes, "
	  "alignment)." },
	{ "operations", glue_operations, METH_NOARGS,
	  "All operations: (number, name, summary, sources, required, any, "
	  "bytes of parameters, [(name, type, offset, words)])." },
	{ "exchange_api", exchange_api, METH_O,
	  "True if the class has DLPack's C exchange." },
	{ "parkable_at", glue_parkable_at, METH_O,
	  "The load with parkable memory at this address, or None." },
	{ "convertible", convertible, METH_VARARGS,
	  "True if weir converts dtype FROM to dtype TO." },
	{ NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "weir._weir",
	.m_doc = "The calls of libweir. Use the module weir instead.",
	.m_size = -1,
	.m_methods = functions,
};

static int add_constants(PyObject *module)
{
	static const struct {
		const char *name;
		long value;
	} constants[] = {
		{ "MEM_DEVICE", WEIR_MEM_DEVICE },
		{ "MEM_PLAIN", WEIR_MEM_PLAIN },
		{ "MEM_HUGE", WEIR_MEM_HUGE },
		{ "MEM_LOCKED", WEIR_MEM_LOCKED },
		{ "MEM_PINNED", WEIR_MEM_PINNED },
		{ "MEM_MAPPED", WEIR_MEM_MAPPED },
		{ "WAY_AUTO", WEIR_WAY_AUTO },
		{ "WAY_MAP", WEIR_WAY_MAP },
		{ "WAY_BUFFERED", WEIR_WAY_BUFFERED },
		{ "WAY_DIRECT", WEIR_WAY_DIRECT },
		{ "MODEL_LENIENT", WEIR_MODEL_LENIENT },
		{ "PART_READ", WANT_READ },
		{ "PART_VIEW", WANT_VIEW },
		{ "PART_MAP", WANT_MAP },
		{ "PART_COPY", WANT_COPY },
		{ "SAVE_NEW", WEIR_SAVE_NEW },
		{ "SAVE_NOSYNC", WEIR_SAVE_NOSYNC },
		{ "SAVE_DROP", WEIR_SAVE_DROP },
		{ "LOAD_UNCHECKED", WEIR_LOAD_UNCHECKED },
		{ "LOAD_DROP", WEIR_LOAD_DROP },
		{ "BUF_PARKABLE", WEIR_BUF_PARKABLE },
		{ "DIGEST_XXH3", WEIR_DIGEST_XXH3 },
		{ "DIGEST_SHA256", WEIR_DIGEST_SHA256 },
	};

	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (PyModule_AddIntConstant(module, constants[i].name,
					    constants[i].value) < 0)
			return -1;
	return PyModule_AddStringConstant(module, "version",
					  weir_version_string());
}

/* The path of the library, for what is installed beside it. */
static int add_library(PyObject *module)
{
	PyObject *path;
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)weir_version_string, &info))
		return PyModule_AddStringConstant(module, "library", "");
	path = PyUnicode_DecodeFSDefault(info.dli_fname);
	if (path && PyModule_AddObject(module, "library", path) >= 0)
		return 0;
	Py_XDECREF(path);
	return -1;
}

PyMODINIT_FUNC PyInit__weir(void);

PyMODINIT_FUNC PyInit__weir(void)
{
	PyObject *module = PyModule_Create(&definition);

	if (!module)
		return NULL;
#ifdef Py_GIL_DISABLED
	/* The GIL guards the members of all objects. */
	PyUnstable_Module_SetGIL(module, Py_MOD_GIL_USED);
#endif
	if (add_constants(module) < 0 || add_library(module) < 0 ||
	    glue_root_init(module) < 0 || glue_model_init(module) < 0 ||
	    glue_memory_init(module) < 0 || glue_tensor_init(module) < 0 ||
	    glue_load_init(module) < 0 || glue_maker_init(module) < 0 ||
	    glue_save_init(module) < 0 || glue_manifest_init(module) < 0 ||
	    glue_graph_init(module) < 0 || glue_plan_init(module) < 0 ||
	    glue_run_init(module) < 0) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
