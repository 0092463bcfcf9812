/* SPDX-License-Identifier: MIT */
/*
 * The record of calls, as text: weir_heap(3) has the format. The line of a free
 * is written under the heap's lock, before the block is freed. So of two used
 * blocks with the same number the record has the end of the first before the
 * second.
 */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "heap/heap.h"

#define LINE_BYTES ((size_t)128)

/* Guarded by the heap's lock. */
struct weir__call_record {
	int fd;
	int err; /* the first error of write(2), after which nothing is
		    written */
	size_t n;
	char text[1 << 16];
};

static void record_flush(struct weir__call_record *rec)
{
	size_t done = 0;

	while (done < rec->n && !rec->err) {
		int64_t r = weir__sys_write(rec->fd, rec->text + done,
					    rec->n - done);

		if (r < 0)
			rec->err = (int)r;
		else
			done += (size_t)r;
	}
	rec->n = 0;
}

__attribute__((format(printf, 2, 3))) static void
record_line(struct weir__call_record *rec, const char *fmt, ...)
{
	va_list ap;

	if (rec->n + LINE_BYTES > sizeof(rec->text))
		record_flush(rec);
	va_start(ap, fmt);
	rec->n += (size_t)vsnprintf(rec->text + rec->n, LINE_BYTES, fmt, ap);
	va_end(ap);
}

static struct weir__call_record *record_of(struct weir_heap *h)
{
	return atomic_load_explicit(&h->record, memory_order_relaxed);
}

static unsigned number_of(struct weir_heap *h, const struct weir_stream *stream)
{
	const struct weir__stream_bin *bin =
		weir__stream_bin_find(&h->root, stream);

	return bin ? bin->index : 0;
}

void weir__record_alloc(struct weir_heap *h, uint32_t block, size_t size,
			size_t align, const struct weir_stream *stream)
{
	struct weir__call_record *rec = record_of(h);

	if (rec)
		record_line(rec, "+ %u %zu %zu %u %ld\n", block, size, align,
			    number_of(h, stream), (long)gettid());
}

void weir__record_free(struct weir_heap *h, uint32_t block,
		       const struct weir_stream *stream)
{
	struct weir__call_record *rec = record_of(h);

	if (rec)
		record_line(rec, "- %u %u %ld\n", block, number_of(h, stream),
			    (long)gettid());
}

static int record_begin(struct weir_heap *h, int fd)
{
	struct weir__call_record *rec;
	int r;

	if (record_of(h))
		return weir__fail(-EBUSY, "%s: calls are recorded already",
				  h->label);
	rec = weir__malloc(sizeof(*rec));
	if (!rec)
		return weir__fail(-ENOMEM, "no memory for a record of %s",
				  h->label);
	r = weir__sys_dup(fd);
	if (r < 0) {
		weir__free(rec);
		return weir__fail_sys(r, "descriptor %d", fd);
	}
	rec->fd = r;
	rec->err = 0;
	rec->n = 0;
	record_line(rec, "# weir heap 1\n# align %llu\n",
		    1ull << h->blocks.shift);
	atomic_store(&h->record, rec);
	return 0;
}

int weir__record_end(struct weir_heap *h)
{
	struct weir__call_record *rec = record_of(h);
	int err;

	if (!rec)
		return 0;
	atomic_store(&h->record, NULL);
	record_flush(rec);
	err = rec->err;
	weir__sys_close(rec->fd);
	weir__free(rec);
	return err < 0 ? weir__fail_sys(err, "the record of %s", h->label) : 0;
}

int weir_heap_record(struct weir_heap *heap, int fd)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(heap->weir);
	if (r < 0)
		return r;
	weir__heap_lock_all(heap);
	r = fd == -1 ? weir__record_end(heap) : record_begin(heap, fd);
	weir__heap_unlock(heap);
	/* From here on caches keep nothing, so that each call is recorded. */
	if (r == 0 && fd >= 0)
		weir__caches_flush(heap);
	return r;
}
