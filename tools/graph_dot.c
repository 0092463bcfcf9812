/* SPDX-License-Identifier: MIT */
/*
 * The picture of a graph in DOT, which graphviz lays out. Labels are tables, as
 * graphviz reads them in a subset of HTML; text in them is escaped as in XML.
 */
#include <inttypes.h>
#include <string.h>
#include "graph.h"
#include "output.h"
#include "text.h"

static const char *const colours[GRAPH_CATEGORIES] = {
	[GRAPH_PRODUCT] = "#86b6e0",  [GRAPH_ATTENTION] = "#67c6a3",
	[GRAPH_ELEMENTS] = "#b9e0f7", [GRAPH_ROWS] = "#bcc0c4",
	[GRAPH_CALL] = "#f4cfe2",
};
#define WEIGHT_COLOUR "#f3e577"
#define PREFETCHED_COLOUR "#f0b44c"
#define CACHE_COLOUR "#e0a3c6"
#define INPUT_COLOUR "#ffffff"
#define PARTS_COLOUR "#ffffff"
#define COPY_COLOUR "#f09468"

static void put_text(FILE *to, const char *text, size_t len)
{
	text_put_xml(to, text, len, 300);
}

/* A row of a table: a text on the left, and one on the right. */
static void put_row(FILE *to, const char *colour, bool bold, const char *left,
		    size_t len, const char *right)
{
	fprintf(to, "<TR><TD ALIGN=\"LEFT\" BGCOLOR=\"%s\">%s", colour,
		bold ? "<B>" : "");
	put_text(to, left, len);
	fprintf(to, "%s</TD><TD ALIGN=\"RIGHT\" BGCOLOR=\"%s\">",
		bold ? "</B>" : "", colour);
	put_text(to, right, strlen(right));
	fputs("</TD></TR>", to);
}

static void begin_box(FILE *to, uint32_t i)
{
	fprintf(to,
		"b%" PRIu32 " [label=<<TABLE BORDER=\"1\" CELLBORDER=\"0\" "
		"CELLSPACING=\"0\">",
		i);
}

static void end_box(FILE *to)
{
	fputs("</TABLE>>]\n", to);
}

static void put_leaf(FILE *to, const struct graph_node *n)
{
	const char *colour = n->kind == GRAPH_INPUT   ? INPUT_COLOUR
			     : n->kind == GRAPH_CACHE ? CACHE_COLOUR
			     : n->prefetched          ? PREFETCHED_COLOUR
						      : WEIGHT_COLOUR;
	char text[2 * GRAPH_TEXT], size[SIZE_TEXT];

	graph_leaf_text(n, text);
	put_row(to, colour, false, text, strlen(text),
		size_text(n->bytes, size));
}

static void put_op(FILE *to, const struct graph_view *v, uint32_t i)
{
	const struct graph_node *n = &v->node[i];
	const char *name, *colour = colours[n->category];
	size_t len = graph_short_name(n, &name);
	char op[GRAPH_TEXT], shape[GRAPH_TEXT], size[SIZE_TEXT];
	uint32_t from;

	snprintf(op, sizeof(op), "%s%s", n->op, n->output ? ", output" : "");
	put_row(to, colour, true, len ? name : op, len ? len : strlen(op),
		len ? op : "");
	graph_shape_text(n->t, shape);
	put_row(to, colour, false, shape, strlen(shape),
		size_text(n->bytes, size));
	for (uint32_t k = 0; k < n->n_src; k++) {
		from = graph_source(v, i, k);
		if (from != GRAPH_NONE && v->node[from].kind != GRAPH_OP)
			put_leaf(to, &v->node[from]);
	}
}

static void put_leaves(FILE *to, const struct graph_leaves *leaves,
		       const char *colour, const char *what)
{
	char text[3 * GRAPH_TEXT], size[SIZE_TEXT];

	if (!leaves->n)
		return;
	graph_leaves_text(leaves, what, text);
	put_row(to, colour, false, text, strlen(text),
		size_text(leaves->bytes, size));
}

static void put_parts(FILE *to, const struct graph_view *v,
		      const struct graph_box *b)
{
	const char *colour = PARTS_COLOUR;
	char text[GRAPH_TEXT], flops[GRAPH_TEXT], size[SIZE_TEXT];

	graph_layers_text(v->part[b->what].layer,
			  v->part[b->what].layer + (int32_t)b->n - 1, text);
	put_row(to, colour, true, text, strlen(text),
		graph_flops_text(b->sum.flops, flops));
	graph_same_text(v, b, text);
	put_row(to, colour, false, text, strlen(text), "");
	put_leaves(to, &b->sum.weights, WEIGHT_COLOUR, "weight");
	if (b->sum.prefetched)
		put_row(to, PREFETCHED_COLOUR, false, GRAPH_PREFETCHED,
			strlen(GRAPH_PREFETCHED),
			size_text(b->sum.prefetched, size));
	put_leaves(to, &b->sum.caches, CACHE_COLOUR, "cache");
}

static void put_copy(FILE *to, const struct graph_view *v, uint32_t i)
{
	const struct graph_transfer *t = &v->transfer[i];
	char text[2 * GRAPH_TEXT], size[SIZE_TEXT];

	graph_copy_text(v, t, text);
	put_row(to, COPY_COLOUR, true, text, strlen(text),
		size_text(t->bytes, size));
	graph_copied_text(v, t, text);
	put_row(to, COPY_COLOUR, false, text, strlen(text), "");
}

static void put_box(FILE *to, const struct graph_view *v,
		    const struct graph_scene *s, uint32_t i)
{
	const struct graph_box *b = &s->box[i];

	begin_box(to, i);
	if (b->kind == GRAPH_BOX_OP)
		put_op(to, v, b->what);
	else if (b->kind == GRAPH_BOX_PARTS)
		put_parts(to, v, b);
	else
		put_copy(to, v, b->what);
	end_box(to);
}

/*
 * The text about a split is a node beside its first box, so that no edge
 * crosses it, as it might a label of several lines.
 */
static void put_panel(FILE *to, uint32_t i, uint32_t box,
		      const struct graph_panel *panel)
{
	fprintf(to, "s%" PRIu32 " [label=<", i);
	for (unsigned k = 1; k < panel->n; k++) {
		put_text(to, panel->line[k], strlen(panel->line[k]));
		fputs("<BR ALIGN=\"LEFT\"/>", to);
	}
	fprintf(to, ">]\n{rank=same s%" PRIu32 " b%" PRIu32 "}\n", i, box);
}

static void begin_split(FILE *to, const struct graph_view *v, uint32_t i,
			uint32_t box)
{
	struct graph_panel panel;

	graph_panel_text(v, i, &panel);
	fprintf(to,
		"subgraph cluster_split%" PRIu32
		" {\nlabeljust=l\ncolor=\"#6a6a6a\"\nlabel=<<B>",
		i);
	put_text(to, panel.line[0], strlen(panel.line[0]));
	fputs("</B>>\n", to);
	put_panel(to, i, box, &panel);
}

static void begin_layer(FILE *to, const struct graph_box *b)
{
	char text[GRAPH_TEXT];

	graph_layers_text(b->layer, b->layer, text);
	fprintf(to,
		"subgraph cluster_part%" PRIu32
		" {\nlabeljust=l\ncolor=\"#bcc0c4\"\nlabel=<%s>\n",
		b->part, text);
}

/* Frames around the boxes of a split, and in it around those of a layer. */
struct frames {
	bool split, layer;
};

static void end_layer(FILE *to, struct frames *in)
{
	if (in->layer)
		fputs("}\n", to);
	in->layer = false;
}

static void end_split(FILE *to, struct frames *in)
{
	end_layer(to, in);
	if (in->split)
		fputs("}\n", to);
	in->split = false;
}

static bool same_layer(const struct graph_box *a, const struct graph_box *b)
{
	return a->kind == GRAPH_BOX_OP && b->kind == GRAPH_BOX_OP &&
	       a->part == b->part;
}

static void put_boxes(FILE *to, const struct graph_view *v,
		      const struct graph_scene *s)
{
	struct frames in = { false, false };

	for (uint32_t i = 0; i < s->n; i++) {
		const struct graph_box *b = &s->box[i];
		const bool copy = b->kind == GRAPH_BOX_COPY;

		if (copy || (i && b->split != s->box[i - 1].split))
			end_split(to, &in);
		if (i && !same_layer(b, &s->box[i - 1]))
			end_layer(to, &in);
		if (!copy && !in.split) {
			begin_split(to, v, b->split, i);
			in.split = true;
		}
		if (!in.layer && b->kind == GRAPH_BOX_OP && b->layer >= 0) {
			begin_layer(to, b);
			in.layer = true;
		}
		put_box(to, v, s, i);
	}
	end_split(to, &in);
}

static void put_edges(FILE *to, const struct graph_scene *s)
{
	for (uint32_t i = 0; i < s->n_edges; i++) {
		const struct graph_edge *e = &s->edge[i];

		fprintf(to, "b%" PRIu32 " -> b%" PRIu32 "%s\n", e->from, e->to,
			e->copy ? " [color=\"#c8401a\" penwidth=2.5]" : "");
	}
}

static void put_legend(FILE *to, const struct graph_view *v)
{
	bool used[GRAPH_CATEGORIES];

	graph_categories(v, used);
	fputs("subgraph cluster_legend {\nlabel=<Legend>\ncolor=\"#bcc0c4\"\n"
	      "legend [label=<<TABLE BORDER=\"0\" CELLBORDER=\"0\" "
	      "CELLSPACING=\"2\">",
	      to);
	for (unsigned i = 0; i < GRAPH_CATEGORIES; i++)
		if (used[i])
			fprintf(to, "<TR><TD BGCOLOR=\"%s\">%s</TD></TR>",
				colours[i], graph_legend[i]);
	fprintf(to,
		"<TR><TD BGCOLOR=\"" WEIGHT_COLOUR "\">weight: name, dtype, "
		"shape, bytes</TD></TR>"
		"%s<TR><TD BGCOLOR=\"" CACHE_COLOUR "\">cache, kept between "
		"passes</TD></TR>"
		"<TR><TD BORDER=\"1\" BGCOLOR=\"" INPUT_COLOUR "\">input of "
		"the pass</TD></TR>%s"
		"<TR><TD>arrow: uses the result</TD></TR></TABLE>>]\n}\n",
		v->sum.prefetched ? "<TR><TD BGCOLOR=\"" PREFETCHED_COLOUR
				    "\">prefetched: a weight "
				    "that is read in each pass</TD></TR>"
				  : "",
		v->n_transfers ? "<TR><TD BGCOLOR=\"" COPY_COLOUR "\">copy "
				 "to a device</TD></TR>"
			       : "");
}

int graph_draw_dot(const struct graph_view *v, const struct graph_scene *s,
		   struct outfile *out)
{
	char counts[3 * GRAPH_TEXT];
	FILE *to = out->to;

	outfile_begin(out);
	fputs("digraph weir {\n"
	      "graph [fontname=\"sans-serif\" labelloc=t newrank=true "
	      "nodesep=0.3 ranksep=0.35 label=<<B>",
	      to);
	put_text(to, v->title, strlen(v->title));
	fputs("</B><BR/>", to);
	graph_counts_text(v, counts);
	put_text(to, counts, strlen(counts));
	fputs(">]\n"
	      "node [shape=plaintext fontname=\"sans-serif\" fontsize=11 "
	      "margin=0]\n"
	      "edge [color=\"#6a6a6a\"]\n",
	      to);
	put_boxes(to, v, s);
	put_edges(to, s);
	put_legend(to, v);
	fputs("}\n", to);
	return outfile_end(out);
}
