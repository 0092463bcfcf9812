/* SPDX-License-Identifier: MIT */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <weir.h>
#include "progress.h"
#include "text.h"

/* Longest line; arguments, which it may quote, can have a megabyte. */
enum {
	LINE_MAX_BYTES = 1000
};

__attribute__((format(printf, 2, 0))) static void
put_line(const char *prefix, const char *fmt, va_list ap, const char *suffix)
{
	char line[LINE_MAX_BYTES];
	int n = vsnprintf(line, sizeof(line), fmt, ap);

	progress_clear();
	flockfile(stderr);
	fputs(prefix, stderr);
	/* It begins with a name, which is empty. */
	if (n >= 2 && !strncmp(line, ": ", 2))
		fputs("''", stderr);
	text_put_sentence(stderr, n < 0 ? "?" : line);
	if (n >= (int)sizeof(line))
		fputs("...", stderr);
	fputs(suffix, stderr);
	putc('\n', stderr);
	funlockfile(stderr);
}

int fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_line("weir: ", fmt, ap, "");
	va_end(ap);
	return EXIT_FAILURE;
}

int fail_usage(const char *command, const char *fmt, ...)
{
	char prefix[64], suffix[64];
	va_list ap;

	snprintf(prefix, sizeof(prefix), "weir: %s%s", command,
		 command[0] ? ": " : "");
	snprintf(suffix, sizeof(suffix), "; see weir %s%s--help", command,
		 command[0] ? " " : "");
	va_start(ap, fmt);
	put_line(prefix, fmt, ap, suffix);
	va_end(ap);
	return EXIT_USAGE;
}

const char *weir_sentence(void)
{
	const char *text = weir_error(), *p = text;

	if (strncmp(p, "weir_", 5))
		return text;
	p += strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
	return strncmp(p, ": ", 2) ? text : p + 2;
}

int fail_weir(void)
{
	return fail("%s", weir_sentence());
}

int fail_memory(void)
{
	return fail("no memory left");
}

void note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_line("", fmt, ap, "");
	va_end(ap);
}

/* The sentence is lost if it is stderr that is closed. */
static void guard_failed(int fd)
{
	static const char *const name[] = { "input", "output", "error" };

	dprintf(STDERR_FILENO,
		"weir: standard %s is closed, and '/' cannot be opened in its place: %s\n",
		name[fd], strerror(errno));
	_exit(EXIT_FAILURE);
}

void out_guard(void)
{
	/* Read-only, so that writing to it fails as to a closed one. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			if (open("/", O_RDONLY | O_DIRECTORY) < 0)
				guard_failed(fd);
}

/* Why stdout could not be written to, from the first flush that failed. */
static int stdout_error;

bool out_flush(void)
{
	if (fflush(stdout) && !stdout_error)
		stdout_error = errno;
	return !ferror(stdout);
}

int out_finish(int status)
{
	bool failed = !out_flush();
	int err = stdout_error;

	if (fclose(stdout)) {
		failed = true;
		err = err ? err : errno;
	}
	if (!failed || status == EXIT_FAILURE || status == EXIT_USAGE)
		return status;
	return fail("standard output: %s",
		    err ? strerror(err) : "could not be written");
}

void out_json(json_t *json)
{
	if (!json) {
		fail_memory();
		exit(EXIT_FAILURE);
	}
	if (json_dumpf(json, stdout,
		       JSON_COMPACT | JSON_ENCODE_ANY |
			       JSON_REAL_PRECISION(9)) &&
	    ferror(stdout) && !stdout_error)
		stdout_error = errno;
	json_decref(json);
}

const char *count_text(uint64_t n, const char *what, char *buf)
{
	snprintf(buf, COUNT_TEXT, "%llu %s%s", (unsigned long long)n, what,
		 n == 1 ? "" : "s");
	return buf;
}

const char *size_text(uint64_t bytes, char *buf)
{
	static const char *const units[] = { "kB", "MB", "GB", "TB", "PB" };
	double value = (double)bytes / 1e3;
	unsigned unit = 0;

	if (bytes < 1000) {
		snprintf(buf, SIZE_TEXT, "%u B", (unsigned)bytes);
		return buf;
	}
	for (; value >= 999.5 && unit < 4; unit++)
		value /= 1e3;
	snprintf(buf, SIZE_TEXT, "%.*f %s",
		 value < 10    ? 2
		 : value < 100 ? 1
			       : 0,
		 value, units[unit]);
	return buf;
}

const char *binary_text(uint64_t bytes, char *buf)
{
	static const char *const units[] = { "KiB", "MiB", "GiB" };

	for (unsigned i = 3; i-- > 0;) {
		unsigned shift = 10 * (i + 1);

		if (bytes >> shift && (bytes >> shift) << shift == bytes) {
			snprintf(buf, SIZE_TEXT, "%llu %s",
				 (unsigned long long)(bytes >> shift),
				 units[i]);
			return buf;
		}
	}
	return size_text(bytes, buf);
}
