/* SPDX-License-Identifier: MIT */
/* weir_heap_alloc(): where it looks for memory, and in which order. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/root.h"
#include "heap/heap.h"
#include "stream/stream.h"

/* To let a heap grow, while others take what it gives back. */
#define MOST_ATTEMPTS 64u

static int check_alloc(const struct weir_heap *h, size_t size, size_t align,
		       const struct weir_stream *stream)
{
	if (!size || size > WEIR__HEAP_MAX)
		return weir__fail(-EINVAL, "%zu bytes, not from 1 to 2^47",
				  size);
	if (align & (align - 1) || align > WEIR__HEAP_MAX)
		return weir__fail(-EINVAL,
				  "align is %zu, not a power of two up to 2^47",
				  align);
	if (stream && stream->timeline.weir != h->weir)
		return weir__fail(-EINVAL, "a stream of another root");
	return 0;
}

/* A call of weir_heap_alloc() for which the cache had no block. */
struct request {
	struct weir__want want;
	size_t size, align;
	struct weir_stream *stream;
	struct weir__caches *own; /* this thread's, or NULL */
	struct weir_block *block; /* the result */
	bool done;
};

static void request_init(const struct weir_heap *h, struct request *q,
			 size_t size, size_t align, struct weir_stream *stream,
			 struct weir_block *ret_block)
{
	uint64_t unit = 1ull << h->blocks.shift;

	q->want.bytes = weir__cache_bytes(h, size);
	q->want.align = align > unit ? align : unit;
	q->want.n_deps = q->want.n_queued = q->want.n_refused = 0;
	q->size = size;
	q->align = align;
	q->stream = stream;
	q->block = ret_block;
	q->done = false;
}

static void request_failed(struct weir_heap *h, const struct request *q)
{
	weir__lock(&h->root.lock);
	h->failures++;
	weir__record_alloc(h, 0, q->size, q->align, q->stream);
	weir__heap_unlock(h);
}

/* Hand the block out. The heap's lock is held. */
static void request_end(struct weir_heap *h, struct request *q,
			struct weir__block *b)
{
	if (weir__heap_is_recorded(h))
		weir__record_alloc(h, b->self, q->size, q->align, q->stream);
	weir__block_hand_out(&h->root, q->own, b, q->block);
	q->done = true;
}

/* Take memory that needs no wait that is not queued yet, if there is some. */
static int take_ready(struct weir_heap *h, struct request *q,
		      enum weir__effort effort)
{
	struct weir__block *b = NULL;
	int r;

	if (effort == WEIR__TAKE_ANY)
		weir__heap_lock_all(h);
	else
		weir__heap_lock(h);
	r = weir__stream_bin_get(h, q->stream, &q->want.bin);
	if (r == 0) {
		q->own = weir__cache_adopt(h, q->want.bin);
		r = weir__block_table_reserve(&h->blocks, &h->root.spares, 2);
	}
	if (r == 0 && effort == WEIR__TAKE_FIRST && weir__heap_sharded(h))
		b = weir__shard_take_new(h, &q->want);
	if (r == 0 && !b)
		b = weir__shard_take(&h->root, &q->want, effort);
	if (b)
		request_end(h, q, b);
	weir__heap_unlock(h);
	return r;
}

/* Take memory of this thread's shard. */
static bool take_own(struct weir_heap *h, struct request *q)
{
	struct weir__block *b;
	struct weir__shard *s;

	q->own = weir__caches_own(h);
	s = weir__shard_take_own(h, q->own, &q->want, q->stream, &b);
	if (!s)
		return false;
	weir__block_hand_out(s, q->own, b, q->block);
	weir__shard_unlock(s);
	q->done = true;
	return true;
}

/* Take memory that was freed in other streams, after waits. */
static int take_after_waits(struct weir_heap *h, struct request *q,
			    bool several)
{
	bool found = q->stream && !(h->reuse & WEIR_HEAP_NO_WAITS);
	int r = 0;

	while (r == 0 && !q->done && found) {
		/* Another thread has taken the memory that it waited for. */
		weir__want_forget(&q->want, 0);
		weir__heap_lock_all(h);
		found = weir__shard_after_waits(&h->root, &q->want, several);
		weir__heap_unlock(h);
		if (found && weir__free_events_wait(h, &q->want))
			r = take_ready(h, q, WEIR__TAKE_ANY);
	}
	return r;
}

/*
 * Give empty buffers back so that the heap can grow: as many as its limit
 * demands, or, if there are none, all, since the device may be short of memory.
 * False: none was given back, because that cannot help.
 */
static bool make_room(struct weir_heap *h, const struct request *q)
{
	uint64_t need = weir__heap_need(h, &q->want), empty;

	weir__heap_lock_all(h);
	empty = weir__regions_empty(h);
	if (!h->grow || !empty || need > h->limit ||
	    h->reserved - empty > h->limit - need)
		empty = 0;
	weir__heap_unlock(h);
	return empty && (weir__heap_give_back(h, h->limit - need) ||
			 weir__heap_give_back(h, 0));
}

/* Add a buffer, and take memory of it. */
static int take_grown(struct weir_heap *h, struct request *q)
{
	int r;

	pthread_mutex_lock(&h->grow_lock);
	/* Another thread may have added one meanwhile. */
	r = take_ready(h, q, WEIR__TAKE_ANY);
	while (r == 0 && !q->done) {
		r = weir__heap_grow(h, &q->want);
		if (r == 0)
			r = take_ready(h, q, WEIR__TAKE_ANY);
	}
	pthread_mutex_unlock(&h->grow_lock);
	return r;
}

/*
 * The same, after an attempt has failed, when empty buffers were given back: by
 * this thread, or by others since h->n_given was @given. Others may do it
 * forever, so the attempts end.
 */
static int take_regrown(struct weir_heap *h, struct request *q, uint32_t given)
{
	int r = -ENOMEM;

	for (unsigned i = 0; r == -ENOMEM && i < MOST_ATTEMPTS; i++) {
		if (!make_room(h, q) && atomic_load(&h->n_given) == given)
			break;
		given = atomic_load(&h->n_given);
		r = take_grown(h, q);
	}
	return r;
}

/*
 * The first attempt while threads use shards: it does not consolidate them. Nor
 * does it flush caches, since most of the blocks that they keep are of shards.
 */
static int take_sharded(struct weir_heap *h, struct request *q)
{
	int r = 0;

	if (take_own(h, q))
		return 0;
	if (q->want.bytes < WEIR__VERY_LARGE)
		r = take_ready(h, q, WEIR__TAKE_FIRST);
	if (r < 0 || q->done)
		return r;
	weir__free_events_poll(h, false);
	return take_ready(h, q, WEIR__TAKE_USED);
}

/*
 * Take memory that the stream may use now, or after a wait for one other
 * stream.
 */
static int take_present(struct weir_heap *h, struct request *q)
{
	int r;

	if (weir__heap_sharded(h))
		r = take_sharded(h, q);
	else
		r = take_ready(h, q, WEIR__TAKE_FIRST);
	if (r < 0 || q->done)
		return r;
	weir__cache_flush_own(h);
	weir__free_events_poll(h, false);
	r = take_ready(h, q, WEIR__TAKE_ANY);
	if (r == 0 && !q->done)
		r = take_after_waits(h, q, false);
	if (r == 0 && !q->done) {
		weir__caches_flush(h);
		r = take_ready(h, q, WEIR__TAKE_ANY);
	}
	return r;
}

/*
 * README.md, "Order of reuse", has the reasons for the order. If there is no
 * memory, weir_error() says why the heap does not grow.
 */
static int request_run(struct weir_heap *h, struct request *q)
{
	int r = take_present(h, q), grown;
	uint32_t given;

	if (r < 0 || q->done)
		return r;
	given = atomic_load(&h->n_given);
	grown = take_grown(h, q);
	if (grown == 0)
		return 0;
	r = take_after_waits(h, q, true);
	if (r < 0 || q->done)
		return r;
	r = take_regrown(h, q, given);
	return r == -ENOMEM ? grown : r;
}

/* Free bytes whose free events are in streams other than the request's. */
struct waiting {
	uint64_t bytes, most;
	unsigned streams;
	char label[64]; /* the stream for which most of them wait */
};

static void waiting_get(const struct weir_heap *h, const struct request *q,
			struct waiting *w)
{
	const struct weir__stream_bin *bin;

	for (bin = h->root.busy; bin; bin = bin->busy_next) {
		if (bin->stream == q->stream)
			continue;
		w->bytes += bin->bytes;
		w->streams++;
		if (bin->bytes <= w->most)
			continue;
		w->most = bin->bytes;
		memcpy(w->label, bin->stream->label, sizeof(w->label));
	}
}

/*
 * Write the sentence of a failure; the newest one since @sentences is the
 * cause.
 */
static int request_full(struct weir_heap *h, const struct request *q,
			unsigned sentences)
{
	struct weir_heap_stats s = { .size = sizeof(s) };
	struct waiting w = { 0 };
	char wait[160] = "", more[40] = "", why[256];

	snprintf(why, sizeof(why), "%s", weir__error_since(sentences, -ENOMEM));
	weir__heap_lock_all(h);
	weir__heap_describe(h, &s);
	waiting_get(h, q, &w);
	weir__heap_unlock(h);
	if (w.streams > 1)
		snprintf(more, sizeof(more), " and %u more", w.streams - 1);
	if (w.streams)
		snprintf(wait, sizeof(wait), ", %llu wait for %s%s",
			 (unsigned long long)w.bytes, w.label, more);
	return weir__fail(
		-ENOMEM,
		"%s: %llu bytes; %llu of %llu are free, at most %llu in one piece%s; %s",
		h->label, (unsigned long long)q->want.bytes,
		(unsigned long long)(s.reserved - s.used),
		(unsigned long long)s.reserved, (unsigned long long)s.largest,
		wait, why);
}

/* As long as there is no memory, let the program's function free some. */
static int request_try(struct weir_heap *h, struct request *q)
{
	unsigned sentences;
	int r;

	do {
		weir__want_forget(&q->want, 0);
		q->want.n_refused = 0;
		sentences = weir__error_count();
		r = request_run(h, q);
	} while (r == -ENOMEM && h->on_full &&
		 h->on_full(h->on_full_arg, q->want.bytes) > 0);
	weir__want_forget(&q->want, 0);
	return r == -ENOMEM ? request_full(h, q, sentences) : r;
}

int weir_heap_alloc(struct weir_heap *heap, size_t size, size_t align,
		    struct weir_stream *stream, struct weir_block *ret_block)
{
	struct request q;
	int r;

	if (!(align & (align - 1)) && align >> heap->blocks.shift <= 1 &&
	    weir__root_is_open(heap->weir) &&
	    weir__cache_take(heap, size, stream, ret_block))
		return 0;
	WEIR__ENTER();
	r = weir__root_enter(heap->weir);
	if (r < 0 || (r = check_alloc(heap, size, align, stream)) < 0)
		return r;
	request_init(heap, &q, size, align, stream, ret_block);
	r = request_try(heap, &q);
	if (r < 0)
		request_failed(heap, &q);
	return r;
}
