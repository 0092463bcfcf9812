/* SPDX-License-Identifier: MIT */
/* Small vocabularies for tests of text/. Functions bail out on failure. */
#ifndef VOCABULARY_H
#define VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>

#include "../../text/tokenizer.h"

#define MARK "\xe2\x96\x81"

/* A file that is being written. */
struct vocabulary {
	unsigned char bytes[1 << 16];
	size_t n;
	size_t users; /* vocabulary_gguf(): user-defined, after the controls */
	unsigned unk; /* ... the id of the unknown token, plus 1; 0: none */
	bool no_ids;  /* ... BOS, EOS and EOT have the id of no token, -1 */
};

/* tokenizer.model: pieces with the numbers 0, 1, ..., then its settings. */
void vocabulary_piece(struct vocabulary *v, const char *s, float score,
		      unsigned kind);
/* The pieces <unk>, <s>, </s>, and <0x00> to <0xFF> if @bytes. */
void vocabulary_begin(struct vocabulary *v, bool bytes);
/* A model of SentencePiece's type @model_type (2: BPE). */
void vocabulary_end(struct vocabulary *v, unsigned model_type, bool prefix,
		    bool trim);

/*
 * GGUF: arrays of @n tokens, of which the first @controls are control tokens,
 * and of @n_merges merges if there are any; else scores.
 */
void vocabulary_gguf(struct vocabulary *v, const char *model, const char *pre,
		     const char *const *tokens, size_t n, size_t controls,
		     const char *const *merges, size_t n_merges);

struct tokenizer *vocabulary_parse(const struct vocabulary *v);
struct tokenizer *vocabulary_json(const char *json);
/* The result of the reader; its tokenizer is freed. */
int vocabulary_try(const void *bytes, size_t n);

/* The tokens of a text as "1 2 3", or the errno and the sentence. */
const char *vocabulary_ids(const struct tokenizer *t, const char *text,
			   unsigned flags);
const char *vocabulary_ids_n(const struct tokenizer *t, const char *text,
			     size_t len, unsigned flags);
/* The text of @n tokens, with a '|' after what each call returned. */
const char *vocabulary_text(const struct tokenizer *t, unsigned flags,
			    const int *ids, size_t n);

#endif
