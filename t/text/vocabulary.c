/* SPDX-License-Identifier: MIT */
#include "vocabulary.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

static void put(struct vocabulary *v, const void *bytes, size_t n)
{
	if (n > sizeof(v->bytes) - v->n)
		bail("a vocabulary is larger than %zu bytes", sizeof(v->bytes));
	memcpy(v->bytes + v->n, bytes, n);
	v->n += n;
}

static void put_byte(struct vocabulary *v, unsigned c)
{
	unsigned char byte = (unsigned char)c;

	put(v, &byte, 1);
}

void vocabulary_piece(struct vocabulary *v, const char *s, float score,
		      unsigned kind)
{
	size_t len = strlen(s);

	/* Field 1 of the file; its fields 1, 2 and 3. All are short. */
	put_byte(v, 1 << 3 | 2);
	put_byte(v, (unsigned)(2 + len + 5 + 2));
	put_byte(v, 1 << 3 | 2);
	put_byte(v, (unsigned)len);
	put(v, s, len);
	put_byte(v, 2 << 3 | 5);
	put(v, &score, 4);
	put_byte(v, 3 << 3);
	put_byte(v, kind);
}

void vocabulary_begin(struct vocabulary *v, bool bytes)
{
	v->n = 0;
	vocabulary_piece(v, "<unk>", 0, 2);
	vocabulary_piece(v, "<s>", 0, 3);
	vocabulary_piece(v, "</s>", 0, 3);
	for (unsigned c = 0; bytes && c < 256; c++) {
		char name[8];

		snprintf(name, sizeof(name), "<0x%02X>", c);
		vocabulary_piece(v, name, 0, 6);
	}
}

void vocabulary_end(struct vocabulary *v, unsigned model_type, bool prefix,
		    bool trim)
{
	const unsigned char trainer[] = { 2 << 3 | 2, 2, 3 << 3,
					  (unsigned char)model_type };
	const unsigned char rules[] = { 3 << 3 | 2, 4,      3 << 3,
					prefix,     4 << 3, trim };

	put(v, trainer, sizeof(trainer));
	put(v, rules, sizeof(rules));
}

static void put_number(struct vocabulary *v, uint64_t n, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		put_byte(v, (unsigned)(n >> 8 * i));
}

static void put_string(struct vocabulary *v, const char *s)
{
	put_number(v, strlen(s), 8);
	put(v, s, strlen(s));
}

enum {
	GGUF_U32 = 4,
	GGUF_I32 = 5,
	GGUF_F32 = 6,
	GGUF_STRING = 8,
	GGUF_ARRAY = 9
};

static void put_pair(struct vocabulary *v, const char *key, const char *value)
{
	put_string(v, key);
	put_number(v, GGUF_STRING, 4);
	put_string(v, value);
}

static void put_array(struct vocabulary *v, const char *key, unsigned type,
		      size_t n)
{
	put_string(v, key);
	put_number(v, GGUF_ARRAY, 4);
	put_number(v, type, 4);
	put_number(v, n, 8);
}

static void put_strings(struct vocabulary *v, const char *key,
			const char *const *s, size_t n)
{
	put_array(v, key, GGUF_STRING, n);
	for (size_t i = 0; i < n; i++)
		put_string(v, s[i]);
}

static void put_id(struct vocabulary *v, const char *key, unsigned type,
		   uint64_t id)
{
	put_string(v, key);
	put_number(v, type, 4);
	put_number(v, id, 4);
}

void vocabulary_gguf(struct vocabulary *v, const char *model, const char *pre,
		     const char *const *tokens, size_t n, size_t controls,
		     const char *const *merges, size_t n_merges)
{
	v->n = 0;
	put(v, "GGUF", 4);
	put_number(v, 3, 4);
	put_number(v, 0, 8);
	put_number(v, 6u + (v->unk > 0) + (v->no_ids ? 3 : 0), 8);
	put_pair(v, "general.architecture", "test");
	put_pair(v, "tokenizer.ggml.model", model);
	put_pair(v, "tokenizer.ggml.pre", pre);
	put_strings(v, "tokenizer.ggml.tokens", tokens, n);
	put_array(v, "tokenizer.ggml.token_type", GGUF_I32, n);
	for (size_t i = 0; i < n; i++)
		put_number(v,
			   i < controls              ? 3
			   : i < controls + v->users ? 4
						     : 1,
			   4);
	if (v->unk)
		put_id(v, "tokenizer.ggml.unknown_token_id", GGUF_U32,
		       v->unk - 1);
	if (v->no_ids) {
		put_id(v, "tokenizer.ggml.bos_token_id", GGUF_U32, UINT32_MAX);
		put_id(v, "tokenizer.ggml.eos_token_id", GGUF_I32, UINT32_MAX);
		put_id(v, "tokenizer.ggml.eot_token_id", GGUF_U32, UINT32_MAX);
	}
	if (n_merges) {
		put_strings(v, "tokenizer.ggml.merges", merges, n_merges);
		return;
	}
	put_array(v, "tokenizer.ggml.scores", GGUF_F32, n);
	for (size_t i = 0; i < n; i++) {
		float score = -(float)i;

		put(v, &score, 4);
	}
}

static struct tokenizer *parse(const void *bytes, size_t n)
{
	struct tokenizer *t;

	if (tokenizer_parse("vocabulary", bytes, n, &t) < 0)
		bail("%s", text_error());
	return t;
}

struct tokenizer *vocabulary_parse(const struct vocabulary *v)
{
	return parse(v->bytes, v->n);
}

struct tokenizer *vocabulary_json(const char *json)
{
	return parse(json, strlen(json));
}

int vocabulary_try(const void *bytes, size_t n)
{
	struct tokenizer *t = NULL;
	int r = tokenizer_parse("vocabulary", bytes, n, &t);

	tokenizer_free(t);
	return r;
}

const char *vocabulary_ids(const struct tokenizer *t, const char *text,
			   unsigned flags)
{
	return vocabulary_ids_n(t, text, strlen(text), flags);
}

const char *vocabulary_ids_n(const struct tokenizer *t, const char *text,
			     size_t len, unsigned flags)
{
	static char line[2000];
	struct tokenizer_ids ids = { NULL, 0, 0 };
	int r = tokenizer_encode(t, text, len, flags, &ids);
	size_t n = 0;

	line[0] = '\0';
	if (r < 0)
		snprintf(line, sizeof(line), "%d: %s", r, text_error());
	for (size_t i = 0; i < ids.n && n < sizeof(line) - 16; i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%d",
				      i ? " " : "", ids.id[i]);
	free(ids.id);
	return line;
}

const char *vocabulary_text(const struct tokenizer *t, unsigned flags,
			    const int *ids, size_t n)
{
	static char line[2000];
	struct tokenizer_decoder *d;
	const char *s;
	size_t len, at = 0;

	if (tokenizer_decoder_new(t, flags, &d) < 0)
		bail("%s", text_error());
	for (size_t i = 0; i <= n; i++) {
		if (i == n)
			tokenizer_decode_end(d, &s, &len);
		else if (tokenizer_decode(d, ids[i], &s, &len) < 0)
			bail("%s", text_error());
		memcpy(line + at, s, len);
		at += len;
		line[at++] = '|';
	}
	line[at] = '\0';
	tokenizer_decoder_free(d);
	return line;
}
