/* SPDX-License-Identifier: MIT */
#include "find_tokens.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

int matcher_add(struct matcher *m, const struct form *form)
{
	size_t room = m->room ? m->room * 2 : 64;
	struct form *more;

	if (!form->len)
		return 0;
	if (m->n == m->room) {
		more = realloc(m->form, room * sizeof(*more));
		if (!more)
			return text_fail(-ENOMEM, "no memory for %zu tokens",
					 room);
		m->form = more;
		m->room = room;
	}
	m->form[m->n++] = *form;
	return 0;
}

static int compare_ids(const struct form *a, const struct form *b)
{
	return (a->id > b->id) - (a->id < b->id);
}

static int compare_bytes(const void *x, const void *y)
{
	const struct form *a = x, *b = y;
	int r = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);

	if (r)
		return r;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return compare_ids(a, b);
}

static int compare_lengths(const void *x, const void *y)
{
	const struct form *a = x, *b = y;

	if (a->len != b->len)
		return a->len > b->len ? -1 : 1;
	return compare_ids(a, b);
}

void matcher_sort(struct matcher *m)
{
	if (m->n)
		qsort(m->form, m->n, sizeof(*m->form), compare_bytes);
	for (unsigned c = 0, i = 0; c <= 256; c++) {
		while (i < m->n && m->form[i].s[0] < c)
			i++;
		m->first[c] = i;
	}
}

void matcher_sort_longest(struct matcher *m)
{
	if (m->n)
		qsort(m->form, m->n, sizeof(*m->form), compare_lengths);
}

void matcher_fini(struct matcher *m)
{
	free(m->form);
}

/*
 * Return the end of the spans in which a control token at @s may be, or NULL.
 */
static const unsigned char *control_end(const struct spans *spans,
					const unsigned char *s)
{
	const unsigned char *end = NULL;

	for (size_t i = 0; i < spans->n; i++) {
		if (s >= spans->end[i])
			continue;
		if (!spans->control[i])
			break;
		end = spans->end[i];
	}
	return end;
}

static bool is_control(const struct form *form, const struct vocab *v)
{
	unsigned kind = v->piece[form->id].kind;

	return kind == PIECE_CONTROL || kind == PIECE_UNKNOWN;
}

/* Return the first of [low, high) whose byte at @depth is @c or greater. */
static uint32_t matcher_bound(const struct matcher *m, uint32_t low,
			      uint32_t high, size_t depth, unsigned c)
{
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct form *form = &m->form[middle];

		if (form->len <= depth || form->s[depth] < c)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct form *matcher_at(const struct matcher *m, const struct vocab *v,
			      const struct spans *spans, const unsigned char *s,
			      const unsigned char *end)
{
	uint32_t low = m->first[s[0]], high = m->first[s[0] + 1];
	const unsigned char *control = control_end(spans, s);
	const struct form *found = NULL;

	for (size_t depth = 1; low < high; depth++) {
		const struct form *longer = NULL;

		/*
		 * If several forms are equal, the one with the lowest id is
		 * found.
		 */
		for (; low < high && m->form[low].len == depth; low++)
			if (!longer && (!is_control(&m->form[low], v) ||
					(control && s + depth <= control)))
				longer = &m->form[low];
		if (longer)
			found = longer;
		if (s + depth == end)
			break;
		low = matcher_bound(m, low, high, depth, s[depth]);
		high = matcher_bound(m, low, high, depth, s[depth] + 1u);
	}
	return found;
}

const struct form *matcher_next(const struct matcher *m, const struct vocab *v,
				const struct spans *spans,
				const unsigned char *s,
				const unsigned char *end,
				const unsigned char **ret_at)
{
	for (; m->n && s < end; s++) {
		const struct form *form;

		if (m->first[s[0]] == m->first[s[0] + 1])
			continue;
		form = matcher_at(m, v, spans, s, end);
		if (!form)
			continue;
		*ret_at = s;
		return form;
	}
	return NULL;
}

static bool has_control(const struct spans *spans)
{
	for (size_t i = 0; i < spans->n; i++)
		if (spans->control[i])
			return true;
	return false;
}

const unsigned char *matcher_find(const struct form *form,
				  const struct vocab *v,
				  const struct spans *spans,
				  const unsigned char *s,
				  const unsigned char *end)
{
	bool control = is_control(form, v);

	if (control && !has_control(spans))
		return NULL;
	while ((s = memmem(s, (size_t)(end - s), form->s, form->len))) {
		const unsigned char *stop = control ? control_end(spans, s)
						    : end;

		if (stop && s + form->len <= stop)
			return s;
		s++;
	}
	return NULL;
}
