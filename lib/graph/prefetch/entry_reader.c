/* SPDX-License-Identifier: MIT */
/*
 * Read-through: a node reads a prefetched leaf from the file itself. While the
 * file is in the page cache, a prefetch is a copy by a CPU whose bytes go to
 * memory and back. The node instead gets the bytes where the page cache has
 * them, or a few rows at a time, which stay in the CPU's cache. README.md says
 * when; bench/EPYC.md has figures.
 */
#include <errno.h>
#include <stdio.h>

#include "core/sys.h"
#include "graph/prefetch/prefetcher.h"
#include "io/caller_read.h"
#include "io/lease.h"
#include "stream/stream.h"

/* Bytes of a cache line: kernels expect no greater alignment. */
#define LINE 64u

/* Read the bytes from @off on; they are not in the page cache any more. */
static int reader_wait(const struct weir__entry_reader *p, void *to, size_t n,
		       uint64_t off, char why[240])
{
	typedef unsigned long long ull;
	const char *base = p->file->base;
	char text[120];
	int r = weir__read_blocking(p->file, to, n, off, text, sizeof(text));

	if (r == -ENODATA)
		snprintf(
			why, 240,
			"source 0 (node %u): %s: ends before bytes [%llu, %llu); it had %llu bytes when it was opened",
			p->node, base, (ull)off, (ull)(off + n),
			(ull)p->file->id.bytes);
	else if (r < 0)
		snprintf(why, 240,
			 "source 0 (node %u): %s: bytes [%llu, %llu): %s",
			 p->node, base, (ull)off, (ull)(off + n), text);
	return r;
}

static int reader_read(const struct weir__entry_reader *p, void *to, size_t n,
		       uint64_t off, char why[240])
{
	int64_t got =
		p->nowait ? weir__sys_pread_nowait(p->file->fd, to, n, off) : 0;
	size_t done = got > 0 ? (size_t)got : 0;

	if (done == n)
		return 0;
	return reader_wait(p, (char *)to + done, n - done, off + done, why);
}

static const unsigned char *reader_get(struct weir_backend_reader *of,
				       uint64_t at, size_t *n,
				       unsigned char *room, size_t room_bytes,
				       char why[240], int *ret_err)
{
	const struct weir__entry_reader *p =
		(const struct weir__entry_reader *)of;
	const unsigned char *mapped = NULL;
	int r;

	if (p->aligned)
		mapped = weir__lease_get(p->file, p->at + at, *n);
	if (mapped)
		return mapped;
	*n = *n < room_bytes ? *n : room_bytes;
	r = reader_read(p, room, *n, p->at + at, why);
	if (r < 0)
		*ret_err = r;
	return r < 0 ? NULL : room;
}

static void reader_put(struct weir_backend_reader *of,
		       const unsigned char *bytes)
{
	(void)bytes;
	weir__lease_put(((const struct weir__entry_reader *)of)->file);
}

struct weir_backend_reader *
weir__prefetch_list_reader(struct weir__prefetch_list *list, uint32_t k,
			   uint32_t node)
{
	struct weir__prefetch_entry *entry = &list->entry[k];
	struct weir_file *file = entry->import.file;
	bool by_rows = weir__entry_by_rows(entry);
	struct weir__entry_reader *p;
	bool nowait;

	if (entry->kept || !file)
		return NULL;
	nowait = weir__nowait_file(file) && weir__nowait_root(file->weir);
	if (!nowait && !by_rows)
		return NULL;
	p = &list->reader[k];
	p->of.place = by_rows ? (unsigned char *)WEIR__NOWHERE
			      : entry->buf->mem.base + entry->offset;
	p->of.bytes = entry->import.bytes;
	p->of.get = reader_get;
	p->of.put = reader_put;
	p->file = file;
	p->nowait = nowait;
	p->at = entry->import.at;
	p->node = node;
	p->aligned = nowait && ((uintptr_t)p->of.place - p->at) % LINE == 0;
	if (p->aligned)
		weir__file_lease(p->file);
	if (by_rows)
		__atomic_store_n(&p->of.active, true, __ATOMIC_SEQ_CST);
	entry->reader = p;
	return &p->of;
}

/*
 * True if something in flight writes to the place of @reader. That may be a
 * read that no run needs any more. The stream would order a later read after
 * it, but not a node that writes there.
 */
static bool is_written(const struct weir__prefetcher *prefetcher,
		       const struct weir_backend_reader *p)
{
	struct weir__timeline *tl = &prefetcher->arrivals->stream->timeline;

	/* Reads of a timeline that has failed may still be in flight. */
	if (prefetcher->arrivals->after &&
	    tl->ops->state(tl, prefetcher->arrivals->after, NULL) <= 0)
		return true;
	for (uint32_t i = 0; i < prefetcher->n_out; i++) {
		const struct weir__prefetch_op *out =
			&prefetcher->out[(prefetcher->first_out + i) %
					 WEIR__PREFETCH_OPS];

		if (out->place < p->place + p->bytes &&
		    p->place < out->place + out->bytes)
			return true;
	}
	return false;
}

bool weir__entry_may_read_through(const struct weir__prefetcher *prefetcher,
				  const struct weir__prefetch_entry *entry)
{
	const struct weir__entry_reader *p = entry->reader;

	return p && !is_written(prefetcher, &p->of) &&
	       weir__file_is_cached(p->file, p->at, p->of.bytes);
}

void weir__entry_set_read_through(const struct weir__prefetch_entry *entry,
				  bool read_through)
{
	if (entry->reader)
		__atomic_store_n(&entry->reader->of.active, read_through,
				 __ATOMIC_SEQ_CST);
}

bool weir__entry_reads_through(const struct weir__prefetch_entry *entry)
{
	return entry->reader &&
	       __atomic_load_n(&entry->reader->of.active, __ATOMIC_SEQ_CST);
}
