/* SPDX-License-Identifier: MIT */
/* A fetch: files of a model at a URL are copied into a folder. */
#ifndef WEIR__FETCH_H
#define WEIR__FETCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/fetch.h>
#include <weir/source.h>

#include "cache/partial.h"
#include "core/error.h"
#include "core/sys.h"

struct weir_file;

/* The folder of the states, in the folder of the files. */
#define WEIR__FETCH_STATES ".weir"

/* Where a block of a file is. */
enum weir__fetch_block {
	WEIR__FETCH_MISSING,
	WEIR__FETCH_FLYING, /* requested */
	WEIR__FETCH_THERE   /* in the partial file, perhaps not compared yet */
};

/*
 * A file. The thread that fetches prepares the files in order, and changes all
 * members; the checker reads them from then on, and both change block[], cursor
 * and ended, under the lock of the fetch.
 */
struct weir__fetch_file {
	struct weir_file *file; /* the object */
	char *name;             /* in the folder */
	struct weir__partial_id id;
	bool prepared;
	bool older; /* replaces an older version, or another file */
	bool ended; /* in its place */
	bool kept;  /* it was in its place before */
	struct weir__partial *part; /* NULL: not prepared, or ended */
	uint8_t *block;             /* enum weir__fetch_block */
	uint32_t n_blocks;
	uint32_t cursor; /* no block before it is MISSING */
};

struct weir__fetch_list {
	struct weir__fetch_file *file;
	size_t n, room;
};

struct weir__fetch_read;

struct weir__fetch {
	struct weir *weir;
	struct weir_fetch_opts opts;
	const char *path; /* the folder, for sentences */
	int dir;          /* the folder */
	int states;       /* WEIR__FETCH_STATES in it */
	struct weir__fetch_list list;

	pthread_mutex_t lock;          /* guards what follows */
	pthread_cond_t cond;           /* any of it has changed */
	struct weir__fetch_read *done; /* reads that their source has ended */
	unsigned flying;               /* reads that it has */
	int err;                       /* the first failure */
	char why[WEIR__ERROR_MAX];
	struct weir_fetch_progress progress;
	uint32_t sums;

	/* Of the thread that fetches. */
	size_t first; /* no block of the files before it is MISSING */
	struct weir__fetch_read *slot;
	unsigned n_slots;
	int64_t told;          /* when progress() was called last */
	int64_t looked;        /* when it looked for late reads last */
	_Atomic int64_t moved; /* when bytes have arrived last */
};

/* files.c */

/*
 * List the files of the model at @url, and open them. Blocks. Fails with a
 * sentence.
 */
int weir__fetch_list(struct weir *weir, const char *url,
		     struct weir__fetch_list *ret_list);
void weir__fetch_list_free(struct weir__fetch_list *list);

/* place.c: files in the folder. The lock is not held. */

/*
 * Find out whether the file is in its place already, else open its partial
 * file. Blocks while it compares. Fails with a sentence.
 */
int weir__fetch_prepare(struct weir__fetch *f, struct weir__fetch_file *file);
/*
 * Called by the checker: compare all blocks as they arrive, and the whole, then
 * put the file in its place. Returns early if the fetch has failed.
 */
int weir__fetch_check(struct weir__fetch *f, struct weir__fetch_file *file);

/* transfer.c */

/* Copy the files of the list. Fails with a sentence. */
int weir__fetch_run(struct weir__fetch *f);
/* Call the program's function. True: it ends the fetch. */
bool weir__fetch_tell(struct weir__fetch *f);
/* Record the sentence of a failure of this thread. */
void weir__fetch_fail(struct weir__fetch *f, int err);

#endif
