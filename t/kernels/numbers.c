/* SPDX-License-Identifier: MIT */
#include "numbers.h"

#include "tap.h"

static uint64_t seed = 1;

uint32_t random_bits(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 32);
}

float random_float(void)
{
	return (float)(int32_t)random_bits() / 2147483648.0f;
}

struct weir_dtype_info info_of(enum weir_dtype dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	if (weir_dtype_info(dtype, &info) < 0)
		bail("%s", weir_error());
	return info;
}
