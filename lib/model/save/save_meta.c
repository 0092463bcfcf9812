/* SPDX-License-Identifier: MIT */
/* Metadata of a save: values of the program, or of another model. */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/format/utf8.h"
#include "model/save/save.h"

/* Arrays within arrays: as deep as the reader of GGUF allows. */
#define DEPTH_MAX 8

static int store(struct weir_save *s, const struct weir_model *from,
		 const struct weir_value *v, int depth,
		 struct weir__value *ret);

static int store_string(struct weir_save *s, const struct weir_value *v,
			struct weir__value *ret)
{
	const struct weir__str str = { v->str ? v->str : "", v->len };

	if (v->len > UINT32_MAX)
		return weir__fail(-EINVAL, "a string of %zu bytes", v->len);
	return weir__value_string(s->model, &str, ret);
}

static int store_number(const struct weir_value *v, struct weir__value *ret)
{
	*ret = (struct weir__value){ .type = (uint8_t)v->type };
	switch (v->type) {
	case WEIR_VALUE_F32:
	case WEIR_VALUE_F64:
		ret->f = v->f;
		return 0;
	case WEIR_VALUE_I8:
	case WEIR_VALUE_I16:
	case WEIR_VALUE_I32:
	case WEIR_VALUE_I64:
		ret->i = v->i;
		return 0;
	case WEIR_VALUE_BOOL:
		ret->u = v->u != 0;
		return 0;
	default:
		ret->u = v->u;
		return 0;
	}
}

/* They are aligned in the text: see weir__value_numbers(). */
static int store_numbers(struct weir_save *s, const struct weir_value *v,
			 struct weir__value *ret)
{
	const size_t bytes = v->len * weir__value_bytes(v->item_type);
	char *room = weir__malloc(bytes + 8);
	const struct weir__str str = { room, bytes + 8 };
	uint64_t at;
	int r;

	if (!room)
		return -ENOMEM;
	memset(room, 0, 8);
	if (bytes)
		memcpy(room + 8, v->items, bytes);
	r = weir__text_add(s->model, &str, &at);
	weir__free(room);
	if (r >= 0)
		*ret = weir__value_numbers(s->model, v->item_type, at + 8,
					   (uint32_t)v->len);
	return r;
}

/* An item of a program's array, or of a model's. */
static int item_of(const struct weir_model *from, const struct weir_value *v,
		   size_t i, struct weir_value *ret_item)
{
	const struct weir_value *items = v->items;

	ret_item->size = sizeof(*ret_item);
	if (from)
		return weir_model_meta_item(from, v, i, ret_item);
	*ret_item = items[i];
	return 0;
}

/* Items follow one another, so those of inner arrays are stored before. */
static int store_items(struct weir_save *s, const struct weir_model *from,
		       const struct weir_value *v, int depth,
		       struct weir__value *ret)
{
	struct weir__value *all = weir__calloc(v->len + 1, sizeof(*all));
	struct weir_value item;
	int r = all ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < v->len; i++) {
		r = item_of(from, v, i, &item);
		if (r >= 0 && item.type != v->item_type)
			r = weir__fail(-EINVAL,
				       "item %zu of an array has another type",
				       i);
		if (r >= 0)
			r = store(s, from, &item, depth + 1, &all[i]);
	}
	*ret = (struct weir__value){ .type = WEIR_VALUE_ARRAY,
				     .of = (uint8_t)v->item_type,
				     .at = s->model->n_items,
				     .n = (uint32_t)v->len };
	for (size_t i = 0; r >= 0 && i < v->len; i++)
		r = weir__item_add(s->model, &all[i]);
	weir__free(all);
	return r;
}

static int store_array(struct weir_save *s, const struct weir_model *from,
		       const struct weir_value *v, int depth,
		       struct weir__value *ret)
{
	if (v->len > UINT32_MAX)
		return weir__fail(-EINVAL, "an array of %zu items", v->len);
	if (v->item_type > WEIR_VALUE_ARRAY)
		return weir__fail(-EINVAL, "items of type %u, which is none",
				  v->item_type);
	if (depth > DEPTH_MAX)
		return weir__fail(-EINVAL, "arrays within %d arrays",
				  DEPTH_MAX);
	if (v->len && !v->items && !from)
		return weir__fail(-EINVAL, "an array of %zu items, at NULL",
				  v->len);
	if (weir__value_bytes(v->item_type))
		return store_numbers(s, v, ret);
	return store_items(s, from, v, depth, ret);
}

static int store(struct weir_save *s, const struct weir_model *from,
		 const struct weir_value *v, int depth, struct weir__value *ret)
{
	if (v->type == WEIR_VALUE_STRING)
		return store_string(s, v, ret);
	if (v->type == WEIR_VALUE_ARRAY)
		return store_array(s, from, v, depth, ret);
	if (v->type > WEIR_VALUE_ARRAY)
		return weir__fail(-EINVAL, "type %u is none of a value",
				  v->type);
	return store_number(v, ret);
}

static int check_text(const struct weir_save *s, const struct weir__str *key,
		      const struct weir__value *value)
{
	const char *quoted = weir__quote(key->s, key->len);

	if (!weir__utf8_valid(key->s, key->len))
		return weir__fail(
			-EINVAL, "metadata '%s': its key is not UTF-8", quoted);
	if (s->format->write->utf8 && value->type == WEIR_VALUE_STRING &&
	    !weir__utf8_valid(s->model->text + value->at, value->n))
		return weir__fail(
			-EOPNOTSUPP,
			"metadata '%s': its value is not UTF-8, as values in %s are",
			quoted, s->format->name);
	return 0;
}

/* Add or replace a pair; @from: the model of the value, NULL: the program. */
static int set_pair(struct weir_save *s, const struct weir_model *from,
		    const struct weir_value *v)
{
	const struct weir__str key = { v->key, v->key_len ? v->key_len
							  : strlen(v->key) };
	struct weir__value value;
	uint32_t number;
	int r = store(s, from, v, 0, &value);

	if (r >= 0)
		r = check_text(s, &key, &value);
	if (r >= 0)
		r = s->format->write->check_value(&key, &value);
	if (r >= 0)
		r = weir__meta_add(s->model, &key, &number);
	if (r >= 0)
		s->model->meta[number].value = value;
	return r == -ENOMEM ? weir__fail(r, "%s: no memory for metadata '%s'",
					 s->path, weir__quote(key.s, key.len))
			    : r;
}

int weir_save_meta(struct weir_save *save, const struct weir_value *value)
{
	struct weir_value v = { 0 };
	int r;

	WEIR__ENTER();
	r = weir__save_check_open(save);
	if (r >= 0)
		r = weir__opts_in(&v, sizeof(v), value);
	if (r >= 0 && !v.key)
		r = weir__fail(-EINVAL, "a pair of metadata without a key");
	return r < 0 ? r : set_pair(save, NULL, &v);
}

int weir_save_copy_meta(struct weir_save *save, const struct weir_model *model,
			const char *glob)
{
	struct weir_value v = { .size = sizeof(v) };
	int n = 0, r;

	WEIR__ENTER();
	r = weir__save_check_open(save);
	for (size_t i = 0; r >= 0 && i < model->n_meta; i++) {
		r = weir_model_meta_at(model, i, &v);
		if (r < 0 || weir__meta_find(save->model, v.key) ||
		    (glob && fnmatch(glob, v.key, 0)))
			continue;
		r = set_pair(save, model, &v);
		n++;
	}
	return r < 0 ? weir__fail_as("weir_save_copy_meta", r) : n;
}
