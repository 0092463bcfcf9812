/* SPDX-License-Identifier: MIT */
/* The objects of sources: opened, listed, read, checked and closed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cache/cache.h"
#include "core/error.h"
#include "core/sys.h"
#include "io/caller_read.h"
#include "io/file.h"
#include "io/source.h"

#define CACHE_LOCK_NS INT64_C(200000000)
#define REQUEST_BYTES (UINT64_C(64) << 10)

struct weir__object *weir__object_new(const struct weir_source *source,
				      void *self,
				      const struct weir_source_info *info)
{
	struct weir__object *o = weir__calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->ops = *source;
	o->info = *info;
	o->self = self;
	return o;
}

void weir__object_free(struct weir__object *object)
{
	if (!object)
		return;
	object->ops.close(object->self);
	weir__free(object);
}

/* Strings of the source, cut if they do not end. */
static int check_info(const struct weir_source *source,
		      struct weir_source_info *info, const char *name)
{
	info->size = sizeof(*info);
	info->identity[sizeof(info->identity) - 1] = '\0';
	info->name[sizeof(info->name) - 1] = '\0';
	info->sha256[sizeof(info->sha256) - 1] = '\0';
	info->path[sizeof(info->path) - 1] = '\0';
	if (!*info->name)
		snprintf(info->name, sizeof(info->name), "%s", name);
	if (*info->sha256 && (strlen(info->sha256) != 64 ||
			      strspn(info->sha256, "0123456789abcdef") != 64))
		return weir__fail(-EINVAL,
				  "source %s: %s: its SHA-256 has no 64 digits",
				  source->name, info->name);
	if (*info->path && *info->path != '/')
		return weir__fail(-EINVAL,
				  "source %s: %s: its path is not absolute",
				  source->name, info->name);
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
		r = weir__source_table(source, &table);
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

int weir__object_unchanged(const struct weir_file *file)
{
	const struct weir__object *o = file->object;
	char why[WEIR_SOURCE_WHY] = "";
	int r = o->ops.check ? o->ops.check(o->self, why) : 0;

	return weir__source_result(r, file->path, why);
}

/* The copy in the cache. False: it is not there any more. */
static bool open_cached(struct weir *weir, const char *path,
			const struct weir_source_info *info, const char *url,
			struct weir_file **ret_file)
{
	struct weir__error_saved saved;
	struct weir_file *file;
	bool there = false;

	weir__error_save(&saved);
	if (weir__file_open_copy(weir, path, info, url, &file) >= 0) {
		/* The lock says that it is in use, as long as it is open. */
		there = weir__sys_lock_shared(file->fd, CACHE_LOCK_NS) >= 0;
		file->in_cache = true;
		if (there)
			*ret_file = file;
		else
			weir__file_put(file);
	}
	weir__error_restore(&saved);
	return there;
}

/* As object_file(), for an object that the cache may have. */
static int cached_file(struct weir *weir, const struct weir_source *ops,
		       void **object, const struct weir_source_info *info,
		       const char *url, struct weir_file **ret_file)
{
	struct weir__copies_found found = { .ops = *ops, .object = *object };
	int r;

	if (weir__copies_find(weir, ops, *object, info, &found) ==
		    WEIR__COPIES_FILE &&
	    open_cached(weir, found.path, info, url, ret_file))
		return 0;
	*object = NULL;
	r = weir__file_of_object(weir, &found.ops, found.object, info, url,
				 ret_file);
	if (r < 0)
		found.ops.close(found.object);
	return r;
}

/*
 * Make a file of what a source has opened: the object, or a file of this
 * machine with the same bytes. If the file has the object, *object is NULL
 * then.
 */
static int object_file(struct weir *weir, const struct weir_source *ops,
		       void **object, const struct weir_source_info *info,
		       const char *url, struct weir_file **ret_file)
{
	struct weir__error_saved saved;
	int r;

	if (*info->path) {
		weir__error_save(&saved);
		r = weir__file_open_copy(weir, info->path, info, url, ret_file);
		if (r >= 0 || !*object || r == -ENOMEM || r == -EMFILE)
			return r;
		weir__error_restore(&saved);
	}
	if (!*object)
		return weir__fail(-EINVAL,
				  "source %s: %s: neither an object nor a path",
				  ops->name, info->name);
	return cached_file(weir, ops, object, info, url, ret_file);
}

static int object_open(struct weir *weir, const char *url,
		       struct weir_file **ret_file)
{
	struct weir_source_info info = { .size = sizeof(info) };
	char why[WEIR_SOURCE_WHY] = "", name[512];
	const struct weir_source *ops;
	void *self, *object = NULL;
	int r;

	weir__url_shown(url, name, sizeof(name));
	if (!strncasecmp(url, "file://", 7))
		return weir__fail(
			-EINVAL,
			"file:// is no source of bytes: give the path alone");
	r = weir__source_find(weir, url, weir__url_scheme(url), &ops, &self);
	if (r < 0)
		return weir__fail_for(r, "%s", name);
	r = ops->open(self, url, &object, &info, why);
	r = weir__source_result(r, name, why);
	if (r < 0)
		return r;
	r = check_info(ops, &info, name);
	if (r >= 0)
		r = object_file(weir, ops, &object, &info, url, ret_file);
	if (object)
		ops->close(object);
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
	const struct weir_source *ops;
	void *self;
	int r = weir__source_find(weir, url, weir__url_scheme(url), &ops,
				  &self);

	weir__url_shown(url, name, sizeof(name));
	if (r < 0)
		return weir__fail_for(r, "%s", name);
	if (!ops->list)
		return weir__fail(-EOPNOTSUPP,
				  "%s: source %s cannot list folders", name,
				  ops->name);
	r = ops->list(self, url, found, arg, why);
	return weir__source_result(r, name, why);
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
