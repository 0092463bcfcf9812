/* SPDX-License-Identifier: MIT */
/*
 * What was read from a source is written to the folder: whole blocks with their
 * digests, and parts of others, whose ranges are noted until the block is
 * complete. Programs leave gaps, such as padding: when an object is closed the
 * small ones are read from the source. When all blocks are there, the writer
 * who is alone compares them, and the whole with the SHA-256 that the source
 * publishes, and gives the file its name.
 */
#include <errno.h>
#include <string.h>

#include "cache/cache.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/refs.h"
#include "core/sys.h"

#define EDGES 64u  /* blocks of which parts are there, at a time */
#define RANGES 32u /* parts of a block that do not adjoin */
#define GAP_MAX (WEIR__PARTIAL_BLOCK / 2)

/* A block of which parts are there: [lo, hi) of it, sorted, not adjoining. */
struct weir__cached_edge {
	uint32_t block;
	unsigned n; /* 0: free */
	struct {
		uint32_t lo, hi;
	} range[RANGES];
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

/* The block's edge, or a free one; the one that began first is given up. */
static struct weir__cached_edge *edge_of(struct weir__cached *c, uint32_t block)
{
	struct weir__cached_edge *e, *none = NULL;

	if (!c->edge)
		c->edge = weir__calloc(EDGES, sizeof(*c->edge));
	if (!c->edge)
		return NULL;
	for (e = c->edge; e < c->edge + EDGES; e++) {
		if (e->n && e->block == block)
			return e;
		if (!e->n)
			none = e;
	}
	e = none ? none : &c->edge[c->n_edges++ % EDGES];
	e->block = block;
	e->n = 0;
	return e;
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

/* All parts of the block are there. */
static void join_block(struct weir__cached *c, uint32_t block)
{
	void *buf = weir__malloc_pages(WEIR__PARTIAL_BLOCK);
	int r = buf ? weir__partial_join(c->partial, block, buf) : -ENOMEM;

	if (r < 0)
		stop_writing(c, r);
	weir__free(buf);
}

static void write_part(struct weir__cached *c, uint32_t block, uint32_t lo,
		       uint32_t hi, const void *bytes)
{
	struct weir__cached_edge *e;
	int r;

	if (weir__partial_has(c->partial, block))
		return;
	e = edge_of(c, block);
	if (!e)
		return;
	r = weir__partial_write_part(c->partial, block, lo, hi - lo, bytes);
	if (r < 0) {
		stop_writing(c, r);
		return;
	}
	if (!edge_add(e, lo, hi)) {
		e->n = 0;
		return;
	}
	if (e->n > 1 || e->range[0].lo ||
	    e->range[0].hi < weir__partial_len(c->partial, block))
		return;
	e->n = 0;
	join_block(c, block);
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

/*
 * Read what is missing of the block, from its first such byte to the last one,
 * if this is about as cheap as a request.
 */
static void fill_block(struct weir__cached *c,
		       const struct weir__cached_edge *e)
{
	uint32_t len = weir__partial_len(c->partial, e->block), missing = len;
	uint32_t lo = e->range[0].lo ? 0 : e->range[0].hi;
	uint32_t hi = e->range[e->n - 1].hi < len ? len : e->range[e->n - 1].lo;

	for (unsigned i = 0; i < e->n; i++)
		missing -= e->range[i].hi - e->range[i].lo;
	if (missing <= c->request_bytes && missing <= GAP_MAX &&
	    !weir__partial_has(c->partial, e->block))
		weir__copies_fill(c,
				  (uint64_t)e->block * WEIR__PARTIAL_BLOCK + lo,
				  hi - lo);
}

static void fill_all(struct weir__cached *c)
{
	for (unsigned i = 0; c->edge && i < EDGES; i++)
		if (c->edge[i].n)
			fill_block(c, &c->edge[i]);
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
	if (write->closed)
		fill_all(cached);
	if (!atomic_load(&cached->broken) && is_complete(cached))
		make_whole(cached);
}

void weir__cached_put(struct weir__cached *cached)
{
	if (!weir__refs_drop(&cached->refs))
		return;
	weir__free(cached->edge);
	weir__partial_close(cached->partial);
	cached->ops.close(cached->object);
	pthread_mutex_destroy(&cached->lock);
	weir__free(cached);
}
