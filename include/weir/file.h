/* SPDX-License-Identifier: MIT */
/* Files that streams, buffers and models read, and streams write. */
#ifndef WEIR_FILE_H
#define WEIR_FILE_H

#include <weir/base.h>

WEIR__BEGIN

struct weir_file_opts {
	size_t size;
	uint32_t flags; /* WEIR_FILE_* */
	uint32_t mode;  /* of a file that is made; 0: 0666 & ~umask */
};
WEIR__DECLARE_OPTS_INIT(weir_file_opts)
#define WEIR_FILE_OPTS_INIT WEIR__OPTS_INIT(weir_file_opts)

#define WEIR_FILE_WRITE 0x01u    /* for reading and writing */
#define WEIR_FILE_CREATE 0x02u   /* make it if it is not there */
#define WEIR_FILE_NODIRECT 0x04u /* never O_DIRECT */

struct weir_file_info {
	size_t size;        /* set by the caller */
	const char *path;   /* lives as long as the file */
	uint64_t bytes;     /* size of the file when it was opened */
	uint32_t direct;    /* 1: O_DIRECT works, as far as is known */
	uint32_t nowait;    /* 1: the file system can refuse to block */
	uint32_t mem_align; /* of memory for O_DIRECT, bytes */
	uint32_t off_align; /* of offsets and lengths, bytes */
	uint32_t network;   /* 1: NFS, FUSE and such: more bytes in flight */
	uint32_t reserved;
	char why[120]; /* why not direct; "" if it is */
};

/*
 * Open a regular file; anything else is refused (-EINVAL, a folder: -EISDIR),
 * without blocking on it. Other errnos are those of open(2). Close it at any
 * time: what uses it has its own reference.
 */
WEIR_API int weir_file_open(struct weir *weir, const char *path,
			    const struct weir_file_opts *opts,
			    struct weir_file **ret_file)
	WEIR_NONNULL(1, 2, 4) WEIR_NODISCARD;
WEIR_API void weir_file_close(struct weir_file *file);
WEIR_API int weir_file_info(struct weir_file *file,
			    struct weir_file_info *ret_info) WEIR_NONNULL(1, 2);

WEIR__END

#endif
