/* SPDX-License-Identifier: MIT */
/* Finds tokens of a set in a text: the leftmost, and of several the longest. */
#ifndef TEXT_MATCH_H
#define TEXT_MATCH_H

#include "vocab.h"

/* How a token is written in texts. The bytes are the caller's. */
struct form {
	const unsigned char *s;
	uint32_t len, id;
	bool strip_left;  /* it takes the white space before it */
	bool strip_right; /* ... after it */
};

struct matcher {
	struct form *form; /* sorted by their bytes, then by their ids */
	size_t n, room;
	uint32_t first[257]; /* those that begin with a byte c: from first[c] */
};

/*
 * A text, divided into spans. Control tokens and the unknown token are found
 * only within neighbouring spans that may name them.
 */
#define SPANS_MAX 16u
struct spans {
	size_t n;
	const unsigned char *end[SPANS_MAX]; /* where each ends */
	bool control[SPANS_MAX];
};

/* Forms are added first, and then sorted. A form of no bytes is left out. */
int matcher_add(struct matcher *m, const struct form *form);
void matcher_sort(struct matcher *m);
/* By their lengths, the longest first: for matcher_find() only. */
void matcher_sort_longest(struct matcher *m);
void matcher_fini(struct matcher *m);

/* The longest match that begins at @s, or NULL. */
const struct form *matcher_at(const struct matcher *m, const struct vocab *v,
			      const struct spans *spans, const unsigned char *s,
			      const unsigned char *end);
/* The next match in [s, end), or NULL. Its bytes begin at *ret_at. */
const struct form *matcher_next(const struct matcher *m, const struct vocab *v,
				const struct spans *spans,
				const unsigned char *s,
				const unsigned char *end,
				const unsigned char **ret_at);
/* The first place of one form in [s, end), or NULL. */
const unsigned char *matcher_find(const struct form *form,
				  const struct vocab *v,
				  const struct spans *spans,
				  const unsigned char *s,
				  const unsigned char *end);

#endif
