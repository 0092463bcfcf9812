/* SPDX-License-Identifier: MIT */
#include "svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include "text.h"

/* Colours after Okabe and Ito, lightened so that dark text is readable. */
static const char *const styles =
	"text{font:12px sans-serif;fill:#1c1c1c}"
	".title{font-size:16px;font-weight:bold}"
	".bold{font-weight:bold}"
	".faint{fill:#5a5a5a}"
	".middle{text-anchor:middle}"
	".end{text-anchor:end}"
	".page{fill:#fff}"
	"line{stroke:#8a8a8a}"
	".grid{stroke:#e2e2e2}.limit{stroke:#c8401a;stroke-width:2}"
	".bound{stroke:#0a5a9c;stroke-width:2;stroke-dasharray:7 4}"
	".edge{fill:none;stroke:#6a6a6a;stroke-width:1.3;"
	"marker-end:url(#edge)}"
	".copy{fill:none;stroke:#c8401a;stroke-width:2.6;"
	"marker-end:url(#copy)}"
	"#edge{fill:#6a6a6a}#copy{fill:#c8401a}"
	".b{stroke:#555;stroke-width:.5}"
	".blue{fill:#86b6e0}.orange{fill:#f0b44c}.green{fill:#67c6a3}"
	".pink{fill:#e0a3c6}.yellow{fill:#f3e577}.vermilion{fill:#f09468}"
	".sky{fill:#b9e0f7}.grey{fill:#bcc0c4}.white{fill:#fff}"
	".hatched{fill:url(#hatch)}.frame{fill:none;stroke:#6a6a6a;stroke-width:1}"
	"text.on{fill:#111}"
	".h{fill:#f2f2f2}.hl{stroke:#999}"
	"@media(prefers-color-scheme:dark){"
	".page{fill:#16181c}text{fill:#e8e8e8}.faint{fill:#a8a8a8}"
	"line{stroke:#777}.grid{stroke:#30343a}.limit{stroke:#e5532a}"
	".bound{stroke:#2f7fe0}.edge{stroke:#a8a8a8}.copy{stroke:#e5532a}"
	"#edge{fill:#a8a8a8}#copy{fill:#e5532a}.b{stroke:#16181c}.frame{stroke:#9a9a9a}"
	".h{fill:#2a2d33}.hl{stroke:#70747c}}";

#define ARROWHEAD(name, size)                                                \
	"<marker id=\"" name "\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" " \
	"markerWidth=\"" size "\" markerHeight=\"" size "\" "                \
	"markerUnits=\"userSpaceOnUse\" orient=\"auto\">"                    \
	"<path d=\"M0 0L8 4L0 8z\"/></marker>"
static const char *const arrowheads = ARROWHEAD("edge", "8")
	ARROWHEAD("copy", "12");

static const char *const fills[SVG_FILLS] = {
	[SVG_BLUE] = "blue",     [SVG_ORANGE] = "orange",
	[SVG_GREEN] = "green",   [SVG_PINK] = "pink",
	[SVG_YELLOW] = "yellow", [SVG_VERMILION] = "vermilion",
	[SVG_SKY] = "sky",       [SVG_GREY] = "grey",
	[SVG_WHITE] = "white",   [SVG_HATCHED] = "hatched",
	[SVG_FRAME] = "frame",
};

static const char *const kinds[SVG_STYLES] = {
	[SVG_PLAIN] = "plain",   [SVG_TITLE] = "title",
	[SVG_BOLD] = "bold",     [SVG_FAINT] = "faint",
	[SVG_MIDDLE] = "middle", [SVG_END] = "end",
	[SVG_ON] = "on",         [SVG_ON_BOLD] = "on bold",
	[SVG_ON_END] = "on end",
};

static const char *const strokes[SVG_STROKES] = {
	[SVG_GRID] = "grid", [SVG_LIMIT] = "limit", [SVG_BOUND] = "bound",
	[SVG_EDGE] = "edge", [SVG_COPY] = "copy",
};

/*
 * A coordinate with at most two decimals. printf() of doubles would take most
 * of the time of a large picture.
 */
#define NUMBER_TEXT 24
static const char *number(double value, char *buf)
{
	const uint64_t hundredths =
		(uint64_t)(fmin(fabs(value), 1e12) * 100 + .5);
	char *at = buf + NUMBER_TEXT - 1;
	uint64_t whole = hundredths / 100;

	*at = '\0';
	if (hundredths % 10)
		*--at = (char)('0' + hundredths % 10);
	if (hundredths % 100) {
		*--at = (char)('0' + hundredths / 10 % 10);
		*--at = '.';
	}
	do
		*--at = (char)('0' + whole % 10);
	while (whole /= 10);
	if (value < 0 && hundredths)
		*--at = '-';
	return at;
}

static void put_number(struct svg *svg, const char *before, double value)
{
	char buf[NUMBER_TEXT];

	fputs(before, svg->file.to);
	fputs(number(value, buf), svg->file.to);
}

static void put_attribute(struct svg *svg, const char *name, double value)
{
	putc(' ', svg->file.to);
	fputs(name, svg->file.to);
	put_number(svg, "=\"", value);
	putc('"', svg->file.to);
}

int svg_open(struct svg *svg, const char *path)
{
	return outfile_open(&svg->file, path);
}

void svg_begin(struct svg *svg, double width, double height, const char *title,
	       const char *shows)
{
	outfile_begin(&svg->file);
	fprintf(svg->file.to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
		"height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
		"aria-labelledby=\"t d\">\n<title id=\"t\">",
		width, height, width, height);
	text_put_xml(svg->file.to, title, strlen(title), 0);
	fputs("</title>\n<desc id=\"d\">", svg->file.to);
	text_put_xml(svg->file.to, shows, strlen(shows), 0);
	fprintf(svg->file.to,
		"</desc>\n<style>%s</style>\n<defs><pattern id=\"hatch\" "
		"width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
		"<rect class=\"h\" width=\"6\" height=\"6\"/>"
		"<path class=\"hl\" d=\"M0 6L6 0\"/></pattern>%s</defs>\n"
		"<rect class=\"page\" width=\"%.0f\" height=\"%.0f\"/>\n",
		styles, arrowheads, width, height);
}

void svg_rect(struct svg *svg, const struct svg_box *box, enum svg_fill fill,
	      const char *tip)
{
	fprintf(svg->file.to, "<rect class=\"b %s\"", fills[fill]);
	put_attribute(svg, "x", box->x);
	put_attribute(svg, "y", box->y);
	put_attribute(svg, "width", fmax(box->width, .5));
	put_attribute(svg, "height", fmax(box->height, .5));
	if (!tip) {
		fputs("/>\n", svg->file.to);
		return;
	}
	fputs("><title>", svg->file.to);
	text_put_xml(svg->file.to, tip, strlen(tip), 0);
	fputs("</title></rect>\n", svg->file.to);
}

static void text_at(struct svg *svg, double x, double y, const char *class,
		    const char *text, size_t len, size_t max)
{
	fprintf(svg->file.to, "<text class=\"%s\"", class);
	put_attribute(svg, "x", x);
	put_attribute(svg, "y", y);
	putc('>', svg->file.to);
	text_put_xml(svg->file.to, text, len, max);
	fputs("</text>\n", svg->file.to);
}

void svg_text(struct svg *svg, double x, double y, enum svg_style style,
	      const char *text, size_t len)
{
	text_at(svg, x, y, kinds[style], text, len, 0);
}

void svg_textf(struct svg *svg, double x, double y, enum svg_style style,
	       const char *fmt, ...)
{
	char line[500];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	svg_text(svg, x, y, style, line, strlen(line));
}

/* The bytes of a text that fit into @room pixels. */
static size_t label_bytes(const char *text, size_t len, double room)
{
	size_t columns = room > 8 ? (size_t)((room - 8) / SVG_CHAR) : 0;

	if (columns && text_width(text, len, 0) <= columns)
		return len;
	return columns >= 6 ? columns - 3 : 0;
}

void svg_label(struct svg *svg, const struct svg_box *box, const char *text,
	       size_t len)
{
	double y = box->y + box->height / 2 + SVG_FONT * .35;
	size_t max = label_bytes(text, len, box->width);

	if (box->height >= SVG_FONT && max)
		text_at(svg, box->x + 4, y, "on", text, len, max);
}

void svg_label_up(struct svg *svg, const struct svg_box *box, const char *text,
		  size_t len)
{
	double x = box->x + box->width / 2 + SVG_FONT * .35;
	size_t max = label_bytes(text, len, box->height);

	if (box->width < SVG_FONT || !max)
		return;
	fprintf(svg->file.to,
		"<g transform=\"translate(%.2f %.2f) rotate(-90)\">", x,
		box->y + box->height - 4);
	text_at(svg, 0, 0, "on", text, len, max);
	fputs("</g>\n", svg->file.to);
}

void svg_line(struct svg *svg, double x1, double y1, double x2, double y2)
{
	fprintf(svg->file.to,
		"<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", x1,
		y1, x2, y2);
}

void svg_stroke(struct svg *svg, double x1, double y1, double x2, double y2,
		enum svg_stroke stroke)
{
	fprintf(svg->file.to,
		"<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" "
		"y2=\"%.2f\"/>\n",
		strokes[stroke], x1, y1, x2, y2);
}

void svg_arrow(struct svg *svg, const struct svg_point *point, unsigned n,
	       enum svg_stroke stroke)
{
	const struct svg_point *p = point;

	fprintf(svg->file.to, "<path class=\"%s\" d=\"", strokes[stroke]);
	put_number(svg, "M", p->x);
	put_number(svg, " ", p->y);
	for (unsigned i = 1; i < n; i++, p++) {
		const double half = (p[0].y + p[1].y) / 2;

		if (fabs(p[0].x - p[1].x) >= .1) {
			put_number(svg, "C", p[0].x);
			put_number(svg, " ", half);
			put_number(svg, " ", p[1].x);
			put_number(svg, " ", half);
			put_number(svg, " ", p[1].x);
			put_number(svg, " ", p[1].y);
		} else if (p[0].y < p[1].y) {
			put_number(svg, "V", p[1].y);
		}
	}
	fputs("\"/>\n", svg->file.to);
}

void svg_boxes(struct svg *svg, enum svg_fill fill, double opacity)
{
	fprintf(svg->file.to, "<path class=\"%s\" opacity=\"%g\" d=\"",
		fills[fill], opacity);
}

void svg_boxes_add(struct svg *svg, const struct svg_box *box)
{
	fprintf(svg->file.to, "M%g %gh%gv%gh%gz", box->x, box->y, box->width,
		box->height, -box->width);
}

void svg_boxes_end(struct svg *svg)
{
	fputs("\"/>\n", svg->file.to);
}

int svg_end(struct svg *svg)
{
	fputs("</svg>\n", svg->file.to);
	return outfile_end(&svg->file);
}

void svg_drop(struct svg *svg)
{
	outfile_drop(&svg->file);
}
