/* SPDX-License-Identifier: MIT */
#include "synth.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "output.h"
#include "signals.h"

/* The files that a signal handler removes. */
static struct synth_files *pending;

/* Async-signal-safe: frees nothing. */
static void remove_files(const struct synth_files *fs)
{
	for (size_t i = 0; i < fs->count; i++)
		unlink(fs->files[i].renamed ? fs->files[i].path
					    : fs->files[i].tmp);
	if (fs->made_dir)
		rmdir(fs->dir);
}

static void remove_pending(void)
{
	if (pending)
		remove_files(pending);
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	if (slash == path)
		return strdup("/");
	return strndup(path, (size_t)(slash - path));
}

/* 1: it is empty, 0: it is not, negative: it cannot be read. */
static int is_empty_directory(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int empty = 1;

	if (!dir)
		return -errno;
	while (empty && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			empty = 0;
	closedir(dir);
	return empty;
}

static int check_file(const struct synth_files *fs)
{
	struct stat st;

	if (lstat(fs->out, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return fail("%s: is a directory", fs->out);
	if (!fs->force)
		return fail("%s: exists; --force replaces it", fs->out);
	return 0;
}

static int make_directory(struct synth_files *fs)
{
	int empty;

	if (mkdir(fs->out, 0777) == 0) {
		fs->made_dir = true;
		return 0;
	}
	if (errno != EEXIST)
		return fail("%s: cannot be created: %s", fs->out,
			    strerror(errno));
	empty = is_empty_directory(fs->out);
	if (empty == -ENOTDIR)
		return fail("%s: is not a directory", fs->out);
	if (empty < 0)
		return fail("%s: cannot be read: %s", fs->out,
			    strerror(-empty));
	if (!empty && !fs->force)
		return fail("%s: is not empty; --force replaces a model in it",
			    fs->out);
	return 0;
}

int synth_files_begin(struct synth_files *fs, const char *out, bool single,
		      bool force, size_t n)
{
	*fs = (struct synth_files){ .out = out, .force = force };
	pending = fs;
	signals_catch(remove_pending);
	fs->dir = single ? directory_of(out) : strdup(out);
	fs->files = calloc(n, sizeof(*fs->files));
	if (!fs->dir || !fs->files)
		return fail_memory();
	return single ? check_file(fs) : make_directory(fs);
}

/* Add the next file, so that remove_files() includes it from here on. */
static struct synth_file *add_file(struct synth_files *fs, const char *name)
{
	struct synth_file *f = &fs->files[fs->count];
	const char *base = strrchr(fs->out, '/');

	if (!name)
		name = base ? base + 1 : fs->out;
	if (asprintf(&f->path, "%s/%s", fs->dir, name) < 0)
		f->path = NULL;
	if (asprintf(&f->tmp, "%s/.%s.XXXXXX", fs->dir, name) < 0)
		f->tmp = NULL;
	if (!f->path || !f->tmp) {
		free(f->path);
		free(f->tmp);
		return NULL;
	}
	fs->count = fs->count + 1;
	return f;
}

static const struct synth_file *last_file(const struct synth_files *fs)
{
	return &fs->files[fs->count - 1];
}

int synth_files_create(struct synth_files *fs, const char *name, uint64_t bytes,
		       int *ret_fd)
{
	struct synth_file *f = add_file(fs, name);
	int fd;

	if (!f)
		return fail_memory();
	fd = mkostemp(f->tmp, O_CLOEXEC);
	if (fd < 0)
		return fail("%s: cannot be created: %s", f->path,
			    strerror(errno));
	/* Fail now if the disk is too small; some file systems cannot tell. */
	if (bytes && fallocate(fd, 0, 0, (off_t)bytes) < 0 &&
	    (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) {
		fail("%s: needs %llu bytes: %s", f->path,
		     (unsigned long long)bytes, strerror(errno));
		close(fd);
		return EXIT_FAILURE;
	}
	*ret_fd = fd;
	return 0;
}

int synth_files_write(const struct synth_files *fs, int fd, const void *data,
		      size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t done = write(fd, p, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return fail("%s: cannot be written: %s",
				    last_file(fs)->path, strerror(errno));
		p += done;
		n -= (size_t)done;
	}
	return 0;
}

int synth_files_close(struct synth_files *fs, int fd, int status)
{
	mode_t mask = umask(0);
	int err = 0;

	umask(mask);
	if (status) {
		close(fd);
		return status;
	}
	if (fchmod(fd, 0666 & ~mask) < 0 || fsync(fd) < 0)
		err = errno;
	if (close(fd) < 0 && !err)
		err = errno;
	if (err)
		return fail("%s: cannot be written: %s", last_file(fs)->path,
			    strerror(err));
	return 0;
}

/* model.safetensors, its index, model-00001-of-00002.gguf. */
static bool is_model_file(const char *name)
{
	unsigned a, b;
	int n = 0;

	if (sscanf(name, "model-%5u-of-%5u%n", &a, &b, &n) == 2 &&
	    n == (int)strlen("model-00001-of-00002"))
		return !strcmp(name + n, ".safetensors") ||
		       !strcmp(name + n, ".gguf");
	return !strcmp(name, "model.safetensors") ||
	       !strcmp(name, "model.safetensors.index.json") ||
	       !strcmp(name, "model.gguf");
}

/*
 * Remove files of an older model in the directory: the new one may have fewer.
 */
static int remove_old_model(const struct synth_files *fs)
{
	DIR *dir = opendir(fs->dir);
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return fail("%s: cannot be read: %s", fs->dir, strerror(errno));
	while (r == 0 && (entry = readdir(dir)))
		if (is_model_file(entry->d_name) &&
		    unlinkat(dirfd(dir), entry->d_name, 0) < 0)
			r = fail("%s/%s: cannot be removed: %s", fs->dir,
				 entry->d_name, strerror(errno));
	closedir(dir);
	return r;
}

static int file_rename(const struct synth_files *fs, struct synth_file *f)
{
	int r = -1;

	if (!fs->force) {
		r = renameat2(AT_FDCWD, f->tmp, AT_FDCWD, f->path,
			      RENAME_NOREPLACE);
		if (r < 0 && errno != EINVAL && errno != ENOSYS)
			return fail("%s: cannot be created: %s", f->path,
				    strerror(errno));
	}
	if (r < 0)
		r = rename(f->tmp, f->path);
	if (r < 0)
		return fail("%s: cannot be created: %s", f->path,
			    strerror(errno));
	f->renamed = true;
	return 0;
}

/* Flush the directory, so that the new names survive a power failure. */
static int sync_directory(const struct synth_files *fs)
{
	int fd = open(fs->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0;

	if (fd < 0 || fsync(fd) < 0)
		err = errno;
	if (fd >= 0)
		close(fd);
	return err && err != EINVAL
		       ? fail("%s: the files are complete, but cannot be flushed to the disk: %s",
			      fs->dir, strerror(err))
		       : 0;
}

int synth_files_commit(struct synth_files *fs)
{
	int r = 0;

	if (fs->force && !strcmp(fs->dir, fs->out))
		r = remove_old_model(fs);
	for (size_t i = 0; r == 0 && i < fs->count; i++)
		r = file_rename(fs, &fs->files[i]);
	if (r == 0)
		r = sync_directory(fs);
	if (r == 0) {
		pending = NULL;
		fs->made_dir = false;
	}
	return r;
}

void synth_files_end(struct synth_files *fs)
{
	if (pending == fs)
		remove_files(fs);
	pending = NULL;
	for (size_t i = 0; i < fs->count; i++) {
		free(fs->files[i].tmp);
		free(fs->files[i].path);
	}
	free(fs->files);
	free(fs->dir);
}
