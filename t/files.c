/* SPDX-License-Identifier: MIT */
#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

static char folder[64];

static int unlink_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void clean(void)
{
	nftw(folder, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
}

void files_begin(void)
{
	strcpy(folder, "/var/tmp/weir-t-XXXXXX");
	if (!mkdtemp(folder))
		bail("%s: %s", folder, strerror(errno));
	atexit(clean);
}

const char *files_path(const char *name)
{
	static char ring[8][4096];
	static unsigned next;
	char *out = ring[next++ % 8];

	snprintf(out, sizeof(ring[0]), "%s%s%s", folder, *name ? "/" : "",
		 name);
	return out;
}

void files_dir(const char *name)
{
	if (mkdir(files_path(name), 0755) < 0)
		bail("%s: %s", name, strerror(errno));
}

void files_link(const char *name, const char *to)
{
	if (symlink(to, files_path(name)) < 0)
		bail("%s: %s", name, strerror(errno));
}

void files_bytes(const char *name, const void *bytes, size_t n)
{
	FILE *f = fopen(files_path(name), "wb");

	if (!f || fwrite(bytes, 1, n, f) != n || fclose(f))
		bail("%s: %s", name, strerror(errno));
}

void files_text(const char *name, const char *text)
{
	files_bytes(name, text, strlen(text));
}

void files_truncate(const char *name, uint64_t bytes)
{
	if (truncate(files_path(name), (off_t)bytes) < 0)
		bail("%s: %s", name, strerror(errno));
}

void files_st(const char *name, const char *header, uint64_t data)
{
	size_t n = strlen(header);
	unsigned char *bytes = malloc(8 + n);

	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)((uint64_t)n >> 8 * i);
	memcpy(bytes + 8, header, n);
	files_bytes(name, bytes, 8 + n);
	files_truncate(name, 8 + n + data);
	free(bytes);
}

void files_below(const char *root, const char *path, const char *text)
{
	char full[512];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0755);
		*p = '/';
	}
	f = fopen(full, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		bail("cannot write %s", full);
}

unsigned files_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}
