/* SPDX-License-Identifier: MIT */
/* Digests of loaded tensors, taken on all CPUs. */
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
	size_t count;              /* 0: none were asked for */
	size_t bytes;              /* of each */
};

/*
 * Take the digest of each tensor of @weights. 0, or EXIT_FAILURE with a line
 * on stderr; after a signal without one. Free with digests_free().
 */
int digests_take(struct weir_weights *weights, enum weir_digest kind,
		 struct digests *ret_digests);
void digests_free(struct digests *digests);

const char *digest_text(const struct digests *digests, size_t i,
			char buf[DIGEST_TEXT]);
/*
 * A line "<hex>  <name>" for each tensor on stdout, sorted by the bytes of
 * the names. 0 or EXIT_FAILURE.
 */
int digests_print(const struct digests *digests,
		  const struct weir_weights *weights);

#endif
