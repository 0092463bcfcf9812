/* SPDX-License-Identifier: MIT */
#include "model/load/layers.h"

#include <errno.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/format/model.h"

#define NO_LAYER UINT64_MAX

/* The first component of a name that is a number: 7 in "model.layers.7.up". */
static uint64_t layer_of(const char *name, size_t len)
{
	size_t at = 0;

	while (at < len) {
		uint64_t n = 0;
		size_t i = at;

		while (i < len && name[i] >= '0' && name[i] <= '9' &&
		       n < NO_LAYER / 10 - 1)
			n = n * 10 + (uint64_t)(name[i++] - '0');
		if (i > at && (i == len || name[i] == '.'))
			return n;
		while (i < len && name[i] != '.')
			i++;
		at = i + 1;
	}
	return NO_LAYER;
}

void weir__layers_init(struct weir__layers *l, const struct weir_model *model)
{
	*l = (struct weir__layers){ .model = model };
}

void weir__layers_fini(struct weir__layers *l)
{
	weir__free(l->tensor);
}

int weir__layers_add(struct weir__layers *l, size_t record, uint64_t bytes)
{
	const struct weir__record *rec = &l->model->rec[record];
	struct weir__layer_tensor *t =
		weir__grow(l->tensor, &l->max, l->n, sizeof(*t));

	if (!t)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a list of %zu tensors",
				  l->model->path, l->n);
	l->tensor = t;
	t[l->n++] = (struct weir__layer_tensor){
		.record = record,
		.layer = layer_of(l->model->text + rec->name, rec->name_len),
		.bytes = bytes,
	};
	return 0;
}

static int by_layer(const void *a, const void *b)
{
	const struct weir__layer_tensor *x = a, *y = b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return x->record < y->record ? -1 : x->record > y->record;
}

void weir__layers_fit(struct weir__layers *l, uint64_t capacity)
{
	uint64_t used = 0;
	size_t i = 0;

	if (l->n > 1)
		qsort(l->tensor, l->n, sizeof(*l->tensor), by_layer);
	while (i < l->n) {
		uint64_t layer = l->tensor[i].layer, sum = used;
		size_t end = i;

		do {
			if (weir__add_over(sum, l->tensor[end].bytes, &sum))
				sum = UINT64_MAX;
			end++;
		} while (end < l->n && layer != NO_LAYER &&
			 l->tensor[end].layer == layer);
		if (sum > capacity)
			break;
		used = sum;
		i = end;
	}
	l->n = i;
}
