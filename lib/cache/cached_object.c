/* SPDX-License-Identifier: MIT */
/*
 * Objects that are read through the cache: a source around that of the object.
 * A read is split into pieces, each of which is in the folder or is not. Pieces
 * that are not are reads of the source, into the same memory, and a copy of
 * their bytes is queued for the folder. The read ends with its last piece.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cache/cache.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"

struct split_piece {
	struct weir_source_read read;    /* of the source, if it has it */
	struct weir__copies_read queued; /* else of the folder */
	struct weir__copies_held held;   /* when the source has ended it */
	struct split *split;
	_Atomic uint64_t arrived;
	_Atomic bool at_source;
};

/* A read of the library. It is freed when no piece and no cancel uses it. */
struct split {
	struct weir_source_read *whole;
	struct weir__cached *cached;
	_Atomic uint32_t refs;  /* of pieces, and of a cancel */
	_Atomic uint32_t left;  /* pieces that have not ended */
	_Atomic uint64_t found; /* bytes that came from the folder */
	_Atomic int err;
	char why[WEIR_SOURCE_WHY]; /* of the piece that has set err */
	unsigned n;
	struct split_piece piece[];
};

static void split_put(struct split *s)
{
	if (weir__refs_drop(&s->refs))
		weir__free(s);
}

/* After this the library may use the memory of the read again. */
static void piece_end(struct split_piece *p, int err, const char *why)
{
	struct split *s = p->split;
	struct weir_source_read *whole = s->whole;
	int none = 0;

	atomic_store(&p->at_source, false);
	if (err && atomic_compare_exchange_strong(&s->err, &none, err))
		snprintf(s->why, sizeof(s->why), "%s", why ? why : "");
	if (atomic_fetch_sub(&s->left, 1) == 1) {
		pthread_mutex_lock(&s->cached->lock);
		whole->priv[0] = NULL;
		whole->priv[1] = (void *)(uintptr_t)atomic_load(&s->found);
		pthread_mutex_unlock(&s->cached->lock);
		err = atomic_load(&s->err);
		whole->done(whole, err, err && *s->why ? s->why : NULL);
	}
	split_put(s);
}

/* Pieces of the source. */

static void on_arrived(struct weir_source_read *read, uint64_t bytes)
{
	struct split_piece *p = weir__container(read, struct split_piece, read);
	struct weir_source_read *whole = p->split->whole;

	/* With several pieces the bytes are not the first ones: it is progress
	 * all the same, and done says what is there. */
	if (whole->arrived)
		whole->arrived(whole, bytes);
}

static void on_done(struct weir_source_read *read, int err, const char *why)
{
	struct split_piece *p = weir__container(read, struct split_piece, read);
	struct weir__cached *cached = p->split->cached;

	atomic_store(&p->at_source, false);
	if (!err && !atomic_load(&cached->broken)) {
		/* read_timeout begins anew: the read may be held. */
		on_arrived(read, read->len);
		if (weir__copies_keep(&p->held))
			return;
	}
	piece_end(p, err, why);
}

/* There is room for its bytes, or it has waited long enough. */
static void piece_held(struct weir__copies_held *held)
{
	piece_end(weir__container(held, struct split_piece, held), 0, NULL);
}

static void piece_ask(struct split_piece *p)
{
	struct weir__cached *cached = p->split->cached;

	atomic_store(&p->at_source, true);
	cached->ops.read(cached->object, &p->read);
}

/* Pieces of the folder: a thread of the cache. */

/* 1: [off, off + len) of the block is at @to. */
static int read_block(struct weir__partial *partial, uint32_t block,
		      uint32_t off, uint32_t len, void *to, void **buf)
{
	uint64_t at = (uint64_t)block * WEIR__PARTIAL_BLOCK + off;
	uint32_t got = 0;
	int r;

	if (!weir__partial_trusts(partial, block)) {
		if (!*buf)
			*buf = weir__malloc_pages(WEIR__PARTIAL_BLOCK);
		r = *buf ? weir__partial_check(partial, block, *buf) : -ENOMEM;
		if (r == 1)
			memcpy(to, (char *)*buf + off, len);
		return r;
	}
	while (got < len) {
		int64_t n = weir__sys_pread(weir__partial_fd(partial),
					    (char *)to + got, len - got,
					    at + got);

		if (n <= 0)
			return n ? (int)n : -EIO;
		got += (uint32_t)n;
	}
	return 1;
}

/* If a block cannot be read or is damaged, the source gives the whole piece. */
static void piece_run(struct weir__copies_read *queued)
{
	struct split_piece *p =
		weir__container(queued, struct split_piece, queued);
	struct weir__partial *partial = p->split->cached->partial;
	uint64_t done = 0;
	void *buf = NULL;
	int r = 1;

	while (r == 1 && done < p->read.len) {
		uint64_t at = p->read.off + done, left = p->read.len - done;
		uint32_t block = (uint32_t)(at / WEIR__PARTIAL_BLOCK);
		uint32_t off = (uint32_t)(at % WEIR__PARTIAL_BLOCK);
		uint32_t len = weir__partial_len(partial, block) - off;

		if (len > left)
			len = (uint32_t)left;
		r = read_block(partial, block, off, len,
			       (char *)p->read.buf + done, &buf);
		done += len;
	}
	weir__free(buf);
	if (r == 1) {
		atomic_fetch_add(&p->split->found, p->read.len);
		piece_end(p, 0, NULL);
	} else {
		piece_ask(p);
	}
}

/* Reads. */

/* The end of the piece that begins at @off. */
static uint64_t piece_limit(struct weir__partial *partial, uint64_t off,
			    uint64_t end, bool *ret_has)
{
	uint32_t block = (uint32_t)(off / WEIR__PARTIAL_BLOCK);

	*ret_has = weir__partial_has(partial, block);
	for (off = (uint64_t)(block + 1) * WEIR__PARTIAL_BLOCK; off < end;
	     off += WEIR__PARTIAL_BLOCK)
		if (weir__partial_has(partial, ++block) != *ret_has)
			break;
	return off < end ? off : end;
}

static void piece_init(struct split *s, uint64_t off, uint64_t end)
{
	struct split_piece *p = &s->piece[s->n++];

	p->split = s;
	p->read = (struct weir_source_read){
		.size = sizeof(p->read),
		.off = off,
		.len = end - off,
		.buf = (char *)s->whole->buf + (off - s->whole->off),
		.arrived = on_arrived,
		.done = on_done,
	};
	p->queued.run = piece_run;
	p->held = (struct weir__copies_held){
		.cached = s->cached,
		.off = p->read.off,
		.len = p->read.len,
		.bytes = p->read.buf,
		.end = piece_held,
	};
}

static void cached_read(void *object, struct weir_source_read *read)
{
	struct weir__cached *cached = object;
	uint64_t end = read->off + read->len, blocks;
	struct split *s;
	bool *has;

	blocks = (end - 1) / WEIR__PARTIAL_BLOCK -
		 read->off / WEIR__PARTIAL_BLOCK + 1;
	s = weir__calloc(
		1, sizeof(*s) + blocks * (sizeof(s->piece[0]) + sizeof(*has)));
	if (!s) {
		read->done(read, -ENOMEM, "no memory for a read of the cache");
		return;
	}
	has = (bool *)(void *)&s->piece[blocks];
	s->whole = read;
	s->cached = cached;
	for (uint64_t off = read->off; off < end;) {
		uint64_t to =
			piece_limit(cached->partial, off, end, &has[s->n]);

		piece_init(s, off, to);
		off = to;
	}
	/* One more of each until all pieces have begun. */
	atomic_store(&s->refs, s->n + 1);
	atomic_store(&s->left, s->n);
	pthread_mutex_lock(&cached->lock);
	read->priv[0] = s;
	pthread_mutex_unlock(&cached->lock);
	for (unsigned i = 0, n = s->n; i < n; i++) {
		struct split_piece *p = &s->piece[i];

		if (!has[i] || !weir__copies_queue(cached->cache, &p->queued))
			piece_ask(p);
	}
	split_put(s);
}

uint64_t weir__copies_found(const struct weir_source *ops,
			    const struct weir_source_read *read)
{
	return ops->read == cached_read ? (uintptr_t)read->priv[1] : 0;
}

static void cached_cancel(void *object, struct weir_source_read *read)
{
	struct weir__cached *cached = object;
	struct split *s;

	pthread_mutex_lock(&cached->lock);
	s = read->priv[0];
	if (s)
		weir__refs_add(&s->refs, 1);
	pthread_mutex_unlock(&cached->lock);
	if (!s)
		return;
	for (unsigned i = 0; i < s->n; i++) {
		struct split_piece *p = &s->piece[i];

		if (weir__copies_let_go(&p->held))
			piece_end(p, 0, NULL);
		else if (atomic_load(&p->at_source))
			cached->ops.cancel(cached->object, &p->read);
	}
	split_put(s);
}

static int cached_check(void *object, char why[WEIR_SOURCE_WHY])
{
	struct weir__cached *cached = object;

	return cached->ops.check ? cached->ops.check(cached->object, why) : 0;
}

static void cached_close(void *object)
{
	weir__copies_closed(object);
	weir__cached_put(object);
}

void weir__cached_ref(struct weir__cached *cached)
{
	weir__refs_add(&cached->refs, 1);
}

struct weir__cached *weir__cached_new(struct weir__copies *cache,
				      const struct weir_source *source,
				      void *object,
				      const struct weir_source_info *info,
				      struct weir__partial *partial,
				      const struct weir__copies_names *names,
				      struct weir_source *ret_ops)
{
	struct weir__cached *c = weir__calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->cache = cache;
	atomic_init(&c->refs, 1);
	c->ops = *source;
	c->object = object;
	c->partial = partial;
	c->names = *names;
	c->bytes = info->bytes;
	c->request_bytes = info->request_bytes;
	memcpy(c->name, info->name, sizeof(c->name));
	memcpy(c->sha256, info->sha256, sizeof(c->sha256));
	pthread_mutex_init(&c->lock, NULL);
	*ret_ops = (struct weir_source){
		.size = sizeof(*ret_ops),
		.abi = WEIR_SOURCE_ABI,
		.name = source->name,
		.close = cached_close,
		.read = cached_read,
		.cancel = source->cancel ? cached_cancel : NULL,
		.check = cached_check,
	};
	return c;
}
