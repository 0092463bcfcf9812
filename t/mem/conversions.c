/* SPDX-License-Identifier: MIT */
#include "conversions.h"

#include <fenv.h>
#include <stdint.h>
#include <string.h>

#include "tap.h"

#define GUARD 32u      /* bytes on each side of a result */
#define MOST 9216u     /* bytes of a result */
#define UNTOUCHED 0xa5 /* in the guards */

/* The floating-point environments in which a thread may call. */
#ifdef __x86_64__
/* Default; flush and denormals-are-zero; rounding modes; all traps. */
static const uint32_t envs[] = { 0x1f80, 0x9fc0, 0x3f80, 0x5f80, 0x7f80, 0 };

static void env_set(uint32_t env)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(env) : "memory");
}

static uint32_t env_get(void)
{
	uint32_t env;

	__asm__ volatile("stmxcsr %0" : "=m"(env) : : "memory");
	return env;
}
#else
static const uint32_t envs[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD,
				 FE_TOWARDZERO };

static void env_set(uint32_t env)
{
	feclearexcept(FE_ALL_EXCEPT);
	fesetround((int)env);
}

static uint32_t env_get(void)
{
	return (uint32_t)(fegetround() | fetestexcept(FE_ALL_EXCEPT));
}
#endif

size_t conversion_errors(const struct weir_backend_convert *c,
			 const unsigned char *src, size_t n, size_t at)
{
	static unsigned char dst[MOST + 3 * GUARD], want[MOST];
	size_t bytes = n * c->dst_bytes, all = GUARD + at + bytes + GUARD;
	unsigned char *got = dst + GUARD + at;
	size_t errors;

	if (bytes > MOST || at >= GUARD)
		bail("%zu bytes, %zu off, are too many", bytes, at);
	for (size_t i = 0; i < n; i++)
		c->run(want + i * c->dst_bytes, src + i * c->src_bytes, 1);
	memset(dst, UNTOUCHED, all);
	c->run(got, src, n);
	errors = memcmp(got, want, bytes) != 0;
	memset(got, UNTOUCHED, bytes);
	for (size_t i = 0; i < all; i++)
		errors += dst[i] != UNTOUCHED;
	return errors;
}

void conversion_envs(const struct weir_backend_convert *c,
		     const unsigned char *src, size_t n, unsigned char *got,
		     unsigned char *want, bool *ret_same, bool *ret_kept)
{
	uint32_t before = env_get();

	*ret_same = *ret_kept = true;
	c->run(want, src, n);
	for (size_t i = 0; i < sizeof(envs) / sizeof(*envs); i++) {
		uint32_t after;

		env_set(envs[i]);
		c->run(got, src, n);
		after = env_get();
		env_set(before);
		*ret_same &= !memcmp(got, want, n * c->dst_bytes);
		*ret_kept &= after == envs[i];
	}
}
