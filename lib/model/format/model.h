/* SPDX-License-Identifier: MIT */
/*
 * The parsed tables of a model. The readers of formats (format.h) fill them;
 * plan, load and weights read them.
 *
 * A record is small (under 100 bytes) because models have up to a million of
 * them: all shapes are in one array, all names and strings in another.
 */
#ifndef WEIR__MODEL_H
#define WEIR__MODEL_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/model.h>

#include "io/file.h"
#include "model/format/meta.h"
#include "model/format/name_table.h"

struct weir__format;

/* the limit if weir_model_opts.memory is 0 */
#define WEIR__MODEL_MEMORY ((uint64_t)256 << 20)

struct weir__record {
	uint64_t name; /* offset in model->text; followed by a NUL */
	uint32_t name_len;
	uint32_t shard;
	uint16_t dtype;
	uint16_t ndim;
	uint32_t shape; /* index in model->dims */
	uint64_t off;   /* offset in the shard's file */
	uint64_t bytes;
};

/* An array of strings in model->text, each after its length: meta.c. */
struct weir__strings {
	uint64_t at;    /* offset of the first string's length */
	uint64_t bytes; /* bytes of the index, as they count for the budget */
	_Atomic(uint64_t *) index; /* where each string's length is; NULL: no
				      program has needed it */
};

/*
 * Memory that users of the model keep with it for later, such as a freed plan;
 * at most one. Closing the model frees it.
 */
struct weir__model_spare {
	void (*free)(struct weir__model_spare *spare);
};

/*
 * The thread that opens a model builds it. Then nothing changes but its spare
 * memory and the indexes of its arrays, and any number of threads use it
 * without a lock. It is referenced by the caller and by each plan, load and
 * weights made from it, and references its files and the root.
 */
struct weir_model {
	_Atomic uint32_t refs;
	struct weir *weir;
	char *path; /* path of the file or index, maybe found in a directory */
	char *url;  /* the same with its query; NULL: it is no URL */
	const struct weir__format *format; /* format of all shards */
	struct weir_file **file;           /* n_files shards */
	uint32_t n_files;
	size_t cap_files;
	struct weir__record *rec; /* n_recs, by shard and offset */
	size_t n_recs, cap_recs;
	int64_t *dims;
	size_t n_dims, cap_dims;
	/*
	 * Names, keys, values; of some formats (gguf.h) whole headers, in which
	 * these are.
	 */
	char *text;
	size_t text_len, cap_text;
	struct weir__pair *meta;
	size_t n_meta, cap_meta;
	struct weir__value *item; /* items of arrays of strings or arrays */
	size_t n_items, cap_items;
	struct weir__strings *strings;
	size_t n_strings, cap_strings;
	/*
	 * Bytes of headers and tables (model.c): bytes in use, bytes up to
	 * which they may grow without a further check, and bytes claimed from
	 * the budget.
	 */
	uint64_t held, held_ok, claimed;
	uint64_t limit;     /* limit of held */
	bool held_refused;  /* the sentence of an -ENOMEM is set */
	uint32_t n_headers; /* headers begun, while the model is built */
	uint32_t n_parts; /* files of a split model (split_files.h), or several
			    open files; 0: not split */
	/*
	 * Names of rec. While the model is built it is either empty or has the
	 * first records, whose numbers are still right.
	 */
	struct weir__names names;
	struct weir__names keys; /* keys of meta */
	uint64_t bytes;          /* bytes of all tensors */
	uint64_t unlisted;       /* tensors that the index leaves out */
	uint64_t total_size;     /* total_size of the index, or 0 */
	_Atomic(struct weir__model_spare *) spare; /* spare memory, or NULL */
};

/* Make an empty model, which a reader fills. -ENOMEM, without a sentence. */
int weir__model_new(struct weir *weir, struct weir_model **ret_model);
/* Append @file, which is referenced, as a shard. -ENOMEM. */
int weir__model_add_file(struct weir_model *model, struct weir_file *file);
/*
 * All records are there, in order: shrink the arrays to what they hold, add up
 * the bytes, and build the table of names. -ENOMEM. -EOPNOTSUPP: 2^64 bytes.
 * -EBADMSG: two shards have a tensor of the same name.
 */
int weir__model_finish(struct weir_model *model);

/*
 * Open a file of a model. Blocks until the clock of its file system has moved
 * on since the last write, so that every later write changes its times.
 */
int weir__model_file(struct weir *weir, const char *path,
		     struct weir_file **ret_file);

/*
 * Read like weir__file_read and weir__file_read_front. -ESTALE: the file has
 * changed since it was opened, so the bytes may be of two versions. Both block.
 */
int weir__model_read(struct weir_file *file, void *buf, size_t n, uint64_t off);
int weir__model_read_front(struct weir_file *file, void *buf, size_t n);

/*
 * Find the one file of a directory that is a model; the caller frees *ret_path.
 * -ENOENT: there is none. -EINVAL: there are several. The sentence lists the
 * files that are there. Blocks.
 */
int weir__model_find_in(const char *dir, char **ret_path);
/* True if the URL ends in the name of a file of a format, or an index. */
bool weir__url_names_model(const char *url);
/*
 * Open the file to read first of the model in the folder @url. First names that
 * nearly all models have are tried, then the source lists the folder; at last
 * @url is opened as a file.
 */
int weir__model_open_folder(struct weir *weir, const char *url,
			    struct weir_file **ret_file);

/* Ask whether m->held bytes are allowed. -ENOMEM, with m->held_refused. */
int weir__model_claim(struct weir_model *m);
/* Count @bytes of memory, before or when they are allocated. -ENOMEM. */
static inline int weir__model_hold(struct weir_model *m, uint64_t bytes)
{
	m->held += bytes;
	return m->held <= m->held_ok ? 0 : weir__model_claim(m);
}
/* Count the bytes no longer: they have been freed. */
static inline void weir__model_let_go(struct weir_model *m, uint64_t bytes)
{
	m->held -= bytes;
}

/* meta.c: make an array of @n strings, which begins at @at. -ENOMEM. */
int weir__strings_add(struct weir_model *m, uint64_t at, uint32_t n,
		      uint64_t *ret_number);
void weir__strings_free(struct weir_model *m);

struct weir_model *weir__model_ref(struct weir_model *model);
void weir__model_put(struct weir_model *model);

static inline const char *weir__record_name(const struct weir_model *m,
					    size_t i)
{
	return m->text + m->rec[i].name;
}

/* The name function of tables of names whose arg is a model. */
struct weir__str weir__record_str(const void *model, uint32_t number);

/* Return the number of the record of that name, or WEIR__NONE. */
size_t weir__model_lookup(const struct weir_model *model, const char *name,
			  size_t len);

#endif
