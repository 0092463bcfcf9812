/* SPDX-License-Identifier: MIT */
/* Types; linking; what a program can ask about a module and its kernels. */
#include <string.h>

#include "machine.h"

static const struct {
	const char *name;
	unsigned char bytes;
} types[TYPES] = {
	[T_NONE] = { "", 0 },         [T_PRED] = { "pred", 1 },
	[T_B8] = { "b8", 1 },         [T_B16] = { "b16", 2 },
	[T_B32] = { "b32", 4 },       [T_B64] = { "b64", 8 },
	[T_B128] = { "b128", 16 },    [T_U8] = { "u8", 1 },
	[T_U16] = { "u16", 2 },       [T_U32] = { "u32", 4 },
	[T_U64] = { "u64", 8 },       [T_S8] = { "s8", 1 },
	[T_S16] = { "s16", 2 },       [T_S32] = { "s32", 4 },
	[T_S64] = { "s64", 8 },       [T_F16] = { "f16", 2 },
	[T_F16X2] = { "f16x2", 4 },   [T_BF16] = { "bf16", 2 },
	[T_BF16X2] = { "bf16x2", 4 }, [T_TF32] = { "tf32", 4 },
	[T_F32] = { "f32", 4 },       [T_F64] = { "f64", 8 },
};

unsigned ptx_type_bytes(enum ptx_type type)
{
	return types[type].bytes;
}

/* T_NONE: it is no type. */
enum ptx_type ptx_type_of(const char *text, size_t n)
{
	int i;

	for (i = 1; i < TYPES; i++) {
		if (strlen(types[i].name) == n &&
		    !memcmp(types[i].name, text, n))
			return (enum ptx_type)i;
	}
	return T_NONE;
}

size_t ptx_module_variables(struct ptx_module *module,
			    struct ptx_variable **ret)
{
	*ret = module->shown;
	return module->n_shown;
}

static int decode_all(struct ptx_module *module, ptx_refused *refused,
		      void *arg, char sentence[PTX_SENTENCE])
{
	struct ptx_kernel *kernel;
	size_t i;

	for (i = 0; i < module->n_functions; i++) {
		if (!module->functions[i].entry ||
		    !module->functions[i].defined)
			continue;
		kernel = ptx_decode(module, &module->functions[i], refused, arg,
				    sentence);
		if (!kernel)
			return -1;
		module->kernels = ptx_more(module, module->kernels,
					   module->n_kernels, sizeof(kernel));
		module->kernels[module->n_kernels++] = kernel;
	}
	return 0;
}

int ptx_module_link(struct ptx_module *module, char sentence[PTX_SENTENCE])
{
	size_t i, shown = 0;

	for (i = 0; i < module->n_globals; i++) {
		if (module->globals[i].space != S_SHARED)
			module->globals[i].offset =
				module->shown[shown++].address;
	}
	return decode_all(module, NULL, NULL, sentence);
}

int ptx_module_survey(struct ptx_module *module, ptx_refused *refused,
		      void *arg, size_t *ret_instructions,
		      char sentence[PTX_SENTENCE])
{
	size_t i;

	*ret_instructions = 0;
	if (decode_all(module, refused, arg, sentence) < 0)
		return -1;
	for (i = 0; i < module->n_functions; i++)
		*ret_instructions += module->functions[i].n_body;
	return 0;
}

void ptx_module_version(const struct ptx_module *module, unsigned *ret_version,
			unsigned *ret_target)
{
	*ret_version = module->version;
	*ret_target = module->target;
}

struct ptx_kernel *ptx_module_kernel(struct ptx_module *module,
				     const char *name)
{
	size_t i;

	for (i = 0; i < module->n_kernels; i++) {
		if (!strcmp(module->kernels[i]->function->name, name))
			return module->kernels[i];
	}
	return NULL;
}

size_t ptx_module_kernels(const struct ptx_module *module)
{
	return module->n_kernels;
}

struct ptx_kernel *ptx_module_kernel_at(struct ptx_module *module, size_t i)
{
	return module->kernels[i];
}

void ptx_kernel_info(const struct ptx_kernel *kernel,
		     struct ptx_kernel_info *ret)
{
	const struct function *f = kernel->function;

	*ret = (struct ptx_kernel_info){
		.name = f->name,
		.params = f->n_params,
		.param_bytes = kernel->params,
		.shared = kernel->shared_true,
		.local = kernel->local_window,
		.constant = kernel->constant,
		.registers = kernel->live,
		.max_threads = f->max_threads,
	};
	memcpy(ret->required, f->required, sizeof(ret->required));
}

int ptx_kernel_param(const struct ptx_kernel *kernel, size_t i,
		     size_t *ret_offset, size_t *ret_size)
{
	const struct function *f = kernel->function;

	if (i >= f->n_params)
		return -1;
	*ret_offset = f->params[i].offset;
	*ret_size = f->params[i].size;
	return 0;
}
