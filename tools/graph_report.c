/* SPDX-License-Identifier: MIT */
/* The table and the JSON object of weir graph. */
#include <inttypes.h>
#include <string.h>
#include "graph.h"
#include "output.h"
#include "text.h"

/* Operations of one name. */
struct kind {
	const char *op;
	uint64_t n, flops, moved;
};
enum {
	KINDS = 64 /* more than there are operations */
};

static unsigned count_kinds(const struct graph_view *v, struct kind *kind)
{
	unsigned n = 0;

	for (uint32_t k = 0; k < v->n_ops; k++) {
		const struct graph_node *node = &v->node[v->op[k]];
		unsigned i = 0;

		while (i < n && strcmp(kind[i].op, node->op))
			i++;
		if (i == KINDS)
			continue;
		if (i == n)
			kind[n++] = (struct kind){ .op = node->op };
		kind[i].n++;
		kind[i].flops += node->flops;
		kind[i].moved += node->moved;
	}
	return n;
}

static void put_kind(const char *op, uint64_t n, uint64_t flops, uint64_t moved)
{
	char a[GRAPH_TEXT], b[SIZE_TEXT];

	printf("%-12s %8" PRIu64 "  %12s  %12s\n", op, n,
	       graph_flops_text(flops, a), size_text(moved, b));
}

static void put_kinds(const struct graph_view *v)
{
	struct kind kind[KINDS];
	const unsigned n = count_kinds(v, kind);

	printf("\n%-12s %8s  %12s  %12s\n", "operation", "nodes", "computes",
	       "moves");
	for (unsigned i = 0; i < n; i++)
		put_kind(kind[i].op, kind[i].n, kind[i].flops, kind[i].moved);
	put_kind("all", v->sum.ops, v->sum.flops, v->sum.moved);
}

static void put_size(uint64_t bytes)
{
	char text[SIZE_TEXT];

	printf("  %10s", size_text(bytes, text));
}

static void put_devs(const struct graph_view *v)
{
	printf("\n%-12s %10s  %10s  %10s  %10s  %10s  %10s\n", "device",
	       "operations", "weights", "caches", "results", "inputs",
	       "workspace");
	for (uint32_t i = 0; i < v->n_devs; i++) {
		const struct graph_dev *d = &v->dev[i];

		printf("%-12s %10" PRIu64, d->name, d->sum.ops);
		put_size(d->sum.weights.bytes);
		put_size(d->sum.caches.bytes);
		put_size(d->estimate.results);
		put_size(d->estimate.inputs);
		put_size(d->estimate.workspace);
		putchar('\n');
	}
}

static void put_kernels(const struct graph_view *v)
{
	char text[GRAPH_TEXT];

	for (uint32_t i = 0; i < v->n_devs; i++) {
		const struct weir_lane *l = &v->dev[i].lane;

		if (!l->kernels)
			continue;
		printf("%s: %s, %s%s\n", v->dev[i].name,
		       count_text(l->kernels, "kernel", text),
		       *l->why ? "no CUDA graph: " : "one CUDA graph", l->why);
		if (l->by_library)
			printf("%s: %s by %s\n", v->dev[i].name,
			       count_text(l->by_library, "product", text),
			       l->library);
		else if (*l->library)
			printf("%s: no products by cuBLASLt: %s\n",
			       v->dev[i].name, l->library);
	}
}

/* Splits in the order of computing, each with the copies before it. */
static void put_splits(const struct graph_view *v)
{
	char flops[GRAPH_TEXT], size[SIZE_TEXT], copied[2 * GRAPH_TEXT];
	uint32_t t = 0;

	if (v->n_splits < 2)
		return;
	printf("\n%-12s %10s  %10s  %10s  %s\n", "split", "operations",
	       "computes", "weights", "why there");
	for (uint32_t i = 0; i < v->n_splits; i++) {
		const struct graph_split *s = &v->split[i];

		for (; t < v->n_transfers && v->transfer[t].split <= i; t++)
			printf("  copy %s to %s: %s, %s\n",
			       v->dev[v->transfer[t].from].name,
			       v->dev[v->transfer[t].to].name,
			       graph_copied_text(v, &v->transfer[t], copied),
			       size_text(v->transfer[t].bytes, size));
		printf("%-12s %10" PRIu64 "  %10s  %10s  %s\n",
		       v->dev[s->dev].name, s->sum.ops,
		       graph_flops_text(s->sum.flops, flops),
		       size_text(s->sum.weights.bytes, size), s->cause);
	}
}

void graph_put_table(const struct graph_view *v)
{
	char a[GRAPH_TEXT], b[GRAPH_TEXT], c[GRAPH_TEXT], d[GRAPH_TEXT],
		e[GRAPH_TEXT], f[GRAPH_TEXT];

	text_put(stdout, v->title, strlen(v->title), 0);
	printf("\n%" PRIu32 " nodes in %s: %s, %s, %s, %s, %s\n", v->n,
	       count_text(v->layers, "layer", a),
	       count_text(v->n_ops, "operation", b),
	       count_text(v->sum.weights.n, "weight", c),
	       count_text(v->sum.caches.n, "cache", d),
	       count_text(v->inputs, "input", e),
	       count_text(v->views, "view", f));
	put_kinds(v);
	put_devs(v);
	put_kernels(v);
	put_splits(v);
}

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *leaves_json(const struct graph_leaves *l)
{
	return json_pack("{s:o, s:o}", "count", number(l->n), "bytes",
			 number(l->bytes));
}

static json_t *kinds_json(const struct graph_view *v)
{
	struct kind kind[KINDS];
	const unsigned n = count_kinds(v, kind);
	json_t *list = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:o, s:o, s:o}", "op",
					kind[i].op, "nodes", number(kind[i].n),
					"flops", number(kind[i].flops), "bytes",
					number(kind[i].moved)));
	return list;
}

static json_t *sum_json(const char *dev, const struct graph_sum *s)
{
	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "device", dev,
			 "operations", number(s->ops), "flops",
			 number(s->flops), "bytes", number(s->moved), "weights",
			 leaves_json(&s->weights), "caches",
			 leaves_json(&s->caches), "prefetched",
			 number(s->prefetched));
}

static json_t *dev_json(const struct graph_view *v, uint32_t i)
{
	const struct graph_dev *d = &v->dev[i];
	const struct weir_exec_info *e = &d->estimate;
	json_t *json = sum_json(d->name, &d->sum);

	if (json)
		json_object_set_new(json, "memory",
				    json_pack("{s:o, s:o, s:o, s:o}", "bytes",
					      number(e->bytes), "results",
					      number(e->results), "inputs",
					      number(e->inputs), "workspace",
					      number(e->workspace)));
	if (json && d->lane.kernels)
		json_object_set_new(json, "launches",
				    json_pack("{s:o, s:s, s:o, s:s}", "kernels",
					      number(d->lane.kernels),
					      "no_graph", d->lane.why,
					      "by_library",
					      number(d->lane.by_library),
					      "library", d->lane.library));
	return json;
}

static json_t *split_json(const struct graph_view *v, uint32_t i)
{
	const struct graph_split *s = &v->split[i];
	json_t *json = sum_json(v->dev[s->dev].name, &s->sum);

	if (json)
		json_object_set_new(json, "cause", json_string(s->cause));
	return json;
}

static json_t *copy_json(const struct graph_view *v, uint32_t i)
{
	const struct graph_transfer *t = &v->transfer[i];
	const char *name = v->node[t->node].t->name;

	return json_pack("{s:o, s:o, s:o, s:s, s:s, s:o}", "node",
			 number(t->node), "name",
			 text_json(name ? name : "", name ? strlen(name) : 0),
			 "split", number(t->split), "from",
			 v->dev[t->from].name, "to", v->dev[t->to].name,
			 "bytes", number(t->bytes));
}

/* One by one: there may be many. */
static void put_list(const char *key, const struct graph_view *v, uint32_t n,
		     json_t *(*item)(const struct graph_view *v, uint32_t i))
{
	printf("\"%s\": [", key);
	for (uint32_t i = 0; i < n; i++) {
		fputs(i ? ",\n  " : "\n  ", stdout);
		out_json(item(v, i));
	}
	fputs("\n]", stdout);
}

static void put_member(const char *key, json_t *value)
{
	printf("\"%s\": ", key);
	out_json(value);
	fputs(",\n", stdout);
}

void graph_put_json(const struct graph_view *v)
{
	fputs("{\n", stdout);
	put_member("model", text_json(v->model, strlen(v->model)));
	put_member("tokens", number(v->tokens));
	put_member("context", number(v->context));
	put_member("layers", number(v->layers));
	put_member("nodes", number(v->n));
	put_member("views", number(v->views));
	put_member("inputs", number(v->inputs));
	put_member("weights", leaves_json(&v->sum.weights));
	put_member("caches", leaves_json(&v->sum.caches));
	put_member("flops", number(v->sum.flops));
	put_member("operations", kinds_json(v));
	put_list("devices", v, v->n_devs, dev_json);
	fputs(",\n", stdout);
	put_list("splits", v, v->n_splits, split_json);
	fputs(",\n", stdout);
	put_list("copies", v, v->n_transfers, copy_json);
	fputs("\n}\n", stdout);
}
