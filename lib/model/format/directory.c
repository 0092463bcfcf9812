/* SPDX-License-Identifier: MIT */
/*
 * A directory as a model. The formats are tried in order: the only index of a
 * format is the model, else its only file, else its files if they are the parts
 * of one model. Other files of one format are an error.
 */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/format/format.h"
#include "model/format/split_files.h"

#define LISTED 6u /* names in a sentence */

struct listing {
	struct dirent **entry; /* sorted */
	int n;
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

	for (int i = 0; suffix && i < l->n; i++)
		if (ends_in(l->entry[i]->d_name, suffix)) {
			*ret_last = l->entry[i]->d_name;
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
	for (int i = 0; i < l->n; i++) {
		const char *name = l->entry[i]->d_name;

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
	for (int i = 0; i < l->n && !any; i++)
		any = is_of_a_format(l->entry[i]->d_name);
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

	for (int i = 0; i < l->n; i++) {
		const char *name = l->entry[i]->d_name;

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

int weir__model_find_in(const char *dir, char **ret_path)
{
	struct listing l = { 0 };
	const char *name;
	int r = 0;

	l.n = weir__sys_scandir(dir, visible, &l.entry);
	if (l.n < 0)
		return weir__fail_sys(l.n, "%s", dir);
	name = choose(&l);
	if (!name) {
		r = fail_choice(dir, &l);
	} else {
		*ret_path = join(dir, name);
		if (!*ret_path)
			r = weir__fail(-ENOMEM, "%s: no memory for a path",
				       dir);
	}
	while (l.n)
		weir__free(l.entry[--l.n]);
	weir__free(l.entry);
	return r;
}
