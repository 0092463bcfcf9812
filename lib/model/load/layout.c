/* SPDX-License-Identifier: MIT */
#include "model/load/layout.h"

#include <errno.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sort.h"
#include "core/sys.h"
#include "core/array.h"

#define FEW 8u /* tensors, for which nothing is allocated */

static int no_memory(const struct weir_plan *plan, size_t n, size_t size)
{
	return weir__fail(
		-ENOMEM, "%s: no memory for a layout of %zu items of %zu bytes",
		plan->model->path, n, size);
}

/* Add a slice of a placement, unless it is plain. */
static int keep_slice(struct weir__layout *l, const struct weir_plan *plan,
		      const struct weir__slice *slice, uint32_t *ret_number)
{
	struct weir__slice *more;

	*ret_number = WEIR__NO_SLICE;
	if (weir__slice_is_plain(slice))
		return 0;
	more = weir__grow(l->slice, &l->max_slices, l->n_slices, sizeof(*more));
	if (!more)
		return no_memory(plan, l->n_slices, sizeof(*more));
	l->slice = more;
	more[l->n_slices] = *slice;
	*ret_number = (uint32_t)l->n_slices++;
	return 0;
}

static int list_selected(struct weir__layout *l, const struct weir_plan *plan,
			 size_t record)
{
	const struct weir__selection *sel =
		&plan->selection[weir__plan_choice(plan, record)];
	struct weir__tensor_placement *place = &l->placement[l->n++];
	enum weir_dtype dtype;
	struct weir__slice slice;
	int r = weir__selection_slice(plan->model, sel, record, &slice, &dtype);

	if (r < 0)
		return r;
	*place = (struct weir__tensor_placement){
		.record = record,
		.slice = WEIR__NO_SLICE,
		.off = plan->model->rec[record].off + slice.off,
		.data = weir__slice_data(&slice),
	};
	if (!sel->buft)
		return 0;
	if (sel->way == WEIR_WAY_MAP) {
		place->bytes = weir__slice_file_length(&slice);
		return 0;
	}
	place->bytes = weir__slice_mem_length(&slice);
	return place->bytes ? keep_slice(l, plan, &slice, &place->slice) : 0;
}

static int list_target(struct weir__layout *l, const struct weir_plan *plan,
		       const struct weir__target *t)
{
	struct weir__tensor_placement *place = &l->placement[l->n++];

	*place = (struct weir__tensor_placement){
		.record = t->record,
		.slice = WEIR__NO_SLICE,
		.at = t->at,
		.off = t->off,
		.bytes = weir__slice_mem_length(&t->slice),
		.data = weir__slice_data(&t->slice),
	};
	return place->bytes ? keep_slice(l, plan, &t->slice, &place->slice) : 0;
}

/* List all tensors of the plan in the order of the model, then the targets. */
static int list_tensors(struct weir__layout *l, const struct weir_plan *plan)
{
	size_t n_targets = weir__plan_n_targets(plan), n = plan->n + n_targets;
	int r = 0;

	l->placement =
		n == 1 ? &l->room_places.entry[0].placement
		       : weir__array_alloc(n, sizeof(l->room_places.entry[0]));
	if (!l->placement)
		return no_memory(plan, n, sizeof(*l->placement));
	l->order = (size_t *)(l->placement + n);
	for (size_t i = plan->first; l->n < plan->n && r >= 0; i++)
		if (weir__plan_selects(plan, i))
			r = list_selected(l, plan, i);
	for (size_t i = 0; i < n_targets && r >= 0; i++)
		r = list_target(l, plan, &plan->targets->item[i]);
	return r;
}

uint64_t weir__mem_space(const struct weir_buft *buft)
{
	const struct weir_dev *dev = buft->dev;

	if (buft->desc.flags & WEIR_BUFT_HOST)
		return 0;
	return dev->backend->mem->reach ? (uintptr_t)dev->backend
					: (uintptr_t)dev;
}

/* The memory of a tensor, by address. */
struct occupied {
	struct weir__sort_key from; /* its address space and first byte */
	uint64_t end;
	size_t number; /* number of its placement */
};

/* The tensors of a layout, by address. */
struct overlap_check {
	const struct weir_model *m;
	struct weir__layout *l;
	struct occupied *range;
	size_t n;
};

static int no_memory_to_check(const struct overlap_check *p)
{
	return weir__fail(-ENOMEM,
			  "%s: no memory to compare %zu places of %zu bytes",
			  p->m->path, p->l->n_order, sizeof(*p->range));
}

static int fail_overlap(const struct overlap_check *p, size_t a, size_t b)
{
	const struct weir__record *x = &p->m->rec[p->l->placement[a].record];
	const struct weir__record *y = &p->m->rec[p->l->placement[b].record];

	return weir__fail(-EINVAL, "tensors '%s' and '%s' would overlap",
			  weir__quote(p->m->text + x->name, x->name_len),
			  weir__quote(p->m->text + y->name, y->name_len));
}

static int check_end(const struct overlap_check *p,
		     const struct weir__tensor_placement *s)
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

static struct row_form rows_of(const struct overlap_check *p,
			       const struct occupied *range)
{
	const struct weir__slice *slice =
		weir__layout_slice(p->l, p->l->placement[range->number].slice);

	if (!slice || slice->rows <= 1)
		return (struct row_form){ range->from.minor,
					  range->end - range->from.minor, 0 };
	return (struct row_form){ range->from.minor, slice->mem_width,
				  slice->mem_pitch };
}

/*
 * Two ranges that overlap may have rows in each other's gaps: the columns of
 * one view beside those of another, at the same distances.
 */
static bool rows_are_apart(const struct overlap_check *p,
			   const struct occupied *a, const struct occupied *b)
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

/* True if @a ends before @b begins, of two ranges in their order. */
static bool is_before(const struct occupied *a, const struct occupied *b)
{
	return a->from.major != b->from.major || a->end <= b->from.minor;
}

/*
 * Compare a range with all earlier ones that end after it begins: those are the
 * ranges from *@first on, which moves forward.
 */
static int check_range(struct overlap_check *p, size_t i, size_t *first)
{
	const struct occupied *range = p->range;
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

static struct occupied occupied(uint64_t space, uint64_t begin, uint64_t bytes,
				size_t number)
{
	return (struct occupied){ { space, begin }, begin + bytes, number };
}

/* New memory is not shared: its buffers are numbered as spaces of their own. */
static struct occupied range_of_place(const struct overlap_check *p, size_t i)
{
	const struct weir__tensor_placement *s = &p->l->placement[i];
	const struct weir__layout_buf *b = &p->l->buf[s->buf];

	if (b->given)
		return occupied(weir__mem_space(b->buft),
				(uintptr_t)b->base + s->at, s->bytes, i);
	return occupied((uintptr_t)b, s->at, s->bytes, i);
}

int weir__layout_check(const struct weir_model *m, struct weir__layout *l)
{
	struct occupied few[FEW];
	struct overlap_check p = { .m = m, .l = l, .range = few };
	size_t first = 0;
	int r = 0;

	if (l->n_order > FEW)
		p.range = weir__malloc(l->n_order * sizeof(*p.range));
	if (!p.range)
		return no_memory_to_check(&p);
	/* Sort by buffer and place. Often they are in this order already. */
	for (size_t i = 0; i < l->n_order && r >= 0; i++) {
		const struct weir__tensor_placement *s =
			&l->placement[l->order[i]];

		if (s->buf == WEIR__NO_BUF ||
		    l->buf[s->buf].buft->desc.kind == WEIR_MEM_MAPPED)
			continue;
		r = check_end(&p, s);
		p.range[p.n++] = range_of_place(&p, l->order[i]);
	}
	if (r >= 0 && weir__sort(p.range, p.n, sizeof(*p.range)) < 0)
		r = no_memory_to_check(&p);
	for (size_t i = 1; i < p.n && r >= 0; i++)
		r = check_range(&p, i, &first);
	if (p.range != few)
		weir__free(p.range);
	return r;
}

struct read_key {
	struct weir__sort_key when;
	size_t span;
};

static struct read_key key_of(const struct weir__load_span *span, size_t number)
{
	uint64_t later = (uint32_t)~weir__sort_int32(span->priority);

	return (struct read_key){
		.when.major = later << 32 | span->shard,
		.when.minor = span->off,
		.span = number,
	};
}

static bool spans_are_sorted(const struct weir__layout *l)
{
	for (size_t i = 1; i < l->n_spans; i++) {
		struct read_key a = key_of(&l->span[i - 1], 0);
		struct read_key b = key_of(&l->span[i], 0);

		if (weir__sort_less(&b.when, &a.when))
			return false;
	}
	return true;
}

/* Move span key[i].span to place i, for each i: cycle by cycle. */
static void permute_spans(struct weir__load_span *span, struct read_key *key,
			  size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct weir__load_span kept = span[i];
		size_t to = i, from;

		for (; (from = key[to].span) != i; to = from) {
			span[to] = span[from];
			key[to].span = to;
		}
		span[to] = kept;
		key[to].span = to;
	}
}

/*
 * Put the spans into the order of reading: by priority, then in the order of
 * the files. A load then accesses them one after the other.
 */
static int sort_spans(const struct weir_model *model, struct weir__layout *l)
{
	size_t n = l->n_spans;
	struct read_key *key;
	int r = 0;

	if (spans_are_sorted(l))
		return 0;
	key = weir__malloc(n * sizeof(*key));
	for (size_t i = 0; i < n && key; i++)
		key[i] = key_of(&l->span[i], i);
	if (!key || weir__sort(key, n, sizeof(*key)) < 0)
		r = weir__fail(-ENOMEM, "%s: no memory to sort %zu runs",
			       model->path, n);
	else
		permute_spans(l->span, key, n);
	weir__free(key);
	return r;
}

static int layout_fill(const struct weir_plan *plan, struct weir__layout *l)
{
	int r = list_tensors(l, plan);

	if (r >= 0)
		r = weir__layout_place(l, plan);
	if (r >= 0)
		r = weir__layout_check(plan->model, l);
	return r < 0 ? r : sort_spans(plan->model, l);
}

static void load_arrays_free(struct weir__load_arrays *a)
{
	if (!a)
		return;
	weir__array_free(a->ext);
	weir__array_free(a->ext_span);
	weir__free(a);
}

struct weir__load_arrays *weir__load_arrays_take(struct weir__layout *layout)
{
	struct weir__load_arrays *a = atomic_exchange(&layout->spare, NULL);

	return a ? a : weir__calloc(1, sizeof(*a));
}

void weir__load_arrays_give(struct weir__layout *layout,
			    struct weir__load_arrays *a)
{
	if (a && atomic_load(&layout->kept))
		a = atomic_exchange(&layout->spare, a);
	load_arrays_free(a);
}

void weir__layout_put(struct weir__layout *l)
{
	if (!l || !weir__refs_drop(&l->refs))
		return;
	weir__array_free(l->placement);
	weir__array_free(l->span);
	weir__array_free(l->buf);
	weir__free(l->slice);
	for (size_t i = 0; i < l->n_sinks; i++)
		weir__array_free(l->sink[i].span);
	weir__free(l->sink);
	load_arrays_free(atomic_load(&l->spare));
	weir__free(l);
}

/*
 * True if the layout is the same in each load. New memory and mappings have
 * other addresses in each.
 */
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
		return weir__fail(-ENOMEM,
				  "%s: no memory for a layout of %zu bytes",
				  plan->model->path, sizeof(*l));
	atomic_init(&l->refs, 1);
	l->span = l->room_spans.entry;
	l->max_spans = 1;
	l->buf = l->room_bufs.entry;
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

void weir__layout_forget(struct weir_plan *plan)
{
	struct weir__layout *l = atomic_load(&plan->layout);

	if (!l)
		return;
	atomic_store_explicit(&plan->layout, NULL, memory_order_relaxed);
	/* Weights may have it for longer. */
	if (atomic_load(&l->refs) > 1) {
		atomic_store(&l->kept, false);
		load_arrays_free(atomic_exchange(&l->spare, NULL));
	}
	weir__layout_put(l);
}

static uint64_t lead_of(const struct weir__layout *l,
			const struct weir__tensor_placement *place)
{
	return place->buf == WEIR__NO_BUF ? 0 : l->buf[place->buf].lead;
}

void weir__layout_lead(struct weir__layout *l)
{
	for (size_t i = 0; i < l->n; i++)
		l->placement[i].at += lead_of(l, &l->placement[i]);
	for (size_t i = 0; i < l->n_spans; i++)
		l->span[i].at += l->buf[l->span[i].buf].lead;
}

static bool same_slice(const struct weir__slice *a, const struct weir__slice *b)
{
	if (!a || !b)
		return a == b;
	return a->rows == b->rows && a->width == b->width &&
	       a->file_pitch == b->file_pitch && a->mem_pitch == b->mem_pitch &&
	       a->convert == b->convert;
}

static bool same_place(const struct weir__layout *a,
		       const struct weir__layout *b, size_t i)
{
	const struct weir__tensor_placement *x = &a->placement[i],
					    *y = &b->placement[i];

	return x->record == y->record && x->buf == y->buf &&
	       x->at + lead_of(b, y) == y->at && x->off == y->off &&
	       x->bytes == y->bytes &&
	       same_slice(weir__layout_slice(a, x->slice),
			  weir__layout_slice(b, y->slice));
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
		if (!same_place(a, b, i))
			return weir__fail(
				-EINVAL,
				"tensor %zu has another place or form in the weights than in the plan",
				i);
	return 0;
}
