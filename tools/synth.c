/* SPDX-License-Identifier: MIT */
#include "synth.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "args.h"
#include "command.h"
#include "output.h"
#include "presets.h"
#include "progress.h"
#include "signals.h"

static const char help[] =
	"usage: weir synth PRESET OUT [OPTION]...\n"
	"Write a model with the tensors of a known architecture and random bytes.\n"
	"If OUT ends in .safetensors or .gguf it is a file, else a directory with\n"
	"one file, or with shards (and their index). Defaults are in brackets.\n"
	"\n"
	"PRESET     tinyllama-1.1b   201 tensors, 2.2 GB\n"
	"           llama-3.1-8b     291 tensors, 16 GB\n"
	"           qwen3-30b-a3b    18867 tensors, 61 GB\n"
	"           tiny             all ranks, most dtypes, a few MB\n"
	"           many             --count tensors of 32 KiB\n"
	"\n"
	"  --count N     number of tensors of the preset many\n"
	"  --scale F     multiply the first dimension of every tensor by F,\n"
	"                rounded up, at least 1\n"
	"  --shards N    distribute the tensors over N files, by bytes [1]\n"
	"  --format F    in a directory: safetensors or gguf [safetensors];\n"
	"                tensors of dtypes that GGUF lacks are left out\n"
	"  --seed N      seed of the random bytes [0]\n"
	"  --force       replace an existing model\n";

enum {
	SYNTH_BUFFER = 1 << 20,
	SYNTH_SHARDS = 99999
};
/* Longest header that the format allows. */
static const uint64_t header_max = 100 * 1000 * 1000;

struct synth_args {
	const char *preset, *out;
	uint64_t count, shards, seed;
	double scale;
	bool force;
	bool single; /* OUT is a file */
	bool gguf;
	const char *format; /* --format, or NULL */
};

/* A model that is being written. */
struct synth {
	const struct synth_args *args;
	struct synth_model model;
	struct synth_files files;
	struct progress bar;
	uint64_t written; /* bytes of tensors */
	uint64_t at;      /* offset in the data of the shard */
	unsigned char *buffer;
	size_t used;
};

enum {
	SYNTH_COUNT = ARGS_OPTION,
	SYNTH_SCALE,
	SYNTH_SHARD,
	SYNTH_FORMAT,
	SYNTH_SEED,
	SYNTH_FORCE
};

static const struct option options[] = {
	{ "count", required_argument, NULL, SYNTH_COUNT },
	{ "scale", required_argument, NULL, SYNTH_SCALE },
	{ "shards", required_argument, NULL, SYNTH_SHARD },
	{ "format", required_argument, NULL, SYNTH_FORMAT },
	{ "seed", required_argument, NULL, SYNTH_SEED },
	{ "force", no_argument, NULL, SYNTH_FORCE },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static int take_format(const struct args *args, struct synth_args *a)
{
	a->format = optarg;
	a->gguf = !strcmp(optarg, "gguf");
	if (a->gguf || !strcmp(optarg, "safetensors"))
		return 0;
	return fail_usage(args->command,
			  "--format is '%s', not safetensors or gguf", optarg);
}

static int take_option(const struct args *args, int c, void *to)
{
	struct synth_args *a = to;

	switch (c) {
	case SYNTH_COUNT:
		return args_number(args, "--count", 1, UINT32_MAX, &a->count);
	case SYNTH_SCALE:
		return args_factor(args, "--scale", &a->scale);
	case SYNTH_SHARD:
		return args_number(args, "--shards", 1, SYNTH_SHARDS,
				   &a->shards);
	case SYNTH_FORMAT:
		return take_format(args, a);
	case SYNTH_SEED:
		return args_number(args, "--seed", 0, UINT64_MAX, &a->seed);
	case SYNTH_FORCE:
		a->force = true;
		return 0;
	}
	return EXIT_USAGE;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

/* The name of a file decides its format. */
static int check_format(const struct args *args, struct synth_args *a)
{
	bool gguf = ends_with(a->out, ".gguf");

	a->single = gguf || ends_with(a->out, ".safetensors");
	if (a->single && a->format && gguf != a->gguf)
		return fail_usage(args->command,
				  "'%s' is not a name of a %s file", a->out,
				  a->gguf ? "GGUF" : "safetensors");
	if (a->single)
		a->gguf = gguf;
	return 0;
}

static int check_args(const struct args *args, struct synth_args *a)
{
	bool many = !strcmp(a->preset, "many");
	int r = check_format(args, a);

	if (r)
		return r;
	if (many && !a->count)
		return fail_usage(args->command,
				  "the preset many needs --count");
	if (!many && a->count)
		return fail_usage(args->command,
				  "--count is only for the preset many");
	if (a->single && a->shards > 1)
		return fail_usage(
			args->command,
			"'%s' is one file, --shards needs a directory", a->out);
	return 0;
}

static int parse_args(const struct args *args, struct synth_args *a)
{
	static const char *const operands[] = { "PRESET", "OUT" };
	int r = args_options(args, take_option, a);

	if (r)
		return r;
	r = args_operands(args, 2, operands);
	if (r)
		return r;
	a->preset = args->argv[optind];
	a->out = args->argv[optind + 1];
	return check_args(args, a);
}

static uint64_t mix(uint64_t x)
{
	x ^= x >> 30;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 27;
	x *= UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* The bytes of a tensor depend on the seed and its name, not on its file. */
static uint64_t tensor_key(uint64_t seed, const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return mix(hash ^ mix(seed + 1));
}

static uint64_t random_word(uint64_t key, uint64_t i)
{
	return htole64(mix(key + (i + 1) * UINT64_C(0x9e3779b97f4a7c15)));
}

/*
 * Bytes [@off, @off + @n) of the tensor of @key. Each word is computed from its
 * index, so that they may be made in any order.
 */
static void fill_random(uint64_t key, uint64_t off, unsigned char *buf,
			size_t n)
{
	uint64_t word;

	for (; n && off % 8; off++, n--) {
		word = random_word(key, off / 8);
		*buf++ = ((const unsigned char *)&word)[off % 8];
	}
	for (; n >= 8; off += 8, buf += 8, n -= 8) {
		word = random_word(key, off / 8);
		memcpy(buf, &word, 8);
	}
	if (n) {
		word = random_word(key, off / 8);
		memcpy(buf, &word, n);
	}
}

static int flush_buffer(struct synth *s, int fd)
{
	size_t n = s->used;

	s->used = 0;
	if (signals_caught())
		return EXIT_FAILURE;
	progress_show(&s->bar, s->written);
	return synth_files_write(&s->files, fd, s->buffer, n);
}

/* Zeros up to offset @to in the data. */
static int write_padding(struct synth *s, int fd, uint64_t to)
{
	for (; s->at < to; s->at++) {
		s->buffer[s->used++] = 0;
		if (s->used == SYNTH_BUFFER && flush_buffer(s, fd))
			return EXIT_FAILURE;
	}
	return 0;
}

static int write_tensor(struct synth *s, int fd, const struct synth_tensor *t)
{
	uint64_t key = tensor_key(s->args->seed, t->name), off = 0;

	if (write_padding(s, fd, t->offset))
		return EXIT_FAILURE;
	s->at += t->bytes;
	while (off < t->bytes) {
		size_t n = SYNTH_BUFFER - s->used;

		if (n > t->bytes - off)
			n = t->bytes - off;
		fill_random(key, off, s->buffer + s->used, n);
		s->used += n;
		s->written += n;
		off += n;
		if (s->used == SYNTH_BUFFER && flush_buffer(s, fd))
			return EXIT_FAILURE;
	}
	return 0;
}

/* @bytes of data, padding included. */
static int write_data(struct synth *s, int fd, const struct synth_tensor *t,
		      size_t n, uint64_t bytes)
{
	s->at = 0;
	for (size_t i = 0; i < n; i++)
		if (write_tensor(s, fd, &t[i]))
			return EXIT_FAILURE;
	if (write_padding(s, fd, bytes))
		return EXIT_FAILURE;
	return flush_buffer(s, fd);
}

static uint64_t alignment(const struct synth_args *a)
{
	return a->gguf ? SYNTH_GGUF_ALIGN : 1;
}

static bool has_index(const struct synth_args *a)
{
	return a->shards > 1 && !a->gguf;
}

/* Write the file of one shard, which has the @n tensors from @t on. */
static int write_shard(struct synth *s, const struct synth_tensor *t, size_t n)
{
	const struct synth_args *a = s->args;
	uint64_t bytes = t[n - 1].offset + t[n - 1].bytes;
	char name[SYNTH_SHARD_NAME], *header;
	size_t size;
	int fd, r;

	bytes = (bytes + alignment(a) - 1) / alignment(a) * alignment(a);
	header = a->gguf ? synth_gguf_header(&s->model, t, n, a->shards, &size)
			 : synth_header(t, n, &size);
	if (!header)
		return fail_memory();
	synth_shard_name(t->shard, a->shards,
			 a->gguf ? ".gguf" : ".safetensors", name);
	if (!a->gguf && size - 8 > header_max)
		r = fail("%s: %s: a header of %zu bytes exceeds the format's "
			 "limit of %llu; use more --shards",
			 a->out, name, size - 8,
			 (unsigned long long)header_max);
	else
		r = synth_files_create(&s->files, a->single ? NULL : name,
				       size + bytes, &fd);
	if (r == 0) {
		r = synth_files_write(&s->files, fd, header, size);
		if (r == 0)
			r = write_data(s, fd, t, n, bytes);
		r = synth_files_close(&s->files, fd, r);
	}
	free(header);
	return r;
}

/* Created last, and so renamed last: when it exists, all shards do. */
static int write_index(struct synth *s)
{
	size_t size;
	char *text = synth_index(&s->model, s->args->shards, &size);
	int fd, r;

	if (!text)
		return fail_memory();
	r = synth_files_create(&s->files, "model.safetensors.index.json", size,
			       &fd);
	if (r == 0) {
		r = synth_files_write(&s->files, fd, text, size);
		r = synth_files_close(&s->files, fd, r);
	}
	free(text);
	return r;
}

static int write_model(struct synth *s)
{
	const struct synth_model *m = &s->model;
	size_t i = 0, n;

	while (i < m->count) {
		for (n = 1; i + n < m->count &&
			    m->tensors[i + n].shard == m->tensors[i].shard;)
			n++;
		if (write_shard(s, &m->tensors[i], n))
			return EXIT_FAILURE;
		i += n;
	}
	return has_index(s->args) ? write_index(s) : 0;
}

static int write_files(struct synth *s)
{
	const struct synth_args *a = s->args;
	int r = synth_files_begin(&s->files, a->out, a->single, a->force,
				  a->shards + 1);

	progress_begin(&s->bar, "writing", s->model.bytes);
	if (r == 0)
		r = write_model(s);
	progress_clear();
	if (r == 0 && !signals_caught())
		r = synth_files_commit(&s->files);
	synth_files_end(&s->files);
	signals_release();
	return r;
}

static int make_model(const struct args *args, const struct synth_args *a,
		      struct synth_model *m)
{
	int r = preset_make(a->preset, a->count, a->scale, m);
	char tensors[COUNT_TEXT];

	if (r == -ENOENT)
		return fail_usage(args->command, "unknown preset '%s'",
				  a->preset);
	if (r == -EOVERFLOW)
		return fail_usage(args->command,
				  "--scale %g makes a model of over 2^62 bytes",
				  a->scale);
	if (r < 0)
		return fail_memory();
	if (a->gguf)
		synth_gguf_filter(m);
	if (a->shards <= m->count)
		return 0;
	r = fail_usage(args->command, "--shards is %llu, and the model has %s",
		       (unsigned long long)a->shards,
		       count_text(m->count, "tensor", tensors));
	preset_free(m);
	return r;
}

static void report(const struct synth *s)
{
	char size[SIZE_TEXT], tensors[COUNT_TEXT], files[COUNT_TEXT];

	note("%s: %s, %s in %s%s", s->args->out,
	     count_text(s->model.count, "tensor", tensors),
	     size_text(s->model.bytes, size),
	     count_text(s->args->shards, "file", files),
	     has_index(s->args) ? " and an index" : "");
}

int synth_main(int argc, char **argv)
{
	const struct args args = { "synth", help, options, argc,
				   argv,    NULL, NULL };
	struct synth_args a = { .shards = 1, .scale = 1 };
	struct synth s = { .args = &a };
	int r = parse_args(&args, &a);

	if (r)
		return r == ARGS_HELP ? 0 : r;
	r = make_model(&args, &a, &s.model);
	if (r)
		return r;
	synth_lay_out(&s.model, a.shards, alignment(&a));
	s.buffer = malloc(SYNTH_BUFFER);
	r = s.buffer ? write_files(&s) : fail_memory();
	if (r == 0)
		report(&s);
	free(s.buffer);
	preset_free(&s.model);
	return r;
}
