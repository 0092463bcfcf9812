/* SPDX-License-Identifier: MIT */
/*
 * The glue: the module weir._weir, which gives Python the calls of <weir.h>.
 * Written for the limited API of CPython 3.9, so one build serves all later
 * versions. python/HACKING.md has the objects, the threads, and how to add a
 * call.
 *
 * All functions are called with the GIL unless they say otherwise. It also
 * guards the members of all objects.
 */
#ifndef GLUE_H
#define GLUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <weir.h>
#include <weir/cuda.h>

/*
 * The buffer protocol joined the limited API in 3.11, but all versions from
 * 3.9 on have it in this form.
 */
#if defined(Py_LIMITED_API) && Py_LIMITED_API + 0 < 0x030b0000
typedef struct {
	void *buf;
	PyObject *obj;
	Py_ssize_t len;
	Py_ssize_t itemsize;
	int readonly;
	int ndim;
	char *format;
	Py_ssize_t *shape;
	Py_ssize_t *strides;
	Py_ssize_t *suboffsets;
	void *internal;
} Py_buffer;
#define Py_bf_getbuffer 1
#define Py_bf_releasebuffer 2
#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *obj, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
PyAPI_FUNC(int) PyBuffer_FillInfo(Py_buffer *view, PyObject *o, void *buf,
				  Py_ssize_t len, int readonly, int flags);
#endif

/* How long a blocking call of the library lasts between checks for Ctrl-C. */
#define GLUE_SLICE_NS 50000000

/* A root, in the list of all that are open. */
struct glue_root {
	PyObject_HEAD struct weir *weir; /* NULL: closed */
	struct glue_root *prev, *next;
	struct glue_load *loads; /* those that may be running */
	unsigned busy;           /* calls that use it without the GIL */
	struct weir *late;       /* the last of them closes it, or NULL */
};

/* A file of a model in memory: map.c. */
struct glue_map {
	struct glue_memory *memory; /* NULL: the file is not mapped */
	bool tried;
};

struct glue_model {
	PyObject_HEAD struct glue_root *root;
	struct weir_model *model; /* NULL: closed */
	PyObject *names;          /* tuple in the order of the model, or NULL */
	struct glue_map *map;     /* of each shard, from the first one on */
	size_t maps;              /* so many */
	unsigned busy;            /* calls that use it without the GIL */
	bool closing;             /* the last of them closes it */
};

/* A buffer of the library, and its address, which a forked child needs too. */
struct glue_memory {
	PyObject_HEAD struct weir_buf *buf;
	void *data; /* of host memory or of a device; NULL: empty */
	size_t bytes;
	int32_t device_type; /* of DLPack */
	int32_t device_id;
	bool readonly;
	bool parked; /* nothing is in it: weir_weights_park() */
	/* The load that can park it, or NULL. Borrowed: the load clears it. */
	struct glue_load *load;
};

struct glue_tensor {
	PyObject_HEAD struct glue_memory *memory;
	char *data;
	uint32_t dtype;
	int ndim;
	Py_ssize_t bytes;
	int64_t shape[WEIR_MAX_DIMS];
	int64_t stride[WEIR_MAX_DIMS]; /* bytes; 0 if rows divide blocks */
	/* As others see it: bytes if they lack the dtype. Strides in bytes. */
	int view_ndim;
	Py_ssize_t itemsize;
	Py_ssize_t view_shape[WEIR_MAX_DIMS];
	Py_ssize_t view_stride[WEIR_MAX_DIMS];
	Py_ssize_t bytes_shape, bytes_stride; /* for the buffer protocol */
	struct weir_event
		*ready;         /* done when its bytes have arrived; or NULL */
	bool arrived;           /* known: nobody waits for READY again */
	struct glue_load *load; /* which brings them */
};

struct glue_load {
	PyObject_HEAD struct glue_root *root;
	struct glue_model *model;
	struct weir_load *load; /* NULL: closed */
	struct weir_weights *weights;
	size_t count;
	size_t *index; /* tensor i of the load in the model; NULL: i itself */
	struct glue_memory **memory; /* one for each buffer */
	size_t memories;
	unsigned busy;                 /* threads that wait for it */
	bool done;                     /* it has ended well */
	bool parkable;                 /* its memory can be parked */
	bool parked;                   /* its memory is */
	struct weir_event *returning;  /* of a call of unpark that waits */
	struct glue_load *prev, *next; /* in root->loads */
	bool listed;
};

/* How tensors of the library become objects of a framework. */
struct glue_maker {
	PyObject_HEAD PyObject
		*make;   /* callable, or a class with DLPack's C exchange */
	PyObject *views; /* functions for dtypes that MAKE does not know */
	PyObject *dtypes;
	void *exchange;
	int mode;
};

struct glue_save {
	PyObject_HEAD struct glue_root *root;
	struct weir_save *save;
	bool done; /* it has ended well */
};

struct glue_manifest {
	PyObject_HEAD struct weir_manifest *manifest;
};

#define GLUE_CUDA_MAX 64 /* devices, as many as the library describes */

/* A graph, and what its leaves are in. */
struct glue_graph {
	PyObject_HEAD struct glue_root *root;
	struct weir_graph *graph;
	PyObject *keep; /* list: Memory, Tensor and Model of leaves */
	unsigned busy;  /* threads that compile it without the GIL */
	/*
	 * By the number of a CUDA device: the event that its leaves wait for,
	 * which each run records in the program's stream; or NULL.
	 */
	struct glue_order {
		struct weir_dev *dev;
		struct weir_event *event;
	} order[GLUE_CUDA_MAX];
	/* Held between the records for a run and its start, without the GIL. */
	pthread_mutex_t starting;
};

/* One of the runs of a plan that can be under way: copies.c. */
struct glue_copy {
	struct weir_run *run;
	struct weir_event *end; /* for fileno(); or NULL */
	PyObject *keep;         /* tensors that an input is copied from later */
	uint64_t thread;        /* that took it: this_thread() */
	bool taken;
	bool running; /* it may not have ended: its next user waits for it */
};

/* An executable graph. */
struct glue_plan {
	PyObject_HEAD struct glue_graph *graph;
	struct weir_sched *sched;
	struct weir_exec *exec;
	struct weir_buft *buft;  /* of memory for outputs */
	PyObject *keep;          /* tuple: the list of the graph at that time */
	struct weir_node **node; /* the inputs, then the outputs */
	size_t inputs, outputs;
	struct glue_copy *copy;
	unsigned copies;
	sem_t free;  /* copies that nobody has, and 1 more when it is closed */
	bool closed; /* no copy is given out any more */
};

/* A copy of a plan in use. */
struct glue_run {
	PyObject_HEAD struct glue_plan *plan;
	struct glue_copy *copy; /* NULL: it was returned */
	unsigned busy;          /* calls that use it without the GIL */
	bool late;              /* the last of them returns it */
};

extern PyTypeObject *glue_root_type, *glue_model_type, *glue_memory_type,
	*glue_tensor_type, *glue_load_type, *glue_maker_type, *glue_save_type,
	*glue_manifest_type, *glue_graph_type, *glue_plan_type, *glue_run_type;

/* error.c */
/* Raise the exception for @err with weir_error(); returns NULL. */
PyObject *glue_fail(int err);
/* The same with a sentence of the glue. */
PyObject *glue_fail_text(int err, const char *text);
PyObject *glue_set_errors(PyObject *module, PyObject *factory);

/*
 * Call @try(@arg, ns) without the GIL until it returns something else than
 * -ETIMEDOUT, and let signal handlers run in between. Returns its result, or 1
 * after an exception of a signal handler, KeyboardInterrupt for example.
 * @timeout_ns: -1 means no limit; -ETIMEDOUT is returned at the limit.
 */
#define GLUE_INTERRUPTED 0x10000
int glue_wait(int (*attempt)(void *arg, int64_t ns), void *arg,
	      int64_t timeout_ns);

/* root.c */
/* The open root of @o, or NULL with an exception. */
struct glue_root *glue_root_of(PyObject *o);
/*
 * True if a call fails with @err because the interpreter ends, in a thread that
 * is still there: it raises SystemExit, which ends the thread without a
 * traceback.
 */
bool glue_ends_thread(int err);
/*
 * Around calls that use the open root of @self without the GIL. They use the
 * result: another thread that closes the root sets self->weir to NULL at once,
 * and then waits for them.
 */
struct weir *glue_root_enter(struct glue_root *self);
void glue_root_leave(struct glue_root *self);
/* In a child of fork: the roots of the parent are no roots here. */
PyObject *glue_forked(PyObject *module, PyObject *unused);
/* Close all roots: the interpreter ends. */
PyObject *glue_shutdown(PyObject *module, PyObject *unused);
/* The buffer type of memory @kind of device @name. */
struct weir_buft *glue_buft(struct glue_root *root, const char *name,
			    unsigned kind);
/* All open roots, the first of a list. */
struct glue_root *glue_roots(void);

/* model.c */
/* The names of the tensors: a tuple, borrowed. */
/* The number of the tensor @name, a str. 1, 0: there is none, or -1. */
int glue_model_find(struct glue_model *self, PyObject *name, size_t *ret_i);
PyObject *glue_model_names(struct glue_model *model);
/* The open model of @self, or NULL with an exception. */
struct weir_model *glue_model_of(struct glue_model *self);
/* Around calls that use the open model of @self without the GIL. */
void glue_model_enter(struct glue_model *self);
void glue_model_leave(struct glue_model *self);
PyObject *glue_shape_tuple(const int64_t *shape, unsigned ndim);

/* memory.c */
/* Makes an object for @buf, and takes a reference of its own. */
struct glue_memory *glue_memory_new(struct weir_buf *buf);
/*
 * Wrap @size bytes at @ptr of the program. @owner is kept until the library
 * has dropped the buffer.
 */
int glue_wrap(struct weir_buft *buft, void *ptr, size_t size, PyObject *owner,
	      struct weir_buf **ret_buf);
/*
 * Keep @object until glue_owner_release(), which any thread may call, with the
 * GIL or without. NULL with an exception.
 */
struct glue_owner *glue_owner_new(PyObject *object);
void glue_owner_release(void *owner);
/* Drop the owners that were released. */
void glue_owners_drop(void);
/* Fail if @memory is parked; -1 with an exception. */
int glue_memory_check(const struct glue_memory *memory);

/* tensor.c */
struct glue_tensor *glue_tensor_new(struct glue_memory *memory,
				    const struct weir_tensor *t);
/* From now on a contiguous tensor of bytes with one dimension. */
void glue_tensor_as_bytes(struct glue_tensor *self);
/* Block until its bytes have arrived; -1 with an exception. */
int glue_tensor_wait(struct glue_tensor *self);

/* dlpack.c */
PyObject *glue_tensor_dlpack(PyObject *self, PyObject *args, PyObject *kw);
PyObject *glue_tensor_dlpack_device(PyObject *self, PyObject *unused);
/* A versioned capsule of @tensor. */
PyObject *glue_capsule(struct glue_tensor *tensor);
/* A tensor of a framework by its exchange API, a struct in @api. */
PyObject *glue_exchange(struct glue_tensor *tensor, void *api);
/* True if DLPack has a dtype for @dtype. */
bool glue_dlpack_has(uint32_t dtype);
/* The struct of the exchange API of @cls, or NULL. Sets no exception. */
void *glue_exchange_api(PyObject *cls);

/* maker.c */
/* @tensor as an object of a framework. */
PyObject *glue_make(struct glue_maker *maker, struct glue_tensor *tensor);
/* Refuse @dtype of tensor @i of @model if the framework lacks it. */
int glue_maker_check(struct glue_maker *maker, uint32_t dtype,
		     struct glue_model *model, size_t i);
/* An array of NumPy with the dtype and shape of @tensor, in @memory. */
PyObject *glue_make_array(struct glue_maker *maker, struct glue_tensor *tensor,
			  PyObject *memory, Py_ssize_t offset);
/* True if a tensor of a file is given out in memory of its own. */
bool glue_maker_copies(const struct glue_maker *maker);
/* True if objects of it may have strides. */
bool glue_maker_strides(const struct glue_maker *maker, uint32_t dtype);
PyObject *glue_load_all(PyObject *self, PyObject *args);
PyObject *glue_load_make(PyObject *self, PyObject *args);

/* load.c */
/* The open load of @self, or NULL with an exception. */
struct weir_load *glue_load_of(struct glue_load *self);
/* Block until all tensors have arrived; -1 with an exception. */
int glue_load_wait(struct glue_load *self);
/* Tensor @i, as if its bytes had arrived. */
struct glue_tensor *glue_load_tensor_new(struct glue_load *self, size_t i);

/* manifest.c */
PyObject *glue_load_digest(PyObject *self, PyObject *i);
PyObject *glue_load_manifest(PyObject *self, PyObject *unused);

/* park.c */
PyObject *glue_load_park(PyObject *self, PyObject *args);
PyObject *glue_load_unpark(PyObject *self, PyObject *unused);
PyObject *glue_load_park_info(PyObject *self, PyObject *unused);
PyObject *glue_parkable_at(PyObject *module, PyObject *address);

/* request.c */
/* The numbers of a sequence, at most WEIR_MAX_DIMS; -1 with an exception. */
int glue_numbers(PyObject *sequence, int64_t *ret, unsigned *ret_n);
/*
 * The tensor of @item, (address, dtype, shape, strides in bytes or None,
 * owner), placed in a new buffer, which keeps the owner; -1 with an exception.
 */
int glue_place(struct weir_buft *buft, PyObject *item, struct weir_tensor *t,
	       struct weir_buf **ret_buf);

/* read.c */
PyObject *glue_model_read(PyObject *self, PyObject *args, PyObject *kw);
PyObject *glue_model_read_slice(PyObject *self, PyObject *args);

/* part.c */
PyObject *glue_model_get(PyObject *self, PyObject *args);
PyObject *glue_model_part(PyObject *self, PyObject *args);
PyObject *glue_model_views(PyObject *self, PyObject *args);
PyObject *glue_model_absent(PyObject *self, PyObject *unused);

/* map.c */
/* Drop the mappings of the files; tensors in them keep theirs. */
void glue_maps_free(struct glue_model *self);
/* fetch(offset, bytes) of a Memory. */
PyObject *glue_map_fetch(PyObject *memory, PyObject *args);

/* tensor.c */
/* The place of @tensor in the library's terms; < 0: its errno. */
int glue_tensor_describe(const struct glue_tensor *tensor,
			 struct weir_tensor *t);

/* graph.c */
PyObject *glue_operations(PyObject *module, PyObject *unused);
/* -1 with an exception if another thread compiles the graph. */
int glue_graph_check(const struct glue_graph *self);
/*
 * Start @run after the work that the program has queued: @streams is a tuple of
 * (number of a CUDA device, number of its CUstream). Releases the GIL. < 0: an
 * errno, with its sentence, or GLUE_INTERRUPTED with an exception.
 */
int glue_graph_start(struct glue_graph *self, struct weir_run *run,
		     PyObject *streams, int64_t wait_ns);
/* Node @i of the graph, or NULL with an exception. */
struct weir_node *glue_graph_node(struct glue_graph *self, PyObject *i);

/* copies.c */
/* Make @n copies; < 0: an errno. */
int glue_copies_new(struct glue_plan *plan, unsigned n);
void glue_copies_free(struct glue_plan *plan);
/* A free copy, with @block the next one; NULL with an exception. */
struct glue_copy *glue_copy_take(struct glue_plan *plan, bool block);
/* Return it; cancels what is still running. */
void glue_copy_give(struct glue_plan *plan, struct glue_copy *copy);

/* run.c */
PyObject *glue_plan_compute(PyObject *self, PyObject *args);
PyObject *glue_plan_start(PyObject *self, PyObject *args);

/* Each adds its type to @module. */
int glue_root_init(PyObject *module);
int glue_model_init(PyObject *module);
int glue_memory_init(PyObject *module);
int glue_tensor_init(PyObject *module);
int glue_load_init(PyObject *module);
int glue_maker_init(PyObject *module);
int glue_save_init(PyObject *module);
int glue_manifest_init(PyObject *module);
int glue_graph_init(PyObject *module);
int glue_plan_init(PyObject *module);
int glue_run_init(PyObject *module);

/* Make the type of @spec and add it to @module as @name. */
PyTypeObject *glue_type(PyObject *module, const char *name, PyType_Spec *spec);
/* Py_tp_new of types whose objects only the glue makes: a TypeError. */
PyObject *glue_not_made(PyTypeObject *type, PyObject *args, PyObject *kw);
/* Free an object of a heap type, after its members. */
void glue_free(PyObject *self);

#endif
