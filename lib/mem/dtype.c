/* SPDX-License-Identifier: MIT */
#include "mem/dtype.h"

#include <string.h>

#include "core/error.h"
#include "mem/dtype_table.h"

#define ROW(dtype, block_, bytes_, align_, ggml_, safetensors_)          \
	[WEIR_DTYPE_##dtype] = { .size = sizeof(struct weir_dtype_info), \
				 .name = #dtype,                         \
				 .block = block_,                        \
				 .bytes = bytes_,                        \
				 .align = align_,                        \
				 .ggml = ggml_,                          \
				 .safetensors = safetensors_ },
#define SAFETENSORS(name, block, bytes, align, ggml) \
	ROW(name, block, bytes, align, ggml, 1)
#define QUANTISED(name, block, bytes, align) \
	ROW(name, block, bytes, align, WEIR_DTYPE_##name - WEIR_DTYPE_GGML, 0)

static const struct weir_dtype_info table[] = { WEIR__SAFETENSORS_DTYPES(
	SAFETENSORS) WEIR__QUANTISED_DTYPES(QUANTISED) };
#define ROWS (sizeof(table) / sizeof(table[0]))

const struct weir_dtype_info *weir__dtype(uint32_t dtype)
{
	return dtype < ROWS && table[dtype].name ? &table[dtype] : NULL;
}

enum weir_dtype weir__dtype_safetensors(const char *name, size_t len)
{
	for (uint32_t i = 0; i < ROWS; i++)
		if (table[i].safetensors && strlen(table[i].name) == len &&
		    !memcmp(table[i].name, name, len))
			return (enum weir_dtype)i;
	return WEIR_DTYPE_NONE;
}

enum weir_dtype weir__dtype_ggml(uint32_t number)
{
	if (number < ROWS - WEIR_DTYPE_GGML &&
	    table[WEIR_DTYPE_GGML + number].name)
		return (enum weir_dtype)(WEIR_DTYPE_GGML + number);
	for (uint32_t i = 0; i < WEIR_DTYPE_GGML; i++)
		if (table[i].name && table[i].ggml >= 0 &&
		    (uint32_t)table[i].ggml == number)
			return (enum weir_dtype)i;
	return WEIR_DTYPE_NONE;
}

int weir_dtype_info(enum weir_dtype dtype, struct weir_dtype_info *ret_info)
{
	const struct weir_dtype_info *info = weir__dtype(dtype);

	WEIR__ENTER();
	if (!info)
		return weir__fail(-EINVAL, "%u is not a dtype",
				  (unsigned)dtype);
	return weir__info_out(ret_info, info, sizeof(*info));
}
