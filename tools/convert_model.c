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

char *convert_own_folder(const struct convert_job *job)
{
	const char *path = job->info.path, *slash = strrchr(path, '/');

	return strndup(path, slash ? (size_t)(slash + 1 - path) : 0);
}

bool convert_is_remote(const struct convert_job *job)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *file = weir_model_file(job->model, 0);

	return file && weir_file_info(file, &info) == 0 && *info.source;
}

/* Return 1 if there is such a file beside the model, 0 if not. */
static int has_beside(const struct convert_job *job, const char *name)
{
	struct weir_file *file;
	int r = weir_model_beside(job->model, name, &file);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	weir_file_close(file);
	return 1;
}

/* True if OUT is the folder of the model. */
static bool is_own_folder(const struct convert_job *job)
{
	char *folder = convert_own_folder(job);
	struct stat a, b;
	const bool own = folder && stat(*folder ? folder : ".", &a) == 0 &&
			 stat(job->args->out, &b) == 0 &&
			 a.st_dev == b.st_dev && a.st_ino == b.st_ino;

	free(folder);
	return own;
}

/* Check what a folder can be made of. */
static int check_folder(const struct convert_job *job, bool gguf, bool config)
{
	if (job->args->raw)
		return fail("%s: a folder; with --raw give the name of a file",
			    job->args->out);
	if (!gguf && !config)
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
	const bool ask = !gguf && !a->raw && (job->folder || job->gguf);
	const int config = ask ? has_beside(job, "config.json") : 0;
	int r;

	if (config < 0)
		return fail_weir();
	r = job->folder ? check_folder(job, gguf, config) : 0;
	if (r)
		return r;
	if (!job->folder && !config)
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
	r = tokenizer_names_beside(job->model, t, &ends.names);
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
	int r = tokenizer_from_model(job->model, &t), next;

	if (r == -ENOENT) {
		note("%s: there is no tokenizer beside the model, so %s has none",
		     job->info.path, job->args->out);
		return 0;
	}
	r = add_tokenizer(job, r, t);
	if (r == -EOPNOTSUPP) {
		next = has_beside(job, "tokenizer.model");
		if (next < 0)
			return fail_weir();
		if (next > 0)
			r = add_tokenizer(
				job,
				tokenizer_open_beside(job->model,
						      "tokenizer.model", &t),
				t);
	}
	if (r < 0)
		return fail("%s", text_error());
	r = chat_template(job->model, set_template, job->save);
	return r < 0 && r != -ENOENT ? fail("%s", text_error()) : 0;
}

/*
 * The name of the folder of the model, with the path in *ret_path, which the
 * caller frees. NULL: it has none.
 */
static const char *find_name(const struct convert_job *job, char **ret_path)
{
	const bool remote = convert_is_remote(job);
	char *folder = convert_own_folder(job), *path, *slash;

	path = !folder || remote ? folder
				 : realpath(*folder ? folder : ".", NULL);
	if (path != folder)
		free(folder);
	*ret_path = path;
	/* The slash at the end. */
	if (path && remote && *path)
		path[strlen(path) - 1] = '\0';
	slash = path ? strrchr(path, '/') : NULL;
	/* "https://HOST" names no model. */
	if (!slash || !slash[1] || (remote && slash[-1] == '/'))
		return NULL;
	/* hf://OWNER/NAME@REVISION */
	if (remote && !strncmp(path, "hf://", 5))
		slash[1 + strcspn(slash + 1, "@")] = '\0';
	return slash + 1;
}

static int add_name(struct convert_job *job)
{
	char *path;
	struct weir_value v = { .size = sizeof(v),
				.key = "general.name",
				.type = WEIR_VALUE_STRING };
	int r = 0;

	v.str = find_name(job, &path);
	if (v.str) {
		v.len = strlen(v.str);
		r = weir_save_meta(job->save, &v);
	}
	free(path);
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
