/* SPDX-License-Identifier: MIT */
/* Placements are made and described here. */
#include "place/placement.h"

#include <string.h>
#include <xxhash.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "place/planner.h"

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
	struct weir__pieces *pieces; /* of each memory */
	uint32_t *piece_of;          /* of each item */
	struct weir_placement *p;
};

/* An item may be larger than the largest buffer: with its size rounded up. */
static int check_largest(const struct placement_call *m, unsigned memory,
			 uint64_t room)
{
	const struct weir__pieces *p = &m->pieces[memory];

	for (size_t i = 0; i < m->n; i++)
		if (m->items[i].memory == memory &&
		    weir__up(m->items[i].bytes, p->unit) > room)
			return weir__fail(
				-ENOSPC,
				"item %zu: %llu bytes, the largest buffer of memory %u has %llu",
				i, (ull)m->items[i].bytes, memory, (ull)room);
	return 0;
}

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

/* The bytes of each member, and the offsets as in a joined buffer. */
static int place_members(struct placement_call *m, unsigned memory,
			 uint64_t height)
{
	const struct weir__pieces *p = &m->pieces[memory];
	struct weir__placed *placed = &m->p->memory[memory];
	uint64_t chunk = p->chunk ? p->chunk : height, at = 0;
	size_t n = height ? (height - 1) / chunk + 1 : 0;
	uint64_t *member = weir__calloc(2 * n + 1, sizeof(*member));
	uint64_t *begin = member + n;

	if (!member)
		return weir__fail(-ENOMEM, "no memory for %zu members", n);
	for (size_t i = 0; i < p->n; i++) {
		const struct weir__place_piece *x = &p->piece[i];
		uint64_t end = x->offset % chunk + x->bytes;

		if (member[x->offset / chunk] < end)
			member[x->offset / chunk] = end;
	}
	for (size_t k = 0; k < n; k++) {
		begin[k] = at;
		at += member[k];
	}
	for (size_t i = 0; i < m->n; i++) {
		uint32_t piece = m->piece_of[i];
		struct weir__place *place = &m->p->place[i];
		uint64_t off;

		if (m->items[i].memory != memory)
			continue;
		place->memory = memory;
		if (piece == WEIR__NO_PIECE)
			continue;
		off = p->piece[piece].offset;
		place->bytes = weir__up(m->items[i].bytes, p->unit);
		place->member = (uint32_t)(off / chunk);
		place->offset = begin[place->member] + off % chunk;
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
	struct weir__pieces *p = &m->pieces[memory];
	struct weir_placement_info *info = &m->p->memory[memory].info;
	struct weir__planning how = { mem->enough ? mem->enough : mem->capacity,
				      mem->capacity, mem->max, m->deadline,
				      m->opts.threads };
	struct weir__planned planned = { 0 };
	int r = 0;

	if (mem->max && p->n)
		r = check_largest(m, memory, weir__down(mem->max, p->align));
	if (!r && p->n)
		r = weir__pieces_plan(p, &how, &planned);
	if (!r)
		r = place_members(m, memory, planned.height);
	if (r < 0)
		return r;
	info->items = p->n_items;
	info->in_place = p->in_place;
	info->bound = planned.bound;
	info->align = p->align;
	info->nodes = planned.nodes;
	if (info->bytes <= planned.bound)
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
	r = weir__pieces_make(m->items, m->n, m->opts.memory,
			      m->opts.n_memories, m->pieces, m->piece_of);
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
	    (r = weir__pieces_check(items, n, m.opts.memory,
				    m.opts.n_memories)) < 0)
		return r;
	m.pieces = weir__calloc(m.opts.n_memories, sizeof(*m.pieces));
	m.piece_of = weir__calloc(n + !n, sizeof(*m.piece_of));
	m.p = placement_alloc(n, m.opts.n_memories);
	if (m.pieces && m.piece_of && m.p)
		r = place_all(&m);
	else
		r = weir__fail(-ENOMEM, "no memory for %zu items", n);
	if (m.pieces)
		weir__pieces_free(m.pieces, m.opts.n_memories);
	weir__free(m.pieces);
	weir__free(m.piece_of);
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
