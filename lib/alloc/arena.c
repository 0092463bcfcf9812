/* SPDX-License-Identifier: MIT */
#include "alloc/arena.h"

#include <stdio.h>
#include <unistd.h>

#include "alloc/avail.h"
#include "alloc/pages.h"
#include "alloc/topology.h"
#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "core/util.h"

/* A kept arena may be this much larger than a request that it serves. */
#define SLACK(len) ((len) / 4)

/*
 * One mapping: on the live list while a buffer uses it, then on the kept list
 * (oldest first), until it is used again or unmapped.
 */
struct arena {
	struct arena *next, **link;
	struct weir__pages pages;
	size_t touched;        /* kept: bytes known to be backed */
	struct weir__mem *mem; /* live: that of the buffer */
};

struct arenas {
	struct weir__part part;
	struct weir *weir;
	pthread_mutex_t lock; /* guards what follows */
	struct arena *live;
	size_t live_bytes;
	struct arena *kept, **kept_end;
	size_t kept_bytes;
	size_t keep; /* limit of kept_bytes */
};

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

static void arena_destroy(struct arena *a)
{
	weir__pages_unmap(&a->pages);
	weir__free(a);
}

static void drop_oldest(struct arenas *all)
{
	struct arena *a = all->kept;

	list_remove(all, a);
	all->kept_bytes -= a->pages.len;
	arena_destroy(a);
}

static size_t arenas_trim(struct weir__part *part, size_t keep)
{
	struct arenas *all = (struct arenas *)part;
	size_t kept;

	pthread_mutex_lock(&all->lock);
	while (all->kept_bytes > keep)
		drop_oldest(all);
	kept = all->kept_bytes;
	pthread_mutex_unlock(&all->lock);
	return kept;
}

/* Live arenas stay: their buffers still use them. */
static int arenas_close(struct weir__part *part, int64_t deadline)
{
	struct arenas *all = (struct arenas *)part;

	(void)deadline;
	pthread_mutex_lock(&all->lock);
	all->keep = 0;
	while (all->kept)
		drop_oldest(all);
	pthread_mutex_unlock(&all->lock);
	return 0;
}

static void arenas_free(struct weir__part *part)
{
	struct arenas *all = (struct arenas *)part;

	while (all->kept)
		drop_oldest(all);
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

/* Can a kept mapping @p serve @want? */
static bool kept_fits(const struct weir__pages *p,
		      const struct weir__pages *want)
{
	return p->len >= want->len && p->len - want->len <= SLACK(want->len) &&
	       p->is_huge == want->is_huge && p->locked == want->locked &&
	       weir__nodes_equal(&p->nodes, &want->nodes) &&
	       (!weir__nodes_count(&p->nodes) || p->only == want->only);
}

/* Take the smallest that fits off the kept list; all->lock is held. */
static struct arena *find_kept(struct arenas *all,
			       const struct weir__pages *want)
{
	struct arena *best = NULL;

	for (struct arena *a = all->kept; a; a = a->next)
		if (kept_fits(&a->pages, want) &&
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

/*
 * Bytes that live arenas (NULL: all; those on any of @nodes) may still need: an
 * upper bound by what they have touched, or exactly, by asking for each page
 * (mincore(2)).
 */
static uint64_t committed(const struct arenas *all,
			  const struct weir__nodes *nodes, bool exactly)
{
	uint64_t sum = 0;

	for (const struct arena *a = all->live; a; a = a->next) {
		size_t touched = atomic_load_explicit(&a->mem->touched,
						      memory_order_relaxed);

		if (touched >= a->pages.len ||
		    (nodes && !weir__nodes_meet(nodes, &a->pages.nodes)))
			continue;
		sum += exactly ? weir__pages_missing(&a->pages, touched)
			       : a->pages.len - touched;
	}
	return sum;
}

/*
 * Does @avail suffice for @len more bytes beside all that is committed? The
 * bound that needs no visit to each arena (there may be thousands) is tried
 * first. *@ret_out is set if the answer is no. all->lock is held.
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

/* Bytes of RAM that unmapping it frees. */
static uint64_t bytes_backed(const struct arena *a)
{
	return a->pages.len - weir__pages_missing(&a->pages, a->touched);
}

/*
 * Is there RAM for @len more bytes beside all that is committed? Kept arenas
 * are unmapped before the answer is no, oldest first. Their bytes count as
 * available at once: freed pages may be on per-CPU lists for a while, where the
 * kernel counts them neither as used nor as free. all->lock is held.
 */
static int check_avail(struct arenas *all, size_t len)
{
	uint64_t avail, total, out, expected = 0;

	for (;;) {
		if (weir__avail_ram("", &avail, &total) < 0)
			return 0; /* not known: let mmap(2) decide */
		if (avail < expected)
			avail = expected;
		if (is_enough(all, avail, len, &out))
			return 0;
		if (!all->kept)
			break;
		expected = avail + bytes_backed(all->kept);
		drop_oldest(all);
	}
	return weir__fail(
		-ENOMEM,
		"%zu bytes are needed, %llu of %llu are available, %llu of them promised to other buffers",
		len, (unsigned long long)avail, (unsigned long long)total,
		(unsigned long long)out);
}

/* Unmap a kept arena on any of @nodes; false: there is none. */
static bool drop_one_on(struct arenas *all, const struct weir__nodes *nodes)
{
	for (struct arena *a = all->kept; a; a = a->next)
		if (weir__nodes_meet(nodes, &a->pages.nodes)) {
			list_remove(all, a);
			all->kept_bytes -= a->pages.len;
			arena_destroy(a);
			return true;
		}
	return false;
}

/*
 * Have the nodes of @want room for it? If not, memory that is bound to them is
 * refused here, because the kernel would kill a process at the first touch; else
 * the rest comes from other nodes. all->lock is held.
 */
static int check_nodes(struct arenas *all, struct weir__pages *want)
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
 * Limits of the kernel count kept arenas too: these are unmapped before the
 * request is refused. all->lock is held.
 */
static int map_new(struct arenas *all, const struct weir__pages *want,
		   struct arena **ret_arena)
{
	struct arena *a = weir__calloc(1, sizeof(*a));
	int r;

	if (!a)
		return weir__fail(-ENOMEM, "no memory for %zu bytes",
				  sizeof(*a));
	a->pages = *want;
	a->pages.locked = false;
	while ((r = weir__pages_map(&a->pages)) == -ENOMEM && all->kept)
		drop_oldest(all);
	if (r < 0) {
		weir__free(a);
		return r;
	}
	*ret_arena = a;
	return 0;
}

/* all->lock is held. */
static int find_or_map(struct arenas *all, struct weir__pages *want,
		       struct arena **ret_arena)
{
	struct arena *a = find_kept(all, want);
	int r;

	if (!a && want->locked) {
		want->locked = false;
		a = find_kept(all, want);
	}
	if (!a) {
		r = check_avail(all, want->len);
		if (r < 0 || (r = check_nodes(all, want)) < 0 ||
		    (r = map_new(all, want, &a)) < 0)
			return r;
	}
	*ret_arena = a;
	return 0;
}

static int lock_pages(struct arenas *all, struct weir__pages *p, bool strict)
{
	int r;

	while ((r = weir__pages_lock(p)) < 0 && all->kept)
		drop_oldest(all);
	return r < 0 && strict ? weir__fail(r, "%s", p->why_not) : 0;
}

/* Why it has no huge pages; NULL: it has them. */
static const char *not_huge(const struct weir__pages *p)
{
	if (p->huge)
		return NULL;
	return p->is_huge ? p->why : "smaller than a huge page of 2 MiB";
}

static void say_why(const struct weir__pages *p, bool want_huge,
		    struct weir__mem *mem)
{
	const char *huge = want_huge ? not_huge(p) : NULL;

	snprintf(mem->why, sizeof(mem->why), "%s%.90s%s%.119s",
		 huge ? "no huge pages: " : "", huge ? huge : "",
		 huge && p->why_not[0] ? "; " : "", p->why_not);
}

/* Fill in @mem with what was granted; < 0: less than a strict request needs. */
static int arena_settle(struct arenas *all, struct arena *a,
			const struct weir__arena_req *req,
			struct weir__mem *mem)
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
	mem->got = (p->huge ? WEIR_GOT_HUGE : 0) |
		   (p->locked ? WEIR_GOT_LOCKED : 0);
	atomic_store(&mem->touched, a->touched);
	say_why(p, req->kind != WEIR_MEM_PLAIN, mem);
	return 0;
}

/* all->lock is held. */
static int arena_take(struct arenas *all, const struct weir__arena_req *req,
		      struct weir__pages *want, struct weir__mem *mem)
{
	struct arena *a;
	int r = find_or_map(all, want, &a);

	if (r < 0)
		return r;
	r = arena_settle(all, a, req, mem);
	if (r < 0) {
		arena_destroy(a);
		return r;
	}
	a->mem = mem;
	list_add(&all->live, a);
	all->live_bytes += a->pages.len;
	return 0;
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

/* Whole pages; huge ones if at least one is needed. */
static int want_pages(const struct weir__arena_req *req,
		      struct weir__pages *ret_want)
{
	bool huge = req->kind != WEIR_MEM_PLAIN &&
		    req->bytes >= WEIR__HUGE_PAGE;

	*ret_want = (struct weir__pages){
		.only = req->strict,
		.is_huge = huge,
		.locked = req->kind == WEIR_MEM_LOCKED,
	};
	if (req->bytes > SIZE_MAX / 2)
		return weir__fail(
			-ENOMEM,
			"%zu bytes are needed, which no address space has",
			req->bytes);
	ret_want->len =
		weir__up(req->bytes, huge ? WEIR__HUGE_PAGE
					  : (size_t)sysconf(_SC_PAGESIZE));
	return want_nodes(req, &ret_want->nodes);
}

int weir__arena_take(struct weir *weir, const struct weir__arena_req *req,
		     struct weir__mem *mem)
{
	struct weir__part *part;
	struct weir__pages want;
	struct arenas *all;
	int r = weir__root_part(weir, WEIR__PART_ALLOC, arenas_make, &part);

	if (r < 0 || (r = want_pages(req, &want)) < 0)
		return r;
	all = (struct arenas *)part;
	pthread_mutex_lock(&all->lock);
	r = arena_take(all, req, &want, mem);
	pthread_mutex_unlock(&all->lock);
	return r;
}

/* Put it on the kept list; false: it is too large. all->lock is held. */
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
		drop_oldest(all);
	return true;
}

void weir__arena_give(struct weir *weir, struct weir__mem *mem)
{
	struct arenas *all =
		(struct arenas *)atomic_load(&weir->part[WEIR__PART_ALLOC]);
	struct arena *a = mem->handle;
	bool kept;

	a->touched = atomic_load(&mem->touched);
	pthread_mutex_lock(&all->lock);
	list_remove(all, a);
	all->live_bytes -= a->pages.len;
	a->mem = NULL;
	kept = arena_keep(all, a);
	pthread_mutex_unlock(&all->lock);
	if (!kept)
		arena_destroy(a);
}

void weir__arena_hide(struct weir__mem *mem, bool hidden)
{
	struct arena *a = mem->handle;

	weir__pages_hide(&a->pages, hidden);
}

void weir__arena_leak(struct weir *weir, struct weir__mem *mem)
{
	struct arenas *all =
		(struct arenas *)atomic_load(&weir->part[WEIR__PART_ALLOC]);
	struct arena *a = mem->handle;

	pthread_mutex_lock(&all->lock);
	list_remove(all, a);
	all->live_bytes -= a->pages.len;
	pthread_mutex_unlock(&all->lock);
	weir__free(a);
}

int weir__arena_touch(struct weir__mem *mem, size_t bytes)
{
	struct arena *a = mem->handle;

	return weir__pages_touch(&a->pages, &mem->touched, bytes);
}
