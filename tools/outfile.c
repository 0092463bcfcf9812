/* SPDX-License-Identifier: MIT */
/* A file that is written, and replaces an older one when it is complete. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weir.h>
#include "outfile.h"
#include "output.h"
#include "signals.h"

/* Nothing but a regular file is replaced by an output. */
static bool is_regular(const char *path, struct stat *st)
{
	return path && !stat(path, st) && S_ISREG(st->st_mode);
}

bool outfile_same(const char *a, const char *b)
{
	struct stat sa, sb;

	if (!a || !b)
		return false;
	if (!is_regular(a, &sa) || !is_regular(b, &sb))
		return !strcmp(a, b) && access(a, F_OK) < 0;
	return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

int outfile_spare(const char *path, const char *input)
{
	struct stat to, from;
	int r;

	if (!is_regular(path, &to))
		return 0;
	r = strcmp(input, "-") ? stat(input, &from) : fstat(0, &from);
	if (r < 0 || to.st_dev != from.st_dev || to.st_ino != from.st_ino)
		return 0;
	return fail("%s: is an input, and would be replaced; give the output "
		    "another name",
		    path);
}

static int spare_shards(const char *path, const struct weir_model *model)
{
	struct weir_file_info info = { .size = sizeof(info) };
	struct weir_file *file;
	int r = 0;

	for (unsigned i = 0; r == 0 && (file = weir_model_file(model, i)); i++)
		if (!weir_file_info(file, &info))
			r = outfile_spare(path, info.path);
	return r;
}

/* The config.json in the folder of the model, and the index. */
static int spare_beside(const char *path, const char *found)
{
	const char *slash = strrchr(found, '/');
	char *config;
	int r;

	if (asprintf(&config, "%.*sconfig.json",
		     slash ? (int)(slash + 1 - found) : 0, found) < 0)
		return fail_memory();
	r = outfile_spare(path, config);
	free(config);
	return r ? r : outfile_spare(path, found);
}

int outfile_spare_files(const char *path, const struct weir_model *model,
			const char *name)
{
	struct weir_model_info info = { .size = sizeof(info) };
	int r = outfile_spare(path, name);

	if (r == 0)
		r = spare_shards(path, model);
	if (r == 0 && !weir_model_info(model, &info))
		r = spare_beside(path, info.path);
	return r;
}

int outfile_spare_model(const char *path, struct weir *weir,
			const struct weir_model *model, const char *name)
{
	struct weir_model *other;
	struct stat st;
	int r;

	if (!is_regular(path, &st))
		return 0;
	r = outfile_spare_files(path, model, name);
	if (r || weir_model_open(weir, path, NULL, &other) < 0)
		return r;
	weir_model_close(other);
	return fail("%s: is a model, and would be replaced; give the output "
		    "another name, or remove the model first",
		    path);
}

enum {
	MAX_LINKS = 40, /* the limit of the kernel */
	MAX_FILES = 2,
	NAME_BYTES = 200 /* bytes of the name that the name of the temporary
			    file has */
};

/* Temporary files, for the signal handler. */
static char *volatile pending[MAX_FILES];

/* Set the first entry that is @from to @to. */
static void change_pending(const char *from, char *to)
{
	for (int i = 0; i < MAX_FILES; i++)
		if (pending[i] == from) {
			pending[i] = to;
			return;
		}
}

void outfile_remove(void)
{
	for (int i = 0; i < MAX_FILES; i++)
		if (pending[i])
			(void)unlink(pending[i]);
}

void outfile_guard(void)
{
	signals_end(outfile_remove);
}

/* The folder of @path with its slash, or "". */
static int folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (int)(slash + 1 - path) : 0;
}

/*
 * The path to which links at @path lead, even if no file is there. NULL: no
 * memory.
 */
static char *follow(const char *path)
{
	char link[PATH_MAX], *at = strdup(path), *next;
	ssize_t n;

	for (int i = 0; at && i < MAX_LINKS; i++) {
		n = readlink(at, link, sizeof(link));
		if (n <= 0 || n == sizeof(link))
			break;
		if (asprintf(&next, "%.*s%.*s",
			     *link == '/' ? 0 : folder_length(at), at, (int)n,
			     link) < 0)
			next = NULL;
		free(at);
		at = next;
	}
	return at;
}

static int fail_open(const struct outfile *file)
{
	return fail("%s: cannot be written: %s", file->path, strerror(errno));
}

static int open_itself(struct outfile *file)
{
	file->to = fopen(file->path, "ae");
	return file->to ? 0 : fail_open(file);
}

/* The mode of the older file, and where that is allowed its owner. */
static void set_mode(int fd, const struct stat *old)
{
	mode_t mask;

	if (old) {
		(void)!fchown(fd, old->st_uid, old->st_gid);
		(void)fchmod(fd, old->st_mode & 0777);
		return;
	}
	mask = umask(0);
	umask(mask);
	(void)fchmod(fd, 0666 & ~mask);
}

/* Make the temporary file. Returns its descriptor, or -1 with errno. */
static int make_tmp(struct outfile *file, const struct stat *old)
{
	struct stat st;
	int fd;

	change_pending(NULL, file->tmp);
	fd = mkostemp(file->tmp, O_CLOEXEC);
	if (fd < 0)
		return -1;
	/* A file that is mounted there cannot be replaced. */
	if (old && !fstat(fd, &st) && st.st_dev != old->st_dev) {
		(void)unlink(file->tmp);
		close(fd);
		errno = EROFS;
		return -1;
	}
	set_mode(fd, old);
	return fd;
}

static void forget_tmp(struct outfile *file)
{
	if (file->tmp)
		change_pending(file->tmp, NULL);
	free(file->tmp);
	free(file->target);
	file->tmp = file->target = NULL;
}

/* Open the temporary file. @old is the regular file that is there, or NULL. */
static int open_tmp(struct outfile *file, const struct stat *old)
{
	int fd, folder, err;

	if (old && (fd = open(file->path, O_WRONLY | O_CLOEXEC)) < 0)
		return fail_open(file);
	if (old)
		close(fd);
	file->target = follow(file->path);
	if (!file->target)
		return fail_memory();
	folder = folder_length(file->target);
	if (!file->target[folder]) {
		forget_tmp(file);
		errno = ENOENT;
		return fail_open(file);
	}
	if (asprintf(&file->tmp, "%.*s.%.*s.XXXXXX", folder, file->target,
		     NAME_BYTES, file->target + folder) < 0) {
		file->tmp = NULL;
		forget_tmp(file);
		return fail_memory();
	}
	fd = make_tmp(file, old);
	if (fd < 0) {
		bool closed = errno == EACCES || errno == EPERM ||
			      errno == EROFS;
		int r = old && closed ? 0 : fail_open(file);

		forget_tmp(file);
		file->clear = true;
		return r ? r : open_itself(file);
	}
	file->to = fdopen(fd, "w");
	if (file->to)
		return 0;
	err = errno;
	close(fd);
	outfile_drop(file);
	errno = err;
	return fail_open(file);
}

/* The descriptor if it is stdout or stderr, or -1. */
static int standard_stream(const struct stat *st)
{
	struct stat own;

	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
		if (!fstat(fd, &own) && own.st_dev == st->st_dev &&
		    own.st_ino == st->st_ino)
			return fd;
	return -1;
}

/* A descriptor of a process: other names of its file are none of ours. */
static bool is_descriptor(const char *path)
{
	return !strncmp(path, "/dev/fd/", 8) || !strncmp(path, "/proc/", 6);
}

int outfile_open(struct outfile *file, const char *path)
{
	struct stat st;
	int fd;

	*file = (struct outfile){ .to = path ? NULL : stdout, .path = path };
	if (!path)
		return 0;
	if (stat(path, &st) < 0)
		return open_tmp(file, NULL);
	if (!S_ISREG(st.st_mode) || is_descriptor(path))
		return open_itself(file);
	fd = standard_stream(&st);
	if (fd < 0)
		return open_tmp(file, &st);
	/* The same offset: neither overwrites what the other has written. */
	fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	file->to = fd < 0 ? NULL : fdopen(fd, "w");
	return file->to ? 0 : fail_open(file);
}

const char *outfile_name(const struct outfile *file)
{
	return file->tmp ? file->tmp : file->path;
}

void outfile_begin(struct outfile *file)
{
	if (file->clear)
		(void)!ftruncate(fileno(file->to), 0);
}

int outfile_end(struct outfile *file)
{
	FILE *to = file->to;
	int err;

	file->to = NULL;
	if (!file->path)
		return 0;
	err = fflush(to) ? errno : ferror(to) ? EIO : 0;
	if (fclose(to) && !err)
		err = errno;
	if (file->tmp && !err && rename(file->tmp, file->target) < 0)
		err = errno;
	if (file->tmp && err)
		(void)unlink(file->tmp);
	forget_tmp(file);
	return err ? fail("%s: could not be written: %s", file->path,
			  strerror(err))
		   : 0;
}

void outfile_drop(struct outfile *file)
{
	if (file->tmp)
		(void)unlink(file->tmp);
	if (file->to && file->path)
		fclose(file->to);
	file->to = NULL;
	forget_tmp(file);
}
