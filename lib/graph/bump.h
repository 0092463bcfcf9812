/* SPDX-License-Identifier: MIT */
/* Memory that is taken in small parts, and given back all at once. */
#ifndef WEIR__BUMP_H
#define WEIR__BUMP_H

#include <stddef.h>

struct weir__bump_chunk;

struct weir__bump {
	struct weir__bump_chunk *first, *now; /* NULL: no memory yet */
	size_t used;                          /* bytes of now */
};

/* @n bytes, aligned to 16, not initialised. NULL: no memory. */
void *weir__bump_take(struct weir__bump *bump, size_t n);
/* Give all back, and keep the memory for later. */
void weir__bump_reset(struct weir__bump *bump);
void weir__bump_free(struct weir__bump *bump);

#endif
