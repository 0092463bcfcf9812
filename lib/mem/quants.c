/* SPDX-License-Identifier: MIT */
/*
 * The conversions of GGML's quantised dtypes. To F16 and BF16 it is by way of
 * F32, a few blocks at a time, by the best kernel for these.
 */
#include "mem/quants.h"

#include <stdatomic.h>

#include <weir/tensor.h>

#include "dev/host.h"
#include "mem/convert.h"

/* F32 between the two conversions: they stay in the first cache. */
#define VALUES 1024u

typedef void run_fn(void *dst, const void *src, size_t n);

/* Finding the kernel asks the CPU, which takes long on a virtual machine. */
static run_fn *narrow_fn(enum weir_dtype to)
{
	static run_fn *_Atomic found[2];
	run_fn *_Atomic *at = &found[to == WEIR_DTYPE_BF16];
	run_fn *run = atomic_load_explicit(at, memory_order_relaxed);

	if (!run) {
		run = weir__convert_find(WEIR_DTYPE_F32, to)->run;
		atomic_store_explicit(at, run, memory_order_relaxed);
	}
	return run;
}

/* @n blocks of @block elements and @bytes bytes, to a dtype of 2 bytes. */
static void narrow(run_fn *to_f32, size_t block, size_t bytes,
		   enum weir_dtype to, void *dst, const void *src, size_t n)
{
	run_fn *from_f32 = narrow_fn(to);
	unsigned char *out = dst;
	const unsigned char *in = src;
	float values[VALUES];

	while (n) {
		size_t some = n < VALUES / block ? n : VALUES / block;

		to_f32(values, in, some);
		from_f32(out, values, some * block);
		in += some * bytes;
		out += some * block * 2;
		n -= some;
	}
}

#define NARROW(name, block, bytes)                                             \
	static void name##_f16(void *dst, const void *src, size_t n)           \
	{                                                                      \
		narrow(weir__quant_##name, block, bytes, WEIR_DTYPE_F16, dst,  \
		       src, n);                                                \
	}                                                                      \
                                                                               \
	static void name##_bf16(void *dst, const void *src, size_t n)          \
	{                                                                      \
		narrow(weir__quant_##name, block, bytes, WEIR_DTYPE_BF16, dst, \
		       src, n);                                                \
	}
WEIR__QUANTS(NARROW)

#define ROW(run_, name, to_, block_, bytes_, to_bytes) \
	{ .run = run_,                                 \
	  .block = block_,                             \
	  .src_bytes = bytes_,                         \
	  .dst_bytes = block_ * to_bytes,              \
	  .from = WEIR_DTYPE_##name,                   \
	  .to = WEIR_DTYPE_##to_ },
#define ROWS(name, block, bytes)                            \
	ROW(weir__quant_##name, name, F32, block, bytes, 4) \
	ROW(name##_f16, name, F16, block, bytes, 2)         \
	ROW(name##_bf16, name, BF16, block, bytes, 2)
static const struct weir_backend_convert list[] = { WEIR__QUANTS(ROWS) };

static bool quants_usable(void)
{
	return true;
}

const uint16_t *weir__dtype_grid(uint32_t dtype)
{
	switch (dtype) {
	case WEIR_DTYPE_IQ1_S:
	case WEIR_DTYPE_IQ1_M:
		return weir__grid_iq1;
	case WEIR_DTYPE_IQ2_XXS:
		return weir__grid_iq2_xxs;
	case WEIR_DTYPE_IQ2_XS:
		return weir__grid_iq2_xs;
	case WEIR_DTYPE_IQ2_S:
		return weir__grid_iq2_s;
	case WEIR_DTYPE_IQ3_XXS:
		return weir__grid_iq3_xxs;
	case WEIR_DTYPE_IQ3_S:
		return weir__grid_iq3_s;
	default:
		return NULL;
	}
}

const struct weir__convert_set weir__convert_quants = {
	.name = "blocks",
	.usable = quants_usable,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
};
