/* SPDX-License-Identifier: MIT */
#include "model/meta.h"

#include <string.h>

#include "core/error.h"
#include "core/util.h"
#include "model/model.h"

int weir__meta_add(struct weir_model *m, const struct weir__str *key,
		   uint32_t *ret_number)
{
	struct weir__pair *pair;
	uint32_t number = (uint32_t)m->n_meta;
	int r;

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

int weir__value_string(struct weir_model *m, const struct weir__str *str,
		       struct weir__value *ret_value)
{
	struct weir__value v = { .type = WEIR__VALUE_STRING,
				 .n = (uint32_t)str->len };
	int r = weir__text_add(m, str, &v.at);

	if (r >= 0)
		*ret_value = v;
	return r;
}

size_t weir__value_bytes(enum weir__value_type type)
{
	switch (type) {
	case WEIR__VALUE_BOOL:
	case WEIR__VALUE_U8:
	case WEIR__VALUE_I8:
		return 1;
	case WEIR__VALUE_U16:
	case WEIR__VALUE_I16:
		return 2;
	case WEIR__VALUE_U32:
	case WEIR__VALUE_I32:
	case WEIR__VALUE_F32:
		return 4;
	case WEIR__VALUE_U64:
	case WEIR__VALUE_I64:
	case WEIR__VALUE_F64:
		return 8;
	default:
		return sizeof(struct weir__value);
	}
}

int weir__value_array(struct weir_model *m, enum weir__value_type of,
		      const void *items, uint32_t n,
		      struct weir__value *ret_value)
{
	struct weir__str bytes = { items, n * weir__value_bytes(of) };
	struct weir__value v = { .type = WEIR__VALUE_ARRAY,
				 .of = (uint8_t)of,
				 .n = n };
	int r = weir__text_add(m, &bytes, &v.at);

	if (r >= 0)
		*ret_value = v;
	return r;
}

static bool is_signed(enum weir__value_type type)
{
	return type == WEIR__VALUE_I8 || type == WEIR__VALUE_I16 ||
	       type == WEIR__VALUE_I32 || type == WEIR__VALUE_I64;
}

struct weir__value weir__value_item(const struct weir_model *m,
				    const struct weir__value *array, uint32_t i)
{
	const size_t n = weir__value_bytes(array->of);
	struct weir__value v = { .type = array->of };
	union {
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
		float f32;
		struct weir__value value;
	} item; /* the text is not aligned */

	memcpy(&item, m->text + array->at + i * n, n);
	if (n == sizeof(item.value))
		return item.value;
	v.u = n == 1   ? item.u8
	      : n == 2 ? item.u16
	      : n == 4 ? item.u32
		       : item.u64;
	if (is_signed(array->of) && n < 8 && v.u >> (8 * n - 1))
		v.u -= 1ull << 8 * n;
	if (array->of == WEIR__VALUE_F32)
		v.f = item.f32;
	return v; /* an F64 has its bits already */
}
