/* SPDX-License-Identifier: MIT */
/* The check that no two tensors of a layout share a byte. */
#include "model/load/overlap.h"

#include <errno.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/load/plan.h"

#define FEW 8u /* tensors, for which nothing is allocated */

static struct weir__mem_range range_of(uint64_t space, uint64_t begin,
				       uint64_t bytes, size_t number)
{
	return (struct weir__mem_range){ { space, begin },
					 begin + bytes,
					 number };
}

uint64_t weir__mem_space(const struct weir_buft *buft)
{
	const struct weir_dev *dev = buft->dev;

	if (buft->desc.flags & WEIR_BUFT_HOST)
		return 0;
	return dev->backend->mem->reach ? (uintptr_t)dev->backend
					: (uintptr_t)dev;
}

struct weir__mem_range weir__mem_range_of(const struct weir_buf *buf,
					  uint64_t from, uint64_t to,
					  size_t number)
{
	return range_of(weir__mem_space(buf->buft),
			(uintptr_t)buf->mem.base + from, to - from, number);
}

/* The tensors of a layout in memory of the caller, sorted. */
struct places {
	const struct weir_model *m;
	struct weir__layout *l;
	struct weir__mem_range *range; /* their numbers are those of spots */
	size_t n;
};

static int no_memory(const struct places *p)
{
	return weir__fail(-ENOMEM,
			  "%s: no memory to compare %zu places of %zu bytes",
			  p->m->path, p->l->n_order, sizeof(*p->range));
}

static int fail_overlap(const struct places *p, size_t a, size_t b)
{
	const struct weir__record *x = &p->m->rec[p->l->spot[a].record];
	const struct weir__record *y = &p->m->rec[p->l->spot[b].record];

	return weir__fail(-EINVAL, "tensors '%s' and '%s' would overlap",
			  weir__quote(p->m->text + x->name, x->name_len),
			  weir__quote(p->m->text + y->name, y->name_len));
}

static int check_end(const struct places *p, const struct weir__spot *s)
{
	const struct weir__layout_buf *b = &p->l->buf[s->buf];
	uint64_t bytes = b->given ? b->room : b->bytes;

	if (s->bytes <= bytes && s->at <= bytes - s->bytes)
		return 0;
	return weir__fail(
		-EINVAL, "tensors would reach to byte %llu of a buffer of %llu",
		(unsigned long long)(s->at + s->bytes),
		(unsigned long long)bytes);
}

/* The rows of a tensor in memory. */
struct row_form {
	uint64_t begin, width, pitch;
};

static struct row_form rows_of(const struct places *p,
			       const struct weir__mem_range *range)
{
	const struct weir__cut *cut =
		weir__layout_cut(p->l, p->l->spot[range->number].cut);

	if (!cut || cut->rows <= 1)
		return (struct row_form){ range->from.minor,
					  range->end - range->from.minor, 0 };
	return (struct row_form){ range->from.minor, cut->mem_width,
				  cut->mem_pitch };
}

/*
 * Two ranges that overlap may have rows in each other's gaps: the columns of
 * one view beside those of another, at the same distances.
 */
static bool rows_are_apart(const struct places *p,
			   const struct weir__mem_range *a,
			   const struct weir__mem_range *b)
{
	struct row_form x = rows_of(p, a), y = rows_of(p, b);
	uint64_t shift;

	if (!x.pitch)
		return false;
	shift = (y.begin - x.begin) % x.pitch;
	if (y.pitch && y.pitch != x.pitch)
		return false;
	return shift >= x.width && y.width <= x.pitch - shift;
}

/* Of two ranges in their order: does @a end before @b begins? */
static bool is_before(const struct weir__mem_range *a,
		      const struct weir__mem_range *b)
{
	return a->from.major != b->from.major || a->end <= b->from.minor;
}

/*
 * Compare a range with all earlier ones that end after it begins: those are the
 * ranges from *@first on, which moves forward.
 */
static int check_range(struct places *p, size_t i, size_t *first)
{
	const struct weir__mem_range *range = p->range;
	uint64_t bytes;

	while (*first < i && is_before(&range[*first], &range[i]))
		++*first;
	for (size_t k = *first; k < i; k++) {
		if (is_before(&range[k], &range[i]))
			continue;
		if (!rows_are_apart(p, &range[k], &range[i]))
			return fail_overlap(p, range[k].number,
					    range[i].number);
		bytes = range[k].end - range[k].from.minor;
		if (p->l->interleaved < bytes)
			p->l->interleaved = bytes;
	}
	return 0;
}

/* New memory is not shared: its buffers are numbered as spaces of their own. */
static struct weir__mem_range range_of_spot(const struct places *p, size_t i)
{
	const struct weir__spot *s = &p->l->spot[i];
	const struct weir__layout_buf *b = &p->l->buf[s->buf];

	if (b->given)
		return range_of(weir__mem_space(b->buft),
				(uintptr_t)b->base + s->at, s->bytes, i);
	return range_of((uintptr_t)b, s->at, s->bytes, i);
}

int weir__layout_check(const struct weir_model *m, struct weir__layout *l)
{
	struct weir__mem_range few[FEW];
	struct places p = { .m = m, .l = l, .range = few };
	size_t first = 0;
	int r = 0;

	if (l->n_order > FEW)
		p.range = weir__malloc(l->n_order * sizeof(*p.range));
	if (!p.range)
		return no_memory(&p);
	/* By buffer and place: often they are in the right order already. */
	for (size_t i = 0; i < l->n_order && r >= 0; i++) {
		const struct weir__spot *s = &l->spot[l->order[i]];

		if (s->buf == WEIR__NO_BUF ||
		    l->buf[s->buf].buft->desc.kind == WEIR_MEM_MAPPED)
			continue;
		r = check_end(&p, s);
		p.range[p.n++] = range_of_spot(&p, l->order[i]);
	}
	if (r >= 0 && weir__sort(p.range, p.n, sizeof(*p.range)) < 0)
		r = no_memory(&p);
	for (size_t i = 1; i < p.n && r >= 0; i++)
		r = check_range(&p, i, &first);
	if (p.range != few)
		weir__free(p.range);
	return r;
}
