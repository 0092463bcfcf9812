/* SPDX-License-Identifier: MIT */
/*
 * Byte-pair encoding of one word: the pair of neighbours with the least key
 * (the leftmost of several) is replaced by its merged token, until no pair can
 * be merged. The key of a pair is its place in the list of merges, or the score
 * of the token that has the bytes of both.
 */
#ifndef TEXT_MERGES_H
#define TEXT_MERGES_H

#include <stdint.h>

#include "vocab.h"

/* A merge. In a list without buckets pairs are found by their bytes. */
struct merge {
	uint64_t pair; /* the ids of both, or MERGES_NONE in an empty bucket */
	uint32_t key;
	int32_t id; /* the token of both */
};

struct merges {
	struct merge *bucket;
	size_t n, buckets; /* buckets is a power of two, more than n */
	uint64_t seed;
};
#define MERGES_NONE UINT64_MAX

/* Make an empty list, for about @n merges. */
int merges_init(struct merges *m, size_t n);
void merges_fini(struct merges *m);
/* Return two ids as a pair, and prefetch its bucket. */
uint64_t merges_pair(const struct merges *m, int32_t left, int32_t right);
/* Add a merge. If its pair is there already, the earlier merge is kept. */
int merges_add(struct merges *m, const struct merge *merge);

/* True if there is a merge of this pair. */
bool merges_has(const struct merges *m, int32_t left, int32_t right);

/* A part of a word: its bytes, its token or -1, and its neighbours. */
struct symbol {
	uint32_t at, len; /* len is 0 after it was merged into the one before */
	int32_t id;
	int32_t before, after; /* -1: none */
};

struct pair {
	uint64_t order; /* the key, then the position of the left symbol */
	uint32_t len;   /* bytes of both */
	int32_t id;
};

/* The symbols of a word, and its pairs as a heap. For one thread. */
struct word {
	const unsigned char *s;
	struct symbol *symbol;
	struct pair *pair;
	size_t n, pairs, room;
};

/* Begin a word that has at most @max symbols. */
int word_begin(struct word *w, const unsigned char *s, size_t max);
void word_fini(struct word *w);
/* Append a symbol. */
void word_put(struct word *w, size_t at, size_t len, int32_t id);
/*
 * Merge the symbols. Those that remain are symbol[0] and the ones that follow
 * it.
 */
void word_merge(struct word *w, const struct merges *m, const struct vocab *v);

#endif
