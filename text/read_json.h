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
/*
 * Read the member "type" of the object at @j ("" if there is none). @j stays
 * where it is.
 */
int text_json_type(const struct json *j, struct json_string *ret_type);
/* Call @fn for each element of the array at @j. */
int text_json_each(struct json *j,
		   int (*fn)(struct tokenizer *t, struct json *j),
		   struct tokenizer *t);
/*
 * Return -EOPNOTSUPP: the file asks for something that is not supported here.
 */
int text_json_unsupported(const struct json *j, const char *what,
			  const struct json_string *name);

/* Read what comes before the model: the normalizer and the pre-tokenizer. */
int read_normalizer(struct tokenizer *t, struct json *j);
int read_pre_tokenizer(struct tokenizer *t, struct json *j);

#endif
