/* SPDX-License-Identifier: MIT */
#include "read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int read_fd(const char *path, int fd, unsigned char **ret_bytes,
		   size_t *ret_n)
{
	unsigned char *bytes;
	struct stat st;
	size_t n;
	int r;

	if (fstat(fd, &st) < 0)
		return text_fail(-errno, "%s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return text_fail(-EINVAL, "%s: not a regular file", path);
	if (st.st_size > (off_t)TOKENIZER_FILE_MAX)
		return text_fail(-EFBIG, "%s: %lld bytes, at most %u", path,
				 (long long)st.st_size, TOKENIZER_FILE_MAX);
	n = (size_t)st.st_size;
	bytes = memory_table(n + 1);
	if (!bytes)
		return text_fail(-ENOMEM, "no memory for %zu bytes", n);
	r = read_all(path, fd, bytes, n);
	if (r < 0) {
		free(bytes);
		return r;
	}
	bytes[n] = 0;
	*ret_bytes = bytes;
	*ret_n = n;
	return 0;
}

int text_file_read(const char *path, unsigned char **ret_bytes, size_t *ret_n)
{
	/* O_NONBLOCK: if it is a pipe, open(2) does not wait for a writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int r;

	if (fd < 0)
		return text_fail(-errno, "%s: %s", path, strerror(errno));
	r = read_fd(path, fd, ret_bytes, ret_n);
	close(fd);
	return r;
}

int text_file_in(const char *folder, size_t len, const char *name,
		 char path[TEXT_PATH_MAX])
{
	int n = snprintf(path, TEXT_PATH_MAX, "%.*s/%s", (int)len, folder,
			 name);

	if (n < 0 || (size_t)n >= TEXT_PATH_MAX)
		return text_fail(-ENAMETOOLONG, "%s", folder);
	return !access(path, F_OK);
}

const char *text_folder_of(const char *path, size_t *ret_len)
{
	const char *slash = strrchr(path, '/');

	*ret_len = slash ? (size_t)(slash - path) : 1;
	return slash ? path : ".";
}
