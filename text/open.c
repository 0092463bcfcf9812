/* SPDX-License-Identifier: MIT */
/* Finds the description of a tokenizer: in a model, a file, or memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weir.h>

#include "inside.h"
#include "memory.h"

#define PATH_BYTES 4096u

/* Files that a folder may have, the most exact first. */
static const char *const names[] = { "tokenizer.json", "tokenizer.model" };

static int complete(int r, struct tokenizer *t, const char *file,
		    struct tokenizer **ret_t)
{
	if (!r)
		r = tokenizer_finish(t, file);
	if (r < 0)
		tokenizer_free(t);
	else
		*ret_t = t;
	return r;
}

/* JSON begins with '{' or white space, and the first piece with 0x0a too. */
static bool is_json(const unsigned char *s, size_t n)
{
	while (n && (*s == ' ' || *s == '\t' || *s == '\r' || *s == '\n')) {
		s++;
		n--;
	}
	return n && *s == '{';
}

/* Takes @bytes, which are followed by a 0. */
static int parse_bytes(const char *name, unsigned char *bytes, size_t n,
		       struct tokenizer **ret_t)
{
	struct tokenizer *t = tokenizer_alloc();
	int r;

	if (!t) {
		free(bytes);
		return text_fail(-ENOMEM, "no memory for a tokenizer");
	}
	t->storage = bytes;
	r = is_json(bytes, n) ? read_json(t, name, bytes, n)
			      : read_sentencepiece(t, name, bytes, n);
	return complete(r, t, name, ret_t);
}

int tokenizer_parse(const char *name, const void *bytes, size_t n,
		    struct tokenizer **ret_t)
{
	unsigned char *copy;

	if (n > TOKENIZER_FILE_MAX)
		return text_fail(-EFBIG, "%s: %zu bytes, at most %u", name, n,
				 TOKENIZER_FILE_MAX);
	copy = memory_table(n + 1);
	if (!copy)
		return text_fail(-ENOMEM, "no memory for %zu bytes", n);
	memcpy(copy, bytes, n);
	copy[n] = 0;
	return parse_bytes(name, copy, n, ret_t);
}

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

static int open_fd(const char *path, int fd, struct tokenizer **ret_t)
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
	return parse_bytes(path, bytes, n, ret_t);
}

static int open_file(const char *path, struct tokenizer **ret_t)
{
	/* Without waiting for a writer, should it be a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int r;

	if (fd < 0)
		return text_fail(-errno, "%s: %s", path, strerror(errno));
	r = open_fd(path, fd, ret_t);
	close(fd);
	return r;
}

/* The folder is the first @len bytes of @path. */
static int open_folder(const char *path, size_t len, struct tokenizer **ret_t)
{
	char file[PATH_BYTES];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int n = snprintf(file, sizeof(file), "%.*s/%s", (int)len, path,
				 names[i]);

		if (n < 0 || (size_t)n >= sizeof(file))
			return text_fail(-ENAMETOOLONG, "%s", path);
		if (!access(file, F_OK))
			return open_file(file, ret_t);
	}
	return text_fail(-ENOENT, "%.*s: has neither %s nor %s", (int)len, path,
			 names[0], names[1]);
}

int tokenizer_open(const char *path, struct tokenizer **ret_t)
{
	struct stat st;

	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return open_folder(path, strlen(path), ret_t);
	return open_file(path, ret_t);
}

static int open_beside(const char *model, struct tokenizer **ret_t)
{
	const char *slash = strrchr(model, '/');

	if (!slash)
		return open_folder(".", 1, ret_t);
	return open_folder(model, (size_t)(slash - model), ret_t);
}

int tokenizer_from_model(const struct weir_model *model,
			 struct tokenizer **ret_t)
{
	struct weir_value value = { .size = sizeof(value) };
	struct weir_model_info info = { .size = sizeof(info) };
	struct tokenizer *t;
	int r = weir_model_info(model, &info);

	if (r < 0)
		return text_fail(r, "%s", weir_error());
	if (strcmp(info.format, "GGUF") &&
	    weir_model_meta(model, "tokenizer.ggml.model", &value) == -ENOENT)
		return open_beside(info.path, ret_t);
	t = tokenizer_alloc();
	if (!t)
		return text_fail(-ENOMEM, "no memory for a tokenizer");
	r = read_gguf(t, model, info.path);
	return complete(r, t, info.path, ret_t);
}
