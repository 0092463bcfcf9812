/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "mem/dtype.h"
#include "tap.h"

/* Written down once more, from the formats' own documents. */
static const struct {
	const char *name;
	unsigned bits;
} safetensors[] = {
	{ "BOOL", 8 },        { "U8", 8 },      { "I8", 8 },
	{ "U16", 16 },        { "I16", 16 },    { "U32", 32 },
	{ "I32", 32 },        { "U64", 64 },    { "I64", 64 },
	{ "F16", 16 },        { "BF16", 16 },   { "F32", 32 },
	{ "F64", 64 },        { "C64", 64 },    { "F8_E5M2", 8 },
	{ "F8_E4M3", 8 },     { "F8_E8M0", 8 }, { "F4", 4 },
	{ "F6_E2M3", 6 },     { "F6_E3M2", 6 }, { "F8_E4M3FNUZ", 8 },
	{ "F8_E5M2FNUZ", 8 },
};

static const struct {
	const char *name;
	int number;
	unsigned block, bytes;
} ggml[] = {
	{ "F32", 0, 1, 4 },         { "F16", 1, 1, 2 },
	{ "Q4_0", 2, 32, 18 },      { "Q4_1", 3, 32, 20 },
	{ "Q5_0", 6, 32, 22 },      { "Q5_1", 7, 32, 24 },
	{ "Q8_0", 8, 32, 34 },      { "Q8_1", 9, 32, 36 },
	{ "Q2_K", 10, 256, 84 },    { "Q3_K", 11, 256, 110 },
	{ "Q4_K", 12, 256, 144 },   { "Q5_K", 13, 256, 176 },
	{ "Q6_K", 14, 256, 210 },   { "Q8_K", 15, 256, 292 },
	{ "IQ2_XXS", 16, 256, 66 }, { "IQ2_XS", 17, 256, 74 },
	{ "IQ3_XXS", 18, 256, 98 }, { "IQ1_S", 19, 256, 50 },
	{ "IQ4_NL", 20, 32, 18 },   { "IQ3_S", 21, 256, 110 },
	{ "IQ2_S", 22, 256, 82 },   { "IQ4_XS", 23, 256, 136 },
	{ "I8", 24, 1, 1 },         { "I16", 25, 1, 2 },
	{ "I32", 26, 1, 4 },        { "I64", 27, 1, 8 },
	{ "F64", 28, 1, 8 },        { "IQ1_M", 29, 256, 56 },
	{ "BF16", 30, 1, 2 },       { "TQ1_0", 34, 256, 54 },
	{ "TQ2_0", 35, 256, 66 },   { "MXFP4", 39, 32, 17 },
	{ "NVFP4", 40, 64, 36 },    { "Q1_0", 41, 128, 18 },
	{ "Q2_0", 42, 64, 18 },
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void of_safetensors(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < COUNT(safetensors); i++) {
		const char *name = safetensors[i].name;
		struct weir_dtype_info d = { .size = sizeof(d) };

		weir_dtype_info(weir__dtype_safetensors(name, strlen(name)),
				&d);
		ok(d.block && !strcmp(d.name, name) &&
			   d.bytes * 8 == d.block * safetensors[i].bits,
		   "%s of safetensors has %u bits", name, safetensors[i].bits);
	}
	for (unsigned i = 0; i < 256; i++)
		n += weir__dtype(i) && weir__dtype(i)->safetensors;
	is_int(n, COUNT(safetensors),
	       "no other dtype has a name of safetensors");
	is_int(weir__dtype_safetensors("bf16", 4), WEIR_DTYPE_NONE,
	       "names of dtypes are compared with their case");
	is_int(weir__dtype_safetensors("F3", 2), WEIR_DTYPE_NONE,
	       "names of dtypes are compared as a whole");
	is_int(weir__dtype_safetensors("Q4_0", 4), WEIR_DTYPE_NONE,
	       "a name of a GGML dtype is not one of safetensors");
}

static void of_ggml(void)
{
	unsigned n = 0;

	for (size_t i = 0; i < COUNT(ggml); i++) {
		struct weir_dtype_info d = { .size = sizeof(d) };

		weir_dtype_info(weir__dtype_ggml((unsigned)ggml[i].number), &d);
		ok(d.block == ggml[i].block && d.bytes == ggml[i].bytes &&
			   !strcmp(d.name, ggml[i].name),
		   "%s, %d of GGML, has %u elements in %u bytes", ggml[i].name,
		   ggml[i].number, ggml[i].block, ggml[i].bytes);
	}
	for (unsigned i = 0; i < 1000; i++)
		n += weir__dtype_ggml(i) != WEIR_DTYPE_NONE;
	is_int(n, COUNT(ggml), "no other number is a dtype of GGML");
}

static void sane(void)
{
	struct weir_dtype_info d = { .size = sizeof(d) };
	unsigned wrong = 0;

	for (unsigned i = 0; i < 256; i++) {
		const struct weir_dtype_info *row = weir__dtype(i);

		if (row)
			wrong += !row->align || row->align & (row->align - 1) ||
				 row->bytes % row->align;
	}
	is_int(wrong, 0,
	       "alignments of dtypes are powers of two that divide the block");
	is_err(weir_dtype_info(WEIR_DTYPE_NONE, &d), -EINVAL,
	       "weir_dtype_info: 0 is not a dtype", "0 is not a dtype");
	is_err(weir_dtype_info((enum weir_dtype)65, &d), -EINVAL, "65",
	       "a number in a gap of the table is not a dtype");
	is_err(weir_dtype_info((enum weir_dtype)0x7fffffff, &d), -EINVAL,
	       "2147483647", "a number beyond the table is not a dtype");
	d.size = 0;
	is_err(weir_dtype_info(WEIR_DTYPE_F32, &d), -EINVAL, ".size",
	       "weir_dtype_info refuses a result without a size");
}

int main(void)
{
	plan(COUNT(safetensors) + 4 + COUNT(ggml) + 1 + 5);
	of_safetensors();
	of_ggml();
	sane();
	return done_testing();
}
