/* SPDX-License-Identifier: MIT */
/*
 * Room in the folder. Whole files and partial ones count with the sizes of
 * their objects; those that nobody uses are removed, the one that was used
 * least recently first. A lock of a file, or of the state of a partial one,
 * says that it is in use.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"
#include "core/array.h"
#include "core/sys.h"

#define LOCK_NS INT64_C(1000000000)

struct kept {
	char name[WEIR__COPIES_NAME]; /* WHOLE, or KEY.part */
	uint64_t bytes;
	struct timespec used;
};

struct kept_list {
	struct kept *entry;
	size_t n, room;
	uint64_t bytes;
};

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), len = strlen(suffix);

	return n > len && !strcmp(name + n - len, suffix);
}

/* The name of a file of this cache; others' are left alone. */
static int is_ours(const struct dirent *entry)
{
	const char *name = entry->d_name;

	return strspn(name, "0123456789abcdef") == 64 &&
	       (!strcmp(name + 64, ".sum") || !strcmp(name + 64, ".url") ||
		!strcmp(name + 64, ".part"));
}

/* KEY.part -> KEY.state, WHOLE -> WHOLE.used */
static void beside(const char *name, char to[WEIR__COPIES_NAME])
{
	if (ends_in(name, ".part"))
		snprintf(to, WEIR__COPIES_NAME, "%.64s.state", name);
	else
		snprintf(to, WEIR__COPIES_NAME, "%.70s.used", name);
}

static int add(struct weir__copies *c, struct kept_list *l, const char *name)
{
	struct kept *more, *e;
	char other[WEIR__COPIES_NAME];
	struct stat st, used;

	if (weir__sys_stat_at(c->dir, name, false, &st) < 0)
		return 0;
	more = weir__grow(l->entry, &l->room, l->n, sizeof(*l->entry));
	if (!more)
		return -ENOMEM;
	l->entry = more;
	e = &l->entry[l->n++];
	snprintf(e->name, sizeof(e->name), "%s", name);
	e->bytes = (uint64_t)st.st_size;
	beside(name, other);
	e->used = weir__sys_stat_at(c->dir, other, false, &used) < 0
			  ? st.st_mtim
			  : used.st_mtim;
	l->bytes += e->bytes;
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct timespec *x = &((const struct kept *)a)->used,
			      *y = &((const struct kept *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static int list(struct weir__copies *c, struct kept_list *l)
{
	struct dirent **name;
	int n = weir__sys_scandir(c->path, is_ours, &name), r = 0;

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++) {
		if (r >= 0)
			r = add(c, l, name[i]->d_name);
		weir__free(name[i]);
	}
	weir__free(name);
	if (l->n)
		qsort(l->entry, l->n, sizeof(*l->entry), by_time);
	return r;
}

/* Remove an entry that nobody uses. */
static bool drop(struct weir__copies *c, const struct kept *e)
{
	bool part = ends_in(e->name, ".part");
	char other[WEIR__COPIES_NAME];
	int fd, r = 0;

	beside(e->name, other);
	fd = weir__sys_open_at(c->dir, part ? other : e->name,
			       O_RDWR | O_NOFOLLOW, 0);
	if (fd >= 0)
		r = weir__sys_lock(fd, 0);
	else if (!part || fd != -ENOENT)
		return false; /* without its state nobody uses a partial file */
	if (r >= 0)
		r = weir__sys_unlink(c->dir, e->name);
	if (r >= 0)
		weir__sys_unlink(c->dir, other);
	weir__sys_close(fd);
	return r >= 0;
}

int weir__copies_make_room(struct weir__copies *cache, uint64_t bytes,
			   int *ret_lock)
{
	struct kept_list l = { 0 };
	int lock, r;

	if (!cache->limit)
		return 0;
	if (bytes > cache->limit)
		return -ENOSPC;
	lock = weir__sys_open(cache->path, O_RDONLY | O_DIRECTORY, 0);
	r = lock < 0 ? lock : weir__sys_lock(lock, LOCK_NS);
	if (r >= 0)
		r = list(cache, &l);
	for (size_t i = 0; r >= 0 && i < l.n && l.bytes > cache->limit - bytes;
	     i++)
		if (drop(cache, &l.entry[i]))
			l.bytes -= l.entry[i].bytes;
	if (r >= 0 && l.bytes > cache->limit - bytes)
		r = -ENOSPC;
	weir__free(l.entry);
	if (r < 0)
		weir__sys_close(lock);
	else
		*ret_lock = lock;
	return r;
}
