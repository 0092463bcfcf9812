/* SPDX-License-Identifier: MIT */
#include "graph_layout.h"

#include <math.h>
#include <stdlib.h>
#include "output.h"

/* The last box of a column, and the last row that it or its edge needs. */
struct column {
	uint32_t tail, until;
};

struct placing {
	const struct graph_view *v;
	const struct graph_scene *s;
	struct layout *l;
	struct column column[LAYOUT_COLUMNS];
	uint32_t lane[LAYOUT_LANES]; /* the first row after its last edge */
	uint32_t *pending;           /* edges of each box that are not placed */
	uint32_t base;               /* the first row of the part */
};

/* Lines of leaves in the box of an operation or of parts. */
static uint32_t layout_strips(const struct graph_view *v,
			      const struct graph_box *b)
{
	uint32_t n = 0, from;

	if (b->kind == GRAPH_BOX_COPY)
		return 0;
	if (b->kind == GRAPH_BOX_PARTS)
		return (b->sum.weights.n > 0) + (b->sum.prefetched > 0) +
		       (b->sum.caches.n > 0);
	for (uint32_t i = 0; i < v->node[b->what].n_src; i++) {
		from = graph_source(v, b->what, i);
		n += from != GRAPH_NONE && v->node[from].kind != GRAPH_OP;
	}
	return n;
}

static double height_of(const struct graph_view *v, const struct graph_box *b)
{
	return LAYOUT_LINE * (2 + layout_strips(v, b)) + 8;
}

/* The row after those of all sources, and not before the part begins. */
static uint32_t row_after(const struct placing *p, const struct graph_box *b)
{
	uint32_t row = p->base;

	for (uint32_t i = 0; i < b->n_edges; i++) {
		uint32_t from = p->s->edge[b->edge + i].from;

		if (p->l->place[from].row + 1 > row)
			row = p->l->place[from].row + 1;
	}
	return row;
}

/* The leftmost column of a source that nothing follows yet. */
static bool follow_source(struct placing *p, const struct graph_box *b,
			  struct layout_place *place)
{
	uint32_t best = LAYOUT_COLUMNS;

	for (uint32_t i = 0; i < b->n_edges; i++) {
		uint32_t from = p->s->edge[b->edge + i].from;
		uint32_t column = p->l->place[from].column;

		if (p->column[column].tail == from &&
		    p->column[column].until < place->row && column < best)
			best = column;
	}
	place->column = best;
	return best < LAYOUT_COLUMNS;
}

/*
 * A column whose last box has no edge that is still to be placed. If there is
 * none, that which ends first: *row may then be later.
 */
static uint32_t free_column(const struct placing *p, uint32_t *row)
{
	uint32_t best = 0;

	for (uint32_t c = 0; c < LAYOUT_COLUMNS; c++) {
		const struct column *column = &p->column[c];

		if (column->tail == GRAPH_NONE ||
		    (!p->pending[column->tail] && column->until < *row))
			return c;
		if (column->until < p->column[best].until)
			best = c;
	}
	if (*row <= p->column[best].until)
		*row = p->column[best].until + 1;
	return best;
}

static int32_t take_lane(struct placing *p, uint32_t first, uint32_t end)
{
	uint32_t i = 0;

	while (i + 1 < LAYOUT_LANES && p->lane[i] > first)
		i++;
	if (end > p->lane[i])
		p->lane[i] = end;
	if (i >= p->l->n_lanes)
		p->l->n_lanes = i + 1;
	return (int32_t)i;
}

/* Decide on the way of an edge, whose ends are placed. */
static int32_t way_of(struct placing *p, const struct graph_edge *e)
{
	const struct layout_place *from = &p->l->place[e->from];
	const struct layout_place *to = &p->l->place[e->to];
	struct column *column = &p->column[from->column];

	p->pending[e->from]--;
	if (to->row == from->row + 1)
		return LAYOUT_DIRECT;
	if (column->tail == e->from) {
		if (column->until < to->row - 1)
			column->until = to->row - 1;
		return LAYOUT_COLUMN;
	}
	return take_lane(p, from->row + 1, to->row);
}

static void place_box(struct placing *p, uint32_t i)
{
	const struct graph_box *b = &p->s->box[i];
	struct layout_place *place = &p->l->place[i];
	struct layout_row *row;

	place->row = row_after(p, b);
	if (!follow_source(p, b, place))
		place->column = free_column(p, &place->row);
	for (uint32_t k = b->edge; k < b->edge + b->n_edges; k++)
		p->l->lane[k] = way_of(p, &p->s->edge[k]);
	p->column[place->column] = (struct column){ i, place->row };
	row = &p->l->row[place->row];
	row->height = fmax(row->height, height_of(p->v, b));
	if (place->row >= p->l->n_rows)
		p->l->n_rows = place->row + 1;
	if (place->column >= p->l->n_columns)
		p->l->n_columns = place->column + 1;
}

/* True if a box begins below all before it. */
static bool begins_rows(const struct graph_scene *s, uint32_t i)
{
	const struct graph_box *a = &s->box[i - 1], *b = &s->box[i];

	return a->kind != b->kind || a->split != b->split ||
	       a->layer != b->layer || b->kind == GRAPH_BOX_PARTS;
}

/* Frames, and the text about a split, need space above and below. */
static void add_to_split(struct placing *p, uint32_t i)
{
	const struct graph_box *b = &p->s->box[i];
	struct layout_span *span = &p->l->split[b->split];
	const uint32_t row = p->l->place[i].row;

	if (b->kind == GRAPH_BOX_COPY) {
		p->l->row[row].above = LAYOUT_GAP + LAYOUT_PAD;
		return;
	}
	if (span->first == GRAPH_NONE) {
		span->first = row;
		p->l->row[row].above = LAYOUT_GAP + LAYOUT_PAD;
	}
	span->last = row > span->last ? row : span->last;
}

static void place_all(struct placing *p)
{
	for (uint32_t c = 0; c < LAYOUT_COLUMNS; c++)
		p->column[c].tail = GRAPH_NONE;
	for (uint32_t i = 0; i < p->s->n_edges; i++)
		p->pending[p->s->edge[i].from]++;
	for (uint32_t i = 0; i < p->v->n_splits; i++)
		p->l->split[i].first = GRAPH_NONE;
	for (uint32_t i = 0; i < p->s->n; i++) {
		if (i && begins_rows(p->s, i))
			p->base = p->l->n_rows;
		place_box(p, i);
		add_to_split(p, i);
	}
}

/* From rows to pixels. The text about a split may be higher than its boxes. */
static void set_rows(const struct placing *p, double top)
{
	struct layout *l = p->l;
	double y = top - LAYOUT_GAP, least = top;
	uint32_t split = 0;

	for (uint32_t r = 0; r < l->n_rows; r++) {
		struct layout_row *row = &l->row[r];

		row->y = y + fmax(row->above, LAYOUT_GAP);
		y = row->y + row->height;
		while (split < p->v->n_splits && l->split[split].first == r) {
			l->split[split].top = row->y - LAYOUT_PAD;
			least = row->y +
				LAYOUT_LINE * layout_panel_lines(p->v, split);
			split++;
		}
		if (split && l->split[split - 1].last == r)
			y = l->split[split - 1].bottom =
				fmax(y, least) + LAYOUT_PAD;
	}
	l->bottom = y;
}

static void set_boxes(const struct placing *p)
{
	struct layout *l = p->l;

	l->columns = LAYOUT_MARGIN + LAYOUT_PANEL + LAYOUT_BAR + LAYOUT_PAD +
		     LAYOUT_LANE * (l->n_lanes + 1);
	for (uint32_t i = 0; i < p->s->n; i++) {
		struct layout_place *at = &l->place[i];

		at->box = (struct svg_box){
			l->columns + at->column * (LAYOUT_BOX + LAYOUT_GAP),
			l->row[at->row].y,
			LAYOUT_BOX,
			height_of(p->v, &p->s->box[i]),
		};
	}
	l->width = l->columns + l->n_columns * (LAYOUT_BOX + LAYOUT_GAP) -
		   LAYOUT_GAP + LAYOUT_PAD + LAYOUT_MARGIN;
}

int layout_new(const struct graph_view *v, const struct graph_scene *s,
	       double top, struct layout *l)
{
	struct placing p = { .v = v, .s = s, .l = l };

	*l = (struct layout){ 0 };
	l->place = calloc(s->n + 1, sizeof(*l->place));
	l->lane = calloc(s->n_edges + 1, sizeof(*l->lane));
	/* Each box needs at most one row more. */
	l->row = calloc(s->n + 1, sizeof(*l->row));
	l->split = calloc(v->n_splits + 1, sizeof(*l->split));
	p.pending = calloc(s->n + 1, sizeof(*p.pending));
	if (!l->place || !l->lane || !l->row || !l->split || !p.pending) {
		free(p.pending);
		return fail_memory();
	}
	place_all(&p);
	set_rows(&p, top);
	set_boxes(&p);
	free(p.pending);
	return 0;
}

void layout_free(struct layout *l)
{
	free(l->place);
	free(l->lane);
	free(l->row);
	free(l->split);
}
