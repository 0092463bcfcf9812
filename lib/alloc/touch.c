/* SPDX-License-Identifier: MIT */
#include "alloc/touch.h"

#include <errno.h>
#include <pthread.h>

#include "core/clock.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/trace.h"
#include "core/util.h"

#define STEP (16u << 20)
#define AHEAD (2ull * STEP)
#define MAX_THREADS 8u

struct weir__touch {
	struct weir *weir; /* for traces; the starter references it */
	unsigned char *base;
	size_t bytes;
	_Atomic size_t *touched; /* belongs to the starter; may be NULL */
	void (*progress)(void *arg);
	void *arg;
	_Atomic uint64_t frontier; /* all bytes below it are ready */
	_Atomic uint64_t wanted;   /* highest offset asked for */
	_Atomic uint32_t sleepers;
	_Atomic bool stop;
	_Atomic int64_t spent;

	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t more;
	uint64_t next;              /* offset of the step to take next */
	uint64_t refused;           /* lowest step that the kernel refused */
	uint64_t busy[MAX_THREADS]; /* step of each thread; UINT64_MAX: none */
	unsigned n;
	pthread_t thread[MAX_THREADS];
};

/* The lock is held. The frontier is the lowest step that is not ready. */
static void advance_frontier(struct weir__touch *t)
{
	uint64_t low = t->next;

	for (unsigned i = 0; i < t->n; i++)
		if (t->busy[i] < low)
			low = t->busy[i];
	atomic_store(&t->frontier, low);
	if (low > t->refused)
		low = t->refused;
	if (t->touched && low > atomic_load(t->touched))
		atomic_store(t->touched, low);
}

/*
 * Sleep until readers are near the next step, then take it. False: all steps
 * are taken, or the touch is stopped. Called with the lock, which it releases
 * while it sleeps.
 */
static bool take_step(struct weir__touch *t, unsigned me, uint64_t *ret_at)
{
	atomic_fetch_add(&t->sleepers, 1);
	while (!atomic_load(&t->stop) && t->next < t->bytes &&
	       t->next >= atomic_load(&t->wanted) + AHEAD)
		pthread_cond_wait(&t->more, &t->lock);
	atomic_fetch_sub(&t->sleepers, 1);
	if (atomic_load(&t->stop) || t->next >= t->bytes)
		return false;
	*ret_at = t->busy[me] = t->next;
	t->next += STEP;
	if (t->next > t->bytes)
		t->next = t->bytes;
	return true;
}

struct start {
	struct weir__touch *t;
	unsigned me;
};

static void *touch_main(void *arg)
{
	struct start *start = arg;
	struct weir__touch *t = start->t;
	unsigned me = start->me;
	uint64_t at;

	weir__free(start);
	pthread_mutex_lock(&t->lock);
	while (take_step(t, me, &at)) {
		uint64_t n = t->bytes - at < STEP ? t->bytes - at : STEP;
		int64_t begun, traced = weir__trace_now(t->weir);
		int r;

		pthread_mutex_unlock(&t->lock);
		begun = weir__now();
		/* If the kernel refuses a page, the read to it fails. */
		r = weir__sys_populate(t->base + at, n);
		atomic_fetch_add(&t->spent, weir__now() - begun);
		weir__trace_span(t->weir, WEIR__TRACK_TOUCH, 0, me, "touch",
				 traced, at, n);
		pthread_mutex_lock(&t->lock);
		t->busy[me] = UINT64_MAX;
		if (r < 0 && at < t->refused)
			t->refused = at;
		advance_frontier(t);
		pthread_mutex_unlock(&t->lock);
		t->progress(t->arg);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static void start_threads(struct weir__touch *t, unsigned threads)
{
	uint64_t steps = (t->bytes - t->next + STEP - 1) / STEP;

	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < threads && i < MAX_THREADS && i < steps; i++) {
		struct start *start = weir__malloc(sizeof(*start));

		if (!start)
			break;
		*start = (struct start){ t, t->n };
		t->busy[t->n] = UINT64_MAX;
		if (weir__thread_start(&t->thread[t->n], "weir-touch",
				       touch_main, start)) {
			weir__free(start);
			break;
		}
		t->n++;
	}
	/* Without a thread the reads touch the memory themselves. */
	if (!t->n)
		atomic_store(&t->frontier, t->bytes);
	pthread_mutex_unlock(&t->lock);
}

int weir__touch_start(struct weir *weir, void *addr, size_t bytes,
		      _Atomic size_t *touched, unsigned threads,
		      void (*progress)(void *arg), void *arg,
		      struct weir__touch **ret_touch)
{
	struct weir__touch *t = weir__calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->weir = weir;
	t->base = addr;
	t->bytes = bytes;
	t->touched = touched;
	t->progress = progress;
	t->arg = arg;
	t->refused = UINT64_MAX;
	t->next = touched ? atomic_load(touched) : 0;
	t->next = t->next < bytes ? weir__down(t->next, WEIR__PAGE) : bytes;
	atomic_init(&t->frontier, t->next);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->more, NULL);
	if (t->next < bytes)
		start_threads(t, threads);
	*ret_touch = t;
	return 0;
}

static void wake_sleepers(struct weir__touch *t)
{
	if (!atomic_load(&t->sleepers))
		return;
	pthread_mutex_lock(&t->lock);
	pthread_cond_broadcast(&t->more);
	pthread_mutex_unlock(&t->lock);
}

bool weir__touch_ready(struct weir__touch *touch, const void *end)
{
	uint64_t to = (uint64_t)((const unsigned char *)end - touch->base);
	uint64_t wanted;

	if (to > touch->bytes)
		to = touch->bytes;
	wanted = atomic_load(&touch->wanted);
	while (to > wanted)
		if (atomic_compare_exchange_weak(&touch->wanted, &wanted, to)) {
			wake_sleepers(touch);
			break;
		}
	return to <= atomic_load(&touch->frontier);
}

int64_t weir__touch_stop(struct weir__touch *touch)
{
	int64_t spent;

	if (!touch)
		return 0;
	pthread_mutex_lock(&touch->lock);
	atomic_store(&touch->stop, true);
	pthread_cond_broadcast(&touch->more);
	pthread_mutex_unlock(&touch->lock);
	for (unsigned i = 0; i < touch->n; i++)
		pthread_join(touch->thread[i], NULL);
	spent = atomic_load(&touch->spent);
	pthread_mutex_destroy(&touch->lock);
	pthread_cond_destroy(&touch->more);
	weir__free(touch);
	return spent;
}

static void step_done(void *arg)
{
	_Atomic uint32_t *steps = arg;

	atomic_fetch_add(steps, 1);
	weir__futex_wake(steps, 1);
}

void weir__touch_all(struct weir *weir, void *addr, size_t bytes,
		     _Atomic size_t *touched)
{
	unsigned char *end = (unsigned char *)addr + bytes;
	_Atomic uint32_t steps = 0;
	struct weir__touch *t;
	uint32_t seen;

	if (weir__touch_start(weir, addr, bytes, touched, weir__cpus(),
			      step_done, &steps, &t) < 0)
		return;
	do
		seen = atomic_load(&steps);
	while (!weir__touch_ready(t, end) &&
	       weir__futex_wait(&steps, seen, INT64_MAX) <= 0);
	weir__touch_stop(t);
}
