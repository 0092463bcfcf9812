/* SPDX-License-Identifier: MIT */
/*
 * Races: two accesses to a byte by different threads, at least one a write,
 * not both atomic, of which neither is ordered before the other.
 *
 * A block has a clock, the tick, which advances with every barrier, warp
 * synchronisation and release. Each access is kept with its tick. A lane knows
 * until which tick it has seen each lane of its warp (lane_seen), and each
 * other warp (warp_seen): what those did before that tick is ordered before
 * it. A fence and an atomic access of one block, and an atomic access and a
 * fence of another, order the two: the place keeps the ticks of the threads
 * that were released, and the other block what it acquired.
 *
 * The last write and two reads are kept for each granule of 4 bytes, with a
 * bit for each byte. Shuffles order nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define PAGE_CELLS 1024u

struct chunk {
	struct chunk *next;
	uint32_t data[];
};

struct release {
	struct release *next;
	uint32_t block;
	const uint32_t *ticks;
};

struct place {
	struct place *next;
	uint64_t address;
	struct release *releases;
};

static void *need(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "fakecuda: no memory\n");
	abort();
}

static void *keep(struct machine *machine, size_t bytes)
{
	struct chunk *c = need(calloc(1, sizeof(*c) + bytes + 8));

	c->next = machine->kept;
	machine->kept = c;
	return (void *)(((uintptr_t)c->data + 7) & ~(uintptr_t)7);
}

/* Until which tick thread (@w, @lane) has seen thread @other of its block. */
static uint32_t seen_of(const struct warp *w, unsigned lane, unsigned other)
{
	unsigned warp = other / LANES;

	return warp == w->index ? w->lane_seen[lane][other % LANES]
				: w->warp_seen[warp];
}

static bool acquired(const struct warp *w, unsigned lane, const struct seen *s)
{
	const struct block *b = w->block;
	const struct acquired *a;
	unsigned me = w->index * LANES + lane;

	for (a = b->acquired; a; a = a->next) {
		if (a->tick != NO_FENCE && a->block == s->block &&
		    a->ticks[s->thread] > s->tick &&
		    (a->thread == me || seen_of(w, lane, a->thread) > a->tick))
			return true;
	}
	return false;
}

/* True if the access @s is ordered before what (@w, @lane) does now. */
static bool before(const struct warp *w, unsigned lane, const struct seen *s)
{
	if (s->block != w->block->serial)
		return acquired(w, lane, s);
	if (s->thread == w->index * LANES + lane)
		return true;
	return seen_of(w, lane, s->thread) > s->tick;
}

static void conflict(struct warp *w, const struct ins *in, unsigned lane,
		     bool shared, uint64_t address, const struct seen *s,
		     const char *now, const char *then)
{
	const struct machine *machine = w->block->machine;
	unsigned line = machine->kernel->code[s->ins].line;

	if (s->block != w->block->serial)
		ptx_found(
			w, in, lane, F_RACE,
			"races for %#llx of global memory: %s what thread %u of another block %s in line %u",
			(unsigned long long)address, now, s->thread, then,
			line);
	else
		ptx_found(
			w, in, lane, F_RACE,
			"races for %#llx of %s memory: %s what thread %u, of %s warp, %s in line %u, without a barrier between them",
			(unsigned long long)address,
			shared ? "shared" : "global", now, s->thread,
			s->thread / LANES == w->index ? "the same" : "another",
			then, line);
}

static struct cell *cell_of(struct machine *machine, uint64_t granule)
{
	uint64_t number = granule / PAGE_CELLS;
	struct page *p;
	size_t i;

	if (machine->last_page && machine->last_page->number == number)
		return &machine->last_page->cells[granule % PAGE_CELLS];
	if (2 * machine->n_pages >= machine->room_pages) {
		size_t old = machine->room_pages;
		struct page *was = machine->pages;

		machine->room_pages = old ? 2 * old : 64;
		machine->pages = need(
			calloc(machine->room_pages, sizeof(*machine->pages)));
		for (i = 0; i < old; i++) {
			size_t at;

			if (!was[i].cells)
				continue;
			at = was[i].number * 0x9e3779b97f4a7c15u %
			     machine->room_pages;
			while (machine->pages[at].cells)
				at = (at + 1) % machine->room_pages;
			machine->pages[at] = was[i];
		}
		free(was);
	}
	i = number * 0x9e3779b97f4a7c15u % machine->room_pages;
	while (machine->pages[i].cells && machine->pages[i].number != number)
		i = (i + 1) % machine->room_pages;
	p = &machine->pages[i];
	if (!p->cells) {
		p->number = number;
		p->cells = need(calloc(PAGE_CELLS, sizeof(*p->cells)));
		machine->n_pages++;
	}
	machine->last_page = p;
	return &p->cells[granule % PAGE_CELLS];
}

static bool same_thread(const struct seen *a, const struct seen *b)
{
	return a->block == b->block && a->thread == b->thread;
}

/* Keep a read; of two that are both needed the first stays. */
static void add_read(struct warp *w, unsigned lane, struct cell *c,
		     const struct seen *now)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct seen *r = &c->read[i];

		if (!r->block ||
		    (before(w, lane, r) && !(r->mask & ~now->mask)) ||
		    (same_thread(r, now) && r->mask == now->mask)) {
			*r = *now;
			return;
		}
	}
	/* Readers of different warps or blocks say more. */
	if (c->read[0].block == c->read[1].block &&
	    c->read[0].thread / LANES == c->read[1].thread / LANES &&
	    (c->read[0].block != now->block ||
	     c->read[0].thread / LANES != now->thread / LANES))
		c->read[1] = *now;
}

static void access_cell(struct warp *w, const struct ins *in, unsigned lane,
			bool shared, struct cell *c, uint64_t address,
			unsigned mask, enum access access)
{
	bool write = access != A_READ && access != A_READ_NOW;
	bool strong = access >= A_ATOMIC;
	struct seen now = { .block = w->block->serial,
			    .tick = w->block->tick,
			    .thread = w->index * LANES + lane,
			    .mask = mask & 15,
			    .atomic = strong,
			    .ins = (unsigned)(in -
					      w->block->machine->kernel->code) &
				   0x1ffff };
	const struct seen *s = &c->write;

	if (s->block && s->mask & now.mask && !(strong && s->atomic) &&
	    !before(w, lane, s))
		conflict(w, in, lane, shared, address, s,
			 write ? "writes" : "reads", "wrote");
	if (!write) {
		add_read(w, lane, c, &now);
		return;
	}
	for (unsigned i = 0; i < 2; i++) {
		s = &c->read[i];
		if (s->block && s->mask & now.mask && !(strong && s->atomic) &&
		    !before(w, lane, s))
			conflict(w, in, lane, shared, address, s, "writes",
				 "read");
	}
	if (now.mask == 15 || !c->write.block || !(c->write.mask & ~now.mask) ||
	    !same_thread(&c->write, &now) || c->write.tick != now.tick) {
		c->write = now;
		/* Reads that are ordered before it have done their duty. */
		for (unsigned i = 0; i < 2; i++) {
			if (!(c->read[i].mask & ~now.mask))
				c->read[i].block = 0;
		}
	} else {
		c->write.mask |= now.mask;
	}
}

void ptx_check_cells(struct warp *w, const struct ins *in, unsigned lane,
		     bool shared, uint64_t address, unsigned bytes,
		     enum access access)
{
	uint64_t at = address, end = address + bytes;

	while (at < end) {
		uint64_t granule = at / 4, next = (granule + 1) * 4;
		unsigned mask = 0;
		struct cell *c = shared ? &w->block->cells[granule]
					: cell_of(w->block->machine, granule);

		for (; at < next && at < end; at++)
			mask |= 1u << at % 4;
		access_cell(w, in, lane, shared, c, at - 1, mask, access);
	}
}

/* All lanes of @mask see what the others have seen, and did. */
void ptx_warp_synced(struct warp *w, uint32_t mask)
{
	uint32_t most[LANES] = { 0 }, l;
	unsigned i;

	w->block->tick++;
	for (l = mask; l; l &= l - 1) {
		const uint32_t *s = w->lane_seen[__builtin_ctz(l)];

		for (i = 0; i < LANES; i++)
			most[i] = s[i] > most[i] ? s[i] : most[i];
	}
	for (l = mask; l; l &= l - 1)
		most[__builtin_ctz(l)] = w->block->tick;
	for (l = mask; l; l &= l - 1)
		memcpy(w->lane_seen[__builtin_ctz(l)], most, sizeof(most));
}

/* The same for whole warps. */
void ptx_barrier_synced(struct block *block, const uint32_t lanes[LANES])
{
	uint32_t most[LANES] = { 0 };
	uint32_t i, k;

	block->tick++;
	for (i = 0; i < block->n_warps; i++) {
		if (!lanes[i])
			continue;
		for (k = 0; k < LANES; k++)
			if (block->warps[i].warp_seen[k] > most[k])
				most[k] = block->warps[i].warp_seen[k];
	}
	for (i = 0; i < block->n_warps; i++) {
		if (lanes[i])
			most[i] = block->tick;
	}
	for (i = 0; i < block->n_warps; i++) {
		struct warp *w = &block->warps[i];

		if (!lanes[i])
			continue;
		memcpy(w->warp_seen, most, sizeof(most));
		for (uint32_t l = lanes[i]; l; l &= l - 1)
			for (k = 0; k < LANES; k++)
				if (lanes[i] >> k & 1)
					w->lane_seen[__builtin_ctz(l)][k] =
						block->tick;
	}
}

static const uint32_t *ticks_now(struct warp *w, unsigned lane)
{
	struct block *b = w->block;
	uint32_t *t = keep(b->machine, 4ul * b->n_threads);

	for (uint32_t i = 0; i < b->n_threads; i++)
		t[i] = seen_of(w, lane, i);
	t[w->index * LANES + lane] = ++b->tick;
	return t;
}

static bool alone(const struct machine *machine)
{
	const unsigned *g = machine->launch->grid;

	return !machine->check || (uint64_t)g[0] * g[1] * g[2] == 1;
}

/* From now on the thread knows what strong reads before the fence found. */
static void fence_acquires(struct warp *w, unsigned lane)
{
	struct block *b = w->block;
	struct acquired *a;

	for (a = b->acquired; a; a = a->next)
		if (a->tick == NO_FENCE && a->thread == w->index * LANES + lane)
			a->tick = b->tick;
}

/* Inside a block a fence orders nothing that is checked here. */
void ptx_fence(struct warp *w, uint32_t m)
{
	if (alone(w->block->machine))
		return;
	for (uint32_t l = m; l; l &= l - 1) {
		unsigned lane = (unsigned)__builtin_ctz(l);

		fence_acquires(w, lane);
		w->released[lane] = (uint32_t *)(uintptr_t)ticks_now(w, lane);
	}
}

static struct place *place_of(struct machine *machine, uint64_t address)
{
	struct place *p;

	for (p = machine->places; p; p = p->next) {
		if (p->address == address)
			return p;
	}
	p = keep(machine, sizeof(*p));
	p->address = address;
	p->next = machine->places;
	machine->places = p;
	return p;
}

/* A strong write: what was fenced before it, or now, becomes known there. */
void ptx_release(struct warp *w, unsigned lane, uint64_t address, bool now)
{
	struct machine *machine = w->block->machine;
	const uint32_t *ticks;
	struct release *r;
	struct place *p;

	if (alone(machine))
		return;
	ticks = now ? ticks_now(w, lane) : w->released[lane];
	if (!ticks)
		return;
	p = place_of(machine, address);
	r = keep(machine, sizeof(*r));
	r->block = w->block->serial;
	r->ticks = ticks;
	r->next = p->releases;
	p->releases = r;
}

/* A strong read: what it found is known now, or after the next fence. */
void ptx_acquire(struct warp *w, unsigned lane, uint64_t address, bool now)
{
	struct block *b = w->block;
	const struct release *r;
	const struct place *p;

	if (alone(b->machine))
		return;
	for (p = b->machine->places; p && p->address != address; p = p->next)
		;
	for (r = p ? p->releases : NULL; r; r = r->next) {
		struct acquired *a;

		if (r->block == b->serial)
			continue;
		a = need(calloc(1, sizeof(*a)));
		a->block = r->block;
		a->thread = w->index * LANES + lane;
		a->tick = now ? b->tick : NO_FENCE;
		a->ticks = r->ticks;
		a->next = b->acquired;
		b->acquired = a;
	}
	b->tick++;
}

void ptx_block_end(struct block *block)
{
	struct acquired *a = block->acquired, *next;

	for (; a; a = next) {
		next = a->next;
		free(a);
	}
}

void ptx_check_end(struct machine *machine)
{
	struct chunk *c = machine->kept, *next;

	for (; c; c = next) {
		next = c->next;
		free(c);
	}
	for (size_t i = 0; i < machine->room_pages; i++)
		free(machine->pages[i].cells);
	free(machine->pages);
}
