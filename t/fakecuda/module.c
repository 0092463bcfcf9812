/* SPDX-License-Identifier: MIT */
/*
 * Modules and libraries: PTX as text. Code for a real GPU is refused, as by a
 * GPU of another kind.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "fakecuda: no memory\n");
	abort();
}

/*
 * All code. That of a context which was lost stays: a checker for leaks, which
 * does not look into handles, finds it here.
 */
static struct fc_code *codes;

static void code_link(struct fc_code *code)
{
	code->next = codes;
	code->link = &codes;
	if (codes)
		codes->link = &code->next;
	codes = code;
}

static void code_unlink(struct fc_code *code)
{
	*code->link = code->next;
	if (code->next)
		code->next->link = code->link;
}

/* Under fc.lock. */
void fc_code_put(struct fc_code *code)
{
	if (--code->refs)
		return;
	if (code->variables)
		fc_device_memory_free(code->variables);
	ptx_module_free(code->ptx);
	code_unlink(code);
	free(code);
}

/* The newest version of PTX that the driver's version knows. */
static unsigned newest_ptx(void)
{
	static const unsigned char minor12[] = { 80, 81, 82, 83, 84,
						 85, 85, 86, 87, 88 };
	unsigned major = fc.opt.version / 1000,
		 minor = fc.opt.version % 1000 / 10;

	if (major < 12)
		return major == 11 ? 70 + minor : 65;
	if (major == 12)
		return minor12[minor < 10 ? minor : 9];
	return 10 * (major - 4) + minor;
}

/* Device memory for the variables, with their initial values. */
static CUresult place(struct fc_call *call, struct fc_code *code)
{
	struct fc_device *dev = call->ctx->device;
	struct ptx_variable *v;
	size_t n = ptx_module_variables(code->ptx, &v), i, size = 0;
	struct fc_range range = { .memory = FC_DEVICE,
				  .ctx = call->ctx,
				  .device = dev,
				  .code = true };

	for (i = 0; i < n; i++) {
		size = (size + 255) & ~(size_t)255;
		v[i].address = size;
		size += v[i].size;
	}
	if (!size)
		return CUDA_SUCCESS;
	size = (size + 511) & ~(size_t)511;
	range.start = fc_room(dev, size);
	range.end = range.start + size;
	if (!range.start)
		return CUDA_ERROR_OUT_OF_MEMORY;
	code->variables = fc_range_add(&range);
	if (!code->variables)
		return CUDA_ERROR_OUT_OF_MEMORY;
	dev->used += size;
	fc.count.device_bytes += size;
	for (i = 0; i < n; i++) {
		char *at;

		v[i].address += range.start;
		at = fc_shadow(dev, (void *)(uintptr_t)v[i].address);
		if (v[i].init)
			memcpy(at, v[i].init, v[i].size);
		else
			memset(at, 0, v[i].size);
		fc_written(at, v[i].size);
	}
	return CUDA_SUCCESS;
}

/* The GPU whose code this is; 86: sm_86. 0: it is no code of nvcc 13. */
static unsigned gpu_of(const char *image)
{
	Elf64_Ehdr h;

	if (memcmp(image, ELFMAG, SELFMAG))
		return 0;
	memcpy(&h, image, sizeof(h));
	return h.e_ident[EI_ABIVERSION] == 8 ? h.e_flags >> 8 & 0xff : 0;
}

static CUresult load(struct fc_call *call, const char *image,
		     struct fc_code **ret, char sentence[PTX_SENTENCE])
{
	struct fc_code *code;
	unsigned version, target;
	CUresult result;

	*sentence = '\0';
	if (!image)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "no image");
	if (!memcmp(image, ELFMAG, SELFMAG) ||
	    !memcmp(image, "\x50\xed\x55\xba", 4)) {
		snprintf(sentence, PTX_SENTENCE,
			 "the stand-in executes PTX, not code for sm_%u",
			 gpu_of(image));
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	if (*fc.opt.jit) {
		snprintf(sentence, PTX_SENTENCE, "%s", fc.opt.jit);
		return CUDA_ERROR_INVALID_PTX;
	}
	code = need(calloc(1, sizeof(*code)));
	code->refs = 1;
	code->ptx = ptx_module_parse(image, strlen(image), sentence);
	if (!code->ptx) {
		free(code);
		return CUDA_ERROR_INVALID_PTX;
	}
	code_link(code);
	ptx_module_version(code->ptx, &version, &target);
	result = CUDA_SUCCESS;
	if (version > newest_ptx()) {
		snprintf(sentence, PTX_SENTENCE,
			 "PTX of version %u.%u, and the driver knows %u.%u",
			 version / 10, version % 10, newest_ptx() / 10,
			 newest_ptx() % 10);
		result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	} else if (target > fc.opt.capability) {
		snprintf(sentence, PTX_SENTENCE,
			 "PTX for sm_%u, and the device is sm_%u", target,
			 fc.opt.capability);
		result = CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	if (result == CUDA_SUCCESS)
		result = place(call, code);
	if (result == CUDA_SUCCESS && ptx_module_link(code->ptx, sentence) < 0)
		result = CUDA_ERROR_INVALID_PTX;
	if (result == CUDA_SUCCESS)
		*ret = code;
	else
		fc_code_put(code);
	return result;
}

/* Put @sentence into the buffer of the options, if there is one. */
static void tell(const char *sentence, unsigned n, const CUjit_option *options,
		 void **values)
{
	char *buffer = NULL;
	size_t size = 0;

	for (unsigned i = 0; i < n; i++) {
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			buffer = values[i];
		if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
			size = (size_t)(uintptr_t)values[i];
	}
	if (buffer && size)
		snprintf(buffer, size, "%s", sentence);
}

static CUresult module_new(struct fc_call *call, CUmodule *ret,
			   const void *image, unsigned n,
			   const CUjit_option *options, void **values)
{
	char sentence[PTX_SENTENCE] = "";
	struct fc_code *code = NULL;
	struct CUmod_st *module;
	CUresult result;

	if (!ret)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "no result");
	result = load(call, image, &code, sentence);
	if (result != CUDA_SUCCESS) {
		tell(sentence, n, options, values);
		fc_note(call, "%.100s ", sentence);
		if (!fc.count.findings)
			snprintf(fc.finding, sizeof(fc.finding), "%s",
				 sentence);
		return result;
	}
	module = fc_handle_new(FC_MODULE, call->ctx);
	if (!module) {
		fc_code_put(code);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	module->code = code;
	fc_made(FAKECUDA_MODULE);
	*ret = module;
	return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *ret, const void *image)
{
	FC_ENTER("cuModuleLoadData", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, module_new(&call, ret, image, 0, NULL, NULL));
}

CUresult cuModuleLoadDataEx(CUmodule *ret, const void *image, unsigned int n,
			    CUjit_option *options, void **values)
{
	FC_ENTER("cuModuleLoadDataEx", FC_CTX | FC_UNSAFE);
	return fc_leave(&call,
			module_new(&call, ret, image, n, options, values));
}

static void module_drop(struct CUmod_st *module)
{
	struct CUfunc_st *f = NULL;

	while ((f = fc_handle_next(f, FC_FUNCTION))) {
		if (f->module == module)
			f->handle.live = false;
	}
	module->handle.live = false;
	fc_code_put(module->code);
	module->code = NULL;
}

/* The modules of a context that ends, also those of libraries. */
void fc_modules_end(struct CUctx_st *ctx)
{
	struct CUmod_st *m = NULL, **link;

	while ((m = fc_handle_next(m, FC_MODULE))) {
		if (m->handle.ctx != ctx)
			continue;
		if (m->library) {
			link = &m->library->modules;
			while (*link && *link != m)
				link = &(*link)->next;
			if (*link)
				*link = m->next;
		} else {
			fc_went_with_context(FAKECUDA_MODULE);
		}
		module_drop(m);
	}
}

static CUresult unload(struct fc_call *call, CUmodule module)
{
	if (!fc_handle_ok(module, FC_MODULE) || module->library)
		return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
				"%p is no module", (void *)module);
	fc_streams_wait(call->ctx);
	fc_went(FAKECUDA_MODULE);
	module_drop(module);
	return fc_context_error(call->ctx);
}

CUresult cuModuleUnload(CUmodule module)
{
	FC_ENTER("cuModuleUnload", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, unload(&call, module));
}

static CUresult function_in(struct fc_call *call, struct CUmod_st *module,
			    const char *name, struct CUfunc_st **ret)
{
	struct ptx_kernel *kernel = ptx_module_kernel(module->code->ptx, name);
	struct ptx_kernel_info info;
	struct CUfunc_st *f = NULL;

	if (!kernel) {
		fc_note(call, "%s ", name);
		return CUDA_ERROR_NOT_FOUND;
	}
	while ((f = fc_handle_next(f, FC_FUNCTION))) {
		if (f->module == module && f->kernel == kernel)
			break;
	}
	if (!f)
		f = fc_handle_new(FC_FUNCTION, module->handle.ctx);
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ptx_kernel_info(kernel, &info);
	f->module = module;
	f->kernel = kernel;
	f->name = info.name;
	if (!f->dynamic_max)
		f->dynamic_max = (int)(48 * 1024 - info.shared);
	*ret = f;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *ret, CUmodule module, const char *name)
{
	FC_ENTER("cuModuleGetFunction", FC_CTX);
	if (!fc_handle_ok(module, FC_MODULE) || !name || !ret)
		return fc_leave(&call,
				fc_wrong(&call, CUDA_ERROR_INVALID_HANDLE,
					 "%p is no module", (void *)module));
	return fc_leave(&call, function_in(&call, module, name, ret));
}

CUresult cuModuleGetFunctionCount(unsigned int *ret, CUmodule module)
{
	FC_ENTER("cuModuleGetFunctionCount", FC_CTX);
	if (!fc_handle_ok(module, FC_MODULE))
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	*ret = (unsigned)ptx_module_kernels(module->code->ptx);
	return fc_leave(&call, CUDA_SUCCESS);
}

static CUresult variable(struct CUmod_st *module, const char *name,
			 CUdeviceptr *ret, size_t *bytes)
{
	struct ptx_variable *v;
	size_t n = ptx_module_variables(module->code->ptx, &v), i;

	for (i = 0; i < n; i++) {
		if (strcmp(v[i].name, name))
			continue;
		if (ret)
			*ret = v[i].address;
		if (bytes)
			*bytes = v[i].size;
		return CUDA_SUCCESS;
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *ret, size_t *bytes, CUmodule module,
			      const char *name)
{
	FC_ENTER("cuModuleGetGlobal", FC_CTX);
	if (!fc_handle_ok(module, FC_MODULE))
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	return fc_leave(&call, variable(module, name, ret, bytes));
}

/* The module of @library in the current context, loaded when first used. */
static CUresult module_of(struct fc_call *call, struct CUlib_st *library,
			  struct CUmod_st **ret)
{
	char sentence[PTX_SENTENCE];
	struct CUmod_st *m = library->modules;
	struct fc_code *code;
	CUresult result;

	while (m && m->handle.ctx != call->ctx)
		m = m->next;
	if (!m) {
		result = load(call, library->text, &code, sentence);
		if (result != CUDA_SUCCESS)
			return result;
		m = fc_handle_new(FC_MODULE, call->ctx);
		if (!m)
			return CUDA_ERROR_OUT_OF_MEMORY;
		m->code = code;
		m->library = library;
		m->next = library->modules;
		library->modules = m;
	}
	*ret = m;
	return CUDA_SUCCESS;
}

static CUresult library_new(struct fc_call *call, CUlibrary *ret,
			    const char *code, unsigned n,
			    const CUjit_option *options, void **values)
{
	char sentence[PTX_SENTENCE];
	struct fc_code *first = NULL;
	struct CUlib_st *library;
	struct CUmod_st *m;
	CUresult result;

	if (!ret)
		return fc_wrong(call, CUDA_ERROR_INVALID_VALUE, "no result");
	result = load(call, code, &first, sentence);
	if (result != CUDA_SUCCESS) {
		tell(sentence, n, options, values);
		if (!fc.count.findings)
			snprintf(fc.finding, sizeof(fc.finding), "%s",
				 sentence);
		return result;
	}
	library = fc_handle_new(FC_LIBRARY, NULL);
	m = fc_handle_new(FC_MODULE, call->ctx);
	if (!library || !m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	library->text = need(strdup(code));
	m->code = first;
	m->library = library;
	library->modules = m;
	fc_made(FAKECUDA_LIBRARY);
	*ret = library;
	return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *ret, const void *code, CUjit_option *jit,
			   void **jit_values, unsigned n_jit,
			   CUlibraryOption *options, void **values, unsigned n)
{
	FC_ENTER("cuLibraryLoadData", FC_CTX | FC_UNSAFE);
	(void)options, (void)values, (void)n;
	return fc_leave(&call,
			library_new(&call, ret, code, n_jit, jit, jit_values));
}

static CUresult library_free(struct fc_call *call, CUlibrary library)
{
	struct CUfunc_st *f = NULL;
	struct CUmod_st *m, *next;

	if (!fc_handle_ok(library, FC_LIBRARY))
		return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
				"%p is no library", (void *)library);
	fc_streams_wait(call->ctx);
	while ((f = fc_handle_next(f, FC_KERNEL))) {
		if (f->library == library)
			f->handle.live = false;
	}
	for (m = library->modules; m; m = next) {
		next = m->next;
		module_drop(m);
	}
	free(library->text);
	library->handle.live = false;
	fc_went(FAKECUDA_LIBRARY);
	return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library)
{
	FC_ENTER("cuLibraryUnload", FC_CTX | FC_UNSAFE);
	return fc_leave(&call, library_free(&call, library));
}

static CUresult kernel_of(struct fc_call *call, CUkernel *ret,
			  struct CUlib_st *library, const char *name)
{
	struct CUfunc_st *k, *f;
	struct CUmod_st *m;
	CUresult result;

	if (!fc_handle_ok(library, FC_LIBRARY))
		return fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
				"%p is no library", (void *)library);
	result = module_of(call, library, &m);
	if (result == CUDA_SUCCESS)
		result = function_in(call, m, name, &f);
	if (result != CUDA_SUCCESS)
		return result;
	k = fc_handle_new(FC_KERNEL, NULL);
	if (!k)
		return CUDA_ERROR_OUT_OF_MEMORY;
	k->library = library;
	k->name = f->name;
	*ret = (CUkernel)k;
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *ret, CUlibrary library, const char *name)
{
	FC_ENTER("cuLibraryGetKernel", FC_CTX);
	return fc_leave(&call, kernel_of(&call, ret, library, name));
}

CUresult cuLibraryGetModule(CUmodule *ret, CUlibrary library)
{
	FC_ENTER("cuLibraryGetModule", FC_CTX);
	if (!fc_handle_ok(library, FC_LIBRARY))
		return fc_leave(&call, CUDA_ERROR_INVALID_HANDLE);
	return fc_leave(&call, module_of(&call, library, ret));
}

/* Kernels of libraries may be passed as functions. */
struct CUfunc_st *fc_function(struct fc_call *call, void *handle)
{
	struct CUfunc_st *f = handle;
	struct CUmod_st *m;

	if (fc_handle_ok(handle, FC_KERNEL)) {
		const char *name = f->name;

		if (module_of(call, f->library, &m) == CUDA_SUCCESS &&
		    function_in(call, m, name, &f) == CUDA_SUCCESS)
			return f;
	} else if (fc_handle_ok(handle, FC_FUNCTION)) {
		if (f->handle.ctx == call->ctx)
			return f;
	}
	fc_wrong(call, CUDA_ERROR_INVALID_HANDLE,
		 "%p is no function of this context", handle);
	return NULL;
}

CUresult cuKernelGetFunction(CUfunction *ret, CUkernel kernel)
{
	FC_ENTER("cuKernelGetFunction", FC_CTX);
	*ret = fc_function(&call, kernel);
	return fc_leave(&call, *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}
