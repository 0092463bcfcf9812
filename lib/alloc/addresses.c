/* SPDX-License-Identifier: MIT */
/*
 * Reserved addresses: a mapping without access, parts of which are committed
 * and given back. Such an arena is live until it is given back, and then it is
 * unmapped: it is not kept. Only committed bytes count.
 */
#include "alloc/addresses.h"

#include "alloc/arenas.h"
#include "alloc/prefault.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"

/* From this size on several threads prefault faster than one. */
#define PREFAULT_TOGETHER ((size_t)32 << 20)

static int check_request(const struct weir__arena_req *req)
{
	if (req->bytes > SIZE_MAX / 2)
		return weir__fail(
			-ENOMEM,
			"%zu bytes are needed, which no address space has",
			req->bytes);
	if (req->kind != WEIR_MEM_LOCKED && !req->shared && !req->hugetlb &&
	    !req->hugetlb_1g)
		return 0;
	return weir__fail(
		-EOPNOTSUPP,
		"memory that is locked, shared or in reserved pages is not committed in parts");
}

static int map_bare(const struct weir__arena_req *req,
		    struct weir__arena **ret_arena)
{
	struct weir__arena *a = weir__calloc(1, sizeof(*a));
	int r;

	if (!a)
		return weir__fail(-ENOMEM, "no memory for reserved addresses");
	a->pages.len = weir__up(req->bytes, WEIR__HUGE_PAGE);
	a->pages.bare = true;
	a->pages.only = req->strict;
	a->pages.type = req->kind == WEIR_MEM_PLAIN ? WEIR__PAGES_SMALL
						    : WEIR__PAGES_TRANSPARENT;
	r = weir__arena_nodes(req, &a->pages.nodes);
	if (r >= 0) {
		r = weir__pages_map(&a->pages);
		if (r < 0)
			weir__fail(r, "%s", a->pages.why);
	}
	if (r < 0) {
		weir__free(a);
		return r;
	}
	*ret_arena = a;
	return 0;
}

int weir__addresses_take(struct weir *weir, const struct weir__arena_req *req,
			 bool prefault, struct weir_backend_mem *mem)
{
	struct weir__arenas *all;
	struct weir__arena *a = NULL;
	int r = check_request(req);

	if (r < 0 || (r = weir__arenas_get(weir, &all)) < 0 ||
	    (r = map_bare(req, &a)) < 0)
		return r;
	a->prefault = prefault;
	a->mem = mem;
	mem->base = a->pages.addr;
	mem->handle = a;
	mem->node = weir__nodes_only(&a->pages.nodes);
	mem->got = a->pages.huge ? WEIR_GOT_HUGE : 0;
	/* Loads prefault from the beginning of a buffer on, not parts of it. */
	__atomic_store_n(&mem->backed, a->pages.len, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&all->lock);
	weir__arena_add_live(all, a);
	pthread_mutex_unlock(&all->lock);
	return 0;
}

/* Count @bytes more, or less. With the lock. */
static void count(struct weir__arenas *all, struct weir__arena *a,
		  size_t committed)
{
	weir__arenas_count(all, committed - a->committed);
	all->live_bytes += committed - a->committed;
	a->committed = committed;
}

static int make_room(struct weir__arenas *all, const struct weir__arena *a,
		     size_t bytes)
{
	struct weir__pages want = a->pages;
	int r = weir__room_in_budget(all, bytes);

	want.len = bytes;
	if (r >= 0)
		r = weir__room_in_ram(all, bytes);
	return r < 0 ? r : weir__room_on_nodes(all, &want);
}

/* Back the part with pages, on several threads if that is faster. */
static int part_back(struct weir *weir, unsigned char *addr, size_t bytes)
{
	struct weir__pages part = { .addr = addr, .len = bytes };
	size_t backed = 0;

	if (bytes >= PREFAULT_TOGETHER)
		weir__prefault_all(weir, addr, bytes, &backed);
	return weir__pages_prefault(&part, &backed, bytes);
}

int weir__addresses_commit(struct weir *weir, struct weir_backend_mem *mem,
			   size_t off, size_t bytes)
{
	struct weir__arenas *all = weir__arenas_of(weir);
	struct weir__arena *a = mem->handle;
	int r;

	pthread_mutex_lock(&all->lock);
	r = make_room(all, a, bytes);
	if (r >= 0)
		count(all, a, a->committed + bytes);
	pthread_mutex_unlock(&all->lock);
	if (r < 0)
		return r;
	r = weir__sys_reoccupy(mem->base + off, bytes);
	if (r < 0)
		weir__fail_sys(r, "committing %zu bytes", bytes);
	else if (a->prefault)
		r = part_back(weir, mem->base + off, bytes);
	if (r >= 0)
		return 0;
	weir__sys_vacate(mem->base + off, bytes);
	pthread_mutex_lock(&all->lock);
	count(all, a, a->committed - bytes);
	pthread_mutex_unlock(&all->lock);
	return r;
}

int weir__addresses_decommit(struct weir *weir, struct weir_backend_mem *mem,
			     size_t off, size_t bytes)
{
	struct weir__arenas *all = weir__arenas_of(weir);
	struct weir__arena *a = mem->handle;
	int r = weir__sys_vacate(mem->base + off, bytes);

	if (r < 0)
		return weir__fail_sys(r, "giving %zu bytes back", bytes);
	pthread_mutex_lock(&all->lock);
	count(all, a, a->committed - bytes);
	pthread_mutex_unlock(&all->lock);
	return 0;
}
