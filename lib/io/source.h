/* SPDX-License-Identifier: MIT */
/*
 * Objects of sources: files that are not on a file system of this machine. An
 * object is the part of a struct weir_file that such a file has in place of a
 * descriptor; <weir/source.h> describes the functions of a source.
 */
#ifndef WEIR__IO_SOURCE_H
#define WEIR__IO_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/source.h>

#include "core/root.h"

struct weir__chunk;
struct weir__loop;
struct weir__op;

struct weir__object {
	struct weir_source ops; /* a copy, in the library's own size */
	void *self;             /* the source's; close gets it */
	struct weir_source_info info;
};

/* source.c: the sources of a root. */

/*
 * Find the source for a scheme, whose module is loaded if there is none yet.
 * What it returns exists as long as the root. -ENOENT: there is none.
 */
int weir__source_find(struct weir *weir, const char *scheme, size_t len,
		      const struct weir_source **ret_ops, void **ret_self);
/* True if there is a source for the scheme of @url. */
bool weir__url_has_source(struct weir *weir, const char *url);
/* Copy a table of any size, and check it. -EINVAL, -EPROTO. */
int weir__source_table(const struct weir_source *source,
		       struct weir_source *ret_table);
/*
 * Return the result of a function of a source: 0, or the errno @r with the
 * sentence @why about @name.
 */
int weir__source_result(int r, const char *name,
			char why[static WEIR_SOURCE_WHY]);

/* url.c */

/* The bytes of the scheme of @path, before "://"; 0: it is no URL. */
size_t weir__url_scheme(const char *path);
/*
 * True if @path is a URL: it begins with a scheme, as in "https://". A file
 * whose name begins so is opened as "./https://...".
 */
bool weir__is_url(const char *path);
/*
 * Refuse a path that is a URL: what the call would do, @what ("is saved"),
 * needs a file of this machine. Returns 0 for other paths, or -EROFS.
 */
int weir__refuse_url(const char *path, const char *what);
/* @url in a sentence, in @text: without a query, or a name and password. */
const char *weir__url_shown(const char *url, char *text, size_t room);
/*
 * The file with the name @name beside that of @url, with the same query. The
 * name is percent-encoded if the scheme is http or https. NULL: no memory.
 */
char *weir__url_beside(const char *url, const char *name);
/* The file with the name @name in the folder @url. NULL: no memory. */
char *weir__url_inside(const char *url, const char *name);

/* file.c. Make a file of an object, which it has from then on. */
int weir__file_of_object(struct weir *weir, const struct weir_source *source,
			 void *self, const struct weir_source_info *info,
			 const char *url, struct weir_file **ret_file);
/*
 * The same of the file of this machine at @path, opened for reading, of which a
 * source says that it has the bytes that @info describes. -ESTALE: its size is
 * another one.
 */
int weir__file_open_copy(struct weir *weir, const char *path,
			 const struct weir_source_info *info, const char *url,
			 struct weir_file **ret_file);

/* source_object.c */

/* Open the object at @url. As weir__file_open(). */
int weir__object_open(struct weir *weir, const char *url,
		      struct weir_file **ret_file);
/*
 * List the names in the folder @url; as source->list. -EOPNOTSUPP: the source
 * cannot.
 */
int weir__url_list(struct weir *weir, const char *url,
		   weir_source_found_fn *found, void *arg);

/* As weir__file_read(), from an object. */
int weir__object_read(struct weir_file *file, void *buf, size_t n,
		      uint64_t off);
/* As weir__file_unchanged(). */
int weir__object_unchanged(const struct weir_file *file);
/* Copy the table and the description. NULL: no memory. */
struct weir__object *weir__object_new(const struct weir_source *source,
				      void *self,
				      const struct weir_source_info *info);
/* Close the object, which no read uses. Takes NULL. */
void weir__object_free(struct weir__object *object);

/* source_op.c: reads of the engine. They run on the reactor's owner. */

/*
 * True if sources have enough of the reactor's reads: no chunk of an object may
 * start now.
 */
bool weir__source_is_full(const struct weir__loop *loop,
			  const struct weir__chunk *chunk);
/* Pass the op to its source. */
void weir__source_submit(struct weir__loop *loop, struct weir__op *op);
/* True if a source has the op, which is not FREE, or its end was not seen. */
bool weir__source_has(const struct weir__op *op);
/* The source has ended the op's read: complete the chunk, or go on with it. */
void weir__source_ended(struct weir__loop *loop, struct weir__op *op,
			int64_t res);
/* Cancel the reads whose jobs do not need them any more. */
void weir__sources_hurry(struct weir__loop *loop);
/* Pass on to the jobs when bytes have arrived last. */
void weir__sources_note_progress(struct weir__loop *loop);
/*
 * The op's read is late. Returns true if it has been cancelled and may still
 * end; false: give it up.
 */
bool weir__source_may_end(struct weir__loop *loop, struct weir__op *op);
/* Keep the file of an op that is orphaned until its source has ended it. */
void weir__source_keep(struct weir__loop *loop, struct weir__op *op);
/* The source has ended an orphaned read: nobody writes to its slot now. */
void weir__source_give_back(struct weir__loop *loop, struct weir__op *op);

#endif
