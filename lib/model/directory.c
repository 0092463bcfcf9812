/* SPDX-License-Identifier: MIT */
/*
 * A directory as a model: its index if there is exactly one, else its one
 * file of tensors.
 */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/model.h"

#define LISTED 6u /* names in a sentence */

/* In the order in which they are preferred. */
enum kind {
	KIND_INDEX,
	KIND_SAFETENSORS,
	KIND_GGUF,
	KIND_OTHER,
	KINDS
};

static const char *const suffix[KINDS] = {
	[KIND_INDEX] = ".safetensors.index.json",
	[KIND_SAFETENSORS] = ".safetensors",
	[KIND_GGUF] = ".gguf",
	[KIND_OTHER] = "",
};

struct listing {
	struct dirent **entry; /* sorted */
	int n;
	int count[KINDS];
	const char *last[KINDS]; /* the only one, if count is 1 */
};

static enum kind kind_of(const char *name)
{
	size_t n = strlen(name);
	int kind = 0;

	while (n < strlen(suffix[kind]) ||
	       strcmp(name + n - strlen(suffix[kind]), suffix[kind]) != 0)
		kind++;
	return (enum kind)kind;
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

/* "a, b, c and 4 more": what is of the kinds up to @last. */
static void name_them(const struct listing *l, enum kind last, char *out,
		      size_t size)
{
	int at = 0, named = 0, more = 0;

	out[0] = '\0';
	for (int i = 0; i < l->n; i++) {
		const char *name = l->entry[i]->d_name;

		if (kind_of(name) > last)
			continue;
		if (named == LISTED) {
			more++;
			continue;
		}
		at += snprintf(out + at, size - (size_t)at, "%s%s",
			       named++ ? ", " : "",
			       weir__quote(name, strlen(name)));
	}
	if (more)
		snprintf(out + at, size - (size_t)at, " and %d more", more);
}

static int fail_choice(const char *dir, const struct listing *l)
{
	char names[LISTED * 100 + 40];

	if (l->count[KIND_OTHER] == l->n) {
		name_them(l, KIND_OTHER, names, sizeof(names));
		return weir__fail(
			-ENOENT,
			"%s: no *.safetensors and no index of them; it has %s",
			dir, *names ? names : "no files");
	}
	name_them(l, KIND_GGUF, names, sizeof(names));
	return weir__fail(
		-EINVAL,
		"%s: %d indexes, %d *.safetensors, %d *.gguf: not one of a kind; name one of %s",
		dir, l->count[KIND_INDEX], l->count[KIND_SAFETENSORS],
		l->count[KIND_GGUF], names);
}

/* The kind whose only file is the model; KIND_OTHER: there is none. */
static enum kind decider(const struct listing *l)
{
	if (l->count[KIND_INDEX] == 1)
		return KIND_INDEX;
	if (l->count[KIND_SAFETENSORS])
		return l->count[KIND_SAFETENSORS] == 1 ? KIND_SAFETENSORS
						       : KIND_OTHER;
	return l->count[KIND_GGUF] == 1 ? KIND_GGUF : KIND_OTHER;
}

static int choose(const char *dir, const struct listing *l, char **ret_path)
{
	enum kind kind = decider(l);

	if (kind == KIND_OTHER)
		return fail_choice(dir, l);
	*ret_path = join(dir, l->last[kind]);
	return *ret_path ? 0
			 : weir__fail(-ENOMEM, "%s: no memory for a path", dir);
}

int weir__model_find_in(const char *dir, char **ret_path)
{
	struct listing l = { 0 };
	int r;

	l.n = weir__sys_scandir(dir, visible, &l.entry);
	if (l.n < 0)
		return weir__fail_sys(l.n, "%s", dir);
	for (int i = 0; i < l.n; i++) {
		enum kind kind = kind_of(l.entry[i]->d_name);

		l.count[kind]++;
		l.last[kind] = l.entry[i]->d_name;
	}
	r = choose(dir, &l, ret_path);
	while (l.n)
		weir__free(l.entry[--l.n]);
	weir__free(l.entry);
	return r;
}
