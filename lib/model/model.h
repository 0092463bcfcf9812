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

struct weir__pair { /* of metadata; offsets in model->text */
	uint64_t key, value;
	uint32_t key_len, value_len;
};

struct weir_model {
	_Atomic uint32_t refs;
	struct weir *weir;
	char *path; /* file or index, as resolved */
	const char *format;
	struct weir_file **file; /* n_files shards */
	uint32_t n_files;
	struct weir__record *rec; /* n_recs, by shard and offset */
	size_t n_recs;
	int64_t *dims;
	size_t n_dims;
	char *text; /* names, keys, values */
	size_t text_len;
	struct weir__pair *meta;
	size_t n_meta;
	uint32_t *hash;   /* name -> record + 1, open addressing */
	size_t hash_size; /* a power of two */
	uint64_t bytes;
	uint64_t unlisted;
	uint64_t total_size;
};

struct weir_model *weir__model_ref(struct weir_model *model);
void weir__model_put(struct weir_model *model);

static inline const char *weir__record_name(const struct weir_model *m,
					    size_t i)
{
	return m->text + m->rec[i].name;
}

/* Index of the record of that name, or (size_t)-1. */
size_t weir__model_lookup(const struct weir_model *model, const char *name,
			  size_t len);

#endif
