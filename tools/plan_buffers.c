/* SPDX-License-Identifier: MIT */
/*
 * The buffers in the picture of a placement: boxes with names and tips. If they
 * are many, only the largest are; the others are drawn together, as small cells
 * of a stronger or fainter colour, so that the size of the file is bounded.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "output.h"
#include "plan.h"
#include "text.h"

enum {
	BOXES_MAX = 3000,
	CELL = 4,   /* pixels */
	SHADES = 8, /* of a cell */
	NAME_MAX_BYTES = 64
};

/* If there are many, buffers of fewer pixels get no boxes of their own. */
static const double box_area = 40;

struct shape {
	struct svg_box box;
	size_t row;
};

double plan_x(const struct plan_view *view, int64_t time)
{
	double span = (double)view->end - (double)view->begin;

	return view->box.x +
	       view->box.width * ((double)time - (double)view->begin) / span;
}

double plan_y(const struct plan_view *view, uint64_t address)
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

/* The area that is visible; 0: its borders would hide it. */
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

/* Neighbours in the file, which often are neighbours in time, differ. */
static enum svg_fill colour_of(size_t row)
{
	static const enum svg_fill fills[] = { SVG_BLUE, SVG_ORANGE, SVG_GREEN,
					       SVG_PINK, SVG_YELLOW, SVG_SKY };

	return fills[row % (sizeof(fills) / sizeof(fills[0]))];
}

/* The end of a name, which differs more often than its beginning. */
static void cut_name(const struct plan_row *row, double room, char *to,
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

/* Name and size, along the longer side; the size is never cut. */
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
	cut_name(row, along, name, NAME_MAX_BYTES);
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

/* From 0, for nothing, to SHADES; the root makes few buffers visible. */
static int shade_of(const struct cells *cells, size_t i)
{
	double part = fmin(1, cells->covered[i] / (CELL * CELL));

	return (int)ceil(SHADES * sqrt(part));
}

/* Cells of one shade; side by side they are one box. */
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

bool plan_is_crowded(const struct plan_job *job)
{
	return job->csv.n > BOXES_MAX;
}

/* Sort those that are drawn as boxes to the front. Returns how many. */
static size_t choose_boxes(struct shape *shape, size_t n)
{
	size_t boxes = 0;

	qsort(shape, n, sizeof(*shape), compare_areas);
	while (boxes < n && boxes < BOXES_MAX &&
	       box_area <= area_of(&shape[boxes]))
		boxes++;
	return boxes;
}

size_t plan_draw_buffers(const struct plan_job *job,
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
