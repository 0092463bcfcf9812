/* SPDX-License-Identifier: MIT */
#include "model/format/meta.h"

#include <string.h>

#include "core/error.h"
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
