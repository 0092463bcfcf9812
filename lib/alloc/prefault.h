/* SPDX-License-Identifier: MIT */
/*
 * Prefaulting ahead: threads back fresh memory with pages before reads arrive
 * in it. A first touch costs more than the read does, and would otherwise
 * happen inside the call that submits the read.
 *
 * A prefault covers ranges of addresses in the order in which readers get to
 * them, each from its beginning on. It runs at most AHEAD bytes ahead of what
 * readers have asked for, so that a cancelled load does not pay for the rest.
 */
#ifndef WEIR__ALLOC_PREFAULT_H
#define WEIR__ALLOC_PREFAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir;
struct weir__prefault;

struct weir__prefault_range {
	void *addr;
	size_t bytes;
	/*
	 * The first *backed bytes (NULL: none) are known to be backed. The
	 * prefault raises it.
	 */
	size_t *backed;
};

/*
 * Start prefaulting the @n ranges, which are copied. The prefaulting threads
 * call @progress whenever another step is ready.
 */
int weir__prefault_start(struct weir *weir,
			 const struct weir__prefault_range *range, size_t n,
			 unsigned threads, void (*progress)(void *arg),
			 void *arg, struct weir__prefault **ret_prefault);
/*
 * True if all bytes of range @i below @end are backed, or given up. If they are
 * not, this call asks for them, and progress is called when more is ready. Any
 * thread.
 */
bool weir__prefault_ready(struct weir__prefault *prefault, size_t i,
			  const void *end);
/*
 * Back all of [addr, addr + bytes) by several threads, and wait for that. If no
 * thread can be started, *@backed stays as it is.
 */
void weir__prefault_all(struct weir *weir, void *addr, size_t bytes,
			size_t *backed);
/* Stop, join and free; returns the time spent, ns, of all threads. NULL: 0. */
int64_t weir__prefault_stop(struct weir__prefault *prefault);

#endif
