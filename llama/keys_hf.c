/* SPDX-License-Identifier: MIT */
/*
 * Members of config.json: how they are read, and which of them may be left unread.
 * Any other may change what the model computes, so its model is refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf.h"

/* Parameters of RoPE that change nothing if they are 1. */
static const char *const one[] = {
	"attn_factor",
	"extrapolation_factor",
	"partial_rotary_factor",
};

json_t *hf_take(json_t *o, const char *key)
{
	json_t *v = json_incref(json_object_get(o, key));

	if (v)
		json_object_del(o, key);
	return v;
}

/* Drops @v, which has the wrong type. */
static int wrong(json_t *v, const char *in, const char *key, const char *want)
{
	json_decref(v);
	return llama_fail(-EBADMSG, "config.json: %s%s is not %s", in, key,
			  want);
}

int hf_integer(json_t *o, const char *in, const char *key, int64_t *ret)
{
	json_t *v = hf_take(o, key);

	if (!v)
		return 0;
	if (!json_is_integer(v) && !json_is_null(v))
		return wrong(v, in, key, "an integer");
	*ret = json_integer_value(v);
	json_decref(v);
	return 0;
}

int hf_real(json_t *o, const char *in, const char *key, double *ret)
{
	json_t *v = hf_take(o, key);

	if (v && !json_is_number(v) && !json_is_null(v))
		return wrong(v, in, key, "a number");
	if (json_is_number(v))
		*ret = json_number_value(v);
	json_decref(v);
	return 0;
}

int hf_bool(json_t *o, const char *in, const char *key, bool *ret)
{
	json_t *v = hf_take(o, key);

	if (v && !json_is_boolean(v) && !json_is_null(v))
		return wrong(v, in, key, "true or false");
	if (json_is_boolean(v))
		*ret = json_is_true(v);
	json_decref(v);
	return 0;
}

static bool is_in(const char *key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(key, list[i]))
			return true;
	return false;
}

static bool is_neutral(const char *key, const json_t *v)
{
	return json_is_null(v) || !strcmp(key, "finetuned") ||
	       (json_is_number(v) && json_number_value(v) == 1 &&
		is_in(key, one, sizeof(one) / sizeof(*one)));
}

int hf_refuse_rest(json_t *o, const char *in)
{
	const char *key;
	json_t *v;

	json_object_foreach(o, key, v)
	{
		char *text;
		int ret;

		if (is_neutral(key, v))
			continue;
		text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
		ret = llama_fail(-EOPNOTSUPP,
				 "config.json: %s%s is %.60s: this key may "
				 "change what the model computes, and weir "
				 "does not know it; remove it if it does not",
				 in, key, text ? text : "not known");
		free(text);
		return ret;
	}
	return 0;
}
