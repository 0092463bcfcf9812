/* SPDX-License-Identifier: MIT */
/*
 * Free memory in the order of streams: whether free points are done, and waits of
 * one stream for the free points of another. No operation is queued under the heap's lock, since
 * that may run functions of the program, which may use the heap.
 */
#include "core/error.h"
#include "races/races.h"
#include "heap/heap.h"
#include "stream/stream.h"

#define MARKERS 16u
/*
 * Another thread may submit work to a native stream, which takes microseconds, or be
 * blocked in its driver. Memory is taken from elsewhere if it takes longer.
 */
#define MARK_NS 1000000

uint64_t weir__lane_number(struct weir__lane *lane)
{
	if (lane->native)
		return ++lane->frees;
	return lane->stream ? weir__stream_tail(lane->stream) : 0;
}

static bool stream_ended(struct weir__lane *lane, uint64_t number)
{
	return weir__stream_ended(lane->stream, number);
}

static bool number_ended(struct weir__lane *lane, uint64_t number)
{
	if (!lane->native)
		return stream_ended(lane, number);
	if (lane->marker && stream_ended(lane, lane->marker)) {
		lane->ended = lane->marked;
		lane->ended_marker = lane->marker;
		lane->marker = 0;
	}
	return number <= lane->ended;
}

bool weir__lane_ended(struct weir__lane *lane, uint64_t number)
{
	bool ended = number_ended(lane, number);

	if (ended && lane->stream)
		weir__races_host_knows(&lane->stream->timeline,
				       lane->native ? lane->ended_marker
						    : number);
	return ended;
}

void weir__lane_drain(struct weir__shard *s, struct weir__lane *lane,
		      unsigned most)
{
	while (lane->oldest && most--) {
		struct weir__piece *c = weir__heap_piece(s->heap, lane->oldest);

		if (!weir__lane_ended(lane, c->number))
			return;
		weir__shard_del(s, c);
		c->lane = 0;
		weir__shard_merge(s, c);
	}
}

/*
 * Native lanes with memory for which no marker was queued; used. Those that come next
 * have their turn in the next call, since some queues may refuse markers for long.
 */
static unsigned unmarked(struct weir__shard *s, struct weir__lane **lanes)
{
	struct weir__lane *lane = s->busy, *next, *last = s->busy_last;
	unsigned n = 0;

	for (; lane && n < MARKERS; lane = next) {
		next = lane == last ? NULL : lane->busy_next;
		if (!lane->native || lane->marker ||
		    atomic_load(&lane->stream->unmarked))
			continue;
		weir__lane_rest(s, lane);
		weir__lane_busy(s, lane);
		lane->users++;
		lanes[n++] = lane;
	}
	return n;
}

static void drain_all(struct weir__shard *s)
{
	struct weir__lane *lane, *next;

	for (lane = s->busy; lane; lane = next) {
		next = lane->busy_next;
		weir__lane_drain(s, lane, UINT32_MAX);
	}
}

/* Queue a marker, if there is memory for one: memory freed so far is free then. */
static void lane_mark(struct weir_heap *h, struct weir__lane *lane)
{
	uint64_t frees, marker;

	weir__lock(&h->root.lock);
	frees = lane->frees;
	weir__heap_unlock(h);
	if (weir__stream_tail_within(lane->stream, 1, &marker) < 0)
		return;
	weir__lock(&h->root.lock);
	if (!lane->marker) {
		lane->marker = marker;
		lane->marked = frees;
	}
	weir__heap_unlock(h);
}

/* Queue some markers. False: no lane is left that has memory and no marker. */
static bool mark_some(struct weir_heap *h)
{
	struct weir__lane *lanes[MARKERS];
	unsigned n;

	weir__lock(&h->root.lock);
	n = unmarked(&h->root, lanes);
	weir__heap_unlock(h);
	for (unsigned i = 0; i < n; i++) {
		lane_mark(h, lanes[i]);
		weir__lane_unuse(lanes[i]);
	}
	return n == MARKERS;
}

void weir__lanes_poll(struct weir_heap *h, bool all)
{
	size_t rounds;

	weir__lock(&h->root.lock);
	/* First, since a lane whose marker is done needs another one. */
	drain_all(&h->root);
	rounds = all ? h->root.used_lanes / MARKERS : 0;
	weir__heap_unlock(h);
	/* Those whose queues refuse markers come last again and again. */
	while (mark_some(h) && rounds--)
		;
	weir__lock(&h->root.lock);
	drain_all(&h->root);
	weir__heap_unlock(h);
}

void weir__want_forget(struct weir__want *w, unsigned n)
{
	while (w->n_deps > n)
		weir__lane_unuse(w->dep[--w->n_deps].lane);
	if (w->n_queued > n)
		w->n_queued = n;
}

static int dep_wait(struct weir_heap *h, const struct weir__want *w,
		    const struct weir__dep *dep)
{
	struct weir_stream *stream = dep->lane->stream;
	uint64_t number = dep->number;
	int r = 0;

	/* Its marker covers more than is needed: the newest work. */
	if (dep->lane->native)
		r = weir__stream_tail_within(stream, MARK_NS, &number);
	if (r < 0)
		return r;
	if (stream_ended(dep->lane, number)) {
		weir__races_next_knows(&w->lane->stream->timeline,
				       &stream->timeline, number);
		return 0;
	}
	r = weir__stream_wait_ended(w->lane->stream, &stream->timeline, number);
	if (r < 0)
		return r;
	weir__lock(&h->root.lock);
	h->waits++;
	weir__heap_unlock(h);
	return 0;
}

bool weir__lanes_wait(struct weir_heap *h, struct weir__want *w)
{
	for (; w->n_queued < w->n_deps; w->n_queued++) {
		const struct weir__dep *dep = &w->dep[w->n_queued];
		uint16_t index = dep->lane->index;

		if (dep_wait(h, w, dep) == 0)
			continue;
		weir__want_forget(w, w->n_queued);
		w->refused[w->n_refused++] = index;
		return false;
	}
	return true;
}
