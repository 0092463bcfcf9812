/* SPDX-License-Identifier: MIT */
/* Tokens and merges as formats write them: the reverse of token_bytes.c. */
#ifndef TEXT_WRITTEN_H
#define TEXT_WRITTEN_H

#include "tokenizer_internal.h"

/* The texts of all tokens, one after the other. */
struct written {
	char *text;
	size_t *at; /* where each begins, and where the last ends */
	uint32_t n;
};

/*
 * Write the tokens up to @n; ids without a token are [PAD0] and so on.
 * -EOPNOTSUPP: a token that is not UTF-8. -ENOMEM.
 */
int written_make(const struct tokenizer *t, uint32_t n, struct written *ret);
void written_free(struct written *w);

/* A merge of two tokens, by their ids. */
struct written_merge {
	int32_t left, right, id;
	uint32_t key;
};
/*
 * List the merges in their order; those of a vocabulary with scores are all
 * that the scores make. The caller frees the list.
 */
int written_merges(const struct tokenizer *t, struct written_merge **ret_merge,
		   size_t *ret_n);

#endif
