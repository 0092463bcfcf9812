/* SPDX-License-Identifier: MIT */
/* Models that are copied from URLs into a folder. */
#ifndef WEIR_FETCH_H
#define WEIR_FETCH_H

#include <weir/base.h>

WEIR__BEGIN

struct weir_fetch_progress {
	size_t size;       /* set by the library */
	uint64_t bytes;    /* of all files */
	uint64_t done;     /* in their places, or in partial files */
	uint64_t received; /* by this call */
	uint32_t files;    /* how many */
	uint32_t ended;    /* of these, in their places */
};

/*
 * Called several times a second by the thread that fetches. Not 0: end with
 * -ECANCELED; what has arrived is kept. The function may not call weir.
 */
typedef int weir_fetch_fn(void *arg,
			  const struct weir_fetch_progress *progress);

struct weir_fetch_opts {
	size_t size;
	uint32_t flags;          /* WEIR_FETCH_* */
	uint32_t reserved;       /* 0 */
	weir_fetch_fn *progress; /* NULL: none */
	void *arg;               /* first argument of @progress */
};
WEIR__DECLARE_OPTS_INIT(weir_fetch_opts)
#define WEIR_FETCH_OPTS_INIT WEIR__OPTS_INIT(weir_fetch_opts)

/* Replace files that are in the way, too. */
#define WEIR_FETCH_REPLACE 1u

struct weir_fetch_report {
	size_t size;       /* set by the caller */
	uint64_t bytes;    /* of all files */
	uint64_t received; /* of these, by this call: the rest was there */
	uint32_t files;    /* how many */
	uint32_t kept;     /* files that were there already, whole */
	uint32_t sums;     /* files whose SHA-256 is the one that the source
			      publishes */
	uint32_t reserved; /* 0 */
};

/*
 * Copy the model at @url, as weir_model_open() takes it, into the folder @dir,
 * which is made if it is not there. For a folder and an index these are the
 * files with tensors, the index, and small files such as config.json and the
 * tokenizer; else the files with tensors alone.
 *
 * A file gets its name when it is whole, was compared with what the source
 * says about it, and is on the disk. Until then it is NAME.part, and a later
 * call, also after the process was killed, requests only what is missing. A
 * file of the same object that is whole stays; one that weir_fetch() has put
 * there from the same URL, and that nobody has changed, is replaced if the
 * object has changed. Another file of that name stays, and the call fails.
 *
 * Any thread; blocks. One call at a time fetches into a folder: others wait.
 *
 * -EINVAL: @url is no URL, or a flag is not known. -EEXIST: a file is in the
 * way. -ESTALE: an object has changed since the call began. -EBADMSG: a file
 * does not have the SHA-256 that the source publishes, and was removed; or a
 * name would be outside of @dir. -ENOSPC and other errors of write(2).
 * -ECANCELED. Errors of weir_model_open() and of sources.
 */
WEIR_API int weir_fetch(struct weir *weir, const char *url, const char *dir,
			const struct weir_fetch_opts *opts,
			struct weir_fetch_report *ret_report)
	WEIR_NONNULL(1, 2, 3);

WEIR__END

#endif
