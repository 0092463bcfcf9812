/* SPDX-License-Identifier: MIT */
/*
 * Touching ahead: threads back fresh memory with pages before reads arrive in
 * it. A first touch costs more than the read does, and would otherwise happen
 * inside the call that submits the read.
 *
 * A touch covers ranges of addresses in the order in which readers get to them,
 * each from its beginning on. It runs at most AHEAD bytes ahead of what readers
 * have asked for, so that a cancelled load does not pay for the rest.
 */
#ifndef WEIR__ALLOC_TOUCH_H
#define WEIR__ALLOC_TOUCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir;
struct weir__touch;

struct weir__touch_range {
	void *addr;
	size_t bytes;
	/*
	 * The first *touched bytes (NULL: none) are known to be backed. Grows
	 * as the touch goes on.
	 */
	_Atomic size_t *touched;
};

/*
 * Start touching the @n ranges, which are copied. The touching threads call
 * @progress whenever another step is ready.
 */
int weir__touch_start(struct weir *weir, const struct weir__touch_range *range,
		      size_t n, unsigned threads, void (*progress)(void *arg),
		      void *arg, struct weir__touch **ret_touch);
/*
 * Are all bytes of range @i below @end backed, or given up? If not, asks for
 * them: progress is called when more is ready. Any thread.
 */
bool weir__touch_ready(struct weir__touch *touch, size_t i, const void *end);
/*
 * Back all of [addr, addr + bytes) by several threads, and wait for that. If no
 * thread can be started, *@touched stays as it is.
 */
void weir__touch_all(struct weir *weir, void *addr, size_t bytes,
		     _Atomic size_t *touched);
/* Stop, join and free; returns the time spent, ns, of all threads. NULL: 0. */
int64_t weir__touch_stop(struct weir__touch *touch);

#endif
