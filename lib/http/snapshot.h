/* SPDX-License-Identifier: MIT */
/*
 * The cache that Hugging Face's own clients keep on this machine:
 * models--OWNER--NAME/{refs,snapshots,blobs}. It is read, never written.
 */
#ifndef HTTP_SNAPSHOT_H
#define HTTP_SNAPSHOT_H

#include <weir/source.h>

#include "http/uri.h"

/* A file of a snapshot. */
struct weir__http_copy {
	char *path; /* without symbolic links, in memory of malloc */
	uint64_t bytes;
	char sha256[72]; /* by which the cache names the bytes, or "" */
};

/* All 40 digits of one. */
bool weir__http_is_commit(const char *text);
bool weir__http_is_sha256(const char *text);
/*
 * The commit of @u's revision as of the last download. False: the cache has
 * none.
 */
bool weir__http_snapshot_commit(const struct weir__http_url *u,
				char commit[static 64]);
/* True if it has a snapshot of @commit, which may lack files. */
bool weir__http_snapshot_has(const struct weir__http_url *u,
			     const char *commit);
/* Find the file of @u in the snapshot of @commit. False: it is not there. */
bool weir__http_snapshot_find(const struct weir__http_url *u,
			      const char *commit, struct weir__http_copy *ret);
/* List the files of the folder @u there. -ENOENT: there is no such folder. */
int weir__http_snapshot_list(const struct weir__http_url *u, const char *commit,
			     weir_source_found_fn *found, void *arg);

#endif
