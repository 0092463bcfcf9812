/* SPDX-License-Identifier: MIT */
/* The memory of a prefetcher: kept leaves, buffers, and lists of imports. */
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sort.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/prefetch/prefetcher.h"

/*
 * An import of at least this many bytes may be read directly into its place, if
 * the addresses in memory and in the file are equal in their last bits.
 */
#define DIRECT_MIN (64u << 10)
#define PHASE_ALIGN 16u

int weir__prefetcher_new(struct weir_dev *dev, struct weir_buft *buft,
			 uint64_t limit,
			 struct weir__prefetcher **ret_prefetcher)
{
	struct weir__prefetcher *p = weir__calloc(1, sizeof(*p));

	if (!p)
		return weir__fail(-ENOMEM, "no memory for the prefetcher of %s",
				  dev->desc.name);
	atomic_init(&p->refs, 1);
	p->dev = dev;
	p->buft = buft;
	p->limit = limit ? limit : UINT64_MAX;
	p->number = 1;
	pthread_mutex_init(&p->store_lock, NULL);
	pthread_mutex_init(&p->check_lock, NULL);
	pthread_mutex_init(&p->lock, NULL);
	*ret_prefetcher = p;
	return 0;
}

static void kept_free(struct weir__prefetcher *p, struct weir__kept_leaf *kept)
{
	p->held -= kept->need;
	weir__buf_put(kept->buf);
	if (kept->file)
		weir__file_put(kept->file);
	weir__free(kept);
}

static void buffer_put(struct weir__prefetcher *p,
		       struct weir__prefetch_buffer *buffer)
{
	if (!buffer || --buffer->refs)
		return;
	p->held -= buffer->bytes;
	weir__buf_put(buffer->buf);
	weir__free(buffer);
}

void weir__prefetcher_put(struct weir__prefetcher *p)
{
	struct weir__kept_leaf *kept;

	if (!weir__refs_drop(&p->refs))
		return;
	for (uint32_t b = 0; b < WEIR__PREFETCH_BUCKETS; b++)
		while ((kept = p->kept[b])) {
			p->kept[b] = kept->next;
			kept_free(p, kept);
		}
	buffer_put(p, p->buffer);
	if (p->arrivals)
		weir__timeline_put(&p->arrivals->timeline);
	pthread_mutex_destroy(&p->lock);
	pthread_mutex_destroy(&p->store_lock);
	pthread_mutex_destroy(&p->check_lock);
	weir__free(p);
}

static uint32_t phase_of(const struct weir__prefetcher *p,
			 const struct weir__import *import)
{
	if (!import->file || import->bytes < DIRECT_MIN ||
	    import->at % PHASE_ALIGN || !(p->buft->desc.flags & WEIR_BUFT_HOST))
		return WEIR__IMPORTS_ANY;
	return (uint32_t)(import->at & (WEIR__PAGE - 1));
}

static struct weir__kept_leaf **bucket_of(struct weir__prefetcher *p,
					  const struct weir__import *import)
{
	uint64_t h = ((uintptr_t)import->file >> 4) + import->at;

	h *= 0x9e3779b97f4a7c15u;
	return &p->kept[h >> 56]; /* WEIR__PREFETCH_BUCKETS */
}

static struct weir__kept_leaf *kept_find(struct weir__prefetcher *p,
					 const struct weir__import *import)
{
	struct weir__kept_leaf *kept = *bucket_of(p, import);

	while (kept && (kept->file != import->file || kept->at != import->at ||
			kept->bytes != import->bytes))
		kept = kept->next;
	return kept;
}

/* True if a read into its memory is in flight, so that it has to stay. */
static bool is_loading(struct weir__prefetcher *p,
		       const struct weir__kept_leaf *kept)
{
	bool loading;

	pthread_mutex_lock(&p->lock);
	loading = kept->loading != 0;
	pthread_mutex_unlock(&p->lock);
	return loading;
}

/* Free kept leaves that no list has, until the limit has room for @bytes. */
static void store_evict(struct weir__prefetcher *p, uint64_t bytes)
{
	for (uint32_t b = 0; b < WEIR__PREFETCH_BUCKETS; b++) {
		struct weir__kept_leaf **at = &p->kept[b], *kept;

		while ((kept = *at)) {
			if (bytes <= p->limit && p->held <= p->limit - bytes)
				return;
			if (kept->refs || is_loading(p, kept)) {
				at = &kept->next;
				continue;
			}
			*at = kept->next;
			kept_free(p, kept);
		}
	}
}

/* An import, sorted by the offset or address of its bytes. */
struct sorted_import {
	struct weir__sort_key key;
	uint64_t i;
};

static bool same_bytes(const struct weir__import *a,
		       const struct weir__import *b)
{
	return a->file == b->file && a->at == b->at && a->bytes == b->bytes;
}

int weir__imports_same(const struct weir__import *imports, uint32_t n,
		       uint32_t *ret_same)
{
	struct sorted_import *list =
		weir__array_alloc(n + (size_t)1, sizeof(*list));
	uint32_t first = 0;
	int r = list ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && !r; i++)
		list[i] = (struct sorted_import){ .key = { imports[i].at, i },
						  .i = i };
	if (r == 0)
		r = weir__sort(list, n, sizeof(*list));
	for (uint32_t k = 0; k < n && !r; k++) {
		const struct weir__import *import = &imports[list[k].i];
		uint32_t j;

		/* Few imports begin at one offset: mostly one of each file. */
		if (list[k].key.major != list[first].key.major)
			first = k;
		for (j = first; !same_bytes(&imports[list[j].i], import);)
			j++;
		ret_same[list[k].i] = (uint32_t)list[j].i;
	}
	weir__array_free(list);
	return r < 0 ? weir__fail(r, "no memory for %u constant leaves", n) : 0;
}

/*
 * The arrays of imports that the pass takes, and the kept leaf of each, or
 * NULL.
 */
struct import_arrays {
	uint64_t *bytes, *by_rows;
	uint32_t *first, *last, *phase, *same;
	bool *is_kept;
	struct weir__kept_leaf **kept;
};

/* The bytes of the limit that remain for @n imports. */
static uint64_t store_budget(struct weir__prefetcher *p,
			     const struct import_arrays *a, uint32_t n)
{
	uint64_t used = p->held;

	if (p->limit == UINT64_MAX)
		return UINT64_MAX;
	for (uint32_t b = 0; b < WEIR__PREFETCH_BUCKETS; b++)
		for (struct weir__kept_leaf *k = p->kept[b]; k; k = k->next)
			used -= k->refs ? 0 : k->need;
	for (uint32_t i = 0; i < n; i++)
		if (a->kept[i] && !a->kept[i]->refs && a->same[i] == i)
			used += a->kept[i]->need;
	return used < p->limit ? p->limit - used : 0;
}

static void arrays_free(struct import_arrays *a)
{
	weir__array_free(a->bytes);
	weir__array_free(a->by_rows);
	weir__array_free(a->first);
	weir__array_free(a->last);
	weir__array_free(a->phase);
	weir__array_free(a->same);
	weir__array_free(a->is_kept);
	weir__array_free(a->kept);
}

static int arrays_make(const struct weir__prefetcher *p,
		       const struct weir__import *imports, uint32_t n,
		       struct import_arrays *a)
{
	size_t m = n + (size_t)1; /* never 0 */

	a->bytes = weir__array_alloc(m, sizeof(*a->bytes));
	a->by_rows = weir__array_alloc(m, sizeof(*a->by_rows));
	a->first = weir__array_alloc(m, sizeof(*a->first));
	a->last = weir__array_alloc(m, sizeof(*a->last));
	a->phase = weir__array_alloc(m, sizeof(*a->phase));
	a->same = weir__array_alloc(m, sizeof(*a->same));
	a->is_kept = weir__array_alloc(m, sizeof(*a->is_kept));
	a->kept = weir__array_alloc(m, sizeof(struct weir__kept_leaf *));
	if (!a->bytes || !a->by_rows || !a->first || !a->last || !a->phase ||
	    !a->same || !a->is_kept || !a->kept)
		return weir__fail(-ENOMEM, "no memory for %u constant leaves",
				  n);
	for (uint32_t i = 0; i < n; i++) {
		a->bytes[i] = imports[i].bytes;
		a->by_rows[i] = imports[i].by_rows;
		a->first[i] = imports[i].first;
		a->last[i] = imports[i].last;
		a->phase[i] = phase_of(p, &imports[i]);
		a->is_kept[i] = false;
		a->kept[i] = NULL;
	}
	return weir__imports_same(imports, n, a->same);
}

static struct weir__imports_in imports_in(const struct weir__prefetcher *p,
					  const struct import_arrays *a,
					  uint32_t n)
{
	return (struct weir__imports_in){ .n = n,
					  .bytes = a->bytes,
					  .first = a->first,
					  .last = a->last,
					  .phase = a->phase,
					  .is_kept = a->is_kept,
					  .same = a->same,
					  .by_rows = a->by_rows,
					  .align = p->buft->desc.align };
}

static int decide(const struct weir__prefetcher *p,
		  const struct weir__imports_in *in, struct weir__imports *out)
{
	int r = weir__imports(in, out);

	return r < 0 ? weir__fail_for(r, "weights on %s", p->dev->desc.name)
		     : 0;
}

int weir__prefetch_measure(const struct weir__prefetcher *p,
			   const struct weir__import *imports, uint32_t n,
			   struct weir__prefetch_sizes *ret)
{
	struct import_arrays a = { 0 };
	struct weir__imports out;
	struct weir__imports_in in;
	int r = arrays_make(p, imports, n, &a);

	if (r == 0) {
		in = imports_in(p, &a, n);
		in.budget = p->limit;
		r = decide(p, &in, &out);
	}
	if (r == 0) {
		*ret = (struct weir__prefetch_sizes){
			.kept = out.kept_bytes,
			.prefetched = out.prefetched_bytes,
			.buffer = out.buffer
		};
		weir__imports_free(&out);
	}
	arrays_free(&a);
	return r;
}

static int buffer_new(struct weir__prefetcher *p, uint64_t bytes)
{
	struct weir__prefetch_buffer *buffer = weir__calloc(1, sizeof(*buffer));
	int r;

	if (!buffer)
		return weir__fail(-ENOMEM, "no memory for a prefetch buffer");
	r = weir__buf_alloc(p->buft, bytes, NULL, &buffer->buf);
	if (r < 0) {
		weir__free(buffer);
		return r;
	}
	buffer->refs = 1;
	buffer->bytes = bytes;
	p->held += bytes;
	buffer_put(p, p->buffer);
	p->buffer = buffer;
	return 0;
}

static int kept_new(struct weir__prefetcher *p,
		    const struct weir__import *import, uint64_t need,
		    struct weir__kept_leaf **ret)
{
	struct weir__kept_leaf *kept = weir__calloc(1, sizeof(*kept));
	struct weir__kept_leaf **bucket = bucket_of(p, import);
	uint32_t phase = phase_of(p, import);
	int r;

	if (!kept)
		return weir__fail(-ENOMEM, "no memory for a constant leaf");
	r = weir__buf_alloc(p->buft, need, NULL, &kept->buf);
	if (r < 0) {
		weir__free(kept);
		return r;
	}
	if (phase != WEIR__IMPORTS_ANY)
		kept->offset = (phase - (uintptr_t)kept->buf->mem.base) &
			       (WEIR__PAGE - 1);
	kept->file = import->file ? weir__file_ref(import->file) : NULL;
	kept->at = import->at;
	kept->bytes = import->bytes;
	kept->need = need;
	kept->next = *bucket;
	*bucket = kept;
	p->held += need;
	*ret = kept;
	return 0;
}

/*
 * Give each entry its memory. After a failure list_drop() frees the entries
 * that were made.
 */
static int list_fill(struct weir__prefetch_list *list,
		     const struct weir__import *imports,
		     const struct weir__imports_in *in,
		     const struct weir__imports *out)
{
	struct weir__prefetcher *p = list->prefetcher;
	int r = 0;

	for (uint32_t i = 0; i < in->n; i++) {
		struct weir__prefetch_entry *entry = &list->entry[i];

		entry->import = imports[i];
		/* An earlier entry may have the same bytes. */
		if (!out->prefetched[i])
			entry->kept = kept_find(p, &imports[i]);
		if (out->prefetched[i] && !imports[i].by_rows) {
			entry->buf = list->buffer->buf;
			entry->offset = out->offset[i];
		} else if (out->prefetched[i]) {
			entry->buf = NULL;
		} else if (!entry->kept) {
			r = kept_new(p, &imports[i], weir__import_need(in, i),
				     &entry->kept);
		}
		if (r < 0)
			return r;
		if (entry->kept) {
			if (entry->kept->list != p->lists)
				list->kept_bytes += imports[i].bytes;
			entry->kept->list = p->lists;
			entry->kept->refs++;
			entry->buf = entry->kept->buf;
			entry->offset = entry->kept->offset;
		}
		if (imports[i].file)
			weir__file_ref(imports[i].file);
		list->n++;
	}
	return 0;
}

static void list_drop(struct weir__prefetch_list *list)
{
	for (uint32_t i = 0; i < list->n; i++) {
		struct weir__prefetch_entry *entry = &list->entry[i];

		if (entry->kept)
			entry->kept->refs--;
		if (entry->import.file)
			weir__file_put(entry->import.file);
	}
	buffer_put(list->prefetcher, list->buffer);
	weir__free(list->reader);
	weir__free(list);
}

/* True if the list needs a new buffer. */
static bool needs_buffer(const struct weir__prefetcher *p,
			 const struct weir__imports *out)
{
	return out->buffer && (!p->buffer || out->buffer != p->buffer->bytes);
}

/* Bytes that the list allocates. */
static uint64_t list_new_bytes(const struct weir__prefetcher *p,
			       const struct weir__imports_in *in,
			       const struct weir__imports *out)
{
	uint64_t bytes = needs_buffer(p, out) ? out->buffer : 0;

	for (uint32_t i = 0; i < in->n; i++)
		if (!out->prefetched[i] && !in->is_kept[i] && in->same[i] == i)
			bytes += weir__import_need(in, i);
	return bytes;
}

static int list_make(struct weir__prefetcher *p,
		     const struct weir__import *imports,
		     const struct weir__imports_in *in,
		     const struct import_arrays *a,
		     struct weir__prefetch_list **ret_list)
{
	struct weir__prefetch_list *list;
	struct weir__imports out;
	int r = decide(p, in, &out);

	if (r < 0)
		return r;
	list = weir__calloc(1, sizeof(*list) + in->n * sizeof(*list->entry));
	if (!list) {
		weir__imports_free(&out);
		return weir__fail(-ENOMEM, "no memory for %u constant leaves",
				  in->n);
	}
	list->prefetcher = p;
	p->lists++;
	list->prefetched_bytes = out.prefetched_bytes;
	/* Leaves that are kept already stay. */
	for (uint32_t i = 0; i < in->n; i++)
		if (a->kept[i])
			a->kept[i]->refs++;
	store_evict(p, list_new_bytes(p, in, &out));
	if (needs_buffer(p, &out))
		r = buffer_new(p, out.buffer);
	if (r == 0 && out.buffer) {
		list->buffer = p->buffer;
		list->buffer->refs++;
	}
	if (r == 0 && out.prefetched_bytes) {
		list->reader = weir__calloc(in->n, sizeof(*list->reader));
		if (!list->reader)
			r = weir__fail(-ENOMEM,
				       "no memory to prefetch %u leaves",
				       in->n);
	}
	if (r == 0)
		r = list_fill(list, imports, in, &out);
	for (uint32_t i = 0; i < in->n; i++)
		if (a->kept[i])
			a->kept[i]->refs--;
	weir__imports_free(&out);
	if (r < 0)
		list_drop(list);
	else
		*ret_list = list;
	return r;
}

static int list_try(struct weir__prefetcher *p,
		    const struct weir__import *imports, uint32_t n,
		    const struct import_arrays *a,
		    struct weir__prefetch_list **ret_list)
{
	struct weir__imports_in in = imports_in(p, a, n);

	in.budget = store_budget(p, a, n);
	in.buffer = p->buffer ? p->buffer->bytes : 0;
	return list_make(p, imports, &in, a, ret_list);
}

/*
 * Treat leaves that no list has as if they were not kept, because they may be
 * evicted. True if there are any.
 */
static bool forget_unused(struct import_arrays *a, uint32_t n)
{
	bool any = false;

	for (uint32_t i = 0; i < n; i++) {
		if (!a->kept[i] || a->kept[i]->refs)
			continue;
		a->kept[i] = NULL;
		a->is_kept[i] = false;
		any = true;
	}
	return any;
}

int weir__prefetch_list_new(struct weir__prefetcher *p,
			    const struct weir__import *imports, uint32_t n,
			    struct weir__prefetch_list **ret_list)
{
	struct import_arrays a = { 0 };
	int r = arrays_make(p, imports, n, &a);

	if (r < 0) {
		arrays_free(&a);
		return r;
	}
	pthread_mutex_lock(&p->store_lock);
	if (p->buffer && p->buffer->refs == 1) {
		buffer_put(p, p->buffer);
		p->buffer = NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		a.kept[i] = kept_find(p, &imports[i]);
		a.is_kept[i] = a.kept[i] != NULL;
	}
	r = list_try(p, imports, n, &a, ret_list);
	if (r == -ENOMEM && forget_unused(&a, n))
		r = list_try(p, imports, n, &a, ret_list);
	pthread_mutex_unlock(&p->store_lock);
	arrays_free(&a);
	return r;
}

struct weir__prefetch_sizes
weir__prefetch_list_sizes(const struct weir__prefetch_list *list)
{
	return (struct weir__prefetch_sizes){
		.kept = list->kept_bytes,
		.prefetched = list->prefetched_bytes,
		.buffer = list->buffer ? list->buffer->bytes : 0
	};
}

void weir__prefetch_list_free(struct weir__prefetch_list *list)
{
	struct weir__prefetcher *p = list ? list->prefetcher : NULL;

	if (!p)
		return;
	weir__prefetcher_forget(p, list);
	pthread_mutex_lock(&p->store_lock);
	list_drop(list);
	pthread_mutex_unlock(&p->store_lock);
}

void weir__prefetch_list_use(struct weir__prefetch_list *list)
{
	struct weir__prefetcher *p = list->prefetcher;

	pthread_mutex_lock(&p->store_lock);
	if (!list->users++)
		for (uint32_t i = 0; i < list->n; i++)
			if (list->entry[i].kept)
				list->entry[i].kept->users++;
	pthread_mutex_unlock(&p->store_lock);
}

/*
 * End the use of a kept leaf. If it is placed, it is read again for the next
 * user, because the program may change it.
 */
static void kept_unuse(struct weir__prefetcher *p, struct weir__kept_leaf *kept)
{
	if (--kept->users || kept->file)
		return;
	pthread_mutex_lock(&p->lock);
	kept->loaded = false;
	kept->stale = kept->loading != 0;
	pthread_mutex_unlock(&p->lock);
}

void weir__prefetch_list_unuse(struct weir__prefetch_list *list,
			       const struct weir__import_src *src)
{
	struct weir__prefetcher *p = list->prefetcher;

	if (src)
		weir__prefetcher_forget(p, list);
	pthread_mutex_lock(&p->store_lock);
	if (!--list->users)
		for (uint32_t i = 0; i < list->n; i++)
			if (list->entry[i].kept)
				kept_unuse(p, list->entry[i].kept);
	pthread_mutex_unlock(&p->store_lock);
}
