/* SPDX-License-Identifier: MIT */
#include "draws.h"

#include <stdlib.h>

#include "tap.h"

static uint64_t seed;

uint64_t number_from(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

void draws_begin(void)
{
	seed = number_from("WEIR_T_SEED", 88172645463325252ull);
	diag("WEIR_T_SEED is %llu", (unsigned long long)seed);
}

uint32_t draw(uint32_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)((seed >> 11) % n);
}
