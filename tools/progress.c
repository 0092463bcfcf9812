/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "output.h"

enum {
	BAR_COLUMNS = 24,
	TICK_NS = 100 * 1000 * 1000,
	LAST_MS = 1000 /* how long the last line waits for a reader */
};

/* Both are used by the main thread only. */
static bool shown;        /* a bar is on the line */
static int lines_fd = -1; /* of --progress-fd */

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

void progress_begin(struct progress *bar, const char *what, uint64_t total)
{
	*bar = (struct progress){
		.on = lines_fd >= 0 || isatty(STDERR_FILENO),
		.what = what,
		.total = total,
		.begin = now_ns(),
	};
	/* No bar for what takes less than a tick. */
	bar->next = bar->begin + TICK_NS;
}

static int columns(void)
{
	struct winsize ws;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &ws) < 0 || ws.ws_col == 0)
		return 80;
	return ws.ws_col;
}

static void draw(const struct progress *bar, uint64_t done, int64_t now)
{
	double part = bar->total ? (double)done / (double)bar->total : 1;
	double seconds = (double)(now - bar->begin) / 1e9;
	double left = part > 0 ? seconds / part - seconds : 0;
	char a[SIZE_TEXT], b[SIZE_TEXT], c[SIZE_TEXT], line[200];
	int full = (int)(part * BAR_COLUMNS);
	int n;

	n = snprintf(line, sizeof(line),
		     "%s [%.*s%*s] %3.0f%%  %s of %s  %s/s  %d:%02d left",
		     bar->what, full, "########################",
		     BAR_COLUMNS - full, "", part * 100, size_text(done, a),
		     size_text(bar->total, b),
		     size_text((uint64_t)((double)done / seconds), c),
		     (int)(left / 60), (int)left % 60);
	if (n >= columns())
		n = columns() - 1;
	fprintf(stderr, "\r%.*s\033[K", n, line);
	fflush(stderr);
}

int progress_take_fd(const struct args *args)
{
	uint64_t fd = 0;
	int r = args_number(args, "--progress-fd", 0, INT_MAX, &fd), flags;

	if (r)
		return r;
	flags = fcntl((int)fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
		return fail_usage(
			args->command,
			"--progress-fd: descriptor %d is not open for writing",
			(int)fd);
	lines_fd = (int)fd;
	/* Who reads the lines may end. */
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

/*
 * A program that does not read must not stop the work, so a line that does not
 * fit the pipe is left out. Such a short line is written as a whole. After the
 * end of the program there are no lines, and no bar in their place.
 */
static void write_line(struct progress *bar, uint64_t done, int64_t now,
		       int wait_ms)
{
	struct pollfd room = { .fd = lines_fd, .events = POLLOUT };
	char line[200];
	int n = snprintf(line, sizeof(line),
			 "{\"what\": \"%s\", \"bytes\": %llu, "
			 "\"total\": %llu, \"seconds\": %.3f}\n",
			 bar->what, (unsigned long long)done,
			 (unsigned long long)bar->total,
			 (double)(now - bar->begin) / 1e9);

	if (poll(&room, 1, wait_ms) == 1 &&
	    write(lines_fd, line, (size_t)n) < 0 && errno != EAGAIN)
		bar->on = false;
}

void progress_end(struct progress *bar, uint64_t done)
{
	if (lines_fd >= 0 && bar->on)
		write_line(bar, done, now_ns(), LAST_MS);
	progress_clear();
}

void progress_show(struct progress *bar, uint64_t done)
{
	int64_t now;

	if (!bar->on)
		return;
	now = now_ns();
	if (now < bar->next)
		return;
	bar->next = now + TICK_NS;
	if (done > bar->total)
		done = bar->total;
	if (lines_fd >= 0) {
		write_line(bar, done, now, 0);
		return;
	}
	draw(bar, done, now);
	shown = true;
}

void progress_clear(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
