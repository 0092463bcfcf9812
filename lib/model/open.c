/* SPDX-License-Identifier: MIT */
/*
 * weir_model_open: the path is a file, an index of shards, one file of a split
 * model, or a directory that has one of them. Every file is read by the reader of its format.
 */
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/format.h"
#include "model/index.h"
#include "model/split.h"

/* The result @r of a read, or -ESTALE if the file has changed. */
static int unless_changed(struct weir_file *file, int r)
{
	int changed;

	/* A read that ended early is -ESTALE; the change is its reason. */
	if (r < 0 && r != -ESTALE)
		return r;
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

/* A model that is one file, its only shard. */
static int read_single(struct weir_model *m, struct weir_file *file,
		       bool lenient)
{
	int r = weir__model_add_file(m, file);

	return r < 0 ? r : weir__shard_read(m, 0, lenient);
}

/* By its name @file is an index, a part of a split model, or alone. */
static int read_file(struct weir_model *m, struct weir_file *file, bool lenient)
{
	struct weir__split split;
	int r;

	m->path = weir__strdup(file->path);
	if (!m->path)
		return weir__fail(-ENOMEM, "%s: no memory for a path",
				  file->base);
	if (is_index(file->path))
		r = weir__index_read(m, file, lenient);
	else if (weir__split_parse(file->base, &split) && split.count > 1)
		r = weir__split_read(m, file, &split, lenient);
	else
		r = read_single(m, file, lenient);
	return r < 0 ? r : weir__model_finish(m);
}

int weir__model_file(struct weir *weir, const char *path,
		     struct weir_file **ret_file)
{
	struct weir_file *file;
	int r = weir__file_open(weir, path, 0, 0, &file);

	if (r < 0)
		return r;
	r = weir__file_settle(file);
	if (r < 0)
		weir__file_put(file);
	else
		*ret_file = file;
	return r;
}

/* Find the file to read first. If the path is a directory, search it. */
static int open_path(struct weir *weir, const char *path,
		     struct weir_file **ret_file)
{
	char *inside;
	int r = weir__model_file(weir, path, ret_file);

	if (r != -EISDIR)
		return r;
	r = weir__model_find_in(path, &inside);
	if (r < 0)
		return r;
	r = weir__model_file(weir, inside, ret_file);
	weir__free(inside);
	return r;
}

static int open_model(struct weir *weir, const char *path, bool lenient,
		      struct weir_model **ret_model)
{
	struct weir_model *m;
	struct weir_file *file;
	int r = open_path(weir, path, &file);

	if (r < 0)
		return r;
	r = weir__model_new(weir, &m);
	if (r < 0) {
		weir__fail(r, "%s: no memory for a model of %zu bytes",
			   file->base, sizeof(*m));
		goto out;
	}
	r = read_file(m, file, lenient);
	if (r < 0)
		weir__model_put(m);
	else
		*ret_model = m;
out:
	weir__file_put(file);
	return r;
}

int weir_model_open(struct weir *weir, const char *path,
		    const struct weir_model_opts *opts,
		    struct weir_model **ret_model)
{
	struct weir_model_opts o;
	int r;

	WEIR__ENTER();
	r = weir__opts_in(&o, sizeof(o), opts);
	if (r < 0)
		return r;
	if ((o.flags & ~WEIR_MODEL_LENIENT) || o.reserved)
		return weir__fail(-EINVAL, "%s: unknown flags %#x", path,
				  o.flags & ~WEIR_MODEL_LENIENT);
	r = weir__root_enter(weir);
	if (r < 0)
		return r;
	return open_model(weir, path, o.flags & WEIR_MODEL_LENIENT, ret_model);
}
