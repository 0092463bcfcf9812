/* SPDX-License-Identifier: MIT */
/*
 * Whether other users could have put code into a module: if they may write to
 * the file, to the directory in which it was found, or to the directory to
 * which a link there leads.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/root.h"
#include "core/sys.h"
#include "dev/module.h"

/* How another user may write to it; NULL: only root, our user and group. */
static const char *foreign_writer(const struct stat *st)
{
	if (st->st_uid && st->st_uid != geteuid())
		return "belongs to another user";
	if (st->st_mode & S_IWOTH)
		return "can be written by everybody";
	if ((st->st_mode & S_IWGRP) && st->st_gid && st->st_gid != getegid())
		return "can be written by another group";
	return NULL;
}

/* The same for the directory of the absolute @path. Returns < 0 if it fails. */
static int check_dir(const char *path, const char **ret_why)
{
	char dir[PATH_MAX];
	struct stat st;
	int r;

	snprintf(dir, sizeof(dir), "%.*s/", (int)(strrchr(path, '/') - path),
		 path);
	r = weir__sys_stat(dir, &st);
	if (r < 0)
		return weir__fail_sys(r, "%s", dir);
	*ret_why = foreign_writer(&st);
	return 0;
}

int weir__module_follow(const char *path, const struct stat *st,
			char real[static PATH_MAX])
{
	struct stat now;
	int r = weir__sys_realpath(path, real);

	if (r >= 0)
		r = weir__sys_stat(real, &now);
	if (r < 0)
		return weir__fail_sys(r, "its links cannot be resolved");
	if (now.st_dev == st->st_dev && now.st_ino == st->st_ino)
		return 0;
	return weir__fail(-ESTALE, "it was replaced while it was checked");
}

int weir__module_trust(struct weir *weir, const char *path,
		       const struct stat *st)
{
	const char *what = "it", *why = foreign_writer(st);
	char real[PATH_MAX];
	int r = 0;

	if (!why) {
		what = "its directory";
		r = check_dir(path, &why);
	}
	if (!why && r >= 0) {
		what = "the directory that it links to";
		r = weir__module_follow(path, st, real);
		if (r >= 0)
			r = check_dir(real, &why);
	}
	if (r < 0 || !why)
		return r;
	if (weir->opts.flags & WEIR_OPEN_STRICT_MODULES)
		return weir__fail(-EPERM, "refused: %s %s", what, why);
	weir__log(weir, "module %s: %s %s", path, what, why);
	return 0;
}
