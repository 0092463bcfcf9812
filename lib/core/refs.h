/* SPDX-License-Identifier: MIT */
/*
 * Counts of references. Only the holder of a reference makes another one, so a
 * holder that reads a count of 1 is alone: the last reference is dropped
 * without an atomic subtraction, which takes longer than the rest of the call.
 * If objects are found in a list that has no references to them, a reference
 * may be made only under a lock that another holder takes before it drops its
 * own.
 */
#ifndef WEIR__REFS_H
#define WEIR__REFS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static inline void weir__refs_add(_Atomic uint32_t *refs, uint32_t n)
{
	atomic_fetch_add_explicit(refs, n, memory_order_relaxed);
}

/*
 * Drop a reference. True: it was the last, and the caller frees the object; it
 * sees what the other holders did before they dropped theirs.
 */
static inline bool weir__refs_drop(_Atomic uint32_t *refs)
{
	return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
	       atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

#endif
