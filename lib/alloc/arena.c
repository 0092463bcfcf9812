/* SPDX-License-Identifier: MIT */
#include "alloc/arena.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "alloc/arenas.h"
#include "alloc/avail.h"
#include "alloc/pages.h"
#include "alloc/prefault.h"
#include "alloc/topology.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/reclaim.h"

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

/* Unmap and free an arena that is on no list. */
static void arena_destroy(struct weir__arenas *all, struct weir__arena *a)
{
	weir__pages_unmap(&a->pages);
	all->used -= a->pages.len;
	weir__free(a);
}

struct weir__arena *weir__arena_oldest(const struct weir__arenas *all,
				       unsigned types)
{
	struct weir__arena *a = all->kept;

	while (a && !(types >> a->pages.type & 1))
		a = a->next;
	return a;
}

/* The oldest kept arena that counts towards RLIMIT_MEMLOCK, or NULL. */
static struct weir__arena *oldest_locked(const struct weir__arenas *all)
{
	struct weir__arena *a = all->kept;

	while (a && (!a->pages.locked || weir__pages_reserved(&a->pages)))
		a = a->next;
	return a;
}

void weir__arena_drop(struct weir__arenas *all, struct weir__arena *a)
{
	list_remove(all, a);
	all->kept_bytes -= a->pages.len;
	arena_destroy(all, a);
}

static size_t arenas_trim(struct weir__part *part, size_t keep)
{
	struct weir__arenas *all = (struct weir__arenas *)part;
	size_t kept;

	pthread_mutex_lock(&all->lock);
	while (all->kept_bytes > keep)
		weir__arena_drop(all, all->kept);
	kept = all->kept_bytes;
	pthread_mutex_unlock(&all->lock);
	return kept;
}

/* Live arenas stay: their buffers still use them. */
static void arenas_close(struct weir__part *part, int64_t deadline)
{
	struct weir__arenas *all = (struct weir__arenas *)part;

	(void)deadline;
	pthread_mutex_lock(&all->lock);
	all->keep = 0;
	while (all->kept)
		weir__arena_drop(all, all->kept);
	pthread_mutex_unlock(&all->lock);
}

static void arenas_free(struct weir__part *part)
{
	struct weir__arenas *all = (struct weir__arenas *)part;

	while (all->kept)
		weir__arena_drop(all, all->kept);
	pthread_mutex_destroy(&all->lock);
	weir__free(all);
}

/*
 * How many bytes to keep: weir_opts.keep, by default a quarter of what is
 * available.
 */
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

/* Take the smallest that can serve @want off the kept list; NULL: none can. */
static struct weir__arena *take_kept(struct weir__arenas *all,
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
		best->pages.why_not[0] = '\0'; /* from its last use */
		weir__pages_hide(&best->pages, false);
	}
	return best;
}

void weir__arena_add_live(struct weir__arenas *all, struct weir__arena *a)
{
	list_add(&all->live, a);
	if (!weir__pages_reserved(&a->pages))
		all->live_bytes += weir__arena_bytes(a);
}

void weir__arena_remove_live(struct weir__arenas *all, struct weir__arena *a)
{
	list_remove(all, a);
	if (!weir__pages_reserved(&a->pages))
		all->live_bytes -= weir__arena_bytes(a);
	a->mem = NULL;
}

/* Put @a on the kept list. False: it is too large. With the lock. */
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
		weir__arena_drop(all, all->kept);
	return true;
}

/*
 * Taking an arena: a kept one that fits, else a new mapping within the budget
 * and the available memory, with the pages that were asked for or the next
 * best.
 */

/*
 * Map new pages. Limits of the kernel count kept arenas too: these are unmapped
 * before the request is refused. < 0: want->why says why. With the lock.
 */
static int map_new(struct weir__arenas *all, struct weir__pages *want,
		   struct weir__arena **ret_arena)
{
	unsigned types = weir__pages_reserved(want) ? 1u << want->type
						    : PAGES_ANY;
	struct weir__arena *a = weir__calloc(1, sizeof(*a)), *kept;
	int r;

	if (!a)
		return weir__fail(-ENOMEM, "no memory for %zu bytes",
				  sizeof(*a));
	a->pages = *want;
	a->pages.locked = false;
	while ((r = weir__pages_map(&a->pages)) == -ENOMEM &&
	       (kept = weir__arena_oldest(all, types)))
		weir__arena_drop(all, kept);
	if (r < 0) {
		memcpy(want->why, a->pages.why, sizeof(want->why));
		weir__free(a);
		return r;
	}
	weir__arenas_count(all, a->pages.len);
	*ret_arena = a;
	return 0;
}

/* Make sure that there is room for @want. */
static int make_room(struct weir__arenas *all, struct weir__pages *want)
{
	int r = weir__room_in_budget(all, want->len);

	if (r < 0 || weir__pages_reserved(want))
		return r;
	r = weir__room_in_ram(all, want->len);
	return r < 0 ? r : weir__room_on_nodes(all, want);
}

/*
 * Find a kept arena, or map a new one. < 0: want->why says why or, if it is
 * empty, the sentence. With the lock.
 */
static int find_or_map(struct weir__arenas *all, struct weir__pages *want,
		       struct weir__arena **ret_arena)
{
	struct weir__arena *a = want->shared ? NULL : take_kept(all, want);
	int r;

	if (!a && want->locked) {
		want->locked = false;
		a = want->shared ? NULL : take_kept(all, want);
	}
	if (!a && ((r = make_room(all, want)) < 0 ||
		   (r = map_new(all, want, &a)) < 0))
		return r;
	*ret_arena = a;
	return 0;
}

/*
 * Lock @p. Kept memory that is locked counts towards the limit: it is unmapped
 * first.
 */
static int lock_pages(struct weir__arenas *all, struct weir__pages *p,
		      bool strict)
{
	struct weir__arena *kept;
	int r;

	while ((r = weir__pages_lock(p)) < 0 && (kept = oldest_locked(all)))
		weir__arena_drop(all, kept);
	return r < 0 && strict ? weir__fail(r, "%s", p->why_not) : 0;
}

/* The reason why it has no huge pages; NULL: it has them. */
static const char *not_huge(const struct weir__pages *p)
{
	if (p->huge)
		return NULL;
	return p->type == WEIR__PAGES_SMALL
		       ? "smaller than a huge page of 2 MiB"
		       : p->why;
}

static void add_why(struct weir_backend_mem *mem, const char *what,
		    const char *why)
{
	if (why && *why)
		weir__append(mem->why, sizeof(mem->why), "%s%s%s",
			     mem->why[0] ? "; " : "", what, why);
}

static uint32_t pages_got(const struct weir__pages *p)
{
	uint32_t got = (p->huge ? WEIR_GOT_HUGE : 0) |
		       (p->locked ? WEIR_GOT_LOCKED : 0) |
		       (p->shared ? WEIR_GOT_SHARED : 0);

	if (weir__pages_reserved(p))
		got |= WEIR_GOT_HUGETLB;
	if (p->type == WEIR__PAGES_RESERVED_1G)
		got |= WEIR_GOT_HUGETLB_1G;
	return got;
}

/*
 * Fill in @mem with what was granted. < 0: it is less than a strict request
 * needs.
 */
static int arena_settle(struct weir__arenas *all, struct weir__arena *a,
			const struct weir__arena_req *req,
			struct weir_backend_mem *mem)
{
	struct weir__pages *p = &a->pages;
	int r;

	if (req->kind == WEIR_MEM_LOCKED &&
	    (r = lock_pages(all, p, req->strict)) < 0)
		return r;
	if (req->kind == WEIR_MEM_HUGE && req->strict && !p->huge)
		return weir__fail(-EOPNOTSUPP, "%zu bytes: no huge pages: %s",
				  req->bytes, not_huge(p));
	mem->base = p->addr;
	mem->handle = a;
	mem->node = weir__nodes_only(&p->nodes);
	mem->got = pages_got(p);
	__atomic_store_n(&mem->backed, a->backed, __ATOMIC_SEQ_CST);
	if (req->kind != WEIR_MEM_PLAIN)
		add_why(mem, "no huge pages: ", not_huge(p));
	add_why(mem, "", p->why_not);
	return 0;
}

/* Take an arena. Errors of find_or_map(). With the lock. */
static int arena_take(struct weir__arenas *all,
		      const struct weir__arena_req *req,
		      struct weir__pages *want, struct weir_backend_mem *mem)
{
	struct weir__arena *a;
	int r = find_or_map(all, want, &a);

	if (r < 0)
		return r;
	r = arena_settle(all, a, req, mem);
	if (r < 0) {
		arena_destroy(all, a);
		return r;
	}
	a->mem = mem;
	weir__arena_add_live(all, a);
	return 0;
}

/* Back all of it if a page that is missing later would kill the process. */
static int back_eagerly(struct weir__arenas *all, struct weir__pages *want,
			struct weir_backend_mem *mem)
{
	struct weir__arena *a = mem->handle;
	size_t len = a->pages.len;

	if (!a->pages.eager || !weir__arena_back(all->weir, mem, len))
		return 0;
	snprintf(
		want->why, sizeof(want->why),
		"%zu of %zu bytes could be backed, more are refused by a cgroup, a cpuset or a NUMA policy",
		len - (size_t)weir__pages_missing(&a->pages, 0), len);
	pthread_mutex_lock(&all->lock);
	weir__arena_remove_live(all, a);
	arena_destroy(all, a);
	pthread_mutex_unlock(&all->lock);
	return -ENOMEM;
}

int weir__arena_nodes(const struct weir__arena_req *req,
		      struct weir__nodes *nodes)
{
	if (req->kind == WEIR_MEM_HBM || req->kind == WEIR_MEM_FAR)
		return weir__topology_nodes("", (enum weir_mem)req->kind,
					    req->node, nodes);
	if (req->node >= (int32_t)WEIR__NODES)
		return weir__fail(-EINVAL, "there is no NUMA node %d",
				  req->node);
	if (req->node >= 0)
		weir__nodes_add(nodes, (unsigned)req->node);
	return 0;
}

/* Take an arena with pages of one type. Errors of find_or_map(). */
static int take_type(struct weir__arenas *all,
		     const struct weir__arena_req *req,
		     struct weir__pages *want, struct weir_backend_mem *mem)
{
	int r = weir__arena_nodes(req, &want->nodes);

	if (r < 0)
		return r;
	want->len = weir__up(req->bytes, weir__pages_size(want->type));
	want->only = req->strict;
	want->shared = req->shared;
	want->locked = req->kind == WEIR_MEM_LOCKED;
	pthread_mutex_lock(&all->lock);
	r = arena_take(all, req, want, mem);
	pthread_mutex_unlock(&all->lock);
	return r < 0 ? r : back_eagerly(all, want, mem);
}

/* Take other pages than reserved ones: huge ones if at least one is needed. */
static int take_plain(struct weir__arenas *all,
		      const struct weir__arena_req *req,
		      struct weir_backend_mem *mem)
{
	struct weir__pages want = { .type = WEIR__PAGES_SMALL };
	int r;

	if (req->kind != WEIR_MEM_PLAIN && req->bytes >= WEIR__HUGE_PAGE)
		want.type = WEIR__PAGES_TRANSPARENT;
	r = take_type(all, req, &want, mem);
	return r < 0 && want.why[0] ? weir__fail(r, "%s", want.why) : r;
}

/*
 * Take reserved pages. < 0 without a sentence: mem->why says why there are
 * none.
 */
static int take_reserved(struct weir__arenas *all,
			 const struct weir__arena_req *req,
			 enum weir__page_type type,
			 struct weir_backend_mem *mem)
{
	struct weir__pages want = { .type = type };
	struct weir__error_saved saved;
	char what[64];
	int r;

	snprintf(what, sizeof(what), "no reserved pages of %zu KiB: ",
		 weir__pages_size(type) >> 10);
	weir__error_save(&saved);
	r = take_type(all, req, &want, mem);
	if (r < 0)
		add_why(mem, what, want.why[0] ? want.why : weir__error_text());
	weir__error_restore(&saved);
	return r;
}

/* Try pages of 1 GiB, then of 2 MiB; strict: only those that were asked for. */
static int try_reserved(struct weir__arenas *all,
			const struct weir__arena_req *req,
			struct weir_backend_mem *mem)
{
	int r = -EOPNOTSUPP;

	if (req->hugetlb_1g)
		r = take_reserved(all, req, WEIR__PAGES_RESERVED_1G, mem);
	if (r < 0 && (req->hugetlb || !req->strict))
		r = take_reserved(all, req, WEIR__PAGES_RESERVED, mem);
	return r;
}

static int take_any(struct weir__arenas *all, const struct weir__arena_req *req,
		    struct weir_backend_mem *mem)
{
	if (req->bytes > SIZE_MAX / 2)
		return weir__fail(
			-ENOMEM,
			"%zu bytes are needed, which no address space has",
			req->bytes);
	mem->why[0] = '\0';
	if (!req->hugetlb && !req->hugetlb_1g)
		return take_plain(all, req, mem);
	if (!try_reserved(all, req, mem))
		return 0;
	if (req->strict)
		return weir__fail(-EOPNOTSUPP, "%zu bytes: %s", req->bytes,
				  mem->why);
	return take_plain(all, req, mem);
}

int weir__arena_take(struct weir *weir, const struct weir__arena_req *req,
		     struct weir_backend_mem *mem)
{
	struct weir__shortage shortage;
	struct weir__arenas *all;
	int r = weir__arenas_get(weir, &all);

	if (r < 0)
		return r;
	weir__shortage_begin(&shortage, weir, NULL, req->bytes);
	do
		r = take_any(all, req, mem);
	while (weir__shortage_again(&shortage, r));
	return r;
}

/* Shared memory is not used again: another process may still use it. */
void weir__arena_give(struct weir *weir, struct weir_backend_mem *mem)
{
	struct weir__arenas *all = weir__arenas_of(weir);
	struct weir__arena *a = mem->handle;
	size_t len = weir__arena_bytes(a);
	bool kept;

	if (a->parked) {
		weir__pages_unmap(&a->pages);
		weir__free(a);
		return;
	}
	a->backed = __atomic_load_n(&mem->backed, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&all->lock);
	weir__arena_remove_live(all, a);
	kept = !a->pages.shared && !a->pages.bare && arena_keep(all, a);
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

int weir__arena_park(struct weir *weir, struct weir_backend_mem *mem)
{
	struct weir__arenas *all = weir__arenas_of(weir);
	struct weir__arena *a = mem->handle;
	int r = weir__sys_vacate(a->pages.addr, a->pages.len);

	if (r < 0) {
		/* The pages are all there, but may be unlocked. */
		if (a->pages.locked)
			weir__sys_mlock(a->pages.addr, a->pages.len);
		return weir__fail_sys(r, "%zu bytes", a->pages.len);
	}
	a->parked = true;
	pthread_mutex_lock(&all->lock);
	weir__arena_remove_live(all, a);
	all->used -= a->pages.len;
	pthread_mutex_unlock(&all->lock);
	a->relock = a->pages.locked;
	a->pages.locked = false;
	__atomic_store_n(&mem->backed, 0, __ATOMIC_SEQ_CST);
	return 0;
}

int weir__arena_unpark(struct weir *weir, struct weir_backend_mem *mem)
{
	struct weir__arenas *all = weir__arenas_of(weir);
	struct weir__arena *a = mem->handle;
	struct weir__pages *p = &a->pages;
	int r;

	pthread_mutex_lock(&all->lock);
	r = make_room(all, p);
	if (r >= 0 && (r = weir__sys_reoccupy(p->addr, p->len)) < 0)
		weir__fail_sys(r, "the pages of %zu bytes", p->len);
	if (r >= 0 && a->relock && (r = lock_pages(all, p, true)) < 0)
		weir__sys_vacate(p->addr, p->len);
	if (r >= 0) {
		a->parked = false;
		a->mem = mem;
		weir__arenas_count(all, p->len);
		weir__arena_add_live(all, a);
	}
	pthread_mutex_unlock(&all->lock);
	return r;
}

/* The pages still count towards the budget. */
void weir__arena_leak(struct weir *weir, struct weir_backend_mem *mem)
{
	struct weir__arenas *all = weir__arenas_of(weir);
	struct weir__arena *a = mem->handle;

	pthread_mutex_lock(&all->lock);
	weir__arena_remove_live(all, a);
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
	struct weir__arenas *all = weir__arenas_of(weir);
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
		weir__arenas_count(all, bytes);
	pthread_mutex_unlock(&all->lock);
	return r;
}

void weir__arena_unreserve(struct weir *weir, size_t bytes)
{
	struct weir__arenas *all = weir__arenas_of(weir);

	pthread_mutex_lock(&all->lock);
	all->used -= bytes;
	pthread_mutex_unlock(&all->lock);
}
