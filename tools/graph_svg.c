/* SPDX-License-Identifier: MIT */
/*
 * The picture of a graph as SVG: graph_layout.c has decided where things are.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "graph_layout.h"
#include "output.h"
#include "svg.h"

enum {
	TITLE = 28,
	LEGEND_LINES = 3,
	TOP = TITLE + 2 * 18 + LEGEND_LINES * 20 + 18,
	BAR_TEXT = 84, /* height of the name of a layer */
	SAMPLE = 20    /* width of a sample in the legend */
};

static const enum svg_fill fills[GRAPH_CATEGORIES] = {
	[GRAPH_PRODUCT] = SVG_BLUE, [GRAPH_ATTENTION] = SVG_GREEN,
	[GRAPH_ELEMENTS] = SVG_SKY, [GRAPH_ROWS] = SVG_GREY,
	[GRAPH_CALL] = SVG_PINK,
};
#define WEIGHT_FILL SVG_YELLOW
#define PREFETCHED_FILL SVG_ORANGE
#define CACHE_FILL SVG_PINK
#define COPY_FILL SVG_VERMILION

struct drawing {
	const struct graph_view *v;
	const struct graph_scene *s;
	struct layout l;
	struct svg svg;
};

static size_t columns_in(double pixels)
{
	return pixels > 0 ? (size_t)(pixels / SVG_CHAR) : 0;
}

/* Two texts in a line of a box: the left one is cut to leave room. */
static void put_line(struct svg *svg, const struct svg_box *line, bool bold,
		     const char *left, size_t len, const char *right)
{
	const double y = line->y + line->height / 2 + SVG_FONT * .35;
	const double wide = bold ? 1.1 : 1;
	size_t room = columns_in((line->width - 20) / wide -
				 (double)strlen(right) * SVG_CHAR);
	char cut[GRAPH_TEXT];

	if (len > room && room > 3) {
		len = room - 2 < sizeof(cut) - 4 ? room - 2 : sizeof(cut) - 4;
		memcpy(cut, left, len);
		memcpy(cut + len, "..", 2);
		left = cut;
		len += 2;
	}
	svg_text(svg, line->x + 6, y, bold ? SVG_ON_BOLD : SVG_ON, left, len);
	if (right[0])
		svg_text(svg, line->x + line->width - 6, y, SVG_ON_END, right,
			 strlen(right));
}

/* The line of a box for a leaf, or for all leaves of a kind. */
static struct svg_box take_strip(struct svg_box *at)
{
	struct svg_box strip = *at;

	strip.height = LAYOUT_LINE;
	at->y += LAYOUT_LINE;
	return strip;
}

static void put_leaf(struct drawing *d, const struct svg_box *strip,
		     const struct graph_node *n)
{
	const enum svg_fill fill = n->kind == GRAPH_INPUT   ? SVG_WHITE
				   : n->kind == GRAPH_CACHE ? CACHE_FILL
				   : n->prefetched          ? PREFETCHED_FILL
							    : WEIGHT_FILL;
	char shape[GRAPH_TEXT], text[2 * GRAPH_TEXT], size[SIZE_TEXT],
		tip[3 * GRAPH_TEXT];

	snprintf(tip, sizeof(tip), "%.200s: %s, %" PRIu64 " bytes",
		 n->t->name ? n->t->name : "", graph_shape_text(n->t, shape),
		 n->bytes);
	graph_leaf_text(n, text);
	svg_rect(&d->svg, strip, fill, tip);
	put_line(&d->svg, strip, false, text, strlen(text),
		 size_text(n->bytes, size));
}

static void put_leaves(struct drawing *d, const struct svg_box *strip,
		       const struct graph_leaves *leaves, enum svg_fill fill,
		       const char *what)
{
	char text[3 * GRAPH_TEXT], size[SIZE_TEXT];

	graph_leaves_text(leaves, what, text);
	svg_rect(&d->svg, strip, fill, NULL);
	put_line(&d->svg, strip, false, text, strlen(text),
		 size_text(leaves->bytes, size));
}

static void op_tip(const struct graph_view *v, uint32_t i, char *tip,
		   size_t size)
{
	const struct graph_node *n = &v->node[i];
	char shape[GRAPH_TEXT], flops[GRAPH_TEXT], moved[SIZE_TEXT];

	snprintf(tip, size,
		 "%.200s: node %" PRIu32 ", %s; result %s, %" PRIu64
		 " bytes; %s, reads and writes %s",
		 n->t->name ? n->t->name : "", i, n->op,
		 graph_shape_text(n->t, shape), n->bytes,
		 graph_flops_text(n->flops, flops), size_text(n->moved, moved));
}

static void put_op(struct drawing *d, const struct graph_box *b,
		   const struct svg_box *box)
{
	const struct graph_node *n = &d->v->node[b->what];
	struct svg_box at = *box;
	char op[GRAPH_TEXT], text[GRAPH_TEXT], size[SIZE_TEXT],
		tip[4 * GRAPH_TEXT];
	const char *name;
	size_t len = graph_short_name(n, &name);
	uint32_t from;

	op_tip(d->v, b->what, tip, sizeof(tip));
	snprintf(op, sizeof(op), "%s%s", n->op, n->output ? ", output" : "");
	svg_rect(&d->svg, box, fills[n->category], tip);
	at.y += 4;
	at.height = LAYOUT_LINE;
	put_line(&d->svg, &at, true, len ? name : op, len ? len : strlen(op),
		 len ? op : "");
	at.y += LAYOUT_LINE;
	graph_shape_text(n->t, text);
	put_line(&d->svg, &at, false, text, strlen(text),
		 size_text(n->bytes, size));
	at.y += LAYOUT_LINE + 4;
	for (uint32_t i = 0; i < n->n_src; i++) {
		from = graph_source(d->v, b->what, i);
		if (from == GRAPH_NONE || d->v->node[from].kind == GRAPH_OP)
			continue;
		struct svg_box strip = take_strip(&at);

		put_leaf(d, &strip, &d->v->node[from]);
	}
}

static void put_parts(struct drawing *d, const struct graph_box *b,
		      const struct svg_box *box)
{
	const struct graph_part *p = &d->v->part[b->what];
	struct svg_box at = *box;
	char layers[GRAPH_TEXT], text[GRAPH_TEXT], flops[GRAPH_TEXT],
		size[SIZE_TEXT];

	for (double shift = 6; shift >= 0; shift -= 3)
		svg_rect(&d->svg,
			 &(struct svg_box){ box->x + shift, box->y + shift,
					    box->width, box->height },
			 SVG_WHITE, NULL);
	graph_layers_text(p->layer, p->layer + (int32_t)b->n - 1, layers);
	at.y += 4;
	at.height = LAYOUT_LINE;
	put_line(&d->svg, &at, true, layers, strlen(layers),
		 graph_flops_text(b->sum.flops, flops));
	at.y += LAYOUT_LINE;
	graph_same_text(d->v, b, text);
	put_line(&d->svg, &at, false, text, strlen(text), "");
	at.y += LAYOUT_LINE + 4;
	if (b->sum.weights.n) {
		struct svg_box strip = take_strip(&at);

		put_leaves(d, &strip, &b->sum.weights, WEIGHT_FILL, "weight");
	}
	if (b->sum.prefetched) {
		struct svg_box strip = take_strip(&at);

		svg_rect(&d->svg, &strip, PREFETCHED_FILL, NULL);
		put_line(&d->svg, &strip, false, GRAPH_PREFETCHED,
			 strlen(GRAPH_PREFETCHED),
			 size_text(b->sum.prefetched, size));
	}
	if (b->sum.caches.n) {
		struct svg_box strip = take_strip(&at);

		put_leaves(d, &strip, &b->sum.caches, CACHE_FILL, "cache");
	}
}

static void put_copy(struct drawing *d, const struct graph_box *b,
		     const struct svg_box *box)
{
	const struct graph_transfer *t = &d->v->transfer[b->what];
	struct svg_box at = *box;
	char text[2 * GRAPH_TEXT], size[SIZE_TEXT];

	svg_rect(&d->svg, box, COPY_FILL, d->v->node[t->node].t->name);
	at.y += 4;
	at.height = LAYOUT_LINE;
	graph_copy_text(d->v, t, text);
	put_line(&d->svg, &at, true, text, strlen(text),
		 size_text(t->bytes, size));
	at.y += LAYOUT_LINE;
	graph_copied_text(d->v, t, text);
	put_line(&d->svg, &at, false, text, strlen(text), "");
}

static void put_boxes(struct drawing *d)
{
	for (uint32_t i = 0; i < d->s->n; i++) {
		const struct graph_box *b = &d->s->box[i];
		const struct svg_box *box = &d->l.place[i].box;

		if (b->kind == GRAPH_BOX_OP)
			put_op(d, b, box);
		else if (b->kind == GRAPH_BOX_PARTS)
			put_parts(d, b, box);
		else
			put_copy(d, b, box);
	}
}

static double row_end(const struct drawing *d, uint32_t row)
{
	return d->l.row[row].y + d->l.row[row].height;
}

/* From the middle of a box down; into the next at a place of its own. */
static void put_edge(struct drawing *d, uint32_t i, unsigned *left,
		     unsigned *right)
{
	const struct graph_edge *e = &d->s->edge[i];
	const struct layout_place *from = &d->l.place[e->from];
	const struct layout_place *to = &d->l.place[e->to];
	const int32_t lane = d->l.lane[i];
	const double x = from->box.x + from->box.width / 2;
	double end = to->box.x + to->box.width / 2;
	double lane_x = d->l.columns - LAYOUT_LANE * (lane + 1);
	struct svg_point p[5] = { { x, from->box.y + from->box.height },
				  { x, row_end(d, from->row) } };
	unsigned n = 2;

	if (lane >= 0) {
		p[n++] =
			(struct svg_point){ lane_x, d->l.row[from->row + 1].y };
		p[n++] = (struct svg_point){ lane_x, row_end(d, to->row - 1) };
	} else if (lane == LAYOUT_COLUMN) {
		p[n++] = (struct svg_point){ x, row_end(d, to->row - 1) };
	}
	if (lane >= 0 || from->column < to->column)
		end -= 28 * ++*left;
	else if (from->column > to->column)
		end += 28 * ++*right;
	p[n++] = (struct svg_point){ end, to->box.y };
	svg_arrow(&d->svg, p, n, e->copy ? SVG_COPY : SVG_EDGE);
}

static void put_edges(struct drawing *d)
{
	for (uint32_t i = 0; i < d->s->n; i++) {
		const struct graph_box *b = &d->s->box[i];
		unsigned left = 0, right = 0;

		for (uint32_t k = 0; k < b->n_edges; k++)
			put_edge(d, b->edge + k, &left, &right);
	}
}

static void put_panel_line(struct drawing *d, double *y, enum svg_style style,
			   const char *text)
{
	const size_t room = columns_in(LAYOUT_PANEL - 20);
	size_t n = strlen(text);

	svg_text(&d->svg, LAYOUT_MARGIN + 10, *y, style, text,
		 n < room ? n : room);
	*y += LAYOUT_LINE;
}

uint32_t layout_panel_lines(const struct graph_view *v, uint32_t split)
{
	struct graph_panel panel;

	graph_panel_text(v, split, &panel);
	return panel.n;
}

static void put_panel(struct drawing *d, uint32_t i)
{
	double y = d->l.split[i].top + LAYOUT_PAD + 12;
	struct graph_panel panel;

	graph_panel_text(d->v, i, &panel);
	for (unsigned k = 0; k < panel.n; k++)
		put_panel_line(d, &y, k ? SVG_PLAIN : SVG_BOLD, panel.line[k]);
}

static void put_splits(struct drawing *d)
{
	for (uint32_t i = 0; i < d->v->n_splits; i++) {
		const struct layout_span *span = &d->l.split[i];
		struct svg_box frame = {
			LAYOUT_MARGIN,
			span->top,
			d->l.width - 2 * LAYOUT_MARGIN,
			span->bottom - span->top,
		};

		if (span->first == GRAPH_NONE)
			continue;
		svg_rect(&d->svg, &frame, SVG_FRAME, NULL);
		put_panel(d, i);
	}
}

/* A bar with the name of a layer, along the boxes [first, end). */
static void put_bar(struct drawing *d, uint32_t first, uint32_t end)
{
	const struct graph_box *b = &d->s->box[first];
	const struct layout_row *row = &d->l.row[d->l.place[first].row];
	uint32_t last = d->l.place[first].row;
	char text[GRAPH_TEXT];
	struct svg_box bar;

	for (uint32_t i = first; i < end; i++)
		if (d->l.place[i].row > last)
			last = d->l.place[i].row;
	bar = (struct svg_box){ LAYOUT_MARGIN + LAYOUT_PANEL, row->y,
				LAYOUT_BAR, row_end(d, last) - row->y };
	graph_layers_text(b->layer, b->layer, text);
	svg_rect(&d->svg, &bar, SVG_GREY, text);
	bar.height = fmin(bar.height, BAR_TEXT);
	svg_label_up(&d->svg, &bar, text, strlen(text));
}

static void put_bars(struct drawing *d)
{
	const struct graph_box *box = d->s->box;
	uint32_t first = 0;

	for (uint32_t i = 1; i <= d->s->n; i++) {
		if (i < d->s->n && box[i].kind == GRAPH_BOX_OP &&
		    box[i].kind == box[first].kind &&
		    box[i].part == box[first].part)
			continue;
		if (box[first].kind == GRAPH_BOX_OP && box[first].layer >= 0)
			put_bar(d, first, i);
		first = i;
	}
}

/* A sample and its meaning; returns x after it. */
static double put_sample(struct drawing *d, double x, double y,
			 enum svg_fill fill, const char *text)
{
	svg_rect(&d->svg, &(struct svg_box){ x, y - 11, SAMPLE, 14 }, fill,
		 NULL);
	svg_text(&d->svg, x + SAMPLE + 6, y, SVG_PLAIN, text, strlen(text));
	return x + SAMPLE + 24 + SVG_CHAR * (double)strlen(text);
}

static double put_arrow_sample(struct drawing *d, double x, double y,
			       enum svg_stroke stroke, const char *text)
{
	const struct svg_point p[] = { { x + SAMPLE / 2, y - 14 },
				       { x + SAMPLE / 2, y + 4 } };

	svg_arrow(&d->svg, p, 2, stroke);
	svg_text(&d->svg, x + SAMPLE + 6, y, SVG_PLAIN, text, strlen(text));
	return x + SAMPLE + 24 + SVG_CHAR * (double)strlen(text);
}

static void put_legend(struct drawing *d, double y)
{
	bool used[GRAPH_CATEGORIES];
	double x = LAYOUT_MARGIN;

	graph_categories(d->v, used);
	for (unsigned i = 0; i < GRAPH_CATEGORIES; i++)
		if (used[i])
			x = put_sample(d, x, y, fills[i], graph_legend[i]);
	x = put_arrow_sample(d, x, y, SVG_EDGE, "uses the result");
	if (d->v->n_transfers)
		put_arrow_sample(d, x, y, SVG_COPY, "copied to a device");
	x = put_sample(d, LAYOUT_MARGIN, y + 20, WEIGHT_FILL,
		       "weight: name, dtype, shape, bytes");
	if (d->v->sum.prefetched)
		x = put_sample(
			d, x, y + 20, PREFETCHED_FILL,
			"prefetched: a weight that is read in each pass");
	x = put_sample(d, x, y + 20, CACHE_FILL, "cache, kept between passes");
	put_sample(d, x, y + 20, SVG_WHITE, "input of the pass");
	svg_textf(
		&d->svg, LAYOUT_MARGIN, y + 40, SVG_FAINT,
		"Operations are computed from top to bottom. A box has the "
		"name, operation, dtype, shape and bytes of its result; below "
		"are what it reads besides.");
}

static void put_title(struct drawing *d)
{
	const struct graph_view *v = d->v;
	char counts[3 * GRAPH_TEXT];

	svg_text(&d->svg, LAYOUT_MARGIN, TITLE, SVG_TITLE, v->title,
		 strlen(v->title));
	svg_textf(&d->svg, LAYOUT_MARGIN, TITLE + 22, SVG_PLAIN, "%s",
		  graph_counts_text(v, counts));
	put_legend(d, TITLE + 50);
}

int graph_draw_svg(const struct graph_view *v, const struct graph_scene *s,
		   struct outfile *out)
{
	struct drawing d = { .v = v, .s = s };
	int r = layout_new(v, s, TOP, &d.l);

	if (r == 0) {
		d.svg.file = *out;
		svg_begin(&d.svg, d.l.width, d.l.bottom + LAYOUT_MARGIN,
			  v->title,
			  "The operations of a graph, from top to bottom, "
			  "with their weights, layers and devices.");
		put_title(&d);
		put_splits(&d);
		put_bars(&d);
		put_edges(&d);
		put_boxes(&d);
		r = svg_end(&d.svg);
		*out = d.svg.file;
	}
	layout_free(&d.l);
	return r;
}
