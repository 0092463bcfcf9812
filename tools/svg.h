/* SPDX-License-Identifier: MIT */
/*
 * A picture as SVG: boxes, text and lines, in colours that colour-blind readers
 * can tell apart. It has a background of its own, light or dark as the viewer
 * prefers, and boxes have the same colours, with dark text, on both.
 *
 * Coordinates are pixels from the upper left corner. Text may contain any
 * bytes: text_put_xml() escapes it.
 */
#ifndef TOOLS_SVG_H
#define TOOLS_SVG_H

#include <stddef.h>
#include "outfile.h"

#define SVG_FONT 12.0 /* height of text; of SVG_TITLE: 16 */
#define SVG_CHAR 6.8  /* a character is about this wide, seldom wider */

enum svg_fill {
	SVG_BLUE,
	SVG_ORANGE,
	SVG_GREEN,
	SVG_PINK,
	SVG_YELLOW,
	SVG_VERMILION,
	SVG_SKY,
	SVG_GREY,
	SVG_WHITE,
	SVG_HATCHED, /* empty space */
	SVG_FRAME,   /* an outline */
	SVG_FILLS
};

enum svg_style {
	SVG_PLAIN,
	SVG_TITLE, /* larger */
	SVG_BOLD,
	SVG_FAINT,
	SVG_MIDDLE, /* plain, centred at x */
	SVG_END,    /* plain, ends at x */
	SVG_ON,     /* dark, for a box of a colour */
	SVG_ON_BOLD,
	SVG_ON_END,
	SVG_STYLES
};

enum svg_stroke {
	SVG_GRID,  /* faint */
	SVG_LIMIT, /* strong, in vermilion */
	SVG_BOUND, /* dashed, in blue */
	SVG_EDGE,  /* grey, with an arrowhead: svg_arrow() */
	SVG_COPY,  /* strong, in vermilion, with an arrowhead */
	SVG_STROKES
};

struct svg {
	struct outfile file;
};

struct svg_box {
	double x, y, width, height;
};

/*
 * Open @path, which must remain valid, for a picture that is drawn later; NULL:
 * stdout. An older file is kept until svg_end(). Returns 0, or EXIT_FAILURE
 * after a line on stderr.
 */
int svg_open(struct svg *svg, const char *path);
/*
 * Begin the picture: its size, and for screen readers its title and what it
 * shows. Neither is drawn.
 */
void svg_begin(struct svg *svg, double width, double height, const char *title,
	       const char *shows);
/*
 * Draw a box; @tip, which viewers show under the pointer, may be NULL. Boxes of
 * less than half a pixel are made that wide and high, so that they are visible.
 */
void svg_rect(struct svg *svg, const struct svg_box *box, enum svg_fill fill,
	      const char *tip);
/* @y is the base line. */
void svg_text(struct svg *svg, double x, double y, enum svg_style style,
	      const char *text, size_t len);
void svg_textf(struct svg *svg, double x, double y, enum svg_style style,
	       const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/*
 * Draw dark text in a box of a colour, at its left edge and in the middle of
 * its height. It is shortened to fit, and left out where fewer than three
 * characters would fit.
 */
void svg_label(struct svg *svg, const struct svg_box *box, const char *text,
	       size_t len);
/* The same, upwards from the lower edge, in the middle of the width. */
void svg_label_up(struct svg *svg, const struct svg_box *box, const char *text,
		  size_t len);
void svg_line(struct svg *svg, double x1, double y1, double x2, double y2);
void svg_stroke(struct svg *svg, double x1, double y1, double x2, double y2,
		enum svg_stroke stroke);
/*
 * An arrow downwards through @n points. Where they are not one below another,
 * it is curved, and vertical at both.
 */
struct svg_point {
	double x, y;
};
void svg_arrow(struct svg *svg, const struct svg_point *point, unsigned n,
	       enum svg_stroke stroke);
/*
 * Many boxes of one colour, without outlines and tips, each in few bytes:
 * svg_boxes() begins, svg_boxes_end() ends. Nothing else may be drawn between.
 */
void svg_boxes(struct svg *svg, enum svg_fill fill, double opacity);
void svg_boxes_add(struct svg *svg, const struct svg_box *box);
void svg_boxes_end(struct svg *svg);
/*
 * Finish and close the file. Returns 0, or EXIT_FAILURE after a line on stderr.
 */
int svg_end(struct svg *svg);
/* Close it without a picture, if it is open; an older file is kept. */
void svg_drop(struct svg *svg);

#endif
