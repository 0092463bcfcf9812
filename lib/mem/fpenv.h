/* SPDX-License-Identifier: MIT */
/*
 * The floating-point environment of the thread: default while a kernel runs,
 * then as it was before, flags included.
 */
#ifndef WEIR__FPENV_H
#define WEIR__FPENV_H

#include <stdint.h>

#if defined(__x86_64__)

typedef uint32_t weir__fpenv;

static inline void weir__fpenv_restore(uint32_t mxcsr)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory");
}

static inline uint32_t weir__fpenv_default(void)
{
	uint32_t old;

	__asm__ volatile("stmxcsr %0" : "=m"(old));
	weir__fpenv_restore(0x1f80);
	return old;
}

#elif defined(__aarch64__)

typedef uint64_t weir__fpenv; /* control in the high half, flags in the low */

static inline void weir__fpenv_restore(uint64_t env)
{
	__asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1"
			 :
			 : "r"(env >> 32), "r"(env & 0xffffffff)
			 : "memory");
}

static inline uint64_t weir__fpenv_default(void)
{
	uint64_t control, flags;

	__asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr"
			 : "=r"(control), "=r"(flags));
	weir__fpenv_restore(flags);
	return control << 32 | flags;
}

#else
#include <fenv.h>

typedef fenv_t weir__fpenv;

static inline void weir__fpenv_restore(fenv_t env)
{
	fesetenv(&env);
}

static inline fenv_t weir__fpenv_default(void)
{
	fenv_t old;

	fegetenv(&old);
	fesetenv(FE_DFL_ENV);
	return old;
}
#endif

#endif
