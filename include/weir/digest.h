/* SPDX-License-Identifier: MIT */
/*
 * Digests of tensors and files, and manifests: files with the digests of the
 * tensors of a model (weir-manifest(5)), against which loads check what they
 * read (weir_plan_verify()).
 */
#ifndef WEIR_DIGEST_H
#define WEIR_DIGEST_H

#include <weir/base.h>
#include <weir/file.h>

WEIR__BEGIN

enum weir_digest {
	WEIR_DIGEST_XXH3 = 0,  /* XXH3-128, big-endian: 16 bytes */
	WEIR_DIGEST_SHA256 = 1 /* 32 bytes */
};

/*
 * Compute the digest of all bytes of @file, through the page cache. Blocks.
 * Returns the size of the digest in bytes. -EINVAL: @kind is not an enum
 * weir_digest. -ESTALE: the file has changed since it was opened. -ENOMEM.
 * Errors of read(2).
 */
WEIR_API int weir_file_digest(struct weir_file *file, enum weir_digest kind,
			      uint8_t ret_digest[32]) WEIR_NONNULL(1, 3);

struct weir_manifest;

/*
 * Read the manifest in the file @path. It does not change, and any thread may
 * use it. Blocks. -EBADMSG: the file is not a manifest, or its digest of the
 * whole is not that of its tensors. -EOPNOTSUPP: another version, or an
 * algorithm or dtype that this library does not know. -ENOMEM: there is no
 * memory, or the root's budget would be exceeded. Errors of weir_file_open()
 * and read(2).
 */
WEIR_API int weir_manifest_open(struct weir *weir, const char *path,
				struct weir_manifest **ret_manifest)
	WEIR_NONNULL(1, 2, 3) WEIR_NODISCARD;
/*
 * Takes NULL; never blocks. Plans and loads that use the manifest keep it.
 */
WEIR_API void weir_manifest_close(struct weir_manifest *manifest);

struct weir_manifest_info {
	size_t size;        /* set by the caller */
	uint32_t kind;      /* enum weir_digest */
	uint32_t reserved;  /* 0 */
	uint64_t count;     /* number of tensors */
	uint8_t digest[32]; /* the whole: the first 16 or 32 bytes */
};
/*
 * Describe the manifest. The digest of the whole follows from the names,
 * dtypes, shapes and digests of the tensors, so two models with the same
 * tensors have the same, in whatever files.
 */
WEIR_API int weir_manifest_info(const struct weir_manifest *manifest,
				struct weir_manifest_info *ret_info)
	WEIR_NONNULL(1, 2);
/*
 * Write the manifest as JSON to @fd, with the tensors in the order of their
 * names. Blocks. -EOPNOTSUPP: a name is not UTF-8. -ENOMEM. Errors of write(2).
 */
WEIR_API int weir_manifest_write(const struct weir_manifest *manifest, int fd)
	WEIR_NONNULL(1);

WEIR__END

#endif
