/* SPDX-License-Identifier: MIT */
/*
 * A directory, or the folder of a URL, as a model. The formats are tried in
 * order: the only index of a format is the model, else its only file, else its
 * files if they are the parts of one model. Other files of one format are an
 * error.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "io/source.h"
#include "model/format/format.h"
#include "model/format/split_files.h"

#define LISTED 6u /* names in a sentence */
#define MAX_NAMES 100000u

/* What a model in a folder is called nearly always: names that cost a request
 * less than a listing. */
static const char *const usual[] = { "model.safetensors.index.json",
				     "model.safetensors" };

struct listing {
	char **name; /* sorted */
	size_t n, room;
};

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), len = strlen(suffix);

	return n >= len && !strcmp(name + n - len, suffix);
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static char *join(const char *dir, const char *name)
{
	size_t n = strlen(dir) + strlen(name) + 2;
	bool slash = *dir && dir[strlen(dir) - 1] == '/';
	char *path = weir__malloc(n);

	if (path)
		snprintf(path, n, "%s%s%s", dir, slash ? "" : "/", name);
	return path;
}

/*
 * Return how many names end in @suffix (NULL: none). *ret_last is the last of
 * them.
 */
static int count(const struct listing *l, const char *suffix,
		 const char **ret_last)
{
	int n = 0;

	for (size_t i = 0; suffix && i < l->n; i++)
		if (ends_in(l->name[i], suffix)) {
			*ret_last = l->name[i];
			n++;
		}
	return n;
}

static bool is_of_a_format(const char *name)
{
	for (size_t i = 0; weir__formats[i]; i++)
		if (ends_in(name, weir__formats[i]->suffix) ||
		    (weir__formats[i]->index_suffix &&
		     ends_in(name, weir__formats[i]->index_suffix)))
			return true;
	return false;
}

/* Append "a, b, c and 4 more": all names, or those of files of a format. */
static void name_them(const struct listing *l, bool all, char *out, size_t size)
{
	int named = 0, more = 0;

	out[0] = '\0';
	for (size_t i = 0; i < l->n; i++) {
		const char *name = l->name[i];

		if (!all && !is_of_a_format(name))
			continue;
		if (named == LISTED) {
			more++;
			continue;
		}
		weir__append(out, size, "%s%s", named++ ? ", " : "",
			     weir__quote(name, strlen(name)));
	}
	if (more)
		weir__append(out, size, " and %d more", more);
}

/* "2 *.safetensors": how many names end in @suffix; nothing if it is NULL. */
static void count_kind(const struct listing *l, const char *suffix, char *out,
		       size_t size)
{
	const char *last;
	int n = count(l, suffix, &last);

	if (!suffix)
		return;
	if (*out)
		weir__append(out, size, ", ");
	if (n)
		weir__append(out, size, "%d *%s", n, suffix);
	else
		weir__append(out, size, "no *%s", suffix);
}

static int fail_choice(const char *dir, const struct listing *l)
{
	char names[LISTED * 100 + 40], counts[200] = "";
	bool any = false;

	for (size_t i = 0; weir__formats[i]; i++) {
		count_kind(l, weir__formats[i]->index_suffix, counts,
			   sizeof(counts));
		count_kind(l, weir__formats[i]->suffix, counts, sizeof(counts));
	}
	for (size_t i = 0; i < l->n && !any; i++)
		any = is_of_a_format(l->name[i]);
	name_them(l, !any, names, sizeof(names));
	if (!any)
		return weir__fail(-ENOENT, "%s: %s; it has %s", dir, counts,
				  *names ? names : "no files");
	return weir__fail(
		-EINVAL,
		"%s: %s: several of a kind; name the file to open, one of %s",
		dir, counts, names);
}

/*
 * Return the first of the files that end in @suffix, if all are parts of one
 * model.
 */
static const char *first_part(const struct listing *l, const char *suffix)
{
	const char *first = NULL;

	for (size_t i = 0; i < l->n; i++) {
		const char *name = l->name[i];

		if (!ends_in(name, suffix))
			continue;
		if (!first)
			first = name;
		if (!weir__split_same(first, name))
			return NULL;
	}
	return first;
}

/* Return the name of the one file that is the model, or NULL. */
static const char *choose(const struct listing *l)
{
	for (size_t i = 0; weir__formats[i]; i++) {
		const char *name = NULL;
		int n;

		if (count(l, weir__formats[i]->index_suffix, &name) == 1)
			return name;
		n = count(l, weir__formats[i]->suffix, &name);
		if (n)
			return n == 1 ? name
				      : first_part(l, weir__formats[i]->suffix);
	}
	return NULL;
}

static int add_name(struct listing *l, const char *name)
{
	char **more = weir__grow(l->name, &l->room, l->n, sizeof(*l->name));

	if (!more)
		return -ENOMEM;
	l->name = more;
	l->name[l->n] = weir__strdup(name);
	return l->name[l->n++] ? 0 : -ENOMEM;
}

static void free_names(struct listing *l)
{
	while (l->n)
		weir__free(l->name[--l->n]);
	weir__free(l->name);
}

static int list_dir(struct listing *l, const char *dir)
{
	struct dirent **entry;
	int n = weir__sys_scandir(dir, visible, &entry), r = 0;

	if (n < 0)
		return weir__fail_sys(n, "%s", dir);
	for (int i = 0; i < n; i++) {
		if (r >= 0)
			r = add_name(l, entry[i]->d_name);
		weir__free(entry[i]);
	}
	weir__free(entry);
	return r < 0 ? weir__fail(r, "%s: no memory for its names", dir) : 0;
}

static int add_found(void *arg, const char *name, uint64_t bytes)
{
	struct listing *l = arg;

	(void)bytes;
	if (*name == '.' || !*name || strchr(name, '/'))
		return 0;
	return l->n < MAX_NAMES ? add_name(l, name) : -E2BIG;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The name of the model among the names of a folder, in *ret_path. */
static int choose_path(const struct listing *l, const char *folder, bool url,
		       char **ret_path)
{
	const char *name = choose(l);
	char shown[512];

	if (!name)
		return fail_choice(url ? weir__url_shown(folder, shown,
							 sizeof(shown))
				       : folder,
				   l);
	*ret_path = url ? weir__url_inside(folder, name) : join(folder, name);
	return *ret_path
		       ? 0
		       : weir__fail(-ENOMEM, "%s: no memory for a path", name);
}

int weir__model_find_in(const char *dir, char **ret_path)
{
	struct listing l = { 0 };
	int r = list_dir(&l, dir);

	if (r >= 0)
		r = choose_path(&l, dir, false, ret_path);
	free_names(&l);
	return r;
}

bool weir__url_names_model(const char *url)
{
	size_t n = strcspn(url, "?#");
	char *path = weir__strdup(url);
	bool yes;

	if (!path)
		return false;
	path[n] = '\0';
	yes = is_of_a_format(path);
	weir__free(path);
	return yes;
}

/* Open @name in the folder, if it exists. */
static int try_name(struct weir *weir, const char *url, const char *name,
		    struct weir_file **ret_file)
{
	char *path = weir__url_inside(url, name);
	int r = path ? weir__file_open(weir, path, 0, 0, ret_file)
		     : weir__fail(-ENOMEM, "%s: no memory for a path", name);

	weir__free(path);
	return r;
}

/* Look for a model among the names that the source lists. */
static int open_listed(struct weir *weir, const char *url,
		       struct weir_file **ret_file)
{
	struct listing l = { 0 };
	char *path = NULL, *folder = weir__url_inside(url, "");
	int r = folder ? weir__url_list(weir, folder, add_found, &l)
		       : weir__fail(-ENOMEM, "no memory for a URL");

	if (r >= 0 && l.n)
		qsort(l.name, l.n, sizeof(*l.name), by_name);
	if (r >= 0)
		r = choose_path(&l, url, true, &path);
	if (r >= 0)
		r = weir__file_open(weir, path, 0, 0, ret_file);
	weir__free(path);
	weir__free(folder);
	free_names(&l);
	return r;
}

/* True if another name may be there: S3 also says 403 of what is missing. */
static bool may_be_missing(int r)
{
	return r == -ENOENT || r == -EACCES;
}

static int open_usual(struct weir *weir, const char *url,
		      struct weir_file **ret_file)
{
	struct weir__error_saved first;
	int r = try_name(weir, url, usual[0], ret_file), next;

	if (!may_be_missing(r) || !weir__url_has_source(weir, url))
		return r;
	weir__error_save(&first);
	next = try_name(weir, url, usual[1], ret_file);
	if (next != -ENOENT || r == -ENOENT)
		return next;
	weir__error_restore(&first);
	return r;
}

int weir__model_open_folder(struct weir *weir, const char *url,
			    struct weir_file **ret_file)
{
	struct weir__error_saved saved;
	char shown[512];
	int r = open_usual(weir, url, ret_file), next;

	if (!may_be_missing(r) || !weir__url_has_source(weir, url))
		return r;
	weir__error_save(&saved);
	next = open_listed(weir, url, ret_file);
	if (next != -EOPNOTSUPP && !may_be_missing(next))
		return next;
	if (r == -EACCES)
		weir__error_restore(&saved);
	else if (next == -EOPNOTSUPP)
		weir__fail(
			r,
			"%s: neither %s nor %s is there, and other names cannot be listed: give the URL of a file",
			weir__url_shown(url, shown, sizeof(shown)), usual[0],
			usual[1]);
	else
		r = next;
	/* It may be a file whose name does not say so. */
	weir__error_save(&saved);
	if (url[strcspn(url, "?#") - 1] != '/' &&
	    weir__file_open(weir, url, 0, 0, ret_file) >= 0)
		return 0;
	weir__error_restore(&saved);
	return r;
}
