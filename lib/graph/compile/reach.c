/* SPDX-License-Identifier: MIT */
#include "graph/compile/reach.h"

#include <string.h>

#include "core/array.h"
#include "core/error.h"

static void mark(uint8_t *needed, uint32_t i)
{
	if (i != WEIR__REACH_NONE)
		needed[i] = 1;
}

/* Sources come before their users, so one pass from the end reaches all. */
static void reach_needed(const struct weir__reach_in *in, uint8_t *needed)
{
	memset(needed, 0, in->n);
	for (uint32_t i = in->n; i-- > 0;) {
		if (in->flags[i] & WEIR__REACH_ROOT)
			needed[i] = 1;
		if (!needed[i])
			continue;
		for (uint32_t s = in->src_at[i]; s < in->src_at[i + 1]; s++)
			mark(needed, in->src[s]);
	}
}

static void reach_alias(const struct weir__reach_in *in, uint32_t *alias)
{
	for (uint32_t i = 0; i < in->n; i++)
		alias[i] = in->of[i] == i ? i : alias[in->of[i]];
}

/* A view uses no bytes itself; the nodes that read the view use them. */
static void reach_last(const struct weir__reach_in *in, struct weir__reach *r)
{
	uint32_t *last = r->last;

	for (uint32_t i = 0; i < in->n; i++)
		last[i] = i;
	for (uint32_t i = 0; i < in->n; i++) {
		if (!r->needed[i] || in->flags[i] & WEIR__REACH_STILL)
			continue;
		for (uint32_t s = in->src_at[i]; s < in->src_at[i + 1]; s++)
			if (in->src[s] != WEIR__REACH_NONE)
				last[r->alias[in->src[s]]] = i;
		last[r->alias[i]] = i;
	}
	for (uint32_t i = 0; i < in->n; i++)
		if (in->flags[i] & WEIR__REACH_KEEP)
			last[r->alias[i]] = WEIR__REACH_NONE;
	for (uint32_t i = 0; i < in->n; i++)
		last[i] = last[r->alias[i]];
}

int weir__reach(const struct weir__reach_in *in, struct weir__reach *ret)
{
	struct weir__reach r = { .n = in->n };
	size_t n = (size_t)in->n + 1; /* never 0 */
	int err;

	r.needed = weir__array_alloc(n, sizeof(*r.needed));
	r.alias = weir__array_alloc(n, sizeof(*r.alias));
	r.last = weir__array_alloc(n, sizeof(*r.last));
	if (!r.needed || !r.alias || !r.last) {
		err = weir__fail(-ENOMEM, "no memory for a pass over %u nodes",
				 in->n);
		goto out;
	}
	reach_needed(in, r.needed);
	reach_alias(in, r.alias);
	reach_last(in, &r);
	err = weir__reach_order(in, &r);
	if (!err) {
		*ret = r;
		return 0;
	}
out:
	weir__reach_free(&r);
	return err;
}

void weir__reach_free(struct weir__reach *reach)
{
	weir__array_free(reach->needed);
	weir__array_free(reach->alias);
	weir__array_free(reach->last);
	weir__array_free(reach->before_at);
	weir__array_free(reach->before);
	memset(reach, 0, sizeof(*reach));
}
