/* SPDX-License-Identifier: MIT */
/* Prefaults fresh memory of a load ahead of its reads. */
#include <errno.h>

#include "alloc/prefault.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "io/engine.h"
#include "model/load/load.h"

/* Prefaulting less is not worth the threads. */
#define PREFAULT_LEAST (4u << 20)
/* The range of a buffer is its number, or one of these. */
#define NOT_SEEN SIZE_MAX
#define NOT_FRESH (SIZE_MAX - 1)

static void wake_job(void *arg)
{
	struct weir_load *l = arg;

	weir__job_wake(l->job);
}

/*
 * Find the fresh memory of buffer @number; in a buffer of the caller only that
 * of the bytes that are loaded. Returns false if it is not worth the threads.
 */
static bool fresh_range(const struct weir_load *l, size_t number,
			struct weir__prefault_range *ret)
{
	const struct weir__layout *layout = l->weights->layout;
	const struct weir__layout_buf *b = &layout->buf[number];
	struct weir_buf *buf = l->weights->buf[number];
	size_t backed = __atomic_load_n(&buf->mem.backed, __ATOMIC_SEQ_CST),
	       from = 0;
	size_t to = b->given ? b->bytes : buf->bytes;

	if (backed >= to)
		return false;
	if (b->given)
		from = weir__down(layout->placement[layout->order[b->first]].at,
				  WEIR__PAGE);
	if (to - from < PREFAULT_LEAST)
		return false;
	if (from <= backed)
		from = 0;
	*ret = (struct weir__prefault_range){
		.addr = buf->mem.base + from,
		.bytes = to - from,
		.backed = from ? NULL : &buf->mem.backed,
	};
	return true;
}

/*
 * Find the ranges of fresh memory that is read in place, in the order of the
 * reads. @range_of gets the range of each buffer. Returns their number.
 */
static size_t fresh_ranges(struct weir_load *l, size_t *range_of,
			   struct weir__prefault_range *range)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_ext; i++) {
		struct weir__extent *e = &l->arrays->ext[i];
		size_t b;

		if (e->buffered || e->dev)
			continue;
		b = l->weights->layout->span[l->arrays->ext_span[i]].buf;
		if (l->weights->buf[b]->foreign)
			continue;
		if (range_of[b] == NOT_SEEN)
			range_of[b] = fresh_range(l, b, &range[n]) ? n++
								   : NOT_FRESH;
		e->prefault_range = range_of[b];
	}
	return n;
}

static int start_prefault(struct weir_load *l, size_t *range_of,
			  struct weir__prefault_range *range)
{
	const unsigned half = weir__cpus_count(&l->weir->io_cpus) / 2;
	const size_t n = fresh_ranges(l, range_of, range);

	if (n && weir__prefault_start(l->weir, range, n, half < 2 ? 2 : half,
				      wake_job, l, &l->prefault) < 0)
		return -ENOMEM;
	for (size_t i = 0; n && i < l->n_ext; i++) {
		const size_t b =
			l->weights->layout->span[l->arrays->ext_span[i]].buf;

		if (range_of[b] != NOT_SEEN && range_of[b] != NOT_FRESH)
			l->arrays->ext[i].prefault = l->prefault;
	}
	return 0;
}

int weir__load_prefault(struct weir_load *l)
{
	const size_t n = l->weights->layout->n_bufs;
	struct weir__prefault_range *range;
	size_t *range_of;
	int r;

	if (!l->direct)
		return 0;
	range = weir__calloc(n + 1, sizeof(*range));
	range_of = weir__calloc(n + 1, sizeof(*range_of));
	for (size_t b = 0; range_of && b < n; b++)
		range_of[b] = NOT_SEEN;
	r = range && range_of ? start_prefault(l, range_of, range) : -ENOMEM;
	weir__free(range);
	weir__free(range_of);
	if (r < 0)
		return weir__fail(r,
				  "%s: no memory for the ranges of %zu buffers",
				  l->model->path, n);
	return 0;
}

void weir__load_prefault_stop(struct weir_load *l)
{
	const struct weir__layout *layout = l->weights->layout;

	l->prefault_ns += weir__prefault_stop(l->prefault);
	l->prefault = NULL;
	if (atomic_load(&l->arrival->first_failed) != WEIR__NONE_FAILED ||
	    l->skip)
		return;
	/* A load without failure has filled its own buffers entirely. */
	for (size_t i = 0; i < layout->n_selected_bufs; i++) {
		struct weir_buf *buf = l->weights->buf[i];

		if (!layout->buf[i].given)
			__atomic_store_n(&buf->mem.backed, buf->bytes,
					 __ATOMIC_SEQ_CST);
	}
}
