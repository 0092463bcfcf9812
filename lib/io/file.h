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

/* Tells whether a file has changed: compared after a load. */
struct weir__file_id {
	uint64_t dev, ino, bytes;
	struct timespec mtime, ctime;
};

struct weir__lease;

struct weir_file {
	_Atomic uint32_t refs;
	struct weir *weir;
	char *path;       /* or what the caller calls the descriptor */
	const char *base; /* last component of path: for messages */
	int fd;           /* buffered */
	int direct_fd;    /* -1: none */
	bool has_path;    /* path can be opened again */
	bool writable;
	bool nowait; /* RWF_NOWAIT is honoured */
	bool ours;   /* we may write it: so mincore(2) tells the truth */
	bool network;
	/*
	 * Of FUSE: not read by a ring, in which the kernel repeats a read as long as
	 * the file system answers EAGAIN, or on some kernels EOPNOTSUPP, for ever.
	 */
	bool fuse;
	uint32_t mem_align, off_align; /* for direct_fd; powers of two */
	struct weir__file_id id;       /* as opened */
	_Atomic bool direct_ok;        /* cleared when a read is refused */
	char why[120];                 /* why not direct, as opened */
	_Atomic uint32_t serial; /* unique in the root: key of ring tables */
	_Atomic bool lease_tried;
	struct weir__lease *_Atomic lease; /* NULL: none */
};

/* weir_file_open, without the call's name in the message. */
int weir__file_open(struct weir *weir, const char *path, uint32_t flags,
		    unsigned mode, struct weir_file **ret_file);
/*
 * Open, for reading, the file that the caller has open as @fd, which stays the
 * caller's and is not changed. @name, or NULL, is for sentences.
 */
int weir__file_open_fd(struct weir *weir, int fd, const char *name,
		       struct weir_file **ret_file);
struct weir_file *weir__file_ref(struct weir_file *file);
void weir__file_put(struct weir_file *file);

/*
 * Read exactly @n bytes, buffered and blocking: headers. -ESTALE with a
 * sentence that names the file and both sizes: it is shorter than when it was
 * opened.
 */
int weir__file_read(struct weir_file *file, void *buf, size_t n, uint64_t off);

/*
 * The same from the beginning of the file, for large headers: with O_DIRECT, if
 * most of it is not in the page cache. @buf comes from weir__malloc_pages.
 */
int weir__file_read_front(struct weir_file *file, void *buf, size_t n);

/*
 * Before anything is read: make sure that any later write changes the times in
 * @file->id. For a file that was written to just now this blocks for a tick of
 * the kernel's clock, or 2 s where the file system keeps whole seconds, and
 * takes the times again. On a file system with its own clock (NFS) it has no
 * effect.
 */
int weir__file_settle(struct weir_file *file);

/*
 * -ESTALE with a sentence: device, inode, size, mtime or ctime differ from
 * @file->id.
 */
int weir__file_unchanged(struct weir_file *file);

/* Per mille of a range in the page cache: it is read from there. */
#define WEIR__RESIDENT 950u

/*
 * resident.c. How much of [off, off + len) is in the page cache, in 1/1000 of
 * its pages. For more than 1 MiB it is an estimate by samples, if the file system
 * answers such questions (it has RWF_NOWAIT). Never waits for the disk.
 */
unsigned weir__file_resident(struct weir_file *file, uint64_t off,
			     uint64_t len);

/*
 * resident.c. Is all of a long range in the page cache, or nothing? 1: all, 0:
 * nothing, -1: neither, or not known. By a sample for each 8 MiB: a hole, or an
 * island, of less than 18 MiB may not be seen.
 */
int weir__file_alike(struct weir_file *file, uint64_t off, uint64_t len);

/* Are a few pages of the range, from its beginning to its end, in the page cache? */
bool weir__file_is_cached(struct weir_file *file, uint64_t off, uint64_t len);

/* weir_buf_map of a range that was in the file when it was opened. */
int weir__buf_map(struct weir_buft *buft, struct weir_file *file, uint64_t off,
		  size_t size, struct weir_buf **ret_buf);

#endif
