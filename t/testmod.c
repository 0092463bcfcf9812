/* SPDX-License-Identifier: MIT */
#include "testmod.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

char modules_log[8192];

static char own_dir[64];
static pid_t owner;

static void remove_dir(void)
{
	char path[512];
	DIR *dir = getpid() == owner ? opendir(own_dir) : NULL;
	struct dirent *entry;

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", own_dir, entry->d_name);
		if (unlink(path) < 0)
			rmdir(path);
	}
	closedir(dir);
	rmdir(own_dir);
}

const char *modules_dir(void)
{
	if (own_dir[0])
		return own_dir;
	strcpy(own_dir, "/tmp/weir-modules-XXXXXX");
	if (!mkdtemp(own_dir))
		bail("mkdtemp(%s)", own_dir);
	owner = getpid();
	atexit(remove_dir);
	return own_dir;
}

static void copy_file(const char *from, const char *to)
{
	char buf[65536];
	FILE *in = fopen(from, "r"), *out = fopen(to, "w");
	size_t n;

	if (!in || !out)
		bail("cannot copy %s to %s", from, to);
	while ((n = fread(buf, 1, sizeof(buf), in)) > 0)
		fwrite(buf, 1, n, out);
	fclose(in);
	if (fclose(out) || chmod(to, 0755) < 0)
		bail("cannot write %s", to);
}

const char *module_copy(const char *from, const char *dir, const char *as)
{
	static char to[512];
	const char *build = getenv("builddir");
	char path[512];

	snprintf(path, sizeof(path), "%s/t/modules/.libs/weir-%s.so",
		 build ? build : ".", from);
	snprintf(to, sizeof(to), "%s/weir-%s.so", dir, as);
	copy_file(path, to);
	return to;
}

const char *module_text(const char *dir, const char *as, const char *text)
{
	static char to[512];
	FILE *out;

	snprintf(to, sizeof(to), "%s/weir-%s.so", dir, as);
	out = fopen(to, "w");
	if (!out || fputs(text, out) < 0 || fclose(out))
		bail("cannot write %s", to);
	return to;
}

static void keep_log(void *arg, const char *text)
{
	size_t at = strlen(modules_log);

	(void)arg;
	snprintf(modules_log + at, sizeof(modules_log) - at, "%s\n", text);
}

struct weir *open_with_modules(const char *path, unsigned flags)
{
	struct weir_opts o = WEIR_OPTS_INIT;
	struct weir *weir;

	o.module_path = path;
	o.log = keep_log;
	o.flags = flags;
	modules_log[0] = '\0';
	if (weir_open(&o, &weir) < 0)
		bail("%s", weir_error());
	return weir;
}

struct weir *open_with_good_module(void)
{
	const char *more = getenv("WEIR_MODULE_PATH");
	char path[4096];

	module_copy("test", modules_dir(), "good");
	snprintf(path, sizeof(path), "%s%s%s", modules_dir(), more ? ":" : "",
		 more ? more : "");
	return open_with_modules(path, 0);
}
