/* SPDX-License-Identifier: MIT */
/*
 * The leaves of a compiled graph. A lane uses leaves where they are, if it can:
 * those that are neighbours are joined. Others it imports: they are entries of
 * its prefetch list.
 */
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "core/sys.h"
#include "graph/compile/compiled.h"
#include "io/file.h"
#include "mem/buf.h"
#include "mem/tensor.h"

/* Leaves that are read are one range if the gap is at most this. */
#define GAP 4096u

static int check_placed(const struct weir_node *leaf)
{
	return leaf->t.buf
		       ? 0
		       : weir__fail(
				 -EINVAL,
				 "leaf %s is not placed, so it cannot be used",
				 weir__tensor_describe(&leaf->t, leaf->index));
}

/* A leaf, to be sorted by address. */
struct sorted_leaf {
	struct weir__sort_key key;
	struct weir_buf *buf; /* not a joined buffer */
	uint64_t bytes;
	uint32_t node;
	uint32_t write;
};

static int sorted_leaves_list(const struct weir__graph_lane *lane,
			      const struct weir_graph *g,
			      struct sorted_leaf *list)
{
	int r = 0;

	for (uint32_t i = 0; i < lane->n_leaves && !r; i++) {
		const struct weir_node *leaf = g->node[lane->leaf[i].node];
		struct sorted_leaf *to = &list[i];
		uint64_t off = 0;

		r = check_placed(leaf);
		if (r == 0)
			r = weir__buf_range(leaf->t.buf, leaf->t.offset,
					    lane->leaf[i].bytes, &to->buf,
					    &off);
		if (r < 0)
			return r;
		to->key.major = (uintptr_t)to->buf->mem.base + off;
		to->key.minor = 0;
		to->bytes = lane->leaf[i].bytes;
		to->node = lane->leaf[i].node;
		to->write = lane->leaf[i].write;
	}
	return r;
}

/* True if @next becomes part of the range, because it is a neighbour. */
static bool leaf_join(struct weir__leaf_range *leaf,
		      const struct sorted_leaf *first,
		      const struct sorted_leaf *next)
{
	uint64_t begins = next->key.major - first->key.major;

	if (first->buf != next->buf || leaf->write != (next->write != 0) ||
	    begins > leaf->bytes + (leaf->write ? 0 : GAP))
		return false;
	if (begins + next->bytes > leaf->bytes)
		leaf->bytes = begins + next->bytes;
	return true;
}

static void join_leaves(struct weir__graph_lane *lane,
			const struct sorted_leaf *list)
{
	const struct sorted_leaf *first = list;
	uint32_t n = 0;

	for (uint32_t i = 0; i < lane->n_leaves; i++) {
		const struct sorted_leaf *next = &list[i];

		if (n && leaf_join(&lane->leaf[n - 1], first, next))
			continue;
		first = next;
		lane->leaf[n++] =
			(struct weir__leaf_range){ .node = next->node,
						   .write = next->write != 0,
						   .bytes = next->bytes };
	}
	lane->n_leaves = n;
}

static int lane_join(struct weir__graph_lane *lane, const struct weir_graph *g)
{
	struct sorted_leaf *list =
		weir__array_alloc(lane->n_leaves + (size_t)1, sizeof(*list));
	int r = -ENOMEM;

	if (list)
		r = sorted_leaves_list(lane, g, list);
	if (list && r == 0)
		r = weir__sort(list, lane->n_leaves, sizeof(*list));
	if (r == 0)
		join_leaves(lane, list);
	weir__array_free(list);
	return r == -ENOMEM ? weir__fail(r, "no memory for %u leaves",
					 lane->n_leaves)
			    : r;
}

/* Check a leaf that the lane cannot use where it is, so it gets a copy. */
static int check_device_copy(const struct weir__compiled *cg,
			     const struct weir_node *leaf,
			     const struct weir__device_copy *device_copy)
{
	const struct weir_dev *on = cg->lane[device_copy->lane].on->dev, *of;
	const struct weir__in_file *in = weir__node_file(leaf);
	const char *name = weir__tensor_describe(&leaf->t, leaf->index);
	int r;

	if (in)
		return in->file->weir == cg->compiler->dev[0].dev->weir
			       ? 0
			       : weir__fail(
					 -EINVAL,
					 "leaf %s: %s is a file of another root",
					 name, in->file->base);
	r = check_placed(leaf);
	if (r < 0)
		return r;
	of = leaf->t.buf->buft->dev;
	if (weir__compiler_dev_index(cg->compiler, of) < cg->compiler->n_devs ||
	    (device_copy->kind == WEIR__DEVICE_COPY_IMPORT &&
	     leaf->t.buf->buft->desc.flags & WEIR_BUFT_HOST))
		return 0;
	return weir__fail(-EINVAL, "leaf %s is in memory of %s, %s computes",
			  name, of->desc.name, on->desc.name);
}

int weir__leaves_join(struct weir__compiled *cg, const struct weir_graph *g)
{
	int r = 0;

	for (uint32_t l = 0; l < cg->n_lanes && !r; l++) {
		r = lane_join(&cg->lane[l], g);
		cg->n_leaves += cg->lane[l].n_leaves;
	}
	for (uint32_t k = 0; k < cg->n_device_copies && !r; k++) {
		const struct weir__device_copy *device_copy =
			&cg->device_copy[k].of;
		const struct weir_node *node = g->node[device_copy->node];

		if (node->op == WEIR_OP_LEAF)
			r = check_device_copy(cg, node, device_copy);
	}
	return r;
}

static bool is_import(const struct weir__compiled *cg, uint32_t k, uint32_t l)
{
	return cg->device_copy[k].of.kind == WEIR__DEVICE_COPY_IMPORT &&
	       cg->device_copy[k].of.lane == l;
}

static uint32_t count_imports(const struct weir__compiled *cg, uint32_t l)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < cg->n_device_copies; k++)
		n += is_import(cg, k, l);
	return n;
}

static void import_set(const struct weir__compiled *cg,
		       const struct weir_graph *g,
		       const struct weir__placed_copy *device_copy,
		       struct weir__import *ret)
{
	uint32_t node = device_copy->of.node;
	const struct weir__in_file *in = weir__node_file(g->node[node]);

	*ret = (struct weir__import){ .bytes = cg->at[node].bytes,
				      .by_rows = in ? device_copy->by_rows : 0,
				      .first = device_copy->of.first,
				      .last = device_copy->of.last,
				      .file = in ? in->file : NULL,
				      .at = in ? in->offset
					       : cg->at[node].offset };
}

/* The arrays of imports_of() while it makes the entries of a lane's list. */
struct merging {
	struct weir__import *import; /* those of device copies, then of
					entries */
	uint32_t *same;   /* weir__imports_same() of each device copy */
	uint32_t *newest; /* newest entry of several, at the first of them */
};

/*
 * Imports with the same bytes become one entry, with one place, if one is read
 * before another is released. Returns the number of entries.
 */
static uint32_t imports_merge(struct merging *m, uint32_t n, uint32_t *entry_of)
{
	uint32_t entries = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t *newest = &m->newest[m->same[i]];
		const struct weir__import import = m->import[i];

		if (m->same[i] != i &&
		    import.first <= m->import[*newest].last) {
			if (import.last > m->import[*newest].last)
				m->import[*newest].last = import.last;
			m->import[*newest].by_rows = 0;
		} else {
			*newest = entries;
			m->import[entries++] = import;
		}
		entry_of[i] = *newest;
	}
	return entries;
}

/*
 * The entries of the list of a lane with *@n device copies that are imports,
 * and their number. Imports are in the order of first use. NULL: no memory,
 * with a sentence.
 */
static struct weir__import *imports_of(struct weir__compiled *cg,
				       const struct weir_graph *g, uint32_t l,
				       uint32_t *n)
{
	struct weir__graph_lane *lane = &cg->lane[l];
	size_t room = *n + (size_t)1;
	struct merging m = {
		.import = weir__array_alloc(room, sizeof(*m.import)),
		.same = weir__array_alloc(room, sizeof(*m.same)),
		.newest = weir__array_alloc(room, sizeof(*m.newest))
	};
	uint32_t *entry_of = weir__array_alloc(room, sizeof(*entry_of));
	uint32_t i = 0, entries = 0;
	int r = -ENOMEM;

	lane->import_copy =
		weir__compiled_take(cg, *n, sizeof(*lane->import_copy));
	if (m.import && m.same && m.newest && entry_of && lane->import_copy)
		r = 0;
	else
		weir__fail(r, "no memory for %u constant leaves", *n);
	for (uint32_t k = 0; k < cg->n_device_copies && !r; k++)
		if (is_import(cg, k, l))
			import_set(cg, g, &cg->device_copy[k], &m.import[i++]);
	if (r == 0)
		r = weir__imports_same(m.import, *n, m.same);
	if (r == 0)
		entries = imports_merge(&m, *n, entry_of);
	/*
	 * The loop runs backwards, so that of several device copies the first
	 * stands for the entry.
	 */
	for (uint32_t k = cg->n_device_copies; k-- > 0 && !r;)
		if (is_import(cg, k, l)) {
			cg->device_copy[k].entry = entry_of[--i];
			lane->import_copy[entry_of[i]] = k;
		}
	weir__array_free(m.same);
	weir__array_free(m.newest);
	weir__array_free(entry_of);
	if (r < 0)
		weir__array_free(m.import);
	*n = entries;
	return r < 0 ? NULL : m.import;
}

/*
 * Compiled graphs that are only kept may have memory that this list needs. If
 * the list is refused for that reason, or more is prefetched than if it were
 * alone, these compiled graphs are freed, and the list is made again.
 */
static int list_new(struct weir__compiled *cg, struct weir__graph_lane *lane,
		    const struct weir__import *imports, uint32_t n)
{
	struct weir__prefetcher *f = lane->on->prefetcher;
	struct weir__prefetch_sizes alone;
	int r = weir__prefetch_measure(f, imports, n, &alone);

	if (r < 0)
		return r;
	r = weir__prefetch_list_new(f, imports, n, &lane->prefetch_list);
	if (r != -ENOMEM && (r < 0 || lane->prefetch_list->prefetched_bytes <=
					      alone.prefetched))
		return r;
	if (!weir__compiler_drop_kept(cg->compiler))
		return r;
	weir__prefetch_list_free(r < 0 ? NULL : lane->prefetch_list);
	lane->prefetch_list = NULL;
	return weir__prefetch_list_new(f, imports, n, &lane->prefetch_list);
}

static int lane_imports(struct weir__compiled *cg, const struct weir_graph *g,
			uint32_t l, bool measure)
{
	struct weir__graph_lane *lane = &cg->lane[l];
	uint32_t n = count_imports(cg, l);
	struct weir__prefetch_sizes sizes;
	struct weir__import *imports;
	int r;

	if (!n)
		return 0;
	weir__nodes_by_rows(cg, lane);
	imports = imports_of(cg, g, l, &n);
	if (!imports)
		return -ENOMEM;
	if (measure) {
		r = weir__prefetch_measure(lane->on->prefetcher, imports, n,
					   &sizes);
	} else {
		r = list_new(cg, lane, imports, n);
		if (r == 0)
			sizes = weir__prefetch_list_sizes(lane->prefetch_list);
	}
	weir__array_free(imports);
	if (r < 0)
		return r;
	lane->sizes.kept = sizes.kept;
	lane->sizes.prefetched = sizes.prefetched;
	lane->sizes.buffer = sizes.buffer;
	return 0;
}

static void lane_addresses(struct weir__compiled *cg, uint32_t l)
{
	const struct weir__prefetch_list *list = cg->lane[l].prefetch_list;

	for (uint32_t k = 0; list && k < cg->n_device_copies; k++) {
		struct weir__placed_copy *device_copy = &cg->device_copy[k];
		const struct weir__prefetch_entry *entry;

		if (!is_import(cg, k, l))
			continue;
		entry = &list->entry[device_copy->entry];
		device_copy->address =
			weir__entry_by_rows(entry)
				? WEIR__NOWHERE
				: (uintptr_t)entry->buf->mem.base +
					  entry->offset;
		device_copy->prefetched = !entry->kept;
	}
}

int weir__leaves_import(struct weir__compiled *cg, const struct weir_graph *g)
{
	int r = 0;

	for (uint32_t l = 0; l < cg->n_lanes && !r; l++) {
		r = lane_imports(cg, g, l, false);
		if (r == 0)
			lane_addresses(cg, l);
	}
	return r;
}

int weir__leaves_import_measure(struct weir__compiled *cg,
				const struct weir_graph *g)
{
	int r = 0;

	for (uint32_t l = 0; l < cg->n_lanes && !r; l++)
		r = lane_imports(cg, g, l, true);
	return r;
}
