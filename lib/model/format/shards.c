/* SPDX-License-Identifier: MIT */
/* A model of several files: read the index, then open and read its shards. */
#include <string.h>
#include <sys/resource.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/format/index.h"
#include "model/format/safetensors.h"
#include "model/format/split.h"

/* Length of the directory in @path, with its slash; 0: there is none. */
static size_t dir_len(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash + 1 - path) : 0;
}

static char *shard_path(const char *index, const struct weir__str *name)
{
	size_t dir = dir_len(index);
	char *path = weir__malloc(dir + name->len + 1);

	if (!path)
		return NULL;
	memcpy(path, index, dir);
	memcpy(path + dir, name->s, name->len);
	path[dir + name->len] = '\0';
	return path;
}

static int fail_shard(int r, const char *by, const struct weir__str *shard,
		      uint32_t i, size_t n)
{
	const char *name = weir__quote(shard->s, shard->len);

	if (r == -ENOENT)
		return weir__fail(r, "%s: its shard '%s' does not exist", by,
				  name);
	if (r == -EMFILE)
		return weir__fail(
			r,
			"%s: shard '%s', %u of %zu: too many open files: each shard takes two, RLIMIT_NOFILE is %llu (ulimit -n)",
			by, name, i + 1, n,
			(unsigned long long)weir__sys_limit(RLIMIT_NOFILE));
	return r; /* its sentence has the path */
}

int weir__shard_open(struct weir_model *m, const struct weir_file *by,
		     const struct weir__str *name, uint32_t i, size_t n)
{
	char *path = shard_path(by->path, name);
	struct weir_file *file;
	int r;

	if (!path)
		return weir__fail(-ENOMEM, "%s: no memory for a path",
				  by->base);
	r = weir__model_file(m->weir, path, &file);
	weir__free(path);
	if (r < 0)
		return fail_shard(r, by->base, name, i, n);
	r = weir__model_add_file(m, file);
	weir__file_put(file);
	return r;
}

static int read_shards(struct weir_model *m, struct weir__index *x,
		       const struct weir_file *index, bool lenient)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < x->n_shards; i++) {
		size_t first = m->n_recs;

		r = weir__shard_open(m, index, &x->shard[i], i, x->n_shards);
		if (r >= 0)
			r = weir__shard_read(m, i, lenient);
		if (r >= 0)
			weir__index_keep(x, m, first, i);
	}
	return r < 0 ? r : weir__index_complete(x);
}

static int read_text(struct weir_model *m, struct weir_file *file,
		     char **ret_text)
{
	size_t n = (size_t)file->id.bytes;
	char *text;
	int r;

	if (file->id.bytes > WEIR__INDEX_MAX)
		return weir__fail(
			-EBADMSG,
			"%s: an index of %llu bytes; %u at most are read",
			file->base, (unsigned long long)file->id.bytes,
			WEIR__INDEX_MAX);
	r = weir__model_hold(m, n + 1);
	if (r < 0)
		return weir__fail_for(r, "%s", file->base);
	text = weir__malloc(n + 1);
	if (!text)
		return weir__fail(-ENOMEM,
				  "%s: no memory for an index of %zu bytes",
				  file->base, n);
	text[n] = '\0';
	r = weir__model_read(file, text, n, 0);
	if (r < 0)
		weir__free(text);
	else
		*ret_text = text;
	return r;
}

int weir__index_read(struct weir_model *m, struct weir_file *file, bool lenient)
{
	struct weir__index x;
	char *text = NULL;
	int r = read_text(m, file, &text);

	if (r < 0)
		return r;
	r = weir__index_parse(&x, m, file->base, text, (size_t)file->id.bytes,
			      lenient);
	if (r >= 0) {
		m->format = &weir__safetensors; /* of every shard */
		m->total_size = x.total_size;
		r = read_shards(m, &x, file, lenient);
	}
	weir__index_fini(&x);
	weir__free(text);
	weir__model_let_go(m, (size_t)file->id.bytes + 1);
	return r;
}
