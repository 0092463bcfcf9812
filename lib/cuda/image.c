/* SPDX-License-Identifier: MIT */
/*
 * The images in this module, and how they are loaded. An image is code for
 * several GPUs, and PTX, which the driver compiles if no code is for its GPU,
 * or it is older than the code. Both are compressed.
 */
#include "cuda/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "cuda/unpack.h"

#define drv weir__cuda_drv
#define LEAST_GPU 80       /* .target of the PTX: sm_80 */
#define LEAST_DRIVER 11040 /* the first that takes PTX of version 7.4 */
#define PTX_VERSION "7.4"
/* The first that gets code of nvcc 13: code is for drivers of its version. */
#define CODE_DRIVER 13000
#define DEFAULT_SHARED 49152 /* the most that a kernel gets unasked */
#define LOG 160              /* bytes of what the driver's compiler says */

#ifdef WEIR__CUDA_PTX
#ifdef WEIR__CUDA_CUBINS
#define CUBINS(name) ".incbin \"" WEIR__CUDA_CUBINS #name ".cubins\"\n"
#define HAVE_CODE true
#else
#define CUBINS(name) ""
#define HAVE_CODE false
#endif
/* A symbol for each, and one after the PTX. */
#define CONTAIN(name)                                                       \
	__asm__(".pushsection .rodata\n"                                    \
		".hidden weir__cuda_code_" #name "\n"                       \
		".globl weir__cuda_code_" #name "\n"                        \
		"weir__cuda_code_" #name                                    \
		":\n" CUBINS(name) ".hidden weir__cuda_ptx_" #name "\n"     \
				   ".globl weir__cuda_ptx_" #name "\n"      \
				   "weir__cuda_ptx_" #name ":\n"            \
				   ".incbin \"" WEIR__CUDA_PTX #name        \
				   ".ptxz\"\n"                              \
				   ".hidden weir__cuda_ptx_end_" #name "\n" \
				   ".globl weir__cuda_ptx_end_" #name "\n"  \
				   "weir__cuda_ptx_end_" #name ":\n"        \
				   ".byte 0\n"                              \
				   ".popsection\n");                        \
	extern const char weir__cuda_code_##name[]                          \
		__attribute__((visibility("hidden")));                      \
	extern const char weir__cuda_ptx_##name[]                           \
		__attribute__((visibility("hidden")));                      \
	extern const char weir__cuda_ptx_end_##name[]                       \
		__attribute__((visibility("hidden")));
#define IMAGE(name)                                             \
	{ #name, weir__cuda_code_##name, weir__cuda_ptx_##name, \
	  weir__cuda_ptx_end_##name },
#define HAVE_IMAGES true
#else
#define CONTAIN(name)
#define IMAGE(name) { #name, "", "", "" },
#define HAVE_IMAGES false
#define HAVE_CODE false
#endif

/* clang-format off */
WEIR__CUDA_IMAGES(CONTAIN)

static const struct {
	const char *name;
	const char *code; /* only if HAVE_CODE; ends where the PTX starts */
	const char *ptx;
	const char *ptx_end;
} images[] = { WEIR__CUDA_IMAGES(IMAGE) };

#define KERNEL(image, name) { WEIR__CUDA_IMAGE_##image, "weir_kernel_" #name },
static const struct {
	enum weir__cuda_image_id image;
	const char *name;
} kernels[] = { WEIR__CUDA_KERNELS(KERNEL) };
/* clang-format on */

const char *weir__cuda_kernel_name(enum weir__cuda_kernel_id id)
{
	return kernels[id].name;
}

/* Compute capability of the device, as in sm_90: 90; 0: not known. */
static int capability(CUdevice device)
{
	int major, minor;

	if (drv.cuDeviceGetAttribute(
		    &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
		    device) ||
	    drv.cuDeviceGetAttribute(
		    &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
		    device))
		return 0;
	return 10 * major + minor;
}

const char *weir__cuda_image_unfit(CUdevice device, char *text, size_t room)
{
	int gpu = capability(device);

	if (!HAVE_IMAGES)
		snprintf(
			text, room,
			"weir was built without nvcc, so it has no kernels for CUDA devices");
	else if (drv.version < LEAST_DRIVER)
		snprintf(
			text, room,
			"the kernels are PTX " PTX_VERSION
			", which needs a driver of CUDA 11.4; this one is of CUDA %d.%d",
			drv.version / 1000, drv.version % 1000 / 10);
	else if (gpu < LEAST_GPU)
		snprintf(
			text, room,
			"the kernels need a GPU of compute capability 8.0; this one has %d.%d",
			gpu / 10, gpu % 10);
	else
		return NULL;
	return text;
}

/* The driver's result is about the image, and not about the moment. */
static bool is_refusal(CUresult r)
{
	switch (r) {
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
	case CUDA_ERROR_JIT_COMPILATION_DISABLED:
	case CUDA_ERROR_INVALID_SOURCE:
	case CUDA_ERROR_NOT_FOUND:
		return true;
	default:
		return false;
	}
}

/* loaded.lock is held. */
static int refuse(struct weir__cuda *c, CUresult r, const char *image,
		  const char *log)
{
	char words[160];
	int gpu = capability(c->device);

	weir__cuda_note(c, r);
	if (!is_refusal(r))
		return weir__cuda_fail(c, r, "loading the kernels '%s'", image);
	weir__cuda_describe_result((int32_t)r, words, sizeof(words));
	if (!atomic_load(&c->loaded.is_refused))
		snprintf(
			c->loaded.refused, sizeof(c->loaded.refused),
			"the driver (CUDA %d.%d) refuses the kernels '%s' (PTX " PTX_VERSION
			") for this GPU (sm_%d): %s%s%.120s",
			drv.version / 1000, drv.version % 1000 / 10, image, gpu,
			words, *log ? ": " : "", log);
	atomic_store(&c->loaded.is_refused, true);
	return c->host->fail(-EOPNOTSUPP, "%s: %s", c->host->dev_name(c->dev),
			     c->loaded.refused);
}

#ifdef WEIR__CUDA_PTX
static CUresult load_code(enum weir__cuda_image_id id, int gpu, CUmodule *ret)
{
	size_t size = (size_t)(images[id].ptx - images[id].code);
	char *code;
	CUresult r = weir__cuda_unpack_code(images[id].code, size, gpu, &code);

	if (r)
		return r;
	r = drv.cuModuleLoadDataEx(ret, code, 0, NULL, NULL);
	free(code);
	return r;
}

static CUresult load_ptx(enum weir__cuda_image_id id, CUmodule *ret,
			 char log[LOG])
{
	size_t size = (size_t)(images[id].ptx_end - images[id].ptx);
	char *ptx;
	CUresult r = weir__cuda_unpack_ptx(images[id].ptx, size, &ptx);

	if (r)
		return r;
	CUjit_option option[] = { CU_JIT_ERROR_LOG_BUFFER,
				  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES };
	void *value[] = { log, (void *)(uintptr_t)LOG };

	r = drv.cuModuleLoadDataEx(ret, ptx, 2, option, value);
	free(ptx);
	/* It has several lines, and perhaps no end. */
	log[LOG - 1] = '\0';
	for (char *p = log; *p; p++)
		if ((unsigned char)*p < ' ')
			*p = p[1] ? ' ' : '\0';
	return r;
}

static CUresult load_image(struct weir__cuda *c, enum weir__cuda_image_id id,
			   CUmodule *ret, char log[LOG])
{
	CUresult r = CUDA_ERROR_NO_BINARY_FOR_GPU;

	if (HAVE_CODE && drv.version >= CODE_DRIVER)
		r = load_code(id, capability(c->device), ret);
	/* PTX after any other failure: drivers refuse code by many results. */
	if (r && r != CUDA_ERROR_OUT_OF_MEMORY && !weir__cuda_is_fatal(r))
		r = load_ptx(id, ret, log);
	return r;
}
#else
static CUresult load_image(struct weir__cuda *c, enum weir__cuda_image_id id,
			   CUmodule *ret, char log[LOG])
{
	(void)c, (void)id, (void)ret, (void)log;
	return CUDA_ERROR_NO_BINARY_FOR_GPU;
}
#endif

/* loaded.lock is held, and a context is current. */
static int load(struct weir__cuda *c, enum weir__cuda_image_id id)
{
	char log[LOG] = "";
	CUmodule module;

	if (c->loaded.module[id])
		return 0;
	CUresult r = load_image(c, id, &module, log);

	if (r)
		return refuse(c, r, images[id].name, log);
	c->loaded.module[id] = module;
	return 0;
}

/* loaded.lock is held, and a context is current. */
static int kernel_get(struct weir__cuda *c, enum weir__cuda_kernel_id id)
{
	enum weir__cuda_image_id image = kernels[id].image;
	int ret = load(c, image);
	CUfunction kernel;
	CUresult r;

	if (ret < 0)
		return ret;
	r = drv.cuModuleGetFunction(&kernel, c->loaded.module[image],
				    kernels[id].name);
	/* Else the first launch may load it, which can fail or wait then. */
	if (!r && drv.cuFuncLoad)
		r = drv.cuFuncLoad(kernel);
	if (r)
		return refuse(c, r, images[image].name, "");
	c->loaded.kernel[id] = kernel;
	return 0;
}

/* loaded.lock is held, and a context is current. */
static int allow_shared(struct weir__cuda *c, enum weir__cuda_kernel_id id,
			unsigned shared)
{
	CUresult r = drv.cuFuncSetAttribute(
		c->loaded.kernel[id],
		CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);

	return r ? weir__cuda_fail(c, r, "%u bytes of shared memory for '%s'",
				   shared, kernels[id].name)
		 : 0;
}

int weir__cuda_image_kernel(struct weir__cuda *c, enum weir__cuda_kernel_id id,
			    unsigned shared, CUfunction *ret_kernel)
{
	int r = 0;

	pthread_mutex_lock(&c->loaded.lock);
	if (!c->loaded.kernel[id] || shared > DEFAULT_SHARED) {
		r = weir__cuda_enter(c);
		if (r >= 0) {
			if (!c->loaded.kernel[id])
				r = kernel_get(c, id);
			if (r >= 0 && shared > DEFAULT_SHARED)
				r = allow_shared(c, id, shared);
			weir__cuda_leave();
		}
	}
	*ret_kernel = c->loaded.kernel[id];
	pthread_mutex_unlock(&c->loaded.lock);
	return r;
}

void weir__cuda_image_unload(struct weir__cuda *c)
{
	for (unsigned i = 0; i < WEIR__CUDA_N_IMAGES; i++)
		if (c->loaded.module[i] && !atomic_load(&c->lost))
			weir__cuda_note(
				c, drv.cuModuleUnload(c->loaded.module[i]));
}
