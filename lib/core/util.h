/* SPDX-License-Identifier: MIT */
/* Arithmetic and sizes that every folder uses. */
#ifndef WEIR__UTIL_H
#define WEIR__UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The smallest page, the unit of direct reads; and a transparent huge page. */
#define WEIR__PAGE ((size_t)4096)
#define WEIR__HUGE_PAGE ((size_t)2 << 20)

/*
 * Fetch the cache line at @p for a write that follows soon, so that several
 * cache misses overlap. Compilers emit prefetchw only if the target is known to
 * support it. Every x86-64 CPU since 2006 accepts the instruction.
 */
static inline void weir__fetch_to_write(const void *p)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* The object of @type whose @member is at @ptr. */
#define weir__container(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* True if the product or sum does not fit; *ret has its low bits. */
static inline bool weir__mul_over(uint64_t a, uint64_t b, uint64_t *ret)
{
	return __builtin_mul_overflow(a, b, ret);
}

static inline bool weir__add_over(uint64_t a, uint64_t b, uint64_t *ret)
{
	return __builtin_add_overflow(a, b, ret);
}

/* @a is a power of two; the caller knows that n + a does not wrap. */
static inline uint64_t weir__up(uint64_t n, uint64_t a)
{
	return (n + a - 1) & ~(a - 1);
}

static inline uint64_t weir__down(uint64_t n, uint64_t a)
{
	return n & ~(a - 1);
}

/*
 * A hash of @x, each bit of which depends on each bit of @x: the finaliser of
 * splitmix64 (Steele, Lea and Flood, 2014).
 */
static inline uint64_t weir__mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

#endif
