/* SPDX-License-Identifier: MIT */
/*
 * A model in its other form: the files of Hugging Face, with their config.json
 * and tokenizer, as GGUF.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "../llama/llama.h"
#include "../text/chat.h"
#include "../text/tokenizer.h"
#include "convert.h"
#include "fail_llama.h"
#include "output.h"

char *convert_path_beside(const struct convert_job *job, const char *name)
{
	const char *slash = strrchr(job->info.path, '/');
	char *path;

	if (asprintf(&path, "%.*s%s",
		     slash ? (int)(slash + 1 - job->info.path) : 0,
		     job->info.path, name) < 0)
		return NULL;
	return path;
}

static bool has_config(const struct convert_job *job)
{
	char *path = convert_path_beside(job, "config.json");
	struct stat st;
	bool has = path && stat(path, &st) == 0;

	free(path);
	return has;
}

/* True if OUT is the folder of the model. */
static bool is_own_folder(const struct convert_job *job)
{
	char *folder = convert_path_beside(job, "");
	struct stat a, b;
	const bool own = folder && stat(*folder ? folder : ".", &a) == 0 &&
			 stat(job->args->out, &b) == 0 &&
			 a.st_dev == b.st_dev && a.st_ino == b.st_ino;

	free(folder);
	return own;
}

/* Check what a folder can be made of. */
static int check_folder(const struct convert_job *job, bool gguf)
{
	if (job->args->raw)
		return fail("%s: a folder; with --raw give the name of a file",
			    job->args->out);
	if (!gguf && !has_config(job))
		return fail(
			"%s: only a GGUF model or one with its config.json becomes a folder of Hugging Face; give OUT the name of a file",
			job->args->out);
	return is_own_folder(job)
		       ? fail("%s: the folder of the model itself; give another",
			      job->args->out)
		       : 0;
}

int convert_model_find(struct convert_job *job)
{
	const struct convert_args *a = job->args;
	const bool gguf = !strcmp(job->info.format, "GGUF");
	int r = job->folder ? check_folder(job, gguf) : 0;

	if (r)
		return r;
	if (!job->folder && (a->raw || !job->gguf || gguf || !has_config(job)))
		return 0;
	if (a->n_slices)
		return fail(
			"%s: the hyperparameters are those of whole tensors, so --slice needs --raw",
			job->info.path);
	/* Both have the same form. */
	if (job->folder && !gguf)
		return 0;
	job->config = calloc(1, sizeof(*job->config));
	job->export = calloc(1, sizeof(*job->export));
	if (!job->config || !job->export)
		return fail_memory();
	if (llama_config_read(job->model, job->config) < 0 ||
	    llama_export(job->model, job->config, job->export) < 0)
		return fail("%s: %s; --raw converts the tensors as they are",
			    job->info.path, llama_error());
	return 0;
}

void convert_model_free(struct convert_job *job)
{
	if (job->export)
		llama_export_free(job->export);
	weir_buf_free(job->factors);
	free(job->config);
	free(job->export);
}

/* RoPE's factors, in memory of the save. */
int convert_model_add_factors(struct convert_job *job)
{
	const struct llama_export *x = job->export;
	const size_t bytes = (size_t)x->n_factors * sizeof(float);
	struct weir_buft *buft;
	struct weir_tensor t;

	if (!x->factors)
		return 0;
	if (weir_dev_buft(weir_dev_get(job->weir, 0), WEIR_MEM_PLAIN, &buft) <
		    0 ||
	    weir_buf_alloc(buft, bytes, NULL, &job->factors) < 0 ||
	    weir_tensor_init(&t, WEIR_DTYPE_F32, 1, &x->n_factors) < 0 ||
	    weir_tensor_place(&t, job->factors, 0) < 0)
		return fail_weir();
	memcpy(weir_buf_data(job->factors), x->factors, bytes);
	return weir_save_add(job->save, "rope_freqs.weight", &t, 0) < 0
		       ? fail_weir()
		       : 0;
}

static int set_template(const char *file, const char *template, size_t len,
			void *to)
{
	const struct weir_value v = { .size = sizeof(v),
				      .key = "tokenizer.chat_template",
				      .type = WEIR_VALUE_STRING,
				      .str = template,
				      .len = len };

	(void)file;
	return weir_save_meta(to, &v);
}

/* The tokens that config.json names. */
static struct tokenizer_ends ends_of(const struct llama_config *c)
{
	struct tokenizer_ends ends = { .bos = c->bos,
				       .pad = c->pad,
				       .n = c->ends };

	for (size_t i = 0; i < c->ends; i++)
		ends.id[i] = c->end[i];
	return ends;
}

/* Add the tokenizer that is opened by @open's result. */
static int add_tokenizer(struct convert_job *job, int opened,
			 struct tokenizer *t)
{
	struct tokenizer_ends ends = ends_of(job->config);
	int r = opened;

	if (r < 0)
		return r;
	r = tokenizer_names_beside(job->info.path, t, &ends.names);
	if (r == 0)
		r = tokenizer_to_gguf(t, (uint32_t)job->config->vocabulary,
				      &ends, job->save);
	tokenizer_free(t);
	return r;
}

/*
 * If scores do not say what a tokenizer.json does, those of a tokenizer.model
 * may be there.
 */
static int add_text(struct convert_job *job)
{
	struct tokenizer *t = NULL;
	struct stat st;
	char *path;
	int r = tokenizer_from_model(job->model, &t);

	if (r == -ENOENT) {
		note("%s: there is no tokenizer beside the model, so %s has none",
		     job->info.path, job->args->out);
		return 0;
	}
	r = add_tokenizer(job, r, t);
	if (r == -EOPNOTSUPP) {
		path = convert_path_beside(job, "tokenizer.model");
		if (path && stat(path, &st) == 0)
			r = add_tokenizer(job, tokenizer_open(path, &t), t);
		free(path);
	}
	if (r < 0)
		return fail("%s", text_error());
	r = chat_template(job->model, set_template, job->save);
	return r < 0 && r != -ENOENT ? fail("%s", text_error()) : 0;
}

static int add_name(struct convert_job *job)
{
	char *folder = convert_path_beside(job, "");
	char *real = folder ? realpath(*folder ? folder : ".", NULL) : NULL;
	const char *slash = real ? strrchr(real, '/') : NULL;
	struct weir_value v = { .size = sizeof(v),
				.key = "general.name",
				.type = WEIR_VALUE_STRING };
	int r = 0;

	if (slash && slash[1]) {
		v.str = slash + 1;
		v.len = strlen(v.str);
		r = weir_save_meta(job->save, &v);
	}
	free(real);
	free(folder);
	return r < 0 ? fail_weir() : 0;
}

/* How many numbers the model has, as its name often says: "1.1B". */
static int add_size(struct convert_job *job)
{
	static const char units[] = "KMBT";
	double n = 0;
	size_t unit = 0;
	char text[32];
	struct weir_value v = { .size = sizeof(v),
				.key = "general.size_label",
				.type = WEIR_VALUE_STRING,
				.str = text };

	for (size_t i = 0; i < job->n; i++) {
		double elements = 1;

		for (unsigned d = 0; d < job->tensor[i].ndim; d++)
			elements *= (double)job->tensor[i].shape[d];
		n += elements;
	}
	for (n /= 1e3; n > 1e3 && units[unit + 1]; unit++)
		n /= 1e3;
	snprintf(text, sizeof(text), "%.*f%c", n < 9.5, n, units[unit]);
	v.len = strlen(text);
	return weir_save_meta(job->save, &v) < 0 ? fail_weir() : 0;
}

/* transformers wants to know who wrote the file. */
static int add_format(struct convert_job *job)
{
	const struct weir_value v = { .size = sizeof(v),
				      .key = "format",
				      .type = WEIR_VALUE_STRING,
				      .str = "pt",
				      .len = 2 };

	return weir_save_meta(job->save, &v) < 0 ? fail_weir() : 0;
}

int convert_model_add_meta(struct convert_job *job)
{
	int r;

	if (job->folder)
		return add_format(job);
	if (llama_export_gguf(job->config, job->save) < 0)
		return fail("%s: %s", job->info.path, llama_error());
	r = add_name(job);
	if (r == 0)
		r = add_size(job);
	return r ? r : add_text(job);
}
