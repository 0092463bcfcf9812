/* SPDX-License-Identifier: MIT */
#include "heap/lock.h"

/*
 * A thread that was woken may find the lock held again. Then it sleeps again.
 * It is still counted in sleepers, so the next unlock wakes a thread.
 */
void weir__lock_wait(struct weir__lock *l)
{
	atomic_fetch_add(&l->sleepers, 1);
	if (l->membarrier)
		weir__sys_membarrier();
	while (!weir__lock_try(l))
		weir__futex_wait(&l->held, 1, INT64_MAX);
	atomic_fetch_sub(&l->sleepers, 1);
}
