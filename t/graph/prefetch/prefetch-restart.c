/* SPDX-License-Identifier: MIT */
/*
 * A prefetch fails while passes are started. A thread stops after it has
 * unlocked a lock of the prefetcher, at each of its unlocks in turn, until
 * others have done what they can meanwhile.
 */
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "prefetching.h"
#include "files.h"
#include "mem/buf.h"
#include "streams.h"

static pthread_t starter; /* the thread that starts passes */
static bool stop_starter; /* it stops, and not the others */
static _Atomic int until; /* unlocks before a thread stops; 0: none does */
static _Atomic bool stopped, go_on;
static _Atomic uintptr_t feeders; /* the prefetcher whose locks count */
static _Thread_local bool busy;   /* the unlocks of a test do not count */
static struct weir__prefetch_list *list;
static struct weir__arrivals *first;
static struct run run[4];
static unsigned char *whole; /* the contents of the file */

static bool has_failed(void)
{
	return atomic_load(&first->failed);
}

/*
 * The first run goes on: its prefetcher reads on, and finds the file too short.
 */
static void let_fail(void)
{
	advance(&run[0], run[0].prefetch.base + PARTS / 2);
}

/*
 * Until the prefetch has failed. If the prefetcher is being moved all the time,
 * this thread moves it: then the others can do nothing more.
 */
static void await_failure(void)
{
	unsigned moving = 0;

	while (!has_failed() && moving < 100) {
		usleep(1000);
		pthread_mutex_lock(&prefetcher->lock);
		moving = prefetcher->moving ? moving + 1 : 0;
		pthread_mutex_unlock(&prefetcher->lock);
	}
}

/* Nothing that is in the buffer now is a part of the file. */
static void file_restore(void)
{
	if (has_failed())
		memset(list->buffer->buf->mem.base, 0xee, list->buffer->bytes);
	files_bytes("restart.bin", whole, PARTS * PART);
}

static void stop_here(void)
{
	busy = true;
	if (stop_starter) {
		let_fail();
		await_failure();
		file_restore();
	} else {
		atomic_store(&stopped, true);
		while (!atomic_load(&go_on))
			usleep(100);
	}
	busy = false;
}

static bool counts(const pthread_mutex_t *lock)
{
	uintptr_t f = atomic_load(&feeders), at = (uintptr_t)lock;

	return !busy && atomic_load(&until) > 0 &&
	       (at == f + offsetof(struct weir__prefetcher, lock) ||
		at == f + offsetof(struct weir__prefetcher, store_lock)) &&
	       (pthread_equal(pthread_self(), starter) != 0) == stop_starter;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	bool counted = counts(lock);
	int r = __real_pthread_mutex_unlock(lock);

	if (counted && atomic_fetch_sub(&until, 1) == 1)
		stop_here();
	return r;
}

static void *other_thread(void *arg)
{
	let_fail();
	return arg;
}

/*
 * Start a run while another thread has stopped, or after the prefetch has
 * failed.
 */
static void start_meanwhile(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, other_thread, NULL))
		bail("pthread_create");
	while (!has_failed() && !atomic_load(&stopped))
		usleep(100);
	file_restore();
	start(&run[1], list);
	atomic_store(&go_on, true);
	pthread_join(other, NULL);
}

/*
 * The buffer has no room for all entries, so the last one is not there yet.
 * Those that arrive have their bytes, and none arrives after one that has
 * failed. False: an entry is wrong.
 */
static bool run_holds(struct run *r, bool *ret_failed)
{
	struct weir__timeline *tl = &r->prefetch.arrivals->timeline;

	*ret_failed = false;
	if (state(r, list->n - 1) == 1)
		return false;
	for (uint32_t k = 0; k < list->n; k++) {
		if (weir__timeline_block(tl, r->prefetch.first + k, -1) < 0)
			*ret_failed = true;
		else if (*ret_failed || !steps(r, k, k + 1))
			return false;
	}
	end(r);
	return true;
}

/* Stop at unlock @n. False: there is no such unlock. */
static bool restarts(int n, bool *held)
{
	struct weir_file *before = file;
	bool failed, reached;

	file = file_new("restart.bin");
	begin(6 * (PART + 4096));
	list = list_new(0, PARTS);
	atomic_store(&stopped, false);
	atomic_store(&go_on, false);
	start(&run[0], list);
	settle();
	first = run[0].prefetch.arrivals;
	atomic_store(&feeders, (uintptr_t)prefetcher);
	files_truncate("restart.bin", 0);
	atomic_store(&until, n);
	if (stop_starter)
		start(&run[1], list);
	else
		start_meanwhile();
	reached = atomic_exchange(&until, 0) <= 0;
	if (!reached && stop_starter)
		stop_here();
	end(&run[0]);
	start(&run[2], list);
	*held = run_holds(&run[1], &failed) && run_holds(&run[2], &failed);
	start(&run[3], list);
	*held = *held && run_holds(&run[3], &failed) && !failed;
	list_end(list);
	for (unsigned i = 0; i < 4; i++)
		finish(&run[i]);
	weir__prefetcher_free(prefetcher);
	weir_file_close(file);
	file = before;
	return reached;
}

static void stops(bool at_start, int most, const char *what)
{
	bool held = true, reached = true;
	int n = 1;

	stop_starter = at_start;
	for (; held && reached && n <= most; n++)
		reached = restarts(n, &held);
	ok(held, "%s: no pass gets other bytes (unlock %d)", what, n - 1);
	ok(n > 4, "%s: the thread stops several times", what);
}

int main(void)
{
	plan(4);
	starter = pthread_self();
	prefetching_begin();
	whole = malloc(PARTS * PART);
	for (unsigned i = 0; i < PARTS; i++)
		pattern(whole + i * PART, PART, i);
	stops(true, 30,
	      "a prefetch fails while a thread that starts a pass stops");
	stops(false, 12,
	      "passes start while a thread that moves a prefetcher stops");
	free(whole);
	weir_file_close(file);
	weir_close(weir);
	return done_testing();
}
