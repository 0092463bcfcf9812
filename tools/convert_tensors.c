/* SPDX-License-Identifier: MIT */
/*
 * The tensors that weir convert writes: those of the model that the options
 * leave, with their names, parts and dtypes.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include "../llama/llama.h"
#include "convert.h"
#include "output.h"

enum {
	GROUPS = 10 /* \0 to \9 */
};

static bool drop_matches(struct convert_args *a, const char *name)
{
	bool drop = false;

	for (size_t i = 0; i < a->n_drops; i++) {
		if (fnmatch(a->drop[i].glob, name, 0))
			continue;
		drop = a->drop[i].used = true;
	}
	return drop;
}

/* Write what a match is replaced by. */
static void replace(FILE *to, const struct convert_rename *rename,
		    const char *name, const regmatch_t *match)
{
	for (const char *p = rename->to; *p; p++) {
		const regmatch_t *group = &match[0];

		if (*p != '\\' || *++p == '\\') {
			fputc(*p, to);
			continue;
		}
		group += *p - '0';
		if (group->rm_so >= 0)
			fwrite(name + group->rm_so, 1,
			       (size_t)(group->rm_eo - group->rm_so), to);
	}
}

/* Apply one --rename to *@name, which is replaced. */
static int rename_once(struct convert_rename *rename, char **name)
{
	regmatch_t match[GROUPS];
	char *text = NULL;
	size_t n = 0;
	FILE *to;

	if (regexec(&rename->regex, *name, GROUPS, match, 0))
		return 0;
	rename->used = true;
	to = open_memstream(&text, &n);
	if (!to)
		return fail_memory();
	fwrite(*name, 1, (size_t)match[0].rm_so, to);
	replace(to, rename, *name, match);
	fputs(*name + match[0].rm_eo, to);
	if (fclose(to)) {
		free(text);
		return fail_memory();
	}
	free(*name);
	*name = text;
	return 0;
}

static int set_name(struct convert_args *a, const struct weir_entry *e,
		    const char *name, struct convert_tensor *t)
{
	int r = 0;

	if (strlen(e->name) != e->name_len)
		return fail(
			"tensor '%s': its name has a NUL, so it cannot be written",
			e->name);
	t->name = strdup(name);
	if (!t->name)
		return fail_memory();
	for (size_t i = 0; i < a->n_renames && r == 0; i++)
		r = rename_once(&a->rename[i], &t->name);
	return r;
}

/* Part `rank` of a dimension that is divided by ranks. */
static int rank_part(const struct convert_args *a, const struct weir_entry *e,
		     struct weir_slice *slice)
{
	const int64_t all = e->shape[slice->dim];

	if (all % a->ranks)
		return fail(
			"tensor '%s': %lld elements in dimension %u cannot be divided by %u",
			e->name, (long long)all, slice->dim, a->ranks);
	slice->n = all / a->ranks;
	slice->start = slice->n * a->rank;
	return 0;
}

/* Cut the view of a tensor by the first --slice that it matches. */
static int apply_slice(struct convert_args *a, const struct weir_entry *e,
		       struct convert_tensor *t)
{
	const struct weir_tensor whole = t->view;
	struct convert_slice *found = NULL;
	struct weir_slice slice;
	int r = 0;

	for (size_t i = 0; i < a->n_slices; i++) {
		if (fnmatch(a->slice[i].glob, e->name, 0))
			continue;
		a->slice[i].used = true;
		if (!found)
			found = &a->slice[i];
	}
	if (!found)
		return 0;
	slice = found->slice;
	if (slice.dim >= e->ndim)
		return fail("tensor '%s': has no dimension %u, for --slice",
			    e->name, slice.dim);
	if (slice.n < 0)
		r = rank_part(a, e, &slice);
	if (r == 0 && weir_tensor_view(&whole, slice.dim, slice.start, slice.n,
				       &t->view) < 0)
		return fail("tensor '%s': %s", e->name, weir_sentence());
	return r;
}

static bool converts(enum weir_dtype from, enum weir_dtype to)
{
	return weir_convert(to, NULL, from, NULL, 0) == 0;
}

/* True if the rows of a tensor are whole blocks of a dtype. */
static bool whole_blocks(const struct convert_tensor *t, enum weir_dtype dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	return weir_dtype_info(dtype, &info) == 0 && t->ndim &&
	       t->shape[t->ndim - 1] % info.block == 0;
}

/*
 * In the GGUF files of models tensors of one dimension are F32, since kernels
 * want norms and biases so. Where rows are not whole blocks of 256, they may be
 * of 32.
 */
static enum weir_dtype choose_dtype(struct convert_job *job,
				    const struct convert_tensor *t)
{
	const enum weir_dtype want = job->args->dtype;
	const bool change = want || job->config;

	if (change && job->gguf && t->ndim <= 1)
		return converts(t->view.dtype, WEIR_DTYPE_F32)
			       ? WEIR_DTYPE_F32
			       : WEIR_DTYPE_NONE;
	if (!want || !converts(t->view.dtype, want))
		return WEIR_DTYPE_NONE;
	if (whole_blocks(t, want))
		return want;
	job->kept++;
	return whole_blocks(t, WEIR_DTYPE_Q8_0) ? WEIR_DTYPE_Q8_0
						: WEIR_DTYPE_F32;
}

/* A tensor of the other form. */
static void list_exported(const struct llama_export_tensor *x,
			  struct convert_tensor *t)
{
	t->view = x->view;
	t->ndim = x->ndim;
	memcpy(t->shape, x->shape, sizeof(x->shape));
}

/* A tensor as it is, or the part that --slice leaves. */
static int list_plain(struct convert_args *a, const struct weir_entry *e,
		      struct convert_tensor *t)
{
	int r;

	if (weir_tensor_init(&t->view, e->dtype, e->ndim, e->shape) < 0)
		return fail_weir();
	r = apply_slice(a, e, t);
	t->ndim = t->view.ndim;
	memcpy(t->shape, t->view.shape, sizeof(t->shape));
	return r;
}

/* List tensor @i of the model, or tensor @i of its other form. */
static int list_tensor(struct convert_job *job, size_t i)
{
	const struct llama_export_tensor *x =
		job->export ? &job->export->tensor[i] : NULL;
	struct convert_tensor *t = &job->tensor[job->n];
	struct weir_entry e = { .size = sizeof(e) };
	int r;

	t->entry = x ? x->entry : i;
	if (weir_model_tensor(job->model, t->entry, &e) < 0)
		return fail_weir();
	if (drop_matches(job->args, e.name))
		return 0;
	job->n++;
	r = set_name(job->args, &e, x ? x->name : e.name, t);
	if (r == 0 && x)
		list_exported(x, t);
	else if (r == 0)
		r = list_plain(job->args, &e, t);
	t->dtype = choose_dtype(job, t);
	return r;
}

static int no_match(const struct convert_job *job, const char *pattern)
{
	return fail("%s: no tensor matches '%s'", job->info.path, pattern);
}

/* A pattern that matches no tensor is a mistake of the user. */
static int check_used(const struct convert_job *job)
{
	const struct convert_args *a = job->args;

	for (size_t i = 0; i < a->n_drops; i++)
		if (!a->drop[i].used)
			return no_match(job, a->drop[i].glob);
	for (size_t i = 0; i < a->n_renames; i++)
		if (!a->rename[i].used)
			return no_match(job, a->rename[i].pattern);
	for (size_t i = 0; i < a->n_slices; i++)
		if (!a->slice[i].used)
			return no_match(job, a->slice[i].glob);
	return 0;
}

int convert_tensors_list(struct convert_job *job)
{
	const size_t n = job->export ? job->export->n
				     : weir_model_count(job->model);
	int r = 0;

	job->tensor = calloc(n + 1, sizeof(*job->tensor));
	if (!job->tensor)
		return fail_memory();
	for (size_t i = 0; i < n && r == 0; i++)
		r = list_tensor(job, i);
	return r ? r : check_used(job);
}

/* A dtype that the format does not have can often be converted. */
static int fail_add(const struct convert_job *job,
		    const struct convert_tensor *t)
{
	char why[400];

	snprintf(why, sizeof(why), "%s", weir_sentence());
	return fail("%s%s", why,
		    strstr(why, " has no dtype ") && !job->args->dtype &&
				    converts(t->view.dtype, WEIR_DTYPE_F32)
			    ? "; --dtype converts it"
			    : "");
}

static int add_tensor(struct convert_job *job, const struct convert_tensor *t)
{
	if (weir_save_copy(job->save, t->name, job->model, t->entry, &t->view,
			   t->dtype) < 0)
		return fail_add(job, t);
	if (t->ndim != t->view.ndim &&
	    weir_save_shape(job->save, t->name, t->ndim, t->shape) < 0)
		return fail_weir();
	return 0;
}

int convert_tensors_add(struct convert_job *job)
{
	int r = 0;

	for (size_t i = 0; i < job->n && r == 0; i++)
		r = add_tensor(job, &job->tensor[i]);
	return r == 0 && job->export ? convert_model_add_factors(job) : r;
}

void convert_tensors_free(struct convert_job *job)
{
	for (size_t i = 0; i < job->n; i++)
		free(job->tensor[i].name);
	free(job->tensor);
}
