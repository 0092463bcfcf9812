/* SPDX-License-Identifier: MIT */
/*
 * The metadata that weir convert writes. Safetensors has strings only, so other
 * values are written there as text: numbers in decimal, arrays as JSON.
 */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "convert.h"
#include "output.h"
#include "text.h"

/* Pairs that say how the tensors lie in GGUF files, not what they are. */
static bool is_layout(const char *key)
{
	return !strcmp(key, "general.alignment") || !strncmp(key, "split.", 6);
}

static bool is_dropped(struct convert_args *a, const char *key)
{
	bool drop = false;

	for (size_t i = 0; i < a->n_drop_metas; i++) {
		if (fnmatch(a->drop_meta[i].glob, key, 0))
			continue;
		drop = a->drop_meta[i].used = true;
	}
	return drop;
}

static bool is_set(const struct convert_args *a, const char *key)
{
	for (size_t i = 0; i < a->n_sets; i++)
		if (!strcmp(a->set[i].key, key))
			return true;
	return false;
}

static int put_json(FILE *to, const struct weir_model *model,
		    const struct weir_value *v);

/* Text that is not UTF-8 gets U+FFFD, as JSON cannot have it. */
static int put_string(FILE *to, const struct weir_value *v)
{
	json_t *json = text_json(v->str, v->len);
	int r = json ? json_dumpf(json, to, JSON_ENCODE_ANY) : -1;

	json_decref(json);
	return r;
}

static int put_array(FILE *to, const struct weir_model *model,
		     const struct weir_value *v)
{
	struct weir_value item = { .size = sizeof(item) };
	int r = 0;

	fputc('[', to);
	for (size_t i = 0; i < v->len && r >= 0; i++) {
		if (i)
			fputc(',', to);
		r = weir_model_meta_item(model, v, i, &item);
		if (r >= 0)
			r = put_json(to, model, &item);
	}
	fputc(']', to);
	return r;
}

/* Numbers are the same in JSON and as text. */
static int put_json(FILE *to, const struct weir_model *model,
		    const struct weir_value *v)
{
	switch (v->type) {
	case WEIR_VALUE_STRING:
		return put_string(to, v);
	case WEIR_VALUE_ARRAY:
		return put_array(to, model, v);
	case WEIR_VALUE_BOOL:
		return fputs(v->u ? "true" : "false", to);
	case WEIR_VALUE_F32:
		return fprintf(to, "%.9g", v->f);
	case WEIR_VALUE_F64:
		return fprintf(to, "%.17g", v->f);
	case WEIR_VALUE_I8:
	case WEIR_VALUE_I16:
	case WEIR_VALUE_I32:
	case WEIR_VALUE_I64:
		return fprintf(to, "%" PRId64, v->i);
	default:
		return fprintf(to, "%" PRIu64, v->u);
	}
}

/* Set a pair to its text. */
static int add_text(struct convert_job *job, const struct weir_value *v)
{
	struct weir_value text = { .size = sizeof(text),
				   .key = v->key,
				   .key_len = v->key_len };
	char *s = NULL;
	FILE *to = open_memstream(&s, &text.len);
	int r = to ? put_json(to, job->model, v) : -1;

	if (!to || fclose(to) || r < 0) {
		free(s);
		return fail_memory();
	}
	text.str = s;
	r = weir_save_meta(job->save, &text);
	free(s);
	job->as_text++;
	return r < 0 ? fail_weir() : 0;
}

/* A glob that matches a key, and nothing else. NULL: no memory. */
static char *glob_of(const char *key)
{
	char *glob = malloc(2 * strlen(key) + 1), *to = glob;

	for (; glob && *key; key++) {
		if (strchr("*?[\\", *key))
			*to++ = '\\';
		*to++ = *key;
	}
	if (glob)
		*to = '\0';
	return glob;
}

static int copy_pair(struct convert_job *job, const struct weir_value *v)
{
	char *glob;
	int r;

	if (v->type != WEIR_VALUE_ARRAY) {
		r = weir_save_meta(job->save, v);
	} else {
		glob = glob_of(v->key);
		if (!glob)
			return fail_memory();
		r = weir_save_copy_meta(job->save, job->model, glob);
		free(glob);
	}
	return r < 0 ? fail_weir() : 0;
}

static int add_pair(struct convert_job *job, size_t i)
{
	struct weir_value v = { .size = sizeof(v) };

	if (weir_model_meta_at(job->model, i, &v) < 0)
		return fail_weir();
	if (is_dropped(job->args, v.key) || is_set(job->args, v.key) ||
	    (!job->gguf && is_layout(v.key)))
		return 0;
	return job->gguf || v.type == WEIR_VALUE_STRING ? copy_pair(job, &v)
							: add_text(job, &v);
}

enum weir_dtype convert_main_dtype(const struct convert_job *job)
{
	double elements[256] = { 0 };
	enum weir_dtype most = WEIR_DTYPE_NONE;

	for (size_t i = 0; i < job->n; i++) {
		const struct convert_tensor *t = &job->tensor[i];
		const enum weir_dtype dtype = t->dtype ? t->dtype
						       : t->view.dtype;

		if (t->ndim < 2 || (size_t)dtype >= 256)
			continue;
		elements[dtype] += (double)t->shape[t->ndim - 1] *
				   (double)t->shape[t->ndim - 2];
		if (elements[dtype] > elements[most])
			most = dtype;
	}
	return most;
}

/* Numbers of general.file_type, enum llama_ftype. */
static const struct {
	enum weir_dtype dtype;
	uint32_t type;
} file_types[] = {
	{ WEIR_DTYPE_F32, 0 },   { WEIR_DTYPE_F16, 1 },
	{ WEIR_DTYPE_BF16, 32 }, { WEIR_DTYPE_Q4_0, 2 },
	{ WEIR_DTYPE_Q8_0, 7 },  { WEIR_DTYPE_Q4_K, 14 },
	{ WEIR_DTYPE_Q6_K, 18 },
};

static int set_number(struct convert_job *job, const char *key, uint32_t n)
{
	const struct weir_value v = {
		.size = sizeof(v), .key = key, .type = WEIR_VALUE_U32, .u = n
	};

	return weir_save_meta(job->save, &v) < 0 ? fail_weir() : 0;
}

/* The pairs that name the dtype, if it changes or the model is a new one. */
static int add_file_type(struct convert_job *job)
{
	const enum weir_dtype dtype = convert_main_dtype(job);
	int r = 0;

	if (!job->config && !job->args->dtype)
		return 0;
	for (size_t i = 0; i < sizeof(file_types) / sizeof(*file_types); i++) {
		if (file_types[i].dtype != dtype)
			continue;
		r = set_number(job, "general.file_type", file_types[i].type);
		if (r == 0)
			r = set_number(job, "general.quantization_version", 2);
	}
	return r;
}

int convert_meta_add(struct convert_job *job)
{
	struct convert_args *a = job->args;
	int r = job->config ? convert_model_add_meta(job) : 0;

	for (size_t i = 0; i < job->info.meta && r == 0 && !job->config; i++)
		r = add_pair(job, i);
	if (r == 0 && job->gguf)
		r = add_file_type(job);
	for (size_t i = 0; i < a->n_drop_metas && r == 0; i++)
		if (!a->drop_meta[i].used)
			r = fail("%s: no metadata matches '%s'", job->info.path,
				 a->drop_meta[i].glob);
	for (size_t i = 0; i < a->n_sets && r == 0; i++)
		if (weir_save_meta(job->save, &a->set[i]) < 0)
			r = fail_weir();
	return r;
}
