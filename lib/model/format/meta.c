/* SPDX-License-Identifier: MIT */
#include "model/format/meta.h"

#include <endian.h>
#include <string.h>

#include "alloc/arena.h"
#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/format/model.h"

int weir__meta_add(struct weir_model *m, const struct weir__str *key,
		   uint32_t *ret_number)
{
	struct weir__pair *pair;
	uint32_t number = (uint32_t)m->n_meta;
	int r = weir__model_hold(m, sizeof(*pair) + WEIR__NAME_BYTES);

	if (r < 0)
		return r;
	if (m->n_meta >= UINT32_MAX - 1)
		return weir__fail(-EOPNOTSUPP,
				  "a model of more than %u pairs of metadata",
				  UINT32_MAX - 1);
	pair = weir__grow(m->meta, &m->cap_meta, m->n_meta, sizeof(*pair));
	if (!pair)
		return -ENOMEM;
	m->meta = pair;
	r = weir__names_add(&m->keys, key, number, &number);
	if (r < 0)
		return r;
	*ret_number = number;
	if (r > 0)
		return r;
	pair += number;
	*pair = (struct weir__pair){ .key_len = (uint32_t)key->len };
	m->n_meta++;
	return weir__text_add(m, key, &pair->key);
}

const struct weir__value *weir__meta_find(const struct weir_model *m,
					  const char *key)
{
	struct weir__str str = { key, strlen(key) };
	size_t i = weir__names_find(&m->keys, &str);

	return i == WEIR__NONE ? NULL : &m->meta[i].value;
}

int weir__value_string(struct weir_model *m, const struct weir__str *str,
		       struct weir__value *ret_value)
{
	struct weir__value v = { .type = WEIR_VALUE_STRING,
				 .n = (uint32_t)str->len };
	int r = weir__text_add(m, str, &v.at);

	if (r >= 0)
		*ret_value = v;
	return r;
}

size_t weir__value_bytes(enum weir_value_type type)
{
	switch (type) {
	case WEIR_VALUE_BOOL:
	case WEIR_VALUE_U8:
	case WEIR_VALUE_I8:
		return 1;
	case WEIR_VALUE_U16:
	case WEIR_VALUE_I16:
		return 2;
	case WEIR_VALUE_U32:
	case WEIR_VALUE_I32:
	case WEIR_VALUE_F32:
		return 4;
	case WEIR_VALUE_U64:
	case WEIR_VALUE_I64:
	case WEIR_VALUE_F64:
		return 8;
	default:
		return 0;
	}
}

static bool is_signed(enum weir_value_type type)
{
	return type == WEIR_VALUE_I8 || type == WEIR_VALUE_I16 ||
	       type == WEIR_VALUE_I32 || type == WEIR_VALUE_I64;
}

struct weir__value weir__value_number(enum weir_value_type type,
				      const void *bytes)
{
	const size_t n = weir__value_bytes(type);
	struct weir__value v = { .type = (uint8_t)type };
	union {
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
		float f32;
	} number = { .u64 = 0 };

	memcpy(&number, bytes, n);
	v.u = n == 1   ? number.u8
	      : n == 2 ? number.u16
	      : n == 4 ? number.u32
		       : number.u64;
	if (is_signed(type) && n < 8 && v.u >> (8 * n - 1))
		v.u -= 1ull << 8 * n;
	if (type == WEIR_VALUE_F32)
		v.f = number.f32;
	return v; /* an F64 has its bits already */
}

struct weir__value weir__value_numbers(struct weir_model *m,
				       enum weir_value_type of, uint64_t at,
				       uint32_t n)
{
	const size_t bytes = weir__value_bytes(of);
	struct weir__value v = {
		.type = WEIR_VALUE_ARRAY,
		.of = (uint8_t)of,
		.at = weir__down(at, bytes),
		.n = n,
	};

	memmove(m->text + v.at, m->text + at, n * bytes);
	return v;
}

int weir__item_add(struct weir_model *m, const struct weir__value *item)
{
	struct weir__value *all;
	int r = weir__model_hold(m, sizeof(*all));

	if (r < 0)
		return r;
	all = weir__grow(m->item, &m->cap_items, m->n_items, sizeof(*all));
	if (!all)
		return -ENOMEM;
	m->item = all;
	all[m->n_items++] = *item;
	return 0;
}

struct weir__value weir__value_item(const struct weir_model *m,
				    const struct weir__value *array, uint64_t i)
{
	const size_t bytes = weir__value_bytes(array->of);

	if (!bytes)
		return m->item[array->at + i];
	return weir__value_number(array->of, m->text + array->at + i * bytes);
}

/*
 * Arrays of strings stay as they are in a header: each string after its length.
 * Where the strings begin is noted when a program first asks for one that is
 * not among the first few.
 */
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

/* Any thread may call this; if two make an index, one of both is kept. */
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

/* Get item @i of such an array, which has it. -ENOMEM. Any thread. */
static int strings_item(const struct weir_model *m,
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

static void set_number(struct weir_value *out, const struct weir__value *v)
{
	if (v->type == WEIR_VALUE_F32 || v->type == WEIR_VALUE_F64) {
		out->f = v->f;
		return;
	}
	out->u = v->u;
	out->i = v->i;
	out->f = v->type == WEIR_VALUE_U64 ? (double)v->u : (double)v->i;
}

/* Set the members of @out that describe the value. */
static void set_value(const struct weir_model *m, const struct weir__value *v,
		      struct weir_value *out)
{
	out->type = v->type;
	if (v->type == WEIR_VALUE_STRING) {
		out->str = m->text + v->at;
		out->len = v->n;
	} else if (v->type == WEIR_VALUE_ARRAY) {
		out->item_type = v->of;
		out->len = v->n;
		out->internal = v;
		if (weir__value_bytes(v->of))
			out->items = m->text + v->at;
	} else {
		set_number(out, v);
	}
}

static int pair_out(const struct weir_model *m, size_t i,
		    struct weir_value *ret_value)
{
	const struct weir__pair *pair = &m->meta[i];
	struct weir_value value = {
		.key = m->text + pair->key,
		.key_len = pair->key_len,
	};

	set_value(m, &pair->value, &value);
	return weir__info_out(ret_value, &value, sizeof(value));
}

int weir_model_meta(const struct weir_model *model, const char *key,
		    struct weir_value *ret_value)
{
	struct weir__str str = { key, strlen(key) };
	size_t i = weir__names_find(&model->keys, &str);
	int r;

	WEIR__ENTER();
	r = weir__root_read(model->weir);
	if (r < 0)
		return r;
	if (i == WEIR__NONE)
		return weir__fail(-ENOENT, "no metadata '%s' in %s",
				  weir__quote(key, str.len), model->path);
	return pair_out(model, i, ret_value);
}

int weir_model_meta_at(const struct weir_model *model, size_t i,
		       struct weir_value *ret_value)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(model->weir);
	if (r < 0)
		return r;
	if (i >= model->n_meta)
		return weir__fail(-EINVAL, "pair %zu of metadata of %zu", i,
				  model->n_meta);
	return pair_out(model, i, ret_value);
}

int weir_model_meta_item(const struct weir_model *model,
			 const struct weir_value *array, size_t i,
			 struct weir_value *ret_item)
{
	struct weir_value item = { 0 };
	const struct weir__value *v;
	int r;

	WEIR__ENTER();
	r = weir__root_read(model->weir);
	if (r < 0)
		return r;
	if (array->size < sizeof(*array) || array->type != WEIR_VALUE_ARRAY ||
	    !array->internal)
		return weir__fail(-EINVAL, "'%s' is not an array",
				  array->key ? array->key : "an item");
	v = array->internal;
	if (i >= v->n)
		return weir__fail(-EINVAL, "item %zu of an array of %u", i,
				  v->n);
	if (v->packed) {
		struct weir__value string;

		r = strings_item(model, v, (uint32_t)i, &string);
		if (r < 0)
			return r;
		set_value(model, &string, &item);
	} else if (weir__value_bytes(v->of)) {
		struct weir__value number = weir__value_item(model, v, i);

		set_value(model, &number, &item);
	} else {
		set_value(model, &model->item[v->at + i], &item);
	}
	return weir__info_out(ret_item, &item, sizeof(item));
}
