/* SPDX-License-Identifier: MIT */
/*
 * Room for another mapping: in the root's budget, and in RAM within the limits
 * of cgroups. Mappings do not reserve RAM, so the kernel would grant any size
 * and kill a process later.
 */
#include <stdio.h>

#include "alloc/arenas.h"
#include "alloc/avail.h"
#include "alloc/topology.h"
#include "core/error.h"

/* The bytes that the budget would allow if all kept arenas were unmapped. */
static uint64_t budget_left(const struct weir__arenas *all)
{
	uint64_t budget = all->weir->opts.budget;
	uint64_t needed = all->used - all->kept_bytes;

	if (!budget)
		return UINT64_MAX;
	return needed < budget ? budget - needed : 0;
}

int weir__room_in_budget(struct weir__arenas *all, size_t len)
{
	uint64_t budget = all->weir->opts.budget;

	if (len > budget_left(all))
		return weir__fail(
			-ENOMEM,
			"%zu bytes are needed, %llu of the root's budget of %llu are in use",
			len, (unsigned long long)(all->used - all->kept_bytes),
			(unsigned long long)budget);
	while (budget && all->used + len > budget)
		weir__arena_drop(all, all->kept);
	return 0;
}

uint64_t weir__arena_budget_left(struct weir *weir)
{
	struct weir__arenas *all = weir__arenas_of(weir);
	uint64_t left = weir->opts.budget;

	if (!left)
		return UINT64_MAX;
	if (!all)
		return left;
	pthread_mutex_lock(&all->lock);
	left = budget_left(all);
	pthread_mutex_unlock(&all->lock);
	return left;
}

void weir__arena_in_use(struct weir *weir, uint64_t *ret_now,
			uint64_t *ret_peak)
{
	struct weir__arenas *all = weir__arenas_of(weir);

	*ret_now = *ret_peak = 0;
	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	*ret_now = all->used;
	*ret_peak = all->peak;
	pthread_mutex_unlock(&all->lock);
}

/* The bytes after the first @backed that have no page yet. */
static uint64_t bytes_missing(const struct weir__arena *a, size_t backed)
{
	uint64_t missing = weir__pages_missing(&a->pages, backed), none;

	if (!a->pages.bare)
		return missing;
	/* Pages that are not committed are missing too. */
	none = a->pages.len - a->committed;
	return missing > none ? missing - none : 0;
}

/*
 * The bytes that live arenas on any of @nodes (NULL: all live arenas) may still
 * need: an upper bound by the pages that are known to be backed, or the exact
 * number, by asking for each page (mincore(2)). Reserved pages are not taken
 * from the memory that is available.
 */
static uint64_t committed(const struct weir__arenas *all,
			  const struct weir__nodes *nodes, bool exactly)
{
	uint64_t sum = 0;

	for (const struct weir__arena *a = all->live; a; a = a->next) {
		size_t bytes = weir__arena_bytes(a), backed = 0;

		if (!a->pages.bare)
			backed = __atomic_load_n(&a->mem->backed,
						 __ATOMIC_RELAXED);
		if (weir__pages_reserved(&a->pages) || backed >= bytes ||
		    (nodes && !weir__nodes_meet(nodes, &a->pages.nodes)))
			continue;
		sum += exactly ? bytes_missing(a, backed) : bytes - backed;
	}
	return sum;
}

/*
 * True if @avail suffices for @len more bytes beside all that is committed. The
 * bound that needs no visit to each arena (there may be thousands) is tried
 * first. *@ret_out is set if the answer is no. With the lock.
 */
static bool is_enough(const struct weir__arenas *all, uint64_t avail,
		      size_t len, uint64_t *ret_out)
{
	uint64_t room = avail - len;

	if (len <= avail &&
	    (all->live_bytes <= room || committed(all, NULL, false) <= room))
		return true;
	*ret_out = committed(all, NULL, true);
	return len <= avail && *ret_out <= room;
}

uint64_t weir__arena_ram_left(struct weir *weir)
{
	struct weir__arenas *all = weir__arenas_of(weir);
	uint64_t avail, total, out = 0;

	if (weir__avail_ram("", &avail, &total) < 0)
		return UINT64_MAX;
	if (!all)
		return avail;
	pthread_mutex_lock(&all->lock);
	out = committed(all, NULL, true);
	pthread_mutex_unlock(&all->lock);
	return out < avail ? avail - out : 0;
}

/* The bytes of RAM that are freed when @a is unmapped. */
static uint64_t bytes_backed(const struct weir__arena *a)
{
	return a->pages.len - weir__pages_missing(&a->pages, a->backed);
}

/*
 * The bytes of kept arenas count as available as soon as they are unmapped:
 * freed pages may be on per-CPU lists for a while, where the kernel counts them
 * neither as used nor as free.
 */
int weir__room_in_ram(struct weir__arenas *all, size_t len)
{
	uint64_t avail, total, out, expected = 0;
	struct weir__arena *a;

	for (;;) {
		if (weir__avail_ram("", &avail, &total) < 0)
			return 0; /* not known: let mmap(2) decide */
		if (avail < expected)
			avail = expected;
		if (is_enough(all, avail, len, &out))
			return 0;
		a = weir__arena_oldest(all, PAGES_IN_RAM);
		if (!a)
			break;
		expected = avail + bytes_backed(a);
		weir__arena_drop(all, a);
	}
	return weir__fail(
		-ENOMEM,
		"%zu bytes are needed, %llu of %llu are available, %llu of them promised to other buffers",
		len, (unsigned long long)avail, (unsigned long long)total,
		(unsigned long long)out);
}

/* Unmap a kept arena in RAM on any of @nodes. False: there is none. */
static bool drop_one_on(struct weir__arenas *all,
			const struct weir__nodes *nodes)
{
	struct weir__arena *a = all->kept;

	while (a && (weir__pages_reserved(&a->pages) ||
		     !weir__nodes_meet(nodes, &a->pages.nodes)))
		a = a->next;
	if (a)
		weir__arena_drop(all, a);
	return a;
}

int weir__room_on_nodes(struct weir__arenas *all, struct weir__pages *want)
{
	const struct weir__nodes *nodes = &want->nodes;
	char text[WEIR__NODES_TEXT];
	uint64_t avail, total, out;

	if (!weir__nodes_count(nodes))
		return 0;
	do {
		if (weir__topology_room("", nodes, &avail, &total) < 0)
			return 0; /* not known: let mbind(2) decide */
		out = committed(all, nodes, true);
		if (want->len <= avail && out <= avail - want->len)
			return 0;
	} while (drop_one_on(all, nodes));
	weir__nodes_text(nodes, text);
	snprintf(want->why_not, sizeof(want->why_not),
		 "%zu bytes are needed, %llu are available on NUMA %s",
		 want->len, (unsigned long long)(avail > out ? avail - out : 0),
		 text);
	return want->only ? weir__fail(-ENOMEM, "%s", want->why_not) : 0;
}
