/* SPDX-License-Identifier: MIT */
/*
 * Pre-tokenizers divide a text into words, which are then encoded one by one. A
 * pre-tokenizer is up to SPLIT_STAGES functions; each divides the pieces of the
 * one before it.
 */
#ifndef TEXT_PRE_TOKENIZERS_H
#define TEXT_PRE_TOKENIZERS_H

#include <stdbool.h>
#include <stddef.h>

#define SPLIT_STAGES 4u

/*
 * Return the end of the piece that begins at @at, which is not @end. The text
 * is valid UTF-8.
 */
typedef const unsigned char *split_fn(const unsigned char *at,
				      const unsigned char *end);

struct split {
	split_fn *stage[SPLIT_STAGES]; /* those up to the first NULL */
};

struct split_type {
	const char *name;
	struct split split;
	bool whole_words; /* a word that is a token needs no merges */
	bool adds_bos;    /* unless the model says otherwise */
};

/* Return the type with this name in tokenizer.ggml.pre, or NULL. */
const struct split_type *split_by_name(const char *name);
/* Return the name of the type that divides text like this, or NULL. */
const char *split_name(const struct split *split, bool whole_words);
/* Return the regular expression of a function, or NULL. */
const char *split_regex(split_fn *fn);
/* Return the function for a regular expression of a tokenizer.json, or NULL. */
split_fn *split_by_regex(const char *regex, size_t len);

split_fn split_gpt2, split_number, split_numbers;

#endif
