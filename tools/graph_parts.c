/* SPDX-License-Identifier: MIT */
/*
 * Parts: runs of operations of one layer in one split. Two compute the same if
 * their operations, shapes and edges are equal; the dtypes of weights may
 * differ, as they do in quantised models.
 */
#include <stdlib.h>
#include <string.h>
#include "graph.h"
#include "output.h"

/* From an operation to one outside of its part. */
#define OUTSIDE (UINT64_C(1) << 40)

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t mix_shape(uint64_t hash, const struct weir_tensor *t)
{
	hash = mix(hash, t->ndim);
	for (uint32_t i = 0; i < t->ndim; i++)
		hash = mix(hash, (uint64_t)t->shape[i]);
	return hash;
}

/* Source @i of @n: where it is, as the part sees it, and its shape. */
static uint64_t mix_source(const struct graph_view *v, uint64_t hash,
			   const uint32_t *place, uint32_t first, uint32_t n,
			   uint32_t i)
{
	const uint32_t from = graph_source(v, n, i);
	const struct graph_node *s = &v->node[from];

	if (from == GRAPH_NONE)
		return mix(hash, GRAPH_NONE);
	hash = mix(hash, s->kind);
	if (s->kind == GRAPH_INPUT)
		hash = mix(hash, from);
	else if (s->kind == GRAPH_OP)
		hash = mix(hash,
			   place[from] < first ? OUTSIDE : place[from] - first);
	return mix_shape(
		hash, weir_node_tensor(weir_node_source(v->node[n].node, i)));
}

static uint64_t hash_part(const struct graph_view *v, const uint32_t *place,
			  const struct graph_part *p)
{
	uint64_t hash = p->n;

	for (uint32_t k = 0; k < p->n; k++) {
		const uint32_t i = v->op[p->first + k];
		const struct graph_node *n = &v->node[i];

		hash = mix(hash, n->category);
		for (const char *c = n->op; *c; c++)
			hash = mix(hash, (unsigned char)*c);
		hash = mix_shape(mix(hash, n->t->dtype), n->t);
		for (uint32_t s = 0; s < n->n_src; s++)
			hash = mix_source(v, hash, place, p->first, i, s);
	}
	return hash;
}

static void divide(struct graph_view *v)
{
	struct graph_part *p = NULL;

	for (uint32_t k = 0; k < v->n_ops; k++) {
		const struct graph_node *n = &v->node[v->op[k]];

		if (!p || p->split != n->split || p->layer != n->layer) {
			p = &v->part[v->n_parts++];
			*p = (struct graph_part){ .first = k,
						  .split = n->split,
						  .layer = n->layer };
		}
		p->n++;
	}
}

static int compare_parts(const void *va, const void *vb)
{
	const struct graph_part *a = *(struct graph_part *const *)va;
	const struct graph_part *b = *(struct graph_part *const *)vb;

	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

/* The first part of each kind; those of no layer are of their own. */
static int find_equal(struct graph_view *v)
{
	struct graph_part **all = calloc(v->n_parts + 1, sizeof(*all));

	if (!all)
		return fail_memory();
	for (uint32_t i = 0; i < v->n_parts; i++)
		all[i] = &v->part[i];
	qsort(all, v->n_parts, sizeof(struct graph_part *), compare_parts);
	for (uint32_t i = 0; i < v->n_parts; i++) {
		struct graph_part *p = all[i];
		bool equal = i && all[i - 1]->hash == p->hash && p->layer >= 0;

		p->like = equal ? all[i - 1]->like : (uint32_t)(p - v->part);
	}
	free(all);
	return 0;
}

int graph_parts(struct graph_view *v)
{
	uint32_t *place = calloc(v->n + 1, sizeof(*place));

	v->part = calloc(v->n_ops + 1, sizeof(*v->part));
	if (!v->part || !place) {
		free(place);
		return fail_memory();
	}
	for (uint32_t k = 0; k < v->n_ops; k++)
		place[v->op[k]] = k;
	divide(v);
	for (uint32_t i = 0; i < v->n_parts; i++)
		v->part[i].hash = hash_part(v, place, &v->part[i]);
	free(place);
	return find_equal(v);
}
