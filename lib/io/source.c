/* SPDX-License-Identifier: MIT */
/*
 * The sources of a root, by their schemes. The list of them only grows: an
 * entry is constant once it is in the list.
 */
#include "io/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "dev/registry.h"
#include "io/source_module.h"

#define MAX_SCHEME 16u
#define MAX_SCHEMES 32u

struct weir__source_entry {
	struct weir__source_entry *next;
	struct weir_source ops;
	void *self;
	char *schemes;               /* with a blank after each */
	struct weir__module *module; /* NULL: the program's */
};

struct weir__sources {
	struct weir__part part;
	pthread_mutex_t lock; /* guards all of this, and that a module is
				 searched once */
	struct weir__source_entry *first;
	struct weir__source_search search;
};

static struct weir__sources *sources_of(struct weir__part *part)
{
	return (struct weir__sources *)part;
}

/* No object is left: each has a reference to the root. */
static void sources_free(struct weir__part *part)
{
	struct weir__sources *s = sources_of(part);
	struct weir__source_entry *e;

	while ((e = s->first)) {
		s->first = e->next;
		if (e->ops.stop)
			e->ops.stop(e->self);
		if (e->module)
			weir__module_drop(e->module);
		weir__free(e->schemes);
		weir__free(e);
	}
	weir__source_search_fini(&s->search);
	pthread_mutex_destroy(&s->lock);
	weir__free(s);
}

static int sources_new(struct weir *weir, struct weir__part **ret_part)
{
	struct weir__sources *s = weir__calloc(1, sizeof(*s));

	(void)weir;
	if (!s)
		return weir__fail(-ENOMEM, "no memory for sources");
	s->part.free = sources_free;
	pthread_mutex_init(&s->lock, NULL);
	*ret_part = &s->part;
	return 0;
}

static int sources_get(struct weir *weir, struct weir__sources **ret)
{
	struct weir__part *part;
	int r = weir__root_enter(weir);

	if (r >= 0)
		r = weir__root_part(weir, WEIR__PART_SOURCE, sources_new,
				    &part);
	if (r >= 0)
		*ret = sources_of(part);
	return r;
}

/* Tables. */

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_name(const char *name, const char *more)
{
	size_t n = name ? strlen(name) : 0;

	if (!n || n > MAX_SCHEME || !is_lower(*name))
		return false;
	for (; *name; name++)
		if (!is_lower(*name) && !(*name >= '0' && *name <= '9') &&
		    !strchr(more, *name))
			return false;
	return true;
}

int weir__source_table(const struct weir_source *source,
		       struct weir_source *ret)
{
	const size_t least = offsetof(struct weir_source, cancel);
	size_t n = source->size;

	if (n < offsetof(struct weir_source, flags) + sizeof(source->flags))
		return weir__fail(-EINVAL, "a source's table of %zu bytes", n);
	if (source->abi != WEIR_SOURCE_ABI)
		return weir__fail(-EPROTO,
				  "a source of ABI %u; this library has ABI %u",
				  source->abi, WEIR_SOURCE_ABI);
	if (n < least)
		return weir__fail(
			-EINVAL,
			"a source's table of %zu bytes ends before a required member: %zu at least",
			n, least);
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, source, n < sizeof(*ret) ? n : sizeof(*ret));
	ret->size = sizeof(*ret);
	if (!is_name(ret->name, "-"))
		return weir__fail(
			-EINVAL,
			"the name of a source is '%s', not 1 to %u of a-z, 0-9 and -, the first a letter",
			ret->name ? weir__quote(ret->name, strlen(ret->name))
				  : "",
			MAX_SCHEME);
	if (ret->flags)
		return weir__fail(-EINVAL, "source %s: unknown flags %#x",
				  ret->name, ret->flags);
	if (!ret->close || !ret->read)
		return weir__fail(-EINVAL, "source %s: it has no %s", ret->name,
				  ret->read ? "close" : "read");
	return 0;
}

/* The lock is held. */
static struct weir__source_entry *find(const struct weir__sources *s,
				       const char *scheme, size_t len)
{
	for (struct weir__source_entry *e = s->first; e; e = e->next)
		for (const char *p = e->schemes; *p;) {
			size_t n = strcspn(p, " ");

			if (n == len && !memcmp(p, scheme, n))
				return e;
			p += n + 1;
		}
	return NULL;
}

static int add_scheme(const struct weir__sources *s,
		      struct weir__source_entry *e, const char *scheme)
{
	size_t has = e->schemes ? strlen(e->schemes) : 0;
	char *more;

	if (!is_name(scheme, "+-."))
		return weir__fail(
			-EINVAL,
			"source %s: '%s' is no scheme: 1 to %u of a-z, 0-9, +, - and ., the first a letter",
			e->ops.name, weir__quote(scheme, strlen(scheme)),
			MAX_SCHEME);
	if (!strcmp(scheme, "file"))
		return weir__fail(
			-EINVAL,
			"source %s: the scheme file stands for no source",
			e->ops.name);
	if (find(s, scheme, strlen(scheme)))
		return weir__fail(-EEXIST,
				  "source %s: there is a source for %s already",
				  e->ops.name, scheme);
	more = weir__malloc(has + strlen(scheme) + 2);
	if (!more)
		return weir__fail(-ENOMEM, "source %s: no memory", e->ops.name);
	snprintf(more, has + strlen(scheme) + 2, "%s%s ",
		 e->schemes ? e->schemes : "", scheme);
	weir__free(e->schemes);
	e->schemes = more;
	return 0;
}

static int add_schemes(const struct weir__sources *s,
		       struct weir__source_entry *e)
{
	const char *const *scheme = e->ops.schemes;
	int r = 0;

	if (!scheme || !*scheme)
		return weir__fail(
			-EINVAL,
			"source %s: it has no schemes: open its objects by weir_source_file()",
			e->ops.name);
	if (!e->ops.open)
		return weir__fail(-EINVAL, "source %s: it has no open",
				  e->ops.name);
	for (unsigned i = 0; scheme[i] && r >= 0; i++)
		r = i < MAX_SCHEMES
			    ? add_scheme(s, e, scheme[i])
			    : weir__fail(-EINVAL,
					 "source %s: more than %u schemes",
					 e->ops.name, MAX_SCHEMES);
	return r;
}

/* The lock is held. Takes @module only if it succeeds. */
static int add(struct weir__sources *s, const struct weir_source *source,
	       void *self, struct weir__module *module)
{
	struct weir__source_entry *e = weir__calloc(1, sizeof(*e)), **end;
	int r;

	if (!e)
		return weir__fail(-ENOMEM, "no memory for a source");
	r = weir__source_table(source, &e->ops);
	for (struct weir__source_entry *x = s->first; x && r >= 0; x = x->next)
		if (!strcmp(x->ops.name, e->ops.name))
			r = weir__fail(
				-EEXIST,
				"there is a source with the name %s already",
				e->ops.name);
	if (r >= 0)
		r = add_schemes(s, e);
	if (r < 0) {
		weir__free(e->schemes);
		weir__free(e);
		return r;
	}
	e->self = self;
	e->module = module;
	for (end = &s->first; *end; end = &(*end)->next)
		;
	*end = e;
	return 0;
}

int weir_source_add(struct weir *weir, const struct weir_source *source,
		    void *self)
{
	struct weir__sources *s;
	int r;

	WEIR__ENTER();
	r = sources_get(weir, &s);
	if (r < 0)
		return r;
	pthread_mutex_lock(&s->lock);
	r = add(s, source, self, NULL);
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Schemes. */

int weir__source_result(int r, const char *name,
			char why[static WEIR_SOURCE_WHY])
{
	why[WEIR_SOURCE_WHY - 1] = '\0';
	if (r >= 0)
		return 0;
	if (r < -4095)
		r = -EIO;
	/* Sources of servers begin with a URL themselves. */
	if (!strncmp(why, name, strlen(name)))
		return weir__fail(r, "%s", why);
	if (*why)
		return weir__fail(r, "%s: %s", name, why);
	return weir__fail_sys(r, "%s", name);
}

/* The table was refused after the module had made what it needs. */
static void stop_refused(const struct weir_source *source, void *self)
{
	struct weir_source table;

	if (weir__source_table(source, &table) >= 0 && table.stop)
		table.stop(self);
}

/* Load the module for a scheme. The lock is held. */
static struct weir__source_entry *
load_for(struct weir *weir, struct weir__sources *s, const char *scheme)
{
	const struct weir_source *source;
	struct weir__module *m;
	void *self;

	if (weir__source_module_load(weir, &s->search, scheme, &m, &source,
				     &self) < 0)
		return NULL;
	if (add(s, source, self, m) < 0) {
		weir__source_search_refuse(weir, &s->search,
					   weir__module_path(m));
		stop_refused(source, self);
		weir__module_drop(m);
		return NULL;
	}
	return find(s, scheme, strlen(scheme));
}

int weir__source_find(struct weir *weir, const char *scheme, size_t len,
		      const struct weir_source **ret_ops, void **ret_self)
{
	struct weir__error_saved saved;
	struct weir__source_entry *e;
	char lower[MAX_SCHEME + 1];
	struct weir__sources *s;
	int r = sources_get(weir, &s);

	if (r < 0)
		return r;
	for (size_t i = 0; i < len && i < MAX_SCHEME; i++)
		lower[i] = (char)(scheme[i] >= 'A' && scheme[i] <= 'Z'
					  ? scheme[i] - 'A' + 'a'
					  : scheme[i]);
	lower[len < MAX_SCHEME ? len : MAX_SCHEME] = '\0';
	if (len > MAX_SCHEME || !is_name(lower, "+-."))
		return weir__fail(-ENOENT, "there is no source for %s",
				  weir__quote(scheme, len));
	pthread_mutex_lock(&s->lock);
	e = find(s, lower, len);
	if (!e) {
		weir__error_save(&saved);
		e = load_for(weir, s, lower);
		weir__error_restore(&saved);
	}
	if (!e)
		r = weir__source_search_fail(&s->search, lower);
	pthread_mutex_unlock(&s->lock);
	if (!e)
		return r;
	*ret_ops = &e->ops;
	*ret_self = e->self;
	return 0;
}

bool weir__url_has_source(struct weir *weir, const char *url)
{
	const struct weir_source *ops;
	void *self;

	return weir__source_find(weir, url, weir__url_scheme(url), &ops,
				 &self) >= 0;
}

static int configure(struct weir *weir, const char *scheme, const char *params)
{
	char why[WEIR_SOURCE_WHY] = "";
	const struct weir_source *ops;
	void *self;
	int r = weir__source_find(weir, scheme, strlen(scheme), &ops, &self);

	if (r < 0)
		return r;
	if (!ops->configure)
		return weir__fail(-EINVAL, "source %s: it has no parameters",
				  ops->name);
	r = ops->configure(self, params, why);
	return weir__source_result(r, ops->name, why);
}

int weir_source_configure(struct weir *weir, const char *scheme,
			  const char *params)
{
	int r;

	WEIR__ENTER();
	weir__root_ref(weir);
	r = configure(weir, scheme, params);
	weir__root_put(weir);
	return r;
}

int weir_source_describe(struct weir *weir, unsigned i,
			 struct weir_source_desc *ret_desc)
{
	struct weir_source_desc desc = { .size = sizeof(desc) };
	struct weir__error_saved saved;
	struct weir__sources *s;
	struct weir__source_entry *e;
	const char *why;
	int r;

	WEIR__ENTER();
	r = sources_get(weir, &s);
	if (r < 0)
		return r;
	pthread_mutex_lock(&s->lock);
	weir__error_save(&saved);
	if (!find(s, "https", 5) && !find(s, "http", 4))
		load_for(weir, s, "https");
	weir__error_restore(&saved);
	for (e = s->first; e && i; i--)
		e = e->next;
	why = e ? NULL
		: weir__source_search_refused(&s->search, i, &desc.module);
	pthread_mutex_unlock(&s->lock);
	if (!e && !why)
		return weir__fail(-ENOENT, "there are not as many sources");
	desc.name = e ? e->ops.name : "";
	desc.schemes = e ? e->schemes : "";
	desc.why = why ? why : "";
	if (e)
		desc.module = e->module ? weir__module_path(e->module) : NULL;
	return weir__info_out(ret_desc, &desc, sizeof(desc));
}
