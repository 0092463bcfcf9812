/* SPDX-License-Identifier: MIT */
#include "alloc/prefault.h"

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

struct range {
	unsigned char *base;
	size_t bytes;
	size_t *backed;            /* belongs to the starter; may be NULL */
	_Atomic uint64_t frontier; /* all bytes below it are ready */
	_Atomic uint64_t wanted;   /* highest offset asked for */
	uint64_t next;             /* offset of the step to take next */
	uint64_t refused;          /* lowest step that the kernel refused */
};

/* A step that a thread prefaults. */
struct step {
	struct range *range; /* NULL: none */
	uint64_t at, n;
};

struct weir__prefault {
	struct weir *weir; /* the starter references it */
	void (*progress)(void *arg);
	void *arg;
	_Atomic uint32_t sleepers;
	_Atomic bool stop;
	_Atomic int64_t spent;
	_Atomic size_t asked; /* readers have asked for ranges below this */

	/* Guards the rest; frontier and wanted are read without it. */
	pthread_mutex_t lock;
	pthread_cond_t more;
	size_t first; /* all steps of the ranges before it are taken */
	struct step busy[MAX_THREADS];
	unsigned n;
	pthread_t thread[MAX_THREADS];
	size_t n_ranges;
	struct range range[];
};

/* Set the frontier to the lowest step that is not ready. With the lock. */
static void advance_frontier(struct weir__prefault *t, struct range *r)
{
	uint64_t low = r->next;

	for (unsigned i = 0; i < t->n; i++)
		if (t->busy[i].range == r && t->busy[i].at < low)
			low = t->busy[i].at;
	atomic_store(&r->frontier, low);
	if (low > r->refused)
		low = r->refused;
	if (r->backed && low > __atomic_load_n(r->backed, __ATOMIC_SEQ_CST))
		__atomic_store_n(r->backed, low, __ATOMIC_SEQ_CST);
}

/*
 * Choose the range whose next step is taken; NULL: none now. It is the first
 * range in which a reader waits. If no reader waits, it is the first range that
 * has steps left, as long as less than AHEAD bytes that no reader has asked for
 * are taken, in this range and those before it. Range t->asked, which follows
 * those that readers have asked for, is the last one.
 */
static struct range *range_next(struct weir__prefault *t)
{
	const size_t asked = atomic_load(&t->asked);
	struct range *next = NULL;
	uint64_t ahead = 0;

	for (size_t i = t->first; i < t->n_ranges && i <= asked; i++) {
		struct range *r = &t->range[i];
		uint64_t wanted = atomic_load(&r->wanted);
		bool whole = r->next >= r->bytes;

		if (!whole && r->next < wanted)
			return r;
		ahead += r->next - (wanted < r->next ? wanted : r->next);
		if (!next && !whole && ahead < AHEAD)
			next = r;
	}
	return next;
}

/*
 * Sleep until readers are near the next step, then take it. False: all steps
 * are taken, or the prefault is stopped. Called with the lock, which it
 * releases while it sleeps.
 */
static bool take_step(struct weir__prefault *t, struct step *step)
{
	struct range *r = NULL;

	atomic_fetch_add(&t->sleepers, 1);
	while (!atomic_load(&t->stop) && t->first < t->n_ranges &&
	       !(r = range_next(t)))
		pthread_cond_wait(&t->more, &t->lock);
	atomic_fetch_sub(&t->sleepers, 1);
	if (atomic_load(&t->stop) || t->first == t->n_ranges)
		return false;
	*step = (struct step){ .range = r, .at = r->next, .n = STEP };
	if (step->n > r->bytes - r->next)
		step->n = r->bytes - r->next;
	r->next += step->n;
	while (t->first < t->n_ranges &&
	       t->range[t->first].next >= t->range[t->first].bytes)
		t->first++;
	if (t->first == t->n_ranges)
		pthread_cond_broadcast(&t->more);
	return true;
}

struct start {
	struct weir__prefault *t;
	unsigned me;
};

static void *prefault_main(void *arg)
{
	struct start *start = arg;
	struct weir__prefault *t = start->t;
	struct step *step = &t->busy[start->me];
	unsigned me = start->me;

	weir__free(start);
	weir__cpus_enter(&t->weir->io_cpus);
	pthread_mutex_lock(&t->lock);
	while (take_step(t, step)) {
		struct range *range = step->range;
		int64_t begun, traced = weir__trace_now(t->weir);
		int r;

		pthread_mutex_unlock(&t->lock);
		begun = weir__now();
		/* If the kernel refuses a page, the read to it fails. */
		r = weir__sys_populate(range->base + step->at, step->n);
		atomic_fetch_add(&t->spent, weir__now() - begun);
		weir__trace_span(t->weir, WEIR__TRACK_PREFAULT, 0, me,
				 "prefault", traced, step->at, step->n);
		pthread_mutex_lock(&t->lock);
		if (r < 0 && step->at < range->refused)
			range->refused = step->at;
		step->range = NULL;
		advance_frontier(t, range);
		pthread_mutex_unlock(&t->lock);
		t->progress(t->arg);
		pthread_mutex_lock(&t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* Start up to @threads threads, no more than there are steps. */
static void start_threads(struct weir__prefault *t, unsigned threads,
			  uint64_t steps)
{
	pthread_mutex_lock(&t->lock);
	for (unsigned i = 0; i < threads && i < MAX_THREADS && i < steps; i++) {
		struct start *start = weir__malloc(sizeof(*start));

		if (!start)
			break;
		*start = (struct start){ t, t->n };
		if (weir__thread_start(&t->thread[t->n], "weir-prefault",
				       prefault_main, start)) {
			weir__free(start);
			break;
		}
		t->n++;
	}
	/* Without a thread the reads prefault the memory themselves. */
	for (size_t i = 0; !t->n && i < t->n_ranges; i++)
		atomic_store(&t->range[i].frontier, t->range[i].bytes);
	pthread_mutex_unlock(&t->lock);
}

/* Begin with what is backed already. Returns the number of steps. */
static uint64_t range_init(struct range *r,
			   const struct weir__prefault_range *from)
{
	uint64_t next =
		from->backed ? __atomic_load_n(from->backed, __ATOMIC_SEQ_CST)
			     : 0;

	next = next < from->bytes ? weir__down(next, WEIR__PAGE) : from->bytes;
	r->base = from->addr;
	r->bytes = from->bytes;
	r->backed = from->backed;
	r->refused = UINT64_MAX;
	r->next = next;
	atomic_init(&r->frontier, next);
	return (r->bytes - next + STEP - 1) / STEP;
}

int weir__prefault_start(struct weir *weir,
			 const struct weir__prefault_range *range, size_t n,
			 unsigned threads, void (*progress)(void *arg),
			 void *arg, struct weir__prefault **ret_prefault)
{
	struct weir__prefault *t =
		weir__calloc(1, sizeof(*t) + n * sizeof(t->range[0]));
	uint64_t steps = 0;

	if (!t)
		return -ENOMEM;
	t->weir = weir;
	t->progress = progress;
	t->arg = arg;
	t->n_ranges = n;
	for (size_t i = 0; i < n; i++)
		steps += range_init(&t->range[i], &range[i]);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->more, NULL);
	start_threads(t, threads, steps);
	*ret_prefault = t;
	return 0;
}

/* A reader asks for range @i for the first time. */
static void raise_asked(struct weir__prefault *t, size_t i)
{
	size_t asked = atomic_load(&t->asked);

	while (asked < i + 1 &&
	       !atomic_compare_exchange_weak(&t->asked, &asked, i + 1))
		;
}

static void wake_sleepers(struct weir__prefault *t)
{
	if (!atomic_load(&t->sleepers))
		return;
	pthread_mutex_lock(&t->lock);
	pthread_cond_broadcast(&t->more);
	pthread_mutex_unlock(&t->lock);
}

bool weir__prefault_ready(struct weir__prefault *prefault, size_t i,
			  const void *end)
{
	struct range *r = &prefault->range[i];
	uint64_t to = (uint64_t)((const unsigned char *)end - r->base);
	uint64_t wanted;

	if (to > r->bytes)
		to = r->bytes;
	wanted = atomic_load(&r->wanted);
	if (!wanted)
		raise_asked(prefault, i);
	while (to > wanted)
		if (atomic_compare_exchange_weak(&r->wanted, &wanted, to)) {
			wake_sleepers(prefault);
			break;
		}
	return to <= atomic_load(&r->frontier);
}

int64_t weir__prefault_stop(struct weir__prefault *prefault)
{
	int64_t spent;

	if (!prefault)
		return 0;
	pthread_mutex_lock(&prefault->lock);
	atomic_store(&prefault->stop, true);
	pthread_cond_broadcast(&prefault->more);
	pthread_mutex_unlock(&prefault->lock);
	for (unsigned i = 0; i < prefault->n; i++)
		pthread_join(prefault->thread[i], NULL);
	spent = atomic_load(&prefault->spent);
	pthread_mutex_destroy(&prefault->lock);
	pthread_cond_destroy(&prefault->more);
	weir__free(prefault);
	return spent;
}

static void step_done(void *arg)
{
	_Atomic uint32_t *steps = arg;

	atomic_fetch_add(steps, 1);
	weir__futex_wake(steps, 1);
}

void weir__prefault_all(struct weir *weir, void *addr, size_t bytes,
			size_t *backed)
{
	const struct weir__prefault_range range = { addr, bytes, backed };
	unsigned char *end = (unsigned char *)addr + bytes;
	_Atomic uint32_t steps = 0;
	struct weir__prefault *t;
	uint32_t seen;

	if (weir__prefault_start(weir, &range, 1,
				 weir__cpus_count(&weir->io_cpus), step_done,
				 &steps, &t) < 0)
		return;
	do
		seen = atomic_load(&steps);
	while (!weir__prefault_ready(t, 0, end) &&
	       weir__futex_wait(&steps, seen, INT64_MAX) <= 0);
	weir__prefault_stop(t);
}
