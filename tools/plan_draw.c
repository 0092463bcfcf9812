/* SPDX-License-Identifier: MIT */
/*
 * The picture of a placement: the buffers over their axes, the limits as lines,
 * and the bytes that are alive below, over the same times.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "plan.h"

enum {
	LEFT = 92,
	RIGHT = 190, /* for the names of the lines */
	PLOT_WIDTH = 900,
	TOP = 96,
	PLOT_HEIGHT = 540,
	GAP = 40,
	LIVE_HEIGHT = 120,
	LOW = 48,
	WIDTH = LEFT + PLOT_WIDTH + RIGHT,
	HEIGHT = TOP + PLOT_HEIGHT + GAP + LIVE_HEIGHT + LOW,
	LINE_STEP = 15 /* between two lines of text */
};

/* A step of ticks: about @wanted of them up to @top. */
static double decimal_step(double top, double wanted)
{
	double raw = top / wanted, step = pow(10, floor(log10(raw)));

	if (raw > 5 * step)
		step *= 10;
	else if (raw > 2 * step)
		step *= 5;
	else if (raw > step)
		step *= 2;
	return step < 1 ? 1 : step;
}

/* In bytes: a power of two, so that ticks are whole numbers of KiB, MiB, GiB. */
static uint64_t binary_step(uint64_t top, unsigned wanted)
{
	uint64_t step = 1;

	if (top < 4096)
		return (uint64_t)decimal_step((double)top, wanted);
	while (step < top / wanted)
		step *= 2;
	return step;
}

static void draw_address_axis(struct svg *svg, const struct plan_view *view,
			      unsigned wanted)
{
	uint64_t step = binary_step(view->top, wanted);
	double right = view->box.x + view->box.width;
	char text[PLAN_SIZE_TEXT];

	for (uint64_t at = 0; at <= view->top; at += step) {
		double y = plan_y(view, at);

		svg_stroke(svg, view->box.x, y, right, y, SVG_GRID);
		svg_textf(svg, view->box.x - 6, y + SVG_FONT * .35, SVG_END,
			  "%s", at ? plan_size_text(at, text) : "0");
	}
}

/* So many that their numbers do not touch. */
static double wanted_times(const struct plan_view *view)
{
	int a = snprintf(NULL, 0, "%" PRId64, view->begin);
	int b = snprintf(NULL, 0, "%" PRId64, view->end);

	return fmin(10, view->box.width / (SVG_CHAR * ((a > b ? a : b) + 4)));
}

static void draw_time_axis(struct svg *svg, const struct plan_view *view,
			   double low)
{
	double span = (double)view->end - (double)view->begin;
	double step = decimal_step(span, wanted_times(view));
	double first = ceil((double)view->begin / step) * step;

	for (double at = first; at <= (double)view->end; at += step) {
		double x = view->box.x +
			   view->box.width * (at - (double)view->begin) / span;

		svg_stroke(svg, x, view->box.y, x, low, SVG_GRID);
		svg_textf(svg, x, low + 16, SVG_MIDDLE, "%.0f", at);
		if (at + step <= at)
			break;
	}
	svg_textf(svg, view->box.x + view->box.width / 2, low + 34, SVG_MIDDLE,
		  "Time, as in the columns lower and upper");
}

static void draw_frame(struct svg *svg, const struct svg_box *box)
{
	svg_rect(svg, box, SVG_FRAME, NULL);
}

/* A line across a view, and its names at the right edge. */
struct limit {
	uint64_t bytes;
	enum svg_stroke stroke;
	const char *name[3];
	unsigned names;
	char note[48];
};

/* Returns the base line of the last text. */
static double draw_limit(struct svg *svg, const struct plan_view *view,
			 const struct limit *limit, double above)
{
	double x = view->box.x + view->box.width + 10;
	double y = plan_y(view, limit->bytes);
	double text = fmax(y + SVG_FONT * .35, above + 1.4 * LINE_STEP);
	char size[PLAN_SIZE_TEXT];

	svg_stroke(svg, view->box.x, y, x - 4, y, limit->stroke);
	for (unsigned i = 0; i < limit->names; i++, text += LINE_STEP)
		svg_textf(svg, x, text, SVG_BOLD, "%s", limit->name[i]);
	svg_textf(svg, x, text, SVG_PLAIN, "%s%s",
		  plan_size_text(limit->bytes, size), limit->note);
	return text;
}

static int compare_limits(const void *va, const void *vb)
{
	const struct limit *a = va, *b = vb;

	return (a->bytes < b->bytes) - (a->bytes > b->bytes);
}

/* Limits of the same bytes are one, with the line of the first. */
static size_t add_limit(struct limit *limit, size_t n, uint64_t bytes,
			enum svg_stroke stroke, const char *name)
{
	size_t i = 0;

	while (i < n && limit[i].bytes != bytes)
		i++;
	if (i == n)
		limit[n++] = (struct limit){ .bytes = bytes, .stroke = stroke };
	limit[i].name[limit[i].names++] = name;
	return n;
}

/* Highest first, so that names below can be moved down. */
static void draw_all_limits(const struct plan_job *job, struct svg *svg,
			    const struct plan_view *view)
{
	struct limit limit[3];
	double above = 0;
	size_t n = 0;

	if (job->args->capacity && job->args->capacity <= view->top)
		n = add_limit(limit, n, job->args->capacity, SVG_LIMIT,
			      "capacity");
	n = add_limit(limit, n, job->info.bound, SVG_BOUND, "lower bound");
	n = add_limit(limit, n, job->info.bytes, SVG_GRID, "height");
	qsort(limit, n, sizeof(*limit), compare_limits);
	for (size_t i = 0; i < n; i++)
		above = draw_limit(svg, view, &limit[i], above);
}

/*
 * The most bytes that are alive in column @x of pixels; *@step, where to begin,
 * moves on with it.
 */
static uint64_t most_in_column(const struct plan_job *job,
			       const struct plan_view *view, double x,
			       size_t *step)
{
	const struct plan_live *live = &job->live;
	uint64_t most = 0;

	/* A step is alive until the next begins; both may be in one column. */
	while (*step + 1 < live->n &&
	       plan_x(view, live->time[*step + 1]) <= x &&
	       plan_x(view, live->time[*step]) < x)
		++*step;
	for (size_t i = *step; i < live->n; i++) {
		if (plan_x(view, live->time[i]) >= x + 1)
			break;
		most = live->bytes[i] > most ? live->bytes[i] : most;
	}
	return most;
}

/* Columns side by side that are equal are one box. */
static void draw_live(const struct plan_job *job, struct svg *svg,
		      const struct plan_view *view)
{
	struct svg_box box = { view->box.x, 0, 0, 0 };
	double base = view->box.y + view->box.height;
	uint64_t most = 0, next;
	size_t step = 0;

	svg_boxes(svg, SVG_BLUE, 1);
	for (int x = 0; x <= PLOT_WIDTH; x++) {
		next = x < PLOT_WIDTH ? most_in_column(job, view,
						       view->box.x + x, &step)
				      : UINT64_MAX;
		if (x == 0 || next == most) {
			most = next;
			continue;
		}
		box.width = view->box.x + x - box.x;
		box.y = plan_y(view, most);
		box.height = base - box.y;
		svg_boxes_add(svg, &box);
		box.x += box.width;
		most = next;
	}
	svg_boxes_end(svg);
}

static void draw_live_view(const struct plan_job *job, struct svg *svg,
			   const struct plan_view *upper)
{
	struct plan_view view = *upper;
	struct limit most = { .bytes = plan_live_most(job),
			      .stroke = SVG_BOUND };

	view.box.y += PLOT_HEIGHT + GAP;
	view.box.height = LIVE_HEIGHT;
	view.top = most.bytes + most.bytes / 8 + 1;
	svg_textf(svg, view.box.x, view.box.y - 10, SVG_BOLD,
		  "Live bytes: the sizes of all buffers that are alive");
	most.name[most.names++] = "most";
	snprintf(most.note, sizeof(most.note), " at time %" PRId64,
		 plan_live_at(job));
	draw_address_axis(svg, &view, 5);
	draw_live(job, svg, &view);
	draw_limit(svg, &view, &most, 0);
	draw_frame(svg, &view.box);
}

static void draw_title(struct svg *svg, const char *title, size_t together)
{
	size_t n = strlen(title);

	svg_text(svg, LEFT, 28, SVG_TITLE, title, n < 110 ? n : 110);
	svg_textf(svg, LEFT, 50, SVG_PLAIN,
		  "A rectangle is a buffer: from left to right its lifetime, "
		  "from bottom to top its addresses. Colours only tell "
		  "neighbours apart.%s",
		  together ? "" : " Hatched memory is unused.");
	if (together)
		svg_textf(svg, LEFT, 50 + LINE_STEP, SVG_PLAIN,
			  "Blue without an outline: %zu buffers that are too "
			  "small to be drawn apart; the stronger the blue, the "
			  "fuller is the memory.",
			  together);
	svg_textf(svg, LEFT, TOP - 10, SVG_BOLD, "Address, in bytes");
}

static void title_of(const struct plan_job *job, char *text, size_t n)
{
	const struct weir_placement_info *info = &job->info;
	char size[PLAN_SIZE_TEXT], buffers[COUNT_TEXT], proof[80] = "";
	const char *slash = strrchr(job->name, '/');

	if (info->flags & WEIR_PLACED_OPTIMAL && info->bytes)
		snprintf(proof, sizeof(proof), ", which is the least possible");
	else if (info->bound)
		snprintf(proof, sizeof(proof),
			 ", at most %.2f %% above the least possible",
			 100. * (double)(info->bytes - info->bound) /
				 (double)info->bound);
	snprintf(text, n, "%.60s: %s in %s%s", slash ? slash + 1 : job->name,
		 count_text(job->csv.n, "buffer", buffers),
		 plan_size_text(info->bytes, size), proof);
}

static struct plan_view view_of(const struct plan_job *job)
{
	const struct plan_live *live = &job->live;
	uint64_t height = job->info.bytes, capacity = job->args->capacity;
	struct plan_view view = {
		.box = { LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT },
		.begin = live->n ? live->time[0] : 0,
		.end = live->n ? live->time[live->n - 1] : 1,
	};

	/* A capacity that is far above is not drawn. */
	if (capacity > height && capacity / 2 <= height)
		height = capacity;
	view.top = height + height / 32 + 1;
	return view;
}

int plan_draw(const struct plan_job *job, struct svg *svg)
{
	struct plan_view view = view_of(job);
	struct svg_box used = view.box;
	char title[200];
	size_t together;

	title_of(job, title, sizeof(title));
	svg_begin(svg, WIDTH, HEIGHT, title,
		  "Each buffer is a rectangle: time across, address up.");
	draw_time_axis(svg, &view, TOP + PLOT_HEIGHT + GAP + LIVE_HEIGHT);
	draw_address_axis(svg, &view, 9);
	used.y = plan_y(&view, job->info.bytes);
	used.height = view.box.y + view.box.height - used.y;
	if (!plan_is_crowded(job))
		svg_rect(svg, &used, SVG_HATCHED, NULL);
	together = plan_draw_buffers(job, &view, svg);
	if (together == SIZE_MAX)
		return EXIT_FAILURE;
	draw_title(svg, title, together);
	draw_all_limits(job, svg, &view);
	draw_frame(svg, &view.box);
	draw_live_view(job, svg, &view);
	return svg_end(svg);
}
