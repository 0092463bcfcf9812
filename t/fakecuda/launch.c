/* SPDX-License-Identifier: MIT */
/* Functions: their attributes, occupancy, and launches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

/* An SM of the stand-in, as of compute capability 9.0. */
#define SM_THREADS 2048u
#define SM_BLOCKS 32u
#define SM_REGISTERS 65536u
#define SM_SHARED (228u * 1024)
#define BLOCK_SHARED_MAX (227 * 1024)
#define BLOCK_RESERVED 1024u

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "fakecuda: no memory\n");
	abort();
}

static unsigned max_threads(const struct ptx_kernel_info *info)
{
	return info->max_threads && info->max_threads < 1024 ? info->max_threads
							     : 1024;
}

static CUresult get_attribute(struct fc_call *call, int *ret,
			      CUfunction_attribute what, void *handle)
{
	struct CUfunc_st *f = fc_function(call, handle);
	struct ptx_kernel_info info;
	unsigned version, target;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	ptx_kernel_info(f->kernel, &info);
	ptx_module_version(f->module->code->ptx, &version, &target);
	switch (what) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*ret = (int)max_threads(&info);
		break;
	case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
		*ret = (int)info.shared;
		break;
	case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
		*ret = (int)info.constant;
		break;
	case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
		*ret = (int)info.local;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*ret = (int)info.registers;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*ret = (int)target;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*ret = (int)fc.opt.capability;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*ret = f->dynamic_max;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*ret = -1;
		break;
	default:
		*ret = 0;
	}
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *ret, CUfunction_attribute what, CUfunction f)
{
	FC_ENTER("cuFuncGetAttribute", FC_CTX);
	return fc_leave(&call, get_attribute(&call, ret, what, f));
}

static CUresult set_attribute(struct fc_call *call, void *handle,
			      CUfunction_attribute what, int value)
{
	struct CUfunc_st *f = fc_function(call, handle);
	struct ptx_kernel_info info;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	ptx_kernel_info(f->kernel, &info);
	switch (what) {
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		if (value < 0 || (size_t)value + info.shared > BLOCK_SHARED_MAX)
			return fc_wrong(
				call, CUDA_ERROR_INVALID_VALUE,
				"%d bytes of dynamic shared memory beside %zu, and a block has at most %d",
				value, info.shared, BLOCK_SHARED_MAX);
		f->dynamic_max = value;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return value >= -1 && value <= 100 ? CUDA_SUCCESS
						   : CUDA_ERROR_INVALID_VALUE;
	default:
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"attribute %d cannot be set", (int)what);
	}
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute what, int value)
{
	FC_ENTER("cuFuncSetAttribute", FC_CTX);
	return fc_leave(&call, set_attribute(&call, f, what, value));
}

CUresult cuFuncLoad(CUfunction f)
{
	FC_ENTER("cuFuncLoad", FC_CTX);
	return fc_leave(&call, fc_function(&call, f)
				       ? CUDA_SUCCESS
				       : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t i, size_t *offset,
			    size_t *size)
{
	FC_ENTER("cuFuncGetParamInfo", FC_CTX);
	struct CUfunc_st *f = fc_function(&call, function);
	size_t o, s;

	if (!f || ptx_kernel_param(f->kernel, i, &o, &s) < 0)
		return fc_leave(&call, CUDA_ERROR_INVALID_VALUE);
	if (offset)
		*offset = o;
	if (size)
		*size = s;
	return fc_leave(&call, CUDA_SUCCESS);
}

/* Blocks of a function that an SM holds at once. */
static unsigned occupancy(struct CUfunc_st *f, unsigned threads, size_t shared)
{
	struct ptx_kernel_info info;
	unsigned n = SM_BLOCKS, each, registers;

	ptx_kernel_info(f->kernel, &info);
	threads = (threads + 31) / 32 * 32;
	each = SM_THREADS / threads;
	n = each < n ? each : n;
	registers = (info.registers + 7) / 8 * 8 * threads;
	each = registers ? SM_REGISTERS / registers : n;
	n = each < n ? each : n;
	each = SM_SHARED / (unsigned)(info.shared + shared + BLOCK_RESERVED);
	return each < n ? each : n;
}

static CUresult active_blocks(struct fc_call *call, int *ret, void *handle,
			      int threads, size_t shared)
{
	struct CUfunc_st *f = fc_function(call, handle);

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (threads <= 0 || threads > 1024 || shared > SM_SHARED)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "%d threads",
				threads);
	*ret = (int)occupancy(f, (unsigned)threads, shared);
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *ret, CUfunction f,
						     int threads, size_t shared)
{
	FC_ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor", FC_CTX);
	return fc_leave(&call, active_blocks(&call, ret, f, threads, shared));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *ret, CUfunction f, int threads, size_t shared, unsigned int flags)
{
	FC_ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
		 FC_CTX);
	(void)flags;
	return fc_leave(&call, active_blocks(&call, ret, f, threads, shared));
}

void fc_launch_free(struct fc_launch *launch)
{
	if (!launch)
		return;
	fc_code_put(launch->code);
	free(launch->params);
	free(launch);
}

struct fc_launch *fc_launch_copy(const struct fc_launch *launch)
{
	struct fc_launch *copy = need(malloc(sizeof(*copy)));
	struct ptx_kernel_info info;

	*copy = *launch;
	ptx_kernel_info(launch->kernel, &info);
	copy->params = need(malloc(info.param_bytes + 16));
	memcpy(copy->params, launch->params, info.param_bytes);
	copy->code->refs++;
	return copy;
}

/* One pointer for each parameter, or all bytes in @extra. */
static CUresult take_params(struct fc_call *call, struct fc_launch *launch,
			    const struct ptx_kernel_info *info, void **params,
			    void **extra)
{
	const void *buffer = NULL;
	size_t i, offset, size, given = 0;

	launch->params = need(calloc(1, info->param_bytes + 16));
	if (!info->params)
		return CUDA_SUCCESS;
	if (params) {
		for (i = 0; i < info->params; i++) {
			ptx_kernel_param(launch->kernel, i, &offset, &size);
			if (!params[i])
				return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
						"parameter %zu is missing", i);
			memcpy(launch->params + offset, params[i], size);
		}
		return CUDA_SUCCESS;
	}
	for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
		if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[1];
		else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
			given = *(const size_t *)extra[1];
		else
			break;
	}
	if (!buffer || given < info->param_bytes)
		return fc_wrong(
			call, CUDA_ERROR_INVALID_VALUE,
			"%zu bytes of parameters, and the kernel has %zu",
			given, info->param_bytes);
	memcpy(launch->params, buffer, info->param_bytes);
	return CUDA_SUCCESS;
}

static CUresult shape(struct fc_call *call, const struct CUfunc_st *f,
		      const struct ptx_kernel_info *info,
		      const struct fc_launch *l)
{
	const unsigned *g = l->grid, *b = l->block, *r = info->required;
	uint64_t threads = (uint64_t)b[0] * b[1] * b[2];

	if (!g[0] || !g[1] || !g[2] || g[0] > INT32_MAX || g[1] > 65535 ||
	    g[2] > 65535)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE,
				"%s: a grid of %u x %u x %u", f->name, g[0],
				g[1], g[2]);
	if (!threads || b[0] > 1024 || b[1] > 1024 || b[2] > 64 ||
	    threads > max_threads(info) ||
	    (r[0] && memcmp(r, b, sizeof(info->required))))
		return fc_wrong(
			call, CUDA_ERROR_INVALID_VALUE,
			"%s: a block of %u x %u x %u, at most %u threads",
			f->name, b[0], b[1], b[2], max_threads(info));
	if ((int)l->shared > f->dynamic_max || l->shared > INT32_MAX)
		return fc_wrong(
			call, CUDA_ERROR_INVALID_VALUE,
			"%s: %u bytes of dynamic shared memory, and %d are allowed",
			f->name, l->shared, f->dynamic_max);
	return CUDA_SUCCESS;
}

CUresult fc_launch_make(struct fc_call *call, void *function,
			const unsigned grid[3], const unsigned block[3],
			unsigned shared, void **params, void **extra,
			struct fc_launch **ret)
{
	struct CUfunc_st *f = fc_function(call, function);
	struct ptx_kernel_info info;
	struct fc_launch *l;
	CUresult result;

	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	l = need(calloc(1, sizeof(*l)));
	memcpy(l->grid, grid, sizeof(l->grid));
	memcpy(l->block, block, sizeof(l->block));
	l->shared = shared;
	l->kernel = f->kernel;
	l->code = f->module->code;
	l->code->refs++;
	ptx_kernel_info(f->kernel, &info);
	result = shape(call, f, &info, l);
	if (result == CUDA_SUCCESS)
		result = take_params(call, l, &info, params, extra);
	if (result == CUDA_SUCCESS)
		*ret = l;
	else
		fc_launch_free(l);
	return result;
}

static CUresult launch(struct fc_call *call, CUfunction function,
		       const unsigned grid[3], const unsigned block[3],
		       unsigned shared, CUstream handle, void **params,
		       void **extra)
{
	struct CUstream_st *stream = fc_stream_get(call, handle);
	struct fc_launch *l;
	struct fc_op *op;
	CUresult result;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	result = fc_launch_make(call, function, grid, block, shared, params,
				extra, &l);
	if (result != CUDA_SUCCESS)
		return result;
	op = fc_op_new(FC_LAUNCH, 0);
	op->launch = l;
	fc_queue(call, stream, op);
	return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
			unsigned bx, unsigned by, unsigned bz, unsigned shared,
			CUstream stream, void **params, void **extra)
{
	FC_ENTER("cuLaunchKernel", FC_CTX | FC_QUEUE);
	const unsigned grid[3] = { gx, gy, gz }, block[3] = { bx, by, bz };

	return fc_leave(&call, launch(&call, f, grid, block, shared, stream,
				      params, extra));
}

/* Attributes that order launches differently (PDL) change nothing here. */
static CUresult launch_ex(struct fc_call *call, const CUlaunchConfig *c,
			  CUfunction f, void **params, void **extra)
{
	unsigned grid[3], block[3];

	if (!c)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "no config");
	for (unsigned i = 0; i < c->numAttrs; i++) {
		switch (c->attrs[i].id) {
		case CU_LAUNCH_ATTRIBUTE_IGNORE:
		case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
		case CU_LAUNCH_ATTRIBUTE_PRIORITY:
		case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
		case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
			break;
		default:
			return fc_wrong(call, CUDA_ERROR_NOT_SUPPORTED,
					"launch attribute %d",
					(int)c->attrs[i].id);
		}
	}
	memcpy(grid, (unsigned[3]){ c->gridDimX, c->gridDimY, c->gridDimZ },
	       sizeof(grid));
	memcpy(block, (unsigned[3]){ c->blockDimX, c->blockDimY, c->blockDimZ },
	       sizeof(block));
	return launch(call, f, grid, block, c->sharedMemBytes, c->hStream,
		      params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f,
			  void **params, void **extra)
{
	FC_ENTER("cuLaunchKernelEx", FC_CTX | FC_QUEUE);
	return fc_leave(&call, launch_ex(&call, config, f, params, extra));
}

struct running {
	struct fc_op *op;
};

static bool stopped(void *arg)
{
	struct running *r = arg;
	bool ret;

	pthread_mutex_lock(&fc.lock);
	ret = fc_op_dropped(r->op) || fc.gone;
	pthread_mutex_unlock(&fc.lock);
	return ret;
}

static void found(void *arg, const char *sentence)
{
	(void)arg;
	pthread_mutex_lock(&fc.lock);
	fc.count.findings++;
	snprintf(fc.finding, sizeof(fc.finding), "%s", sentence);
	fc_log("# %s", sentence);
	pthread_mutex_unlock(&fc.lock);
}

static CUresult code_of(enum ptx_outcome outcome)
{
	switch (outcome) {
	case PTX_ILLEGAL_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case PTX_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case PTX_TRAP:
		return CUDA_ERROR_LAUNCH_FAILED;
	case PTX_ASSERT:
		return CUDA_ERROR_ASSERT;
	case PTX_TIMEOUT:
		return CUDA_ERROR_LAUNCH_TIMEOUT;
	default:
		return CUDA_SUCCESS;
	}
}

void fc_run_launch(struct fc_op *op, struct fc_launch *l)
{
	struct CUctx_st *ctx = op->stream->handle.ctx;
	struct running running = { .op = op };
	struct ptx_range *ranges;
	struct ptx_launch run = { .kernel = l->kernel,
				  .dynamic_shared = l->shared,
				  .params = l->params,
				  .seed = fc.opt.order,
				  .check = fc.opt.kernelcheck,
				  .rough = fc.opt.rough,
				  .limit = fc.opt.kernellimit,
				  .watch_start = fc.watch_start,
				  .watch_end = fc.watch_end,
				  .stop = stopped,
				  .found = found,
				  .arg = &running };
	enum ptx_outcome outcome;

	if (op->dry)
		return;
	memcpy(run.grid, l->grid, sizeof(run.grid));
	memcpy(run.block, l->block, sizeof(run.block));
	run.n_ranges = fc_ranges_of(ctx, &ranges);
	run.ranges = ranges;
	pthread_mutex_unlock(&fc.lock);
	outcome = ptx_launch(&run);
	free(ranges);
	pthread_mutex_lock(&fc.lock);
	fc_kernel_counted(l->kernel, &run.counts);
	op->stream->time = fc_now();
	if (code_of(outcome) != CUDA_SUCCESS)
		fc_context_fail(ctx, code_of(outcome));
}
