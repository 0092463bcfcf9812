/* SPDX-License-Identifier: MIT */
#include "io/owner.h"

#include "core/sys.h"

bool weir__owner_take_notifications(struct weir__owner *o)
{
	/*
	 * The next call, or release, sees a notification that is missed here.
	 */
	if (!weir__owner_is_notified(o))
		return false;
	atomic_fetch_and_explicit(&o->word, ~(uint32_t)WEIR__OWNER_NOTIFIED,
				  memory_order_acquire);
	return true;
}

bool weir__owner_release(struct weir__owner *o)
{
	uint32_t word = WEIR__OWNER_THREAD;

	return atomic_compare_exchange_strong_explicit(&o->word, &word,
						       WEIR__OWNER_NONE,
						       memory_order_release,
						       memory_order_relaxed);
}

void weir__owner_acquire(struct weir__owner *o)
{
	uint32_t word = atomic_load_explicit(&o->word, memory_order_acquire);

	while ((word & WEIR__OWNER_STATE) != WEIR__OWNER_THREAD) {
		uint32_t next = (word & WEIR__OWNER_STATE) == WEIR__OWNER_NONE
					? WEIR__OWNER_THREAD |
						  (word & WEIR__OWNER_NOTIFIED)
					: word | WEIR__OWNER_WANTED;

		if (word == next) { /* WANTED already */
			weir__futex_wait(&o->word, word, INT64_MAX);
			word = atomic_load_explicit(&o->word,
						    memory_order_acquire);
		} else if (atomic_compare_exchange_weak_explicit(
				   &o->word, &word, next, memory_order_acquire,
				   memory_order_acquire)) {
			word = next;
		}
	}
}

enum weir__owner_given weir__owner_give_back(struct weir__owner *o,
					     bool to_thread)
{
	uint32_t word = atomic_load_explicit(&o->word, memory_order_relaxed);
	uint32_t next;
	bool wanted;

	do {
		wanted = (word & WEIR__OWNER_STATE) == WEIR__OWNER_WANTED;
		next = wanted || to_thread
			       ? WEIR__OWNER_THREAD |
					 (word & WEIR__OWNER_NOTIFIED)
			       : WEIR__OWNER_NONE;
		if (next == WEIR__OWNER_NONE && (word & WEIR__OWNER_NOTIFIED))
			return WEIR__OWNER_KEPT;
	} while (!atomic_compare_exchange_weak_explicit(&o->word, &word, next,
							memory_order_release,
							memory_order_relaxed));
	if (wanted)
		weir__futex_wake(&o->word, 1);
	else if (to_thread)
		return WEIR__OWNER_WAKE;
	return WEIR__OWNER_GIVEN;
}
