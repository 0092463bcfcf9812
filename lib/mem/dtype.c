/* SPDX-License-Identifier: MIT */
#include "mem/dtype.h"

#include <string.h>

#include "core/error.h"

#define ROW(dtype_, name_, block_, bytes_, align_, ggml_, safetensors_)   \
	[WEIR_DTYPE_##dtype_] = { .size = sizeof(struct weir_dtype_info), \
				  .name = name_,                          \
				  .block = block_,                        \
				  .bytes = bytes_,                        \
				  .align = align_,                        \
				  .ggml = ggml_,                          \
				  .safetensors = safetensors_ }
/* A type of safetensors, with its number in GGML or -1. */
#define PLAIN(name, bytes, align, ggml) \
	ROW(name, #name, 1, bytes, align, ggml, 1)
#define PACKED(name, block, bytes) ROW(name, #name, block, bytes, 1, -1, 1)
/* GGML's quantised types: the alignment is that of the scales in a block. */
#define GGML(name, block, bytes, align)       \
	ROW(name, #name, block, bytes, align, \
	    WEIR_DTYPE_##name - WEIR_DTYPE_GGML, 0)

static const struct weir_dtype_info table[] = {
	/* clang-format off */
	PLAIN(BOOL, 1, 1, -1),
	PLAIN(U8, 1, 1, -1),
	PLAIN(I8, 1, 1, 24),
	PLAIN(U16, 2, 2, -1),
	PLAIN(I16, 2, 2, 25),
	PLAIN(U32, 4, 4, -1),
	PLAIN(I32, 4, 4, 26),
	PLAIN(U64, 8, 8, -1),
	PLAIN(I64, 8, 8, 27),
	PLAIN(F16, 2, 2, 1),
	PLAIN(BF16, 2, 2, 30),
	PLAIN(F32, 4, 4, 0),
	PLAIN(F64, 8, 8, 28),
	PLAIN(C64, 8, 4, -1),
	PLAIN(F8_E5M2, 1, 1, -1),
	PLAIN(F8_E4M3, 1, 1, -1),
	PLAIN(F8_E8M0, 1, 1, -1),
	PLAIN(F8_E4M3FNUZ, 1, 1, -1),
	PLAIN(F8_E5M2FNUZ, 1, 1, -1),
	PACKED(F6_E2M3, 4, 3),
	PACKED(F6_E3M2, 4, 3),
	PACKED(F4, 2, 1),

	GGML(Q4_0, 32, 18, 2),
	GGML(Q4_1, 32, 20, 4),
	GGML(Q5_0, 32, 22, 2),
	GGML(Q5_1, 32, 24, 4),
	GGML(Q8_0, 32, 34, 2),
	GGML(Q8_1, 32, 36, 4),
	GGML(Q2_K, 256, 84, 4),
	GGML(Q3_K, 256, 110, 2),
	GGML(Q4_K, 256, 144, 4),
	GGML(Q5_K, 256, 176, 4),
	GGML(Q6_K, 256, 210, 2),
	GGML(Q8_K, 256, 292, 4),
	GGML(IQ2_XXS, 256, 66, 2),
	GGML(IQ2_XS, 256, 74, 2),
	GGML(IQ3_XXS, 256, 98, 2),
	GGML(IQ1_S, 256, 50, 2),
	GGML(IQ4_NL, 32, 18, 2),
	GGML(IQ3_S, 256, 110, 2),
	GGML(IQ2_S, 256, 82, 2),
	GGML(IQ4_XS, 256, 136, 2),
	GGML(IQ1_M, 256, 56, 2),
	GGML(TQ1_0, 256, 54, 2),
	GGML(TQ2_0, 256, 66, 2),
	GGML(MXFP4, 32, 17, 1),
	GGML(NVFP4, 64, 36, 1),
	GGML(Q1_0, 128, 18, 2),
	GGML(Q2_0, 64, 18, 2),
	/* clang-format on */
};
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
