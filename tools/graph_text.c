/* SPDX-License-Identifier: MIT */
/* Texts of tables and pictures of graphs. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include "graph.h"
#include "output.h"

const char *const graph_legend[GRAPH_CATEGORIES] = {
	[GRAPH_PRODUCT] = "matrix product",
	[GRAPH_ATTENTION] = "attention",
	[GRAPH_ELEMENTS] = "norm, sum, function of elements",
	[GRAPH_ROWS] = "takes or writes rows",
	[GRAPH_CALL] = "function of the program",
};

const char *graph_flops_text(uint64_t flops, char *buf)
{
	static const char *const units[] = { "", "k", "M", "G", "T", "P" };
	double value = (double)flops;
	unsigned unit = 0;

	for (; value >= 999.5 && unit < 5; unit++)
		value /= 1e3;
	snprintf(buf, GRAPH_TEXT, "%.*f %sFLOP",
		 !unit || value >= 100 ? 0
		 : value < 10          ? 2
				       : 1,
		 value, units[unit]);
	return buf;
}

static const char *dtype_name(uint32_t dtype)
{
	struct weir_dtype_info info = { .size = sizeof(info) };

	return weir_dtype_info(dtype, &info) < 0 ? "?" : info.name;
}

const char *graph_shape_text(const struct weir_tensor *t, char *buf)
{
	size_t n;

	n = (size_t)snprintf(buf, GRAPH_TEXT, "%s [", dtype_name(t->dtype));
	for (uint32_t i = 0; i < t->ndim && n < GRAPH_TEXT; i++)
		n += (size_t)snprintf(buf + n, GRAPH_TEXT - n, "%s%" PRId64,
				      i ? ", " : "", t->shape[i]);
	if (n < GRAPH_TEXT)
		snprintf(buf + n, GRAPH_TEXT - n, "]");
	return buf;
}

/* "Q4_K, F32" */
static const char *graph_dtypes_text(const uint64_t dtypes[2], char *buf)
{
	size_t n = 0;

	buf[0] = '\0';
	for (uint32_t i = 0; i < 128 && n < GRAPH_TEXT; i++)
		if (dtypes[i / 64] >> i % 64 & 1)
			n += (size_t)snprintf(buf + n, GRAPH_TEXT - n, "%s%s",
					      n ? ", " : "", dtype_name(i));
	return buf;
}

const char *graph_layers_text(int32_t first, int32_t last, char *buf)
{
	buf[0] = '\0';
	if (first >= 0 && first == last)
		snprintf(buf, GRAPH_TEXT, "Layer %" PRId32, first);
	else if (first >= 0)
		snprintf(buf, GRAPH_TEXT, "Layers %" PRId32 " to %" PRId32,
			 first, last);
	return buf;
}

const char *graph_same_text(const struct graph_view *v,
			    const struct graph_box *b, char *buf)
{
	const struct graph_part *p = &v->part[b->what];

	snprintf(buf, GRAPH_TEXT,
		 "%" PRIu32 " operations%s, as in layer %" PRId32, p->n,
		 b->n > 1 ? " each" : "", v->part[p->like].layer);
	return buf;
}

const char *graph_leaf_text(const struct graph_node *n, char *buf)
{
	char shape[GRAPH_TEXT];
	const char *name;
	size_t len = graph_short_name(n, &name);

	snprintf(buf, 2 * GRAPH_TEXT, "%.*s  %s", len < 120 ? (int)len : 120,
		 name, graph_shape_text(n->t, shape));
	return buf;
}

const char *graph_leaves_text(const struct graph_leaves *leaves,
			      const char *what, char *buf)
{
	char count[GRAPH_TEXT], dtypes[GRAPH_TEXT];

	snprintf(buf, 3 * GRAPH_TEXT, "%s: %s",
		 count_text(leaves->n, what, count),
		 graph_dtypes_text(leaves->dtypes, dtypes));
	return buf;
}

const char *graph_copy_text(const struct graph_view *v,
			    const struct graph_transfer *t, char *buf)
{
	snprintf(buf, GRAPH_TEXT, "copy from %.40s to %.40s",
		 v->dev[t->from].name, v->dev[t->to].name);
	return buf;
}

const char *graph_copied_text(const struct graph_view *v,
			      const struct graph_transfer *t, char *buf)
{
	const struct graph_node *n = &v->node[t->node];
	char shape[GRAPH_TEXT];

	snprintf(buf, 2 * GRAPH_TEXT, "%.120s  %s",
		 n->t->name ? n->t->name : n->op,
		 graph_shape_text(n->t, shape));
	return buf;
}

const char *graph_counts_text(const struct graph_view *v, char *buf)
{
	char ops[GRAPH_TEXT], weights[GRAPH_TEXT], caches[GRAPH_TEXT],
		layers[GRAPH_TEXT], size[SIZE_TEXT], flops[GRAPH_TEXT];

	snprintf(buf, 3 * GRAPH_TEXT,
		 "%.40s, %.40s in %" PRIu32
		 " nodes: %.40s, %.40s of %s, %.40s, %" PRIu32
		 " inputs, and %" PRIu32 " views of them (not drawn)",
		 count_text(v->layers, "layer", layers),
		 graph_flops_text(v->sum.flops, flops), v->n,
		 count_text(v->sum.ops, "operation", ops),
		 count_text(v->sum.weights.n, "weight", weights),
		 size_text(v->sum.weights.bytes, size),
		 count_text(v->sum.caches.n, "cache", caches), v->inputs,
		 v->views);
	return buf;
}

static unsigned size_line(const char *what, uint64_t bytes, char *line)
{
	char size[SIZE_TEXT];

	snprintf(line, GRAPH_TEXT, "%s %s", what, size_text(bytes, size));
	return 1;
}

/* How its kernels are launched; nothing of a device that has none. */
static unsigned kernels_text(const struct graph_dev *d,
			     char (*line)[GRAPH_TEXT])
{
	if (!d->lane.kernels)
		return 0;
	count_text(d->lane.kernels, "kernel", line[0]);
	snprintf(line[1], GRAPH_TEXT, "%s",
		 *d->lane.why ? "no CUDA graph" : "one CUDA graph");
	return 2;
}

/* The memory that the device of a split needs besides weights and caches. */
static unsigned memory_text(const struct graph_dev *d, char (*line)[GRAPH_TEXT])
{
	const struct weir_exec_info *e = &d->estimate;
	unsigned n = 0;

	n += size_line("results", e->results, line[n]);
	n += size_line("inputs", e->inputs, line[n]);
	n += size_line("workspace", e->workspace, line[n]);
	return n;
}

static unsigned leaves_text(const struct graph_leaves *leaves, const char *what,
			    char *line)
{
	char size[SIZE_TEXT], count[GRAPH_TEXT];

	if (!leaves->n)
		return 0;
	snprintf(line, GRAPH_TEXT, "%.40s of %s",
		 count_text(leaves->n, what, count),
		 size_text(leaves->bytes, size));
	return 1;
}

static bool is_first_of_dev(const struct graph_view *v, uint32_t split)
{
	uint32_t i = 0;

	while (v->split[i].dev != v->split[split].dev)
		i++;
	return i == split;
}

void graph_panel_text(const struct graph_view *v, uint32_t split,
		      struct graph_panel *ret_panel)
{
	char(*line)[GRAPH_TEXT] = ret_panel->line;
	const struct graph_split *s = &v->split[split];
	const struct graph_dev *d = &v->dev[s->dev];
	char text[GRAPH_TEXT], size[SIZE_TEXT];
	unsigned n = 0;

	if (v->n_splits > 1)
		snprintf(line[n++], GRAPH_TEXT, "Split %" PRIu32 ": %.40s",
			 split + 1, d->name);
	else
		snprintf(line[n++], GRAPH_TEXT, "Device %.40s", d->name);
	if (s->cause[0])
		snprintf(line[n++], GRAPH_TEXT, "%s", s->cause);
	count_text(s->sum.ops, "operation", line[n++]);
	snprintf(line[n++], GRAPH_TEXT, "%.40s, moves %s",
		 graph_flops_text(s->sum.flops, text),
		 size_text(s->sum.moved, size));
	n += leaves_text(&s->sum.weights, "weight", line[n]);
	if (s->sum.prefetched)
		snprintf(line[n++], GRAPH_TEXT, "%s " GRAPH_PREFETCHED,
			 size_text(s->sum.prefetched, size));
	n += leaves_text(&s->sum.caches, "cache", line[n]);
	if (is_first_of_dev(v, split))
		n += memory_text(d, &line[n]);
	if (is_first_of_dev(v, split))
		n += kernels_text(d, &line[n]);
	ret_panel->n = n;
}

void graph_categories(const struct graph_view *v, bool *ret_used)
{
	memset(ret_used, 0, GRAPH_CATEGORIES * sizeof(*ret_used));
	for (uint32_t k = 0; k < v->n_ops; k++)
		ret_used[v->node[v->op[k]].category] = true;
}

int32_t graph_layer_of(const char *name, size_t *ret_end)
{
	const char *at = name;

	while (at) {
		const char *p = at;
		int32_t layer = 0;

		while (isdigit((unsigned char)*p) && layer < 100000000)
			layer = 10 * layer + (*p++ - '0');
		if (p > at && (*p == '.' || !*p)) {
			if (ret_end)
				*ret_end = (size_t)(p - name) + (*p == '.');
			return layer;
		}
		at = strchr(at, '.');
		at = at ? at + 1 : NULL;
	}
	return GRAPH_BEFORE;
}

size_t graph_short_name(const struct graph_node *n, const char **ret_name)
{
	static const char suffix[] = ".weight";
	const size_t cut = sizeof(suffix) - 1;
	const char *name = n->t->name ? n->t->name : "";
	size_t at = 0, len;

	if (graph_layer_of(name, &at) >= 0 && name[at])
		name += at;
	len = strlen(name);
	if (len > cut && !strcmp(name + len - cut, suffix))
		len -= cut;
	*ret_name = name;
	return len;
}
