/* SPDX-License-Identifier: MIT */
/*
 * Open files, which streams read and write, weir_buf_map() maps, and models
 * consist of. A URL opens an object of a source: a file that can be read, and
 * neither written nor mapped. weir-source(7) describes sources.
 */
#ifndef WEIR_FILE_H
#define WEIR_FILE_H

#include <weir/base.h>

WEIR__BEGIN

struct weir_file_opts {
	size_t size;
	uint32_t flags; /* WEIR_FILE_* */
	uint32_t mode;  /* permissions of a new file, without those of the
			   umask; 0: 0666 */
};
WEIR__DECLARE_OPTS_INIT(weir_file_opts)
#define WEIR_FILE_OPTS_INIT WEIR__OPTS_INIT(weir_file_opts)

#define WEIR_FILE_WRITE 0x01u    /* open for reading and writing */
#define WEIR_FILE_CREATE 0x02u   /* create a missing file; needs WRITE */
#define WEIR_FILE_NODIRECT 0x04u /* never use O_DIRECT */

struct weir_file_info {
	size_t size;        /* set by the caller */
	const char *path;   /* as it was opened; exists as long as the object */
	uint64_t bytes;     /* size of the file when it was opened */
	uint32_t direct;    /* 1: O_DIRECT works, as far as is known yet */
	uint32_t nowait;    /* 1: the file system supports RWF_NOWAIT */
	uint32_t mem_align; /* bytes: alignment of memory for O_DIRECT */
	uint32_t off_align; /* bytes: the same for offsets and lengths */
	uint32_t network;   /* 1: on a network file system, or on FUSE */
	uint32_t changed;   /* 1: its size or its time of modification is not
			       what it was when it was opened */
	char why[120];      /* why O_DIRECT is not used; "" if it is */
	/*
	 * Of an object of a source: the name of the source, and what pins the
	 * bytes, such as "etag:..."; "" for a file of this machine. They exist
	 * as long as the object.
	 */
	const char *source, *identity;
	/*
	 * The SHA-256 of the whole file as it was published, 64 lower-case
	 * hexadecimal digits: by the source of its URL, by the name of its blob
	 * in a cache of Hugging Face's clients, or by what weir_fetch() has
	 * noted. "": none is known. Exists as long as the object. Nothing has
	 * compared it with the bytes: see weir_file_digest().
	 */
	const char *sha256;
};

/*
 * Open a regular file; symbolic links are followed. Close it at any time:
 * queued work, mappings and models have their own references to it. Any
 * thread; blocks as open(2) does.
 *
 * A path that begins with a scheme, as "https://", is a URL, and opens an
 * object of the source for that scheme, whose module is loaded if it is needed
 * first ("./https:" is a file). It blocks as the source does.
 *
 * -EISDIR: the file is a directory. -EINVAL: it is a pipe, socket or device
 * (the call does not block on it), or the flags are invalid. -EROFS: a URL is
 * to be written. -ENOENT: there is no such file, or no source for the scheme:
 * the sentence says which. Errors of open(2), and of sources.
 */
WEIR_API int weir_file_open(struct weir *weir, const char *path,
			    const struct weir_file_opts *opts,
			    struct weir_file **ret_file)
	WEIR_NONNULL(1, 2, 4) WEIR_NODISCARD;
/* Takes NULL; never blocks. */
WEIR_API void weir_file_close(struct weir_file *file);
/* Describe a file: its size, and how it can be read. */
WEIR_API int weir_file_info(struct weir_file *file,
			    struct weir_file_info *ret_info) WEIR_NONNULL(1, 2);
/*
 * Read @bytes bytes at @offset to @to. For small files and single values:
 * tensors are loaded, and long ranges read by streams. Any thread; blocks.
 *
 * -EINVAL: the range exceeds the size of the file when it was opened. -ESTALE:
 * the file is shorter now, or the object has changed. Errors of read(2), and of
 * sources.
 */
WEIR_API int weir_file_read(struct weir_file *file, uint64_t offset, void *to,
			    size_t bytes) WEIR_NONNULL(1, 3) WEIR_NODISCARD;

WEIR__END

#endif
