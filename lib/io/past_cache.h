/* SPDX-License-Identifier: MIT */
#ifndef WEIR__IO_PAST_CACHE_H
#define WEIR__IO_PAST_CACHE_H

#include <stddef.h>

/*
 * memcpy() with stores that go past the CPU's cache, where there are such: out of a
 * slot, whose lines then stay in the cache for the next read to it. What is copied
 * is too large to stay there.
 */
void weir__copy_past_cache(void *dst, const void *src, size_t n);

#endif
