/* SPDX-License-Identifier: MIT */
/*
 * The folder of a model of Hugging Face: its weights are saved first, then
 * config.json and the files of the tokenizer are written. Their texts are made
 * or the files opened before the save starts, so that it is known that they can
 * be.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../llama/llama.h"
#include "../text/tokenizer.h"
#include "convert.h"
#include "outfile.h"
#include "output.h"

#define COPY_BYTES ((size_t)4 << 20)

/* True if OUT is a folder, or shall be one. */
static bool is_folder(const char *out)
{
	const size_t n = strlen(out);
	struct stat st;

	return (n && out[n - 1] == '/') ||
	       (stat(out, &st) == 0 && S_ISDIR(st.st_mode));
}

static int make_folder(struct convert_job *job)
{
	const char *out = job->args->out;

	if (mkdir(out, 0777) == 0)
		job->made_folder = true;
	else if (errno != EEXIST)
		return fail("%s: the folder cannot be made: %s", out,
			    strerror(errno));
	return 0;
}

/* The path of a file in the folder. NULL: no memory. */
static char *path_in(const struct convert_job *job, const char *name)
{
	const char *out = job->args->out;
	const size_t n = strlen(out);
	char *path;

	return asprintf(&path, "%s%s%s", out, n && out[n - 1] == '/' ? "" : "/",
			name) < 0
		       ? NULL
		       : path;
}

int convert_folder_begin(struct convert_job *job)
{
	job->folder = is_folder(job->args->out);
	job->path = job->folder ? path_in(job, "model.safetensors")
				: strdup(job->args->out);
	if (!job->path)
		return fail_memory();
	return job->folder ? make_folder(job) : 0;
}

/* An id of the metadata; -1: there is none. */
static int32_t read_id(const struct convert_job *job, const char *key)
{
	struct weir_value v = { .size = sizeof(v) };

	if (weir_model_meta(job->model, key, &v) < 0 ||
	    v.type < WEIR_VALUE_U8 || v.type > WEIR_VALUE_I64 ||
	    v.u >= (uint64_t)job->config->vocabulary)
		return -1;
	return (int32_t)v.u;
}

/* The ids that config.json has. */
static void read_ids(const struct convert_job *job, struct llama_config *c)
{
	static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
					    "tokenizer.ggml.eot_token_id",
					    "tokenizer.ggml.eom_token_id" };

	c->bos = read_id(job, "tokenizer.ggml.bos_token_id");
	c->pad = read_id(job, "tokenizer.ggml.padding_token_id");
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		const int32_t id = read_id(job, ends[i]);

		if (id >= 0 && !llama_is_end(c, id))
			c->end[c->ends++] = id;
	}
}

const char *convert_torch_name(enum weir_dtype dtype)
{
	return dtype == WEIR_DTYPE_F16    ? "float16"
	       : dtype == WEIR_DTYPE_BF16 ? "bfloat16"
					  : "float32";
}

struct convert_file *convert_folder_add(struct convert_job *job,
					const char *name)
{
	struct convert_file *more =
		reallocarray(job->file, job->n_files + 1, sizeof(*more));
	char *copy = strdup(name);

	if (more)
		job->file = more;
	if (!more || !copy) {
		free(copy);
		fail_memory();
		return NULL;
	}
	more[job->n_files] = (struct convert_file){ .name = copy };
	return &more[job->n_files++];
}

static int make_config(struct convert_job *job)
{
	struct convert_file *file = convert_folder_add(job, "config.json");

	if (!file)
		return EXIT_FAILURE;
	read_ids(job, job->config);
	if (llama_export_hf(job->model, job->config,
			    convert_torch_name(convert_main_dtype(job)),
			    &file->text) < 0)
		return fail("%s: %s", job->info.path, llama_error());
	file->len = strlen(file->text);
	return 0;
}

static int put_config(const struct convert_job *job, const struct tokenizer *t,
		      FILE *to)
{
	struct weir_value v = { .size = sizeof(v) };
	const bool has = weir_model_meta(job->model, "tokenizer.chat_template",
					 &v) == 0 &&
			 v.type == WEIR_VALUE_STRING;

	return tokenizer_to_config(t, job->config->pad, has ? v.str : NULL,
				   v.len, to);
}

static int put_tokenizer(const struct convert_job *job,
			 const struct tokenizer *t, FILE *to)
{
	(void)job;
	return tokenizer_to_json(t, to);
}

static int make_text(struct convert_job *job, const struct tokenizer *t,
		     const char *name,
		     int (*put)(const struct convert_job *job,
				const struct tokenizer *t, FILE *to))
{
	struct convert_file *file = convert_folder_add(job, name);
	FILE *to;
	int r;

	if (!file)
		return EXIT_FAILURE;
	to = open_memstream(&file->text, &file->len);
	r = to ? put(job, t, to) : 0;
	if (!to || fclose(to))
		return fail_memory();
	return r < 0 ? fail("%s: %s", job->info.path, text_error()) : 0;
}

static int make_texts(struct convert_job *job)
{
	struct tokenizer *t;
	int r = tokenizer_from_model(job->model, &t);

	if (r == -ENOENT) {
		note("%s: the model has no tokenizer, so %s has none",
		     job->info.path, job->args->out);
		return 0;
	}
	if (r < 0)
		return fail("%s", text_error());
	r = make_text(job, t, "tokenizer.json", put_tokenizer);
	if (r == 0)
		r = make_text(job, t, "tokenizer_config.json", put_config);
	tokenizer_free(t);
	return r;
}

/* A file that exists is replaced only by --force. */
static int check_new(const struct convert_job *job)
{
	int r = 0;

	for (size_t i = 0; i < job->n_files && r == 0; i++) {
		char *path = path_in(job, job->file[i].name);

		if (!path)
			return fail_memory();
		if (!job->args->force && access(path, F_OK) == 0)
			r = fail("%s: exists already; --force replaces it",
				 path);
		free(path);
	}
	return r;
}

int convert_folder_texts(struct convert_job *job)
{
	int r;

	if (!job->config) {
		r = convert_beside_list(job);
	} else {
		r = make_config(job);
		if (r == 0)
			r = make_texts(job);
	}
	return r ? r : check_new(job);
}

static int copy_file(const struct convert_file *file, FILE *to)
{
	struct weir_file_info info = { .size = sizeof(info) };
	char *bytes = malloc(COPY_BYTES);
	uint64_t at = 0;
	int r = 0;

	if (!bytes)
		return fail_memory();
	if (weir_file_info(file->from, &info) < 0)
		r = fail_weir();
	while (r == 0 && at < info.bytes) {
		const size_t n = info.bytes - at < COPY_BYTES
					 ? (size_t)(info.bytes - at)
					 : COPY_BYTES;

		if (weir_file_read(file->from, at, bytes, n) < 0)
			r = fail_weir();
		else
			fwrite(bytes, 1, n, to);
		at += n;
	}
	free(bytes);
	return r;
}

static int write_file(const struct convert_job *job,
		      const struct convert_file *file)
{
	char *path = path_in(job, file->name);
	struct outfile out;
	int r;

	if (!path)
		return fail_memory();
	r = outfile_open(&out, path);
	if (r == 0) {
		outfile_begin(&out);
		if (file->from)
			r = copy_file(file, out.to);
		else
			fwrite(file->text, 1, file->len, out.to);
		if (r == 0)
			r = outfile_end(&out);
		outfile_drop(&out);
	}
	free(path);
	return r;
}

int convert_folder_write(struct convert_job *job)
{
	int r = 0;

	for (size_t i = 0; i < job->n_files && r == 0; i++)
		r = write_file(job, &job->file[i]);
	return r;
}

void convert_folder_drop(struct convert_job *job)
{
	for (size_t i = 0; i < job->n_files; i++) {
		free(job->file[i].name);
		free(job->file[i].text);
		weir_file_close(job->file[i].from);
	}
	free(job->file);
	/* This fails if it has files, as it should. */
	if (job->made_folder)
		(void)rmdir(job->args->out);
}
