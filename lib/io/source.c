/* SPDX-License-Identifier: MIT */
/*
 * The sources of a root, by their schemes, and the objects that they open. The
 * list of sources only grows: an entry is constant once it is in the list.
 */
#include "io/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/error.h"
#include "core/sys.h"
#include "dev/registry.h"
#include "io/caller_read.h"
#include "io/file.h"
#include "io/source_module.h"

#define MAX_SCHEME 16u
#define MAX_SCHEMES 32u
#define REQUEST_BYTES (UINT64_C(64) << 10)

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

/* Copy a table of any size, and check it. */
static int copy_table(const struct weir_source *source, struct weir_source *ret)
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
	r = copy_table(source, &e->ops);
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

/* Objects. */

struct weir__object *weir__object_new(const struct weir_source *source,
				      void *self,
				      const struct weir_source_info *info,
				      const char *url)
{
	struct weir__object *o = weir__calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->ops = *source;
	o->info = *info;
	o->url = url ? weir__strdup(url) : NULL;
	if (url && !o->url) {
		weir__free(o);
		return NULL;
	}
	o->self = self;
	return o;
}

void weir__object_free(struct weir__object *object)
{
	if (!object)
		return;
	object->ops.close(object->self);
	weir__free(object->url);
	weir__free(object);
}

/* Strings of the source, cut if they do not end. */
static int check_info(const struct weir_source *source,
		      struct weir_source_info *info, const char *name)
{
	info->size = sizeof(*info);
	info->identity[sizeof(info->identity) - 1] = '\0';
	info->name[sizeof(info->name) - 1] = '\0';
	if (!*info->name)
		snprintf(info->name, sizeof(info->name), "%s", name);
	for (char *c = info->name; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	if (!info->request_bytes)
		info->request_bytes = REQUEST_BYTES;
	if (info->bytes > INT64_MAX)
		return weir__fail(-EINVAL,
				  "source %s: %s: an object of %llu bytes",
				  source->name, info->name,
				  (unsigned long long)info->bytes);
	return 0;
}

int weir_source_file(struct weir *weir, const struct weir_source *source,
		     void *object, const struct weir_source_info *info,
		     struct weir_file **ret_file)
{
	struct weir_source_info own = { 0 };
	struct weir_source table;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(weir);
	if (r >= 0)
		r = weir__opts_in(&own, sizeof(own), info);
	if (r >= 0)
		r = copy_table(source, &table);
	if (r >= 0)
		r = check_info(&table, &own, table.name);
	return r < 0 ? r
		     : weir__file_of_object(weir, &table, object, &own, NULL,
					    ret_file);
}

int weir__object_read(struct weir_file *file, void *buf, size_t n, uint64_t off)
{
	char words[WEIR_SOURCE_WHY];
	int r;

	if (!n)
		return 0;
	r = weir__read_blocking(file, buf, n, off, words, sizeof(words));
	if (r >= 0)
		return 0;
	if (r == -ENODATA)
		return weir__fail(-ESTALE, "%s: has %llu bytes: %s", file->path,
				  (unsigned long long)file->id.bytes, words);
	return weir__fail(weir__cause_errno(r),
			  "%s: read of %zu bytes at %llu: %s", file->path, n,
			  (unsigned long long)off, words);
}

/* The errno of a function of a source, and its sentence in @why. */
static int fail_of(int r, const char *name, const char *why)
{
	if (r < -4095)
		r = -EIO;
	/* Sources of servers begin with a URL themselves. */
	if (!strncmp(why, name, strlen(name)))
		return weir__fail(r, "%s", why);
	if (*why)
		return weir__fail(r, "%s: %s", name, why);
	return weir__fail_sys(r, "%s", name);
}

int weir__object_unchanged(const struct weir_file *file)
{
	const struct weir__object *o = file->object;
	char why[WEIR_SOURCE_WHY] = "";
	int r = o->ops.check ? o->ops.check(o->self, why) : 0;

	why[sizeof(why) - 1] = '\0';
	return r < 0 ? fail_of(r, file->path, why) : 0;
}

/* URLs. */

/* The table was refused after the module had made what it needs. */
static void stop_refused(const struct weir_source *source, void *self)
{
	struct weir_source table;

	if (copy_table(source, &table) >= 0 && table.stop)
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

static int find_for(struct weir *weir, const char *scheme, size_t len,
		    struct weir__source_entry **ret)
{
	struct weir__error_saved saved;
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
	*ret = find(s, lower, len);
	if (!*ret) {
		weir__error_save(&saved);
		*ret = load_for(weir, s, lower);
		weir__error_restore(&saved);
	}
	if (!*ret)
		r = weir__source_search_fail(&s->search, lower);
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int object_open(struct weir *weir, const char *url,
		       struct weir_file **ret_file)
{
	struct weir_source_info info = { .size = sizeof(info) };
	char why[WEIR_SOURCE_WHY] = "", name[512];
	struct weir__source_entry *e;
	void *object = NULL;
	int r;

	weir__url_shown(url, name, sizeof(name));
	if (!strncasecmp(url, "file://", 7))
		return weir__fail(
			-EINVAL,
			"%s: give the path of the file, without file://", name);
	r = find_for(weir, url, weir__url_scheme(url), &e);
	if (r < 0)
		return weir__fail_for(r, "%s", name);
	r = e->ops.open(e->self, url, &object, &info, why);
	why[sizeof(why) - 1] = '\0';
	if (r < 0)
		return fail_of(r, name, why);
	r = check_info(&e->ops, &info, name);
	if (r >= 0)
		r = weir__file_of_object(weir, &e->ops, object, &info, url,
					 ret_file);
	if (r < 0)
		e->ops.close(object);
	return r;
}

/* The root may be closed meanwhile, and with it the source. */
int weir__object_open(struct weir *weir, const char *url,
		      struct weir_file **ret_file)
{
	int r;

	weir__root_ref(weir);
	r = object_open(weir, url, ret_file);
	weir__root_put(weir);
	return r;
}

static int url_list(struct weir *weir, const char *url,
		    weir_source_found_fn *found, void *arg)
{
	char why[WEIR_SOURCE_WHY] = "", name[512];
	struct weir__source_entry *e;
	int r = find_for(weir, url, weir__url_scheme(url), &e);

	weir__url_shown(url, name, sizeof(name));
	if (r < 0)
		return weir__fail_for(r, "%s", name);
	if (!e->ops.list)
		return weir__fail(-EOPNOTSUPP,
				  "%s: source %s cannot list folders", name,
				  e->ops.name);
	r = e->ops.list(e->self, url, found, arg, why);
	why[sizeof(why) - 1] = '\0';
	return r < 0 ? fail_of(r, name, why) : 0;
}

int weir__url_list(struct weir *weir, const char *url,
		   weir_source_found_fn *found, void *arg)
{
	int r;

	weir__root_ref(weir);
	r = url_list(weir, url, found, arg);
	weir__root_put(weir);
	return r;
}

bool weir__url_has_source(struct weir *weir, const char *url)
{
	struct weir__source_entry *e;

	return find_for(weir, url, weir__url_scheme(url), &e) >= 0;
}

static int configure(struct weir *weir, const char *scheme, const char *params)
{
	char why[WEIR_SOURCE_WHY] = "";
	struct weir__source_entry *e;
	int r;

	r = find_for(weir, scheme, strlen(scheme), &e);
	if (r < 0)
		return r;
	if (!e->ops.configure)
		return weir__fail(-EINVAL, "source %s: it has no parameters",
				  e->ops.name);
	r = e->ops.configure(e->self, params, why);
	why[sizeof(why) - 1] = '\0';
	return r < 0 ? fail_of(r, e->ops.name, why) : 0;
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
