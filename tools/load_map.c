/* SPDX-License-Identifier: MIT */
#include "load_map.h"

#include <stdlib.h>
#include <string.h>
#include "output.h"

/* A buffer that is not joined; @at: where it begins in a joined one. */
struct leaf {
	struct weir_buf *whole, *buf;
	uint64_t at;
	size_t number; /* in map->buf */
};

struct leaves {
	struct leaf *leaf;
	size_t n, room;
};

static int compare_leaves(const void *va, const void *vb)
{
	const struct leaf *a = va, *b = vb;

	if (a->whole != b->whole)
		return (uintptr_t)a->whole < (uintptr_t)b->whole ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int add_leaf(struct leaves *all, struct weir_buf *whole,
		    struct weir_buf *buf, uint64_t at)
{
	if (all->n == all->room) {
		size_t room = all->room ? 2 * all->room : 16;
		struct leaf *more =
			reallocarray(all->leaf, room, sizeof(*more));

		if (!more)
			return fail_memory();
		all->leaf = more;
		all->room = room;
	}
	all->leaf[all->n++] =
		(struct leaf){ .whole = whole, .buf = buf, .at = at };
	return 0;
}

/* The members of a joined buffer, or the buffer itself. */
static int add_leaves(struct leaves *all, struct weir_buf *whole)
{
	struct weir_buf_info info = { .size = sizeof(info) };
	uint64_t at = 0;
	int r = 0;

	if (weir_buf_info(whole, &info) < 0)
		return fail_weir();
	if (!info.members)
		return add_leaf(all, whole, whole, 0);
	for (unsigned i = 0, n = info.members; i < n && r == 0; i++) {
		struct weir_buf *member = weir_buf_member(whole, i);

		if (weir_buf_info(member, &info) < 0)
			return fail_weir();
		r = add_leaf(all, whole, member, at);
		at += info.bytes;
	}
	return r;
}

static int compare_pointers(const void *va, const void *vb)
{
	uintptr_t a = (uintptr_t) * (void *const *)va;
	uintptr_t b = (uintptr_t) * (void *const *)vb;

	return a < b ? -1 : a > b;
}

/* Each buffer of the weights once, though many tensors are in it. */
static int find_leaves(const struct weir_weights *weights, struct leaves *all)
{
	size_t n = weir_weights_count(weights);
	struct weir_buf **bufs = calloc(n + 1, sizeof(struct weir_buf *));
	int r = 0;

	if (!bufs)
		return fail_memory();
	for (size_t i = 0; i < n; i++)
		bufs[i] = weir_weights_get(weights, i)->buf;
	qsort(bufs, n, sizeof(struct weir_buf *), compare_pointers);
	for (size_t i = 0; i < n && r == 0; i++)
		if (bufs[i] && (i == 0 || bufs[i] != bufs[i - 1]))
			r = add_leaves(all, bufs[i]);
	free(bufs);
	qsort(all->leaf, all->n, sizeof(*all->leaf), compare_leaves);
	return r;
}

static int compare_bufs(const void *va, const void *vb)
{
	const struct map_buf *a = va, *b = vb;

	if (a->info.bytes != b->info.bytes)
		return a->info.bytes > b->info.bytes ? -1 : 1;
	return (uintptr_t)a->buf < (uintptr_t)b->buf ? -1 : a->buf != b->buf;
}

/* A buffer may be a member of several: then it is one of the map's. */
static int add_bufs(struct map *map, struct leaves *all)
{
	map->buf = calloc(all->n + 1, sizeof(*map->buf));
	if (!map->buf)
		return fail_memory();
	for (size_t i = 0; i < all->n; i++) {
		struct map_buf *b = &map->buf[i];

		b->buf = all->leaf[i].buf;
		b->info.size = sizeof(b->info);
		if (weir_buf_info(b->buf, &b->info) < 0)
			return fail_weir();
	}
	qsort(map->buf, all->n, sizeof(*map->buf), compare_bufs);
	for (size_t i = 0; i < all->n; i++)
		if (i == 0 || map->buf[i].buf != map->buf[i - 1].buf)
			map->buf[map->n_bufs++] = map->buf[i];
	for (size_t i = 0; i < map->n_bufs; i++)
		map->bytes += map->buf[i].info.bytes;
	for (size_t i = 0; i < all->n; i++)
		for (size_t j = 0; j < map->n_bufs; j++)
			if (map->buf[j].buf == all->leaf[i].buf)
				all->leaf[i].number = j;
	return 0;
}

/* The buffer that has byte @at of @whole. */
static const struct leaf *find_leaf(const struct leaves *all,
				    struct weir_buf *whole, uint64_t at)
{
	const struct leaf key = { .whole = whole, .at = at };
	size_t low = 0, high = all->n;

	/* The last that does not come after the key. */
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_leaves(&all->leaf[mid], &key) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return &all->leaf[low - 1];
}

static int compare_pieces(const void *va, const void *vb)
{
	const struct map_piece *a = va, *b = vb;

	if (a->buf != b->buf)
		return a->buf < b->buf ? -1 : 1;
	if (a->begin != b->begin)
		return a->begin < b->begin ? -1 : 1;
	return a->end < b->end ? -1 : a->end > b->end;
}

/* Empty tensors have no place. */
static int add_pieces(struct map *map, const struct leaves *all)
{
	size_t count = weir_weights_count(map->weights), bytes;

	map->piece = calloc(count + 1, sizeof(*map->piece));
	if (!map->piece)
		return fail_memory();
	for (size_t i = 0; i < count; i++) {
		const struct weir_tensor *t = weir_weights_get(map->weights, i);
		struct map_piece *p = &map->piece[map->n];
		const struct leaf *leaf;

		if (!t->buf || weir_tensor_bytes(t, &bytes) < 0 || !bytes)
			continue;
		leaf = find_leaf(all, t->buf, t->offset);
		p->tensor = i;
		p->buf = leaf->number;
		p->begin = t->offset - leaf->at;
		p->end = p->begin + bytes;
		map->n++;
	}
	qsort(map->piece, map->n, sizeof(*map->piece), compare_pieces);
	return 0;
}

/* Do neighbours in memory have the same distance in the file? */
static bool same_run(const struct map *map, const struct map_piece *a,
		     const struct map_piece *b)
{
	struct weir_entry x = { .size = sizeof(x) }, y = { .size = sizeof(y) };

	return weir_weights_entry(map->weights, a->tensor, &x) == 0 &&
	       weir_weights_entry(map->weights, b->tensor, &y) == 0 &&
	       x.shard == y.shard && y.offset - x.offset == b->begin - a->begin;
}

static void add_gap(struct map_buf *b, uint64_t begin, uint64_t end)
{
	if (end <= begin)
		return;
	b->gap_bytes += end - begin;
	b->gaps++;
}

/* Count the pieces, the runs and the gaps of each buffer. */
static void sum_up(struct map *map)
{
	size_t at = 0;

	for (size_t i = 0; i < map->n_bufs; i++) {
		struct map_buf *b = &map->buf[i];
		uint64_t end = 0;

		b->first = at;
		for (; at < map->n && map->piece[at].buf == i; at++) {
			struct map_piece *p = &map->piece[at];

			p->begins_run = at == b->first ||
					!same_run(map, p - 1, p);
			b->runs += p->begins_run;
			add_gap(b, end, p->begin);
			if (p->end > end)
				end = p->end;
		}
		b->n = at - b->first;
		add_gap(b, end, b->info.bytes);
	}
}

int map_collect(const struct weir_weights *weights, struct map *ret_map)
{
	struct leaves all = { 0 };
	int r;

	*ret_map = (struct map){ .weights = weights };
	r = find_leaves(weights, &all);
	if (r == 0)
		r = add_bufs(ret_map, &all);
	if (r == 0)
		r = add_pieces(ret_map, &all);
	if (r == 0)
		sum_up(ret_map);
	free(all.leaf);
	return r;
}

void map_free(struct map *map)
{
	free(map->buf);
	free(map->piece);
	*map = (struct map){ 0 };
}
