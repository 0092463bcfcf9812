/* SPDX-License-Identifier: MIT */
/*
 * Where the boxes of a picture are: rows from top to bottom, in the order of
 * computing, and columns for what could be computed at the same time. An edge
 * goes down its column, or through a lane on the left of all columns, so that
 * it never crosses a box.
 */
#ifndef TOOLS_GRAPH_LAYOUT_H
#define TOOLS_GRAPH_LAYOUT_H

#include "graph.h"
#include "svg.h"

enum {
	LAYOUT_MARGIN = 16,
	LAYOUT_PANEL = 210, /* width of the text about a split */
	LAYOUT_BAR = 22,    /* width of the name of a layer */
	LAYOUT_LANE = 12,   /* width of a lane */
	LAYOUT_LANES = 24,  /* more edges share the last one */
	LAYOUT_BOX = 344,   /* width of a box */
	LAYOUT_GAP = 26,    /* between columns, and between rows */
	LAYOUT_LINE = 17,   /* height of a line of text in a box */
	LAYOUT_COLUMNS = 8,
	LAYOUT_PAD = 12 /* between the frame of a split and its boxes */
};

#define LAYOUT_DIRECT -1 /* distance to the next row */
#define LAYOUT_COLUMN -2 /* down the column of the source */

struct layout_place {
	struct svg_box box;
	uint32_t row, column;
};

struct layout_row {
	double y, height, above; /* above: free space before it */
};

struct layout_span {
	uint32_t first, last; /* rows */
	double top, bottom;
};

struct layout {
	struct layout_place *place; /* place of each box */
	int32_t *lane;              /* lane of each edge */
	struct layout_row *row;
	struct layout_span *split;
	uint32_t n_rows, n_columns, n_lanes;
	double columns;       /* x of the first column */
	double width, bottom; /* size of the picture */
};

/* @top: y of the first split. Returns 0, or EXIT_FAILURE after a line. */
int layout_new(const struct graph_view *v, const struct graph_scene *s,
	       double top, struct layout *l);
void layout_free(struct layout *l);

/* Lines of the text about a split. */
uint32_t layout_panel_lines(const struct graph_view *v, uint32_t split);

#endif
