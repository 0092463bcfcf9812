/* SPDX-License-Identifier: MIT */
#include "read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weir.h>

#include "table_memory.h"
#include "tokenizer.h"

static int read_all(const char *path, int fd, unsigned char *to, size_t n)
{
	size_t at = 0;

	while (at < n) {
		ssize_t r = read(fd, to + at, n - at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return text_fail(-errno, "%s: %s", path,
					 strerror(errno));
		if (!r)
			return text_fail(-ESTALE,
					 "%s: has %zu bytes now, and had %zu",
					 path, at, n);
		at += (size_t)r;
	}
	return 0;
}

/* Memory for the whole file. */
static int alloc_bytes(const char *path, uint64_t n, struct text_file *file)
{
	if (n > TOKENIZER_FILE_MAX)
		return text_fail(-EFBIG, "%s: %" PRIu64 " bytes, at most %u",
				 path, n, TOKENIZER_FILE_MAX);
	file->n = (size_t)n;
	file->bytes = memory_table(file->n + 1);
	if (!file->bytes)
		return text_fail(-ENOMEM, "no memory for %zu bytes", file->n);
	file->bytes[n] = 0;
	return 0;
}

static int read_fd(const char *path, int fd, struct text_file *ret_file)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return text_fail(-errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return text_fail(-EINVAL, "%s: not a regular file", path);
	r = alloc_bytes(path, (uint64_t)st.st_size, ret_file);
	if (r < 0)
		return r;
	r = read_all(path, fd, ret_file->bytes, ret_file->n);
	if (r < 0)
		free(ret_file->bytes);
	return r;
}

int text_file_read(const char *path, struct text_file *ret_file)
{
	/* O_NONBLOCK: if it is a pipe, open(2) does not wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int r;

	if (fd < 0)
		return text_fail(-errno, "%s: %s", path, strerror(errno));
	snprintf(ret_file->path, sizeof(ret_file->path), "%s", path);
	r = read_fd(path, fd, ret_file);
	close(fd);
	return r;
}

/* Read a file of a model's folder, which may be at a URL. */
static int read_object(struct weir_file *from, struct text_file *ret_file)
{
	struct weir_file_info info = { .size = sizeof(info) };
	int r = weir_file_info(from, &info);

	if (r < 0)
		return text_fail(r, "%s", weir_error());
	snprintf(ret_file->path, sizeof(ret_file->path), "%s", info.path);
	r = alloc_bytes(info.path, info.bytes, ret_file);
	if (r < 0)
		return r;
	r = weir_file_read(from, 0, ret_file->bytes, ret_file->n);
	if (r < 0) {
		free(ret_file->bytes);
		return text_fail(r, "%s", weir_error());
	}
	return 1;
}

static int read_beside(const struct weir_model *model, const char *name,
		       struct text_file *ret_file)
{
	struct weir_file *from;
	int r = weir_model_beside(model, name, &from);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return text_fail(r, "%s", weir_error());
	r = read_object(from, ret_file);
	weir_file_close(from);
	return r;
}

int text_folder_read(const struct text_folder *folder, const char *name,
		     struct text_file *ret_file)
{
	char path[TEXT_PATH_MAX];
	int n, r;

	if (folder->model)
		return read_beside(folder->model, name, ret_file);
	n = snprintf(path, sizeof(path), "%s/%s", folder->path, name);
	if (n < 0 || (size_t)n >= sizeof(path))
		return text_fail(-ENAMETOOLONG, "%s", folder->path);
	if (access(path, F_OK) < 0)
		return 0;
	r = text_file_read(path, ret_file);
	return r < 0 ? r : 1;
}
