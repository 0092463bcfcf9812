/* SPDX-License-Identifier: MIT */
/*
 * Finds tokens of a set in a text: the leftmost one, and the longest if several
 * begin there.
 */
#ifndef TEXT_FIND_TOKENS_H
#define TEXT_FIND_TOKENS_H

#include "vocab.h"

/* How a token is written in texts. The bytes are the caller's. */
struct form {
	const unsigned char *s;
	uint32_t len, id;
	bool strip_left;  /* the token takes the white space before it */
	bool strip_right; /* the token takes the white space after it */
};

struct matcher {
	struct form *form; /* sorted by bytes, then by ids */
	size_t n, room;
	uint32_t first[257]; /* forms that begin with byte c begin at
				first[c] */
};

/*
 * A text, divided into spans. Control tokens and the unknown token are found
 * only within neighbouring spans that may name them.
 */
#define SPANS_MAX 16u
struct spans {
	size_t n;
	const unsigned char *end[SPANS_MAX]; /* the end of each span */
	bool control[SPANS_MAX];
};

/* Forms are added first, and then sorted. A form of no bytes is left out. */
int matcher_add(struct matcher *m, const struct form *form);
void matcher_sort(struct matcher *m);
/* Sort by length, the longest first: for matcher_find() only. */
void matcher_sort_longest(struct matcher *m);
void matcher_fini(struct matcher *m);

/* Return the longest match that begins at @s, or NULL. */
const struct form *matcher_at(const struct matcher *m, const struct vocab *v,
			      const struct spans *spans, const unsigned char *s,
			      const unsigned char *end);
/* Return the next match in [s, end), or NULL. Its bytes begin at *ret_at. */
const struct form *matcher_next(const struct matcher *m, const struct vocab *v,
				const struct spans *spans,
				const unsigned char *s,
				const unsigned char *end,
				const unsigned char **ret_at);
/* Return the first occurrence of a form in [s, end), or NULL. */
const unsigned char *matcher_find(const struct form *form,
				  const struct vocab *v,
				  const struct spans *spans,
				  const unsigned char *s,
				  const unsigned char *end);

#endif
