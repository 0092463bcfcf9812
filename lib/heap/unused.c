/* SPDX-License-Identifier: MIT */
/*
 * Memory that heaps have and do not use: it is given back when another
 * allocation of the root fails, and by weir_trim(). The heaps of a root are on
 * a list, which is a part of the root.
 */
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "heap/heap.h"

struct weir__heaps {
	struct weir__part part;
	pthread_mutex_t lock; /* guards what follows; taken last */
	struct weir_heap *first;
	/*
	 * Calls that give back the memory of a heap which is being destroyed:
	 * meanwhile it is in no heap, and not free. [epoch % 2]: calls that
	 * began in this epoch, [1 - epoch % 2]: in the one before.
	 */
	unsigned n_ending[2];
	unsigned epoch;
	pthread_cond_t ended; /* signalled when an n_ending becomes 0 */
	/*
	 * Held by a call that gives back what a heap does not use, so a call
	 * that relieves others finds memory in its heap or freed. A second one,
	 * which waits for it, finds that memory was given back since, and does
	 * not give back more.
	 */
	pthread_mutex_t relieving;
	_Atomic unsigned relieved; /* calls that have given memory back */
};

/*
 * The heap that this thread lets grow. If that fails, no memory is taken from
 * the heap itself, which has tried, nor from other heaps if less would do.
 */
static _Thread_local struct {
	const struct weir_heap *heap;
	bool less_would_do;
} growing;

void weir__heap_growing(const struct weir_heap *h, bool less_would_do)
{
	growing.heap = h;
	growing.less_would_do = less_would_do;
}

static struct weir__heaps *heaps_of(struct weir__part *part)
{
	return weir__container(part, struct weir__heaps, part);
}

/*
 * A visit of all heaps, without the lock while it is at a heap. The heap that
 * is visited is referenced, and stays on the list although it may be destroyed
 * meanwhile: the last visitor removes it then.
 */
struct visit {
	struct weir__heaps *all;
	struct weir_heap *heap; /* NULL: none, or no more */
};

/* The list is locked. */
static void list_remove(struct weir__heaps *all, struct weir_heap *h)
{
	if (h->heaps_next)
		h->heaps_next->heaps_prev = h->heaps_prev;
	if (h->heaps_prev)
		h->heaps_prev->heaps_next = h->heaps_next;
	else
		all->first = h->heaps_next;
}

/* Go to the next heap whose memory is shared with @buft (NULL: host memory). */
static bool visit_next(struct visit *v, bool any, const struct weir_buft *buft)
{
	struct weir_heap *last = v->heap, *h;

	pthread_mutex_lock(&v->all->lock);
	h = last ? last->heaps_next : v->all->first;
	while (h &&
	       (h->delisted || (!any && !weir__buft_shares(h->buft, buft))))
		h = h->heaps_next;
	if (h) {
		h->visitors++;
		weir__refs_add(&h->refs, 1);
	}
	if (last && !--last->visitors && last->delisted)
		list_remove(v->all, last);
	pthread_mutex_unlock(&v->all->lock);
	if (last)
		weir__heap_put_quietly(last);
	v->heap = h;
	return h;
}

/* Leave the heap that is visited. */
static void visit_end(struct visit *v)
{
	struct weir_heap *last = v->heap;

	if (!last)
		return;
	pthread_mutex_lock(&v->all->lock);
	if (!--last->visitors && last->delisted)
		list_remove(v->all, last);
	pthread_mutex_unlock(&v->all->lock);
	weir__heap_put_quietly(last);
}

/*
 * Give back at least @bytes that @h does not use, if there are as many. Queues
 * no markers: that may run functions of the program.
 */
static uint64_t give_back(struct weir_heap *h, uint64_t bytes)
{
	uint64_t reserved;

	weir__lock(&h->root.lock);
	reserved = h->reserved;
	weir__heap_unlock(h);
	if (!reserved)
		return 0;
	weir__caches_flush(h);
	weir__free_events_drain(h);
	return weir__regions_trim(h, reserved > bytes ? reserved - bytes : 0);
}

static struct weir__heaps *heaps_with(const struct weir_heap *h)
{
	return heaps_of(atomic_load(&h->weir->part[WEIR__PART_HEAP]));
}

uint64_t weir__heap_give_back(struct weir_heap *h, uint64_t keep)
{
	struct weir__heaps *all = heaps_with(h);
	uint64_t given;

	pthread_mutex_lock(&all->relieving);
	given = weir__regions_trim(h, keep);
	pthread_mutex_unlock(&all->relieving);
	return given;
}

/*
 * Wait for the memory of heaps whose end has begun, but not for that of heaps
 * whose end begins meanwhile. `relieving` is held, so there is one that waits.
 */
static void await_ends(struct weir__heaps *all)
{
	unsigned last;

	pthread_mutex_lock(&all->lock);
	last = all->epoch++ % 2;
	while (all->n_ending[last])
		pthread_cond_wait(&all->ended, &all->lock);
	pthread_mutex_unlock(&all->lock);
}

static uint64_t heaps_relieve(struct weir__part *part,
			      const struct weir_buft *buft, uint64_t bytes)
{
	struct weir__heaps *all = heaps_of(part);
	unsigned before = atomic_load(&all->relieved);
	struct visit v = { .all = all };
	uint64_t given = 0;

	if (growing.heap && growing.less_would_do)
		return 0;
	pthread_mutex_lock(&all->relieving);
	if (atomic_load(&all->relieved) != before)
		given = bytes;
	while (given < bytes && visit_next(&v, false, buft))
		if (v.heap != growing.heap)
			given += give_back(v.heap, bytes - given);
	if (given)
		atomic_fetch_add(&all->relieved, 1);
	visit_end(&v);
	if (given < bytes)
		await_ends(all);
	pthread_mutex_unlock(&all->relieving);
	return given;
}

/* Trim @h to @keep bytes that are not in use; returns how many are left. */
static uint64_t trim(struct weir_heap *h, uint64_t keep)
{
	uint64_t empty, used;

	weir__caches_flush(h);
	weir__free_events_poll(h, true);
	weir__heap_lock_all(h);
	empty = weir__regions_empty(h);
	used = h->reserved - empty;
	weir__heap_unlock(h);
	if (empty <= keep)
		return empty;
	empty -= weir__heap_give_back(h, used + keep);
	return empty < keep ? empty : keep;
}

static size_t heaps_trim(struct weir__part *part, size_t keep)
{
	struct visit v = { .all = heaps_of(part) };
	uint64_t kept = 0;

	while (visit_next(&v, true, NULL))
		kept += trim(v.heap, keep > kept ? keep - kept : 0);
	return kept;
}

static void heaps_free(struct weir__part *part)
{
	struct weir__heaps *all = heaps_of(part);

	pthread_mutex_destroy(&all->lock);
	pthread_mutex_destroy(&all->relieving);
	pthread_cond_destroy(&all->ended);
	weir__free(all);
}

static int heaps_make(struct weir *weir, struct weir__part **ret_part)
{
	struct weir__heaps *all = weir__calloc(1, sizeof(*all));

	(void)weir;
	if (!all)
		return weir__fail(-ENOMEM, "no memory for the list of heaps");
	all->part.trim = heaps_trim;
	all->part.relieve = heaps_relieve;
	all->part.free = heaps_free;
	pthread_mutex_init(&all->lock, NULL);
	pthread_mutex_init(&all->relieving, NULL);
	pthread_cond_init(&all->ended, NULL);
	*ret_part = &all->part;
	return 0;
}

int weir__heap_list(struct weir_heap *h)
{
	struct weir__part *part;
	struct weir__heaps *all;
	int r = weir__root_part(h->weir, WEIR__PART_HEAP, heaps_make, &part);

	if (r < 0)
		return r;
	all = heaps_of(part);
	pthread_mutex_lock(&all->lock);
	h->heaps_next = all->first;
	if (h->heaps_next)
		h->heaps_next->heaps_prev = h;
	all->first = h;
	h->delisted = false;
	pthread_mutex_unlock(&all->lock);
	return 0;
}

void weir__heap_delist(struct weir_heap *h)
{
	struct weir__heaps *all = heaps_with(h);
	unsigned epoch;

	/* To destroy a heap does not wait for a visit of another thread. */
	pthread_mutex_lock(&all->lock);
	epoch = all->epoch % 2;
	all->n_ending[epoch]++;
	pthread_mutex_unlock(&all->lock);
	give_back(h, UINT64_MAX);
	pthread_mutex_lock(&all->lock);
	h->delisted = true;
	if (!h->visitors)
		list_remove(all, h);
	if (!--all->n_ending[epoch])
		pthread_cond_signal(&all->ended);
	pthread_mutex_unlock(&all->lock);
}
