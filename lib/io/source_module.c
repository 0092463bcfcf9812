/* SPDX-License-Identifier: MIT */
#include "io/source_module.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "dev/registry.h"

static const struct weir_source_host host = {
	.size = sizeof(struct weir_source_host),
	.abi = WEIR_SOURCE_ABI,
	.log = weir__log,
	.debug = weir__debug_has,
	.calloc = weir__calloc,
	.free = weir__free,
	.text = weir__sys_text,
	.dlopen = weir__sys_dlopen,
	.thread = weir__thread_start,
	.version = PACKAGE_VERSION,
};

/* The name of the file that has the source for @scheme. */
static void name_of(const char *scheme, char *name, size_t room)
{
	static const char *const http[] = { "http", "https", "s3",
					    "gs",   "az",    "hf" };

	for (size_t i = 0; i < sizeof(http) / sizeof(http[0]); i++)
		if (!strcmp(scheme, http[i])) {
			snprintf(name, room, "weir-http.so");
			return;
		}
	snprintf(name, room, "weir-source-%s.so", scheme);
}

static bool was_tried(const struct weir__source_search *s, const char *name)
{
	const struct weir__source_tried *t = s->tried;

	while (t && strcmp(t->name, name) != 0)
		t = t->next;
	return t;
}

/* Without memory it is searched again. */
static void note_tried(struct weir__source_search *s, const char *name)
{
	struct weir__source_tried *t = weir__calloc(1, sizeof(*t));

	if (!t)
		return;
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->next = s->tried;
	s->tried = t;
}

static void left_out_drop(struct weir__source_left_out *x)
{
	weir__free(x->path);
	weir__free(x->why);
	weir__free(x);
}

void weir__source_search_refuse(struct weir *weir,
				struct weir__source_search *s, const char *path)
{
	struct weir__source_left_out *x = weir__calloc(1, sizeof(*x)), **end;

	weir__log(weir, "module %s: %s", path, weir_error());
	if (!x)
		return;
	x->path = weir__strdup(path);
	x->why = weir__strdup(weir_error());
	if (!x->path || !x->why) {
		left_out_drop(x);
		return;
	}
	for (end = &s->left_out; *end; end = &(*end)->next)
		;
	*end = x;
}

struct searching {
	struct weir *weir;
	struct weir__source_search *s;
};

static void left_out(void *arg, const char *path)
{
	struct searching *searching = arg;

	weir__source_search_refuse(searching->weir, searching->s, path);
}

static int enter(struct weir *weir, const struct weir__module *m,
		 const struct weir_source **ret_source, void **ret_self)
{
	char why[WEIR_SOURCE_WHY] = "";
	weir_source_entry_fn *entry;
	int r;

	*(void **)&entry = weir__module_symbol(m, WEIR_SOURCE_ENTRY);
	if (!entry)
		return weir__fail(-ENOEXEC, "it has no symbol %s",
				  WEIR_SOURCE_ENTRY);
	*ret_source = NULL;
	*ret_self = NULL;
	r = entry(weir, &host, ret_source, ret_self, why);
	why[sizeof(why) - 1] = '\0';
	if (r < 0)
		return weir__fail(r < -4095 ? -EIO : r, "%s",
				  *why ? why : "it gives no reason");
	return *ret_source ? 0 : weir__fail(-EBADMSG, "it returned no source");
}

int weir__source_module_load(struct weir *weir, struct weir__source_search *s,
			     const char *scheme,
			     struct weir__module **ret_module,
			     const struct weir_source **ret_source,
			     void **ret_self)
{
	struct searching searching = { weir, s };
	struct weir__module *m;
	char name[40];
	int r;

	name_of(scheme, name, sizeof(name));
	if (was_tried(s, name))
		return -ENOENT;
	note_tried(s, name);
	r = weir__module_find(weir, name, left_out, &searching, &m);
	if (r < 0)
		return r;
	weir__enter(NULL);
	r = enter(weir, m, ret_source, ret_self);
	if (r < 0) {
		weir__source_search_refuse(weir, s, weir__module_path(m));
		weir__module_drop(m);
		return r;
	}
	*ret_module = m;
	return 0;
}

int weir__source_search_fail(const struct weir__source_search *s,
			     const char *scheme)
{
	const struct weir__source_left_out *x = s->left_out;
	char name[40];

	name_of(scheme, name, sizeof(name));
	for (; x; x = x->next)
		if (!strcmp(strrchr(x->path, '/') + 1, name))
			return weir__fail(-ENOENT, "no source for %s: %s: %s",
					  scheme, x->path, x->why);
	return weir__fail(
		-ENOENT,
		"no source for %s: no directory of modules has %s: install it, or name its directory in WEIR_MODULE_PATH",
		scheme, name);
}

const char *weir__source_search_refused(const struct weir__source_search *s,
					unsigned i, const char **ret_path)
{
	const struct weir__source_left_out *x = s->left_out;

	while (x && i--)
		x = x->next;
	if (!x)
		return NULL;
	*ret_path = x->path;
	return x->why;
}

void weir__source_search_fini(struct weir__source_search *s)
{
	struct weir__source_left_out *x;
	struct weir__source_tried *t;

	while ((x = s->left_out)) {
		s->left_out = x->next;
		left_out_drop(x);
	}
	while ((t = s->tried)) {
		s->tried = t->next;
		weir__free(t);
	}
}
