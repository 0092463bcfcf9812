/* SPDX-License-Identifier: MIT */
/*
 * Lanes: made when a heap is used with a stream, found by their streams, and freed
 * after those; the end of the heap.
 *
 * A lane references its stream, which has the lane on a list (struct
 * weir__stream_keeper) until the program frees it. Then the lane goes: at once if all
 * work of the stream has ended, else when it has, unless somebody uses the lane
 * without the heap's lock (lane->users): then that one lets it go.
 */
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "heap/heap.h"
#include "stream/stream.h"

#define FIRST_BITS 4u

static struct weir__lane **lane_list(struct weir__shard *s,
				     const struct weir_stream *stream)
{
	uint64_t key = (uint64_t)(uintptr_t)stream;

	return &s->by_stream[key * 0x9e3779b97f4a7c15u >>
			     (64 - s->stream_bits)];
}

struct weir__lane *weir__lane_find(struct weir__shard *s,
				   const struct weir_stream *stream)
{
	struct weir__lane *lane = s->by_stream ? *lane_list(s, stream) : NULL;

	while (lane && lane->stream != stream)
		lane = lane->next;
	return lane;
}

static void lane_hash(struct weir__shard *s, struct weir__lane *lane)
{
	struct weir__lane **list = lane_list(s, lane->stream);

	lane->next = *list;
	*list = lane;
}

static void lane_unhash(struct weir__shard *s, struct weir__lane *lane)
{
	struct weir__lane **link = lane_list(s, lane->stream);

	while (*link != lane)
		link = &(*link)->next;
	*link = lane->next;
}

/* Twice as many lists as before. False: no memory; the old ones are used. */
static bool lists_grow(struct weir__shard *s)
{
	unsigned bits = s->by_stream ? s->stream_bits + 1 : FIRST_BITS;
	struct weir__lane **lists =
		weir__calloc((size_t)1 << bits, sizeof(struct weir__lane *));

	if (!lists)
		return s->by_stream;
	weir__free(s->by_stream);
	s->by_stream = lists;
	s->stream_bits = bits;
	for (size_t i = 0; i < s->n_lanes; i++)
		if (s->lane[i])
			lane_hash(s, s->lane[i]);
	return true;
}

/* A lane in the place @i of the shard, where none is. */
static struct weir__lane *lane_make(struct weir__shard *s, size_t i,
				    struct weir_stream *stream)
{
	struct weir__lane *lane, **array;
	uint16_t *holes;

	if ((!s->by_stream || s->used_lanes >> s->stream_bits) &&
	    !lists_grow(s))
		return NULL;
	array = weir__grow(s->lane, &s->cap_lanes, i, sizeof(*array));
	if (!array)
		return NULL;
	s->lane = array;
	/* Then it can be removed without memory. */
	holes = s->index ? NULL
			 : weir__grow(s->holes, &s->cap_holes, i,
				      sizeof(*holes));
	if (!s->index && !holes)
		return NULL;
	s->holes = holes;
	lane = weir__calloc(1, sizeof(*lane));
	if (!lane)
		return NULL;
	lane->index = (uint16_t)i;
	lane->heap = s->heap;
	lane->stream = stream;
	lane_hash(s, lane);
	while (s->n_lanes <= i)
		s->lane[s->n_lanes++] = NULL;
	s->lane[i] = lane;
	s->used_lanes++;
	return lane;
}

/* Take an empty lane out of the root shard; it is not freed. */
static void lane_remove(struct weir__shard *s, struct weir__lane *lane)
{
	lane_unhash(s, lane);
	s->lane[lane->index] = NULL;
	s->used_lanes--;
	s->holes[s->n_holes++] = lane->index;
}

void weir__lane_busy(struct weir__shard *s, struct weir__lane *lane)
{
	lane->busy_prev = s->busy_last;
	lane->busy_next = NULL;
	if (s->busy_last)
		s->busy_last->busy_next = lane;
	else
		s->busy = lane;
	s->busy_last = lane;
}

void weir__lane_rest(struct weir__shard *s, struct weir__lane *lane)
{
	if (lane->busy_prev)
		lane->busy_prev->busy_next = lane->busy_next;
	else
		s->busy = lane->busy_next;
	if (lane->busy_next)
		lane->busy_next->busy_prev = lane->busy_prev;
	else
		s->busy_last = lane->busy_prev;
}

/*
 * Let the lane go if its stream was freed. The heap is referenced, and no lock is
 * held. The lane may be gone on return.
 */
static void lane_leave(struct weir__lane *lane);

/* All work of the stream has ended. */
static void lane_over(struct weir__waiter *waiter)
{
	struct weir__lane *lane =
		weir__container(waiter, struct weir__lane, over);
	struct weir_heap *h = lane->heap;

	weir__lock(&h->root.lock);
	lane->awaited = false;
	lane->ended = lane->frees;
	lane->ended_marker = waiter->number;
	lane->marker = 0;
	weir__heap_unlock(h);
	lane_leave(lane);
	weir__heap_put(h);
}

/* Is the lane to go now? Then it is empty. The lock of all shards is held. */
static bool lane_may_go(struct weir_heap *h, struct weir__lane *lane)
{
	if (!lane->gone || lane->users || lane->awaited || h->ended)
		return false;
	weir__caches_revoke(h);
	weir__caches_forget(h, lane->stream);
	weir__caches_restore(h);
	weir__lane_drain(&h->root, lane, UINT32_MAX);
	lane->awaited = lane->oldest;
	return true;
}

static void lane_leave(struct weir__lane *lane)
{
	struct weir_heap *h = lane->heap;
	struct weir_stream *stream = lane->stream;
	bool goes;

	weir__heap_lock_all(h);
	goes = lane_may_go(h, lane);
	if (!goes || lane->awaited) {
		weir__heap_unlock(h);
	} else {
		lane_remove(&h->root, lane);
		weir__heap_unlock(h);
		weir__free(lane);
		weir__timeline_put(&stream->timeline);
		return;
	}
	if (!goes)
		return;
	weir__refs_add(&h->refs, 1);
	lane->over.wake = lane_over;
	if (weir__stream_await(stream, &lane->over) != 0)
		lane_over(&lane->over);
}

/* The stream is being freed; its lock is held. */
static void lane_hold(struct weir__stream_keeper *keeper)
{
	struct weir__lane *lane =
		weir__container(keeper, struct weir__lane, keeper);

	weir__refs_add(&lane->heap->refs, 1);
}

/* The program has freed the stream. No lock is held. */
static void lane_freed(struct weir__stream_keeper *keeper)
{
	struct weir__lane *lane =
		weir__container(keeper, struct weir__lane, keeper);
	struct weir_heap *h = lane->heap;

	weir__lock(&h->root.lock);
	lane->gone = true;
	weir__heap_unlock(h);
	lane_leave(lane);
	weir__heap_put(h);
}

void weir__lane_unuse(struct weir__lane *lane)
{
	struct weir_heap *h = lane->heap;
	bool leave;

	weir__lock(&h->root.lock);
	leave = --lane->users == 0 && lane->gone;
	weir__heap_unlock(h);
	if (leave)
		lane_leave(lane);
}

int weir__lane_get(struct weir_heap *h, struct weir_stream *stream,
		   struct weir__lane **ret_lane)
{
	struct weir__shard *root = &h->root;
	struct weir__lane *lane = weir__lane_find(root, stream);
	size_t i;

	if (lane) {
		*ret_lane = lane;
		return 0;
	}
	i = root->n_holes ? root->holes[root->n_holes - 1] : root->n_lanes;
	if (i == WEIR__HEAP_LANES)
		return weir__fail(-ENOMEM, "%s is used with %zu streams",
				  h->label, i);
	lane = lane_make(root, i, stream);
	if (!lane)
		return weir__fail(-ENOMEM, "no memory for stream %zu of %s", i,
				  h->label);
	if (root->n_holes)
		root->n_holes--;
	lane->keeper.hold = lane_hold;
	lane->keeper.freed = lane_freed;
	if (stream && weir__stream_keep(stream, &lane->keeper) < 0) {
		lane_remove(root, lane);
		weir__free(lane);
		return -ENOMEM;
	}
	lane->native = stream && stream->mode == &weir__stream_native;
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
	weir__free(s->by_stream);
	weir__free(s->holes);
	s->lane = s->by_stream = NULL;
	s->holes = NULL;
	s->n_lanes = s->cap_lanes = s->used_lanes = 0;
	s->n_holes = s->cap_holes = 0;
	s->stream_bits = 0;
	s->busy = s->busy_last = NULL;
}

static void heap_over(struct weir__waiter *waiter)
{
	weir__heap_put(weir__container(waiter, struct weir__lane, last)->heap);
}

void weir__lanes_end(struct weir_heap *h)
{
	weir__lock(&h->root.lock);
	h->ended = true;
	weir__heap_unlock(h);
	/* From here on no lane is added or freed. */
	for (size_t i = 1; i < h->root.n_lanes; i++) {
		struct weir__lane *lane = h->root.lane[i];

		if (!lane)
			continue;
		weir__stream_unkeep(lane->stream, &lane->keeper);
		weir__refs_add(&h->refs, 1);
		lane->last.wake = heap_over;
		if (weir__stream_await(lane->stream, &lane->last) != 0)
			weir__heap_put(h);
	}
	weir__heap_put(h);
}
