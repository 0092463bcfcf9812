/* SPDX-License-Identifier: MIT */
/*
 * Fed leaves that are left to the node that needs them. If the file is in the page
 * cache, feeding is a copy by a CPU, and its bytes go to memory and back. The node
 * gets them from a provider: where they are, or a few rows at a time, which stay in
 * the CPU's cache. FEED.md says when, bench/EPYC.md how fast.
 */
#include <errno.h>
#include <stdio.h>

#include "core/sys.h"
#include "graph/prefetch/feed.h"
#include "io/lease.h"
#include "io/caller_read.h"
#include "stream/stream.h"

#define LINE 64u /* bytes, of a cache: kernels expect no other alignment */

/* Bytes from @off on that are not in the page cache any more. */
static int provider_wait(const struct weir__fed_provider *p, void *to, size_t n,
			 uint64_t off, char why[240])
{
	typedef unsigned long long ull;
	const char *base = p->file->base;
	char words[120];
	int r = weir__read_blocking(p->file, to, n, off, words, sizeof(words));

	if (r == -ENODATA)
		snprintf(
			why, 240,
			"source 0 (node %u): %s: ends before bytes [%llu, %llu); it had %llu bytes when it was opened",
			p->node, base, (ull)off, (ull)(off + n),
			(ull)p->file->id.bytes);
	else if (r < 0)
		snprintf(why, 240,
			 "source 0 (node %u): %s: bytes [%llu, %llu): %s",
			 p->node, base, (ull)off, (ull)(off + n), words);
	return r;
}

static int provider_read(const struct weir__fed_provider *p, void *to, size_t n,
			 uint64_t off, char why[240])
{
	int64_t got =
		p->nowait ? weir__sys_pread_nowait(p->file->fd, to, n, off) : 0;
	size_t done = got > 0 ? (size_t)got : 0;

	if (done == n)
		return 0;
	return provider_wait(p, (char *)to + done, n - done, off + done, why);
}

static const unsigned char *provider_get(struct weir_backend_provider *of,
					 uint64_t at, size_t *n,
					 unsigned char *room, size_t room_bytes,
					 char why[240], int *ret_err)
{
	const struct weir__fed_provider *p =
		(const struct weir__fed_provider *)of;
	const unsigned char *mapped = NULL;
	int r;

	if (p->aligned)
		mapped = weir__lease_get(p->file, p->at + at, *n);
	if (mapped)
		return mapped;
	*n = *n < room_bytes ? *n : room_bytes;
	r = provider_read(p, room, *n, p->at + at, why);
	if (r < 0)
		*ret_err = r;
	return r < 0 ? NULL : room;
}

static void provider_put(struct weir_backend_provider *of,
			 const unsigned char *bytes)
{
	(void)bytes;
	weir__lease_put(((const struct weir__fed_provider *)of)->file);
}

struct weir_backend_provider *weir__feed_provider(struct weir__feed_list *list,
						  uint32_t k, uint32_t node)
{
	struct weir__fed *fed = &list->fed[k];
	struct weir_file *file = fed->import.file;
	bool by_rows = weir__fed_by_rows(fed);
	struct weir__fed_provider *p;
	bool nowait;

	if (fed->kept || !file)
		return NULL;
	nowait = weir__nowait_file(file) && weir__nowait_root(file->weir);
	if (!nowait && !by_rows)
		return NULL;
	p = &list->provider[k];
	p->of.place = by_rows ? (unsigned char *)WEIR__NOWHERE
			      : fed->buf->mem.base + fed->offset;
	p->of.bytes = fed->import.bytes;
	p->of.get = provider_get;
	p->of.put = provider_put;
	p->file = file;
	p->nowait = nowait;
	p->at = fed->import.at;
	p->node = node;
	p->aligned = nowait && ((uintptr_t)p->of.place - p->at) % LINE == 0;
	if (p->aligned)
		weir__file_lease(p->file);
	if (by_rows)
		__atomic_store_n(&p->of.missing, true, __ATOMIC_SEQ_CST);
	fed->provider = p;
	return &p->of;
}

/*
 * A node writes to the place while it reads. A read that nobody needs any more may
 * still be in flight there: a read by the stream would be ordered after it.
 */
static bool is_written(const struct weir__feeder *f,
		       const struct weir_backend_provider *p)
{
	struct weir__timeline *tl = &f->feed->stream->timeline;

	/* The reads of a feed that failed. */
	if (f->feed->after && tl->ops->state(tl, f->feed->after, NULL) <= 0)
		return true;
	for (uint32_t i = 0; i < f->n_out; i++) {
		const struct weir__fed_out *out =
			&f->out[(f->first_out + i) % WEIR__FEED_OUT];

		if (out->place < p->place + p->bytes &&
		    p->place < out->place + out->bytes)
			return true;
	}
	return false;
}

bool weir__fed_may_leave(const struct weir__feeder *f,
			 const struct weir__fed *fed)
{
	const struct weir__fed_provider *p = fed->provider;

	return p && !is_written(f, &p->of) &&
	       weir__file_is_cached(p->file, p->at, p->of.bytes);
}

void weir__fed_leave(const struct weir__fed *fed, bool leave)
{
	if (fed->provider)
		__atomic_store_n(&fed->provider->of.missing, leave,
				 __ATOMIC_SEQ_CST);
}

bool weir__fed_is_left(const struct weir__fed *fed)
{
	return fed->provider &&
	       __atomic_load_n(&fed->provider->of.missing, __ATOMIC_SEQ_CST);
}
