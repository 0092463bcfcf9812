/* SPDX-License-Identifier: MIT */
#include "heap/threads.h"

#include <pthread.h>
#include <stdatomic.h>

static _Atomic bool place_taken[WEIR__THREADS];
/*
 * Not initial-exec, which would need room for the library's thread-locals in
 * programs that open it by dlopen(3).
 */
_Thread_local uintptr_t weir__own_place;
static pthread_key_t place_key;
static bool place_key_made;

/* The thread ends. */
static void place_give(void *arg)
{
	weir__own_place = 0;
	atomic_store_explicit(&place_taken[(uintptr_t)arg - 1], false,
			      memory_order_release);
}

static void place_init(void)
{
	place_key_made = pthread_key_create(&place_key, place_give) == 0;
}

bool weir__place_take(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uintptr_t i = 0;

	pthread_once(&once, place_init);
	while (i < WEIR__THREADS && atomic_exchange(&place_taken[i], true))
		i++;
	if (i == WEIR__THREADS)
		return false;
	if (!place_key_made ||
	    pthread_setspecific(place_key, (void *)(i + 1)) != 0) {
		atomic_store(&place_taken[i], false);
		return false;
	}
	weir__own_place = i + 1;
	return true;
}
