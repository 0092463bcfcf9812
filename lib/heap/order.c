/* SPDX-License-Identifier: MIT */
/*
 * Lanes: free memory in the order of streams, and waits of one stream for the
 * free points of another. No operation is queued under the heap's lock, since
 * that may run functions of the program, which may use the heap.
 */
#include <string.h>

#include "core/error.h"
#include "core/races.h"
#include "core/refs.h"
#include "core/sys.h"
#include "heap/heap.h"
#include "stream/stream.h"

#define MARKERS 16u

static struct weir__lane **lane_list(struct weir__shard *s,
				     const struct weir_stream *stream)
{
	uint64_t key = (uint64_t)(uintptr_t)stream;

	return &s->by_stream[key * 0x9e3779b97f4a7c15u >> 58];
}

struct weir__lane *weir__lane_find(struct weir__shard *s,
				   const struct weir_stream *stream)
{
	struct weir__lane *lane = *lane_list(s, stream);

	while (lane && lane->stream != stream)
		lane = lane->next;
	return lane;
}

/* A lane in the place @i of the shard, where none is. */
static struct weir__lane *lane_make(struct weir__shard *s, size_t i,
				    struct weir_stream *stream)
{
	struct weir__lane *lane, **array, **list = lane_list(s, stream);

	array = weir__grow(s->lane, &s->cap_lanes, i, sizeof(*array));
	if (!array)
		return NULL;
	s->lane = array;
	lane = weir__calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->index = (uint16_t)i;
	lane->heap = s->heap;
	lane->stream = stream;
	lane->next = *list;
	*list = lane;
	while (s->n_lanes <= i)
		s->lane[s->n_lanes++] = NULL;
	s->lane[i] = lane;
	return lane;
}

int weir__lane_get(struct weir_heap *h, struct weir_stream *stream,
		   struct weir__lane **ret_lane)
{
	struct weir__lane *lane = weir__lane_find(&h->root, stream);
	bool native = false;
	size_t i = 0;

	if (lane) {
		*ret_lane = lane;
		return 0;
	}
	/* Lanes that were freed leave NULL. */
	while (i < h->root.n_lanes && h->root.lane[i])
		i++;
	if (i == WEIR__HEAP_LANES)
		return weir__fail(-ENOMEM, "%s is used with %zu streams",
				  h->label, i);
	if (stream && weir__stream_keep(stream, &native) < 0)
		return -ENOMEM;
	lane = lane_make(&h->root, i, stream);
	if (!lane) {
		if (stream)
			weir__source_put(&stream->src);
		return weir__fail(-ENOMEM, "no memory for stream %zu of %s", i,
				  h->label);
	}
	lane->native = native;
	*ret_lane = lane;
	return 0;
}

struct weir__lane *weir__lane_share(struct weir__shard *s,
				    const struct weir__lane *of)
{
	struct weir__lane *lane;

	if (of->index < s->n_lanes && s->lane[of->index])
		return s->lane[of->index];
	lane = lane_make(s, of->index, of->stream);
	if (lane)
		lane->native = of->native;
	return lane;
}

void weir__lanes_free(struct weir__shard *s)
{
	for (size_t i = 0; i < s->n_lanes; i++)
		weir__free(s->lane[i]);
	weir__free(s->lane);
	s->lane = NULL;
	s->n_lanes = s->cap_lanes = 0;
	memset(s->by_stream, 0, sizeof(s->by_stream));
}

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
		weir__races_host_knows(&lane->stream->src,
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

/* Native lanes with memory for which no marker was queued; referenced. */
static unsigned unmarked(struct weir_heap *h, struct weir__lane **lanes)
{
	unsigned n = 0;

	for (size_t i = 1; i < h->root.n_lanes && n < MARKERS; i++) {
		struct weir__lane *lane = h->root.lane[i];

		if (!lane || !lane->native || !lane->oldest || lane->marker)
			continue;
		weir__source_ref(&lane->stream->src);
		lanes[n++] = lane;
	}
	return n;
}

static void drain_all(struct weir_heap *h)
{
	for (size_t i = 1; i < h->root.n_lanes; i++)
		if (h->root.lane[i])
			weir__lane_drain(&h->root, h->root.lane[i], UINT32_MAX);
}

/* Queue a marker, if there is memory for one: memory freed so far is free then. */
static void lane_mark(struct weir_heap *h, struct weir__lane *lane)
{
	uint64_t frees, marker;

	weir__lock(&h->root.lock);
	frees = lane->frees;
	weir__heap_unlock(h);
	if (lane->stream->mode->tail(lane->stream, &marker) < 0)
		return;
	weir__lock(&h->root.lock);
	if (!lane->marker) {
		lane->marker = marker;
		lane->marked = frees;
	}
	weir__heap_unlock(h);
}

static void lanes_mark(struct weir_heap *h, struct weir__lane **lanes,
		       unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct weir__source *src = &lanes[i]->stream->src;

		lane_mark(h, lanes[i]);
		weir__source_put(src);
	}
}

void weir__lanes_poll(struct weir_heap *h)
{
	struct weir__lane *lanes[MARKERS];
	unsigned n;

	weir__lock(&h->root.lock);
	n = unmarked(h, lanes);
	if (n) {
		weir__heap_unlock(h);
		lanes_mark(h, lanes, n);
		weir__lock(&h->root.lock);
	}
	drain_all(h);
	weir__heap_unlock(h);
}

void weir__want_forget(struct weir__want *w, unsigned n)
{
	while (w->n_deps > n)
		weir__source_put(&w->dep[--w->n_deps].lane->stream->src);
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
		r = stream->mode->tail(stream, &number);
	if (r < 0)
		return r;
	if (stream_ended(dep->lane, number)) {
		weir__races_next_knows(&w->lane->stream->src, &stream->src,
				       number);
		return 0;
	}
	r = weir__stream_wait_ended(w->lane->stream, &stream->src, number);
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

void weir__lanes_collect(struct weir_heap *h)
{
	struct weir__lane *chain = NULL, *lane, **link;

	weir__heap_lock_all(h);
	weir__caches_revoke(h);
	for (size_t i = 1; i < h->root.n_lanes; i++) {
		lane = h->root.lane[i];
		if (!lane || atomic_load(&lane->stream->src.refs) > 1)
			continue;
		weir__caches_forget(h, lane->stream);
		weir__lane_drain(&h->root, lane, UINT32_MAX);
		if (lane->oldest)
			continue;
		link = lane_list(&h->root, lane->stream);
		while (*link != lane)
			link = &(*link)->next;
		*link = lane->next;
		lane->next = chain;
		chain = lane;
		h->root.lane[i] = NULL;
	}
	weir__caches_restore(h);
	weir__heap_unlock(h);
	while ((lane = chain)) {
		chain = lane->next;
		weir__source_put(&lane->stream->src);
		weir__free(lane);
	}
}

static void lane_over(struct weir__waiter *waiter)
{
	weir__heap_put(weir__container(waiter, struct weir__lane, last)->heap);
}

void weir__lanes_end(struct weir_heap *h)
{
	for (size_t i = 1; i < h->root.n_lanes; i++) {
		struct weir__lane *lane = h->root.lane[i];

		if (!lane)
			continue;
		weir__refs_add(&h->refs, 1);
		lane->last.wake = lane_over;
		if (weir__stream_await(lane->stream, &lane->last) != 0)
			weir__heap_put(h);
	}
	weir__heap_put(h);
}
