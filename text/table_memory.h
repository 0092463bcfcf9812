/* SPDX-License-Identifier: MIT */
#ifndef TEXT_TABLE_MEMORY_H
#define TEXT_TABLE_MEMORY_H

#include <stdlib.h>
#include <sys/mman.h>

#define MEMORY_HUGE (2u << 20)

/*
 * Memory for a table, in huge pages where it is large and the system has some:
 * look-ups in random places then miss the TLB less. Not cleared. Freed by
 * free().
 */
static inline void *memory_table(size_t bytes)
{
	void *memory;

	if (bytes < MEMORY_HUGE)
		return malloc(bytes ? bytes : 1);
	if (posix_memalign(&memory, MEMORY_HUGE, bytes))
		return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

#endif
