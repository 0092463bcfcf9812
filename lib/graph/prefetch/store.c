/* SPDX-License-Identifier: MIT */
/* The memory of a feeder: leaves that are kept, the ring, and the lists of compiled graphs. */
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sort.h"
#include "core/sys.h"
#include "core/util.h"
#include "dev/dev.h"
#include "graph/prefetch/feed.h"

/*
 * An import of at least this many bytes may be read directly into its place, if
 * the addresses in memory and in the file are equal in their last bits.
 */
#define DIRECT_MIN (64u << 10)
#define PHASE_ALIGN 16u

int weir__feeder_new(struct weir_dev *dev, struct weir_buft *buft,
		     uint64_t limit, struct weir__feeder **ret_feeder)
{
	struct weir__feeder *f = weir__calloc(1, sizeof(*f));

	if (!f)
		return weir__fail(-ENOMEM, "no memory for the feeder of %s",
				  dev->desc.name);
	atomic_init(&f->refs, 1);
	f->dev = dev;
	f->buft = buft;
	f->limit = limit ? limit : UINT64_MAX;
	f->number = 1;
	pthread_mutex_init(&f->store_lock, NULL);
	pthread_mutex_init(&f->check_lock, NULL);
	pthread_mutex_init(&f->lock, NULL);
	*ret_feeder = f;
	return 0;
}

static void kept_free(struct weir__feeder *f, struct weir__kept *kept)
{
	f->held -= kept->need;
	weir__buf_put(kept->buf);
	if (kept->file)
		weir__file_put(kept->file);
	weir__free(kept);
}

static void ring_put(struct weir__feeder *f, struct weir__ring *ring)
{
	if (!ring || --ring->refs)
		return;
	f->held -= ring->bytes;
	weir__buf_put(ring->buf);
	weir__free(ring);
}

void weir__feeder_put(struct weir__feeder *f)
{
	struct weir__kept *kept;

	if (!weir__refs_drop(&f->refs))
		return;
	for (uint32_t b = 0; b < WEIR__FEED_BUCKETS; b++)
		while ((kept = f->kept[b])) {
			f->kept[b] = kept->next;
			kept_free(f, kept);
		}
	ring_put(f, f->ring);
	if (f->feed)
		weir__timeline_put(&f->feed->timeline);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->store_lock);
	pthread_mutex_destroy(&f->check_lock);
	weir__free(f);
}

static uint32_t phase_of(const struct weir__feeder *f,
			 const struct weir__import *import)
{
	if (!import->file || import->bytes < DIRECT_MIN ||
	    import->at % PHASE_ALIGN || !(f->buft->desc.flags & WEIR_BUFT_HOST))
		return WEIR__IMPORTS_ANY;
	return (uint32_t)(import->at & (WEIR__PAGE - 1));
}

static struct weir__kept **bucket_of(struct weir__feeder *f,
				     const struct weir__import *import)
{
	uint64_t h = ((uintptr_t)import->file >> 4) + import->at;

	h *= 0x9e3779b97f4a7c15u;
	return &f->kept[h >> 56]; /* WEIR__FEED_BUCKETS */
}

static struct weir__kept *kept_find(struct weir__feeder *f,
				    const struct weir__import *import)
{
	struct weir__kept *kept = *bucket_of(f, import);

	while (kept && (kept->file != import->file || kept->at != import->at ||
			kept->bytes != import->bytes))
		kept = kept->next;
	return kept;
}

/* Is a read into it in flight? It then stays until that has arrived. */
static bool is_loading(struct weir__feeder *f, const struct weir__kept *kept)
{
	bool loading;

	pthread_mutex_lock(&f->lock);
	loading = kept->loading != 0;
	pthread_mutex_unlock(&f->lock);
	return loading;
}

/* Free kept leaves of no list, until @bytes more are within the limit. */
static void store_evict(struct weir__feeder *f, uint64_t bytes)
{
	for (uint32_t b = 0; b < WEIR__FEED_BUCKETS; b++) {
		struct weir__kept **at = &f->kept[b], *kept;

		while ((kept = *at)) {
			if (bytes <= f->limit && f->held <= f->limit - bytes)
				return;
			if (kept->refs || is_loading(f, kept)) {
				at = &kept->next;
				continue;
			}
			*at = kept->next;
			kept_free(f, kept);
		}
	}
}

/* An import, to be sorted by where its bytes begin. */
struct begins {
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
	struct begins *list = weir__array_alloc(n + (size_t)1, sizeof(*list));
	uint32_t first = 0;
	int r = list ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < n && !r; i++)
		list[i] =
			(struct begins){ .key = { imports[i].at, i }, .i = i };
	if (r == 0)
		r = weir__sort(list, n, sizeof(*list));
	for (uint32_t k = 0; k < n && !r; k++) {
		const struct weir__import *import = &imports[list[k].i];
		uint32_t j;

		/* Few begin at one offset: at most one of each file, mostly. */
		if (list[k].key.major != list[first].key.major)
			first = k;
		for (j = first; !same_bytes(&imports[list[j].i], import);)
			j++;
		ret_same[list[k].i] = (uint32_t)list[j].i;
	}
	weir__array_free(list);
	return r < 0 ? weir__fail(r, "no memory for %u constant leaves", n) : 0;
}

/* The arrays of the pass "imports". */
struct arrays {
	uint64_t *bytes, *by_rows;
	uint32_t *first, *last, *phase, *same;
	bool *there;
	struct weir__kept **kept;
};

/* The bytes of the limit that are left for @n imports. */
static uint64_t store_budget(struct weir__feeder *f, const struct arrays *a,
			     uint32_t n)
{
	uint64_t used = f->held;

	if (f->limit == UINT64_MAX)
		return UINT64_MAX;
	for (uint32_t b = 0; b < WEIR__FEED_BUCKETS; b++)
		for (struct weir__kept *k = f->kept[b]; k; k = k->next)
			used -= k->refs ? 0 : k->need;
	for (uint32_t i = 0; i < n; i++)
		if (a->kept[i] && !a->kept[i]->refs && a->same[i] == i)
			used += a->kept[i]->need;
	return used < f->limit ? f->limit - used : 0;
}

static void arrays_free(struct arrays *a)
{
	weir__array_free(a->bytes);
	weir__array_free(a->by_rows);
	weir__array_free(a->first);
	weir__array_free(a->last);
	weir__array_free(a->phase);
	weir__array_free(a->same);
	weir__array_free(a->there);
	weir__array_free(a->kept);
}

static int arrays_make(const struct weir__feeder *f,
		       const struct weir__import *imports, uint32_t n,
		       struct arrays *a)
{
	size_t m = n + (size_t)1; /* never 0 */

	a->bytes = weir__array_alloc(m, sizeof(*a->bytes));
	a->by_rows = weir__array_alloc(m, sizeof(*a->by_rows));
	a->first = weir__array_alloc(m, sizeof(*a->first));
	a->last = weir__array_alloc(m, sizeof(*a->last));
	a->phase = weir__array_alloc(m, sizeof(*a->phase));
	a->same = weir__array_alloc(m, sizeof(*a->same));
	a->there = weir__array_alloc(m, sizeof(*a->there));
	a->kept = weir__array_alloc(m, sizeof(struct weir__kept *));
	if (!a->bytes || !a->by_rows || !a->first || !a->last || !a->phase ||
	    !a->same || !a->there || !a->kept)
		return weir__fail(-ENOMEM, "no memory for %u constant leaves",
				  n);
	for (uint32_t i = 0; i < n; i++) {
		a->bytes[i] = imports[i].bytes;
		a->by_rows[i] = imports[i].by_rows;
		a->first[i] = imports[i].first;
		a->last[i] = imports[i].last;
		a->phase[i] = phase_of(f, &imports[i]);
		a->there[i] = false;
		a->kept[i] = NULL;
	}
	return weir__imports_same(imports, n, a->same);
}

static struct weir__imports_in imports_in(const struct weir__feeder *f,
					  const struct arrays *a, uint32_t n)
{
	return (struct weir__imports_in){ .n = n,
					  .bytes = a->bytes,
					  .first = a->first,
					  .last = a->last,
					  .phase = a->phase,
					  .there = a->there,
					  .same = a->same,
					  .by_rows = a->by_rows,
					  .align = f->buft->desc.align };
}

static int decide(const struct weir__feeder *f,
		  const struct weir__imports_in *in, struct weir__imports *out)
{
	int r = weir__imports(in, out);

	return r < 0 ? weir__fail_for(r, "weights on %s", f->dev->desc.name)
		     : 0;
}

int weir__feed_measure(const struct weir__feeder *f,
		       const struct weir__import *imports, uint32_t n,
		       struct weir__feed_sizes *ret)
{
	struct arrays a = { 0 };
	struct weir__imports out;
	struct weir__imports_in in;
	int r = arrays_make(f, imports, n, &a);

	if (r == 0) {
		in = imports_in(f, &a, n);
		in.budget = f->limit;
		r = decide(f, &in, &out);
	}
	if (r == 0) {
		*ret = (struct weir__feed_sizes){ .kept = out.kept_bytes,
						  .fed = out.fed_bytes,
						  .ring = out.ring };
		weir__imports_free(&out);
	}
	arrays_free(&a);
	return r;
}

static int ring_new(struct weir__feeder *f, uint64_t bytes)
{
	struct weir__ring *ring = weir__calloc(1, sizeof(*ring));
	int r;

	if (!ring)
		return weir__fail(-ENOMEM, "no memory for a ring");
	r = weir__buf_alloc(f->buft, bytes, NULL, &ring->buf);
	if (r < 0) {
		weir__free(ring);
		return r;
	}
	ring->refs = 1;
	ring->bytes = bytes;
	f->held += bytes;
	ring_put(f, f->ring);
	f->ring = ring;
	return 0;
}

static int kept_new(struct weir__feeder *f, const struct weir__import *import,
		    uint64_t need, struct weir__kept **ret)
{
	struct weir__kept *kept = weir__calloc(1, sizeof(*kept));
	struct weir__kept **bucket = bucket_of(f, import);
	uint32_t phase = phase_of(f, import);
	int r;

	if (!kept)
		return weir__fail(-ENOMEM, "no memory for a constant leaf");
	r = weir__buf_alloc(f->buft, need, NULL, &kept->buf);
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
	f->held += need;
	*ret = kept;
	return 0;
}

/* Memory for what was decided. After a failure list_drop() ends it. */
static int list_fill(struct weir__feed_list *list,
		     const struct weir__import *imports,
		     const struct weir__imports_in *in,
		     const struct weir__imports *out)
{
	struct weir__feeder *f = list->feeder;
	int r = 0;

	for (uint32_t i = 0; i < in->n; i++) {
		struct weir__fed *fed = &list->fed[i];

		fed->import = imports[i];
		/* Two leaves may have the same bytes. */
		if (!out->fed[i])
			fed->kept = kept_find(f, &imports[i]);
		if (out->fed[i] && !imports[i].by_rows) {
			fed->buf = list->ring->buf;
			fed->offset = out->offset[i];
		} else if (out->fed[i]) {
			fed->buf = NULL;
		} else if (!fed->kept) {
			r = kept_new(f, &imports[i], weir__import_need(in, i),
				     &fed->kept);
		}
		if (r < 0)
			return r;
		if (fed->kept) {
			if (fed->kept->list != f->lists)
				list->kept_bytes += imports[i].bytes;
			fed->kept->list = f->lists;
			fed->kept->refs++;
			fed->buf = fed->kept->buf;
			fed->offset = fed->kept->offset;
		}
		if (imports[i].file)
			weir__file_ref(imports[i].file);
		list->n++;
	}
	return 0;
}

static void list_drop(struct weir__feed_list *list)
{
	for (uint32_t i = 0; i < list->n; i++) {
		struct weir__fed *fed = &list->fed[i];

		if (fed->kept)
			fed->kept->refs--;
		if (fed->import.file)
			weir__file_put(fed->import.file);
	}
	ring_put(list->feeder, list->ring);
	weir__free(list->provider);
	weir__free(list);
}

/* Does the list need another ring than the newest? */
static bool needs_ring(const struct weir__feeder *f,
		       const struct weir__imports *out)
{
	return out->ring && (!f->ring || out->ring != f->ring->bytes);
}

/* Bytes to be allocated. */
static uint64_t list_new_bytes(const struct weir__feeder *f,
			       const struct weir__imports_in *in,
			       const struct weir__imports *out)
{
	uint64_t bytes = needs_ring(f, out) ? out->ring : 0;

	for (uint32_t i = 0; i < in->n; i++)
		if (!out->fed[i] && !in->there[i] && in->same[i] == i)
			bytes += weir__import_need(in, i);
	return bytes;
}

static int list_make(struct weir__feeder *f, const struct weir__import *imports,
		     const struct weir__imports_in *in, const struct arrays *a,
		     struct weir__feed_list **ret_list)
{
	struct weir__feed_list *list;
	struct weir__imports out;
	int r = decide(f, in, &out);

	if (r < 0)
		return r;
	list = weir__calloc(1, sizeof(*list) + in->n * sizeof(*list->fed));
	if (!list) {
		weir__imports_free(&out);
		return weir__fail(-ENOMEM, "no memory for %u constant leaves",
				  in->n);
	}
	list->feeder = f;
	f->lists++;
	list->fed_bytes = out.fed_bytes;
	/* Those of the list are not evicted. */
	for (uint32_t i = 0; i < in->n; i++)
		if (a->kept[i])
			a->kept[i]->refs++;
	store_evict(f, list_new_bytes(f, in, &out));
	if (needs_ring(f, &out))
		r = ring_new(f, out.ring);
	if (r == 0 && out.ring) {
		list->ring = f->ring;
		list->ring->refs++;
	}
	if (r == 0 && out.fed_bytes) {
		list->provider = weir__calloc(in->n, sizeof(*list->provider));
		if (!list->provider)
			r = weir__fail(-ENOMEM, "no memory for %u fed leaves",
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

static int list_try(struct weir__feeder *f, const struct weir__import *imports,
		    uint32_t n, const struct arrays *a,
		    struct weir__feed_list **ret_list)
{
	struct weir__imports_in in = imports_in(f, a, n);

	in.budget = store_budget(f, a, n);
	in.ring = f->ring ? f->ring->bytes : 0;
	return list_make(f, imports, &in, a, ret_list);
}

/* Leaves that are kept, but by no list, need not stay. */
static bool forget_unused(struct arrays *a, uint32_t n)
{
	bool any = false;

	for (uint32_t i = 0; i < n; i++) {
		if (!a->kept[i] || a->kept[i]->refs)
			continue;
		a->kept[i] = NULL;
		a->there[i] = false;
		any = true;
	}
	return any;
}

int weir__feed_list_new(struct weir__feeder *f,
			const struct weir__import *imports, uint32_t n,
			struct weir__feed_list **ret_list)
{
	struct arrays a = { 0 };
	int r = arrays_make(f, imports, n, &a);

	if (r < 0) {
		arrays_free(&a);
		return r;
	}
	pthread_mutex_lock(&f->store_lock);
	if (f->ring && f->ring->refs == 1) {
		ring_put(f, f->ring);
		f->ring = NULL;
	}
	for (uint32_t i = 0; i < n; i++) {
		a.kept[i] = kept_find(f, &imports[i]);
		a.there[i] = a.kept[i] != NULL;
	}
	r = list_try(f, imports, n, &a, ret_list);
	if (r == -ENOMEM && forget_unused(&a, n))
		r = list_try(f, imports, n, &a, ret_list);
	pthread_mutex_unlock(&f->store_lock);
	arrays_free(&a);
	return r;
}

struct weir__feed_sizes
weir__feed_list_sizes(const struct weir__feed_list *list)
{
	return (struct weir__feed_sizes){ .kept = list->kept_bytes,
					  .fed = list->fed_bytes,
					  .ring = list->ring ? list->ring->bytes
							     : 0 };
}

void weir__feed_list_free(struct weir__feed_list *list)
{
	struct weir__feeder *f = list ? list->feeder : NULL;

	if (!f)
		return;
	weir__feeder_forget(f, list);
	pthread_mutex_lock(&f->store_lock);
	list_drop(list);
	pthread_mutex_unlock(&f->store_lock);
}

void weir__feed_list_use(struct weir__feed_list *list)
{
	struct weir__feeder *f = list->feeder;

	pthread_mutex_lock(&f->store_lock);
	if (!list->users++)
		for (uint32_t i = 0; i < list->n; i++)
			if (list->fed[i].kept)
				list->fed[i].kept->users++;
	pthread_mutex_unlock(&f->store_lock);
}

/* The program may change a placed leaf from now on. */
static void kept_unuse(struct weir__feeder *f, struct weir__kept *kept)
{
	if (--kept->users || kept->file)
		return;
	pthread_mutex_lock(&f->lock);
	kept->loaded = false;
	kept->stale = kept->loading != 0;
	pthread_mutex_unlock(&f->lock);
}

void weir__feed_list_unuse(struct weir__feed_list *list,
			   const struct weir__import_src *src)
{
	struct weir__feeder *f = list->feeder;

	if (src)
		weir__feeder_forget(f, list);
	pthread_mutex_lock(&f->store_lock);
	if (!--list->users)
		for (uint32_t i = 0; i < list->n; i++)
			if (list->fed[i].kept)
				kept_unuse(f, list->fed[i].kept);
	pthread_mutex_unlock(&f->store_lock);
}
