/* SPDX-License-Identifier: MIT */
/*
 * The files beside a tokenizer.json: generation_config.json says at which
 * tokens generation stops, and tokenizer_config.json names tokens.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "read_file.h"
#include "read_json.h"

static int read_end(struct tokenizer *t, struct json *j)
{
	uint32_t id;
	int r = text_json_id(j, &id);

	if (r < 0)
		return r;
	if (t->n_ends == ENDS_MAX)
		return text_json_fail(j, "fewer tokens that end a text");
	t->end[t->n_ends++] = (int32_t)id;
	return 0;
}

int read_generation(struct tokenizer *t, const char *file, unsigned char *bytes,
		    size_t n)
{
	static const char *const names[] = { "eos_token_id" };
	struct json j, ends;
	int r;

	text_json_init(&j, file, bytes, n);
	r = text_json_members(&j, names, 1, &ends);
	if (!r)
		r = text_json_finish(&j);
	if (r < 0 || !ends.at)
		return r;
	return text_json_peek(&ends) == '[' ? text_json_each(&ends, read_end, t)
					    : read_end(t, &ends);
}

/*
 * Find the token that is named at @j: by its text, or by an object that has the
 * text as "content". *ret_id stays as it is if there is no such token.
 */
static int read_name(const struct tokenizer *t, struct json *j, int32_t *ret_id)
{
	static const char *const names[] = { "content" };
	struct json content = *j;
	struct json_string name;
	char *text;
	int r = 0;

	if (!j->at)
		return 0;
	if (text_json_peek(j) == '{')
		r = text_json_members(j, names, 1, &content);
	if (!r && content.at)
		r = text_json_string(&content, &name);
	if (r < 0 || !content.at)
		return r;
	text = strndup((const char *)name.s, name.len);
	if (!text)
		return text_fail(-ENOMEM, "no memory for the name of a token");
	r = tokenizer_find(t, text);
	if (r >= 0)
		*ret_id = r;
	free(text);
	return 0;
}

static int parse_names(const struct tokenizer *t, const char *file,
		       unsigned char *bytes, size_t n,
		       struct tokenizer_names *ret)
{
	static const char *const names[] = { "bos_token", "eos_token",
					     "unk_token", "pad_token" };
	int32_t *const id[] = { &ret->bos, &ret->eos, &ret->unk, &ret->pad };
	struct json j, member[4];
	int r;

	text_json_init(&j, file, bytes, n);
	r = text_json_members(&j, names, 4, member);
	if (!r)
		r = text_json_finish(&j);
	for (size_t i = 0; i < 4 && !r; i++)
		r = read_name(t, &member[i], id[i]);
	return r;
}

int tokenizer_names_beside(const struct weir_model *model,
			   const struct tokenizer *t,
			   struct tokenizer_names *ret)
{
	const struct text_folder folder = { .model = model };
	struct text_file file;
	int r = text_folder_read(&folder, "tokenizer_config.json", &file);

	*ret = (struct tokenizer_names){ -1, -1, -1, -1 };
	if (r <= 0)
		return r;
	r = parse_names(t, file.path, file.bytes, file.n, ret);
	free(file.bytes);
	return r;
}
