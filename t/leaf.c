/* SPDX-License-Identifier: MIT */
#include "leaf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tap.h"

struct weir_graph *graph_new(void)
{
	struct weir_graph *g;

	if (weir_graph_new(&g) < 0)
		bail("%s", weir_error());
	return g;
}

struct weir_node *leaf(struct weir_graph *g, const char *name,
		       enum weir_dtype dtype, unsigned ndim, ...)
{
	int64_t shape[WEIR_MAX_DIMS];
	struct weir_tensor t;
	va_list ap;

	va_start(ap, ndim);
	for (unsigned i = 0; i < ndim; i++)
		shape[i] = va_arg(ap, int);
	va_end(ap);
	if (weir_tensor_init(&t, dtype, ndim, shape) < 0)
		bail("%s", weir_error());
	t.name = name;
	return weir_graph_leaf(g, &t, NULL);
}

const char *form_of(const struct weir_node *node)
{
	static char ring[4][128];
	static unsigned next;
	struct weir_dtype_info info = { .size = sizeof(info) };
	const struct weir_tensor *t = weir_node_tensor(node);
	char *text = ring[next++ % 4];
	size_t room = sizeof(ring[0]), at;

	if (!t || weir_dtype_info(t->dtype, &info) < 0)
		return "NULL";
	at = (size_t)snprintf(text, room, "%s [", info.name);
	for (uint32_t i = 0; i < t->ndim; i++)
		at += (size_t)snprintf(text + at, room - at, "%s%lld",
				       i ? ", " : "", (long long)t->shape[i]);
	snprintf(text + at, room - at, "]");
	return text;
}
