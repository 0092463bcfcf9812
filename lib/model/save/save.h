/* SPDX-License-Identifier: MIT */
/*
 * A save, from weir_save_new() to the end of its last reference.
 *
 *	OPEN		tensors and metadata are added, by one thread at a time
 *	STARTING	weir_save_start() makes the temporary files; it goes
 *			back to OPEN if that fails
 *	STARTED		the save waits for its event, then the engine writes
 *	FINISHED	the files have their names, or the save has failed and
 *			they are gone; waiters are woken
 *
 * It is a timeline with one number, 0, which is completed when it finishes. The
 * references are the program's, one of its own from STARTED to FINISHED, and
 * those of events. If the kernel or a thread may still use the memory of a save
 * (job->leaked), its own reference stays for ever.
 */
#ifndef WEIR__MODEL_SAVE_H
#define WEIR__MODEL_SAVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/save.h>

#include "core/timeline.h"
#include "io/engine.h"
#include "model/format/format.h"
#include "model/save/save_item.h"

/* One of the files; the last may be an index, which has no records. */
struct weir__save_file {
	char *name; /* in the folder */
	char *temp; /* its temporary path; NULL: there is none, or no more */
	bool named; /* it has got its name */
	struct weir_file *file;
	unsigned char *header;
	size_t header_bytes;
	uint64_t data_at; /* where the data section begins */
	uint64_t bytes;   /* size of the whole file */
	struct weir__part_out part;
};

enum weir__save_state {
	WEIR__SAVE_OPEN,
	WEIR__SAVE_STARTING,
	WEIR__SAVE_STARTED,
	WEIR__SAVE_FINISHED
};

struct weir_save {
	struct weir__timeline timeline;
	struct weir *weir; /* referenced by the timeline */
	char *path;
	char *folder; /* the part of path before the last slash, or "." */
	/*
	 * The folder, open from the start to the end: it may be renamed, or the
	 * process may change its working directory meanwhile. -1: not open.
	 */
	int dir;
	const struct weir__format *format;
	uint32_t flags, depth;
	uint64_t shard_bytes;
	_Atomic(enum weir__save_state) state;

	/* What is written: records, names and metadata, without files. */
	struct weir_model *model;
	struct weir__header header;
	struct weir__save_item *item; /* an item for each record */
	size_t cap_items;

	/* Set by weir__save_layout(), which weir_save_info() calls, too. */
	size_t *order; /* numbers of all records, as they are written */
	struct weir__save_file *file;
	uint32_t n_files;
	char *index_name;     /* NULL: the format has no index */
	uint64_t total, data; /* bytes of the files; of the tensors */

	char **earlier; /* n_earlier: shards of the earlier model's index */
	size_t n_earlier;

	struct weir__engine *eng;
	struct weir__job *job;
	struct weir__extent *ext; /* an extent for each file */
	struct weir_dev **dev;    /* n_devs: whose memory is saved */
	size_t n_devs, cap_devs;
	struct weir__waiter waiter;
	struct weir__timeline *after; /* the event to wait for; NULL: none */
	uint64_t after_number;
	struct weir__task task; /* begin_job, then save_end */

	_Atomic bool cancelled;
	_Atomic bool claimed;  /* a thread writes the failure */
	_Atomic bool failed;   /* the failure is there */
	_Atomic bool finished; /* number 0 is done or failed */
	struct weir_failure failure;

	int64_t begun;
	_Atomic int64_t elapsed;
	_Atomic uint64_t written, direct, in_place;
	int64_t sync_ns;
	uint32_t leftovers;
	char note[512]; /* a note of the report; read after the end */
};

/*
 * Fail the save for the first cause; later ones are dropped. @number is that of
 * a tensor, or the number of tensors. Returns @err.
 */
int weir__save_fail(struct weir_save *s, int err, int32_t native,
		    uint64_t number, const char *fmt, ...)
	__attribute__((cold, format(printf, 5, 6)));

/* 0: tensors and metadata may be added. -EINVAL: the save has been started. */
int weir__save_check_open(const struct weir_save *s);

/*
 * save_layout.c: divide the records into files, with their headers and offsets.
 * May be called again when more was added. -ENOMEM, -EOPNOTSUPP.
 */
int weir__save_layout(struct weir_save *s);
void weir__save_layout_free(struct weir_save *s);
/*
 * Choose the names of the files, of which shards get new ones. The folder is
 * open. May be called again before they are used. -ENOMEM, -ENAMETOOLONG.
 */
int weir__save_choose_names(struct weir_save *s);
/* True if @name is one that a shard of a save to this path may have. */
bool weir__save_is_shard(const struct weir_save *s, const char *name);
/* The last component of the path; whether it ends as the format's files do. */
const char *weir__save_name(const struct weir_save *s);
bool weir__save_has_suffix(const struct weir_save *s);

/* save_files.c: make the temporary files. Blocks. */
int weir__save_files_make(struct weir_save *s);
/*
 * All bytes are written: cut the files to their sizes, make them durable and
 * give them their names. Blocks. Returns -errno with a sentence.
 */
int weir__save_files_publish(struct weir_save *s);
/* Remove the files that have temporary names. */
void weir__save_files_remove(struct weir_save *s);
/*
 * Close the folder, and the files unless @leaked: a thread may still write to
 * their descriptors. Blocks, while a file system frees the blocks of a file
 * that was removed.
 */
void weir__save_files_close(struct weir_save *s, bool leaked);

/* save_earlier.c: the model that is replaced; see there. Block. */
/* 1; 0: there is an index that cannot be read, and is left alone; -ENOMEM. */
int weir__save_earlier_find(struct weir_save *s);
/* True if the index of the earlier model has the shard @name. */
bool weir__save_earlier_has(const struct weir_save *s, const char *name);
void weir__save_earlier_remove(struct weir_save *s);
void weir__save_earlier_free(struct weir_save *s);

static inline bool weir__save_has_index(const struct weir_save *s)
{
	return s->n_files > 1 && s->index_name;
}

/* save_fill.c: job->fill. */
int weir__save_fill(struct weir__job *job, size_t ext, uint64_t lo, uint64_t hi,
		    unsigned char *room, unsigned char **ret_bytes);
/* The number of the record that has byte @at of file @file, or the next one. */
size_t weir__save_record_at(const struct weir_save *s, size_t file,
			    uint64_t at);

#endif
