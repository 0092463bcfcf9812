/* SPDX-License-Identifier: MIT */
/*
 * A layout: the group of tensors of each put is placed within its bounds. Puts
 * into buffers of the caller may share memory. Two buffers may be of the same
 * memory, so it is compared by address: the bounds of a put end where those of
 * the next put begin; puts that begin at the same byte are placed one after the
 * other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "model/place.h"

/* Memory of the caller that a put, or the tensors of a buffer, may use. */
struct mem_range {
	const void *space; /* of its addresses; NULL: the host's */
	uint64_t begin, end;
	size_t number; /* of the put, or of the buffer in the layout */
};

static int no_memory(const struct weir_plan *plan, size_t n, size_t size)
{
	return weir__fail(
		-ENOMEM, "%s: no memory for a layout of %zu items of %zu bytes",
		plan->model->path, n, size);
}

/* Devices of a backend that can access each other have one address space. */
static const void *space_of(const struct weir_buf *buf)
{
	const struct weir_dev *dev = buf->buft->dev;

	if (weir__buf_is_host(buf))
		return NULL;
	return dev->backend->mem->reach ? (const void *)dev->backend
					: (const void *)dev;
}

static struct mem_range mem_range_of(const struct weir_buf *buf, uint64_t from,
				     uint64_t to, size_t number)
{
	uint64_t base = (uintptr_t)buf->mem.base;

	return (struct mem_range){ space_of(buf), base + from, base + to,
				   number };
}

static int by_address(const void *a, const void *b)
{
	const struct mem_range *x = a, *y = b;

	if (x->space != y->space)
		return (uintptr_t)x->space < (uintptr_t)y->space ? -1 : 1;
	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* Numbers of spots by put; those of put i begin at first[i]. */
struct groups {
	const struct weir_plan *plan;
	struct weir__layout *l;
	struct mem_range *given; /* of puts that need bytes of the caller */
	size_t n_given;
	size_t *first, *spot; /* n_puts + 2, n: after given[] */
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

static int list_spots(const struct weir_plan *plan, struct weir__layout *l)
{
	l->spot = weir__calloc(plan->n, sizeof(*l->spot) + sizeof(*l->order));
	if (!l->spot)
		return no_memory(plan, plan->n, sizeof(*l->spot));
	l->order = (size_t *)(l->spot + plan->n);
	for (size_t i = plan->first; l->n < plan->n; i++)
		if (plan->choice[i])
			l->spot[l->n++].record = i;
	return 0;
}

static int sort_spots(struct groups *g)
{
	const struct weir_plan *plan = g->plan;
	size_t n_first = plan->n_puts + 2, *next;

	g->given = weir__calloc(1, plan->n_puts * sizeof(*g->given) +
					   (n_first + plan->n) *
						   sizeof(*g->first));
	if (!g->given)
		return no_memory(plan, n_first + plan->n, sizeof(*g->first));
	g->first = (size_t *)(g->given + plan->n_puts);
	g->spot = g->first + n_first;
	/* first[i + 1] grows to the end of put i: the next spot goes there. */
	next = g->first + 1;
	for (unsigned i = 0; i < plan->n_puts; i++)
		next[i + 1] = next[i] + plan->put[i].tensors;
	for (size_t i = 0; i < g->l->n; i++) {
		uint32_t put = plan->choice[g->l->spot[i].record] - 1;

		g->spot[next[put]++] = i;
	}
	return 0;
}

static bool has_bytes(const struct groups *g, const struct weir__group *group)
{
	for (size_t i = 0; i < group->n; i++)
		if (g->plan->model->rec[g->l->spot[group->spot[i]].record]
			    .bytes)
			return true;
	return false;
}

/* Place puts into new memory and mappings; list the others in given. */
static int place_new(struct groups *g)
{
	int r = 0;

	for (unsigned i = 0; i < g->plan->n_puts && r >= 0; i++) {
		struct weir__group group = group_of(g, i);
		struct weir__put *put = &g->plan->put[i];
		struct weir__bounds bounds = { .from = put->offset };
		uint64_t end;

		if (!group.n)
			continue;
		if (put->buf && has_bytes(g, &group))
			g->given[g->n_given++] = mem_range_of(
				put->buf, put->offset, put->buf->bytes, i);
		else if (put->way == WEIR_WAY_MAP)
			r = weir__place_mapped(g->l, &group);
		else
			r = weir__place(g->l, &group, &bounds, &end);
	}
	return r;
}

/* Place puts [i, j) of the list, which begin at the same byte, before @limit. */
static int place_same_start(struct groups *g, size_t i, size_t j,
			    uint64_t limit, bool tight)
{
	uint64_t from = g->given[i].begin, end;
	int r = 0;

	for (; i < j && r >= 0; i++) {
		const struct mem_range *s = &g->given[i];
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

	if (g->n_given > 1)
		qsort(g->given, g->n_given, sizeof(*g->given), by_address);
	for (size_t i = 0, j; i < g->n_given && r >= 0; i = j) {
		size_t n_order = l->n_order, n_runs = l->n_runs;
		size_t n_bufs = l->n_bufs;
		const struct mem_range *s = &g->given[i], *next;
		uint64_t limit;

		for (j = i + 1; j < g->n_given; j++)
			if (g->given[j].space != s->space ||
			    g->given[j].begin != s->begin)
				break;
		next = &g->given[j];
		limit = j < g->n_given && next->space == s->space ? next->begin
								  : UINT64_MAX;
		r = place_same_start(g, i, j, limit, false);
		if (r != -ENOSPC)
			continue;
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
	weir__free(g.given);
	return r;
}

static int fail_overlap(const struct weir_model *m,
			const struct weir__layout *l, size_t a, size_t b)
{
	const struct weir__record *x = &m->rec[l->spot[a].record];
	const struct weir__record *y = &m->rec[l->spot[b].record];

	return weir__fail(-EINVAL, "tensors '%s' and '%s' would overlap",
			  weir__quote(m->text + x->name, x->name_len),
			  weir__quote(m->text + y->name, y->name_len));
}

/* The tensors of a buffer are in the order of their places. */
static int check_buf(const struct weir_model *m, const struct weir__layout *l,
		     const struct weir__layout_buf *b)
{
	uint64_t end = 0;

	for (size_t i = b->first; i < b->first + b->n; i++) {
		const struct weir__spot *s = &l->spot[l->order[i]];

		if (s->at < end)
			return fail_overlap(m, l, l->order[i - 1], l->order[i]);
		end = s->at + m->rec[s->record].bytes;
	}
	if (end <= b->bytes && (!b->given || end <= b->given->bytes))
		return 0;
	return weir__fail(
		-EINVAL, "tensors would reach to byte %llu of a buffer of %llu",
		(unsigned long long)end,
		(unsigned long long)(b->given ? b->given->bytes : b->bytes));
}

/* Two buffers may be of the same memory. */
static int check_apart(const struct weir_model *m, const struct weir__layout *l)
{
	struct mem_range *range;
	size_t n = 0;
	int r = 0;

	if (l->n_bufs < 2)
		return 0;
	range = weir__calloc(l->n_bufs, sizeof(*range));
	if (!range)
		return weir__fail(
			-ENOMEM,
			"%s: no memory to compare %zu places of %zu bytes",
			m->path, l->n_bufs, sizeof(*range));
	for (size_t i = 0; i < l->n_bufs; i++) {
		const struct weir__layout_buf *b = &l->buf[i];

		if (b->given && b->n)
			range[n++] = mem_range_of(
				b->given, l->spot[l->order[b->first]].at,
				b->bytes, i);
	}
	qsort(range, n, sizeof(*range), by_address);
	for (size_t i = 1; i < n && r >= 0; i++) {
		const struct weir__layout_buf *b = &l->buf[range[i - 1].number];

		if (range[i].space == range[i - 1].space &&
		    range[i].begin < range[i - 1].end)
			r = fail_overlap(
				m, l, l->order[b->first + b->n - 1],
				l->order[l->buf[range[i].number].first]);
	}
	weir__free(range);
	return r;
}

int weir__layout_check(const struct weir_model *m, const struct weir__layout *l)
{
	int r = 0;

	for (size_t i = 0; i < l->n_bufs && r >= 0; i++)
		r = check_buf(m, l, &l->buf[i]);
	return r < 0 ? r : check_apart(m, l);
}

int weir__layout_make(const struct weir_plan *plan, struct weir__layout *l)
{
	int r;

	memset(l, 0, sizeof(*l));
	r = list_spots(plan, l);
	if (r >= 0)
		r = place_all(plan, l);
	if (r >= 0)
		r = weir__layout_check(plan->model, l);
	if (r < 0)
		weir__layout_free(l);
	return r;
}

void weir__layout_lead(struct weir__layout *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->spot[i].at += l->buf[l->spot[i].buf].lead;
	for (size_t i = 0; i < l->n_runs; i++)
		l->run[i].at += l->buf[l->run[i].buf].lead;
}

void weir__layout_free(struct weir__layout *l)
{
	weir__free(l->spot);
	weir__free(l->run);
	weir__free(l->buf);
	l->spot = NULL;
	l->order = NULL;
	l->run = NULL;
	l->buf = NULL;
}

int weir__layout_same(const struct weir__layout *a,
		      const struct weir__layout *b)
{
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
				"buffer %zu of the weights has %llu bytes, the plan needs %llu",
				i, (unsigned long long)b->buf[i].bytes,
				(unsigned long long)a->buf[i].bytes);
	for (size_t i = 0; i < a->n_bufs; i++)
		if (a->buf[i].given != b->buf[i].given)
			return weir__fail(
				-EINVAL,
				"buffer %zu of the weights is not the buffer of the plan",
				i);
	for (size_t i = 0; i < a->n; i++)
		if (a->spot[i].record != b->spot[i].record ||
		    a->spot[i].buf != b->spot[i].buf ||
		    a->spot[i].at + b->buf[b->spot[i].buf].lead !=
			    b->spot[i].at)
			return weir__fail(
				-EINVAL,
				"tensor %zu has another place in the weights than in the plan",
				i);
	return 0;
}
