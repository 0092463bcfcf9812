/* SPDX-License-Identifier: MIT */
/*
 * A layout: the group of tensors of each put is placed within its bounds. Puts
 * into buffers of the caller may share memory. Two buffers may be of the same
 * memory, so it is compared by address: the bounds of a put end where those of
 * the next put begin; puts that begin at the same byte are placed one after the
 * other.
 */
#include <errno.h>

#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/load/overlap.h"
#include "model/load/place.h"

static int no_memory(const struct weir_plan *plan, size_t n, size_t size)
{
	return weir__fail(
		-ENOMEM, "%s: no memory for a layout of %zu items of %zu bytes",
		plan->model->path, n, size);
}

/* Numbers of spots by put; those of put i begin at first[i]. */
struct groups {
	const struct weir_plan *plan;
	struct weir__layout *l;
	struct weir__mem_range
		*given; /* of puts that need bytes of the caller */
	size_t n_given;
	size_t *first, *spot; /* n_puts + 2, n: after given[] */
	union {               /* of these, if they are few */
		struct weir__mem_range given;
		size_t words[16];
	} room;
};

static struct weir__group group_of(const struct groups *g, size_t put)
{
	return (struct weir__group){
		.model = g->plan->model,
		.put = &g->plan->put[put],
		.spot = g->spot + g->first[put],
		.n = g->first[put + 1] - g->first[put],
	};
}

static int list_chosen(const struct weir_plan *plan, size_t record,
		       struct weir__spot *spot)
{
	const struct weir__put *put = &plan->put[plan->choice[record] - 1];
	enum weir_dtype dtype;
	struct weir__cut cut;
	int r = weir__put_cut(plan->model, put, record, &cut, &dtype);

	if (r < 0)
		return r;
	*spot = weir__spot_of(plan->model, record, &cut);
	if (put->sink.chunk)
		spot->bytes = 0;
	if (put->way == WEIR_WAY_MAP)
		spot->bytes = weir__cut_span(&cut);
	return 0;
}

/* The spots of what is chosen, in the order of the model, then of targets. */
static int list_spots(const struct weir_plan *plan, struct weir__layout *l)
{
	size_t n_targets = weir__plan_n_targets(plan), n = plan->n + n_targets;
	int r = 0;

	l->spot = n == 1 ? &l->room_spots.entry[0].spot
			 : weir__array_alloc(n, sizeof(l->room_spots.entry[0]));
	if (!l->spot)
		return no_memory(plan, n, sizeof(*l->spot));
	l->order = (size_t *)(l->spot + n);
	for (size_t i = plan->first; l->n < plan->n && r >= 0; i++)
		if (plan->choice[i] &&
		    plan->choice[i] != WEIR__CHOSEN_AS_TARGET)
			r = list_chosen(plan, i, &l->spot[l->n++]);
	for (size_t i = 0; i < n_targets && r >= 0; i++)
		l->spot[l->n++] = plan->targets->item[i].spot;
	return r;
}

static int sort_spots(struct groups *g)
{
	const struct weir_plan *plan = g->plan;
	size_t n_first = plan->n_puts + 2, *next;
	size_t bytes = plan->n_puts * sizeof(*g->given) +
		       (n_first + plan->n) * sizeof(*g->first);

	g->given = bytes <= sizeof(g->room) ? &g->room.given
					    : weir__calloc(1, bytes);
	if (!g->given)
		return no_memory(plan, n_first + plan->n, sizeof(*g->first));
	g->first = (size_t *)(g->given + plan->n_puts);
	g->spot = g->first + n_first;
	/* first[i + 1] grows to the end of put i: the next spot goes there. */
	next = g->first + 1;
	for (unsigned i = 0; i < plan->n_puts; i++)
		next[i + 1] = next[i] + plan->put[i].tensors;
	for (size_t i = 0; i < plan->n; i++) {
		uint32_t put = plan->choice[g->l->spot[i].record] - 1;

		g->spot[next[put]++] = i;
	}
	return 0;
}

static bool has_bytes(const struct groups *g, const struct weir__group *group)
{
	for (size_t i = 0; i < group->n; i++)
		if (g->l->spot[group->spot[i]].bytes)
			return true;
	return false;
}

/* Bytes of the new buffers from number @first on. */
static uint64_t new_bytes(const struct weir__layout *l, size_t first)
{
	uint64_t sum = 0;

	for (size_t i = first; i < l->n_bufs; i++)
		sum += weir__layout_bytes(&l->buf[i]);
	return sum;
}

/*
 * Place a put into new memory, congruent to the file unless that exceeds the
 * capacity of the put.
 */
static int place_in_new(struct weir__layout *l, const struct weir__group *group)
{
	size_t n_order = l->n_order, n_runs = l->n_runs, n_bufs = l->n_bufs;
	struct weir__bounds bounds = { .tight = false };
	uint64_t capacity = group->put->capacity, end;
	int r = weir__place(l, group, &bounds, &end);

	if (r < 0 || !capacity || new_bytes(l, n_bufs) <= capacity)
		return r;
	l->n_order = n_order;
	l->n_runs = n_runs;
	l->n_bufs = n_bufs;
	bounds.tight = true;
	return weir__place(l, group, &bounds, &end);
}

/* Place puts into new memory, mappings and sinks; list the others in given. */
static int place_new(struct groups *g)
{
	int r = 0;

	for (unsigned i = 0; i < g->plan->n_puts && r >= 0; i++) {
		struct weir__group group = group_of(g, i);
		struct weir__put *put = &g->plan->put[i];

		if (!group.n)
			continue;
		if (put->buf && has_bytes(g, &group))
			g->given[g->n_given++] = weir__mem_range_of(
				put->buf, put->offset, put->buf->bytes, i);
		else if (put->sink.chunk)
			r = weir__place_sink(g->l, &group);
		else if (put->way == WEIR_WAY_MAP)
			r = weir__place_mapped(g->l, &group);
		else
			r = place_in_new(g->l, &group);
	}
	return r;
}

/* Place puts [i, j) of the list, which begin at the same byte, before @limit. */
static int place_same_start(struct groups *g, size_t i, size_t j,
			    uint64_t limit, bool tight)
{
	uint64_t from = g->given[i].from.minor, end;
	int r = 0;

	for (; i < j && r >= 0; i++) {
		const struct weir__mem_range *s = &g->given[i];
		struct weir__group group = group_of(g, s->number);
		uint64_t base = (uintptr_t)group.put->buf->mem.base;
		struct weir__bounds bounds = {
			.from = from - base,
			.to = (s->end < limit ? s->end : limit) - base,
			.tight = tight,
		};

		r = weir__place(g->l, &group, &bounds, &end);
		from = base + end;
	}
	return r;
}

static int place_given(struct groups *g)
{
	struct weir__layout *l = g->l;
	int r = 0;

	if (weir__sort(g->given, g->n_given, sizeof(*g->given)) < 0)
		return no_memory(g->plan, g->n_given, sizeof(*g->given));
	for (size_t i = 0, j; i < g->n_given && r >= 0; i = j) {
		size_t n_order = l->n_order, n_runs = l->n_runs;
		size_t n_bufs = l->n_bufs;
		const struct weir__mem_range *s = &g->given[i], *next;
		struct weir__error_saved saved;
		uint64_t limit;

		for (j = i + 1; j < g->n_given; j++)
			if (g->given[j].from.major != s->from.major ||
			    g->given[j].from.minor != s->from.minor)
				break;
		next = &g->given[j];
		limit = j < g->n_given && next->from.major == s->from.major
				? next->from.minor
				: UINT64_MAX;
		weir__error_save(&saved);
		r = place_same_start(g, i, j, limit, false);
		if (r != -ENOSPC)
			continue;
		weir__error_restore(&saved);
		/* It may fit if its places need not be congruent to the file's. */
		l->n_order = n_order;
		l->n_runs = n_runs;
		l->n_bufs = n_bufs;
		r = place_same_start(g, i, j, limit, true);
	}
	return r;
}

static int place_all(const struct weir_plan *plan, struct weir__layout *l)
{
	struct groups g = { .plan = plan, .l = l };
	int r = sort_spots(&g);

	if (r >= 0)
		r = place_new(&g);
	if (r >= 0)
		r = place_given(&g);
	l->n_put_bufs = l->n_bufs;
	if (r >= 0 && weir__plan_n_targets(plan))
		r = weir__place_targets(l, plan);
	if (g.given != &g.room.given)
		weir__free(g.given);
	return r;
}

static int layout_fill(const struct weir_plan *plan, struct weir__layout *l)
{
	int r = list_spots(plan, l);

	if (r >= 0)
		r = place_all(plan, l);
	if (r >= 0)
		r = weir__layout_check(plan->model, l);
	if (r >= 0)
		r = weir__layout_sort_runs(plan->model, l);
	return r;
}

void weir__layout_put(struct weir__layout *l)
{
	if (!l || !weir__refs_drop(&l->refs))
		return;
	weir__array_free(l->spot);
	weir__array_free(l->run);
	weir__array_free(l->buf);
	weir__free(l->cut);
	for (size_t i = 0; i < l->n_sinks; i++)
		weir__array_free(l->sink[i].run);
	weir__free(l->sink);
	weir__load_arrays_free(atomic_load(&l->spare));
	weir__free(l);
}

/* Is it the same in each load? New memory and mappings have other addresses. */
static bool is_constant(const struct weir__layout *l)
{
	for (size_t i = 0; i < l->n_bufs; i++)
		if (!l->buf[i].given)
			return false;
	return true;
}

/* Several threads may use the plan: one of them keeps its layout. */
static void layout_keep(struct weir_plan *plan, struct weir__layout *l)
{
	struct weir__layout *none = NULL;

	/* No other thread has it yet. */
	atomic_init(&l->refs, 2);
	atomic_init(&l->kept, true);
	if (atomic_compare_exchange_strong(&plan->layout, &none, l))
		return;
	atomic_init(&l->refs, 1);
	atomic_init(&l->kept, false);
}

int weir__layout_get(struct weir_plan *plan, struct weir__layout **ret_layout)
{
	struct weir__layout *l = atomic_load(&plan->layout);
	int r;

	*ret_layout = l;
	if (l) {
		weir__refs_add(&l->refs, 1);
		return 0;
	}
	l = weir__calloc(1, sizeof(*l));
	if (!l)
		return no_memory(plan, 1, sizeof(*l));
	atomic_init(&l->refs, 1);
	l->run = l->room_run.entry;
	l->max_runs = 1;
	l->buf = l->room_buf.entry;
	l->max_bufs = 1;
	r = layout_fill(plan, l);
	if (r < 0) {
		weir__layout_put(l);
		return r;
	}
	if (is_constant(l))
		layout_keep(plan, l);
	*ret_layout = l;
	return 0;
}

void weir__plan_changed(struct weir_plan *plan)
{
	struct weir__layout *l = atomic_load(&plan->layout);

	if (!l)
		return;
	atomic_store_explicit(&plan->layout, NULL, memory_order_relaxed);
	/* Weights may have it for longer. */
	if (atomic_load(&l->refs) > 1) {
		atomic_store(&l->kept, false);
		weir__load_arrays_free(atomic_exchange(&l->spare, NULL));
	}
	weir__layout_put(l);
}

static uint64_t lead_of(const struct weir__layout *l,
			const struct weir__spot *spot)
{
	return spot->buf == WEIR__NO_BUF ? 0 : l->buf[spot->buf].lead;
}

struct weir__spot weir__spot_of(const struct weir_model *model, size_t record,
				const struct weir__cut *cut)
{
	return (struct weir__spot){
		.record = record,
		.off = model->rec[record].off + cut->off,
		.bytes = weir__cut_mem(cut),
		.take = weir__cut_take(cut),
	};
}

int weir__layout_keep_cut(struct weir__layout *l, const struct weir__cut *cut,
			  uint32_t *ret_number)
{
	struct weir__cut *more;

	*ret_number = 0;
	if (weir__cut_is_plain(cut))
		return 0;
	more = weir__grow(l->cut, &l->max_cuts, l->n_cuts, sizeof(*more));
	if (!more)
		return -ENOMEM;
	l->cut = more;
	more[l->n_cuts++] = *cut;
	*ret_number = (uint32_t)l->n_cuts;
	return 0;
}

void weir__layout_lead(struct weir__layout *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->spot[i].at += lead_of(l, &l->spot[i]);
	for (size_t i = 0; i < l->n_runs; i++)
		l->run[i].at += l->buf[l->run[i].buf].lead;
}

static bool same_cut(const struct weir__cut *a, const struct weir__cut *b)
{
	if (!a || !b)
		return a == b;
	return a->rows == b->rows && a->width == b->width &&
	       a->file_pitch == b->file_pitch && a->mem_pitch == b->mem_pitch &&
	       a->convert == b->convert;
}

static bool same_spot(const struct weir__layout *a,
		      const struct weir__layout *b, size_t i)
{
	const struct weir__spot *x = &a->spot[i], *y = &b->spot[i];

	return x->record == y->record && x->buf == y->buf &&
	       x->at + lead_of(b, y) == y->at && x->off == y->off &&
	       x->bytes == y->bytes &&
	       same_cut(weir__layout_cut(a, x->cut),
			weir__layout_cut(b, y->cut));
}

int weir__layout_same(const struct weir__layout *a,
		      const struct weir__layout *b)
{
	if (a == b)
		return 0;
	if (a->n != b->n || a->n_bufs != b->n_bufs)
		return weir__fail(
			-EINVAL,
			"the weights have %zu tensors in %zu buffers, the plan has %zu in %zu",
			b->n, b->n_bufs, a->n, a->n_bufs);
	for (size_t i = 0; i < a->n_bufs; i++)
		if (a->buf[i].buft != b->buf[i].buft ||
		    a->buf[i].bytes != b->buf[i].bytes)
			return weir__fail(
				-EINVAL,
				"buffer %zu of the weights has %llu bytes of %s, the plan needs %llu of %s",
				i, (unsigned long long)b->buf[i].bytes,
				b->buf[i].buft->desc.name,
				(unsigned long long)a->buf[i].bytes,
				a->buf[i].buft->desc.name);
	for (size_t i = 0; i < a->n_bufs; i++)
		if (a->buf[i].given != b->buf[i].given)
			return weir__fail(
				-EINVAL,
				"buffer %zu of the weights is not the buffer of the plan",
				i);
	for (size_t i = 0; i < a->n; i++)
		if (!same_spot(a, b, i))
			return weir__fail(
				-EINVAL,
				"tensor %zu has another place or form in the weights than in the plan",
				i);
	return 0;
}
