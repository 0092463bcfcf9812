/* SPDX-License-Identifier: MIT */
/*
 * Splits: neighbouring nodes, in the order in which they were made, that one
 * device computes. They describe an executable graph to its users; runs know
 * lanes only.
 */
#include "core/array.h"
#include "core/error.h"
#include "graph/compile/compiled.h"

#define NONE WEIR__REACH_NONE

struct splitting {
	const struct weir__passes *d;
	struct weir__split *split; /* NULL: they are only counted */
	uint32_t n;
	uint32_t *seen; /* of each class: 1 + the last split that reads it */
};

/* What the split gets from memory of another device, or from another lane. */
static void split_inputs(struct splitting *s, uint32_t i)
{
	const struct weir__passes *d = s->d;
	struct weir__split *split = &s->split[s->n - 1];

	for (uint32_t e = d->in.src_at[i]; e < d->in.src_at[i + 1]; e++) {
		uint32_t class;

		if (d->in.src[e] == NONE)
			continue;
		class = d->reach.alias[d->in.src[e]];
		if (s->seen[class] == s->n ||
		    (d->sync.device_copy_of[e] == NONE &&
		     (d->marks[class] & WEIR__MARK_LEAF ||
		      d->sync.lane[class] == split->lane)))
			continue;
		s->seen[class] = s->n;
		split->inputs++;
		split->bytes += d->bytes[class];
	}
}

static void splits_find(struct splitting *s)
{
	const struct weir__passes *d = s->d;
	uint32_t lane = UINT32_MAX;

	s->n = 0;
	for (uint32_t i = 0; i < d->in.n; i++) {
		if (!weir__is_computed(&d->in, &d->reach, i))
			continue;
		if (d->sync.lane[i] != lane) {
			lane = d->sync.lane[i];
			if (s->split)
				s->split[s->n] =
					(struct weir__split){ .lane = lane,
							      .first = i };
			s->n++;
		}
		if (s->split) {
			s->split[s->n - 1].n++;
			split_inputs(s, i);
		}
	}
}

int weir__compiled_splits(struct weir__compiled *cg,
			  const struct weir__passes *d)
{
	struct splitting s = { .d = d };

	splits_find(&s);
	cg->n_splits = s.n;
	cg->split = weir__compiled_take(cg, s.n, sizeof(*cg->split));
	s.seen = weir__array_alloc((size_t)d->in.n + 1, sizeof(*s.seen));
	if (!cg->split || !s.seen) {
		weir__array_free(s.seen);
		return weir__fail(-ENOMEM, "no memory for %u splits", s.n);
	}
	for (uint32_t i = 0; i < d->in.n; i++)
		s.seen[i] = 0;
	s.split = cg->split;
	splits_find(&s);
	weir__array_free(s.seen);
	return 0;
}
