/* SPDX-License-Identifier: MIT */
#include "merges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "table_memory.h"

static uint64_t pair_of(int32_t left, int32_t right)
{
	return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/*
 * Return the bucket of a pair. Every bit of the pair and of the seed reaches
 * the upper half.
 */
static size_t pair_bucket(const struct merges *m, uint64_t pair)
{
	uint64_t h = (pair ^ m->seed) * 0x9e3779b97f4a7c15ull;

	h = (h ^ h >> 32 ^ m->seed) * 0xd6e8feb86659fd93ull;
	return (size_t)(h >> 32) & (m->buckets - 1);
}

int merges_init(struct merges *m, size_t n)
{
	size_t buckets = 64;

	while (buckets / 3 * 2 < n)
		buckets *= 2;
	m->bucket = memory_table(buckets * sizeof(*m->bucket));
	if (!m->bucket)
		return text_fail(-ENOMEM, "no memory for %zu merges", n);
	m->n = 0;
	m->buckets = buckets;
	m->seed = vocab_secret();
	for (size_t i = 0; i < buckets; i++)
		m->bucket[i].pair = MERGES_NONE;
	return 0;
}

void merges_fini(struct merges *m)
{
	free(m->bucket);
}

/* Return the bucket of the pair, or the empty one for it. */
static struct merge *pair_find(const struct merges *m, uint64_t pair)
{
	size_t at = pair_bucket(m, pair);

	while (m->bucket[at].pair != MERGES_NONE && m->bucket[at].pair != pair)
		at = (at + 1) & (m->buckets - 1);
	return &m->bucket[at];
}

bool merges_has(const struct merges *m, int32_t left, int32_t right)
{
	return pair_find(m, pair_of(left, right))->pair != MERGES_NONE;
}

static int merges_double(struct merges *m)
{
	struct merges old = *m;
	int r = merges_init(m, old.buckets / 3 * 2 + 1);

	if (r < 0) {
		*m = old;
		return r;
	}
	for (size_t i = 0; i < old.buckets; i++)
		if (old.bucket[i].pair != MERGES_NONE)
			*pair_find(m, old.bucket[i].pair) = old.bucket[i];
	m->n = old.n;
	free(old.bucket);
	return 0;
}

uint64_t merges_pair(const struct merges *m, int32_t left, int32_t right)
{
	uint64_t pair = pair_of(left, right);

	__builtin_prefetch(&m->bucket[pair_bucket(m, pair)]);
	return pair;
}

int merges_add(struct merges *m, const struct merge *merge)
{
	int r = m->n < m->buckets / 3 * 2 ? 0 : merges_double(m);
	struct merge *bucket;

	if (r < 0)
		return r;
	bucket = pair_find(m, merge->pair);
	if (bucket->pair != MERGES_NONE)
		return 0;
	*bucket = *merge;
	m->n++;
	return 0;
}

/*
 * There are fewer than 3 pairs for each symbol, since a merge adds up to two.
 */
int word_begin(struct word *w, const unsigned char *s, size_t max)
{
	w->s = s;
	w->n = w->pairs = 0;
	if (max <= w->room)
		return 0;
	max += max / 2 + 64;
	word_fini(w);
	w->symbol = malloc(max * sizeof(*w->symbol));
	w->pair = malloc(3 * max * sizeof(*w->pair));
	if (!w->symbol || !w->pair)
		return text_fail(-ENOMEM, "no memory for a word of %zu parts",
				 max);
	w->room = max;
	return 0;
}

void word_fini(struct word *w)
{
	free(w->symbol);
	free(w->pair);
	w->symbol = NULL;
	w->pair = NULL;
	w->room = 0;
}

void word_put(struct word *w, size_t at, size_t len, int32_t id)
{
	int32_t i = (int32_t)w->n++;

	w->symbol[i] = (struct symbol){ .at = (uint32_t)at,
					.len = (uint32_t)len,
					.id = id,
					.before = i - 1,
					.after = -1 };
	if (i)
		w->symbol[i - 1].after = i;
}

static void heap_push(struct word *w, struct pair pair)
{
	size_t i = w->pairs++;

	while (i && w->pair[(i - 1) / 2].order > pair.order) {
		w->pair[i] = w->pair[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	w->pair[i] = pair;
}

static struct pair heap_pop(struct word *w)
{
	struct pair first = w->pair[0], last = w->pair[--w->pairs];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < w->pairs) {
		if (child + 1 < w->pairs &&
		    w->pair[child + 1].order < w->pair[child].order)
			child++;
		if (last.order <= w->pair[child].order)
			break;
		w->pair[i] = w->pair[child];
		i = child;
	}
	w->pair[i] = last;
	return first;
}

/* Find the merge of two neighbours. Returns false if there is none. */
static bool merge_find(const struct word *w, const struct merges *m,
		       const struct vocab *v, const struct symbol *left,
		       const struct symbol *right, struct merge *ret_merge)
{
	int32_t id;

	if (m->bucket) {
		*ret_merge = *pair_find(m, pair_of(left->id, right->id));
		return ret_merge->pair != MERGES_NONE;
	}
	id = vocab_find(v, w->s + left->at, left->len + right->len);
	if (id < 0)
		return false;
	ret_merge->id = id;
	ret_merge->key = v->piece[id].key;
	return true;
}

/* Enter the pair of symbol @i and the one after it, if they can be merged. */
static void word_pair(struct word *w, const struct merges *m,
		      const struct vocab *v, int32_t i)
{
	const struct symbol *left, *right;
	struct merge merge;

	if (i < 0 || w->symbol[i].after < 0)
		return;
	left = &w->symbol[i];
	right = &w->symbol[left->after];
	if (merge_find(w, m, v, left, right, &merge))
		heap_push(w, (struct pair){ (uint64_t)merge.key << 32 |
						    (uint32_t)i,
					    left->len + right->len, merge.id });
}

void word_merge(struct word *w, const struct merges *m, const struct vocab *v)
{
	for (size_t i = 0; i + 1 < w->n; i++)
		word_pair(w, m, v, (int32_t)i);
	while (w->pairs) {
		struct pair pair = heap_pop(w);
		int32_t i = (int32_t)(uint32_t)pair.order;
		struct symbol *left = &w->symbol[i], *right;

		/* One of the two has been merged with another symbol since. */
		if (!left->len || left->after < 0)
			continue;
		right = &w->symbol[left->after];
		if (left->len + right->len != pair.len)
			continue;
		left->len = pair.len;
		left->id = pair.id;
		left->after = right->after;
		right->len = 0;
		if (left->after >= 0)
			w->symbol[left->after].before = i;
		word_pair(w, m, v, left->before);
		word_pair(w, m, v, i);
	}
}
