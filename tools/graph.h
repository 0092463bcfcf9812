/* SPDX-License-Identifier: MIT */
/*
 * weir graph: the graph of a pass of a model, as a table, JSON, DOT or SVG.
 *
 * A view of the graph has what is known of each node. Its operations are
 * divided into parts: of one layer, computed in one split. Parts that compute
 * the same are drawn once: a box is an operation, or the parts that repeat an
 * earlier one, or a copy between devices. All of this takes time in proportion
 * to the nodes.
 */
#ifndef TOOLS_GRAPH_H
#define TOOLS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir.h>
#include "../llama/llama.h"
#include "outfile.h"

#define GRAPH_NONE UINT32_MAX

enum graph_form {
	GRAPH_TABLE,
	GRAPH_JSON,
	GRAPH_DOT,
	GRAPH_SVG
};

struct graph_args {
	const char *model, *out; /* out is NULL for stdout */
	enum graph_form form;
	uint64_t tokens, context; /* context is 0 for the program's choice */
	const char *devices;      /* NULL: the CPU */
	uint64_t budget;          /* 0: none */
	bool all;
	struct weir_opts root;
};

/* What a node is for the reader of a picture. */
enum graph_kind {
	GRAPH_OP,
	GRAPH_VIEW, /* not drawn: its source is in its place */
	GRAPH_WEIGHT,
	GRAPH_CACHE, /* a leaf that an operation writes */
	GRAPH_INPUT
};

struct graph_node {
	struct weir_node *node;
	const struct weir_tensor *t;
	const char *op;
	uint64_t bytes;        /* bytes of its tensor */
	uint64_t moved, flops; /* estimates of the library */
	uint32_t n_src;
	uint32_t origin; /* the node whose bytes a view has; other nodes:
			    itself */
	uint32_t home;   /* the leaf to which the result is written, if it is */
	uint32_t split;  /* split of an operation */
	int32_t layer;   /* layer of an operation; GRAPH_BEFORE: none */
	uint8_t kind, category;
	uint8_t cause; /* enum weir_node_cause */
	bool output;
	bool prefetched; /* a weight that is read in each pass */
};

/* Colours: what operations do. */
enum graph_category {
	GRAPH_PRODUCT,
	GRAPH_ATTENTION,
	GRAPH_ELEMENTS, /* sums, norms, functions of elements */
	GRAPH_ROWS,     /* elements are moved, not computed */
	GRAPH_CALL,
	GRAPH_CATEGORIES
};

#define GRAPH_BEFORE -1

/* The weights, or the caches, that some operations use; each counts once. */
struct graph_leaves {
	uint64_t n, bytes;
	uint64_t dtypes[2]; /* a bit for each enum weir_dtype */
};

struct graph_sum {
	uint64_t ops, flops, moved;
	struct graph_leaves weights, caches;
	uint64_t prefetched; /* bytes of the weights that are read in each
			       pass */
};

/* A run of consecutive operations that one device computes. */
struct graph_split {
	uint32_t dev;
	const char *cause; /* "" if it needs none */
	uint32_t first, n; /* in the list of operations */
	struct graph_sum sum;
};

/* What a device computes, and the memory that it needs for that. */
struct graph_dev {
	const char *name;
	struct graph_sum sum;
	struct weir_exec_info estimate;
	struct weir_lane lane; /* dev NULL: it computes nothing */
};

struct graph_part {
	uint32_t first, n; /* in the list of operations */
	uint32_t split;
	int32_t layer;
	uint32_t like; /* the first part that computes the same; else itself */
	uint64_t hash;
};

/* The result of a node, copied from one device to another. */
struct graph_transfer {
	uint32_t node, split; /* split: the first that uses the copy */
	uint32_t from, to;    /* devices */
	uint64_t bytes;
};

struct graph_view {
	const char *model; /* its path */
	char title[400];
	uint64_t tokens, context, layers;
	struct graph_dev *dev;
	uint32_t n_devs;
	struct graph_node *node;
	uint32_t n;
	uint32_t *op; /* numbers of the operations, in their order */
	uint32_t n_ops;
	struct graph_split *split;
	uint32_t n_splits;
	struct graph_part *part;
	uint32_t n_parts;
	struct graph_transfer *transfer;
	uint32_t n_transfers;
	struct graph_sum sum;
	uint32_t views, inputs;
};

/* A model, the graph of a pass of it, and the scheduler that divides it. */
struct graph_model {
	struct weir *weir;
	struct llama llama;
	struct weir_dev **dev;
	unsigned n_devs;
	int64_t context;        /* tokens for which the cache has room */
	struct weir_exec *exec; /* NULL: one device, without a budget */
};
/* graph_model.c; graph_model_close() frees what it made, also if it fails. */
int graph_model_open(struct graph_model *m, const struct graph_args *a);
void graph_model_close(struct graph_model *m);
/* What each device computes, and its memory. */
int graph_splits(struct graph_view *v, const struct graph_model *m);

/*
 * graph_view.c: the nodes of the graph of @m, which must remain. Returns 0, or
 * EXIT_FAILURE after a line on stderr.
 */
int graph_view_new(struct graph_view *v, const struct graph_args *a,
		   const struct graph_model *m);
void graph_view_free(struct graph_view *v);
/* Source @i of node @n, or the origin of a view; GRAPH_NONE: left out. */
uint32_t graph_source(const struct graph_view *v, uint32_t n, uint32_t i);

void graph_add_leaf(struct graph_leaves *leaves, const struct graph_node *n);
/* The parts, after graph_splits(). */
int graph_parts(struct graph_view *v);

/* What a picture has. */
enum graph_box_kind {
	GRAPH_BOX_OP,
	GRAPH_BOX_PARTS,
	GRAPH_BOX_COPY
};
struct graph_box {
	enum graph_box_kind kind;
	uint32_t what;  /* operation, first part, transfer */
	uint32_t n;     /* parts */
	uint32_t split; /* the split after a copy */
	int32_t layer;  /* layer whose frame it is in; GRAPH_BEFORE: none */
	uint32_t part;  /* part of an operation */
	uint32_t edge;  /* the first edge in the list that ends here */
	uint32_t n_edges;
	struct graph_sum sum; /* sums over the parts */
};
struct graph_edge {
	uint32_t from, to; /* boxes; from is before to */
	bool copy;         /* it comes from another device, or goes to a copy */
};
struct graph_scene {
	struct graph_box *box;
	uint32_t n;
	struct graph_edge *edge;
	uint32_t n_edges;
};
int graph_scene_new(const struct graph_view *v, bool all,
		    struct graph_scene *s);
void graph_scene_free(struct graph_scene *s);

/* graph_text.c */
#define GRAPH_TEXT 160
#define GRAPH_PANEL 12
#define GRAPH_PREFETCHED "of these prefetched"
/* The name of each category, in legends of pictures. */
extern const char *const graph_legend[GRAPH_CATEGORIES];
/* "8.39 MFLOP" */
const char *graph_flops_text(uint64_t flops, char *buf);
/* "F32 [512, 2048]" */
const char *graph_shape_text(const struct weir_tensor *t, char *buf);
/* "Layer 3"; "Layers 3 to 20"; "" for operations of no layer */
const char *graph_layers_text(int32_t first, int32_t last, char *buf);
/* "19 operations each, as in layer 0" */
const char *graph_same_text(const struct graph_view *v,
			    const struct graph_box *b, char *buf);
/* "attn_q  Q4_K [2048, 2048]". @buf has 2 * GRAPH_TEXT bytes. */
const char *graph_leaf_text(const struct graph_node *n, char *buf);
/* "7 weights: Q4_K, F32". @buf has 3 * GRAPH_TEXT bytes. */
const char *graph_leaves_text(const struct graph_leaves *leaves,
			      const char *what, char *buf);
/* "copy from CPU to CPU1" */
const char *graph_copy_text(const struct graph_view *v,
			    const struct graph_transfer *t, char *buf);
/* "blk.3.sum  F32 [1, 2048]". @buf has 2 * GRAPH_TEXT bytes. */
const char *graph_copied_text(const struct graph_view *v,
			      const struct graph_transfer *t, char *buf);
/* "22 layers, 2.1 GFLOP in 912 nodes: ...". @buf has 3 * GRAPH_TEXT bytes. */
const char *graph_counts_text(const struct graph_view *v, char *buf);
/* What is said about a split, in lines. */
struct graph_panel {
	char line[GRAPH_PANEL][GRAPH_TEXT];
	unsigned n;
};
void graph_panel_text(const struct graph_view *v, uint32_t split,
		      struct graph_panel *ret_panel);
/* The categories of which there are operations. */
void graph_categories(const struct graph_view *v, bool *ret_used);
/* Return the name of a node without its layer and ".weight", and its length. */
size_t graph_short_name(const struct graph_node *n, const char **ret_name);
/* The layer in a name: the first part of it that is a number; -1: none. */
int32_t graph_layer_of(const char *name, size_t *ret_end);

/* Write an output, to stdout or to @out. */
void graph_put_table(const struct graph_view *v);
void graph_put_json(const struct graph_view *v);
int graph_draw_dot(const struct graph_view *v, const struct graph_scene *s,
		   struct outfile *out);
int graph_draw_svg(const struct graph_view *v, const struct graph_scene *s,
		   struct outfile *out);

#endif
