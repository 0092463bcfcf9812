/* SPDX-License-Identifier: MIT */
/*
 * An index and up to four of its shards. The input consists of parts, each
 * ended by a NUL: the text of the index, then for each shard the number of its
 * data bytes in decimal and its header.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "model/format/shard_index.h"
#include "model/format/safetensors.h"
#include "mutate.h"

const char fz_corpus[] = "index";
const char fz_small[] = "two";

/* Change one part; the text of a shard follows a number. */
void fz_mutate(struct edit *e)
{
	struct span part = { 0, 0 };
	size_t which = edit_below(e, 4);

	for (size_t i = 0; i < e->n && (which || e->bytes[i]); i++)
		if (!e->bytes[i]) {
			part.at = i + 1;
			which--;
		}
	while (part.at + part.len < e->n && e->bytes[part.at + part.len])
		part.len++;
	while (part.at && part.len && e->bytes[part.at] >= '0' &&
	       e->bytes[part.at] <= '9' && !edit_one_in(e, 20)) {
		part.at++;
		part.len--;
	}
	mutate_json(e, part);
}

struct input {
	const uint8_t *at, *end;
};

/* The next part, as a string of its own. */
static char *part(struct input *in, size_t *ret_len)
{
	size_t left = (size_t)(in->end - in->at);
	const uint8_t *nul = left ? memchr(in->at, 0, left) : NULL;
	size_t n = nul ? (size_t)(nul - in->at) : left;
	char *text = malloc(n + 1);

	if (n)
		memcpy(text, in->at, n);
	text[n] = '\0';
	in->at += nul ? n + 1 : n;
	*ret_len = n;
	return text;
}

static int add_shard(struct weir__index *x, struct weir_model *m,
		     uint32_t shard, struct input *in, int lenient)
{
	size_t len, first = m->n_recs;
	char *text = part(in, &len), *header;
	struct weir__st st = {
		.file = "fuzz.st",
		.data_bytes = strtoull(text, &header, 10),
		.shard = shard,
		.lenient = lenient,
	};
	int r;

	st.text = header;
	st.len = len - (size_t)(header - text);
	if (st.data_bytes > INT64_MAX) /* no file is as large */
		st.data_bytes = INT64_MAX;
	r = weir__st_parse(m, &st);
	free(text);
	if (r == 0)
		weir__index_keep(x, m, first, shard);
	return r;
}

static int read_one(struct input in, int lenient)
{
	struct weir__index x;
	struct weir_model *m;
	size_t len;
	char *text = part(&in, &len);
	int r;

	must(weir__model_new(NULL, &m) == 0);
	r = weir__index_parse(&x, NULL, "fuzz.json", text, len, lenient);
	for (uint32_t i = 0; r == 0 && i < x.n_shards && i < 4; i++)
		r = add_shard(&x, m, i, &in, lenient);
	if (r == 0)
		r = weir__index_complete(&x);
	if (r == 0 && weir__model_finish(m) == 0) {
		must(m->n_recs == x.n_placed);
		fz_check_model(m);
	}
	weir__index_fini(&x);
	weir__model_put(m);
	free(text);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct input in = { bytes, bytes + n };
	int r = read_one(in, 0);
	int q = read_one(in, 1);

	if (r < 0)
		fz_check_refusal(r);
	if (q < 0)
		fz_check_refusal(q);
	must(r < 0 || q == 0);
	fz_accepted += r == 0;
	return 0;
}
