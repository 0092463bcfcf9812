/* SPDX-License-Identifier: MIT */
/*
 * Places of threads. Each thread that uses a heap has one while it lives, the same in
 * all heaps: h->thread has its caches there. With the place the next thread gets
 * these caches, and what they keep.
 */
#ifndef WEIR__HEAP_THREADS_H
#define WEIR__HEAP_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__THREADS 128u /* places */

/* 1 + this thread's place; 0: it has none. */
extern _Thread_local uintptr_t weir__own_place;

/* Get a place for this thread. False: more threads live than there are places. */
bool weir__place_take(void);

#endif
