/* SPDX-License-Identifier: MIT */
/*
 * The placements and spans of a plan.
 *
 * The tensors of a selection are placed in the order of the file. Neighbours
 * make a span, which is shifted as a whole so that each of its tensors is
 * aligned. Where no shift aligns them all, or the gap before a tensor is large,
 * a new span begins. The address of a span is congruent to its shifted file
 * offset modulo a page, so that direct reads go to the final memory. If the
 * places are tight, the address is the next aligned one: in this order that
 * takes the fewest bytes.
 *
 * Selections may place tensors in the same memory of the program, and two
 * buffers may be of the same memory, so addresses are compared: the bytes of a
 * selection end where those of the next one begin, and selections that begin at
 * the same byte are placed one after the other.
 *
 * Targets have their places. Neighbours in memory that are neighbours in the
 * file too make a span, so that a model that the program has placed in the
 * order of the file is read by few large reads.
 */
#include <errno.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sort.h"
#include "core/sys.h"
#include "core/util.h"
#include "model/load/layout.h"

/* Reading over a gap of this size costs less than a read of its own. */
#define MAX_GAP (64u << 10)
/*
 * Targets of one buffer that are farther apart are in two of the layout's
 * buffers: fresh memory of one is prefaulted from its beginning to its end.
 */
#define APART (2u << 20)

static int no_memory(const struct weir_plan *plan, size_t n, size_t size)
{
	return weir__fail(
		-ENOMEM, "%s: no memory for a layout of %zu items of %zu bytes",
		plan->model->path, n, size);
}

/* The bytes of sel->buf that may be used. New buffers have no bounds. */
struct bounds {
	uint64_t from, to;
	bool tight; /* places need not be congruent to the file's */
};

struct placer {
	const struct weir__selected *s;
	struct weir__layout *l;
	bool tight;
	uint64_t base;               /* address of byte 0 of the buffer */
	uint64_t end;                /* first free byte of the buffer */
	uint64_t to;                 /* end of the bounds */
	uint64_t modulus, shift;     /* shift of the span: off + shift is
					aligned */
	struct weir__load_span span; /* open if n > 0 */
};

static const struct weir__record *
record_of(const struct placer *p, const struct weir__tensor_placement *place)
{
	return &p->s->plan->model->rec[place->record];
}

static bool is_plain(const struct weir__tensor_placement *place)
{
	return place->slice == WEIR__NO_SLICE;
}

static const struct weir__tensor_placement *
first_of_span(const struct placer *p)
{
	return &p->l->placement[p->l->order[p->span.first]];
}

/* Return the bytes of the open span in memory. */
static uint64_t span_bytes(const struct placer *p)
{
	const struct weir__tensor_placement *first = first_of_span(p);

	return is_plain(first) ? p->span.len : first->bytes;
}

static struct weir__layout_buf *current_buf(const struct placer *p)
{
	return &p->l->buf[p->l->n_bufs - 1];
}

/*
 * A new buffer begins at a multiple of its align: weights.c moves the tensors.
 */
static int open_buf(struct placer *p)
{
	const struct weir__selection *sel = p->s->sel;
	struct weir__layout *l = p->l;
	struct weir__layout_buf *buf = weir__array_grow(
		l->buf, &l->max_bufs, l->n_bufs, sizeof(*l->buf));

	if (!buf)
		return no_memory(p->s->plan, l->n_bufs, sizeof(*buf));
	l->buf = buf;
	buf[l->n_bufs++] = (struct weir__layout_buf){
		.buft = sel->buft,
		.given = sel->buf,
		.base = sel->buf ? sel->buf->mem.base : NULL,
		.room = sel->buf ? sel->buf->bytes : 0,
		.foreign = sel->buf && sel->buf->foreign,
		.flags = sel->buf_flags,
		.align = 1,
		.first = l->n_order,
	};
	p->base = sel->buf ? (uintptr_t)sel->buf->mem.base : 0;
	p->end = 0;
	return 0;
}

/* True if a span of @len bytes fits, whatever padding it needs. */
static bool span_fits(const struct placer *p, uint64_t len, uint64_t align)
{
	uint64_t slack = p->tight ? align : WEIR__PAGE;
	uint64_t left = p->to > p->end ? p->to - p->end : 0;

	return left >= slack && len <= left - slack;
}

/*
 * Return the first place for the open span that is congruent to the file modulo
 * @unit.
 */
static uint64_t span_place(const struct placer *p, uint64_t unit)
{
	uint64_t want = (p->span.off + p->shift) & (unit - 1);
	uint64_t have = (p->base + p->end) & (unit - 1);

	return p->end + ((want - have) & (unit - 1));
}

static bool span_exceeds(const struct placer *p, uint64_t at)
{
	return at > p->to || span_bytes(p) > p->to - at;
}

static int too_large(const struct placer *p)
{
	const struct weir__selection *sel = p->s->sel;
	const struct weir__record *rec = record_of(p, first_of_span(p));
	const char *name =
		weir__quote(p->s->plan->model->text + rec->name, rec->name_len);
	unsigned long long len = span_bytes(p), at = p->end, to = p->to;

	if (!sel->buf)
		return weir__fail(
			-ENOMEM,
			"tensor '%s': %llu bytes are more than a buffer of %s can have (%llu)",
			name, len, sel->buft->desc.name, to);
	if (p->to < sel->buf->bytes)
		return weir__fail(
			-ENOSPC,
			"tensor '%s': %llu bytes at %llu do not fit before byte %llu, where another selection begins in a buffer of %zu",
			name, len, at, to, sel->buf->bytes);
	return weir__fail(
		-ENOSPC,
		"tensor '%s': %llu bytes at %llu do not fit a buffer of %zu",
		name, len, at, sel->buf->bytes);
}

static int choose_place(const struct placer *p, uint64_t *ret_at)
{
	bool congruent = !p->tight && p->modulus <= WEIR__PAGE &&
			 weir__span_is_plain(&p->span);

	*ret_at = span_place(p, congruent ? WEIR__PAGE : p->modulus);
	if (span_exceeds(p, *ret_at))
		*ret_at = span_place(p, p->modulus);
	return span_exceeds(p, *ret_at) ? too_large(p) : 0;
}

/* Set the place of a complete span, and those of its tensors. */
static int close_span(struct placer *p)
{
	struct weir__layout *l = p->l;
	struct weir__load_span *span;
	uint64_t at;
	int r;

	if (!p->span.n)
		return 0;
	r = choose_place(p, &at);
	if (r < 0)
		return r;
	span = weir__array_grow(l->span, &l->max_spans, l->n_spans,
				sizeof(*span));
	if (!span)
		return no_memory(p->s->plan, l->n_spans, sizeof(*span));
	l->span = span;
	p->end = at + span_bytes(p);
	p->span.at = at;
	p->span.buf = (uint32_t)(l->n_bufs - 1);
	p->span.placement = (uint32_t)l->order[p->span.first];
	for (size_t i = p->span.first; i < p->span.first + p->span.n; i++) {
		struct weir__tensor_placement *place =
			&l->placement[l->order[i]];

		place->buf = p->span.buf;
		place->at = at + place->off - p->span.off;
	}
	span[l->n_spans++] = p->span;
	current_buf(p)->bytes = p->end;
	current_buf(p)->n = l->n_order - current_buf(p)->first;
	if (current_buf(p)->align < p->modulus)
		current_buf(p)->align = p->modulus;
	p->span.n = 0;
	return 0;
}

/* True if one shift aligns the tensors of the open span and one at @off. */
static bool shift_serves(struct placer *p, uint64_t off, uint64_t align)
{
	uint64_t shift = -off & (align - 1);

	if (align <= p->modulus)
		return ((off + p->shift) & (align - 1)) == 0;
	if ((shift & (p->modulus - 1)) != (p->shift & (p->modulus - 1)))
		return false;
	p->modulus = align;
	p->shift = shift;
	return true;
}

/*
 * Return the largest gap in the file that a span may contain. In memory the gap
 * is wasted. So there is none under a capacity, nor in the program's buffers,
 * whose other bytes may be in use, nor between slices, where the gaps are most
 * of the tensors.
 */
static uint64_t max_gap(const struct weir__selection *sel)
{
	return sel->buf || sel->sliced || sel->capacity ? 0 : MAX_GAP;
}

static bool joins_span(struct placer *p,
		       const struct weir__tensor_placement *place,
		       uint64_t align)
{
	uint64_t end = p->span.off + p->span.len;

	if (!p->span.n || record_of(p, place)->shard != p->span.shard ||
	    place->off < end || place->off - end > max_gap(p->s->sel) ||
	    !weir__span_is_plain(&p->span) || !is_plain(place))
		return false;
	if (!span_fits(p, place->off + place->bytes - p->span.off,
		       align > p->modulus ? align : p->modulus))
		return false;
	return shift_serves(p, place->off, align);
}

static int begin_span(struct placer *p,
		      const struct weir__tensor_placement *place,
		      uint64_t align)
{
	const struct weir__selection *sel = p->s->sel;
	int r = close_span(p);

	if (r >= 0 && !sel->buf && p->end && !span_fits(p, place->bytes, align))
		r = open_buf(p);
	if (r < 0)
		return r;
	p->span = (struct weir__load_span){
		.shard = record_of(p, place)->shard,
		.off = place->off,
		.first = p->l->n_order,
		.way = sel->way,
		.priority = sel->priority,
		.slice = place->slice,
	};
	p->modulus = align;
	p->shift = -place->off & (align - 1);
	return 0;
}

static int add_tensor(struct placer *p, size_t number)
{
	const struct weir__tensor_placement *place = &p->l->placement[number];
	const struct weir__slice *slice =
		weir__layout_slice(p->l, place->slice);
	const struct weir__selection *sel = p->s->sel;
	uint64_t align = weir__selection_align(
		sel, slice && slice->convert ? sel->dtype
					     : record_of(p, place)->dtype);
	int r = 0;

	if (!joins_span(p, place, align))
		r = begin_span(p, place, align);
	if (r < 0)
		return r;
	p->l->order[p->l->n_order++] = number;
	p->span.n++;
	p->span.len = place->off - p->span.off +
		      (slice ? weir__slice_file_length(slice) : place->bytes);
	return 0;
}

/* Tensors without bytes may be anywhere: place them at the start. */
static void add_empty(struct placer *p)
{
	const struct weir__selected *s = p->s;

	for (size_t i = 0; i < s->n; i++) {
		struct weir__tensor_placement *place =
			&p->l->placement[s->number[i]];

		if (place->bytes)
			continue;
		place->buf = (uint32_t)(p->l->n_bufs - 1);
		place->at = s->sel->offset;
	}
}

/*
 * Return the most bytes of a new buffer, without those that are added to align
 * it.
 */
static uint64_t largest(const struct weir__selection *sel)
{
	const struct weir_backend_buft *d = &sel->buft->desc;
	uint64_t more = sel->align > d->align ? sel->align - d->align : 0;

	return d->max > more ? d->max - more : 0;
}

/*
 * Place the tensors: add their buffers (new ones, or that of the selection) and
 * spans. *ret_end: their end in the last buffer. After a failure the layout may
 * have a part of them.
 */
static int place_selected(struct weir__layout *l,
			  const struct weir__selected *s,
			  const struct bounds *bounds, uint64_t *ret_end)
{
	struct placer p = { .s = s, .l = l };
	int r = open_buf(&p);

	/* Reads to a device are always staged. */
	p.tight = bounds->tight || !(s->sel->buft->desc.flags & WEIR_BUFT_HOST);
	p.end = bounds->from;
	p.to = s->sel->buf ? bounds->to : largest(s->sel);
	for (size_t i = 0; i < s->n && r >= 0; i++)
		if (l->placement[s->number[i]].bytes)
			r = add_tensor(&p, s->number[i]);
	if (r >= 0)
		r = close_span(&p);
	if (r < 0)
		return r;
	add_empty(&p);
	*ret_end = p.end;
	return 0;
}

/* The parts of a layout that grow while a selection is placed. */
struct mark {
	size_t n_order, n_spans, n_bufs;
};

static struct mark mark_of(const struct weir__layout *l)
{
	return (struct mark){ l->n_order, l->n_spans, l->n_bufs };
}

static void go_back(struct weir__layout *l, const struct mark *mark)
{
	l->n_order = mark->n_order;
	l->n_spans = mark->n_spans;
	l->n_bufs = mark->n_bufs;
}

/* Return the bytes of the new buffers from number @first on. */
static uint64_t new_bytes(const struct weir__layout *l, size_t first)
{
	uint64_t sum = 0;

	for (size_t i = first; i < l->n_bufs; i++)
		sum += weir__layout_bytes(&l->buf[i]);
	return sum;
}

/*
 * Place a selection in new memory, congruent to the file unless that exceeds
 * its capacity.
 */
static int place_in_new(struct weir__layout *l, const struct weir__selected *s)
{
	struct mark mark = mark_of(l);
	struct bounds bounds = { .tight = false };
	uint64_t capacity = s->sel->capacity, end;
	int r = place_selected(l, s, &bounds, &end);

	if (r < 0 || !capacity || new_bytes(l, mark.n_bufs) <= capacity)
		return r;
	go_back(l, &mark);
	bounds.tight = true;
	return place_selected(l, s, &bounds, &end);
}

/* A selection of WEIR_WAY_MAP has a buffer for each file. */
static int place_mapped(struct weir__layout *l, const struct weir__selected *s)
{
	struct placer p = { .s = s, .l = l };
	uint32_t shard = UINT32_MAX;
	struct weir__layout_buf *buf = NULL;
	int r;

	for (size_t i = 0; i < s->n; i++) {
		struct weir__tensor_placement *place =
			&l->placement[s->number[i]];

		if (record_of(&p, place)->shard != shard) {
			r = open_buf(&p);
			if (r < 0)
				return r;
			shard = record_of(&p, place)->shard;
			buf = current_buf(&p);
			buf->foreign = true;
			buf->map_shard = shard;
			buf->map_off = place->off;
		}
		l->order[l->n_order++] = s->number[i];
		place->buf = (uint32_t)(l->n_bufs - 1);
		place->at = place->off - buf->map_off;
		buf->n++;
		buf->bytes = place->at + place->bytes;
	}
	/* A load reads them only to compute digests. */
	return s->plan->expected ? weir__layout_hashed(l, s) : 0;
}

/* The memory of a selection in a buffer of the program, by address. */
struct given {
	struct weir__sort_key from; /* its address space and first byte */
	uint64_t end;
	size_t selection;
};

/* All selections, with the numbers of their placements. */
struct selections {
	const struct weir_plan *plan;
	struct weir__layout *l;
	struct given *given; /* selections that need bytes of the program's
				memory */
	size_t n_given;
	/*
	 * Placements of selection i: number[first[i]] to number[first[i + 1]].
	 */
	size_t *first, *number; /* n_selections + 2, n: after given[] */
	union {                 /* the arrays, if they are small */
		struct given given;
		size_t words[16];
	} room;
};

static struct weir__selected selected_by(const struct selections *g, size_t i)
{
	return (struct weir__selected){
		.plan = g->plan,
		.sel = &g->plan->selection[i],
		.number = g->number + g->first[i],
		.n = g->first[i + 1] - g->first[i],
	};
}

static int sort_by_selection(struct selections *g)
{
	const struct weir_plan *plan = g->plan;
	size_t n_first = plan->n_selections + 2, *next;
	size_t bytes = plan->n_selections * sizeof(*g->given) +
		       (n_first + plan->n) * sizeof(*g->first);

	g->given = bytes <= sizeof(g->room) ? &g->room.given
					    : weir__calloc(1, bytes);
	if (!g->given)
		return no_memory(plan, n_first + plan->n, sizeof(*g->first));
	g->first = (size_t *)(g->given + plan->n_selections);
	g->number = g->first + n_first;
	/*
	 * first[i + 1] grows to the end of selection i: where its next one
	 * goes.
	 */
	next = g->first + 1;
	for (unsigned i = 0; i < plan->n_selections; i++)
		next[i + 1] = next[i] + plan->selection[i].tensors;
	for (size_t i = 0; i < plan->n; i++) {
		size_t record = g->l->placement[i].record;

		g->number[next[weir__plan_choice(plan, record)]++] = i;
	}
	return 0;
}

static bool has_bytes(const struct selections *g,
		      const struct weir__selected *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (g->l->placement[s->number[i]].bytes)
			return true;
	return false;
}

static struct given given_memory(const struct weir__selection *sel,
				 size_t number)
{
	uint64_t base = (uintptr_t)sel->buf->mem.base;

	return (struct given){
		.from.major = weir__mem_space(sel->buf->buft),
		.from.minor = base + sel->offset,
		.end = base + sel->buf->bytes,
		.selection = number,
	};
}

/*
 * Place what goes to new memory, mappings and sinks; list the others in given.
 */
static int place_new(struct selections *g)
{
	int r = 0;

	for (unsigned i = 0; i < g->plan->n_selections && r >= 0; i++) {
		struct weir__selected s = selected_by(g, i);

		if (!s.n)
			continue;
		if (s.sel->buf && has_bytes(g, &s))
			g->given[g->n_given++] = given_memory(s.sel, i);
		else if (!s.sel->buft)
			r = weir__layout_sink(g->l, &s);
		else if (s.sel->way == WEIR_WAY_MAP)
			r = place_mapped(g->l, &s);
		else
			r = place_in_new(g->l, &s);
	}
	return r;
}

/*
 * Place given[i] to given[j - 1], which begin at the same byte, before @limit.
 */
static int place_same_start(struct selections *g, size_t i, size_t j,
			    uint64_t limit, bool tight)
{
	uint64_t from = g->given[i].from.minor, end;
	int r = 0;

	for (; i < j && r >= 0; i++) {
		const struct given *given = &g->given[i];
		struct weir__selected s = selected_by(g, given->selection);
		uint64_t base = (uintptr_t)s.sel->buf->mem.base;
		struct bounds bounds = {
			.from = from - base,
			.to = (given->end < limit ? given->end : limit) - base,
			.tight = tight,
		};

		r = place_selected(g->l, &s, &bounds, &end);
		from = base + end;
	}
	return r;
}

static int place_given(struct selections *g)
{
	int r = 0;

	if (weir__sort(g->given, g->n_given, sizeof(*g->given)) < 0)
		return no_memory(g->plan, g->n_given, sizeof(*g->given));
	for (size_t i = 0, j; i < g->n_given && r >= 0; i = j) {
		const struct given *s = &g->given[i], *next;
		struct mark mark = mark_of(g->l);
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
		go_back(g->l, &mark);
		r = place_same_start(g, i, j, limit, true);
	}
	return r;
}

static int place_selections(struct weir__layout *l,
			    const struct weir_plan *plan)
{
	struct selections g = { .plan = plan, .l = l };
	int r = sort_by_selection(&g);

	if (r >= 0)
		r = place_new(&g);
	if (r >= 0)
		r = place_given(&g);
	if (g.given != &g.room.given)
		weir__free(g.given);
	return r;
}

struct target_placer {
	const struct weir_plan *plan;
	struct weir__layout *l;
	const struct weir_buf *buf;   /* buffer of the last layout->buf, or
					 NULL */
	uint64_t at;                  /* place of the last tensor in it */
	struct weir__load_span *span; /* span of the last target, or NULL */
};

/* The sort key of a target. Targets are large, so keys are sorted instead. */
struct target_key {
	struct weir__sort_key address; /* address in its address space */
	size_t number;                 /* number of the target */
};

/* Return the targets by address. NULL: no memory. */
static struct target_key *sort_targets(const struct weir_plan *plan)
{
	size_t n = plan->targets->n;
	struct target_key *key = weir__malloc(n * sizeof(*key));

	if (!key)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		const struct weir__target *t = &plan->targets->item[i];

		key[i].address.major = weir__mem_space(t->buft);
		key[i].address.minor = (uintptr_t)t->base + t->at;
		key[i].number = i;
	}
	if (weir__sort(key, n, sizeof(*key)) == 0)
		return key;
	weir__free(key);
	return NULL;
}

/* Begin a buffer: the layout has room for one for each target. */
static void open_target_buf(struct target_placer *p,
			    const struct weir__target *t)
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
	p->span = NULL;
}

/* True if @t continues the newest of the layout's buffers. */
static bool continues_buf(const struct target_placer *p,
			  const struct weir__target *t)
{
	const struct weir__layout_buf *b = &p->l->buf[p->l->n_bufs - 1];

	return p->buf && t->buf == p->buf && t->at >= p->at &&
	       (!b->n || t->at <= b->bytes + APART);
}

static bool continues_span(const struct target_placer *p,
			   const struct weir__target *t,
			   const struct weir__tensor_placement *place)
{
	const struct weir__load_span *span = p->span;

	return span && weir__span_is_plain(span) && is_plain(place) &&
	       span->shard == t->shard && span->off + span->len == place->off &&
	       span->at + span->len == place->at && span->way == t->way &&
	       span->priority == t->priority;
}

static void add_target_span(struct target_placer *p,
			    const struct weir__target *t, size_t number)
{
	struct weir__layout *l = p->l;
	const struct weir__tensor_placement *place = &l->placement[number];

	p->span = &l->span[l->n_spans++];
	*p->span = (struct weir__load_span){
		.shard = t->shard,
		.buf = place->buf,
		.off = place->off,
		.len = weir__slice_file_length(&t->slice),
		.at = place->at,
		.first = l->n_order,
		.n = 1,
		.way = t->way,
		.priority = t->priority,
		.placement = (uint32_t)number,
		.slice = place->slice,
	};
}

static void add_target(struct target_placer *p, size_t i)
{
	const struct weir__target *t = &p->plan->targets->item[i];
	struct weir__layout *l = p->l;
	const size_t number = p->plan->n + i;
	struct weir__tensor_placement *place = &l->placement[number];
	struct weir__layout_buf *b;

	if (!continues_buf(p, t))
		open_target_buf(p, t);
	p->at = t->at;
	place->buf = (uint32_t)(l->n_bufs - 1);
	if (!place->bytes)
		return;
	if (continues_span(p, t, place)) {
		p->span->n++;
		p->span->len += place->bytes;
	} else {
		add_target_span(p, t, number);
	}
	l->order[l->n_order++] = number;
	b = &l->buf[place->buf];
	b->n++;
	if (b->bytes < place->at + place->bytes)
		b->bytes = place->at + place->bytes;
}

/* Make room for a buffer and a span for each target. */
static int make_room(struct weir__layout *l, const struct weir_plan *plan)
{
	size_t n = plan->targets->n;
	struct weir__load_span *span = weir__array_grow(
		l->span, &l->max_spans, l->n_spans + n - 1, sizeof(*span));
	struct weir__layout_buf *buf = weir__array_grow(
		l->buf, &l->max_bufs, l->n_bufs + n - 1, sizeof(*buf));

	if (span)
		l->span = span;
	if (buf)
		l->buf = buf;
	return span && buf ? 0 : no_memory(plan, n, sizeof(*span));
}

static int place_targets(struct weir__layout *l, const struct weir_plan *plan)
{
	struct target_placer p = { .plan = plan, .l = l };
	size_t n = plan->targets->n;
	struct target_key *key = sort_targets(plan);
	int r = key ? make_room(l, plan) : no_memory(plan, n, sizeof(*key));

	for (size_t i = 0; i < n && r >= 0; i++)
		add_target(&p, key[i].number);
	weir__free(key);
	return r;
}

int weir__layout_place(struct weir__layout *l, const struct weir_plan *plan)
{
	int r = place_selections(l, plan);

	l->n_selected_bufs = l->n_bufs;
	if (r >= 0 && weir__plan_n_targets(plan))
		r = place_targets(l, plan);
	return r;
}
