/* SPDX-License-Identifier: MIT */
/* Modules, their kernels, and launches, as the driver knows them. */
#ifndef FAKECUDA_KERNEL_H
#define FAKECUDA_KERNEL_H

#include "ptx/ptx.h"
#include "queue.h"

/* Kernels that streams and graphs may yet run keep their module alive. */
struct fc_code {
	unsigned refs;
	struct ptx_module *ptx;
	struct fc_range *variables; /* device memory of its variables */
	uint64_t at;
	struct fc_code *next, **link;
};

struct CUmod_st {
	struct fc_handle handle;
	struct fc_code *code;
	struct CUlib_st *library; /* of which it is a part, or NULL */
	struct CUmod_st *next;    /* of the library */
};

/* A function of a module, or a kernel of a library (then without module). */
struct CUfunc_st {
	struct fc_handle handle;
	struct CUmod_st *module;
	struct ptx_kernel *kernel;
	struct CUlib_st *library;
	const char *name;
	int dynamic_max; /* bytes of dynamic shared memory that are allowed */
};

struct CUlib_st {
	struct fc_handle handle;
	char *text;
	struct CUmod_st *modules; /* one for each context that used it */
};

/* A launch, with a copy of its parameters. Refers to the code. */
struct fc_launch {
	struct fc_code *code;
	struct ptx_kernel *kernel;
	unsigned grid[3], block[3];
	unsigned shared;
	char *params;
};

void fc_code_put(struct fc_code *code);
void fc_launch_free(struct fc_launch *launch);
struct fc_launch *fc_launch_copy(const struct fc_launch *launch);

/* The function that @handle names, in the current context; NULL: none. */
struct CUfunc_st *fc_function(struct fc_call *call, void *handle);

/* Check a launch and make it. */
CUresult fc_launch_make(struct fc_call *call, void *function,
			const unsigned grid[3], const unsigned block[3],
			unsigned shared, void **params, void **extra,
			struct fc_launch **ret);

/* value.c */
CUresult fc_fill(struct fc_call *call, CUdeviceptr dst, size_t pitch,
		 unsigned char byte, size_t width, size_t height,
		 CUstream handle);

/* graph.c */
void fc_graphs_end(struct CUctx_st *ctx);

void fc_modules_end(struct CUctx_st *ctx);

/* Run a launch on the calling thread; fc.lock is dropped meanwhile. */
void fc_run_launch(struct fc_op *op, struct fc_launch *launch);

#endif
