/* SPDX-License-Identifier: MIT */
/*
 * tokenizer.json and tokenizer.model. A tokenizer that is accepted encodes
 * texts: each of their tokens is one of the vocabulary, and can be decoded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../text/tokenizer.h"
#include "fuzz.h"
#include "mutate.h"

const char fz_corpus[] = "text";
const char fz_small[] = "small";

/* Change a value of the JSON, or any bytes. */
void fz_mutate(struct edit *e)
{
	struct span all = { 0, e->n };

	/*
	 * One change refuses most files: make fewer than the caller asks for.
	 */
	if (!edit_one_in(e, 3))
		return;
	if (e->n && e->bytes[0] == '{' && !edit_one_in(e, 8))
		mutate_json(e, all);
	else
		edit_bytes(e, all);
}

static const char *const texts[] = {
	"",
	"ab a",
	" a\xc3\xa9  b\n\n<e>",
	"<s>x<u> <tool> 12345's\xe2\x96\x81",
	"a\xcc\x81\xcc\xa3\xea\xb0\x81",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
};

static void decode(const struct tokenizer *t, const struct tokenizer_ids *ids,
		   unsigned flags)
{
	struct tokenizer_decoder *d;
	const char *s;
	size_t n;

	must(tokenizer_decoder_new(t, flags, &d) == 0);
	for (size_t i = 0; i < ids->n; i++)
		must(tokenizer_decode(d, ids->id[i], &s, &n) == 0);
	tokenizer_decode_end(d, &s, &n);
	must(n < 4);
	tokenizer_decoder_free(d);
}

/* A text in two parts has the same tokens, if both may name control tokens. */
static void in_parts(const struct tokenizer *t, const char *text,
		     unsigned flags, const struct tokenizer_ids *want)
{
	bool control = flags & TOKENIZER_CONTROL;
	size_t len = strlen(text), at = len / 2;
	struct tokenizer_ids ids = { NULL, 0, 0 };
	struct tokenizer_part part[2];

	while (at < len && (text[at] & 0xc0) == 0x80)
		at++;
	part[0] = (struct tokenizer_part){ text, at, control };
	part[1] = (struct tokenizer_part){ text + at, len - at, control };
	must(tokenizer_encode_parts(t, part, 2, flags, &ids) == 0);
	/* Form C of Unicode is made of each part alone. */
	must(ids.n == want->n || strstr(text, "\xcc"));
	for (size_t i = 0; i < ids.n && ids.n == want->n; i++)
		must(ids.id[i] == want->id[i] || strstr(text, "\xcc"));
	free(ids.id);
}

static void encode(const struct tokenizer *t, const char *text, unsigned flags)
{
	struct tokenizer_ids ids = { NULL, 0, 0 };
	int r = tokenizer_encode(t, text, strlen(text), flags, &ids);

	must(r == 0);
	decode(t, &ids, flags);
	in_parts(t, text, flags, &ids);
	free(ids.id);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tokenizer *t;
	int r = tokenizer_parse("input", bytes, n, &t);

	must(r == 0 || r == -EBADMSG || r == -EOPNOTSUPP);
	if (r < 0) {
		must(strstr(text_error(), "input") != NULL);
		return 0;
	}
	fz_accepted++;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		encode(t, texts[i],
		       i & 1 ? TOKENIZER_ADD | TOKENIZER_CONTROL : 0);
	tokenizer_free(t);
	return 0;
}
