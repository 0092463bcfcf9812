/* SPDX-License-Identifier: MIT */
/*
 * Open files: a buffered descriptor, a direct descriptor where O_DIRECT works,
 * and the properties of both. References are counted. The caller of a job
 * references its files until the job is done.
 */
#ifndef WEIR__IO_FILE_H
#define WEIR__IO_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>

#include <weir/file.h>

#include "core/root.h"

/* Identifies the content of a file: compared after a load. */
struct weir__file_id {
	uint64_t dev, ino, bytes, links;
	struct timespec mtime, ctime;
};

struct weir__lease;
struct weir__object;

struct weir_file {
	_Atomic uint32_t refs;
	struct weir *weir;
	char *path;       /* or the caller's name for the descriptor */
	const char *base; /* last component of path: for messages */
	char *where;      /* absolute path of the file as opened. NULL: it has
			     none, or none that this process can follow */
	/*
	 * A file of a source: it has no descriptor, no page cache, and cannot
	 * be written. NULL: a file of this machine.
	 */
	struct weir__object *object;
	char *url; /* by which it was opened, with its query; NULL: by none */
	char sha256[72]; /* of its bytes, as published; "": not known */
	/* What its source says of the version of the object; "": nothing. */
	char identity[160];
	int fd;        /* buffered */
	int direct_fd; /* -1: none */
	bool has_path; /* path can be opened again */
	bool writable;
	bool nowait; /* RWF_NOWAIT is honoured */
	bool ours;   /* we may write it, so mincore(2) reports the truth */
	bool network;
	bool in_cache; /* the file of an object in the root's cache */
	/*
	 * The file system is FUSE. A ring does not read it: there the kernel
	 * repeats a read for ever if the file system answers EAGAIN or, with
	 * some kernels, EOPNOTSUPP.
	 */
	bool fuse;
	uint32_t mem_align, off_align; /* needed by direct_fd; powers of two */
	struct weir__file_id id;       /* as opened */
	_Atomic bool direct_ok;        /* cleared when a read is refused */
	char why[120];           /* why reads were not direct, as opened */
	_Atomic uint32_t serial; /* unique in the root: key of ring tables */
	_Atomic bool lease_tried;
	struct weir__lease *_Atomic lease; /* NULL: none */
};

/* As weir_file_open(), for use inside the library. */
int weir__file_open(struct weir *weir, const char *path, uint32_t flags,
		    unsigned mode, struct weir_file **ret_file);
/*
 * Make a file of @fd, a regular file at @path that is open for reading and
 * writing without flags. The descriptor becomes the file's; if the call fails,
 * it is closed.
 */
int weir__file_take(struct weir *weir, int fd, const char *path,
		    struct weir_file **ret_file);
/*
 * Open for reading the file that the caller has open as @fd. The descriptor
 * stays the caller's and is not changed. @name, or NULL, is for sentences.
 */
int weir__file_open_fd(struct weir *weir, int fd, const char *name,
		       struct weir_file **ret_file);
struct weir_file *weir__file_ref(struct weir_file *file);
void weir__file_put(struct weir_file *file);

/*
 * Read exactly @n bytes of a header, buffered and blocking. -ESTALE with a
 * sentence that names the file and both sizes: it is shorter than when it was
 * opened.
 */
int weir__file_read(struct weir_file *file, void *buf, size_t n, uint64_t off);

/*
 * The same from the beginning of the file, for large headers: with O_DIRECT if
 * most of the bytes are not in the page cache. @buf comes from
 * weir__malloc_pages.
 */
int weir__file_read_front(struct weir_file *file, void *buf, size_t n);

/*
 * Called before anything is read: make sure that any later write changes the
 * times in @file->id. If the file was written to just now, this blocks for a
 * tick of the kernel's clock, or 2 s where the file system keeps whole seconds,
 * and takes the times again. On a file system with its own clock (NFS) it has
 * no effect.
 */
int weir__file_settle(struct weir_file *file);

/*
 * Check that the content of the file has not changed. -ESTALE with a sentence:
 * device, inode, size or mtime differ from @file->id, or the ctime does, and
 * the names of the file do not explain it.
 *
 * A file that was removed, renamed, linked or replaced by rename(2) has another
 * ctime and the same bytes, and the descriptor still reads them. Such a file
 * has another number of links, or its path does not lead to it any more.
 */
int weir__file_unchanged(struct weir_file *file);

/*
 * Per mille of a range in the page cache from which on it is read from there.
 */
#define WEIR__RESIDENT 950u

/*
 * resident.c. Returns how much of [off, off + len) is in the page cache, in
 * 1/1000 of its pages. For more than 1 MiB it is an estimate from samples, if
 * the file system answers such questions (it has RWF_NOWAIT). Never waits for
 * the disk.
 */
unsigned weir__file_resident(struct weir_file *file, uint64_t off,
			     uint64_t len);

/*
 * resident.c. Returns 1 if all of a long range is in the page cache, 0 if
 * nothing is, -1 if some is or it is not known. One page of each 8 MiB is
 * examined: a hole, or an island, of less than 18 MiB may not be seen.
 */
int weir__file_is_uniform(struct weir_file *file, uint64_t off, uint64_t len);

/*
 * True if a few pages of the range, from its beginning to its end, are in the
 * page cache.
 */
bool weir__file_is_cached(struct weir_file *file, uint64_t off, uint64_t len);

/* As weir_buf_map(), for a range that was in the file when it was opened. */
int weir__buf_map(struct weir_buft *buft, struct weir_file *file, uint64_t off,
		  size_t size, struct weir_buf **ret_buf);

#endif
