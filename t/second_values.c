/* SPDX-License-Identifier: MIT */
/* GGUF's metadata in a file, compared with what the library says. */
#include <string.h>
#include <weir/model.h>

#include "second.h"

/* By GGUF's numbers. */
static const struct kind {
	uint32_t type; /* enum weir_value_type */
	unsigned bytes;
	bool is_signed;
} kinds[] = {
	{ WEIR_VALUE_U8, 1, false },     { WEIR_VALUE_I8, 1, true },
	{ WEIR_VALUE_U16, 2, false },    { WEIR_VALUE_I16, 2, true },
	{ WEIR_VALUE_U32, 4, false },    { WEIR_VALUE_I32, 4, true },
	{ WEIR_VALUE_F32, 4, false },    { WEIR_VALUE_BOOL, 1, false },
	{ WEIR_VALUE_STRING, 0, false }, { WEIR_VALUE_ARRAY, 0, false },
	{ WEIR_VALUE_U64, 8, false },    { WEIR_VALUE_I64, 8, true },
	{ WEIR_VALUE_F64, 8, false },
};

/* What is left of the file; its values have been checked. */
struct cursor {
	const uint8_t *at;
	const struct weir_model *model;
};

static uint64_t number(struct cursor *c, unsigned n)
{
	uint64_t x = 0;

	for (unsigned i = n; i--;)
		x = x << 8 | c->at[i];
	c->at += n;
	return x;
}

static bool same_float(const struct weir_value *v, uint64_t bits, unsigned n)
{
	uint32_t half = (uint32_t)bits;
	double want;
	float f;

	memcpy(&f, &half, sizeof(f));
	memcpy(&want, &bits, sizeof(want));
	if (n == 4)
		want = (double)f;
	return v->f == want || (v->f != v->f && want != want);
}

static bool same_number(struct cursor *c, const struct kind *kind,
			const struct weir_value *v)
{
	uint64_t x = number(c, kind->bytes);

	if (kind->type == WEIR_VALUE_BOOL)
		return v->u == (x != 0) && v->i == (int64_t)v->u;
	if (kind->type == WEIR_VALUE_F32 || kind->type == WEIR_VALUE_F64)
		return same_float(v, x, kind->bytes);
	if (kind->is_signed && x >> (8 * kind->bytes - 1))
		x |= kind->bytes == 8 ? 0 : UINT64_MAX << 8 * kind->bytes;
	return v->u == x && v->i == (int64_t)x;
}

static bool same_value(struct cursor *c, uint64_t type,
		       const struct weir_value *v);

static bool same_array(struct cursor *c, const struct weir_value *v)
{
	uint64_t of = number(c, 4), n = number(c, 8);
	const struct kind *kind = &kinds[of];
	const uint8_t *items = c->at;
	struct weir_value item = { .size = sizeof(item) };

	if (v->item_type != kind->type || v->len != n)
		return false;
	if (kind->type != WEIR_VALUE_BOOL && n && kind->bytes &&
	    memcmp(v->items, items, n * kind->bytes))
		return false;
	for (uint64_t i = 0; i < n; i++)
		if (weir_model_meta_item(c->model, v, i, &item) < 0 ||
		    item.key || !same_value(c, of, &item))
			return false;
	return true;
}

static bool same_value(struct cursor *c, uint64_t type,
		       const struct weir_value *v)
{
	const uint8_t *text;
	uint64_t n;

	if (v->type != kinds[type].type)
		return false;
	if (v->type == WEIR_VALUE_ARRAY)
		return same_array(c, v);
	if (v->type != WEIR_VALUE_STRING)
		return same_number(c, &kinds[type], v);
	n = number(c, 8);
	text = c->at;
	c->at += n;
	return v->len == n && !memcmp(v->str, text, n) && !v->str[n];
}

const char *second_compare_pairs(const struct second *s,
				 const struct weir_model *m)
{
	struct weir_value v = { .size = sizeof(v) };

	for (size_t i = 0; i < s->pairs; i++) {
		const struct second_pair *pair = &s->pair[i];
		struct cursor c = { pair->value, m };

		if (weir_model_meta_at(m, i, &v) < 0)
			return "a pair";
		if (v.key_len != pair->key_len ||
		    memcmp(v.key, pair->key, v.key_len) || v.key[v.key_len])
			return "a key";
		if (!same_value(&c, number(&c, 4), &v))
			return "a value";
	}
	return NULL;
}
