/* SPDX-License-Identifier: MIT */
/*
 * Arrays of strings that stay as they are in a header: each string after its
 * length. Where the strings begin is noted when a program first asks for one
 * that is not among the first few.
 */
#include <endian.h>
#include <string.h>

#include "alloc/arena.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/format/model.h"

#define FIRST_FEW 64u /* they are found without an index */

/* A string was moved down by a byte, over the highest of its length's eight. */
static struct weir__value string_at(const struct weir_model *m, uint64_t at,
				    uint64_t *ret_next)
{
	uint32_t len;

	memcpy(&len, m->text + at, sizeof(len));
	len = le32toh(len);
	*ret_next = at + 8 + len;
	return (struct weir__value){ .type = WEIR_VALUE_STRING,
				     .at = at + 7,
				     .n = len };
}

int weir__strings_add(struct weir_model *m, uint64_t at, uint32_t n,
		      uint64_t *ret_number)
{
	struct weir__strings *all;
	int r = weir__model_hold(m, sizeof(*all));

	if (r < 0)
		return r;
	all = weir__grow(m->strings, &m->cap_strings, m->n_strings,
			 sizeof(*all));
	if (!all)
		return -ENOMEM;
	m->strings = all;
	all[m->n_strings].at = at;
	all[m->n_strings].bytes = weir__up((uint64_t)n * 8, WEIR__PAGE);
	atomic_init(&all[m->n_strings].index, NULL);
	*ret_number = m->n_strings++;
	return 0;
}

static void index_free(const struct weir_model *m, uint64_t *index,
		       uint64_t bytes)
{
	if (index && m->weir && m->weir->opts.budget)
		weir__arena_unreserve(m->weir, bytes);
	weir__free(index);
}

/* Any thread; where two make an index, one of both is kept. */
static int index_make(const struct weir_model *m, struct weir__strings *s,
		      uint32_t n, uint64_t **ret_index)
{
	uint64_t at = s->at;
	uint64_t *index, *first = NULL;
	int r = 0;

	if (m->weir && m->weir->opts.budget)
		r = weir__arena_reserve(m->weir, s->bytes);
	if (r < 0)
		return weir__fail_for(r, "an index of %u strings", n);
	index = weir__malloc((size_t)n * sizeof(*index));
	if (!index) {
		if (m->weir && m->weir->opts.budget)
			weir__arena_unreserve(m->weir, s->bytes);
		return weir__fail(-ENOMEM,
				  "no memory for an index of %u strings", n);
	}
	for (uint32_t i = 0; i < n; i++) {
		index[i] = at;
		string_at(m, at, &at);
	}
	if (atomic_compare_exchange_strong(&s->index, &first, index)) {
		*ret_index = index;
	} else {
		index_free(m, index, s->bytes);
		*ret_index = first;
	}
	return 0;
}

int weir__strings_item(const struct weir_model *m,
		       const struct weir__value *array, uint32_t i,
		       struct weir__value *ret_item)
{
	struct weir__strings *s = &m->strings[array->at];
	uint64_t *index = atomic_load(&s->index), at = s->at;
	int r;

	if (!index && i >= FIRST_FEW) {
		r = index_make(m, s, array->n, &index);
		if (r < 0)
			return r;
	}
	if (index)
		at = index[i];
	else
		while (i--)
			string_at(m, at, &at);
	*ret_item = string_at(m, at, &at);
	return 0;
}

void weir__strings_free(struct weir_model *m)
{
	for (size_t i = 0; i < m->n_strings; i++)
		index_free(m, atomic_load(&m->strings[i].index),
			   m->strings[i].bytes);
	weir__free(m->strings);
}
