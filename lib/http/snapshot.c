/* SPDX-License-Identifier: MIT */
#include "http/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/credentials.h"

static bool is_hex(const char *text, size_t digits)
{
	return strlen(text) == digits &&
	       strspn(text, "0123456789abcdef") == digits;
}

bool weir__http_is_commit(const char *text)
{
	return is_hex(text, 40);
}

bool weir__http_is_sha256(const char *text)
{
	return is_hex(text, 64);
}

/* The folder of the cache, in memory of malloc; NULL: none is known. */
static char *cache_folder(void)
{
	const char *given = weir__http_env("HF_HUB_CACHE");
	const char *home = weir__http_env("HF_HOME");
	const char *cache = weir__http_env("XDG_CACHE_HOME");
	const char *user = weir__http_env("HOME");

	if (!given)
		given = weir__http_env("HUGGINGFACE_HUB_CACHE");
	if (given)
		return strdup(given);
	if (home)
		return weir__http_print("%s/hub", home);
	if (cache)
		return weir__http_print("%s/huggingface/hub", cache);
	if (user)
		return weir__http_print("%s/.cache/huggingface/hub", user);
	return NULL;
}

/* The model's folder, without symbolic links; NULL: there is none. */
static char *model_folder(const struct weir__http_url *u)
{
	size_t n = strcspn(u->owner, "/");
	char *cache = cache_folder(), *text = NULL, *real = NULL;

	if (cache)
		text = weir__http_print("%s/models--%.*s--%s", cache, (int)n,
					u->owner, u->owner + n + 1);
	if (text)
		real = realpath(text, NULL);
	free(cache);
	free(text);
	return real;
}

/* True if no part of the path is empty, "." or "..". */
static bool is_clean(const char *path)
{
	for (;;) {
		size_t n = strcspn(path, "/");

		if (!n ||
		    (*path == '.' && (n == 1 || (n == 2 && path[1] == '.'))))
			return false;
		if (!path[n])
			return true;
		path += n + 1;
	}
}

/*
 * What is at @kind/@at/@name in @folder, without symbolic links. They may lead
 * to the folder's blobs, and nowhere out of it. NULL: nothing is there.
 */
static char *inside(const char *folder, const char *kind, const char *at,
		    const char *name)
{
	char *text = weir__http_print("%s/%s/%s%s%s", folder, kind, at,
				      *name ? "/" : "", name);
	char *real = text ? realpath(text, NULL) : NULL;
	size_t n = strlen(folder);

	free(text);
	if (real && !strncmp(real, folder, n) && real[n] == '/')
		return real;
	free(real);
	return NULL;
}

bool weir__http_snapshot_commit(const struct weir__http_url *u,
				char commit[static 64])
{
	char *name = weir__http_decode(*u->revision ? u->revision : "main");
	char *folder = NULL, *path = NULL, *text = NULL;

	*commit = '\0';
	if (name && weir__http_is_commit(name)) {
		memcpy(commit, name, 41);
	} else if (name && is_clean(name)) {
		folder = model_folder(u);
		if (folder)
			path = inside(folder, "refs", name, "");
		if (path)
			text = weir__http_file(path, 64);
		if (text && weir__http_is_commit(text))
			memcpy(commit, text, 41);
	}
	free(name);
	free(folder);
	free(path);
	free(text);
	return *commit;
}

bool weir__http_snapshot_has(const struct weir__http_url *u, const char *commit)
{
	char *folder = model_folder(u);
	char *path = folder ? inside(folder, "snapshots", commit, "") : NULL;
	bool r = path;

	free(folder);
	free(path);
	return r;
}

/* A file's bytes; false: it is no file that can be read. */
static bool file_bytes(const char *path, uint64_t *ret_bytes)
{
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode) || access(path, R_OK))
		return false;
	*ret_bytes = (uint64_t)st.st_size;
	return true;
}

bool weir__http_snapshot_find(const struct weir__http_url *u,
			      const char *commit, struct weir__http_copy *ret)
{
	char *folder = is_clean(u->path) ? model_folder(u) : NULL;
	char *path = folder ? inside(folder, "snapshots", commit, u->path)
			    : NULL;
	const char *blob;

	memset(ret, 0, sizeof(*ret));
	if (!path || !file_bytes(path, &ret->bytes)) {
		free(folder);
		free(path);
		return false;
	}
	/* Blobs of large files have their SHA-256 as names. */
	blob = path + strlen(folder);
	if (!strncmp(blob, "/blobs/", 7) && weir__http_is_sha256(blob + 7))
		memcpy(ret->sha256, blob + 7, 65);
	ret->path = path;
	free(folder);
	return true;
}

int weir__http_snapshot_list(const struct weir__http_url *u, const char *commit,
			     weir_source_found_fn *found, void *arg)
{
	size_t n = strlen(u->path);
	char *folder = model_folder(u), *below, *path = NULL;
	struct dirent *one;
	DIR *dir;
	int err = 0;

	below = strndup(u->path, n && u->path[n - 1] == '/' ? n - 1 : n);
	if (folder && below && (!*below || is_clean(below)))
		path = inside(folder, "snapshots", commit, below);
	dir = path ? opendir(path) : NULL;
	if (!dir)
		err = -ENOENT;
	while (!err && (one = readdir(dir))) {
		char *file = weir__http_print("%s/%s", path, one->d_name);
		uint64_t bytes = 0;

		if (file && *one->d_name != '.' && file_bytes(file, &bytes))
			err = found(arg, one->d_name, bytes);
		free(file);
	}
	if (dir)
		closedir(dir);
	free(folder);
	free(below);
	free(path);
	return err < 0 ? err : 0;
}
