/* SPDX-License-Identifier: MIT */
#include "synth.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Assign the tensors to shards in the order of the architecture. Each shard
 * ends where its share of the bytes is reached; no shard is empty.
 */
static void assign_shards(struct synth_model *m, uint64_t shards)
{
	uint64_t bytes = 0, k = 0;

	for (size_t i = 0; i < m->count; i++) {
		struct synth_tensor *t = &m->tensors[i];
		unsigned __int128 share;

		t->shard = (uint32_t)k;
		bytes += t->bytes;
		share = (unsigned __int128)m->bytes * (k + 1) / shards;
		if (k + 1 < shards &&
		    (bytes >= share || m->count - i - 1 == shards - k - 1))
			k++;
	}
}

/* Order in a file: wider elements first, so that all are aligned; by name. */
static int compare_places(const void *va, const void *vb)
{
	const struct synth_tensor *a = va, *b = vb;

	if (a->shard != b->shard)
		return a->shard < b->shard ? -1 : 1;
	if (a->dtype->bits != b->dtype->bits)
		return a->dtype->bits > b->dtype->bits ? -1 : 1;
	return strcmp(a->name, b->name);
}

void synth_lay_out(struct synth_model *m, uint64_t shards, uint64_t align)
{
	uint64_t offset = 0;

	assign_shards(m, shards);
	qsort(m->tensors, m->count, sizeof(*m->tensors), compare_places);
	for (size_t i = 0; i < m->count; i++) {
		struct synth_tensor *t = &m->tensors[i];

		if (i && t->shard != t[-1].shard)
			offset = 0;
		offset = (offset + align - 1) / align * align;
		t->offset = offset;
		offset += t->bytes;
	}
}

/* The names of presets contain nothing that JSON escapes. */
static void put_entry(FILE *to, const struct synth_tensor *t)
{
	fprintf(to, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name,
		t->dtype->name);
	for (unsigned i = 0; i < t->ndim; i++)
		fprintf(to, "%s%llu", i ? "," : "",
			(unsigned long long)t->shape[i]);
	fprintf(to, "],\"data_offsets\":[%llu,%llu]}",
		(unsigned long long)t->offset,
		(unsigned long long)(t->offset + t->bytes));
}

char *synth_header(const struct synth_tensor *t, size_t n, size_t *ret_size)
{
	char *text = NULL;
	uint64_t length = 0;
	FILE *to = open_memstream(&text, ret_size);

	if (!to)
		return NULL;
	fwrite(&length, sizeof(length), 1, to);
	fputs("{\"__metadata__\":{\"format\":\"pt\"}", to);
	for (size_t i = 0; i < n; i++)
		put_entry(to, &t[i]);
	putc('}', to);
	while (ftell(to) % 8)
		putc(' ', to);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	length = htole64(*ret_size - sizeof(length));
	memcpy(text, &length, sizeof(length));
	return text;
}

void synth_shard_name(uint32_t shard, uint64_t shards, const char *suffix,
		      char name[SYNTH_SHARD_NAME])
{
	if (shards == 1)
		snprintf(name, SYNTH_SHARD_NAME, "model%s", suffix);
	else
		snprintf(name, SYNTH_SHARD_NAME, "model-%05u-of-%05u%s",
			 shard + 1, (unsigned)shards, suffix);
}

static int compare_names(const void *va, const void *vb)
{
	const struct synth_tensor *a = va, *b = vb;

	return strcmp(a->name, b->name);
}

char *synth_index(struct synth_model *m, uint64_t shards, size_t *ret_size)
{
	char name[SYNTH_SHARD_NAME], *text = NULL;
	FILE *to = open_memstream(&text, ret_size);

	if (!to)
		return NULL;
	qsort(m->tensors, m->count, sizeof(*m->tensors), compare_names);
	fprintf(to,
		"{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n"
		"  \"weight_map\": {",
		(unsigned long long)m->bytes);
	for (size_t i = 0; i < m->count; i++) {
		synth_shard_name(m->tensors[i].shard, shards, ".safetensors",
				 name);
		fprintf(to, "%s\n    \"%s\": \"%s\"", i ? "," : "",
			m->tensors[i].name, name);
	}
	fputs("\n  }\n}\n", to);
	if (fclose(to)) {
		free(text);
		return NULL;
	}
	return text;
}
