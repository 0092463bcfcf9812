/* SPDX-License-Identifier: MIT */
/*
 * Touching ahead: threads that back fresh memory with pages before reads
 * arrive in it, because a first touch costs more than the read does and would
 * otherwise happen inside the submitting call.
 *
 * A touch covers one range of addresses, in order. It is at most AHEAD steps
 * ahead of the addresses that readers have asked for, so that a load that is
 * cancelled has not touched the rest.
 */
#ifndef WEIR__ALLOC_TOUCH_H
#define WEIR__ALLOC_TOUCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir;
struct weir__touch;

/*
 * Start touching [addr, addr + bytes), of which @touched bytes (NULL: 0) are
 * known to be backed already; *@touched is raised as it goes on. @progress is
 * called on the touching threads whenever another step is ready.
 */
int weir__touch_start(struct weir *weir, void *addr, size_t bytes,
		      _Atomic size_t *touched, unsigned threads,
		      void (*progress)(void *arg), void *arg,
		      struct weir__touch **ret_touch);
/* All bytes below @end are backed, or never will be. Asks for more. */
bool weir__touch_ready(struct weir__touch *touch, const void *end);
/*
 * Back all of [addr, addr + bytes) by several threads, and wait for them. On
 * return *@touched says how much is backed.
 */
void weir__touch_all(struct weir *weir, void *addr, size_t bytes,
		     _Atomic size_t *touched);
/* Stop, join and free; returns the time spent, ns, of all threads. NULL: 0. */
int64_t weir__touch_stop(struct weir__touch *touch);

#endif
