/* SPDX-License-Identifier: MIT */
#include "alloc/slots.h"

#include <errno.h>
#include <sys/mman.h>

#include "sys.h"

#define HUGE_PAGE (2u << 20)
#define MAX_SMALL (2 * HUGE_PAGE / WEIR__SLOT_SMALL)

struct weir__slots {
	unsigned char *map; /* as mapped, to be unmapped */
	size_t map_bytes;
	struct weir__slot *slot;
	unsigned n;
	struct weir__slot *small, *large; /* free */
	unsigned char *base;              /* of the first slot */
	size_t bytes;                     /* of all */
	unsigned pinned;                  /* by so many devices */
	_Atomic size_t touched;
};

static void add(struct weir__slot **list, struct weir__slot *slot)
{
	slot->next = *list;
	*list = slot;
}

static int map(struct weir__slots *s, size_t bytes, unsigned char **ret_base)
{
	void *p;
	int r;

	s->map_bytes = bytes + HUGE_PAGE;
	r = weir__sys_map(s->map_bytes, -1, 0, PROT_READ | PROT_WRITE, &p);
	if (r < 0)
		return r;
	s->map = p;
	*ret_base = (unsigned char *)weir__up((uintptr_t)p, HUGE_PAGE);
	/* Hints both: without them it works, slower. */
	weir__sys_madvise(*ret_base, bytes, MADV_HUGEPAGE);
	weir__sys_madvise(s->map, s->map_bytes, MADV_DONTFORK);
	return 0;
}

/* A quarter of the budget for small slots, the rest for large ones. */
static void share_out(size_t budget, size_t chunk, unsigned *ret_small,
		      unsigned *ret_large)
{
	size_t small = budget / 4 / WEIR__SLOT_SMALL, large;

	small = small > MAX_SMALL ? MAX_SMALL : small ? small : 1;
	large = budget > small * WEIR__SLOT_SMALL
			? (budget - small * WEIR__SLOT_SMALL) / chunk
			: 0;
	*ret_small = (unsigned)small;
	*ret_large = large ? (unsigned)large : 1; /* the least that works */
}

int weir__slots_new(size_t budget, size_t chunk, struct weir__slots **ret)
{
	size_t at = 0;
	unsigned n_small, n_large;
	struct weir__slots *s;
	unsigned char *base;
	int r;

	share_out(budget, chunk, &n_small, &n_large);
	s = weir__calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->n = n_small + n_large;
	s->slot = weir__calloc(s->n, sizeof(*s->slot));
	r = s->slot ? map(s,
			  n_small * (size_t)WEIR__SLOT_SMALL + n_large * chunk,
			  &base)
		    : -ENOMEM;
	if (r < 0) {
		weir__slots_free(s);
		return r;
	}
	for (unsigned i = 0; i < s->n; i++) {
		struct weir__slot *slot = &s->slot[i];

		slot->index = i;
		slot->small = i < n_small;
		slot->bytes = slot->small ? WEIR__SLOT_SMALL : chunk;
		slot->addr = base + at;
		at += slot->bytes;
		add(slot->small ? &s->small : &s->large, slot);
	}
	s->base = base;
	s->bytes = at;
	*ret = s;
	return 0;
}

void weir__slots_free(struct weir__slots *slots)
{
	if (!slots)
		return;
	if (slots->map && !slots->pinned)
		weir__sys_unmap(slots->map, slots->map_bytes);
	weir__free(slots->slot);
	weir__free(slots);
}

struct weir__slot *weir__slot_get(struct weir__slots *slots, size_t bytes)
{
	struct weir__slot **list = bytes <= WEIR__SLOT_SMALL ? &slots->small
							     : &slots->large;
	struct weir__slot *slot = *list;

	if (!slot)
		return NULL;
	*list = slot->next;
	if (!slot->touched) {
		weir__sys_populate(slot->addr, slot->bytes);
		slot->touched = true;
		atomic_fetch_add_explicit(&slots->touched, slot->bytes,
					  memory_order_relaxed);
	}
	return slot;
}

void weir__slot_put(struct weir__slots *slots, struct weir__slot *slot)
{
	add(slot->small ? &slots->small : &slots->large, slot);
}

unsigned weir__slots_count(const struct weir__slots *slots)
{
	return slots->n;
}

size_t weir__slots_bytes(const struct weir__slots *slots)
{
	return atomic_load_explicit(&slots->touched, memory_order_relaxed);
}

void weir__slots_range(const struct weir__slots *slots, void **ret_addr,
		       size_t *ret_bytes)
{
	*ret_addr = slots->base;
	*ret_bytes = slots->bytes;
}

void weir__slots_pinned(struct weir__slots *slots, bool pinned)
{
	slots->pinned += pinned ? 1u : -1u;
	if (!pinned)
		return;
	/* Locking has backed them all. */
	for (unsigned i = 0; i < slots->n; i++)
		slots->slot[i].touched = true;
	atomic_store(&slots->touched, slots->bytes);
}

void weir__slots_trim(struct weir__slots *slots)
{
	if (slots->pinned)
		return;
	for (unsigned i = 0; i < 2; i++)
		for (struct weir__slot *s = i ? slots->small : slots->large; s;
		     s = s->next) {
			if (!s->touched || s->registered)
				continue;
			weir__sys_madvise(s->addr, s->bytes, MADV_DONTNEED);
			s->touched = false;
			atomic_fetch_sub(&slots->touched, s->bytes);
		}
}
