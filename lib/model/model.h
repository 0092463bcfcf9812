/* SPDX-License-Identifier: MIT */
/*
 * The parsed tables of a model, whatever its format: what the readers of
 * formats (safetensors.c) fill and what plan, load and weights read.
 *
 * A record is small (under 100 bytes) because models have up to a million of
 * them: shapes live in one array, names and strings in one arena.
 */
#ifndef WEIR__MODEL_H
#define WEIR__MODEL_H

#include <stdatomic.h>
#include <stdint.h>

#include <weir/model.h>

#include "io/file.h"
#include "model/meta.h"
#include "model/table.h"

struct weir__format;

struct weir__record {
	uint64_t name; /* offset in model->text; followed by a NUL */
	uint32_t name_len;
	uint32_t shard;
	uint16_t dtype;
	uint16_t ndim;
	uint32_t shape; /* index in model->dims */
	uint64_t off;   /* in the shard's file */
	uint64_t bytes;
};

/*
 * A model is built by the one thread that opens it and never changes
 * afterwards: any number of threads read it without a lock. References: the
 * caller's, and one of each plan, load and weights made from it.
 */
struct weir_model {
	_Atomic uint32_t refs;
	struct weir *weir;
	char *path;                        /* file or index, as resolved */
	const struct weir__format *format; /* of all shards; format.h */
	struct weir_file **file;           /* n_files shards */
	uint32_t n_files;
	size_t cap_files;
	struct weir__record *rec; /* n_recs, by shard and offset */
	size_t n_recs, cap_recs;
	int64_t *dims;
	size_t n_dims, cap_dims;
	char *text; /* names, keys, values */
	size_t text_len, cap_text;
	struct weir__pair *meta;
	size_t n_meta, cap_meta;
	/*
	 * Of rec. While a model is built: empty, or of the first of them, whose
	 * numbers have not changed since.
	 */
	struct weir__names names;
	struct weir__names keys; /* of meta */
	uint64_t bytes;
	uint64_t unlisted;
	uint64_t total_size;
};

/* An empty model, to be filled by a reader. -ENOMEM, without a sentence. */
int weir__model_new(struct weir *weir, struct weir_model **ret_model);
/* Append a shard, which the model closes. -ENOMEM, with a sentence. */
int weir__model_add_file(struct weir_model *model, struct weir_file *file);
/*
 * The records are all there and in order: give back what the arrays have too
 * much, add up the bytes, and build the hash of the names.
 */
int weir__model_finish(struct weir_model *model);

/* Open a file of a model, whose later changes will be seen. May block. */
int weir__model_file(struct weir *weir, const char *path,
		     struct weir_file **ret_file);

/*
 * As weir__file_read and weir__file_read_front. -ESTALE: the file has changed
 * since it was opened, and what was read may be of two versions.
 */
int weir__model_read(struct weir_file *file, void *buf, size_t n, uint64_t off);
int weir__model_read_front(struct weir_file *file, void *buf, size_t n);

/*
 * What the path of a directory stands for: the one file in it that is a model.
 * *ret_path is freed by the caller. -ENOENT: there is none. -EINVAL: there are
 * several. The sentence lists what is there.
 */
int weir__model_find_in(const char *dir, char **ret_path);

struct weir_model *weir__model_ref(struct weir_model *model);
void weir__model_put(struct weir_model *model);

static inline const char *weir__record_name(const struct weir_model *m,
					    size_t i)
{
	return m->text + m->rec[i].name;
}

/* For tables of names whose owner is a model. */
struct weir__str weir__record_str(const void *model, uint32_t number);

/* Index of the record of that name, or (size_t)-1. */
size_t weir__model_lookup(const struct weir_model *model, const char *name,
			  size_t len);

#endif
