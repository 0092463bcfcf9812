/* SPDX-License-Identifier: MIT */
/* Functions of both files that read tokenizer.json. */
#ifndef TEXT_READ_JSON_H
#define TEXT_READ_JSON_H

#include "tokenizer_internal.h"
#include "json.h"

/*
 * Skip the object at @j and remember where the values of these members are:
 * ret_member[i].at is NULL if there is no names[i], or if it is null.
 */
int text_json_members(struct json *j, const char *const *names, size_t n,
		      struct json *ret_member);
/* The member "type" of the object at @j, which stays where it is; "": none. */
int text_json_type(const struct json *j, struct json_string *ret_type);
/* Call @fn for each element of the array at @j. */
int text_json_each(struct json *j,
		   int (*fn)(struct tokenizer *t, struct json *j),
		   struct tokenizer *t);
/* -EOPNOTSUPP: the file asks for something at this place. */
int text_json_unsupported(const struct json *j, const char *what,
			  const struct json_string *name);

/* The parts before the model: how a text is normalised and cut. */
int read_normalizer(struct tokenizer *t, struct json *j);
int read_pre_tokenizer(struct tokenizer *t, struct json *j);

#endif
