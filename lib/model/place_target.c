/* SPDX-License-Identifier: MIT */
/*
 * Targets have their places; neighbours in memory that are neighbours in the
 * file too make a run, so that a model whose tensors are stored in the order of
 * the file is read in few large pieces.
 */
#include <errno.h>
#include <stdlib.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/place.h"

struct targets {
	const struct weir_plan *plan;
	struct weir__layout *l;
	const struct weir_buf *buf; /* of the last layout->buf; NULL: none */
	struct weir__run *run;      /* the last, of a target; or NULL */
};

static int no_memory(const struct targets *p, size_t n)
{
	return weir__fail(-ENOMEM, "%s: no memory for a layout of %zu targets",
			  p->plan->model->path, n);
}

static int by_place(const void *a, const void *b, void *arg)
{
	const struct weir__target *t = arg;
	size_t i = *(const size_t *)a, k = *(const size_t *)b;

	if (t[i].buf != t[k].buf)
		return (uintptr_t)t[i].buf < (uintptr_t)t[k].buf ? -1 : 1;
	if (t[i].at != t[k].at)
		return t[i].at < t[k].at ? -1 : 1;
	return i < k ? -1 : i > k;
}

/* The numbers of the targets by buffer and place. NULL: no memory. */
static size_t *sort_targets(const struct weir_plan *plan)
{
	size_t *order = weir__malloc(plan->n_targets * sizeof(*order));
	bool sorted = true;

	if (!order)
		return NULL;
	for (size_t i = 0; i < plan->n_targets; i++) {
		order[i] = i;
		if (i && sorted)
			sorted = by_place(&order[i - 1], &order[i],
					  plan->target) < 0;
	}
	if (!sorted)
		qsort_r(order, plan->n_targets, sizeof(*order), by_place,
			plan->target);
	return order;
}

static int open_buf(struct targets *p, struct weir_buf *buf)
{
	struct weir__layout *l = p->l;
	struct weir__layout_buf *b =
		weir__grow(l->buf, &l->max_bufs, l->n_bufs, sizeof(*l->buf));

	if (!b)
		return no_memory(p, l->n_bufs);
	l->buf = b;
	b[l->n_bufs++] = (struct weir__layout_buf){
		.buft = buf->buft,
		.given = buf,
		.align = 1,
		.first = l->n_order,
	};
	p->buf = buf;
	p->run = NULL;
	return 0;
}

static bool run_joins(const struct targets *p, const struct weir__target *t,
		      const struct weir__spot *spot)
{
	const struct weir__run *run = p->run;

	return run && weir__cut_is_plain(&run->cut) &&
	       weir__cut_is_plain(&t->cut) &&
	       run->shard == p->plan->model->rec[t->record].shard &&
	       run->off + run->len == spot->off &&
	       run->at + run->len == spot->at && run->way == t->way &&
	       run->priority == t->priority;
}

static int add_run(struct targets *p, const struct weir__target *t,
		   struct weir__spot *spot)
{
	struct weir__layout *l = p->l;
	struct weir__run *run =
		weir__grow(l->run, &l->max_runs, l->n_runs, sizeof(*run));

	if (!run)
		return no_memory(p, l->n_runs);
	l->run = run;
	p->run = &run[l->n_runs++];
	*p->run = (struct weir__run){
		.shard = p->plan->model->rec[t->record].shard,
		.buf = spot->buf,
		.off = spot->off,
		.len = weir__cut_span(&t->cut),
		.at = spot->at,
		.first = l->n_order,
		.n = 1,
		.way = t->way,
		.priority = t->priority,
		.cut = t->cut,
	};
	if (!weir__cut_is_plain(&t->cut))
		spot->own_run = (uint32_t)l->n_runs;
	return 0;
}

static int add_target(struct targets *p, size_t number)
{
	const struct weir__target *t = &p->plan->target[number];
	struct weir__layout *l = p->l;
	struct weir__spot *spot = &l->spot[p->plan->n + number];
	struct weir__layout_buf *b;
	int r = t->buf == p->buf ? 0 : open_buf(p, t->buf);

	if (r < 0)
		return r;
	spot->buf = (uint32_t)(l->n_bufs - 1);
	if (!spot->bytes)
		return 0;
	if (run_joins(p, t, spot)) {
		p->run->n++;
		p->run->len += spot->bytes;
	} else {
		r = add_run(p, t, spot);
	}
	if (r < 0)
		return r;
	l->order[l->n_order++] = p->plan->n + number;
	b = &l->buf[spot->buf];
	b->n++;
	if (b->bytes < spot->at + spot->bytes)
		b->bytes = spot->at + spot->bytes;
	return 0;
}

int weir__place_targets(struct weir__layout *l, const struct weir_plan *plan)
{
	struct targets p = { .plan = plan, .l = l };
	size_t *order = sort_targets(plan);
	int r = order ? 0 : no_memory(&p, plan->n_targets);

	for (size_t i = 0; i < plan->n_targets && r >= 0; i++)
		r = add_target(&p, order[i]);
	weir__free(order);
	return r;
}
