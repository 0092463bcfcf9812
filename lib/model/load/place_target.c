/* SPDX-License-Identifier: MIT */
/*
 * Targets have their places. Neighbours in memory that are neighbours in the
 * file too make a run, so that a model that is placed in the order of the file
 * is read by few large reads.
 */
#include <errno.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/load/overlap.h"
#include "model/load/place.h"

/*
 * Targets of one buffer that are farther apart are in two of the layout's buffers:
 * fresh memory of one is prefaulted from its beginning to its end.
 */
#define APART (2u << 20)

struct targets {
	const struct weir_plan *plan;
	struct weir__layout *l;
	const struct weir_buf *buf; /* of the last layout->buf; NULL: none */
	uint64_t at;                /* of the last tensor in it */
	struct weir__run *run;      /* the last, of a target; or NULL */
};

static int no_memory(const struct targets *p, size_t n)
{
	return weir__fail(-ENOMEM, "%s: no memory for a layout of %zu targets",
			  p->plan->model->path, n);
}

/* The sort key of a target. Targets are large, so keys are sorted instead. */
struct place {
	struct weir__sort_key address; /* in its address space */
	size_t number;                 /* of the target */
};

/* The targets by address. NULL: no memory. */
static struct place *sort_targets(const struct weir_plan *plan)
{
	size_t n = plan->targets->n;
	struct place *place = weir__malloc(n * sizeof(*place));

	if (!place)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const struct weir__target *t = &plan->targets->item[i];

		place[i].address.major = weir__mem_space(t->buft);
		place[i].address.minor = (uintptr_t)t->base + t->spot.at;
		place[i].number = i;
	}
	if (weir__sort(place, n, sizeof(*place)) == 0)
		return place;
	weir__free(place);
	return NULL;
}

/* The layout has room for a buffer and a run for each target. */
static void open_buf(struct targets *p, const struct weir__target *t)
{
	struct weir__layout *l = p->l;

	l->buf[l->n_bufs++] = (struct weir__layout_buf){
		.buft = t->buft,
		.given = t->buf,
		.base = t->base,
		.room = t->room,
		.foreign = t->foreign,
		.align = 1,
		.first = l->n_order,
	};
	p->buf = t->buf;
	p->run = NULL;
}

static bool run_joins(const struct targets *p, const struct weir__target *t,
		      const struct weir__spot *spot)
{
	const struct weir__run *run = p->run;

	return run && !run->cut && weir__cut_is_plain(&t->cut) &&
	       run->shard == t->shard && run->off + run->len == spot->off &&
	       run->at + run->len == spot->at && run->way == t->way &&
	       run->priority == t->priority;
}

static void add_run(struct targets *p, const struct weir__target *t,
		    struct weir__spot *spot)
{
	struct weir__layout *l = p->l;

	p->run = &l->run[l->n_runs++];
	*p->run = (struct weir__run){
		.shard = t->shard,
		.buf = spot->buf,
		.off = spot->off,
		.len = weir__cut_span(&t->cut),
		.at = spot->at,
		.first = l->n_order,
		.n = 1,
		.way = t->way,
		.priority = t->priority,
		.spot = (uint32_t)(t - p->plan->targets->item + p->plan->n),
		.cut = spot->cut,
	};
}

/* Does @t continue the newest of the layout's buffers? */
static bool target_continues(const struct targets *p,
			     const struct weir__target *t)
{
	const struct weir__layout_buf *b = &p->l->buf[p->l->n_bufs - 1];

	return p->buf && t->buf == p->buf && t->spot.at >= p->at &&
	       (!b->n || t->spot.at <= b->bytes + APART);
}

static int add_target(struct targets *p, size_t number)
{
	const struct weir__target *t = &p->plan->targets->item[number];
	struct weir__layout *l = p->l;
	struct weir__spot *spot = &l->spot[p->plan->n + number];
	struct weir__layout_buf *b;

	if (!target_continues(p, t))
		open_buf(p, t);
	p->at = t->spot.at;
	spot->buf = (uint32_t)(l->n_bufs - 1);
	if (!spot->bytes)
		return 0;
	if (weir__layout_keep_cut(l, &t->cut, &spot->cut) < 0)
		return no_memory(p, l->n_cuts);
	if (run_joins(p, t, spot)) {
		p->run->n++;
		p->run->len += spot->bytes;
	} else {
		add_run(p, t, spot);
	}
	l->order[l->n_order++] = p->plan->n + number;
	b = &l->buf[spot->buf];
	b->n++;
	if (b->bytes < spot->at + spot->bytes)
		b->bytes = spot->at + spot->bytes;
	return 0;
}

static int make_room(struct targets *p)
{
	size_t n = p->plan->targets->n;
	struct weir__layout *l = p->l;
	struct weir__run *run = weir__array_grow(
		l->run, &l->max_runs, l->n_runs + n - 1, sizeof(*run));
	struct weir__layout_buf *buf = weir__array_grow(
		l->buf, &l->max_bufs, l->n_bufs + n - 1, sizeof(*buf));

	if (run)
		l->run = run;
	if (buf)
		l->buf = buf;
	return run && buf ? 0 : no_memory(p, n);
}

int weir__place_targets(struct weir__layout *l, const struct weir_plan *plan)
{
	struct targets p = { .plan = plan, .l = l };
	size_t n = plan->targets->n;
	struct place *place = sort_targets(plan);
	int r = place ? make_room(&p) : no_memory(&p, n);

	for (size_t i = 0; i < n && r >= 0; i++)
		r = add_target(&p, place[i].number);
	weir__free(place);
	return r;
}
