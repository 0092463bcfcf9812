/* SPDX-License-Identifier: MIT */
#include "infile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "output.h"

struct infile {
	const char *name;
	char *text;
	size_t n, room;
};

static int read_block(struct infile *file, int fd, size_t *ret_got)
{
	ssize_t got;

	if (file->room - file->n < 65536) {
		size_t room = file->room ? 2 * file->room : 1 << 20;
		char *text = realloc(file->text, room);

		if (!text)
			return fail_memory();
		file->text = text;
		file->room = room;
	}
	do
		got = read(fd, file->text + file->n, file->room - file->n);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return fail("%s: %s", file->name, strerror(errno));
	file->n += (size_t)got;
	*ret_got = (size_t)got;
	return 0;
}

static int read_all(struct infile *file, int fd, size_t max, bool stop_at_nul)
{
	size_t got = 0;
	int r;

	do {
		r = read_block(file, fd, &got);
		if (r)
			return r;
		if (file->n > max)
			return fail("%s: over %zu MiB of text", file->name,
				    max >> 20);
	} while (got && !(stop_at_nul &&
			  memchr(file->text + file->n - got, '\0', got)));
	return 0;
}

const char *infile_name(const char *path)
{
	return strcmp(path, "-") ? path : "standard input";
}

int infile_read(const char *path, size_t max, bool stop_at_nul, char **ret_text,
		size_t *ret_n)
{
	struct infile file = { .name = infile_name(path) };
	bool is_stdin = !strcmp(path, "-");
	int fd = STDIN_FILENO, r;

	if (!is_stdin)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return fail("%s: %s", file.name, strerror(errno));
	r = read_all(&file, fd, max, stop_at_nul);
	if (!is_stdin)
		close(fd);
	if (r) {
		free(file.text);
		return r;
	}
	*ret_text = file.text;
	*ret_n = file.n;
	return 0;
}
