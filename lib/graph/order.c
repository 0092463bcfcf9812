/* SPDX-License-Identifier: MIT */
#include "graph/order.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"

/* The state of one call of weir__order(). */
struct ordering {
	const struct weir__reach_in *in;
	const struct weir__reach *reach;
	const uint8_t *marks;
	struct weir__order o;
	uint8_t *waited; /* of a leaf: it has a gate */
};

static void gate_add(struct ordering *x, uint32_t node, bool observe)
{
	x->o.gate[x->o.n_gates++] = (struct weir__gate){ .step = x->o.n,
							 .node = node,
							 .observe = observe };
}

/* @node is used before step @until; its bytes are those of its class. */
static void order_use(struct ordering *x, uint32_t node, uint32_t until)
{
	uint32_t class = x->reach->alias[node];

	if (x->o.until[class] < until)
		x->o.until[class] = until;
	if (!(x->marks[class] & WEIR__MARK_LEAF) || x->waited[class])
		return;
	x->waited[class] = 1;
	gate_add(x, class, false);
}

static void order_compute(struct ordering *x, uint32_t i)
{
	const struct weir__reach_in *in = x->in;

	for (uint32_t s = in->src_at[i]; s < in->src_at[i + 1]; s++)
		if (in->src[s] != WEIR__REACH_NONE)
			order_use(x, in->src[s], x->o.n + 1);
	order_use(x, i, x->o.n + 1);
	x->o.node[x->o.n++] = i;
}

/*
 * An observed view is read after the step before it, which must not have taken
 * its place, so its bytes stay for one step more.
 */
static void order_nodes(struct ordering *x)
{
	for (uint32_t i = 0; i < x->in->n; i++) {
		bool still = x->in->flags[i] & WEIR__REACH_STILL ||
			     x->marks[i] & WEIR__MARK_EMPTY;

		x->o.step[i] = x->o.n;
		if (!x->reach->needed[i])
			continue;
		if (!still)
			order_compute(x, i);
		if (!(x->marks[i] & WEIR__MARK_OBSERVED))
			continue;
		order_use(x, i, x->o.n + still);
		gate_add(x, i, true);
	}
}

static int order_alloc(struct ordering *x)
{
	size_t n = (size_t)x->in->n + 1; /* never 0 */

	x->o.node = weir__array_alloc(n, sizeof(*x->o.node));
	x->o.step = weir__array_alloc(n, sizeof(*x->o.step));
	x->o.until = weir__array_alloc(n, sizeof(*x->o.until));
	x->o.gate = weir__array_alloc(2 * n, sizeof(*x->o.gate));
	x->waited = weir__array_alloc(n, sizeof(*x->waited));
	if (!x->o.node || !x->o.step || !x->o.until || !x->o.gate || !x->waited)
		return weir__fail(-ENOMEM,
				  "no memory for the order of %u nodes",
				  x->in->n);
	memset(x->o.until, 0, n * sizeof(*x->o.until));
	memset(x->waited, 0, n);
	return 0;
}

int weir__order(const struct weir__reach_in *in,
		const struct weir__reach *reach, const uint8_t *marks,
		struct weir__order *ret)
{
	struct ordering x = { .in = in, .reach = reach, .marks = marks };
	int r = order_alloc(&x);

	if (r < 0)
		weir__order_free(&x.o);
	else
		order_nodes(&x);
	weir__array_free(x.waited);
	if (r == 0)
		*ret = x.o;
	return r;
}

void weir__order_free(struct weir__order *order)
{
	weir__array_free(order->node);
	weir__array_free(order->step);
	weir__array_free(order->until);
	weir__array_free(order->gate);
	memset(order, 0, sizeof(*order));
}
