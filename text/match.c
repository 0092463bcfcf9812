/* SPDX-License-Identifier: MIT */
#include "match.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static int piece_compare(const void *x, const void *y, void *arg)
{
	const struct vocab *v = arg;
	const struct piece *a = &v->piece[*(const uint32_t *)x];
	const struct piece *b = &v->piece[*(const uint32_t *)y];
	int r = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);

	if (r)
		return r;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return 0;
}

static bool piece_is_of(const struct piece *piece, unsigned kinds)
{
	return kinds >> piece->kind & 1 && piece->len &&
	       !(piece->flags & PIECE_HIDDEN);
}

int matcher_init(struct matcher *m, const struct vocab *v, unsigned kinds)
{
	size_t n = 0;

	for (uint32_t id = 0; id < v->n; id++)
		n += piece_is_of(&v->piece[id], kinds);
	m->id = malloc((n + 1) * sizeof(*m->id));
	if (!m->id)
		return text_fail(-ENOMEM, "no memory for %zu tokens", n);
	m->n = 0;
	for (uint32_t id = 0; id < v->n; id++)
		if (piece_is_of(&v->piece[id], kinds))
			m->id[m->n++] = id;
	/* qsort_r() writes nothing to its last argument. */
	qsort_r(m->id, m->n, sizeof(*m->id), piece_compare,
		(void *)(uintptr_t)v);
	for (unsigned c = 0, i = 0; c <= 256; c++) {
		while (i < m->n && v->piece[m->id[i]].s[0] < c)
			i++;
		m->first[c] = i;
	}
	return 0;
}

void matcher_fini(struct matcher *m)
{
	free(m->id);
}

/* The first of [low, high) whose byte at @depth is @c or greater. */
static uint32_t matcher_bound(const struct matcher *m, const struct vocab *v,
			      uint32_t low, uint32_t high, size_t depth,
			      unsigned c)
{
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct piece *piece = &v->piece[m->id[middle]];

		if (piece->len <= depth || piece->s[depth] < c)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The longest that begins at @s, or -1. */
static int32_t matcher_at(const struct matcher *m, const struct vocab *v,
			  const unsigned char *s, const unsigned char *end)
{
	uint32_t low = m->first[s[0]], high = m->first[s[0] + 1];
	int32_t found = -1;

	for (size_t depth = 1; low < high; depth++) {
		if (v->piece[m->id[low]].len == depth)
			found = (int32_t)m->id[low];
		if (s + depth == end)
			break;
		low = matcher_bound(m, v, low, high, depth, s[depth]);
		high = matcher_bound(m, v, low, high, depth, s[depth] + 1u);
	}
	return found;
}

int32_t matcher_next(const struct matcher *m, const struct vocab *v,
		     const unsigned char *s, const unsigned char *end,
		     const unsigned char **ret_at)
{
	for (; m->n && s < end; s++) {
		int32_t id;

		if (m->first[s[0]] == m->first[s[0] + 1])
			continue;
		id = matcher_at(m, v, s, end);
		if (id < 0)
			continue;
		*ret_at = s;
		return id;
	}
	return -1;
}
