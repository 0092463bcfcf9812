/* SPDX-License-Identifier: MIT */
/*
 * A manifest: the names, dtypes, shapes and digests of the tensors of a model,
 * sorted by the bytes of the names, and the digest of the whole. One thread
 * builds it; then it is constant. It is referenced by the caller, and by what
 * plans and loads check with it (../load/verify.h). weir-manifest(5) has the
 * form of the file.
 */
#ifndef WEIR__MODEL_MANIFEST_H
#define WEIR__MODEL_MANIFEST_H

#include <stdatomic.h>

#include "core/hash.h"
#include "model/format/model.h"

struct weir__manifest_entry {
	struct weir__str name; /* in the manifest's text */
	size_t dims;           /* index in the manifest's dims */
	uint16_t dtype, ndim;
	uint8_t digest[WEIR__DIGEST_MAX];
};

struct weir_manifest {
	_Atomic uint32_t refs;
	struct weir *weir; /* referenced; NULL: in tests of the parser */
	enum weir_digest kind;
	char *text; /* names; of a file, all of it */
	struct weir__manifest_entry *entry;
	size_t n, cap;
	int64_t *dims;
	size_t n_dims, cap_dims;
	uint8_t digest[WEIR__DIGEST_MAX]; /* digest of the whole */
	/* Bytes of text and tables, and bytes claimed from the budget. */
	uint64_t held, claimed;
};

struct weir_manifest *weir__manifest_ref(struct weir_manifest *manifest);
/* NULL is allowed. */
void weir__manifest_put(struct weir_manifest *manifest);

/*
 * Parse the @len bytes of @text, which is changed; text[len] is 0. The text is
 * the manifest's, or is freed. @file is for sentences. -EBADMSG, -EOPNOTSUPP,
 * -ENOMEM.
 */
int weir__manifest_parse(struct weir *weir, const char *file, char *text,
			 size_t len, struct weir_manifest **ret_manifest);
/*
 * The manifest of a model, of whose record i the digest is digest[i]. -ENOMEM.
 * -EBADMSG: two tensors have one name.
 */
int weir__manifest_new(const struct weir_model *model, enum weir_digest kind,
		       uint8_t (*digest)[WEIR__DIGEST_MAX],
		       struct weir_manifest **ret_manifest);
/* As weir_manifest_write(). */
int weir__manifest_write(const struct weir_manifest *manifest, int fd);
/*
 * Find the entry of each record of @model: entry number ret_entry[i]. -EBADMSG
 * with a sentence that names the tensors that differ. -ENOMEM.
 */
int weir__manifest_match(const struct weir_manifest *manifest,
			 const struct weir_model *model, uint32_t *ret_entry);

#endif
