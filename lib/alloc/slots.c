/* SPDX-License-Identifier: MIT */
#include "alloc/slots.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "alloc/arena.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

#define MAX_SMALL (2 * WEIR__HUGE_PAGE / WEIR__SLOT_SMALL)

struct weir__slots {
	struct weir *weir;
	struct weir_backend_mem mem; /* arena of all slots; base NULL: none */
	struct weir__slot *slot;
	unsigned n, scarcer_count;
	struct weir__slot *small, *large; /* free */
	pthread_mutex_t lock;             /* guards the rest */
	/*
	 * Free slots that were reserved once, the last used first: [false] has
	 * the large slots, [true] the small ones.
	 */
	struct shared {
		struct weir__slot *first;
		unsigned n, reserved; /* reserved <= n */
	} shared[2];
	size_t bytes;            /* the sum of all slots */
	_Atomic unsigned pinned; /* the number of devices that locked them */
	_Atomic size_t prefaulted;
};

static void list_push(struct weir__slot **list, struct weir__slot *slot)
{
	slot->next = *list;
	*list = slot;
}

/* A quarter of the bytes for small slots, the rest for large ones. */
static void share_out(size_t bytes, size_t chunk, unsigned *ret_small,
		      unsigned *ret_large)
{
	size_t small = bytes / 4 / WEIR__SLOT_SMALL, large;

	small = small > MAX_SMALL ? MAX_SMALL : small ? small : 1;
	large = bytes > small * WEIR__SLOT_SMALL
			? (bytes - small * WEIR__SLOT_SMALL) / chunk
			: 0;
	*ret_small = (unsigned)small;
	*ret_large = large ? (unsigned)large : 1; /* the engine needs one */
}

/*
 * Map memory for @bytes of slots, or for half as many, and so on; at last for
 * none. Without huge pages slots are only slower. A child never needs them.
 */
static int take_arena(struct weir__slots *s, size_t bytes, size_t chunk,
		      unsigned *ret_small, unsigned *ret_large)
{
	struct weir__arena_req req = { .kind = WEIR_MEM_HUGE, .node = -1 };
	int r;

	do {
		share_out(bytes, chunk, ret_small, ret_large);
		req.bytes = *ret_small * (size_t)WEIR__SLOT_SMALL +
			    *ret_large * chunk;
		r = weir__arena_take(s->weir, &req, &s->mem);
		bytes /= 2;
	} while (r == -ENOMEM && *ret_small + *ret_large > 2);
	if (!r)
		weir__arena_hide(&s->mem, true);
	if (r != -ENOMEM || weir__up(req.bytes, WEIR__HUGE_PAGE) >
				    weir__arena_budget_left(s->weir))
		return r;
	*ret_small = *ret_large = 0;
	return 0;
}

int weir__slots_new(struct weir *weir, size_t bytes, size_t chunk,
		    struct weir__slots **ret)
{
	struct weir__slots *s = weir__calloc(1, sizeof(*s));
	unsigned n_small = 0, n_large = 0;
	size_t at = 0;
	int r;

	if (!s)
		return weir__fail(-ENOMEM, "no memory for slots");
	s->weir = weir;
	pthread_mutex_init(&s->lock, NULL);
	r = bytes ? take_arena(s, bytes, chunk, &n_small, &n_large) : 0;
	if (r < 0)
		goto out;
	s->n = n_small + n_large;
	s->scarcer_count = n_small < n_large ? n_small : n_large;
	s->slot = weir__calloc(s->n, sizeof(*s->slot));
	if (!s->slot) {
		r = weir__fail(-ENOMEM, "no memory for %u slots", s->n);
		goto out;
	}
	for (unsigned i = 0; i < s->n; i++) {
		struct weir__slot *slot = &s->slot[i];

		slot->index = i;
		slot->small = i < n_small;
		slot->bytes = slot->small ? WEIR__SLOT_SMALL : chunk;
		slot->addr = s->mem.base + at;
		at += slot->bytes;
		list_push(slot->small ? &s->small : &s->large, slot);
	}
	s->bytes = at;
	*ret = s;
	return 0;
out:
	weir__slots_free(s);
	return r;
}

void weir__slots_free(struct weir__slots *slots)
{
	if (!slots)
		return;
	if (slots->mem.base && slots->pinned)
		weir__arena_leak(slots->weir, &slots->mem);
	else if (slots->mem.base)
		weir__arena_give(slots->weir, &slots->mem);
	pthread_mutex_destroy(&slots->lock);
	weir__free(slots->slot);
	weir__free(slots);
}

static struct weir__slot *list_pop(struct weir__slot **list)
{
	struct weir__slot *slot = *list;

	if (slot)
		*list = slot->next;
	return slot;
}

/* A shared slot that is not reserved. */
static struct weir__slot *take_shared(struct weir__slots *slots, bool small)
{
	struct shared *sh = &slots->shared[small];
	struct weir__slot *slot = NULL;

	pthread_mutex_lock(&slots->lock);
	if (sh->n > sh->reserved) {
		slot = list_pop(&sh->first);
		sh->n--;
	}
	pthread_mutex_unlock(&slots->lock);
	return slot;
}

static void count_prefaulted(struct weir__slots *slots, struct weir__slot *slot)
{
	slot->prefaulted = true;
	atomic_fetch_add_explicit(&slots->prefaulted, slot->bytes,
				  memory_order_relaxed);
}

struct weir__slot *weir__slot_get(struct weir__slots *slots, size_t bytes)
{
	bool small = bytes <= WEIR__SLOT_SMALL;
	struct weir__slot *slot =
		list_pop(small ? &slots->small : &slots->large);

	if (!slot)
		slot = take_shared(slots, small);
	if (slot && !slot->prefaulted) {
		weir__sys_populate(slot->addr, slot->bytes);
		count_prefaulted(slots, slot);
	}
	return slot;
}

/* Add a slot at the end of the list, after those that have been used. */
static void share_slot(struct shared *sh, struct weir__slot *slot)
{
	struct weir__slot **end = &sh->first;

	while (*end)
		end = &(*end)->next;
	*end = slot;
	slot->next = NULL;
	slot->shared = true;
	sh->n++;
}

bool weir__slot_reserve(struct weir__slots *slots, size_t bytes)
{
	bool small = bytes <= WEIR__SLOT_SMALL, can;
	struct shared *sh = &slots->shared[small];
	struct weir__slot *slot = NULL;

	pthread_mutex_lock(&slots->lock);
	if (sh->n == sh->reserved)
		slot = list_pop(small ? &slots->small : &slots->large);
	if (slot)
		share_slot(sh, slot);
	can = sh->n > sh->reserved;
	sh->reserved += can;
	pthread_mutex_unlock(&slots->lock);
	return can;
}

struct weir__slot *weir__slot_take_reserved(struct weir__slots *slots,
					    size_t bytes)
{
	struct shared *sh = &slots->shared[bytes <= WEIR__SLOT_SMALL];
	struct weir__slot *slot;
	bool prefaulted;

	pthread_mutex_lock(&slots->lock);
	slot = list_pop(&sh->first);
	sh->n--;
	sh->reserved--;
	prefaulted = slot->prefaulted;
	pthread_mutex_unlock(&slots->lock);
	if (prefaulted)
		return slot;
	weir__sys_populate(slot->addr, slot->bytes);
	pthread_mutex_lock(&slots->lock);
	if (!slot->prefaulted)
		count_prefaulted(slots, slot);
	pthread_mutex_unlock(&slots->lock);
	return slot;
}

void weir__slot_unreserve(struct weir__slots *slots, size_t bytes)
{
	pthread_mutex_lock(&slots->lock);
	slots->shared[bytes <= WEIR__SLOT_SMALL].reserved--;
	pthread_mutex_unlock(&slots->lock);
}

void weir__slot_put(struct weir__slots *slots, struct weir__slot *slot)
{
	if (!slot->shared) {
		list_push(slot->small ? &slots->small : &slots->large, slot);
		return;
	}
	pthread_mutex_lock(&slots->lock);
	list_push(&slots->shared[slot->small].first, slot);
	slots->shared[slot->small].n++;
	pthread_mutex_unlock(&slots->lock);
}

unsigned weir__slots_count(const struct weir__slots *slots)
{
	return slots->n;
}

unsigned weir__slots_scarcer_count(const struct weir__slots *slots)
{
	return slots->scarcer_count;
}

size_t weir__slots_bytes(const struct weir__slots *slots)
{
	/* Page-locking has backed all slots. */
	if (atomic_load_explicit(&slots->pinned, memory_order_relaxed))
		return slots->bytes;
	return atomic_load_explicit(&slots->prefaulted, memory_order_relaxed);
}

void weir__slots_range(const struct weir__slots *slots, void **ret_addr,
		       size_t *ret_bytes)
{
	*ret_addr = slots->mem.base;
	*ret_bytes = slots->bytes;
}

void weir__slots_pinned(struct weir__slots *slots, bool pinned)
{
	/* The lock waits for a trim that is running. */
	pthread_mutex_lock(&slots->lock);
	slots->pinned += pinned ? 1u : -1u;
	pthread_mutex_unlock(&slots->lock);
}

static void trim_list(struct weir__slots *slots, struct weir__slot *s)
{
	for (; s; s = s->next) {
		if (!s->prefaulted || s->registered)
			continue;
		weir__sys_madvise(s->addr, s->bytes, MADV_DONTNEED);
		s->prefaulted = false;
		atomic_fetch_sub(&slots->prefaulted, s->bytes);
	}
}

void weir__slots_trim(struct weir__slots *slots)
{
	pthread_mutex_lock(&slots->lock);
	if (!slots->pinned) {
		trim_list(slots, slots->large);
		trim_list(slots, slots->small);
		trim_list(slots, slots->shared[false].first);
		trim_list(slots, slots->shared[true].first);
	}
	pthread_mutex_unlock(&slots->lock);
}
