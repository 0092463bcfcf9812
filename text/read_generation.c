/* SPDX-License-Identifier: MIT */
/* generation_config.json: the tokens at which generation stops. */
#include <errno.h>

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
