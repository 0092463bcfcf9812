/* SPDX-License-Identifier: MIT */
/*
 * Byte-pair encoding of one word: of all pairs of neighbours the one with the
 * least key is replaced by its merged token, the leftmost of several, until no
 * pair can be merged. The key of a pair is its place in the list of merges, or
 * the score of the token that has the bytes of both.
 */
#ifndef TEXT_MERGES_H
#define TEXT_MERGES_H

#include <stdint.h>

#include "vocab.h"

/* A list of merges; without buckets pairs are found by their bytes. */
struct merge {
	uint64_t pair; /* of ids; MERGES_NONE: an empty bucket */
	uint32_t key;
	int32_t id; /* of both */
};

struct merges {
	struct merge *bucket;
	size_t n, buckets; /* buckets: a power of two, more than n */
	uint64_t seed;
};
#define MERGES_NONE UINT64_MAX

/* @n: how many are expected. */
int merges_init(struct merges *m, size_t n);
void merges_fini(struct merges *m);
/* Two ids as a pair, whose bucket is soon needed. */
uint64_t merges_pair(const struct merges *m, int32_t left, int32_t right);
/* The first of two equal pairs counts. */
int merges_add(struct merges *m, const struct merge *merge);

/* A part of a word: its bytes, its token or -1, and its neighbours. */
struct symbol {
	uint32_t at, len; /* len 0: merged into the one before it */
	int32_t id;
	int32_t before, after; /* -1: none */
};

struct pair {
	uint64_t order; /* the key, then the place of the left symbol */
	uint32_t len;   /* of both */
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
/* Merge. The symbols that remain are symbol[0] and those after it. */
void word_merge(struct word *w, const struct merges *m, const struct vocab *v);

#endif
