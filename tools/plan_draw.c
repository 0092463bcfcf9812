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
#include "text.h"

/* The mapping of times and addresses to pixels. */
struct plan_view {
	struct svg_box box;
	int64_t begin, end; /* times */
	uint64_t top;       /* the address of the upper edge */
};

struct change {
	int64_t time;
	uint64_t bytes; /* modulo 2^64: what ends is subtracted */
};

static int compare_changes(const void *va, const void *vb)
{
	const struct change *a = va, *b = vb;

	return (a->time > b->time) - (a->time < b->time);
}

static struct change *changes_of(const struct plan_csv *csv)
{
	struct change *change = calloc(2 * csv->n + 1, sizeof(*change));

	if (!change)
		return NULL;
	for (size_t i = 0; i < csv->n; i++) {
		const struct plan_row *row = &csv->row[i];

		change[2 * i] = (struct change){ row->lower, row->bytes };
		change[2 * i + 1] = (struct change){ row->upper, -row->bytes };
	}
	qsort(change, 2 * csv->n, sizeof(*change), compare_changes);
	return change;
}

/* All changes at one time are one step. */
static void add_up(struct plan_live *live, const struct change *change,
		   size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		bytes += change[i].bytes;
		if (i + 1 < n && change[i + 1].time == change[i].time)
			continue;
		live->time[live->n] = change[i].time;
		live->bytes[live->n] = bytes;
		if (bytes > live->bytes[live->most])
			live->most = live->n;
		live->n++;
	}
}

int plan_live(struct plan_job *job)
{
	size_t n = 2 * job->csv.n;
	struct change *change = changes_of(&job->csv);

	job->live.time = calloc(n + 1, sizeof(*job->live.time));
	job->live.bytes = calloc(n + 1, sizeof(*job->live.bytes));
	if (change && job->live.time && job->live.bytes)
		add_up(&job->live, change, n);
	else
		fail_memory();
	free(change);
	return change && job->live.time && job->live.bytes ? 0 : EXIT_FAILURE;
}

uint64_t plan_live_most(const struct plan_job *job)
{
	return job->live.n ? job->live.bytes[job->live.most] : 0;
}

int64_t plan_live_at(const struct plan_job *job)
{
	return job->live.n ? job->live.time[job->live.most] : 0;
}

enum {
	BOXES_MAX = 3000,
	CELL = 4,   /* pixels */
	SHADES = 8, /* shades of a cell */
	NAME_MAX_BYTES = 64
};

/*
 * If there are many buffers, those of fewer pixels get no boxes of their own.
 */
static const double box_area = 40;

struct shape {
	struct svg_box box;
	size_t row;
};

static double plan_x(const struct plan_view *view, int64_t time)
{
	double span = (double)view->end - (double)view->begin;

	return view->box.x +
	       view->box.width * ((double)time - (double)view->begin) / span;
}

static double plan_y(const struct plan_view *view, uint64_t address)
{
	return view->box.y +
	       view->box.height * (1 - (double)address / (double)view->top);
}

static struct shape shape_of(const struct plan_job *job,
			     const struct plan_view *view, size_t i)
{
	const struct plan_row *row = &job->csv.row[i];
	uint64_t offset = weir_placement_offset(job->placement, i);
	double x = plan_x(view, row->lower);
	double y = plan_y(view, offset + row->bytes);

	return (struct shape){ { x, y, plan_x(view, row->upper) - x,
				 plan_y(view, offset) - y },
			       i };
}

/* The visible area of a box; 0: its borders would hide it. */
static double area_of(const struct shape *s)
{
	if (fmin(s->box.width, s->box.height) < 3)
		return 0;
	return s->box.width * s->box.height;
}

static int compare_areas(const void *va, const void *vb)
{
	const struct shape *a = va, *b = vb;
	double x = area_of(a), y = area_of(b);

	if (x < y || x > y)
		return x < y ? 1 : -1;
	return a->row < b->row ? -1 : 1;
}

/*
 * The colour of a row. Neighbours in the file, which often are neighbours in
 * time, have different colours.
 */
static enum svg_fill colour_of(size_t row)
{
	static const enum svg_fill fills[] = { SVG_BLUE, SVG_ORANGE, SVG_GREEN,
					       SVG_PINK, SVG_YELLOW, SVG_SKY };

	return fills[row % (sizeof(fills) / sizeof(fills[0]))];
}

/* The end of a name, which differs more often than its beginning. */
static void shorten_name(const struct plan_row *row, double room, char *to,
			 size_t n)
{
	size_t columns = (size_t)(room / SVG_CHAR), from = 0;
	size_t width = text_width(row->id, row->id_len, 0);

	to[0] = '\0';
	if (width <= columns && row->id_len < n) {
		snprintf(to, n, "%.*s", (int)row->id_len, row->id);
		return;
	}
	if (columns < 5)
		return;
	while (from < row->id_len &&
	       (row->id_len - from > n - 4 ||
		text_width(row->id + from, row->id_len - from, 0) + 2 >
			columns))
		do
			from++;
		while (from < row->id_len && (row->id[from] & 0xc0) == 0x80);
	snprintf(to, n, "..%.*s", (int)(row->id_len - from), row->id + from);
}

/* Draw name and size along the longer side. The size is never shortened. */
static void draw_name(struct svg *svg, const struct svg_box *box,
		      const struct plan_row *row)
{
	bool up = box->height > box->width && box->width < 60;
	double along = (up ? box->height : box->width) - 8;
	double across = up ? box->width : box->height;
	char name[NAME_MAX_BYTES + PLAN_SIZE_TEXT], size[PLAN_SIZE_TEXT];
	size_t n, m = strlen(plan_size_text(row->bytes, size));
	struct svg_box half = *box;

	if (across < SVG_FONT || along < SVG_CHAR)
		return;
	shorten_name(row, along, name, NAME_MAX_BYTES);
	n = strlen(name);
	if ((double)(n + 2 + m) * SVG_CHAR <= along)
		snprintf(name + n, sizeof(name) - n, "  %s", size);
	else if (!up && across >= 2.2 * SVG_FONT &&
		 (double)m * SVG_CHAR <= along) {
		half.height = 1.1 * SVG_FONT;
		half.y += box->height / 2 - half.height;
		svg_label(svg, &half, name, n);
		half.y += half.height;
		svg_label(svg, &half, size, m);
		return;
	}
	if (up)
		svg_label_up(svg, box, name, strlen(name));
	else
		svg_label(svg, box, name, strlen(name));
}

static void draw_box(const struct plan_job *job, struct svg *svg,
		     const struct shape *s)
{
	const struct plan_row *row = &job->csv.row[s->row];
	char tip[NAME_MAX_BYTES + 200], size[PLAN_SIZE_TEXT];

	snprintf(tip, sizeof(tip),
		 "%.*s: %s (%" PRIu64 " bytes) at offset %" PRIu64
		 ", alive from %" PRId64 " until %" PRId64,
		 row->id_len < NAME_MAX_BYTES ? (int)row->id_len
					      : NAME_MAX_BYTES,
		 row->id, plan_size_text(row->bytes, size), row->bytes,
		 weir_placement_offset(job->placement, s->row), row->lower,
		 row->upper);
	svg_rect(svg, &s->box, colour_of(s->row), tip);
	draw_name(svg, &s->box, row);
}

/* The pixels that small buffers cover in each cell of the picture. */
struct cells {
	size_t columns, rows;
	float *covered;
};

static double overlap(double a, double b, size_t cell)
{
	double from = (double)(cell * CELL), to = from + CELL;

	return fmax(0, fmin(b, to) - fmax(a, from));
}

static void cover_cells(struct cells *cells, const struct plan_view *view,
			const struct svg_box *box)
{
	double x0 = box->x - view->box.x, x1 = x0 + box->width;
	double y0 = box->y - view->box.y, y1 = y0 + box->height;

	for (size_t y = (size_t)(y0 / CELL); y < cells->rows; y++) {
		if ((double)(y * CELL) >= y1)
			break;
		for (size_t x = (size_t)(x0 / CELL); x < cells->columns; x++) {
			if ((double)(x * CELL) >= x1)
				break;
			cells->covered[y * cells->columns + x] +=
				(float)(overlap(x0, x1, x) *
					overlap(y0, y1, y));
		}
	}
}

/*
 * The shade of a cell, from 0 (empty) to SHADES: the root makes few buffers
 * visible.
 */
static int shade_of(const struct cells *cells, size_t i)
{
	double part = fmin(1, cells->covered[i] / (CELL * CELL));

	return (int)ceil(SHADES * sqrt(part));
}

/* Draw the cells of one shade: those side by side are one box. */
static void draw_shade(const struct cells *cells, const struct plan_view *view,
		       struct svg *svg, int shade)
{
	size_t n = 0;

	svg_boxes(svg, SVG_BLUE, (double)shade / SHADES);
	for (size_t i = 0; i < cells->columns * cells->rows; i += n + !n) {
		size_t x = i % cells->columns, y = i / cells->columns;
		struct svg_box box = { view->box.x + (double)(x * CELL),
				       view->box.y + (double)(y * CELL), 0,
				       CELL };

		for (n = 0; x + n < cells->columns; n++)
			if (shade_of(cells, i + n) != shade)
				break;
		box.width = (double)(n * CELL);
		if (n)
			svg_boxes_add(svg, &box);
	}
	svg_boxes_end(svg);
}

static int draw_small(const struct shape *shape, size_t n,
		      const struct plan_view *view, struct svg *svg)
{
	struct cells cells = { (size_t)ceil(view->box.width / CELL),
			       (size_t)ceil(view->box.height / CELL), NULL };

	cells.covered =
		calloc(cells.columns * cells.rows, sizeof(*cells.covered));
	if (!cells.covered)
		return fail_memory();
	for (size_t i = 0; i < n; i++)
		cover_cells(&cells, view, &shape[i].box);
	for (int shade = 1; shade <= SHADES; shade++)
		draw_shade(&cells, view, svg, shade);
	free(cells.covered);
	return 0;
}

/* True if there are so many buffers that small ones are drawn together. */
static bool plan_is_crowded(const struct plan_job *job)
{
	return job->csv.n > BOXES_MAX;
}

/*
 * Sort the buffers that are drawn as boxes to the front. Returns their number.
 */
static size_t choose_boxes(struct shape *shape, size_t n)
{
	size_t boxes = 0;

	qsort(shape, n, sizeof(*shape), compare_areas);
	while (boxes < n && boxes < BOXES_MAX &&
	       box_area <= area_of(&shape[boxes]))
		boxes++;
	return boxes;
}

/*
 * Draw the buffers. Returns how many of them were drawn together, or SIZE_MAX:
 * no memory.
 */
static size_t plan_draw_buffers(const struct plan_job *job,
				const struct plan_view *view, struct svg *svg)
{
	struct shape *shape = calloc(job->csv.n + 1, sizeof(*shape));
	size_t n = 0, boxes;
	int r = 0;

	if (!shape) {
		fail_memory();
		return SIZE_MAX;
	}
	for (size_t i = 0; i < job->csv.n; i++)
		if (job->csv.row[i].bytes)
			shape[n++] = shape_of(job, view, i);
	boxes = plan_is_crowded(job) ? choose_boxes(shape, n) : n;
	if (n > boxes)
		r = draw_small(shape + boxes, n - boxes, view, svg);
	for (size_t i = 0; i < boxes; i++)
		draw_box(job, svg, &shape[i]);
	free(shape);
	return r ? SIZE_MAX : n - boxes;
}

enum {
	LEFT = 92,
	RIGHT = 190, /* room for the names of the lines */
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

/* The distance of ticks, so that there are about @wanted up to @top. */
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

/*
 * The distance of ticks in bytes: a power of two, so that they are whole
 * numbers of KiB, MiB or GiB.
 */
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

/* As many ticks as fit without their numbers touching. */
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

/* Merge limits of the same bytes into one, with the line of the first. */
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

/* Sort the highest first, so that names below can be moved down. */
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

/* Draw the bytes that are alive: equal columns side by side are one box. */
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
