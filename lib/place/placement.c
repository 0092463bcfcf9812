/* SPDX-License-Identifier: MIT */
#include "place/placement.h"

#include <string.h>
#include <xxhash.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "mem/buf.h"
#include "mem/tensor.h"
#include "place/planner.h"
#include "place/rects.h"
#include "place/tensors.h"

typedef unsigned long long ull;

static const struct weir_place_memory plain_memory;

/* The options as the library knows them, with one memory at least. */
static int opts_in(const struct weir_placement_opts *opts,
		   struct weir_placement_opts *ret)
{
	int r = weir__opts_in(ret, sizeof(*ret), opts);

	if (r < 0)
		return r;
	if (ret->n_memories && !ret->memory)
		return weir__fail(-EINVAL, "%u memories, but no list of them",
				  ret->n_memories);
	if (ret->time_ns < -1)
		return weir__fail(-EINVAL, "time_ns %lld, at least -1",
				  (long long)ret->time_ns);
	if (!ret->n_memories) {
		ret->memory = &plain_memory;
		ret->n_memories = 1;
	}
	return 0;
}

/* Add @bytes to a fingerprint. */
static void hash_add(uint64_t hash[2], const void *data, size_t bytes)
{
	XXH128_hash_t h = XXH3_128bits_withSeed(data, bytes, hash[0]);

	hash[0] = h.low64;
	hash[1] = h.high64 ^ (hash[1] * 0x9e3779b97f4a7c15u);
}

static void hash_problem(const struct weir_lifetime *items, size_t n,
			 const struct weir_placement_opts *o, uint64_t hash[2])
{
	uint64_t counts[2] = { n, o->n_memories };

	hash[0] = hash[1] = 0;
	hash_add(hash, counts, sizeof(counts));
	hash_add(hash, o->memory, o->n_memories * sizeof(*o->memory));
	if (n)
		hash_add(hash, items, n * sizeof(*items));
}

static struct weir_placement *placement_alloc(size_t n, unsigned n_memories)
{
	struct weir_placement *p = weir__calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->n = n;
	p->n_memories = n_memories;
	p->place = weir__calloc(n + !n, sizeof(*p->place));
	p->memory = weir__calloc(n_memories, sizeof(*p->memory));
	if (p->place && p->memory)
		return p;
	weir_placement_free(p);
	return NULL;
}

void weir_placement_free(struct weir_placement *p)
{
	if (!p)
		return;
	for (unsigned i = 0; p->memory && i < p->n_memories; i++)
		weir__free(p->memory[i].member);
	weir__free(p->memory);
	weir__free(p->place);
	weir__free(p);
}

/* The state of one call of weir_placement_new(). */
struct placement_call {
	const struct weir_lifetime *items;
	size_t n;
	struct weir_placement_opts opts;
	int64_t deadline;
	struct weir__rects *rects; /* one for each memory */
	uint32_t *rect_of;         /* rectangle of each item */
	struct weir_placement *p;
};

/*
 * -ENOSPC: an item, with its size rounded up, is larger than the largest
 * buffer.
 */
static int check_largest(const struct placement_call *m, unsigned memory,
			 uint64_t room)
{
	const struct weir__rects *p = &m->rects[memory];

	for (size_t i = 0; i < m->n; i++)
		if (m->items[i].memory == memory &&
		    weir__up(m->items[i].bytes, p->unit) > room)
			return weir__fail(
				-ENOSPC,
				"item %zu: %llu bytes, the largest buffer of memory %u has %llu",
				i, (ull)m->items[i].bytes, memory, (ull)room);
	return 0;
}

/* -ENOSPC: the placement is higher than the capacity. */
static int check_height(const struct placement_call *m, unsigned memory)
{
	const struct weir_placement_info *info = &m->p->memory[memory].info;
	uint64_t capacity = m->opts.memory[memory].capacity;
	size_t highest = 0;

	if (!capacity || info->bytes <= capacity)
		return 0;
	for (size_t i = 0; i < m->n; i++)
		if (m->items[i].memory == memory &&
		    m->p->place[i].offset + m->p->place[i].bytes == info->bytes)
			highest = i;
	return weir__fail(
		-ENOSPC,
		"memory %u: the items need %llu bytes, it has %llu; item %zu is highest; every placement needs at least %llu",
		memory, (ull)info->bytes, (ull)capacity, highest,
		(ull)info->bound);
}

/* Set the bytes of each member, and the offsets as in a joined buffer. */
static int place_members(struct placement_call *m, unsigned memory,
			 uint64_t height)
{
	const struct weir__rects *p = &m->rects[memory];
	struct weir__placed *placed = &m->p->memory[memory];
	uint64_t stride = p->stride ? p->stride : height, at = 0;
	size_t n = height ? (height - 1) / stride + 1 : 0;
	uint64_t *member = weir__calloc(2 * n + 1, sizeof(*member));
	uint64_t *begin = member + n;

	if (!member)
		return weir__fail(-ENOMEM, "no memory for %zu members", n);
	for (size_t i = 0; i < p->n; i++) {
		const struct weir__rect *x = &p->rect[i];
		uint64_t end = x->offset % stride + x->bytes;

		if (member[x->offset / stride] < end)
			member[x->offset / stride] = end;
	}
	for (size_t k = 0; k < n; k++) {
		begin[k] = at;
		at += member[k];
	}
	for (size_t i = 0; i < m->n; i++) {
		uint32_t rect = m->rect_of[i];
		struct weir__place *place = &m->p->place[i];
		uint64_t off;

		if (m->items[i].memory != memory)
			continue;
		place->memory = memory;
		if (rect == WEIR__NO_RECT)
			continue;
		off = p->rect[rect].offset;
		place->bytes = weir__up(m->items[i].bytes, p->unit);
		place->member = (uint32_t)(off / stride);
		place->offset = begin[place->member] + off % stride;
	}
	placed->member = member;
	placed->begin = begin;
	placed->info.members = (uint32_t)n;
	placed->info.bytes = at;
	return 0;
}

static int place_memory(struct placement_call *m, unsigned memory)
{
	const struct weir_place_memory *mem = &m->opts.memory[memory];
	struct weir__rects *p = &m->rects[memory];
	struct weir_placement_info *info = &m->p->memory[memory].info;
	struct weir__planner_opts opts = { mem->enough ? mem->enough
						       : mem->capacity,
					   mem->capacity, mem->max, m->deadline,
					   m->opts.threads };
	struct weir__planner_result result = { 0 };
	int r = 0;

	if (mem->max && p->n)
		r = check_largest(m, memory, weir__down(mem->max, p->align));
	if (!r && p->n)
		r = weir__rects_place(p, &opts, &result);
	if (!r)
		r = place_members(m, memory, result.height);
	if (r < 0)
		return r;
	info->items = p->n_items;
	info->in_place = p->in_place;
	info->bound = result.bound;
	info->align = p->align;
	info->nodes = result.nodes;
	if (info->bytes <= result.bound)
		info->flags |= WEIR_PLACED_OPTIMAL;
	return check_height(m, memory);
}

static int place_all(struct placement_call *m)
{
	int64_t begun = weir__now();
	uint64_t problem[2];
	int r;

	if (m->opts.time_ns)
		m->deadline = m->opts.time_ns < 0 || m->opts.time_ns >
							     INT64_MAX - begun
				      ? INT64_MAX
				      : begun + m->opts.time_ns;
	r = weir__rects_make(m->items, m->n, m->opts.memory, m->opts.n_memories,
			     m->rects, m->rect_of);
	for (unsigned i = 0; i < m->opts.n_memories && !r; i++)
		r = place_memory(m, i);
	if (r < 0)
		return r;
	hash_problem(m->items, m->n, &m->opts, problem);
	for (unsigned i = 0; i < m->opts.n_memories; i++) {
		struct weir_placement_info *info = &m->p->memory[i].info;

		info->time_ns = weir__now() - begun;
		memcpy(info->fingerprint, problem, sizeof(info->fingerprint));
		hash_add(info->fingerprint, m->p->place,
			 m->n * sizeof(*m->p->place));
	}
	return 0;
}

int weir__placement_new(const struct weir_lifetime *items, size_t n,
			const struct weir_placement_opts *opts,
			struct weir_placement **ret_placement)
{
	struct placement_call m = { .items = items, .n = n };
	int r;

	if (n && !items)
		return weir__fail(-EINVAL, "%zu items, but no list of them", n);
	if ((r = opts_in(opts, &m.opts)) < 0 ||
	    (r = weir__rects_check(items, n, m.opts.memory,
				   m.opts.n_memories)) < 0)
		return r;
	m.rects = weir__calloc(m.opts.n_memories, sizeof(*m.rects));
	m.rect_of = weir__calloc(n + !n, sizeof(*m.rect_of));
	m.p = placement_alloc(n, m.opts.n_memories);
	if (m.rects && m.rect_of && m.p)
		r = place_all(&m);
	else
		r = weir__fail(-ENOMEM, "no memory for %zu items", n);
	if (m.rects)
		weir__rects_free(m.rects, m.opts.n_memories);
	weir__free(m.rects);
	weir__free(m.rect_of);
	if (r < 0)
		weir_placement_free(m.p);
	else
		*ret_placement = m.p;
	return r;
}

int weir_placement_new(const struct weir_lifetime *items, size_t n,
		       const struct weir_placement_opts *opts,
		       struct weir_placement **ret_placement)
{
	WEIR__ENTER();
	return weir__placement_new(items, n, opts, ret_placement);
}

int weir_placement_info(const struct weir_placement *p, unsigned memory,
			struct weir_placement_info *ret_info)
{
	WEIR__ENTER();
	if (memory >= p->n_memories)
		return weir__fail(-EINVAL, "memory %u of %u", memory,
				  p->n_memories);
	return weir__info_out(ret_info, &p->memory[memory].info,
			      sizeof(*ret_info));
}

uint64_t weir_placement_offset(const struct weir_placement *p, size_t i)
{
	return i < p->n ? p->place[i].offset : UINT64_MAX;
}

uint64_t weir_placement_member(const struct weir_placement *p, unsigned memory,
			       unsigned i)
{
	if (memory >= p->n_memories || i >= p->memory[memory].info.members)
		return 0;
	return p->memory[memory].member[i];
}

/* Applying a placement: buffers that have room for it, and tensors in them. */

/*
 * The bytes to skip in a buffer until its address has the greatest alignment.
 */
static uint64_t lead_of(const struct weir_placement_info *info,
			const struct weir_buf *member)
{
	return info->align ? -(uintptr_t)member->mem.base & (info->align - 1)
			   : 0;
}

static struct weir_buf *member_of(struct weir_buf *buf, unsigned i)
{
	if (!buf->member)
		return i ? NULL : buf;
	return i < buf->n_members ? buf->member[i] : NULL;
}

/* -ENOSPC: @buf lacks a member, or one is too small. */
static int check_room(const struct weir__placed *placed, unsigned memory,
		      struct weir_buf *buf)
{
	const struct weir_placement_info *info = &placed->info;

	for (unsigned i = 0; i < info->members; i++) {
		struct weir_buf *member = member_of(buf, i);
		uint64_t lead;

		if (!member)
			return weir__fail(
				-ENOSPC,
				"memory %u: the items need %u buffers, there are %u",
				memory, info->members, i);
		lead = lead_of(info, member);
		if (lead > member->bytes ||
		    placed->member[i] > member->bytes - lead)
			return weir__fail(
				-ENOSPC,
				"memory %u: buffer %u has %zu bytes, the items need %llu and %llu to align them to %llu",
				memory, i, member->bytes,
				(ull)placed->member[i], (ull)lead,
				(ull)info->align);
	}
	return 0;
}

/* True if @buf may stay. If it may not, that is no failure of the call. */
static bool has_room(const struct weir_placement *p, unsigned m,
		     const struct weir_buft *buft, struct weir_buf *buf)
{
	struct weir__error_saved saved;
	bool has;

	if (!buf || buf->buft != buft)
		return false;
	weir__error_save(&saved);
	has = !check_room(&p->memory[m], m, buf);
	weir__error_restore(&saved);
	return has;
}

static int alloc_buf(const struct weir__placed *placed, struct weir_buft *buft,
		     struct weir_buf **ret_buf)
{
	uint64_t align = placed->info.align, own = buft->desc.align;
	size_t n = placed->info.members;
	uint64_t *sizes = weir__malloc((n + !n) * sizeof(*sizes));
	int r;

	if (!sizes)
		return weir__fail(-ENOMEM, "no memory for %zu members", n);
	for (size_t i = 0; i < n; i++)
		sizes[i] = placed->member[i] + (align > own ? align - own : 0);
	r = weir__members_alloc(buft, sizes, n, ret_buf);
	weir__free(sizes);
	return r;
}

/* Allocate what does not stay. After a failure the caller frees @fresh. */
static int alloc_all(const struct weir_placement *p,
		     struct weir_buft *const *bufts,
		     struct weir_buf *const *bufs, struct weir_buf **fresh)
{
	int r = 0;

	for (unsigned m = 0; m < p->n_memories && !r; m++) {
		if (!p->memory[m].info.items)
			continue;
		if (!bufts[m])
			return weir__fail(-EINVAL,
					  "memory %u: its kind is NULL", m);
		r = weir__root_enter(bufts[m]->dev->weir);
		if (!r && !has_room(p, m, bufts[m], bufs[m]))
			r = alloc_buf(&p->memory[m], bufts[m], &fresh[m]);
	}
	return r;
}

int weir_placement_alloc(const struct weir_placement *p,
			 struct weir_buft *const *bufts, struct weir_buf **bufs)
{
	struct weir_buf **fresh =
		weir__calloc(p->n_memories, sizeof(struct weir_buf *));
	int r;

	WEIR__ENTER();
	if (!fresh)
		return weir__fail(-ENOMEM, "no memory for %u buffers",
				  p->n_memories);
	r = alloc_all(p, bufts, bufs, fresh);
	for (unsigned m = 0; m < p->n_memories; m++) {
		if (!r && fresh[m]) {
			weir__buf_put(bufs[m]);
			bufs[m] = fresh[m];
		} else {
			weir__buf_put(fresh[m]);
		}
	}
	weir__free(fresh);
	return r;
}

static int check_tensor(const struct weir_placement *p,
			struct weir_buf *const *bufs,
			const struct weir_tensor *t, size_t i)
{
	const struct weir__place *place = &p->place[i];
	uint64_t need;
	int r;

	if (t->of)
		return weir__fail(-EINVAL, "%s: item %zu is a view",
				  weir__tensor_label(t), i);
	r = weir__buft_need(bufs[place->memory]->buft, t, &need);
	if (r < 0)
		return r;
	if (need > place->bytes)
		return weir__fail(-ENOSPC, "%s: %llu bytes, item %zu has %llu",
				  weir__tensor_label(t), (ull)need, i,
				  (ull)place->bytes);
	return 0;
}

static int check_apply(const struct weir_placement *p,
		       struct weir_buf *const *bufs,
		       const struct weir_tensor *t, size_t n)
{
	int r = 0;

	if (n < p->n || (n && !t))
		return weir__fail(-EINVAL, "%zu tensors for %zu items",
				  t ? n : 0, p->n);
	for (unsigned m = 0; m < p->n_memories && !r; m++) {
		if (!p->memory[m].info.items)
			continue;
		if (!bufs[m])
			return weir__fail(-EINVAL,
					  "memory %u: its buffer is NULL", m);
		r = weir__root_enter(bufs[m]->buft->dev->weir);
		if (!r)
			r = check_room(&p->memory[m], m, bufs[m]);
	}
	for (size_t i = 0; i < p->n && !r; i++)
		r = check_tensor(p, bufs, &t[i], i);
	return r;
}

/* The offset in @buf, whose members may be larger than the placement's. */
static uint64_t offset_in(const struct weir_placement *p,
			  const struct weir__place *place, struct weir_buf *buf)
{
	const struct weir__placed *placed = &p->memory[place->memory];
	uint64_t offset = place->offset;

	if (!placed->info.members)
		return 0;
	offset += lead_of(&placed->info, member_of(buf, place->member));
	if (!place->member)
		return offset;
	return offset - placed->begin[place->member] +
	       buf->member_at[place->member];
}

int weir_placement_apply(const struct weir_placement *p,
			 struct weir_buf *const *bufs, struct weir_tensor *t,
			 size_t n)
{
	int r;

	WEIR__ENTER();
	r = check_apply(p, bufs, t, n);
	if (!r)
		r = weir__views_check(t, n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < p->n; i++) {
		t[i].buf = bufs[p->place[i].memory];
		t[i].offset = offset_in(p, &p->place[i], t[i].buf);
	}
	weir__views_place(t, n);
	return 0;
}
