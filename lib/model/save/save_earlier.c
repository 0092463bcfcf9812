/* SPDX-License-Identifier: MIT */
/*
 * The earlier model of the path, which a save replaces. A file by the same name
 * is replaced by rename(2). What else belongs to that model is removed once the
 * new one is durable: the shards of its index, and the index or the single file
 * if the new model has the other form. At every moment each of the names by
 * which readers open a model leads to a whole one.
 */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/format/shard_index.h"
#include "model/save/save.h"

#define PATH_ROOM 4096

static void path_of(const struct weir_save *s, const char *name, char *path)
{
	snprintf(path, PATH_ROOM, "%s/%s", s->folder, name);
}

/* The text of the index @name with a NUL, or NULL. */
static char *read_text(struct weir_save *s, const char *name, size_t *ret_len)
{
	struct weir_file *file = NULL;
	char path[PATH_ROOM], *text = NULL;

	path_of(s, name, path);
	if (weir__file_open(s->weir, path, WEIR_FILE_NODIRECT, 0, &file) < 0)
		return NULL;
	*ret_len = (size_t)file->id.bytes;
	if (*ret_len <= WEIR__INDEX_MAX)
		text = weir__calloc(*ret_len + 1, 1);
	if (text && weir__file_read(file, text, *ret_len, 0) < 0) {
		weir__free(text);
		text = NULL;
	}
	weir__file_put(file);
	return text;
}

/* The names of the shards, each in memory of its own. */
static void copy_names(struct weir_save *s, const struct weir__index *x)
{
	s->earlier = weir__calloc(x->n_shards + 1, sizeof(*s->earlier));
	for (size_t i = 0; s->earlier && i < x->n_shards; i++) {
		const struct weir__str *shard = &x->shard[i];
		char *name = weir__calloc(shard->len + 1, 1);

		if (!name)
			return;
		memcpy(name, shard->s, shard->len);
		s->earlier[s->n_earlier++] = name;
	}
}

void weir__save_earlier_find(struct weir_save *s)
{
	struct weir__error_saved saved;
	struct weir__index x;
	size_t len;
	char *text;

	if (!s->index_name)
		return;
	/* What is no index is left alone. */
	weir__error_save(&saved);
	text = read_text(s, s->index_name, &len);
	if (text) {
		if (weir__index_parse(&x, NULL, s->index_name, text, len,
				      true) >= 0)
			copy_names(s, &x);
		weir__index_fini(&x);
	}
	weir__free(text);
	weir__error_restore(&saved);
}

static bool is_new(const struct weir_save *s, const char *name)
{
	for (uint32_t i = 0; i < s->n_files; i++)
		if (!strcmp(s->file[i].name, name))
			return true;
	return false;
}

/* Returns false if there was no such file. */
static bool remove_file(struct weir_save *s, const char *name)
{
	char path[PATH_ROOM];
	int r;

	path_of(s, name, path);
	r = weir__sys_unlink(path);
	if (r < 0 && r != -ENOENT)
		weir__append(
			s->note, sizeof(s->note),
			"%s%s of the earlier model could not be removed: %s",
			*s->note ? "; " : "", name, weir__errno_name(-r));
	return r >= 0;
}

void weir__save_earlier_remove(struct weir_save *s)
{
	const char *slash = strrchr(s->path, '/');
	const char *other = s->n_files > 1 ? slash ? slash + 1 : s->path
					   : s->index_name;

	if (!s->index_name)
		return;
	if (remove_file(s, other) && !(s->flags & WEIR_SAVE_NOSYNC))
		(void)weir__sys_sync_folder(s->folder);
	for (size_t i = 0; i < s->n_earlier; i++)
		if (!is_new(s, s->earlier[i]))
			remove_file(s, s->earlier[i]);
}

void weir__save_earlier_free(struct weir_save *s)
{
	for (size_t i = 0; i < s->n_earlier; i++)
		weir__free(s->earlier[i]);
	weir__free(s->earlier);
	s->earlier = NULL;
	s->n_earlier = 0;
}
