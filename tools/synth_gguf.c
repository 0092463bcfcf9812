/* SPDX-License-Identifier: MIT */
#include "synth.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>

/* Types of metadata. */
enum {
	GGUF_U16 = 2,
	GGUF_I32 = 5,
	GGUF_STRING = 8
};

/* GGML's number of the dtype; -1: GGUF lacks it. */
static int32_t ggml_number(const struct synth_dtype *dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	for (unsigned i = 1; i < WEIR_DTYPE_GGML; i++)
		if (weir_dtype_info((enum weir_dtype)i, &info) >= 0 &&
		    !strcmp(info.name, dtype->name))
			return info.ggml;
	return -1;
}

void synth_gguf_filter(struct synth_model *m)
{
	size_t kept = 0;

	for (size_t i = 0; i < m->count; i++) {
		struct synth_tensor *t = &m->tensors[i];

		if (ggml_number(t->dtype) >= 0) {
			m->tensors[kept++] = *t;
			continue;
		}
		m->bytes -= t->bytes;
		free(t->name);
	}
	m->count = kept;
}

static void put(FILE *to, uint64_t v, size_t bytes)
{
	v = htole64(v);
	fwrite(&v, 1, bytes, to);
}

static void put_string(FILE *to, const char *s)
{
	put(to, strlen(s), 8);
	fputs(s, to);
}

static void put_pair(FILE *to, const char *key, uint32_t type, uint64_t v,
		     size_t bytes)
{
	put_string(to, key);
	put(to, type, 4);
	put(to, v, bytes);
}

/* The innermost dimension is first. */
static void put_info(FILE *to, const struct synth_tensor *t)
{
	put_string(to, t->name);
	put(to, t->ndim, 4);
	for (unsigned i = t->ndim; i--;)
		put(to, t->shape[i], 8);
	put(to, (uint64_t)ggml_number(t->dtype), 4);
	put(to, t->offset, 8);
}

char *synth_gguf_header(const struct synth_model *m,
			const struct synth_tensor *t, size_t n, uint64_t shards,
			size_t *ret_size)
{
	char *text = NULL;
	FILE *to = open_memstream(&text, ret_size);

	if (!to)
		return NULL;
	fputs("GGUF", to);
	put(to, 3, 4);
	put(to, n, 8);
	put(to, shards > 1 ? 4 : 1, 8);
	put_string(to, "general.architecture");
	put(to, GGUF_STRING, 4);
	put_string(to, "synth");
	if (shards > 1) {
		put_pair(to, "split.no", GGUF_U16, t->shard, 2);
		put_pair(to, "split.count", GGUF_U16, shards, 2);
		put_pair(to, "split.tensors.count", GGUF_I32, m->count, 4);
	}
	for (size_t i = 0; i < n; i++)
		put_info(to, &t[i]);
	while (ftell(to) % SYNTH_GGUF_ALIGN)
		putc(0, to);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}
