/* SPDX-License-Identifier: MIT */
/*
 * weir_model_open: the path is a file, an index of shards, one file of a split
 * model, or a directory that has one of them; or the URL of one of these.
 * weir_model_open_fds: the files are open. Every file is read by the reader of
 * its format.
 */
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "io/source.h"
#include "model/format/format.h"
#include "model/format/shard_index.h"
#include "model/format/split_files.h"

/* Return the result @r of a read, or -ESTALE if the file has changed. */
static int unless_changed(struct weir_file *file, int r)
{
	int changed;

	/* A read that ended early is -ESTALE; the change is its reason. */
	if ((r < 0 && r != -ESTALE) || file->object)
		return r; /* a source looks after what it reads */
	changed = weir__file_unchanged(file);
	return changed < 0 ? changed : r;
}

int weir__model_read(struct weir_file *file, void *buf, size_t n, uint64_t off)
{
	return unless_changed(file, weir__file_read(file, buf, n, off));
}

int weir__model_read_front(struct weir_file *file, void *buf, size_t n)
{
	return unless_changed(file, weir__file_read_front(file, buf, n));
}

static bool is_index(const char *path)
{
	static const char suffix[] = ".index.json";
	size_t n = strlen(path);

	return n >= sizeof(suffix) - 1 &&
	       !strcmp(path + n - (sizeof(suffix) - 1), suffix);
}

/* Read @file as the next shard. */
static int read_shard(struct weir_model *m, struct weir_file *file,
		      bool lenient)
{
	uint32_t shard = m->n_files;
	int r = weir__model_add_file(m, file);

	return r < 0 ? r : weir__shard_read(m, shard, lenient);
}

static int set_path(struct weir_model *m, const struct weir_file *file)
{
	m->path = weir__strdup(file->path);
	m->url = file->url ? weir__strdup(file->url) : NULL;
	return m->path && (m->url || !file->url)
		       ? 0
		       : weir__fail(-ENOMEM, "%s: no memory for a path",
				    file->base);
}

/*
 * Read @file, which by its name is an index, a part of a split model, or alone.
 */
static int read_file(struct weir_model *m, struct weir_file *file, bool lenient)
{
	struct weir__part_name split;
	int r = set_path(m, file);

	if (r < 0)
		return r;
	if (is_index(file->path))
		r = weir__index_read(m, file, lenient);
	else if (weir__split_parse(file->base, &split) && split.count > 1)
		r = weir__split_read(m, file, &split, lenient);
	else
		r = read_shard(m, file, lenient);
	return r < 0 ? r : weir__model_finish(m);
}

/* Wait until the times of an opened file (@r >= 0) identify its content. */
static int settle(int r, struct weir_file *file, struct weir_file **ret_file)
{
	if (r < 0)
		return r;
	r = weir__file_settle(file);
	if (r < 0)
		weir__file_put(file);
	else
		*ret_file = file;
	return r;
}

int weir__model_file(struct weir *weir, const char *path,
		     struct weir_file **ret_file)
{
	struct weir_file *file = NULL;
	int r = weir__file_open(weir, path, 0, 0, &file);

	return settle(r, file, ret_file);
}

static int read_fds(struct weir_model *m, const struct weir_model_fd *fds,
		    unsigned n, bool lenient)
{
	int r = 0;

	m->n_parts = n > 1 ? n : 0;
	for (unsigned i = 0; r >= 0 && i < n; i++) {
		struct weir_file *file = NULL;

		if (fds[i].reserved)
			return weir__fail(-EINVAL,
					  "file %u: its reserved member is %u",
					  i, fds[i].reserved);
		r = weir__file_open_fd(m->weir, fds[i].fd, fds[i].name, &file);
		r = settle(r, file, &file);
		if (r < 0)
			return r;
		if (i == 0)
			r = set_path(m, file);
		if (r >= 0)
			r = read_shard(m, file, lenient);
		weir__file_put(file);
	}
	return r < 0 ? r : weir__model_finish(m);
}

static int read_files(struct weir_model *m, struct weir_file *const *files,
		      unsigned n, bool lenient)
{
	int r = set_path(m, files[0]);

	m->n_parts = n > 1 ? n : 0;
	for (unsigned i = 0; r >= 0 && i < n; i++) {
		if (files[i]->weir != m->weir)
			return weir__fail(-EINVAL, "%s: is of another root",
					  files[i]->base);
		r = weir__file_settle(files[i]);
		if (r >= 0)
			r = read_shard(m, files[i], lenient);
	}
	return r < 0 ? r : weir__model_finish(m);
}

/* Find the file to read first. If the path is a directory, search it. */
static int open_path(struct weir *weir, const char *path,
		     struct weir_file **ret_file)
{
	struct weir__error_saved saved;
	char *inside;
	int r;

	weir__error_save(&saved);
	if (weir__is_url(path) && !weir__url_names_model(path)) {
		r = weir__model_open_folder(weir, path, ret_file);
		if (r >= 0)
			weir__error_restore(&saved);
		return r;
	}
	r = weir__model_file(weir, path, ret_file);
	if (r != -EISDIR)
		return r;
	weir__error_restore(&saved);
	r = weir__model_find_in(path, &inside);
	if (r < 0)
		return r;
	r = weir__model_file(weir, inside, ret_file);
	weir__free(inside);
	return r;
}

static int new_model(struct weir *weir, const char *name,
		     const struct weir_model_opts *opts,
		     struct weir_model **ret_model)
{
	int r = weir__model_new(weir, ret_model);

	if (r < 0)
		return weir__fail(r, "%s: no memory for a model of %zu bytes",
				  name, sizeof(**ret_model));
	if (opts->memory)
		(*ret_model)->limit = opts->memory;
	return 0;
}

/* End the opening of @m: @r is the result of reading its files. */
static int end_model(int r, struct weir_model *m, struct weir_model **ret_model)
{
	if (r < 0)
		weir__model_put(m);
	else
		*ret_model = m;
	return r;
}

static int open_model(struct weir *weir, const char *path,
		      const struct weir_model_opts *opts,
		      struct weir_model **ret_model)
{
	struct weir_model *m;
	struct weir_file *file;
	int r = open_path(weir, path, &file);

	if (r < 0)
		return r;
	r = new_model(weir, file->base, opts, &m);
	if (r < 0)
		goto out;
	r = read_file(m, file, opts->flags & WEIR_MODEL_LENIENT);
	r = end_model(r, m, ret_model);
out:
	weir__file_put(file);
	return r;
}

static int check_opts(const struct weir_model_opts *opts, const char *name,
		      struct weir_model_opts *ret_opts)
{
	struct weir_model_opts o;
	int r = weir__opts_in(&o, sizeof(o), opts);

	if (r < 0)
		return r;
	if (o.flags & ~WEIR_MODEL_LENIENT)
		return weir__fail(-EINVAL, "%s: unknown flags %#x", name,
				  o.flags & ~WEIR_MODEL_LENIENT);
	if (o.reserved)
		return weir__fail(-EINVAL, "%s: reserved is %#x, not 0", name,
				  o.reserved);
	*ret_opts = o;
	return 0;
}

int weir_model_open(struct weir *weir, const char *path,
		    const struct weir_model_opts *opts,
		    struct weir_model **ret_model)
{
	struct weir_model_opts o;
	int r;

	WEIR__ENTER();
	r = check_opts(opts, path, &o);
	if (r >= 0)
		r = weir__root_enter(weir);
	return r < 0 ? r : open_model(weir, path, &o, ret_model);
}

/* Begin a model of @n files that are open. */
static int begin_model(struct weir *weir, unsigned n,
		       const struct weir_model_opts *opts,
		       struct weir_model_opts *ret_opts,
		       struct weir_model **ret_model)
{
	int r = check_opts(opts, "open files", ret_opts);

	if (r >= 0)
		r = weir__root_enter(weir);
	if (r >= 0 && !n)
		r = weir__fail(-EINVAL, "a model of 0 files");
	return r < 0 ? r : new_model(weir, "open files", ret_opts, ret_model);
}

int weir_model_open_fds(struct weir *weir, const struct weir_model_fd *fds,
			unsigned n, const struct weir_model_opts *opts,
			struct weir_model **ret_model)
{
	struct weir_model *m;
	struct weir_model_opts o;
	int r;

	WEIR__ENTER();
	r = begin_model(weir, n, opts, &o, &m);
	if (r < 0)
		return r;
	r = read_fds(m, fds, n, o.flags & WEIR_MODEL_LENIENT);
	return end_model(r, m, ret_model);
}

int weir_model_open_files(struct weir *weir, struct weir_file *const *files,
			  unsigned n, const struct weir_model_opts *opts,
			  struct weir_model **ret_model)
{
	struct weir_model *m;
	struct weir_model_opts o;
	int r;

	WEIR__ENTER();
	r = begin_model(weir, n, opts, &o, &m);
	if (r < 0)
		return r;
	r = read_files(m, files, n, o.flags & WEIR_MODEL_LENIENT);
	return end_model(r, m, ret_model);
}
