/* SPDX-License-Identifier: MIT */
/* Finds tokens of a set in a text: the leftmost, and of several the longest. */
#ifndef TEXT_MATCH_H
#define TEXT_MATCH_H

#include "vocab.h"

struct matcher {
	uint32_t *id; /* sorted by their bytes */
	size_t n;
	uint32_t first[257]; /* those that begin with a byte c: from first[c] */
};

/* All pieces of these kinds (bits 1 << kind). */
int matcher_init(struct matcher *m, const struct vocab *v, unsigned kinds);
void matcher_fini(struct matcher *m);

/* The next match in [s, end), or -1. Its bytes begin at *ret_at. */
int32_t matcher_next(const struct matcher *m, const struct vocab *v,
		     const unsigned char *s, const unsigned char *end,
		     const unsigned char **ret_at);

#endif
