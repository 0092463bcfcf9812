/* SPDX-License-Identifier: MIT */
#include "alloc/arena.h"

#include <stdio.h>
#include <string.h>

#include "alloc/arenas.h"
#include "alloc/avail.h"
#include "alloc/prefault.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"

/* A kept arena may be this much larger than a request that it serves. */
#define SLACK(len) ((len) / 4)
/* From this size on several threads prefault faster than one. */
#define PREFAULT_TOGETHER ((size_t)32 << 20)

static void list_add(struct weir__arena **link, struct weir__arena *a)
{
	a->next = *link;
	a->link = link;
	if (a->next)
		a->next->link = &a->next;
	*link = a;
}

static void list_remove(struct weir__arenas *all, struct weir__arena *a)
{
	if (all->kept_end == &a->next)
		all->kept_end = a->link;
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
}

void weir__arena_destroy(struct weir__arenas *all, struct weir__arena *a)
{
	weir__pages_unmap(&a->pages);
	all->used -= a->pages.len;
	weir__free(a);
}

struct weir__arena *weir__arenas_oldest(const struct weir__arenas *all,
					unsigned types)
{
	struct weir__arena *a = all->kept;

	while (a && !(types >> a->pages.type & 1))
		a = a->next;
	return a;
}

struct weir__arena *weir__arenas_oldest_locked(const struct weir__arenas *all)
{
	struct weir__arena *a = all->kept;

	while (a && (!a->pages.locked || weir__pages_reserved(&a->pages)))
		a = a->next;
	return a;
}

void weir__arenas_drop(struct weir__arenas *all, struct weir__arena *a)
{
	list_remove(all, a);
	all->kept_bytes -= a->pages.len;
	weir__arena_destroy(all, a);
}

static size_t arenas_trim(struct weir__part *part, size_t keep)
{
	struct weir__arenas *all = (struct weir__arenas *)part;
	size_t kept;

	pthread_mutex_lock(&all->lock);
	while (all->kept_bytes > keep)
		weir__arenas_drop(all, all->kept);
	kept = all->kept_bytes;
	pthread_mutex_unlock(&all->lock);
	return kept;
}

/* Live arenas stay: their buffers still use them. */
static int arenas_close(struct weir__part *part, int64_t deadline)
{
	struct weir__arenas *all = (struct weir__arenas *)part;

	(void)deadline;
	pthread_mutex_lock(&all->lock);
	all->keep = 0;
	while (all->kept)
		weir__arenas_drop(all, all->kept);
	pthread_mutex_unlock(&all->lock);
	return 0;
}

static void arenas_free(struct weir__part *part)
{
	struct weir__arenas *all = (struct weir__arenas *)part;

	while (all->kept)
		weir__arenas_drop(all, all->kept);
	pthread_mutex_destroy(&all->lock);
	weir__free(all);
}

static size_t default_keep(const struct weir *weir)
{
	uint64_t avail, total;

	if (weir->opts.keep == UINT64_MAX)
		return 0;
	if (weir->opts.keep)
		return weir->opts.keep;
	return weir__avail_ram("", &avail, &total) < 0 ? 0 : avail / 4;
}

static int arenas_make(struct weir *weir, struct weir__part **ret_part)
{
	struct weir__arenas *all = weir__calloc(1, sizeof(*all));

	if (!all)
		return weir__fail(-ENOMEM, "no memory for %zu bytes",
				  sizeof(*all));
	all->part.close = arenas_close;
	all->part.trim = arenas_trim;
	all->part.free = arenas_free;
	all->weir = weir;
	all->kept_end = &all->kept;
	all->keep = default_keep(weir);
	pthread_mutex_init(&all->lock, NULL);
	*ret_part = &all->part;
	return 0;
}

int weir__arenas_get(struct weir *weir, struct weir__arenas **ret_all)
{
	struct weir__part *part;
	int r = weir__root_part(weir, WEIR__PART_ALLOC, arenas_make, &part);

	if (r < 0)
		return r;
	*ret_all = (struct weir__arenas *)part;
	return 0;
}

/*
 * True if a kept mapping @p can serve @want. Reserved pages are locked in any
 * case.
 */
static bool kept_fits(const struct weir__arenas *all,
		      const struct weir__pages *p,
		      const struct weir__pages *want)
{
	/* The budget counts the whole mapping: others would lack the rest. */
	size_t slack = all->weir->opts.budget ? 0 : SLACK(want->len);

	return p->len >= want->len && p->len - want->len <= slack &&
	       p->type == want->type &&
	       (p->locked == want->locked || weir__pages_reserved(p)) &&
	       weir__nodes_equal(&p->nodes, &want->nodes) &&
	       (!weir__nodes_count(&p->nodes) || p->only == want->only);
}

struct weir__arena *weir__arenas_find_kept(struct weir__arenas *all,
					   const struct weir__pages *want)
{
	struct weir__arena *best = NULL;

	for (struct weir__arena *a = all->kept; a; a = a->next)
		if (kept_fits(all, &a->pages, want) &&
		    (!best || a->pages.len < best->pages.len))
			best = a;
	if (best) {
		list_remove(all, best);
		all->kept_bytes -= best->pages.len;
		best->pages.why_not[0] = '\0'; /* of its last use */
		weir__pages_hide(&best->pages, false);
	}
	return best;
}

void weir__arenas_add_live(struct weir__arenas *all, struct weir__arena *a)
{
	list_add(&all->live, a);
	if (!weir__pages_reserved(&a->pages))
		all->live_bytes += a->pages.len;
}

void weir__arenas_remove_live(struct weir__arenas *all, struct weir__arena *a)
{
	list_remove(all, a);
	if (!weir__pages_reserved(&a->pages))
		all->live_bytes -= a->pages.len;
	a->mem = NULL;
}

/* Put it on the kept list; false: it is too large. all->lock is held. */
static bool arena_keep(struct weir__arenas *all, struct weir__arena *a)
{
	if (a->pages.len > all->keep)
		return false;
	/* A child does not need it, and would make each page copy-on-write. */
	weir__pages_hide(&a->pages, true);
	list_add(all->kept_end, a);
	all->kept_end = &a->next;
	all->kept_bytes += a->pages.len;
	while (all->kept_bytes > all->keep)
		weir__arenas_drop(all, all->kept);
	return true;
}

static struct weir__arenas *arenas_of(struct weir *weir)
{
	return (struct weir__arenas *)atomic_load(
		&weir->part[WEIR__PART_ALLOC]);
}

/* Another process may still use shared memory, so it is not used again. */
void weir__arena_give(struct weir *weir, struct weir_backend_mem *mem)
{
	struct weir__arenas *all = arenas_of(weir);
	struct weir__arena *a = mem->handle;
	size_t len = a->pages.len;
	bool kept;

	a->backed = __atomic_load_n(&mem->backed, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&all->lock);
	weir__arenas_remove_live(all, a);
	kept = !a->pages.shared && arena_keep(all, a);
	pthread_mutex_unlock(&all->lock);
	if (kept)
		return;
	weir__pages_unmap(&a->pages);
	weir__free(a);
	weir__arena_unreserve(weir, len);
}

void weir__arena_hide(struct weir_backend_mem *mem, bool hidden)
{
	struct weir__arena *a = mem->handle;

	weir__pages_hide(&a->pages, hidden);
}

/* Its pages still count towards the budget. */
void weir__arena_leak(struct weir *weir, struct weir_backend_mem *mem)
{
	struct weir__arenas *all = arenas_of(weir);
	struct weir__arena *a = mem->handle;

	pthread_mutex_lock(&all->lock);
	weir__arenas_remove_live(all, a);
	pthread_mutex_unlock(&all->lock);
	weir__sys_close(a->pages.fd);
	weir__free(a);
}

int weir__arena_prefault(struct weir_backend_mem *mem, size_t bytes)
{
	struct weir__arena *a = mem->handle;

	return weir__pages_prefault(&a->pages, &mem->backed, bytes);
}

int weir__arena_back(struct weir *weir, struct weir_backend_mem *mem,
		     size_t bytes)
{
	if (bytes >= PREFAULT_TOGETHER)
		weir__prefault_all(weir, mem->base, bytes, &mem->backed);
	return weir__arena_prefault(mem, bytes);
}

int weir__arena_share(struct weir *weir, const struct weir_backend_mem *mem,
		      int *ret_fd)
{
	struct weir__arenas *all = arenas_of(weir);
	struct weir__arena *a = NULL;
	int fd;

	/* @mem may be of a backend that has not taken it from here. */
	if (all) {
		pthread_mutex_lock(&all->lock);
		for (a = all->live; a && a->mem != mem;)
			a = a->next;
		pthread_mutex_unlock(&all->lock);
	}
	if (!a || a->pages.fd < 0)
		return weir__fail(
			-EOPNOTSUPP,
			"the buffer was not allocated with WEIR_BUF_SHARED");
	fd = weir__sys_dup(a->pages.fd);
	if (fd < 0)
		return weir__fail_sys(fd, "a descriptor of shared memory");
	*ret_fd = fd;
	return 0;
}

int weir__arena_reserve(struct weir *weir, size_t bytes)
{
	struct weir__arenas *all;
	int r = weir__arenas_get(weir, &all);

	if (r < 0)
		return r;
	pthread_mutex_lock(&all->lock);
	r = weir__room_in_budget(all, bytes);
	if (!r)
		all->used += bytes;
	pthread_mutex_unlock(&all->lock);
	return r;
}

void weir__arena_unreserve(struct weir *weir, size_t bytes)
{
	struct weir__arenas *all = arenas_of(weir);

	pthread_mutex_lock(&all->lock);
	all->used -= bytes;
	pthread_mutex_unlock(&all->lock);
}
