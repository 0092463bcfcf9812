/* SPDX-License-Identifier: MIT */
/* Floating-point environments, for tests of conversions. */
#ifndef ENVS_H
#define ENVS_H

#include <fenv.h>
#include <stdint.h>

/* The floating-point environments in which a thread may call. */
#ifdef __x86_64__
/* Default; flush and denormals-are-zero; rounding modes; all traps. */
static const uint32_t envs_all[] = {
	0x1f80, 0x9fc0, 0x3f80, 0x5f80, 0x7f80, 0
};

static inline void envs_set(uint32_t env)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(env) : "memory");
}

static inline uint32_t envs_get(void)
{
	uint32_t env;

	__asm__ volatile("stmxcsr %0" : "=m"(env) : : "memory");
	return env;
}
#else
static const uint32_t envs_all[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD,
				     FE_TOWARDZERO };

static inline void envs_set(uint32_t env)
{
	feclearexcept(FE_ALL_EXCEPT);
	fesetround((int)env);
}

static inline uint32_t envs_get(void)
{
	return (uint32_t)(fegetround() | fetestexcept(FE_ALL_EXCEPT));
}
#endif

#endif
