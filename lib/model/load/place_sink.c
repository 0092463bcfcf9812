/* SPDX-License-Identifier: MIT */
/*
 * The runs of a sink: neighbours in the file, which have no places in memory.
 */
#include <errno.h>

#include "core/array.h"
#include "core/error.h"
#include "core/util.h"
#include "model/load/place.h"

#define MAX_GAP (64u << 10) /* a gap of this size costs less than a read */

static int no_memory(const struct weir__group *g)
{
	return weir__fail(-ENOMEM, "%s: no memory for a sink of %zu tensors",
			  g->model->path, g->n);
}

static bool run_joins(const struct weir__run *run, uint32_t shard,
		      const struct weir__spot *spot)
{
	uint64_t end = run->off + run->len;

	return run->shard == shard && spot->off >= end &&
	       spot->off - end <= MAX_GAP;
}

static int add_tensor(struct weir__layout *l, const struct weir__group *g,
		      struct weir__layout_sink *sink, size_t number)
{
	const struct weir__spot *spot = &l->spot[number];
	uint32_t shard = g->model->rec[spot->record].shard;
	struct weir__run *run = sink->run;

	if (!sink->n_runs || !run_joins(&run[sink->n_runs - 1], shard, spot)) {
		run = weir__array_grow(run, &sink->max_runs, sink->n_runs,
				       sizeof(*run));
		if (!run)
			return no_memory(g);
		sink->run = run;
		run[sink->n_runs++] = (struct weir__run){
			.shard = shard,
			.off = spot->off,
			.first = l->n_order,
			.way = g->put->way,
			.spot = (uint32_t)number,
		};
	}
	run += sink->n_runs - 1;
	run->len = spot->off + spot->take - run->off;
	run->n++;
	l->order[l->n_order++] = number;
	return 0;
}

int weir__place_sink(struct weir__layout *l, const struct weir__group *g)
{
	struct weir__layout_sink *sink =
		weir__grow(l->sink, &l->max_sinks, l->n_sinks, sizeof(*sink));
	int r = 0;

	if (!sink)
		return no_memory(g);
	l->sink = sink;
	sink += l->n_sinks++;
	*sink = (struct weir__layout_sink){ .call = g->put->sink };
	for (size_t i = 0; i < g->n && r >= 0; i++) {
		struct weir__spot *spot = &l->spot[g->spot[i]];

		spot->buf = WEIR__NO_BUF;
		spot->at = l->n_sinks - 1;
		if (spot->take)
			r = add_tensor(l, g, sink, g->spot[i]);
	}
	return r;
}
