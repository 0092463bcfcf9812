/* SPDX-License-Identifier: MIT */
#include "alloc/arena.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

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

/*
 * One mapping: on the live list while a buffer uses it, then on the kept list
 * (oldest first), until it is used again or unmapped.
 */
struct arena {
	struct arena *next, **link;
	struct weir__pages pages;
	size_t backed;                /* kept: bytes known to be backed */
	struct weir_backend_mem *mem; /* live: that of the buffer */
};

/* The arenas of a root. */
struct arenas {
	struct weir__part part;
	struct weir *weir;
	pthread_mutex_t lock; /* guards what follows */
	struct arena *live;
	size_t live_bytes; /* without reserved pages */
	struct arena *kept, **kept_end;
	size_t kept_bytes;
	size_t keep;   /* limit of kept_bytes */
	uint64_t used; /* counted towards weir_opts.budget: all mappings, leaked
			  ones too, and what backends reserved */
};

/* Sets of page types, by which kept arenas are chosen. */
#define PAGES_IN_RAM (1u << WEIR__PAGES_SMALL | 1u << WEIR__PAGES_TRANSPARENT)
#define PAGES_ANY (~0u)

static void list_add(struct arena **link, struct arena *a)
{
	a->next = *link;
	a->link = link;
	if (a->next)
		a->next->link = &a->next;
	*link = a;
}

static void list_remove(struct arenas *all, struct arena *a)
{
	if (all->kept_end == &a->next)
		all->kept_end = a->link;
	*a->link = a->next;
	if (a->next)
		a->next->link = a->link;
}

/* Unmap and free an arena that is on no list. */
static void arena_destroy(struct arenas *all, struct arena *a)
{
	weir__pages_unmap(&a->pages);
	all->used -= a->pages.len;
	weir__free(a);
}

/* The arena with pages of @types that was kept first, or NULL. */
static struct arena *oldest_kept(const struct arenas *all, unsigned types)
{
	struct arena *a = all->kept;

	while (a && !(types >> a->pages.type & 1))
		a = a->next;
	return a;
}

/* The oldest kept arena that counts towards RLIMIT_MEMLOCK, or NULL. */
static struct arena *oldest_locked(const struct arenas *all)
{
	struct arena *a = all->kept;

	while (a && (!a->pages.locked || weir__pages_reserved(&a->pages)))
		a = a->next;
	return a;
}

/* Unmap a kept arena. */
static void drop_kept(struct arenas *all, struct arena *a)
{
	list_remove(all, a);
	all->kept_bytes -= a->pages.len;
	arena_destroy(all, a);
}

static size_t arenas_trim(struct weir__part *part, size_t keep)
{
	struct arenas *all = (struct arenas *)part;
	size_t kept;

	pthread_mutex_lock(&all->lock);
	while (all->kept_bytes > keep)
		drop_kept(all, all->kept);
	kept = all->kept_bytes;
	pthread_mutex_unlock(&all->lock);
	return kept;
}

/* Live arenas stay: their buffers still use them. */
static void arenas_close(struct weir__part *part, int64_t deadline)
{
	struct arenas *all = (struct arenas *)part;

	(void)deadline;
	pthread_mutex_lock(&all->lock);
	all->keep = 0;
	while (all->kept)
		drop_kept(all, all->kept);
	pthread_mutex_unlock(&all->lock);
}

static void arenas_free(struct weir__part *part)
{
	struct arenas *all = (struct arenas *)part;

	while (all->kept)
		drop_kept(all, all->kept);
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
	struct arenas *all = weir__calloc(1, sizeof(*all));

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

/* The arenas of the root, made at the first call. */
static int arenas_get(struct weir *weir, struct arenas **ret_all)
{
	struct weir__part *part;
	int r = weir__root_part(weir, WEIR__PART_ALLOC, arenas_make, &part);

	if (r < 0)
		return r;
	*ret_all = (struct arenas *)part;
	return 0;
}

/*
 * True if a kept mapping @p can serve @want. Reserved pages are locked in any
 * case.
 */
static bool kept_fits(const struct arenas *all, const struct weir__pages *p,
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
static struct arena *take_kept(struct arenas *all,
			       const struct weir__pages *want)
{
	struct arena *best = NULL;

	for (struct arena *a = all->kept; a; a = a->next)
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

static void add_live(struct arenas *all, struct arena *a)
{
	list_add(&all->live, a);
	if (!weir__pages_reserved(&a->pages))
		all->live_bytes += a->pages.len;
}

static void remove_live(struct arenas *all, struct arena *a)
{
	list_remove(all, a);
	if (!weir__pages_reserved(&a->pages))
		all->live_bytes -= a->pages.len;
	a->mem = NULL;
}

/* Put @a on the kept list. False: it is too large. With the lock. */
static bool arena_keep(struct arenas *all, struct arena *a)
{
	if (a->pages.len > all->keep)
		return false;
	/* A child does not need it, and would make each page copy-on-write. */
	weir__pages_hide(&a->pages, true);
	list_add(all->kept_end, a);
	all->kept_end = &a->next;
	all->kept_bytes += a->pages.len;
	while (all->kept_bytes > all->keep)
		drop_kept(all, all->kept);
	return true;
}

/* The arenas of the root; NULL: none were made yet. */
static struct arenas *arenas_of(struct weir *weir)
{
	return (struct arenas *)atomic_load(&weir->part[WEIR__PART_ALLOC]);
}

/*
 * Room for another mapping: in the root's budget, and in RAM within the limits
 * of cgroups. Mappings do not reserve RAM, so the kernel would grant any size
 * and kill a process later.
 */

/* The bytes that the budget would allow if all kept arenas were unmapped. */
static uint64_t budget_left(const struct arenas *all)
{
	uint64_t budget = all->weir->opts.budget;
	uint64_t needed = all->used - all->kept_bytes;

	if (!budget)
		return UINT64_MAX;
	return needed < budget ? budget - needed : 0;
}

/*
 * Make sure that the budget has room for @len more bytes. Kept arenas are
 * unmapped before the answer is no. -ENOMEM with a sentence.
 */
static int room_in_budget(struct arenas *all, size_t len)
{
	uint64_t budget = all->weir->opts.budget;

	if (len > budget_left(all))
		return weir__fail(
			-ENOMEM,
			"%zu bytes are needed, %llu of the root's budget of %llu are in use",
			len, (unsigned long long)(all->used - all->kept_bytes),
			(unsigned long long)budget);
	while (budget && all->used + len > budget)
		drop_kept(all, all->kept);
	return 0;
}

uint64_t weir__arena_budget_left(struct weir *weir)
{
	struct arenas *all = arenas_of(weir);
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

/*
 * The bytes that live arenas on any of @nodes (NULL: all live arenas) may still
 * need: an upper bound by the pages that are known to be backed, or the exact
 * number, by asking for each page (mincore(2)). Reserved pages are not taken
 * from the memory that is available.
 */
static uint64_t committed(const struct arenas *all,
			  const struct weir__nodes *nodes, bool exactly)
{
	uint64_t sum = 0;

	for (const struct arena *a = all->live; a; a = a->next) {
		size_t backed =
			__atomic_load_n(&a->mem->backed, __ATOMIC_RELAXED);

		if (weir__pages_reserved(&a->pages) || backed >= a->pages.len ||
		    (nodes && !weir__nodes_meet(nodes, &a->pages.nodes)))
			continue;
		sum += exactly ? weir__pages_missing(&a->pages, backed)
			       : a->pages.len - backed;
	}
	return sum;
}

/*
 * True if @avail suffices for @len more bytes beside all that is committed. The
 * bound that needs no visit to each arena (there may be thousands) is tried
 * first. *@ret_out is set if the answer is no. With the lock.
 */
static bool is_enough(const struct arenas *all, uint64_t avail, size_t len,
		      uint64_t *ret_out)
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
	struct arenas *all = arenas_of(weir);
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
static uint64_t bytes_backed(const struct arena *a)
{
	return a->pages.len - weir__pages_missing(&a->pages, a->backed);
}

/*
 * Make sure that RAM suffices for @len bytes of new mappings. Kept arenas are
 * unmapped before the answer is no, oldest first. Their bytes
 * count as available at once: freed pages may be on per-CPU lists for a while,
 * where the kernel counts them neither as used nor as free.
 */
static int room_in_ram(struct arenas *all, size_t len)
{
	uint64_t avail, total, out, expected = 0;
	struct arena *a;

	for (;;) {
		if (weir__avail_ram("", &avail, &total) < 0)
			return 0; /* not known: let mmap(2) decide */
		if (avail < expected)
			avail = expected;
		if (is_enough(all, avail, len, &out))
			return 0;
		a = oldest_kept(all, PAGES_IN_RAM);
		if (!a)
			break;
		expected = avail + bytes_backed(a);
		drop_kept(all, a);
	}
	return weir__fail(
		-ENOMEM,
		"%zu bytes are needed, %llu of %llu are available, %llu of them promised to other buffers",
		len, (unsigned long long)avail, (unsigned long long)total,
		(unsigned long long)out);
}

/* Unmap a kept arena in RAM on any of @nodes. False: there is none. */
static bool drop_one_on(struct arenas *all, const struct weir__nodes *nodes)
{
	struct arena *a = all->kept;

	while (a && (weir__pages_reserved(&a->pages) ||
		     !weir__nodes_meet(nodes, &a->pages.nodes)))
		a = a->next;
	if (a)
		drop_kept(all, a);
	return a;
}

/*
 * Make sure that the nodes of @want have room, if they do not after kept arenas
 * were unmapped: memory that is bound to them is refused (-ENOMEM), because the
 * kernel would kill a process at the first touch. Other memory comes from
 * further nodes, and want->why_not says so.
 */
static int room_on_nodes(struct arenas *all, struct weir__pages *want)
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

/*
 * Taking an arena: a kept one that fits, else a new mapping within the budget
 * and the available memory, with the pages that were asked for or the next
 * best.
 */

/*
 * Map new pages. Limits of the kernel count kept arenas too: these are unmapped
 * before the request is refused. < 0: want->why says why. With the lock.
 */
static int map_new(struct arenas *all, struct weir__pages *want,
		   struct arena **ret_arena)
{
	unsigned types = weir__pages_reserved(want) ? 1u << want->type
						    : PAGES_ANY;
	struct arena *a = weir__calloc(1, sizeof(*a)), *kept;
	int r;

	if (!a)
		return weir__fail(-ENOMEM, "no memory for %zu bytes",
				  sizeof(*a));
	a->pages = *want;
	a->pages.locked = false;
	while ((r = weir__pages_map(&a->pages)) == -ENOMEM &&
	       (kept = oldest_kept(all, types)))
		drop_kept(all, kept);
	if (r < 0) {
		memcpy(want->why, a->pages.why, sizeof(want->why));
		weir__free(a);
		return r;
	}
	all->used += a->pages.len;
	*ret_arena = a;
	return 0;
}

/*
 * Find a kept arena, or map a new one. < 0: want->why says why or, if it is
 * empty, the sentence. With the lock.
 */
static int find_or_map(struct arenas *all, struct weir__pages *want,
		       struct arena **ret_arena)
{
	struct arena *a = want->shared ? NULL : take_kept(all, want);
	int r;

	if (!a && want->locked) {
		want->locked = false;
		a = want->shared ? NULL : take_kept(all, want);
	}
	if (!a) {
		r = room_in_budget(all, want->len);
		if (!r && !weir__pages_reserved(want)) {
			r = room_in_ram(all, want->len);
			r = r < 0 ? r : room_on_nodes(all, want);
		}
		if (r < 0 || (r = map_new(all, want, &a)) < 0)
			return r;
	}
	*ret_arena = a;
	return 0;
}

/*
 * Lock @p. Kept memory that is locked counts towards the limit: it is unmapped
 * first.
 */
static int lock_pages(struct arenas *all, struct weir__pages *p, bool strict)
{
	struct arena *kept;
	int r;

	while ((r = weir__pages_lock(p)) < 0 && (kept = oldest_locked(all)))
		drop_kept(all, kept);
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
static int arena_settle(struct arenas *all, struct arena *a,
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
static int arena_take(struct arenas *all, const struct weir__arena_req *req,
		      struct weir__pages *want, struct weir_backend_mem *mem)
{
	struct arena *a;
	int r = find_or_map(all, want, &a);

	if (r < 0)
		return r;
	r = arena_settle(all, a, req, mem);
	if (r < 0) {
		arena_destroy(all, a);
		return r;
	}
	a->mem = mem;
	add_live(all, a);
	return 0;
}

/* Back all of it if a page that is missing later would kill the process. */
static int back_eagerly(struct arenas *all, struct weir__pages *want,
			struct weir_backend_mem *mem)
{
	struct arena *a = mem->handle;
	size_t len = a->pages.len;

	if (!a->pages.eager || !weir__arena_back(all->weir, mem, len))
		return 0;
	snprintf(
		want->why, sizeof(want->why),
		"%zu of %zu bytes could be backed, more are refused by a cgroup, a cpuset or a NUMA policy",
		len - (size_t)weir__pages_missing(&a->pages, 0), len);
	pthread_mutex_lock(&all->lock);
	remove_live(all, a);
	arena_destroy(all, a);
	pthread_mutex_unlock(&all->lock);
	return -ENOMEM;
}

/* Find the nodes that @req asks for; none: any. */
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

/* Take an arena with pages of one type. Errors of find_or_map(). */
static int take_type(struct arenas *all, const struct weir__arena_req *req,
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

/* Take other pages than reserved ones: huge ones if at least one is needed. */
static int take_plain(struct arenas *all, const struct weir__arena_req *req,
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
static int take_reserved(struct arenas *all, const struct weir__arena_req *req,
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
static int try_reserved(struct arenas *all, const struct weir__arena_req *req,
			struct weir_backend_mem *mem)
{
	int r = -EOPNOTSUPP;

	if (req->hugetlb_1g)
		r = take_reserved(all, req, WEIR__PAGES_RESERVED_1G, mem);
	if (r < 0 && (req->hugetlb || !req->strict))
		r = take_reserved(all, req, WEIR__PAGES_RESERVED, mem);
	return r;
}

static int take_any(struct arenas *all, const struct weir__arena_req *req,
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
	struct arenas *all;
	unsigned before;
	int r = arenas_get(weir, &all);

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

/* Shared memory is not used again: another process may still use it. */
void weir__arena_give(struct weir *weir, struct weir_backend_mem *mem)
{
	struct arenas *all = arenas_of(weir);
	struct arena *a = mem->handle;
	size_t len = a->pages.len;
	bool kept;

	a->backed = __atomic_load_n(&mem->backed, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&all->lock);
	remove_live(all, a);
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
	struct arena *a = mem->handle;

	weir__pages_hide(&a->pages, hidden);
}

/* The pages still count towards the budget. */
void weir__arena_leak(struct weir *weir, struct weir_backend_mem *mem)
{
	struct arenas *all = arenas_of(weir);
	struct arena *a = mem->handle;

	pthread_mutex_lock(&all->lock);
	remove_live(all, a);
	pthread_mutex_unlock(&all->lock);
	weir__sys_close(a->pages.fd);
	weir__free(a);
}

int weir__arena_prefault(struct weir_backend_mem *mem, size_t bytes)
{
	struct arena *a = mem->handle;

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
	struct arenas *all = arenas_of(weir);
	struct arena *a = NULL;
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
	struct arenas *all;
	int r = arenas_get(weir, &all);

	if (r < 0)
		return r;
	pthread_mutex_lock(&all->lock);
	r = room_in_budget(all, bytes);
	if (!r)
		all->used += bytes;
	pthread_mutex_unlock(&all->lock);
	return r;
}

void weir__arena_unreserve(struct weir *weir, size_t bytes)
{
	struct arenas *all = arenas_of(weir);

	pthread_mutex_lock(&all->lock);
	all->used -= bytes;
	pthread_mutex_unlock(&all->lock);
}
