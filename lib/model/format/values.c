/* SPDX-License-Identifier: MIT */
/* The metadata of a model, as a program sees it. */
#include <string.h>

#include "core/error.h"
#include "model/format/model.h"

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

		r = weir__strings_item(model, v, (uint32_t)i, &string);
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
