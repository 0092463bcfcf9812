/* SPDX-License-Identifier: MIT */
/* The portable set of loops over vectors, and the choice of a set. */
#include "kernels/vec.h"

#include <stdatomic.h>
#include <string.h>

#define LANES 4
#define VECTORS 2
#define SWAP_PAIRS 1, 0, 3, 2
#define TARGET
#define NAME(x) base_##x
#include "kernels/vec.inc"

static bool base_usable(void)
{
	return true;
}

const struct weir__vec weir__vec_base = { .name = "portable",
					  .usable = base_usable,
					  VEC_MEMBERS };

static const struct weir__vec *choose(void)
{
#ifdef __x86_64__
	if (weir__vec_avx512.usable())
		return &weir__vec_avx512;
	if (weir__vec_avx2.usable())
		return &weir__vec_avx2;
#endif
	return &weir__vec_base;
}

/* Threads that come first may choose at the same time, and choose the same. */
const struct weir__vec *weir__vec(void)
{
	static const struct weir__vec *_Atomic chosen;
	const struct weir__vec *vec =
		atomic_load_explicit(&chosen, memory_order_relaxed);

	if (!vec) {
		vec = choose();
		atomic_store_explicit(&chosen, vec, memory_order_relaxed);
	}
	return vec;
}
