/* SPDX-License-Identifier: MIT */
/* The metadata of a GGUF file: a key, a type and a value for each pair. */
#include "core/error.h"
#include "core/sys.h"
#include "core/array.h"
#include "model/format/gguf_bytes.h"

#define KEY_MAX 65535u /* bytes, by the format's document */
#define DEPTH_MAX 8u   /* arrays of arrays */
#define DEFAULT_ALIGNMENT 32u

typedef unsigned long long ull; /* the type that printf writes */

/* The types by their numbers in GGUF. */
static const uint8_t types[] = {
	WEIR_VALUE_U8,     WEIR_VALUE_I8,    WEIR_VALUE_U16, WEIR_VALUE_I16,
	WEIR_VALUE_U32,    WEIR_VALUE_I32,   WEIR_VALUE_F32, WEIR_VALUE_BOOL,
	WEIR_VALUE_STRING, WEIR_VALUE_ARRAY, WEIR_VALUE_U64, WEIR_VALUE_I64,
	WEIR_VALUE_F64,
};

static int read_type(struct weir__gguf_in *in, enum weir_value_type *ret_type)
{
	uint32_t number;
	int r = weir__gguf_need(in, 4);

	if (r < 0)
		return r;
	number = weir__gguf_u32(in);
	if (number >= sizeof(types)) {
		in->at -= 4;
		return weir__gguf_fail(in, -EBADMSG,
				       "type %d is unknown, types are 0 to %zu",
				       (int)number, sizeof(types) - 1);
	}
	*ret_type = (enum weir_value_type)types[number];
	return 0;
}

/*
 * Check that the bytes of BOOLs are 0 or 1. In lenient mode other bytes become
 * 1.
 */
static int check_bools(struct weir__gguf_in *in, uint64_t n)
{
	char *bools = in->m->text + in->base + in->at;

	for (uint64_t i = 0; i < n; i++) {
		if ((bools[i] & ~1) && !in->g->lenient)
			return weir__gguf_fail(in, -EBADMSG,
					       "a bool of %d, not 0 or 1",
					       (unsigned char)bools[i]);
		bools[i] = bools[i] != 0;
	}
	return 0;
}

/* Turn @n numbers of @bytes bytes into the host's byte order. */
static void swap_numbers(char *numbers, uint64_t n, size_t bytes)
{
	for (char *p = numbers; n--; p += bytes)
		for (size_t i = 0; i < bytes / 2; i++) {
			char c = p[i];

			p[i] = p[bytes - 1 - i];
			p[bytes - 1 - i] = c;
		}
}

/* Read @n numbers or bools, which are at *@ret_at in the text. */
static int read_numbers(struct weir__gguf_in *in, enum weir_value_type type,
			uint64_t n, uint64_t *ret_at)
{
	const size_t bytes = weir__value_bytes(type);
	int r = weir__gguf_need(in, n * bytes);

	if (r >= 0 && type == WEIR_VALUE_BOOL)
		r = check_bools(in, n);
	if (r < 0)
		return r;
	*ret_at = in->base + in->at;
	if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
		swap_numbers(in->m->text + *ret_at, n, bytes);
	in->at += n * bytes;
	return 0;
}

static int read_value(struct weir__gguf_in *in, enum weir_value_type type,
		      unsigned depth, struct weir__value *ret_value);

/* The strings of an array stay where they are. */
static int read_strings(struct weir__gguf_in *in, struct weir__value *array)
{
	struct weir__value item;
	int r = weir__strings_add(in->m, in->base + in->at, array->n,
				  &array->at);

	array->packed = true;
	for (uint32_t i = 0; r >= 0 && i < array->n; i++)
		r = weir__gguf_string(in, &item);
	return r;
}

/* An array's items follow the items of the arrays in it. */
static int read_arrays(struct weir__gguf_in *in, unsigned depth,
		       struct weir__value *array)
{
	const uint64_t bytes = (uint64_t)array->n * sizeof(struct weir__value);
	struct weir__value *item = NULL, *all;
	size_t cap = 0;
	int r = weir__model_hold(in->m, bytes);

	for (uint32_t i = 0; r >= 0 && i < array->n; i++) {
		all = weir__grow(item, &cap, i, sizeof(*item));
		if (!all)
			r = -ENOMEM;
		else
			r = read_value(in, WEIR_VALUE_ARRAY, depth + 1,
				       &(item = all)[i]);
	}
	array->at = in->m->n_items;
	for (uint32_t i = 0; r >= 0 && i < array->n; i++)
		r = weir__item_add(in->m, &item[i]);
	weir__free(item);
	weir__model_let_go(in->m, bytes);
	return r;
}

/* Read the type and the number of items. */
static int read_array_head(struct weir__gguf_in *in, unsigned depth,
			   struct weir__value *array)
{
	enum weir_value_type of;
	size_t least;
	uint64_t n;
	int r = read_type(in, &of);

	if (r >= 0)
		r = weir__gguf_need(in, 8);
	if (r < 0)
		return r;
	n = weir__gguf_u64(in);
	least = of == WEIR_VALUE_STRING  ? 8
		: of == WEIR_VALUE_ARRAY ? 12
					 : weir__value_bytes(of);
	if (n > weir__gguf_left(in) / least)
		return weir__gguf_fail(
			in, -EBADMSG,
			"an array of %llu items of at least %zu bytes, the file has %llu more: was it cut short?",
			(ull)n, least, (ull)weir__gguf_left(in));
	if (n > WEIR__GGUF_ARRAY_MAX)
		return weir__gguf_fail(
			in, -EOPNOTSUPP,
			"an array of %llu items, at most %u are supported",
			(ull)n, WEIR__GGUF_ARRAY_MAX);
	if (depth > DEPTH_MAX)
		return weir__gguf_fail(in, -EOPNOTSUPP,
				       "arrays nested deeper than %u",
				       DEPTH_MAX);
	*array = (struct weir__value){
		.type = WEIR_VALUE_ARRAY,
		.of = (uint8_t)of,
		.n = (uint32_t)n,
	};
	return weir__gguf_expect(in, n * least);
}

static int read_array(struct weir__gguf_in *in, unsigned depth,
		      struct weir__value *ret_array)
{
	uint64_t at;
	int r = read_array_head(in, depth, ret_array);

	if (r < 0)
		return r;
	if (ret_array->of == WEIR_VALUE_STRING)
		return read_strings(in, ret_array);
	if (ret_array->of == WEIR_VALUE_ARRAY)
		return read_arrays(in, depth, ret_array);
	r = read_numbers(in, ret_array->of, ret_array->n, &at);
	if (r >= 0) /* the array's length was before the numbers */
		*ret_array = weir__value_numbers(in->m, ret_array->of, at,
						 ret_array->n);
	return r;
}

static int read_value(struct weir__gguf_in *in, enum weir_value_type type,
		      unsigned depth, struct weir__value *ret_value)
{
	uint64_t at;
	int r;

	if (type == WEIR_VALUE_STRING)
		return weir__gguf_string(in, ret_value);
	if (type == WEIR_VALUE_ARRAY)
		return read_array(in, depth, ret_value);
	r = read_numbers(in, type, 1, &at);
	if (r >= 0)
		*ret_value = weir__value_number(type, in->m->text + at);
	return r;
}

static int read_key(struct weir__gguf_in *in, struct weir__value *ret_key)
{
	int r = weir__gguf_string(in, ret_key);

	if (r < 0)
		return r;
	if (!ret_key->n)
		return weir__gguf_fail(in, -EBADMSG, "an empty key");
	in->kind = "metadata";
	in->name = *ret_key;
	if (ret_key->n > KEY_MAX && !in->g->lenient)
		return weir__gguf_fail(
			in, -EBADMSG, "a key of %u bytes, the format allows %u",
			ret_key->n, KEY_MAX);
	return 0;
}

static int note_alignment(struct weir__gguf_in *in, const struct weir__value *v,
			  struct weir__gguf_keys *keys)
{
	if (v->type != WEIR_VALUE_U32)
		return weir__gguf_fail(in, -EBADMSG,
				       "an alignment must be a U32");
	if (!v->u || (v->u & (v->u - 1)))
		return weir__gguf_fail(
			in, -EBADMSG,
			"an alignment of %llu, which is not a power of two",
			(ull)v->u);
	keys->alignment = (uint32_t)v->u;
	return 0;
}

/* Note an integer, of any type: writers use several for these keys. */
static int note_number(struct weir__gguf_in *in, const struct weir__value *v,
		       uint64_t *ret_number)
{
	if (v->type < WEIR_VALUE_U8 || v->type > WEIR_VALUE_I64 || v->i < 0)
		return weir__gguf_fail(
			in, -EBADMSG, "it must be an integer and not negative");
	*ret_number = v->u;
	return 0;
}

/* Note the value if it is about the file itself. */
static int note_value(struct weir__gguf_in *in, const struct weir__value *v,
		      struct weir__gguf_keys *keys)
{
	struct weir__str key = weir__gguf_str(in, &in->name);

	if (weir__str_is(&key, "general.alignment"))
		return note_alignment(in, v, keys);
	if (weir__str_is(&key, "split.no"))
		return note_number(in, v, &keys->split_no);
	if (!weir__str_is(&key, "split.count"))
		return 0;
	keys->split = true;
	return note_number(in, v, &keys->split_count);
}

static int read_pair(struct weir__gguf_in *in, struct weir__header *h,
		     struct weir__gguf_keys *keys)
{
	struct weir__value name, value, *slot;
	enum weir_value_type type;
	struct weir__str key;
	int r = read_key(in, &name);

	if (r >= 0)
		r = read_type(in, &type);
	if (r >= 0)
		r = read_value(in, type, 1, &value);
	if (r < 0)
		return r;
	key = weir__gguf_str(in, &name);
	r = weir__header_meta(h, &key, &slot);
	if (r > 0)
		return weir__gguf_fail(in, -EBADMSG, "the key occurs twice");
	if (r < 0)
		return r;
	if (slot)
		*slot = value;
	return note_value(in, &value, keys);
}

int weir__gguf_pairs(struct weir__gguf_in *in, struct weir__header *h,
		     uint64_t n, struct weir__gguf_keys *ret_keys)
{
	int r = 0;

	*ret_keys = (struct weir__gguf_keys){ .alignment = DEFAULT_ALIGNMENT };
	for (uint64_t i = 0; r >= 0 && i < n; i++) {
		in->kind = NULL;
		r = read_pair(in, h, ret_keys);
	}
	if (r >= 0)
		in->kind = NULL;
	return r;
}
