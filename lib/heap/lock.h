/* SPDX-License-Identifier: MIT */
/*
 * The lock of a shard. Most shards have one thread, which takes the lock in
 * each call that its cache cannot answer. So unlocking takes no atomic
 * instruction: the thread that finds the lock held pays for both.
 *
 *	holder:	held = 0; if (sleepers) wake one
 *	other:	sleepers++; membarrier(2); while (held) sleep; sleepers--
 *
 * The holder's store to held may not be visible yet when it reads sleepers.
 * membarrier(2) makes each thread of the process execute a full barrier: either
 * the store came before it, and the other thread finds the lock free, or the
 * holder reads sleepers after it, and wakes the other. Where the system refuses
 * membarrier(2), the holder executes the barrier itself. As
 * pthread_mutex_lock(3) it prefers no thread, and a thread may not take it
 * twice.
 */
#ifndef WEIR__HEAP_LOCK_H
#define WEIR__HEAP_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/sys.h"

/* At first all members are 0, membarrier excepted. */
struct weir__lock {
	_Atomic uint32_t held; /* 0 or 1; a futex */
	_Atomic uint32_t sleepers;
	bool membarrier; /* weir__sys_membarrier_register() has returned 0 */
};

static inline bool weir__lock_try(struct weir__lock *l)
{
	uint32_t held = 0;

	return atomic_compare_exchange_strong_explicit(
		&l->held, &held, 1, memory_order_acquire, memory_order_relaxed);
}

/* lock.c: sleep until the lock is taken. */
void weir__lock_wait(struct weir__lock *l);

/* True: another thread held it meanwhile. */
static inline bool weir__lock(struct weir__lock *l)
{
	if (weir__lock_try(l))
		return false;
	weir__lock_wait(l);
	return true;
}

static inline void weir__unlock(struct weir__lock *l)
{
	if (l->membarrier) {
		atomic_store_explicit(&l->held, 0, memory_order_release);
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_store(&l->held, 0);
	}
	if (atomic_load(&l->sleepers))
		weir__futex_wake(&l->held, 1);
}

#endif
