/* SPDX-License-Identifier: MIT */
/* Digests of loaded tensors, computed on all CPUs. */
#ifndef TOOLS_DIGEST_H
#define TOOLS_DIGEST_H

#include <stddef.h>
#include <stdint.h>
#include <weir.h>

enum {
	DIGEST_MAX = 32,
	DIGEST_TEXT = 2 * DIGEST_MAX + 1
};

struct digests {
	uint8_t (*of)[DIGEST_MAX]; /* by the tensor's number */
	size_t count;              /* number of digests; 0: not requested */
	size_t bytes;              /* size of each */
};

/*
 * Compute the digest of each tensor of @weights. Returns 0, or EXIT_FAILURE
 * after a line on stderr (after a signal without one). Free the digests with
 * digests_free().
 */
int digests_compute(struct weir_weights *weights, enum weir_digest kind,
		    struct digests *ret_digests);
void digests_free(struct digests *digests);

/* Digest @i in hexadecimal. Returns @buf. */
const char *digest_text(const struct digests *digests, size_t i,
			char buf[DIGEST_TEXT]);
/*
 * Print a line "<hex>  <name>" for each tensor on stdout, sorted by the bytes
 * of the names. Returns 0 or EXIT_FAILURE.
 */
int digests_print(const struct digests *digests,
		  const struct weir_weights *weights);

#endif
