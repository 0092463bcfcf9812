/* SPDX-License-Identifier: MIT */
/*
 * What was read from a source is written to the folder. Whole blocks are
 * written as they are; the parts of others are gathered in memory, a few blocks
 * at a time, until their block is complete. When all blocks are there, the
 * writer who is alone compares them, and the whole with the SHA-256 that the
 * source publishes, and gives the file its name.
 */
#include <errno.h>
#include <string.h>

#include "cache/cache.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/refs.h"
#include "core/sys.h"

#define EDGES 16u  /* blocks that are gathered at a time */
#define RANGES 32u /* parts of a block that do not adjoin */

/* A block of which parts are there: [lo, hi) of it, sorted, not adjoining. */
struct weir__cached_edge {
	uint32_t block;
	unsigned n;
	struct {
		uint32_t lo, hi;
	} range[RANGES];
	unsigned char *bytes; /* NULL: free */
};

static void stop_writing(struct weir__cached *c, int r)
{
	if (atomic_exchange(&c->broken, true))
		return;
	weir__log(c->cache->weir, "cache %s: no more of %s is kept: %s",
		  c->cache->path, c->name, weir__errno_describe(-r));
}

static void write_block(struct weir__cached *c, uint32_t block,
			const void *bytes)
{
	int r;

	if (atomic_load(&c->broken) || weir__partial_has(c->partial, block))
		return;
	r = weir__partial_write(c->partial, block, bytes);
	if (r < 0)
		stop_writing(c, r);
}

static void edge_free(struct weir__cached_edge *e)
{
	weir__free(e->bytes);
	*e = (struct weir__cached_edge){ 0 };
}

/* The block's edge, or a free one; the one that began first is given up. */
static struct weir__cached_edge *edge_of(struct weir__cached *c, uint32_t block)
{
	struct weir__cached_edge *e;

	if (!c->edge)
		c->edge = weir__calloc(EDGES, sizeof(*c->edge));
	if (!c->edge)
		return NULL;
	for (unsigned i = 0; i < EDGES; i++)
		if (c->edge[i].bytes && c->edge[i].block == block)
			return &c->edge[i];
	e = &c->edge[c->n_edges++ % EDGES];
	edge_free(e);
	e->block = block;
	e->bytes = weir__malloc_pages(WEIR__PARTIAL_BLOCK);
	return e->bytes ? e : NULL;
}

/* False: there are too many ranges. */
static bool edge_add(struct weir__cached_edge *e, uint32_t lo, uint32_t hi)
{
	unsigned i = 0, to;

	while (i < e->n && e->range[i].hi < lo)
		i++;
	for (to = i; to < e->n && e->range[to].lo <= hi; to++) {
		if (e->range[to].lo < lo)
			lo = e->range[to].lo;
		if (e->range[to].hi > hi)
			hi = e->range[to].hi;
	}
	if (to == i && e->n == RANGES)
		return false;
	memmove(&e->range[i + 1], &e->range[to],
		(e->n - to) * sizeof(e->range[0]));
	e->n = e->n - (to - i) + 1;
	e->range[i].lo = lo;
	e->range[i].hi = hi;
	return true;
}

static void write_part(struct weir__cached *c, uint32_t block, uint32_t lo,
		       uint32_t hi, const void *bytes)
{
	struct weir__cached_edge *e;

	if (weir__partial_has(c->partial, block))
		return;
	e = edge_of(c, block);
	if (!e)
		return;
	memcpy(e->bytes + lo, bytes, hi - lo);
	if (!edge_add(e, lo, hi)) {
		edge_free(e);
		return;
	}
	if (e->n > 1 || e->range[0].lo ||
	    e->range[0].hi < weir__partial_len(c->partial, block))
		return;
	write_block(c, block, e->bytes);
	edge_free(e);
}

static void write_bytes(struct weir__cached *c,
			const struct weir__copies_write *w)
{
	uint64_t done = 0;

	while (done < w->len && !atomic_load(&c->broken)) {
		uint64_t at = w->off + done;
		uint32_t block = (uint32_t)(at / WEIR__PARTIAL_BLOCK);
		uint32_t lo = (uint32_t)(at % WEIR__PARTIAL_BLOCK);
		uint32_t hi = weir__partial_len(c->partial, block);

		if (hi - lo > w->len - done)
			hi = lo + (uint32_t)(w->len - done);
		if (hi - lo == weir__partial_len(c->partial, block))
			write_block(c, block, w->bytes + done);
		else
			write_part(c, block, lo, hi, w->bytes + done);
		done += hi - lo;
	}
}

/* The whole file. */

static bool is_complete(struct weir__cached *c)
{
	uint32_t n = weir__partial_blocks(c->partial);

	while (c->next < n && weir__partial_has(c->partial, c->next))
		c->next++;
	return c->next == n;
}

/* 1: all blocks are right, and so is their SHA-256. */
static int compare(struct weir__cached *c, void *buf, struct weir__hash *hash)
{
	uint32_t n = weir__partial_blocks(c->partial);
	uint8_t digest[WEIR__DIGEST_MAX];
	char hex[WEIR__DIGEST_TEXT];
	int r = 1;

	for (uint32_t i = 0; i < n && r == 1; i++) {
		if (weir__copies_stops(c->cache))
			return -ECANCELED;
		if (!hash->state && weir__partial_trusts(c->partial, i))
			continue;
		r = weir__partial_check(c->partial, i, buf);
		if (r == 1 && hash->state)
			weir__hash_update(hash, buf,
					  weir__partial_len(c->partial, i));
		if (r == 0)
			c->next = i;
	}
	if (r != 1 || !hash->state)
		return r;
	weir__hash_finish(hash, digest);
	return strcmp(weir__digest_hex(digest, 32, hex), c->sha256) ? -EBADMSG
								    : 1;
}

static int compare_all(struct weir__cached *c)
{
	void *buf = weir__malloc_pages(WEIR__PARTIAL_BLOCK);
	struct weir__hash hash = { 0 };
	int r = buf ? 0 : -ENOMEM;

	if (r >= 0 && *c->sha256)
		r = weir__hash_start(&hash, WEIR_DIGEST_SHA256);
	if (r >= 0)
		r = compare(c, buf, &hash);
	weir__hash_drop(&hash);
	weir__free(buf);
	return r;
}

static int give_name(struct weir__cached *c)
{
	struct weir__copies *cache = c->cache;
	int r = weir__sys_sync(weir__partial_fd(c->partial));

	if (r >= 0)
		r = weir__sys_rename(cache->dir, c->names.part, c->names.whole,
				     false);
	if (r < 0)
		return r;
	weir__sys_sync_folder(cache->dir);
	weir__copies_touch(cache, c->names.used);
	weir__sys_unlink(cache->dir, c->names.state);
	return 0;
}

/* It is a lie of the source, or it changed: it must not be used again. */
static void remove_partial(struct weir__cached *c)
{
	weir__sys_unlink(c->cache->dir, c->names.part);
	weir__sys_unlink(c->cache->dir, c->names.state);
	atomic_store(&c->broken, true);
	weir__log(
		c->cache->weir,
		"cache %s: %s does not have the SHA-256 that its source says: it was removed",
		c->cache->path, c->name);
}

/* All blocks are there. Another process that may still write does it later. */
static void make_whole(struct weir__cached *c)
{
	int r = weir__partial_seal(c->partial);

	c->ended = true;
	if (r < 0)
		return;
	r = compare_all(c);
	if (r == 1)
		r = give_name(c);
	else if (r == 0)
		c->ended = false; /* a block was damaged: it is read again */
	else if (r == -EBADMSG)
		remove_partial(c);
	if (r < 0 && r != -ECANCELED && r != -EBADMSG)
		stop_writing(c, r);
	weir__partial_unseal(c->partial, c->ended);
}

void weir__cached_write(struct weir__cached *cached,
			const struct weir__copies_write *write)
{
	if (cached->ended || atomic_load(&cached->broken))
		return;
	write_bytes(cached, write);
	if (!atomic_load(&cached->broken) && is_complete(cached))
		make_whole(cached);
}

void weir__cached_put(struct weir__cached *cached)
{
	if (!weir__refs_drop(&cached->refs))
		return;
	for (unsigned i = 0; cached->edge && i < EDGES; i++)
		weir__free(cached->edge[i].bytes);
	weir__free(cached->edge);
	weir__partial_close(cached->partial);
	cached->ops.close(cached->object);
	pthread_mutex_destroy(&cached->lock);
	weir__free(cached);
}
