/* SPDX-License-Identifier: MIT */
/*
 * Sources of bytes, for files that are not on a file system of this machine:
 * they are in an object store, an archive, or the memory of another process. A
 * source is a table of functions, which a program or a module implements. The
 * library makes a struct weir_file of each object that a source opens, and
 * models, loads and streams use it as any other file. See weir-source(7).
 *
 * A program gives the library a source by weir_source_add(), which registers
 * its schemes ("https" opens "https://..."), or one object of a source by
 * weir_source_file(). A module is a shared object that exports
 * weir_source_entry and is not linked with libweir; it is loaded when one of
 * its schemes is used first.
 *
 * Compatibility: each table begins with its size and gets new members only at
 * its end, all of them optional. The library treats members that an older
 * source lacks as NULL or 0. struct weir_source_read and struct
 * weir_source_info are allocated by the library and grow at their ends too:
 * a source may use a later member only if WEIR_SOURCE_HAS says that it is
 * there. Any other change gets a new WEIR_SOURCE_ABI.
 */
#ifndef WEIR_SOURCE_H
#define WEIR_SOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/file.h>

WEIR__BEGIN

#define WEIR_SOURCE_ABI 1u

/* True if the struct at @table, which begins with its size, has @member. */
#define WEIR_SOURCE_HAS(table, member)                                    \
	((table)->size >= (size_t)((const char *)(&(table)->member + 1) - \
				   (const char *)(table)))

/* The bytes of a sentence, its 0 included. A longer one is cut. */
#define WEIR_SOURCE_WHY 512

/* The description of an object, which a source fills in when it opens it. */
struct weir_source_info {
	size_t size;    /* set by the library */
	uint64_t bytes; /* of the object */
	/*
	 * What pins the bytes, such as "etag:...", "commit:..." or
	 * "sha256:...". Equal strings of one name: equal bytes. "": nothing.
	 */
	char identity[160];
	/*
	 * The object in sentences and reports, such as its URL without query,
	 * credentials and signature. "": the path that was opened. Its end
	 * says which format the file has, and whether it is an index.
	 */
	char name[512];
	/*
	 * A request costs about as much time as these bytes: gaps of up to so
	 * many bytes are read rather than skipped. 0: 64 KiB.
	 */
	uint64_t request_bytes;
	/*
	 * The bytes that should be requested and not have arrived yet, for the
	 * source to be used fully. 0: the library's default for networks.
	 */
	uint64_t window_bytes;
	/*
	 * The SHA-256 of the whole object, 64 lower-case hexadecimal digits, as
	 * the source's store publishes it. "": not known.
	 */
	char sha256[72];
	/*
	 * The absolute path of a file of this machine with the same bytes,
	 * which the library opens instead: it is read, mapped and shared as
	 * any local file. The library closes the object then; it is read after
	 * all if the file cannot be opened or has another size. "": none.
	 * weir_source_file() does not use it.
	 */
	char path[4096];
};

/*
 * One read: bytes [off, off + len) of the object are to be put to @buf. It is
 * allocated by the library, and valid until done has been called.
 */
struct weir_source_read {
	size_t size;
	uint64_t off;
	uint64_t len;  /* > 0; never beyond the object's end */
	void *buf;     /* no alignment; may be written to until done */
	void *priv[6]; /* the source's: links of a list, a state; set to NULL */
	/*
	 * Say that the first @bytes of the read are in place, which is more
	 * than before. Optional, but a read of which nothing arrives for
	 * weir_opts.read_timeout is cancelled; done counts too. Any thread;
	 * does not block.
	 */
	void (*arrived)(struct weir_source_read *read, uint64_t bytes);
	/*
	 * End the read: all bytes are in place (@err 0), or it has failed
	 * (-errno), and the source does not write to @buf any more. @why is a
	 * sentence about the failure, copied; NULL: the errno says all.
	 * Exactly once, any thread, also before read returns. Does not block,
	 * and calls no function of the source: so locks may be held.
	 *
	 * -ESTALE: the object is not the one that was opened. The errnos of
	 * the object or its server as a whole (-ESTALE, -EACCES, -ENOENT,
	 * -ENODEV, -ETIMEDOUT, ...) end a load at once; after others its other
	 * bytes are still read.
	 */
	void (*done)(struct weir_source_read *read, int err, const char *why);
};

/* Called by list for each name. < 0: end the listing, and return that. */
typedef int weir_source_found_fn(void *arg, const char *name, uint64_t bytes);

/*
 * The functions of a source. The library calls them on its threads and on the
 * program's, several at once. None of them may call the library's functions
 * for the root, except those of struct weir_source_host.
 */
struct weir_source {
	size_t size;
	uint32_t abi; /* WEIR_SOURCE_ABI */
	uint32_t flags;
	const char *name; /* "http": [a-z][a-z0-9-]*; for reports */
	/*
	 * The schemes, "https" for "https://...", NULL after the last one. At
	 * most 16 bytes each, lower case. NULL: only weir_source_file uses it.
	 */
	const char *const *schemes;
	/*
	 * Open the object at @url. Required with schemes. May block, but not
	 * for ever. The library has set @ret_info->size, and the other members
	 * to 0. *@ret_object may stay NULL if @ret_info->path is the only way
	 * to the bytes. Returns 0, or -errno with a sentence in @why, which
	 * names neither credentials nor a query. -ENOENT: there is no such
	 * object. A folder may lack some files: only this errno says that it
	 * does.
	 */
	int (*open)(void *self, const char *url, void **ret_object,
		    struct weir_source_info *ret_info,
		    char why[WEIR_SOURCE_WHY]);
	/*
	 * Free an object. No read is in flight. Required. Any thread; must not
	 * wait for a network.
	 */
	void (*close)(void *object);
	/*
	 * Begin a read, and end it later by read->done. Required. Never
	 * blocks, never fails: a failure is an argument of done. The library
	 * starts reads in the order of their offsets, several at once: a
	 * source may join neighbours to one request. The errno of a source
	 * that retries is that of its last try: the library does not retry.
	 */
	void (*read)(void *object, struct weir_source_read *read);
	/*
	 * The result of the read is not needed any more: end it soon, within a
	 * second, with any result. Another thread of the source may have ended
	 * it just before this call: then do nothing; @read is still valid, and
	 * its priv as the source left it. Optional, but without it a read that
	 * does not end keeps its memory for ever. Any thread; never blocks.
	 */
	void (*cancel)(void *object, struct weir_source_read *read);
	/*
	 * Compare the object with what was opened. Returns 0, -ESTALE with a
	 * sentence if its bytes may be others, or another errno. Optional:
	 * NULL means that each read has made sure. Called at the end of each
	 * load; may block, but not for ever.
	 */
	int (*check)(void *object, char why[WEIR_SOURCE_WHY]);
	/*
	 * Call @found with @arg for each object whose URL is @url, which ends
	 * with a slash, and a name without slashes. Optional. May block, but
	 * not for ever.
	 */
	int (*list)(void *self, const char *url, weir_source_found_fn *found,
		    void *arg, char why[WEIR_SOURCE_WHY]);
	/*
	 * Set parameters, "name=value,...", for what is opened later. Optional:
	 * NULL means that there are none. -EINVAL: a parameter is unknown.
	 */
	int (*configure)(void *self, const char *params,
			 char why[WEIR_SOURCE_WHY]);
	/*
	 * The root has been closed, and so have all objects: free @self, end
	 * threads. Optional.
	 */
	void (*stop)(void *self);
};

/*
 * The library's functions for sources: one constant table for all roots. Any
 * thread may call them.
 */
struct weir_source_host {
	size_t size;
	uint32_t abi;
	uint32_t reserved;
	/* Pass a line to the log function of the root. */
	void (*log)(struct weir *weir, const char *fmt, ...) WEIR_PRINTF(2, 3);
	/* True if @word is in WEIR_DEBUG. */
	bool (*debug)(const struct weir *weir, const char *word);
	/*
	 * As the members of struct weir_backend_host with the same names, but
	 * thread gives no sentence.
	 */
	void *(*calloc)(size_t n, size_t size);
	void (*free)(void *p);
	int64_t (*text)(const char *path, char *buf, size_t room);
	int (*dlopen)(const char *path, void **ret_handle);
	int (*thread)(pthread_t *ret_thread, const char *name,
		      void *(*fn)(void *), void *arg);
	/* The version of the library, "1.2.3", for a User-Agent. */
	const char *version;
};

/*
 * The one symbol of a module: make what it needs, and return its table, which
 * stays as it is until stop, and the @self of its functions. Makes no thread
 * and no connection yet. < 0 with a sentence in @why: it cannot be used here.
 * If the library refuses the table, stop is called at once, unless its ABI is
 * another one.
 */
typedef int weir_source_entry_fn(struct weir *weir,
				 const struct weir_source_host *host,
				 const struct weir_source **ret_source,
				 void **ret_self, char why[WEIR_SOURCE_WHY]);
#define WEIR_SOURCE_ENTRY "weir_source_entry"

/*
 * Add a source to a root: weir_file_open() and weir_model_open() take URLs of
 * its schemes from now on. The table is copied; its names must exist as long
 * as the root. weir_close() calls stop when nothing uses the source any more;
 * if this call fails, stop is not called. Any thread.
 *
 * -EINVAL: the table is invalid. -EPROTO: its ABI is another one. -EEXIST: a
 * source with this name, or one of these schemes, was added before.
 */
WEIR_API int weir_source_add(struct weir *weir,
			     const struct weir_source *source, void *self)
	WEIR_NONNULL(1, 2);

/*
 * Make a file of one object of a source, which need not be added. The table is
 * copied. The file has the object from then on, and calls close when its last
 * user is done; if this call fails, close is not called. @info has bytes and
 * name, and is copied. Any thread; does not block.
 *
 * -EINVAL: the table, or the description, is invalid.
 */
WEIR_API int weir_source_file(struct weir *weir,
			      const struct weir_source *source, void *object,
			      const struct weir_source_info *info,
			      struct weir_file **ret_file)
	WEIR_NONNULL(1, 2, 4, 5) WEIR_NODISCARD;

/*
 * Set parameters, "name=value,...", of the source for @scheme, for what is
 * opened later. Loads its module if that has not been done. Any thread; may
 * block. -ENOENT: there is no source for it. -EINVAL: a parameter is unknown.
 */
WEIR_API int weir_source_configure(struct weir *weir, const char *scheme,
				   const char *params) WEIR_NONNULL(1, 2, 3);

/* A source of a root. */
struct weir_source_desc {
	size_t size;         /* set by the caller */
	const char *name;    /* exists as long as the root */
	const char *schemes; /* "https http s3 ", a blank after each */
	const char *module;  /* the path of its file; NULL: the program's */
	const char *why;     /* "", or why this module was left out: then it has
				neither a name nor schemes */
};

/*
 * Describe source number @i of a root: those that were added or loaded, among
 * them the module weir-http.so, which is loaded now if it is there; then
 * modules that were left out. Any thread; may block. -ENOENT: there are not as
 * many.
 */
WEIR_API int weir_source_describe(struct weir *weir, unsigned i,
				  struct weir_source_desc *ret_desc)
	WEIR_NONNULL(1, 3);

WEIR__END

#endif
