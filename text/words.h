/* SPDX-License-Identifier: MIT */
/* Text that has been normalised to words, and words to tokens. */
#ifndef TEXT_WORDS_H
#define TEXT_WORDS_H

#include "merges.h"
#include "tokenizer.h"

struct words {
	const struct tokenizer *t;
	struct tokenizer_ids *ids;
	struct word word;
	bool after_unk; /* the last token was the unknown one */
};

/* Append the tokens of text, which is UTF-8. */
int words_encode(struct words *w, const unsigned char *s,
		 const unsigned char *end);
/* Append a token that was found in the text. */
int words_found(struct words *w, int32_t id);

#endif
