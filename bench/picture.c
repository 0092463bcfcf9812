/* SPDX-License-Identifier: MIT */
/*
 * The results as bars. A result with a limit is drawn as its ratio, and the bar
 * should pass the mark of the goal. A result with an upper bound is drawn as a
 * share of it, and the bar should end before the mark.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "raw.h"
#include "result.h"

#define WIDTH 1020
#define LEFT 400  /* x of the start of bars */
#define UNIT 400  /* the length of 1 */
#define MOST 1.15 /* longer bars are cut there */
#define STEP 26
#define TOP 64

static void put_text(FILE *f, double x, double y, const char *anchor,
		     const char *text)
{
	fprintf(f, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">", x, y,
		anchor);
	for (; *text; text++)
		if (*text == '<')
			fputs("&lt;", f);
		else if (*text == '&')
			fputs("&amp;", f);
		else
			fputc(*text, f);
	fputs("</text>\n", f);
}

static double reach(double length)
{
	return LEFT + UNIT * (length < MOST ? length : MOST);
}

static void put_box(FILE *f, const char *colour, double x, double y, double w,
		    double h)
{
	fprintf(f,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n",
		x, y, w, h, colour);
}

/* A result with neither a ratio nor a goal is only in the table. */
static bool drawn(const struct result *r)
{
	return r->judged == GOAL_VALUE || r->ratio > 0;
}

static double length_of(const struct result *r)
{
	if (r->judged != GOAL_VALUE)
		return r->ratio;
	return r->value > 0 ? r->value / r->goal : 0;
}

static void put_bar(FILE *f, const struct result *r, double y)
{
	bool share = r->judged == GOAL_VALUE;
	char label[160], value[64];

	snprintf(label, sizeof(label), "%s%s%s", r->name,
		 r->limit[0] ? " / " : "", r->limit);
	put_text(f, LEFT - 8, y + 13, "end", label);
	put_box(f,
		!r->ok                   ? "#c0392b"
		: r->judged == GOAL_NONE ? "#95a5a6"
					 : "#2e86ab",
		LEFT, y + 3, reach(length_of(r)) - LEFT, 13);
	if (!share && r->high > r->low)
		put_box(f, "#1b2a38", reach(r->low), y + 9,
			reach(r->high) - reach(r->low), 1);
	if (r->judged != GOAL_NONE)
		put_box(f, "#111111", reach(share ? 1 : r->goal) - 1, y, 2, 19);
	if (share)
		snprintf(value, sizeof(value), "%.3g of %.4g %s", r->value,
			 r->goal, r->unit);
	else
		snprintf(value, sizeof(value), "%.3f", r->ratio);
	put_text(f, reach(MOST) + 8, y + 13, "start", value);
}

static void put_axis(FILE *f, double bottom)
{
	static const double at[] = { 0, 0.25, 0.5, 0.75, 1 };

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		char label[16];

		snprintf(label, sizeof(label), "%g", at[i]);
		put_text(f, reach(at[i]), TOP - 8, "middle", label);
		put_box(f, "#dddddd", reach(at[i]), TOP, 1, bottom - TOP);
	}
}

void result_write_svg(const char *path, const char *title)
{
	unsigned n;
	const struct result *r = result_list(&n);
	FILE *f = fopen(path, "we");
	double bottom = TOP, y = TOP;

	if (!f)
		die("%s: %s", path, strerror(errno));
	for (unsigned i = 0; i < n; i++)
		bottom += drawn(&r[i]) ? STEP : 0;
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n",
		WIDTH, bottom + 40);
	put_box(f, "#ffffff", 0, 0, WIDTH, bottom + 40);
	put_text(f, 16, 24, "start", title);
	put_axis(f, bottom);
	for (unsigned i = 0; i < n; i++)
		if (drawn(&r[i])) {
			put_bar(f, &r[i], y);
			y += STEP;
		}
	put_text(
		f, 16, bottom + 24, "start",
		"1: the limit, or the bound. Black mark: the goal. Thin line: spread of the pairs. Red: missed. Grey: no goal.");
	fputs("</svg>\n", f);
	if (fclose(f))
		die("%s: %s", path, strerror(errno));
}
