/* SPDX-License-Identifier: MIT */
/*
 * The earlier model of the path, which a save replaces. A file by the same name
 * is replaced by rename(2). What else belongs to that model is removed once the
 * new one is durable: the shards of its index, and the index or the single file
 * if the new model has the other form. At every moment each of the names by
 * which readers open a model leads to a whole one.
 *
 * The index is untrusted text. Only shards with names that a save to this path
 * gives are removed: others may belong to another model, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/format/shard_index.h"
#include "model/save/save.h"

/* Returns 1 with the bytes of a regular file and a NUL, 0, or -ENOMEM. */
static int read_text(int fd, char **ret_text, size_t *ret_len)
{
	struct stat st;
	size_t at = 0;
	int64_t r = 1;
	char *text;

	if (weir__sys_fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size > WEIR__INDEX_MAX)
		return 0;
	text = weir__calloc((size_t)st.st_size + 1, 1);
	if (!text)
		return -ENOMEM;
	while (at < (size_t)st.st_size && r > 0) {
		r = weir__sys_pread(fd, text + at, (size_t)st.st_size - at, at);
		at += r > 0 ? (size_t)r : 0;
	}
	*ret_text = text;
	*ret_len = at;
	return r >= 0;
}

/* The names of the shards, each in memory of its own. */
static int copy_names(struct weir_save *s, const struct weir__index *x)
{
	s->earlier = weir__calloc(x->n_shards + 1, sizeof(*s->earlier));
	for (size_t i = 0; s->earlier && i < x->n_shards; i++) {
		const struct weir__str *shard = &x->shard[i];
		char *name = weir__calloc(shard->len + 1, 1);

		if (!name)
			return -ENOMEM;
		memcpy(name, shard->s, shard->len);
		s->earlier[s->n_earlier++] = name;
	}
	return s->earlier ? 1 : -ENOMEM;
}

/* Returns 1, 0 if it is no index, or -ENOMEM. */
static int read_index(struct weir_save *s, int fd)
{
	struct weir__index x;
	size_t len = 0;
	char *text = NULL;
	int r = read_text(fd, &text, &len);

	if (r > 0) {
		r = weir__index_parse(&x, NULL, s->index_name, text, len, true);
		if (r >= 0)
			r = copy_names(s, &x);
		else if (r != -ENOMEM)
			r = 0;
		weir__index_fini(&x);
	}
	weir__free(text);
	return r;
}

int weir__save_earlier_find(struct weir_save *s)
{
	struct weir__error_saved saved;
	int fd, r;

	weir__save_earlier_free(s);
	if (!s->index_name)
		return 1;
	fd = weir__sys_open_at(s->dir, s->index_name, O_RDONLY | O_NONBLOCK, 0);
	if (fd == -ENOENT)
		return 1;
	if (fd < 0)
		return 0;
	weir__error_save(&saved);
	r = read_index(s, fd);
	weir__error_restore(&saved);
	weir__sys_close(fd);
	return r != -ENOMEM ? r
			    : weir__fail(r, "%s: no memory to read it",
					 s->index_name);
}

bool weir__save_earlier_has(const struct weir_save *s, const char *name)
{
	for (size_t i = 0; i < s->n_earlier; i++)
		if (!strcmp(s->earlier[i], name))
			return true;
	return false;
}

static bool is_new(const struct weir_save *s, const char *name)
{
	for (uint32_t i = 0; i < s->n_files; i++)
		if (!strcmp(s->file[i].name, name))
			return true;
	return false;
}

/* Returns 1, 0 if there was no such file, or -errno, which is noted. */
static int remove_file(struct weir_save *s, const char *name)
{
	int r = weir__sys_unlink(s->dir, name);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		weir__append(
			s->note, sizeof(s->note),
			"%s%s of the earlier model could not be removed: %s",
			*s->note ? "; " : "", name, weir__errno_name(-r));
	return r < 0 ? r : 1;
}

/* No index may lead to shards that are gone, also after a power failure. */
static int remove_other(struct weir_save *s, const char *name)
{
	int r = remove_file(s, name);

	if (r <= 0 || s->flags & WEIR_SAVE_NOSYNC)
		return r;
	r = weir__sys_sync_folder(s->dir);
	if (r < 0)
		weir__append(s->note, sizeof(s->note),
			     "%sfsync of the folder without %s: %s",
			     *s->note ? "; " : "", name, weir__errno_name(-r));
	return r;
}

/* The name of the earlier model's other form; NULL: it has none. */
static const char *other_form(const struct weir_save *s)
{
	if (s->n_files > 1)
		return weir__save_name(s);
	/* The index of NAME.safetensors is not that of a path "NAME". */
	return weir__save_has_suffix(s) ? s->index_name : NULL;
}

void weir__save_earlier_remove(struct weir_save *s)
{
	const char *other;

	if (!s->index_name)
		return;
	other = other_form(s);
	if (!other || remove_other(s, other) < 0)
		return;
	for (size_t i = 0; i < s->n_earlier; i++)
		if (weir__save_is_shard(s, s->earlier[i]) &&
		    !is_new(s, s->earlier[i]))
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
