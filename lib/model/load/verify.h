/* SPDX-License-Identifier: MIT */
/*
 * Digests of tensors, computed while a load reads them, and compared with those
 * of a manifest.
 *
 * The bytes of a tensor are hashed in their order. Chunks arrive in any order:
 * one whose first bytes continue a tensor waits, with its op and its slot,
 * until the chunk before it has been hashed (struct weir__check of lib/io). A
 * tensor that is in one chunk as a whole is hashed at once. Tensors of sinks,
 * and mapped ones, are hashed by the threads of sinks, which read them in
 * order.
 *
 *	none	no byte has been hashed, or some have
 *	done	the digest is there
 *	broken	a chunk was not read, or there was no memory: the tensor has
 *		failed, and its other chunks pass without being hashed
 */
#ifndef WEIR__MODEL_VERIFY_H
#define WEIR__MODEL_VERIFY_H

#include "io/engine.h"
#include "model/format/manifest.h"
#include "model/load/arrival.h"
#include "model/load/layout.h"

/* What loads of a plan compute: shared with them, and constant. */
struct weir__expected {
	_Atomic uint32_t refs;
	enum weir_digest kind;
	/* NULL: digests are computed and not compared. Referenced. */
	struct weir_manifest *manifest;
	uint32_t entry[]; /* with a manifest: of each record of the model */
};

/* NULL is allowed. */
void weir__expected_put(struct weir__expected *expected);

/* The digests of one load. */
struct weir__verifier;

/*
 * A verifier for tensors as @layout has them; it references @expected. The
 * caller keeps the others as long. -EINVAL: a tensor is loaded in part.
 * -ENOMEM.
 */
int weir__verifier_new(struct weir__expected *expected,
		       const struct weir_model *model,
		       const struct weir__layout *layout,
		       struct weir__arrival *arrival,
		       struct weir__verifier **ret_verifier);
/* No thread uses it any more. NULL is allowed. */
void weir__verifier_free(struct weir__verifier *v);

/*
 * True if bytes from byte @at on of tensor @i may be hashed now. False: @check
 * is kept, if it is not NULL, and made again when the bytes before have been
 * hashed. Any thread.
 */
bool weir__verify_in_turn(struct weir__verifier *v, struct weir__engine *eng,
			  size_t i, uint64_t at, struct weir__check *check);
/*
 * Hash the @n bytes from byte @at on of tensor @i, which is in turn. Returns
 * why the tensor fails, or NULL. @eng is for checks that are made again; NULL:
 * there are none. Any thread, one at a time for each tensor.
 */
const struct weir_failure *weir__verify_bytes(struct weir__verifier *v,
					      struct weir__engine *eng,
					      size_t i, uint64_t at,
					      const void *data, uint64_t n);
/* Bytes of tensor @i will not arrive: chunks do not wait for them. */
void weir__verify_break(struct weir__verifier *v, struct weir__engine *eng,
			size_t i);
/* Returns the bytes of tensor @i's digest, or 0: it has not been computed. */
int weir__verifier_digest(const struct weir__verifier *v, size_t i,
			  uint8_t *ret_digest);

#endif
