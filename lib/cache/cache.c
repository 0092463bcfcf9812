/* SPDX-License-Identifier: MIT */
/* The cache of a root: its folder, and the objects that are looked for. */
#include "cache/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/sys.h"
#include "core/util.h"

#define LOCK_NS INT64_C(200000000)

/* The folder. */

/* Others who could write to it could change models. */
static int check_folder(int dir)
{
	struct stat st;
	int r = weir__sys_fstat(dir, &st);

	if (r < 0)
		return weir__fail_sys(r, "its folder");
	if (st.st_uid != geteuid())
		return weir__fail(-EPERM, "the folder is another user's");
	if (st.st_mode & 022)
		return weir__fail(-EPERM,
				  "others may write to the folder: chmod go-w");
	return 0;
}

static int open_folder(const char *path)
{
	int r = weir__sys_make_folder(AT_FDCWD, path, 0700), dir;

	if (r < 0 && r != -EEXIST)
		return weir__fail_sys(r, "its folder cannot be made");
	dir = weir__sys_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return weir__fail_sys(dir, "its folder");
	r = check_folder(dir);
	if (r >= 0)
		return dir;
	weir__sys_close(dir);
	return r;
}

static void cache_close(struct weir__part *part, int64_t deadline)
{
	weir__copies_end(weir__container(part, struct weir__copies, part),
			 deadline);
}

static void cache_free(struct weir__part *part)
{
	struct weir__copies *c =
		weir__container(part, struct weir__copies, part);

	weir__sys_close(c->dir);
	pthread_cond_destroy(&c->cond);
	pthread_mutex_destroy(&c->lock);
	weir__free(c->path);
	weir__free(c);
}

static int cache_new(struct weir *weir, struct weir__part **ret_part)
{
	struct weir__copies *c = weir__calloc(1, sizeof(*c));
	pthread_condattr_t attr;
	char real[PATH_MAX];

	if (!c)
		return weir__fail(-ENOMEM, "no memory for a cache");
	c->part.close = cache_close;
	c->part.free = cache_free;
	c->weir = weir;
	c->limit = weir->opts.cache_bytes;
	c->write_end = &c->write;
	c->read_end = &c->read;
	c->held_end = &c->held;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&c->cond, &attr);
	pthread_condattr_destroy(&attr);
	c->dir = open_folder(weir->opts.cache);
	if (c->dir < 0)
		weir__log(weir, "cache %s is not used: %s", weir->opts.cache,
			  weir__error_text());
	else if (weir__sys_realpath(weir->opts.cache, real) >= 0)
		c->path = weir__strdup(real);
	*ret_part = &c->part;
	return 0;
}

/* NULL: there is none, or it cannot be used. */
static struct weir__copies *cache_of(struct weir *weir)
{
	struct weir__part *part;
	struct weir__copies *c;

	if (!weir->opts.cache || !*weir->opts.cache ||
	    weir__root_part(weir, WEIR__PART_COPIES, cache_new, &part) < 0)
		return NULL;
	c = weir__container(part, struct weir__copies, part);
	if (c->dir < 0 || !c->path)
		return NULL;
	return weir__copies_start(c) ? c : NULL;
}

/* Objects. */

static int make_names(const struct weir_source_info *info,
		      struct weir__copies_names *names)
{
	char text[sizeof(info->name) + sizeof(info->identity) +
		  sizeof(info->sha256) + 32];
	uint8_t digest[WEIR__DIGEST_MAX];
	char hex[WEIR__DIGEST_TEXT];
	int n, r;

	n = snprintf(text, sizeof(text), "%s\n%s\n%s\n%llu", info->name,
		     info->identity, info->sha256,
		     (unsigned long long)info->bytes);
	r = weir__hash_bytes(WEIR_DIGEST_SHA256, text, (size_t)n, digest);
	if (r < 0)
		return r;
	weir__digest_hex(digest, 32, hex);
	snprintf(names->part, sizeof(names->part), "%.64s.part", hex);
	snprintf(names->state, sizeof(names->state), "%.64s.state", hex);
	if (*info->sha256)
		snprintf(hex, sizeof(hex), "%.64s", info->sha256);
	snprintf(names->whole, sizeof(names->whole), "%.64s%s", hex,
		 *info->sha256 ? ".sum" : ".url");
	snprintf(names->used, sizeof(names->used), "%.70s.used", names->whole);
	return 0;
}

void weir__copies_touch(struct weir__copies *cache, const char *used)
{
	int fd = weir__sys_open_at(cache->dir, used,
				   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW,
				   0600);

	if (fd >= 0)
		futimens(fd, NULL);
	weir__sys_close(fd);
}

static bool find_whole(struct weir__copies *c,
		       const struct weir_source_info *info,
		       const struct weir__copies_names *names,
		       struct weir__copies_found *ret)
{
	struct stat st;

	if (weir__sys_stat_at(c->dir, names->whole, false, &st) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (uint64_t)st.st_size != info->bytes)
		return false;
	weir__copies_touch(c, names->used);
	return (size_t)snprintf(ret->path, sizeof(ret->path), "%s/%s", c->path,
				names->whole) < sizeof(ret->path);
}

static int open_partial(struct weir__copies *c,
			const struct weir_source_info *info,
			const struct weir__copies_names *names,
			struct weir__partial **ret_partial)
{
	const struct weir__partial_id id = { info->name, info->identity,
					     info->sha256, info->bytes };
	struct weir__partial *p = NULL;
	struct stat st;
	int lock = -1, r = 0;

	/* A file of another size was not begun, or is damaged. */
	if (weir__sys_stat_at(c->dir, names->part, false, &st) < 0 ||
	    (uint64_t)st.st_size != info->bytes)
		r = weir__copies_make_room(c, info->bytes, &lock);
	if (r >= 0)
		r = weir__partial_open(c->dir, names->state,
				       WEIR__PARTIAL_CREATE |
					       WEIR__PARTIAL_SHARED,
				       LOCK_NS, &id, &p);
	if (r >= 0)
		r = weir__partial_begin(p, c->dir, names->part);
	weir__sys_close(lock);
	if (r < 0)
		weir__partial_close(p);
	else
		*ret_partial = p;
	return r;
}

static enum weir__copies_way
fail_open(struct weir__copies *c, const struct weir_source_info *info, int r)
{
	weir__log(c->weir, "cache %s: %s is not kept: %s", c->path, info->name,
		  r == -ENOSPC && c->limit ? "no room within its limit"
					   : weir__errno_describe(-r));
	return WEIR__COPIES_NONE;
}

enum weir__copies_way weir__copies_find(struct weir *weir,
					const struct weir_source *source,
					void *object,
					const struct weir_source_info *info,
					struct weir__copies_found *ret)
{
	struct weir__error_saved saved;
	struct weir__copies_names names;
	struct weir__partial *partial;
	struct weir__copies *c;
	int r;

	if (!*info->identity || !info->bytes)
		return WEIR__COPIES_NONE;
	weir__error_save(&saved);
	c = cache_of(weir);
	weir__error_restore(&saved);
	if (!c || make_names(info, &names) < 0)
		return WEIR__COPIES_NONE;
	if (find_whole(c, info, &names, ret))
		return WEIR__COPIES_FILE;
	r = open_partial(c, info, &names, &partial);
	/* Another process has just made it whole. */
	if (r < 0 && find_whole(c, info, &names, ret))
		return WEIR__COPIES_FILE;
	if (r < 0)
		return fail_open(c, info, r);
	ret->object = weir__cached_new(c, source, object, info, partial, &names,
				       &ret->ops);
	if (!ret->object) {
		weir__partial_close(partial);
		return WEIR__COPIES_NONE;
	}
	weir__copies_look(ret->object);
	return WEIR__COPIES_OBJECT;
}
