/* SPDX-License-Identifier: MIT */
#include "progress.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include "output.h"

enum {
	BAR_COLUMNS = 24,
	TICK_NS = 100 * 1000 * 1000
};

static bool shown; /* a bar is on the line; used by the main thread only */

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

void progress_begin(struct progress *bar, const char *what, uint64_t total)
{
	*bar = (struct progress){
		.on = isatty(STDERR_FILENO),
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

void progress_show(struct progress *bar, uint64_t done)
{
	int64_t now;

	if (!bar->on)
		return;
	now = now_ns();
	if (now < bar->next)
		return;
	draw(bar, done > bar->total ? bar->total : done, now);
	bar->next = now + TICK_NS;
	shown = true;
}

void progress_clear(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
