/* SPDX-License-Identifier: MIT */
/* Separating the pieces of a memory into problems that do not affect others. */
#ifndef WEIR__PLACE_SECTIONS_H
#define WEIR__PLACE_SECTIONS_H

#include "place/greedy.h"

struct weir__sections {
	struct weir__section *section;
	size_t n, max;
	uint32_t *piece; /* all pieces by lower: sections point here */
	uint64_t height; /* of the pieces that are in no section */
};

/*
 * Separate @p, and place the pieces that live as long as a section. -ENOMEM
 * with a sentence; weir__sections_free() is needed in any case.
 */
int weir__sections_make(struct weir__sections *s, struct weir__pieces *p);
void weir__sections_free(struct weir__sections *s);

#endif
