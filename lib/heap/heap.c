/* SPDX-License-Identifier: MIT */
/* The public calls of <weir/heap.h>, except weir_heap_record(). */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "heap/heap.h"
#include "mem/buf.h"
#include "stream/stream.h"

#define GROW ((uint64_t)64 << 20)
#define GROW_IN_PLACE ((uint64_t)16 << 20)

static int check_buf(const struct weir_buf *buf, const struct weir_buft *buft)
{
	if (buf->member)
		return weir__fail(-EINVAL, "the buffer is joined");
	if (buf->buft != buft)
		return weir__fail(-EINVAL, "a buffer of %s for a heap of %s",
				  buf->buft->desc.name, buft->desc.name);
	if (weir__buf_is_readonly(buf))
		return weir__fail(-EINVAL, "the buffer is read-only");
	return 0;
}

static int check_opts(const struct weir_buft *buft,
		      const struct weir_heap_opts *o)
{
	int r;

	if (o->align & (o->align - 1) ||
	    (o->align && (o->align < 16 || o->align > WEIR__PAGE)))
		return weir__fail(
			-EINVAL,
			"align is %zu, not a power of two from 16 to 4096",
			o->align);
	if (buft->desc.flags & WEIR_BUFT_READONLY)
		return weir__fail(-EINVAL, "memory of kind %s is read-only",
				  buft->desc.name);
	r = weir__buft_check_flags(buft, o->flags);
	if (r < 0)
		return r;
	if (o->reuse & ~WEIR_HEAP_NO_WAITS)
		return weir__fail(-EINVAL, "reuse is %#x, known are %#x",
				  o->reuse, WEIR_HEAP_NO_WAITS);
	if (o->buf && o->limit && o->buf->bytes > o->limit)
		return weir__fail(-EINVAL,
				  "a buffer of %zu bytes, a limit of %llu",
				  o->buf->bytes, (unsigned long long)o->limit);
	return o->buf ? check_buf(o->buf, buft) : 0;
}

/* log2 of the unit, in which sizes are counted. */
static unsigned unit_shift(const struct weir_buft *buft, size_t align)
{
	if (!align)
		align = buft->desc.align < 64    ? 64
			: buft->desc.align > 256 ? 256
						 : buft->desc.align;
	return (unsigned)__builtin_ctzll(align);
}

static void heap_free(struct weir_heap *h, bool quietly)
{
	struct weir__stream_bin *bin;

	weir__record_end(h);
	weir__block_index_free(h);
	for (size_t i = 0; i < h->root.n_bins; i++) {
		bin = h->root.bin[i];
		if (bin && bin->stream)
			weir__timeline_put(&bin->stream->timeline);
	}
	weir__stream_bins_free(&h->root);
	weir__shards_free(h);
	weir__regions_free(h, quietly);
	weir__caches_free(h);
	weir__block_table_fini(&h->blocks);
	pthread_mutex_destroy(&h->grow_lock);
	weir__root_put(h->weir);
	weir__free(h);
}

void weir__heap_put(struct weir_heap *h)
{
	if (weir__refs_drop(&h->refs))
		heap_free(h, false);
}

void weir__heap_put_quietly(struct weir_heap *h)
{
	if (weir__refs_drop(&h->refs))
		heap_free(h, true);
}

/* Make a heap without memory, which references the root. */
static struct weir_heap *heap_make(struct weir_buft *buft,
				   const struct weir_heap_opts *o)
{
	struct weir_heap *h = weir__calloc_aligned(1, sizeof(*h));

	if (!h)
		return NULL;
	atomic_init(&h->refs, 1);
	h->weir = weir__root_ref(buft->dev->weir);
	h->buft = buft;
	h->grow = o->grow;
	h->limit = o->limit ? o->limit : UINT64_MAX;
	h->flags = o->flags;
	h->reuse = o->reuse;
	h->on_full = o->on_full;
	h->on_full_arg = o->on_full_arg;
	snprintf(h->label, sizeof(h->label), "a heap of %s", buft->desc.name);
	pthread_mutex_init(&h->grow_lock, NULL);
	h->delisted = true;
	h->root.heap = h;
	h->membarrier = weir__sys_membarrier_register() == 0;
	h->root.lock.membarrier = h->membarrier;
	weir__block_table_init(&h->blocks, unit_shift(buft, o->align));
	return h;
}

/* The bytes of addresses to reserve: a multiple of 2 MiB. */
static int reserve_bytes(const struct weir_buft *buft, uint64_t reserve,
			 uint64_t *ret_bytes)
{
	uint64_t avail, total;
	int r;

	if (reserve == WEIR_HEAP_RESERVE_ALL) {
		r = weir__buft_memory(buft, &avail, &total);
		if (r < 0)
			return r;
		reserve = total;
	}
	if (reserve > buft->desc.max)
		reserve = weir__down(buft->desc.max, WEIR__HUGE_PAGE);
	if (reserve > WEIR__HEAP_MAX)
		reserve = WEIR__HEAP_MAX;
	*ret_bytes = weir__up(reserve, WEIR__HUGE_PAGE);
	return 0;
}

/* Reserve addresses; without them the heap does with buffers. */
static int heap_reserve(struct weir_heap *h, uint64_t reserve)
{
	struct weir__error_saved saved;
	uint64_t bytes;
	int r = reserve_bytes(h->buft, reserve, &bytes);

	if (r < 0)
		return r;
	weir__error_save(&saved);
	r = weir__holes_make(h, bytes);
	if (r == -EOPNOTSUPP && !(h->flags & WEIR_BUF_STRICT)) {
		weir__error_restore(&saved);
		return 0;
	}
	return r;
}

static int heap_fill(struct weir_heap *h, const struct weir_heap_opts *o)
{
	struct weir_buf *buf = o->buf;
	struct weir__stream_bin *bin;
	int r = weir__stream_bin_get(h, NULL, &bin);

	if (r < 0)
		return r;
	h->region = weir__calloc(WEIR__HEAP_REGIONS, sizeof(*h->region));
	if (!h->region)
		return weir__fail(-ENOMEM, "no memory for %s", h->label);
	if (buf) {
		r = weir__region_add(h, buf, true, 0);
		if (r < 0)
			return r;
		weir_buf_ref(buf);
		atomic_fetch_add(&buf->n_heaps, 1);
	}
	if (o->reserve)
		r = heap_reserve(h, o->reserve);
	if (!h->grow && (!buf || o->reserve))
		h->grow = h->holes ? GROW_IN_PLACE : GROW;
	return r;
}

int weir_heap_new(struct weir_buft *buft, const struct weir_heap_opts *opts,
		  struct weir_heap **ret_heap)
{
	struct weir_heap_opts o;
	struct weir_heap *h;
	int r;

	WEIR__ENTER();
	r = weir__opts_in(&o, sizeof(o), opts);
	if (r < 0)
		return r;
	if (!buft && o.buf)
		buft = o.buf->buft;
	if (!buft)
		return weir__fail(-EINVAL,
				  "neither a kind of memory nor a buffer");
	r = weir__root_enter(buft->dev->weir);
	if (r < 0 || (r = check_opts(buft, &o)) < 0)
		return r;
	h = heap_make(buft, &o);
	if (!h)
		return weir__fail(-ENOMEM, "no memory for a heap of %s",
				  buft->desc.name);
	r = heap_fill(h, &o);
	if (r == 0)
		r = weir__heap_list(h);
	if (r < 0) {
		weir__heap_put(h);
		return r;
	}
	*ret_heap = h;
	return 0;
}

void weir_heap_destroy(struct weir_heap *heap)
{
	if (!heap || !weir__root_is_ours(heap->weir))
		return;
	weir__heap_delist(heap);
	weir__stream_bins_end(heap);
}

/* Free a block that the program has given back. The heap's lock is held. */
static void block_return(struct weir_heap *h, struct weir__block *b,
			 struct weir__stream_bin *bin)
{
	if (weir__heap_is_recorded(h))
		weir__record_free(h, b->self, bin->stream);
	weir__block_index_del(h, b);
	weir__block_give(h, b, bin);
}

/*
 * Free a block of a thread's shard. False: the root shard has it, or the shard
 * has no stream bin for the stream, or the block is not in use.
 */
static bool block_free_in_shard(struct weir_heap *h,
				const struct weir_block *block,
				struct weir_stream *stream)
{
	struct weir__block *b = weir__block_of(h, block);
	struct weir__shard *s = b ? weir__shard_lock(h, b) : NULL;
	struct weir__stream_bin *bin;

	if (!s)
		return false;
	bin = weir__stream_bin_find(s, stream);
	b = bin ? weir__block_take_back(s, block) : NULL;
	if (b) {
		weir__block_index_del(h, b);
		weir__shard_give(s, b, bin);
	}
	weir__shard_unlock(s);
	return b;
}

/* Free a block that no cache keeps. */
static int block_free(struct weir_heap *h, const struct weir_block *block,
		      struct weir_stream *stream)
{
	struct weir__stream_bin *bin;
	struct weir__block *b;
	int r;

	if (weir__heap_sharded(h) && block_free_in_shard(h, block, stream))
		return 0;
	weir__heap_lock(h);
	r = weir__stream_bin_get(h, stream, &bin);
	if (r == 0) {
		b = weir__block_take_back(&h->root, block);
		if (b)
			block_return(h, b, bin);
		else
			r = weir__fail(
				-EINVAL,
				"block %#llx at %#llx was freed before, or is not of %s",
				(unsigned long long)block->id,
				(unsigned long long)block->addr, h->label);
	}
	weir__heap_unlock(h);
	return r;
}

static bool evicted_free_in_shard(struct weir_heap *h, struct weir__block *b,
				  struct weir_stream *stream)
{
	struct weir__shard *s = weir__shard_lock(h, b);
	struct weir__stream_bin *bin = s ? weir__stream_bin_find(s, stream)
					 : NULL;

	if (bin) {
		weir__block_index_del(h, b);
		weir__shard_give(s, b, bin);
	}
	if (s)
		weir__shard_unlock(s);
	return bin;
}

/* Free a block that a cache has evicted; so the stream has a stream bin. */
static void evicted_free(struct weir_heap *h, struct weir__block *b,
			 struct weir_stream *stream)
{
	if (weir__heap_sharded(h) && evicted_free_in_shard(h, b, stream))
		return;
	weir__heap_lock(h);
	block_return(h, b, weir__stream_bin_find(&h->root, stream));
	weir__heap_unlock(h);
}

static int check_free(const struct weir_heap *h,
		      const struct weir_stream *stream)
{
	int r;

	if (!h)
		return weir__fail(-EINVAL, "the block is of no heap");
	r = weir__root_enter(h->weir);
	if (r == 0 && stream && stream->timeline.weir != h->weir)
		r = weir__fail(-EINVAL, "a stream of another root");
	return r;
}

int weir_heap_free(const struct weir_block *block, struct weir_stream *stream)
{
	struct weir_heap *h = block->heap;
	struct weir__block *evicted;
	int r;

	if (h && weir__root_is_open(h->weir) &&
	    weir__cache_keep(h, block, stream, &evicted)) {
		if (evicted)
			evicted_free(h, evicted, stream);
		return 0;
	}
	WEIR__ENTER();
	r = check_free(h, stream);
	return r < 0 ? r : block_free(h, block, stream);
}

/* The first search makes the index. */
static int index_get(struct weir_heap *h)
{
	int r = 0;

	if (weir__heap_index(h))
		return 0;
	weir__heap_lock_all(h);
	if (!weir__heap_index(h))
		r = weir__block_index_make(h);
	weir__heap_unlock(h);
	return r;
}

int weir_heap_find(struct weir_heap *heap, uint64_t addr,
		   struct weir_block *ret_block)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(heap->weir);
	if (r == 0)
		r = index_get(heap);
	if (r == 0 && !weir__block_index_find(heap, addr, ret_block))
		r = weir__fail(-ENOENT, "no block of %s begins at %#llx",
			       heap->label, (unsigned long long)addr);
	return r;
}

static void add_stream_bin(const struct weir_heap *h,
			   const struct weir__stream_bin *bin,
			   struct weir_heap_stats *s)
{
	uint64_t most = weir__size_bins_largest(&h->blocks, &bin->bins);

	if (bin->index)
		s->pending += bin->bytes;
	if (most > s->largest)
		s->largest = most;
}

static void add_stream_bins(const struct weir_heap *h,
			    struct weir_heap_stats *s)
{
	const struct weir__stream_bin *bin;

	add_stream_bin(h, h->root.bin[0], s);
	for (bin = h->root.busy; bin; bin = bin->busy_next)
		add_stream_bin(h, bin, s);
}

static void add_regions(const struct weir_heap *h, struct weir_heap_stats *s)
{
	for (unsigned i = 0; i < h->end_regions; i++)
		if (h->region[i])
			s->span += h->region[i]->top - h->region[i]->lo;
}

void weir__heap_describe(struct weir_heap *h, struct weir_heap_stats *s)
{
	uint64_t free;

	s->reserved = h->reserved;
	s->reserved_peak = h->reserved_peak;
	s->addresses = h->holes ? h->holes->bytes : 0;
	s->peak = h->root.taken_peak;
	s->buffers = h->n_regions;
	s->failures = h->failures;
	s->waits = h->waits;
	s->grown = h->grown;
	s->span = h->span;
	add_stream_bins(h, s);
	add_regions(h, s);
	weir__caches_add_stats(h, s);
	free = s->reserved - s->used;
	if (s->largest && free)
		s->fragmentation = 1 - (double)s->largest / (double)free;
}

int weir_heap_stats(struct weir_heap *heap, struct weir_heap_stats *ret_stats)
{
	struct weir_heap_stats s = { .size = sizeof(s) };
	int r;

	WEIR__ENTER();
	r = weir__root_read(heap->weir);
	if (r < 0)
		return r;
	weir__heap_lock_all(heap);
	weir__heap_describe(heap, &s);
	weir__heap_unlock(heap);
	return weir__info_out(ret_stats, &s, sizeof(s));
}

int weir_heap_trim(struct weir_heap *heap, size_t keep)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(heap->weir);
	if (r < 0)
		return r;
	weir__caches_flush(heap);
	weir__free_events_poll(heap, true);
	weir__heap_give_back(heap, keep);
	return 0;
}
