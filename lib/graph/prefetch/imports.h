/* SPDX-License-Identifier: MIT */
/*
 * The pass that decides which imports of a device are kept in its memory, and
 * which are prefetched through a buffer in each run, and where in the buffer.
 * An import is a constant leaf whose bytes come from a file or from memory that
 * the device cannot use. Arrays in, arrays out.
 */
#ifndef WEIR__GRAPH_IMPORTS_H
#define WEIR__GRAPH_IMPORTS_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__IMPORTS_ANY UINT32_MAX

/* The imports are in the order of their first use. */
struct weir__imports_in {
	uint32_t n;
	const uint64_t *bytes;
	const uint32_t *first, *last; /* the steps between which it is read */
	const uint32_t *phase; /* its address modulo WEIR__PAGE, or ANY */
	const bool *is_kept;   /* it is kept already; NULL: none is */
	/*
	 * The first import with the same bytes: these are kept once, or all
	 * prefetched, and no step reads two of them. NULL: each has its own
	 * bytes.
	 */
	const uint32_t *same;
	/*
	 * Bytes of a prefetched one that each run reads without a place in the
	 * buffer; 0: all, to its place. NULL: all of each.
	 */
	const uint64_t *by_rows;
	uint64_t align;  /* a power of two, at most WEIR__PAGE */
	uint64_t budget; /* bytes for the others, and for a new buffer */
	uint64_t buffer; /* bytes of the buffer that is there; 0: none */
};

struct weir__imports {
	bool *prefetched; /* true of each import that is */
	uint64_t *offset; /* place of each prefetched import in the buffer */
	uint64_t buffer;  /* its bytes; 0: nothing is prefetched */
	uint64_t kept_bytes, prefetched_bytes;
};

/*
 * Prefetched imports that are needed at the same time share no byte. As many
 * imports as fit are kept: first those that are in use for long or are read
 * again as another import, then those that would make the buffer large, then
 * tiny ones. Of the others so many are kept, evenly spread, that the buffer has
 * three times the bytes of the largest prefetched import, or less if the budget
 * has no room for that. Those that are read by rows are kept last. An existing
 * buffer is used if it is large enough.
 *
 * -ENOMEM: no memory, or what one step reads exceeds the budget; the sentence
 * has both numbers. Free the arrays with weir__imports_free().
 */
int weir__imports(const struct weir__imports_in *in, struct weir__imports *ret);
void weir__imports_free(struct weir__imports *imports);

/* Bytes that import @i needs in a buffer, with room for its phase. */
uint64_t weir__import_need(const struct weir__imports_in *in, uint32_t i);

#endif
