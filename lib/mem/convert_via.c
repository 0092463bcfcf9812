/* SPDX-License-Identifier: MIT */
/*
 * Conversions by way of F32, some elements at a time: of quantised blocks to
 * F16 and BF16, and of everything but F32 to quantised blocks.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/tensor.h>

#include "mem/convert.h"
#include "mem/dtype_table.h"

/* The elements that are F32 between the two: they stay in the first cache. */
#define VALUES 1024u

#define DTYPES 128

typedef const struct weir_backend_convert *_Atomic known;

/* Conversions are found once, since a search reads long tables. */
static const struct weir_backend_convert *find(known *at, uint32_t from,
					       uint32_t to)
{
	const struct weir_backend_convert *c =
		atomic_load_explicit(at, memory_order_relaxed);

	if (!c) {
		c = weir__convert_find(from, to);
		atomic_store_explicit(at, c, memory_order_relaxed);
	}
	return c;
}

/* Convert @n elements, which are whole blocks. */
static void run(const struct weir_backend_convert *c, void *dst,
		const void *src, size_t n)
{
	c->run(dst, src, n / c->block);
}

static size_t src_bytes(const struct weir_backend_convert *c, size_t n)
{
	return n / c->block * c->src_bytes;
}

static size_t dst_bytes(const struct weir_backend_convert *c, size_t n)
{
	return n / c->block * c->dst_bytes;
}

/* Convert @n elements, which are whole blocks of both dtypes. */
static void by_f32(uint32_t from, uint32_t to, void *dst, const void *src,
		   size_t n)
{
	static known to_f32[DTYPES], from_f32[DTYPES];
	const struct weir_backend_convert *first =
		find(&to_f32[from], from, WEIR_DTYPE_F32);
	const struct weir_backend_convert *second =
		find(&from_f32[to], WEIR_DTYPE_F32, to);
	unsigned char *out = dst;
	const unsigned char *in = src;
	float values[VALUES];

	for (size_t some; n; n -= some) {
		some = n < VALUES ? n : VALUES;
		run(first, values, in, some);
		run(second, out, values, some);
		in += src_bytes(first, some);
		out += dst_bytes(second, some);
	}
}

/* Elements of a unit: the larger of both blocks. */
#define UNIT(from, to)                                              \
	(WEIR__BLOCK_##from > WEIR__BLOCK_##to ? WEIR__BLOCK_##from \
					       : WEIR__BLOCK_##to)

#define FUNCTION(from, to)                                            \
	static void from##_##to(void *dst, const void *src, size_t n) \
	{                                                             \
		by_f32(WEIR_DTYPE_##from, WEIR_DTYPE_##to, dst, src,  \
		       n *UNIT(from, to));                            \
	}

#define ROW(from_, to_)                                                     \
	{ .run = from_##_##to_,                                             \
	  .block = UNIT(from_, to_),                                        \
	  .src_bytes = UNIT(from_, to_) / WEIR__BLOCK_##from_ *             \
		       WEIR__BYTES_##from_,                                 \
	  .dst_bytes =                                                      \
		  UNIT(from_, to_) / WEIR__BLOCK_##to_ * WEIR__BYTES_##to_, \
	  .from = WEIR_DTYPE_##from_,                                       \
	  .to = WEIR_DTYPE_##to_ },

/* clang-format off */
/* The rows of a dtype to itself are never used: weir_convert() copies. */
#define TO_QUANTS(X, from) \
	X(from, Q4_0) X(from, Q8_0) X(from, Q4_K) X(from, Q6_K)
#define FROM_ELEMENTS(X)                                        \
	TO_QUANTS(X, F64) TO_QUANTS(X, F16) TO_QUANTS(X, BF16)  \
	TO_QUANTS(X, F8_E5M2) TO_QUANTS(X, F8_E4M3)             \
	TO_QUANTS(X, F8_E5M2FNUZ) TO_QUANTS(X, F8_E4M3FNUZ)     \
	TO_QUANTS(X, F8_E8M0)

#define QUANT_FUNCTIONS(name, ...) \
	FUNCTION(name, F16) FUNCTION(name, BF16) TO_QUANTS(FUNCTION, name)
#define QUANT_ROWS(name, ...) \
	ROW(name, F16) ROW(name, BF16) TO_QUANTS(ROW, name)
/* clang-format on */

FROM_ELEMENTS(FUNCTION)
WEIR__QUANTISED_DTYPES(QUANT_FUNCTIONS)

static const struct weir_backend_convert list[] = { FROM_ELEMENTS(
	ROW) WEIR__QUANTISED_DTYPES(QUANT_ROWS) };

static bool via_usable(void)
{
	return true;
}

const struct weir__convert_set weir__convert_via = {
	.name = "by way of F32",
	.usable = via_usable,
	.list = list,
	.n = sizeof(list) / sizeof(list[0]),
};
