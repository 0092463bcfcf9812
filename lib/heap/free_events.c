/* SPDX-License-Identifier: MIT */
/*
 * Free events: whether they are done, and waits of one stream for those of
 * another. No operation is queued under the heap's lock, since that may run
 * functions of the program, which may use the heap.
 */
#include "core/error.h"
#include "races/races.h"
#include "heap/heap.h"
#include "stream/stream.h"

#define MARKERS 16u
/*
 * How long to wait for another thread that submits work to a native stream,
 * which takes microseconds. If it is blocked in the driver, memory is taken
 * from elsewhere.
 */
#define MARK_NS 1000000

uint64_t weir__free_event_now(struct weir__stream_bin *bin)
{
	if (bin->native)
		return ++bin->frees;
	return bin->stream ? weir__stream_tail(bin->stream) : 0;
}

static bool stream_ended(struct weir__stream_bin *bin, uint64_t number)
{
	return weir__stream_ended(bin->stream, number);
}

static bool number_ended(struct weir__stream_bin *bin, uint64_t number)
{
	if (!bin->native)
		return stream_ended(bin, number);
	if (bin->marker && stream_ended(bin, bin->marker)) {
		bin->ended = bin->marked;
		bin->ended_marker = bin->marker;
		bin->marker = 0;
	}
	return number <= bin->ended;
}

bool weir__free_event_done(struct weir__stream_bin *bin, uint64_t number)
{
	bool ended = number_ended(bin, number);

	if (ended && bin->stream)
		weir__races_host_knows(&bin->stream->timeline,
				       bin->native ? bin->ended_marker
						   : number);
	return ended;
}

void weir__stream_bin_drain(struct weir__shard *s, struct weir__stream_bin *bin,
			    unsigned most)
{
	while (bin->oldest && most--) {
		struct weir__block *b = weir__heap_block(s->heap, bin->oldest);

		if (!weir__free_event_done(bin, b->number))
			return;
		weir__shard_del(s, b);
		b->bin = 0;
		weir__shard_merge(s, b);
	}
}

/*
 * Find native stream bins that have memory and no marker, and count this call
 * as one of their users. They move to the end of the list, so that the next
 * call finds others: some queues may refuse markers for long.
 */
static unsigned unmarked(struct weir__shard *s, struct weir__stream_bin **bins)
{
	struct weir__stream_bin *bin = s->busy, *next, *last = s->busy_last;
	unsigned n = 0;

	for (; bin && n < MARKERS; bin = next) {
		next = bin == last ? NULL : bin->busy_next;
		if (!bin->native || bin->marker ||
		    atomic_load(&bin->stream->unmarked))
			continue;
		weir__stream_bin_emptied(s, bin);
		weir__stream_bin_filled(s, bin);
		bin->users++;
		bins[n++] = bin;
	}
	return n;
}

static void drain_all(struct weir__shard *s)
{
	struct weir__stream_bin *bin, *next;

	for (bin = s->busy; bin; bin = next) {
		next = bin->busy_next;
		weir__stream_bin_drain(s, bin, UINT32_MAX);
	}
}

/* Queue a marker, if possible. Once it is done, memory freed so far is free. */
static void bin_mark(struct weir_heap *h, struct weir__stream_bin *bin)
{
	uint64_t frees, marker;

	weir__lock(&h->root.lock);
	frees = bin->frees;
	weir__heap_unlock(h);
	if (weir__stream_tail_within(bin->stream, 1, &marker) < 0)
		return;
	weir__lock(&h->root.lock);
	if (!bin->marker) {
		bin->marker = marker;
		bin->marked = frees;
	}
	weir__heap_unlock(h);
}

/* Queue some markers. False: every stream bin with memory has one. */
static bool mark_some(struct weir_heap *h)
{
	struct weir__stream_bin *bins[MARKERS];
	unsigned n;

	weir__lock(&h->root.lock);
	n = unmarked(&h->root, bins);
	weir__heap_unlock(h);
	for (unsigned i = 0; i < n; i++) {
		bin_mark(h, bins[i]);
		weir__stream_bin_release(bins[i]);
	}
	return n == MARKERS;
}

void weir__free_events_poll(struct weir_heap *h, bool all)
{
	size_t rounds;

	weir__lock(&h->root.lock);
	/* A stream bin whose marker is done needs another one. */
	drain_all(&h->root);
	rounds = all ? h->root.used_bins / MARKERS : 0;
	weir__heap_unlock(h);
	/* The rounds are limited, because some queues may refuse markers. */
	while (mark_some(h) && rounds--)
		;
	weir__lock(&h->root.lock);
	drain_all(&h->root);
	weir__heap_unlock(h);
}

void weir__free_events_drain(struct weir_heap *h)
{
	weir__lock(&h->root.lock);
	drain_all(&h->root);
	weir__heap_unlock(h);
}

void weir__want_forget(struct weir__want *w, unsigned n)
{
	while (w->n_deps > n)
		weir__stream_bin_release(w->dep[--w->n_deps].bin);
	if (w->n_queued > n)
		w->n_queued = n;
}

static int dep_wait(struct weir_heap *h, const struct weir__want *w,
		    const struct weir__dep *dep)
{
	struct weir_stream *stream = dep->bin->stream;
	uint64_t number = dep->number;
	int r = 0;

	/*
	 * The marker stands for the newest work, which is more than is needed.
	 */
	if (dep->bin->native)
		r = weir__stream_tail_within(stream, MARK_NS, &number);
	if (r < 0)
		return r;
	if (stream_ended(dep->bin, number)) {
		weir__races_next_knows(&w->bin->stream->timeline,
				       &stream->timeline, number);
		return 0;
	}
	r = weir__stream_wait_ended(w->bin->stream, &stream->timeline, number);
	if (r < 0)
		return r;
	weir__lock(&h->root.lock);
	h->waits++;
	weir__heap_unlock(h);
	return 0;
}

bool weir__free_events_wait(struct weir_heap *h, struct weir__want *w)
{
	for (; w->n_queued < w->n_deps; w->n_queued++) {
		const struct weir__dep *dep = &w->dep[w->n_queued];
		uint16_t index = dep->bin->index;

		if (dep_wait(h, w, dep) == 0)
			continue;
		weir__want_forget(w, w->n_queued);
		w->refused[w->n_refused++] = index;
		return false;
	}
	return true;
}
