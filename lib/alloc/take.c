/* SPDX-License-Identifier: MIT */
/*
 * Taking an arena: a kept one that fits, else a new mapping within the budget
 * and the available memory, with the pages that were asked for or the next
 * best.
 */
#include <stdio.h>
#include <string.h>

#include "alloc/arenas.h"
#include "alloc/topology.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/reclaim.h"

/*
 * Limits of the kernel count kept arenas too: these are unmapped before the
 * request is refused. < 0: want->why says why. all->lock is held.
 */
static int map_new(struct weir__arenas *all, struct weir__pages *want,
		   struct weir__arena **ret_arena)
{
	unsigned types = weir__pages_reserved(want) ? 1u << want->type
						    : WEIR__PAGES_ANY;
	struct weir__arena *a = weir__calloc(1, sizeof(*a)), *kept;
	int r;

	if (!a)
		return weir__fail(-ENOMEM, "no memory for %zu bytes",
				  sizeof(*a));
	a->pages = *want;
	a->pages.locked = false;
	while ((r = weir__pages_map(&a->pages)) == -ENOMEM &&
	       (kept = weir__arenas_oldest(all, types)))
		weir__arenas_drop(all, kept);
	if (r < 0) {
		memcpy(want->why, a->pages.why, sizeof(want->why));
		weir__free(a);
		return r;
	}
	all->used += a->pages.len;
	*ret_arena = a;
	return 0;
}

/* < 0: want->why says why, or if it is empty the sentence. With the lock. */
static int find_or_map(struct weir__arenas *all, struct weir__pages *want,
		       struct weir__arena **ret_arena)
{
	struct weir__arena *a =
		want->shared ? NULL : weir__arenas_find_kept(all, want);
	int r;

	if (!a && want->locked) {
		want->locked = false;
		a = want->shared ? NULL : weir__arenas_find_kept(all, want);
	}
	if (!a) {
		r = weir__room_in_budget(all, want->len);
		if (!r && !weir__pages_reserved(want)) {
			r = weir__room_in_ram(all, want->len);
			r = r < 0 ? r : weir__room_on_nodes(all, want);
		}
		if (r < 0 || (r = map_new(all, want, &a)) < 0)
			return r;
	}
	*ret_arena = a;
	return 0;
}

/* Kept memory that is locked counts too: it is unmapped first. */
static int lock_pages(struct weir__arenas *all, struct weir__pages *p,
		      bool strict)
{
	struct weir__arena *kept;
	int r;

	while ((r = weir__pages_lock(p)) < 0 &&
	       (kept = weir__arenas_oldest_locked(all)))
		weir__arenas_drop(all, kept);
	return r < 0 && strict ? weir__fail(r, "%s", p->why_not) : 0;
}

/* Why it has no huge pages; NULL: it has them. */
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

/* Fill in @mem with what was granted; < 0: less than a strict request needs. */
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

/* As find_or_map(). */
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
		weir__arena_destroy(all, a);
		return r;
	}
	a->mem = mem;
	weir__arenas_add_live(all, a);
	return 0;
}

/* Back all of it, where a page that is missing later would kill the process. */
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
	weir__arenas_remove_live(all, a);
	weir__arena_destroy(all, a);
	pthread_mutex_unlock(&all->lock);
	return -ENOMEM;
}

/* The nodes that @req asks for; none: any. */
static int want_nodes(const struct weir__arena_req *req,
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

/* Take an arena with pages of one type; < 0 as find_or_map(). */
static int take_type(struct weir__arenas *all,
		     const struct weir__arena_req *req,
		     struct weir__pages *want, struct weir_backend_mem *mem)
{
	int r = want_nodes(req, &want->nodes);

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

/* Without reserved pages: whole huge pages if at least one is needed. */
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

/* < 0 without a sentence: mem->why says why there are no such pages. */
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

/* Pages of 1 GiB, then of 2 MiB; strict: only those that were asked for. */
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
	struct weir__error_saved saved;
	struct weir__arenas *all;
	unsigned before;
	int r = weir__arenas_get(weir, &all);

	if (r < 0)
		return r;
	weir__error_save(&saved);
	before = weir__reclaim_count(weir);
	r = take_any(all, req, mem);
	/* Memory that is locked for a device may wait to be freed. */
	if (r == -ENOMEM && weir__reclaim_now(weir, NULL, before)) {
		r = take_any(all, req, mem);
		if (r >= 0)
			weir__error_restore(&saved);
	}
	return r;
}
