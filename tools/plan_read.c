/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "output.h"

/* More than ten million buffers. */
static const size_t text_max = (size_t)512 << 20;

/*
 * Read up to the end of the file, or the first block that has a NUL: the parser
 * refuses it, and an endless device file ends.
 */
static int read_text(struct plan_job *job, int fd, size_t *ret_bytes)
{
	size_t n = 0, room = 0;
	ssize_t got;

	do {
		if (room - n < 65536) {
			char *text;

			room = room ? 2 * room : 1 << 20;
			text = realloc(job->text, room);
			if (!text)
				return fail_memory();
			job->text = text;
		}
		got = read(fd, job->text + n, room - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail("%s: %s", job->name, strerror(errno));
		n += (size_t)got;
		if (n > text_max)
			return fail("%s: over %zu MiB of text", job->name,
				    text_max >> 20);
	} while (got && !memchr(job->text + n - got, '\0', (size_t)got));
	*ret_bytes = n;
	return 0;
}

static int parse(struct plan_job *job, size_t n)
{
	struct csv_error error;
	int r = plan_csv_parse(job->text, n, &job->csv, &error);

	if (r == -ENOMEM)
		return fail_memory();
	if (r < 0)
		return fail("%s: line %zu, column %zu: %s", job->name,
			    error.line, error.column, error.why);
	return 0;
}

int plan_read(struct plan_job *job)
{
	bool is_stdin = !strcmp(job->args->path, "-");
	size_t n = 0;
	int fd = STDIN_FILENO, r;

	job->name = is_stdin ? "standard input" : job->args->path;
	if (!is_stdin)
		fd = open(job->args->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return fail("%s: %s", job->name, strerror(errno));
	r = read_text(job, fd, &n);
	if (!is_stdin)
		close(fd);
	return r ? r : parse(job, n);
}
