/* SPDX-License-Identifier: MIT */
/*
 * Stream bins are made when a heap is first used with a stream, found by the
 * stream, and freed after it. This file also ends the heap.
 *
 * A stream bin references its stream, and the stream has the stream bin on a
 * list (struct weir__stream_keeper) until the program frees the stream. The
 * stream bin is freed when all work of the stream has ended, and no call uses
 * the stream bin without the heap's lock any more (bin->users).
 */
#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "heap/heap.h"
#include "stream/stream.h"

#define FIRST_BITS 4u

static struct weir__stream_bin **bin_list(struct weir__shard *s,
					  const struct weir_stream *stream)
{
	uint64_t key = (uint64_t)(uintptr_t)stream;

	return &s->by_stream[key * 0x9e3779b97f4a7c15u >>
			     (64 - s->stream_bits)];
}

struct weir__stream_bin *weir__stream_bin_find(struct weir__shard *s,
					       const struct weir_stream *stream)
{
	struct weir__stream_bin *bin = s->by_stream ? *bin_list(s, stream)
						    : NULL;

	while (bin && bin->stream != stream)
		bin = bin->next;
	return bin;
}

static void bin_hash(struct weir__shard *s, struct weir__stream_bin *bin)
{
	struct weir__stream_bin **list = bin_list(s, bin->stream);

	bin->next = *list;
	*list = bin;
}

static void bin_unhash(struct weir__shard *s, struct weir__stream_bin *bin)
{
	struct weir__stream_bin **link = bin_list(s, bin->stream);

	while (*link != bin)
		link = &(*link)->next;
	*link = bin->next;
}

/* Double the hash table. False: no memory, and there is no old table to use. */
static bool lists_grow(struct weir__shard *s)
{
	unsigned bits = s->by_stream ? s->stream_bits + 1 : FIRST_BITS;
	struct weir__stream_bin **lists = weir__calloc(
		(size_t)1 << bits, sizeof(struct weir__stream_bin *));

	if (!lists)
		return s->by_stream;
	weir__free(s->by_stream);
	s->by_stream = lists;
	s->stream_bits = bits;
	for (size_t i = 0; i < s->n_bins; i++)
		if (s->bin[i])
			bin_hash(s, s->bin[i]);
	return true;
}

/* Make stream bin @i of the shard. */
static struct weir__stream_bin *bin_make(struct weir__shard *s, size_t i,
					 struct weir_stream *stream)
{
	struct weir__stream_bin *bin, **array;
	uint16_t *holes;

	if ((!s->by_stream || s->used_bins >> s->stream_bits) && !lists_grow(s))
		return NULL;
	array = weir__grow(s->bin, &s->cap_bins, i, sizeof(*array));
	if (!array)
		return NULL;
	s->bin = array;
	/* So bin_remove() needs no memory. */
	holes = s->index ? NULL
			 : weir__grow(s->holes, &s->cap_holes, i,
				      sizeof(*holes));
	if (!s->index && !holes)
		return NULL;
	s->holes = holes;
	bin = weir__calloc(1, sizeof(*bin));
	if (!bin)
		return NULL;
	bin->index = (uint16_t)i;
	bin->heap = s->heap;
	bin->stream = stream;
	bin_hash(s, bin);
	while (s->n_bins <= i)
		s->bin[s->n_bins++] = NULL;
	s->bin[i] = bin;
	s->used_bins++;
	return bin;
}

/* Remove an empty stream bin from the root shard, without freeing it. */
static void bin_remove(struct weir__shard *s, struct weir__stream_bin *bin)
{
	bin_unhash(s, bin);
	s->bin[bin->index] = NULL;
	s->used_bins--;
	s->holes[s->n_holes++] = bin->index;
}

void weir__stream_bin_filled(struct weir__shard *s,
			     struct weir__stream_bin *bin)
{
	bin->busy_prev = s->busy_last;
	bin->busy_next = NULL;
	if (s->busy_last)
		s->busy_last->busy_next = bin;
	else
		s->busy = bin;
	s->busy_last = bin;
}

void weir__stream_bin_emptied(struct weir__shard *s,
			      struct weir__stream_bin *bin)
{
	if (bin->busy_prev)
		bin->busy_prev->busy_next = bin->busy_next;
	else
		s->busy = bin->busy_next;
	if (bin->busy_next)
		bin->busy_next->busy_prev = bin->busy_prev;
	else
		s->busy_last = bin->busy_prev;
}

/*
 * Decrement bin->users, and free the stream bin if its stream was freed and
 * nothing needs it any more. The caller references the heap, and holds no lock.
 */
static void bin_leave(struct weir__stream_bin *bin);

/* All work of the stream has ended. */
static void bin_work_ended(struct weir__waiter *waiter)
{
	struct weir__stream_bin *bin =
		weir__container(waiter, struct weir__stream_bin, on_stream_end);
	struct weir_heap *h = bin->heap;

	weir__lock(&h->root.lock);
	bin->awaited = false;
	bin->ended = bin->frees;
	bin->ended_marker = waiter->number;
	bin->marker = 0;
	bin->users++;
	weir__heap_unlock(h);
	bin_leave(bin);
	weir__heap_put(h);
}

/*
 * True if the stream bin, now empty, is to be freed. The heap's lock is held.
 */
static bool bin_may_go(struct weir_heap *h, struct weir__stream_bin *bin)
{
	if (!bin->stream_freed || bin->users || bin->awaited || h->ended)
		return false;
	weir__caches_revoke(h);
	weir__caches_drop_stream(h, bin->stream);
	weir__caches_restore(h);
	weir__stream_bin_drain(&h->root, bin, UINT32_MAX);
	bin->awaited = bin->oldest;
	return true;
}

static void bin_leave(struct weir__stream_bin *bin)
{
	struct weir_heap *h = bin->heap;
	struct weir_stream *stream = bin->stream;
	bool goes;

	weir__heap_lock_all(h);
	bin->users--;
	goes = bin_may_go(h, bin);
	if (!goes || bin->awaited) {
		weir__heap_unlock(h);
	} else {
		bin_remove(&h->root, bin);
		weir__heap_unlock(h);
		weir__free(bin);
		weir__timeline_put(&stream->timeline);
		return;
	}
	if (!goes)
		return;
	weir__refs_add(&h->refs, 1);
	bin->on_stream_end.wake = bin_work_ended;
	if (weir__stream_await(stream, &bin->on_stream_end) != 0)
		bin_work_ended(&bin->on_stream_end);
}

/* The stream is being freed; its lock is held. */
static void bin_hold(struct weir__stream_keeper *keeper)
{
	struct weir__stream_bin *bin =
		weir__container(keeper, struct weir__stream_bin, keeper);

	weir__refs_add(&bin->heap->refs, 1);
}

/* The program has freed the stream. No lock is held. */
static void bin_stream_freed(struct weir__stream_keeper *keeper)
{
	struct weir__stream_bin *bin =
		weir__container(keeper, struct weir__stream_bin, keeper);
	struct weir_heap *h = bin->heap;

	weir__lock(&h->root.lock);
	bin->stream_freed = true;
	bin->users++;
	weir__heap_unlock(h);
	bin_leave(bin);
	weir__heap_put(h);
}

void weir__stream_bin_release(struct weir__stream_bin *bin)
{
	struct weir_heap *h = bin->heap;
	bool last;

	weir__lock(&h->root.lock);
	/*
	 * The last user stays one until bin_leave(), so that no other frees it.
	 */
	last = bin->users == 1 && bin->stream_freed;
	if (!last)
		bin->users--;
	weir__heap_unlock(h);
	if (last)
		bin_leave(bin);
}

int weir__stream_bin_get(struct weir_heap *h, struct weir_stream *stream,
			 struct weir__stream_bin **ret_bin)
{
	struct weir__shard *root = &h->root;
	struct weir__stream_bin *bin = weir__stream_bin_find(root, stream);
	size_t i;

	if (bin) {
		*ret_bin = bin;
		return 0;
	}
	i = root->n_holes ? root->holes[root->n_holes - 1] : root->n_bins;
	if (i == WEIR__STREAM_BINS)
		return weir__fail(-ENOMEM, "%s is used with %zu streams",
				  h->label, i);
	bin = bin_make(root, i, stream);
	if (!bin)
		return weir__fail(-ENOMEM, "no memory for stream %zu of %s", i,
				  h->label);
	if (root->n_holes)
		root->n_holes--;
	bin->keeper.hold = bin_hold;
	bin->keeper.freed = bin_stream_freed;
	if (stream && weir__stream_keep(stream, &bin->keeper) < 0) {
		bin_remove(root, bin);
		weir__free(bin);
		return -ENOMEM;
	}
	bin->native = stream && stream->mode == &weir__stream_native;
	*ret_bin = bin;
	return 0;
}

struct weir__stream_bin *
weir__stream_bin_share(struct weir__shard *s, const struct weir__stream_bin *of)
{
	struct weir__stream_bin *bin;

	if (of->index < s->n_bins && s->bin[of->index])
		return s->bin[of->index];
	bin = bin_make(s, of->index, of->stream);
	if (bin)
		bin->native = of->native;
	return bin;
}

void weir__stream_bins_free(struct weir__shard *s)
{
	for (size_t i = 0; i < s->n_bins; i++)
		weir__free(s->bin[i]);
	weir__free(s->bin);
	weir__free(s->by_stream);
	weir__free(s->holes);
	s->bin = s->by_stream = NULL;
	s->holes = NULL;
	s->n_bins = s->cap_bins = s->used_bins = 0;
	s->n_holes = s->cap_holes = 0;
	s->stream_bits = 0;
	s->busy = s->busy_last = NULL;
}

static void heap_work_ended(struct weir__waiter *waiter)
{
	weir__heap_put(
		weir__container(waiter, struct weir__stream_bin, on_heap_end)
			->heap);
}

void weir__stream_bins_end(struct weir_heap *h)
{
	weir__lock(&h->root.lock);
	h->ended = true;
	weir__heap_unlock(h);
	/* From here on stream bins are neither added nor freed. */
	for (size_t i = 1; i < h->root.n_bins; i++) {
		struct weir__stream_bin *bin = h->root.bin[i];

		if (!bin)
			continue;
		weir__stream_unkeep(bin->stream, &bin->keeper);
		weir__refs_add(&h->refs, 1);
		bin->on_heap_end.wake = heap_work_ended;
		if (weir__stream_await(bin->stream, &bin->on_heap_end) != 0)
			weir__heap_put(h);
	}
	weir__heap_put(h);
}
