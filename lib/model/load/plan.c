/* SPDX-License-Identifier: MIT */
#include "model/load/plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/load/layout.h"
#include "model/load/verify.h"

#define MAX_ALIGN 4096u /* a page; direct reads need no more */
/* Most selections that a spare plan has room for. */
#define SPARE_SELECTIONS 16u
#define MAX_SELECTIONS (UINT32_MAX / 2)

/* The model is closed, or another plan is its spare one. */
static void spare_free(struct weir__model_spare *spare)
{
	struct weir_plan *p;

	if (!spare)
		return;
	p = weir__container(spare, struct weir_plan, spare);
	weir__free(p->selection);
	weir__free(p);
}

/*
 * Return an empty plan: the one that the model keeps, or a new one. NULL: no
 * memory.
 */
static struct weir_plan *plan_take(struct weir_model *model)
{
	struct weir__model_spare *spare = atomic_exchange(&model->spare, NULL);
	struct weir_plan *p;

	if (spare)
		return weir__container(spare, struct weir_plan, spare);
	p = weir__calloc(1, sizeof(*p) + model->n_recs * sizeof(p->choice[0]));
	if (!p)
		return NULL;
	p->spare.free = spare_free;
	p->first = model->n_recs;
	return p;
}

int weir_plan_new(struct weir_model *model, struct weir_plan **ret_plan)
{
	struct weir_plan *p;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(model->weir);
	if (r < 0)
		return r;
	p = plan_take(model);
	if (!p)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a plan for %zu tensors",
				  model->path, model->n_recs);
	p->model = weir__model_ref(model);
	*ret_plan = p;
	return 0;
}

/* Clear the choice of each record from the first chosen one to the last. */
static void choices_clear(struct weir_plan *plan)
{
	for (size_t i = 0; i < weir__plan_n_targets(plan); i++) {
		uint32_t *choice = &plan->choice[plan->targets->item[i].record];

		if (*choice == WEIR__CHOSEN_AS_TARGET)
			*choice = 0;
	}
	for (size_t i = plan->first; plan->n; i++) {
		plan->n -= weir__plan_selects(plan, i);
		plan->choice[i] = 0;
	}
	plan->first = plan->model->n_recs;
}

/*
 * Make the plan as it was when it was new. A small array of selections stays.
 */
static void plan_clear(struct weir_plan *plan)
{
	for (unsigned i = 0; i < plan->n_selections; i++)
		weir__buf_put(plan->selection[i].buf);
	plan->n_selections = 0;
	if (plan->max_selections > SPARE_SELECTIONS) {
		weir__free(plan->selection);
		plan->selection = NULL;
		plan->max_selections = 0;
	}
	weir__layout_forget(plan);
	choices_clear(plan);
	weir__targets_put(plan->targets);
	plan->targets = NULL;
	weir__expected_put(plan->expected);
	plan->expected = NULL;
	plan->align = 0;
	plan->model = NULL;
}

void weir_plan_free(struct weir_plan *plan)
{
	struct weir_model *model;

	if (!plan || !weir__root_is_ours(plan->model->weir))
		return;
	model = plan->model;
	plan_clear(plan);
	spare_free(atomic_exchange(&model->spare, &plan->spare));
	weir__model_put(model);
}

uint64_t weir__selection_align(const struct weir__selection *sel,
			       enum weir_dtype dtype)
{
	const struct weir_dtype_info *row = weir__dtype(dtype);

	if (sel->align)
		return sel->align;
	if (!(sel->buft->desc.flags & WEIR_BUFT_HOST))
		return sel->buft->desc.align;
	return row ? row->align : 1;
}

static int check_buf(const struct weir_buft *buft,
		     const struct weir_select_opts *o)
{
	if (!o->buf)
		return o->offset
			       ? weir__fail(-EINVAL,
					    "an offset of %llu, but no buffer",
					    (unsigned long long)o->offset)
			       : 0;
	if (o->buf->n_members)
		return weir__fail(
			-EINVAL,
			"tensors cannot be put into a joined buffer: use its members");
	if (o->buf->buft != buft)
		return weir__fail(-EINVAL, "the buffer is of %s, not of %s",
				  o->buf->buft->desc.name, buft->desc.name);
	if (weir__buf_is_readonly(o->buf))
		return weir__fail(-EINVAL, "a buffer of %s cannot be written",
				  o->buf->buft->desc.name);
	if (o->offset > o->buf->bytes)
		return weir__fail(
			-EINVAL,
			"offset %llu is after the end of a buffer of %zu bytes",
			(unsigned long long)o->offset, o->buf->bytes);
	return 0;
}

int weir__plan_check_align(uint64_t align)
{
	if ((align & (align - 1)) || align > MAX_ALIGN)
		return weir__fail(
			-EINVAL,
			"an alignment of %llu is not a power of two up to %u",
			(unsigned long long)align, MAX_ALIGN);
	return 0;
}

int weir__plan_check_way(uint32_t way)
{
	if (way <= WEIR_WAY_DIRECT)
		return 0;
	return weir__fail(-EINVAL, "way %u is not one of 0 to %u", way,
			  WEIR_WAY_DIRECT);
}

int weir_plan_set_align(struct weir_plan *plan, uint64_t align)
{
	int r;

	WEIR__ENTER();
	r = weir__root_enter(plan->model->weir);
	if (!r && !align)
		r = weir__fail(-EINVAL, "an alignment of 0");
	if (!r)
		r = weir__plan_check_align(align);
	if (!r)
		plan->align = align;
	return r;
}

static int check_selection(const struct weir_plan *plan, struct weir_buft *buft,
			   const struct weir_select_opts *o)
{
	bool mapped = buft->desc.kind == WEIR_MEM_MAPPED;
	int r;

	r = weir__root_read(buft->dev->weir);
	if (r < 0)
		return r;
	if (buft->dev->weir != plan->model->weir)
		return weir__fail(-EINVAL, "%s belongs to another root",
				  buft->desc.name);
	r = weir__plan_check_align(o->align);
	if (!r)
		r = weir__plan_check_way(o->way);
	if (r < 0)
		return r;
	if (o->buf_flags && (o->buf || mapped))
		return weir__fail(
			-EINVAL, "flags 0x%x of new buffers, but no new buffer",
			o->buf_flags);
	r = weir__buft_check_flags(buft, o->buf_flags);
	if (r < 0)
		return r;
	if (mapped != (o->way == WEIR_WAY_MAP))
		return weir__fail(
			-EINVAL,
			mapped ? "memory of kind %s needs WEIR_WAY_MAP"
			       : "WEIR_WAY_MAP needs memory of kind MAPPED, not %s",
			buft->desc.name);
	if (mapped && o->dtype != WEIR_DTYPE_NONE)
		return weir__fail(-EINVAL,
				  "mapped tensors cannot be converted");
	return check_buf(buft, o);
}

/*
 * fnmatch(3) sees no more than a C string: a name with a NUL matches only "*".
 */
static bool matches(const char *glob, const struct weir_model *m, size_t i)
{
	const char *name = weir__record_name(m, i);

	if (!glob || !strcmp(glob, "*"))
		return true;
	return strlen(name) == m->rec[i].name_len && !fnmatch(glob, name, 0);
}

/*
 * Find the records that @glob can match: all of them, or if it has no wildcard
 * the one of that name, so that a plan with a selection for each tensor takes
 * linear time. Returns true if it matches all of these.
 */
static bool candidates(const struct weir_model *m, const char *glob,
		       size_t *ret_first, size_t *ret_end)
{
	size_t i;

	*ret_first = 0;
	*ret_end = m->n_recs;
	if (!glob || strpbrk(glob, "*?[\\"))
		return !glob;
	i = weir__model_lookup(m, glob, strlen(glob));
	*ret_first = i == WEIR__NONE ? m->n_recs : i;
	*ret_end = i == WEIR__NONE ? m->n_recs : i + 1;
	return true;
}

static bool same_sink(const struct weir_sink *a, const struct weir_sink *b)
{
	return a->chunk == b->chunk && a->arg == b->arg &&
	       a->buffer == b->buffer;
}

static bool same_selection(const struct weir__selection *a,
			   const struct weir__selection *b)
{
	return !a->buf && !b->buf && a->buft == b->buft &&
	       same_sink(&a->sink, &b->sink) && a->align == b->align &&
	       a->way == b->way && a->dtype == b->dtype &&
	       a->priority == b->priority && a->sliced == b->sliced &&
	       !a->capacity == !b->capacity && a->buf_flags == b->buf_flags &&
	       !memcmp(&a->slice, &b->slice, sizeof(a->slice));
}

/*
 * Calls in a row for new memory that differ in nothing but the tensors make one
 * selection, with one buffer: a program may make a call for each tensor. Calls
 * with an equal sink always do, so that it is called by one thread. Returns the
 * number of the selection.
 */
static int find_selection(const struct weir_plan *plan,
			  const struct weir__selection *sel)
{
	for (unsigned i = plan->n_selections; i--;) {
		if (same_selection(&plan->selection[i], sel))
			return (int)i;
		if (sel->buft)
			break;
	}
	return -1;
}

static int add_selection(struct weir_plan *plan,
			 const struct weir__selection *add)
{
	struct weir__selection *sel;
	int same = find_selection(plan, add);

	if (same >= 0) {
		sel = &plan->selection[same];
		if (weir__add_over(sel->capacity, add->capacity,
				   &sel->capacity))
			sel->capacity = UINT64_MAX;
		return same;
	}
	if (plan->n_selections == MAX_SELECTIONS)
		return weir__fail(-EINVAL, "more than %u selections",
				  MAX_SELECTIONS);
	sel = weir__grow(plan->selection, &plan->max_selections,
			 plan->n_selections, sizeof(*sel));
	if (!sel)
		return weir__fail(-ENOMEM,
				  "%s: no memory for more than %u selections",
				  plan->model->path, plan->n_selections);
	plan->selection = sel;
	sel += plan->n_selections++;
	*sel = *add;
	if (sel->buf)
		weir_buf_ref(sel->buf);
	return (int)plan->n_selections - 1;
}

static struct weir__selection selection_of(const struct weir_plan *plan,
					   struct weir_buft *buft,
					   const struct weir_select_opts *o)
{
	struct weir__selection sel = {
		.buft = buft,
		.align = o->align ? o->align : plan->align,
		.buf = o->buf,
		.offset = o->offset,
		.way = o->way,
		.dtype = o->dtype,
		.sliced = o->slice != NULL,
		.priority = o->priority,
		.capacity = o->capacity,
		.buf_flags = o->buf_flags,
	};

	if (o->slice)
		sel.slice = *o->slice;
	return sel;
}

/* True if the tensors of the selection are neither sliced nor converted. */
static bool is_whole(const struct weir__selection *sel)
{
	return !sel->sliced && sel->dtype == WEIR_DTYPE_NONE;
}

int weir__selection_slice(const struct weir_model *m,
			  const struct weir__selection *sel, size_t record,
			  struct weir__slice *ret_slice,
			  enum weir_dtype *ret_dtype)
{
	const struct weir__record *rec = &m->rec[record];
	struct weir_tensor t;
	int r;

	if (is_whole(sel)) {
		*ret_slice = weir__slice_whole(rec->bytes);
		*ret_dtype = rec->dtype;
		return 0;
	}
	r = weir__slice_make(m, record, sel->sliced ? &sel->slice : NULL,
			     sel->dtype, ret_slice, &t);
	*ret_dtype = t.dtype;
	return r;
}

/* A mapped slice is a view of the whole tensor. */
static int mapped_slice(const struct weir_model *m, size_t record,
			const struct weir_slice *indices,
			struct weir_tensor *ret_tensor)
{
	const struct weir__record *rec = &m->rec[record];
	struct weir_tensor whole, part;
	struct weir__slice slice;
	int r = weir__slice_make(m, record, indices, WEIR_DTYPE_NONE, &slice,
				 &part);

	if (r >= 0)
		r = weir__tensor_init(&whole, rec->dtype, rec->ndim,
				      m->dims + rec->shape);
	if (r < 0)
		return r;
	memcpy(whole.shape, part.shape, sizeof(whole.shape));
	*ret_tensor = whole;
	return 0;
}

int weir__selection_tensor(const struct weir_model *m,
			   const struct weir__selection *sel, size_t record,
			   struct weir_tensor *t)
{
	const struct weir__record *rec = &m->rec[record];
	struct weir__slice slice;
	int r;

	if (is_whole(sel))
		r = weir__tensor_init(t, rec->dtype, rec->ndim,
				      m->dims + rec->shape);
	else if (sel->way == WEIR_WAY_MAP)
		r = mapped_slice(m, record, &sel->slice, t);
	else
		r = weir__slice_make(m, record,
				     sel->sliced ? &sel->slice : NULL,
				     sel->dtype, &slice, t);
	if (r >= 0)
		t->name = weir__record_name(m, record);
	return r;
}

/* The tensors that a call chooses: records [first, end) that match. */
struct choice {
	struct weir_plan *plan;
	const char *pattern; /* NULL: all of them */
	size_t first, end;
	struct weir__selection selection;
	unsigned number; /* number of the selection in the plan */
};

static bool choice_has(const struct choice *c, size_t i)
{
	return !c->plan->choice[i] && matches(c->pattern, c->plan->model, i);
}

/* Refuse the whole call if a tensor cannot be sliced or converted. */
static int choice_check(const struct choice *c)
{
	enum weir_dtype dtype;
	struct weir__slice slice;
	int r = 0;

	if (is_whole(&c->selection))
		return 0;
	for (size_t i = c->first; i < c->end && r >= 0; i++)
		if (choice_has(c, i))
			r = weir__selection_slice(c->plan->model, &c->selection,
						  i, &slice, &dtype);
	return r;
}

static void choose(struct choice *c, size_t i)
{
	struct weir_plan *plan = c->plan;

	plan->choice[i] = WEIR__CHOSEN | c->number;
	plan->selection[c->number].tensors++;
	plan->n++;
	if (i < plan->first)
		plan->first = i;
}

/* Return the greatest alignment of the tensors that a call may choose. */
static uint64_t choice_align(const struct choice *c)
{
	enum weir_dtype dtype;
	struct weir__slice slice;
	uint64_t most = 1;

	for (size_t i = c->first; i < c->end; i++) {
		uint64_t align;

		if (!choice_has(c, i) ||
		    weir__selection_slice(c->plan->model, &c->selection, i,
					  &slice, &dtype) < 0)
			continue;
		align = weir__selection_align(&c->selection, dtype);
		if (align > most)
			most = align;
	}
	return most;
}

#define NO_LAYER UINT64_MAX

/* Tensors by layer, to fill memory of a limited capacity with whole layers. */
struct layers {
	const struct weir_model *model;
	struct layer_tensor {
		size_t record;
		uint64_t layer; /* its number, or NO_LAYER */
		uint64_t bytes; /* bytes of memory that it needs */
	} * tensor;
	size_t n, max;
};

/*
 * Return the first component of a name that is a number: 7 in
 * "model.layers.7.up".
 */
static uint64_t layer_of(const char *name, size_t len)
{
	size_t at = 0;

	while (at < len) {
		uint64_t n = 0;
		size_t i = at;

		while (i < len && name[i] >= '0' && name[i] <= '9' &&
		       n < NO_LAYER / 10 - 1)
			n = n * 10 + (uint64_t)(name[i++] - '0');
		if (i > at && (i == len || name[i] == '.'))
			return n;
		while (i < len && name[i] != '.')
			i++;
		at = i + 1;
	}
	return NO_LAYER;
}

static int layers_add(struct layers *l, size_t record, uint64_t bytes)
{
	const struct weir__record *rec = &l->model->rec[record];
	struct layer_tensor *t =
		weir__grow(l->tensor, &l->max, l->n, sizeof(*t));

	if (!t)
		return weir__fail(-ENOMEM,
				  "%s: no memory for a list of %zu tensors",
				  l->model->path, l->n);
	l->tensor = t;
	t[l->n++] = (struct layer_tensor){
		.record = record,
		.layer = layer_of(l->model->text + rec->name, rec->name_len),
		.bytes = bytes,
	};
	return 0;
}

static int by_layer(const void *a, const void *b)
{
	const struct layer_tensor *x = a, *y = b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return x->record < y->record ? -1 : x->record > y->record;
}

/*
 * Keep the layers that fit @capacity bytes, in the order of their numbers, up
 * to the first that does not; then tensors of no layer, in the order of the
 * model.
 */
static void layers_fit(struct layers *l, uint64_t capacity)
{
	uint64_t used = 0;
	size_t i = 0;

	if (l->n > 1)
		qsort(l->tensor, l->n, sizeof(*l->tensor), by_layer);
	while (i < l->n) {
		uint64_t layer = l->tensor[i].layer, sum = used;
		size_t end = i;

		do {
			if (weir__add_over(sum, l->tensor[end].bytes, &sum))
				sum = UINT64_MAX;
			end++;
		} while (end < l->n && layer != NO_LAYER &&
			 l->tensor[end].layer == layer);
		if (sum > capacity)
			break;
		used = sum;
		i = end;
	}
	l->n = i;
}

/*
 * Choose the layers that fit the capacity. Each tensor is counted as if it
 * began at a multiple of the greatest alignment; its place needs no more than
 * that.
 */
static int choose_layers(struct choice *c, uint64_t capacity)
{
	uint64_t align = choice_align(c), has = c->selection.buft->desc.align;
	uint64_t lead = align > has ? align - has : 0;
	struct layers layers = { .model = c->plan->model };
	enum weir_dtype dtype;
	struct weir__slice slice;
	int r = 0;

	for (size_t i = c->first; i < c->end && r >= 0; i++) {
		if (!choice_has(c, i))
			continue;
		r = weir__selection_slice(c->plan->model, &c->selection, i,
					  &slice, &dtype);
		if (r >= 0)
			r = layers_add(&layers, i,
				       weir__up(slice.rows * slice.mem_width,
						align));
	}
	if (r >= 0)
		layers_fit(&layers, capacity > lead ? capacity - lead : 0);
	for (size_t i = 0; i < layers.n && r >= 0; i++)
		choose(c, layers.tensor[i].record);
	weir__free(layers.tensor);
	return r;
}

/* Choose what matches @glob for c->selection. Returns how many tensors. */
static int choose_matching(struct choice *c, const char *glob,
			   uint64_t capacity)
{
	struct weir_model *m = c->plan->model;
	size_t seen, before = c->plan->n;
	int r;

	c->pattern = candidates(m, glob, &c->first, &c->end) ? NULL : glob;
	for (seen = c->first; seen < c->end && !matches(c->pattern, m, seen);)
		seen++;
	if (seen == c->end && (glob || m->n_recs))
		return weir__fail(-ENOENT, "%s: no tensor matches '%s'",
				  m->path, glob ? glob : "*");
	c->first = seen;
	weir__layout_forget(c->plan);
	r = choice_check(c);
	if (r >= 0)
		r = add_selection(c->plan, &c->selection);
	if (r < 0)
		return r;
	c->number = (unsigned)r;
	if (capacity)
		r = choose_layers(c, capacity);
	for (size_t i = c->first; i < c->end && !capacity; i++)
		if (choice_has(c, i))
			choose(c, i);
	if (r < 0)
		return r;
	return c->plan->n - before > INT32_MAX ? INT32_MAX
					       : (int)(c->plan->n - before);
}

int weir_plan_add(struct weir_plan *plan, const char *glob,
		  struct weir_buft *buft, const struct weir_select_opts *opts)
{
	struct choice c = { .plan = plan };
	struct weir_select_opts o;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(plan->model->weir);
	if (!r)
		r = weir__opts_in(&o, sizeof(o), opts);
	if (!r)
		r = check_selection(plan, buft, &o);
	if (r < 0)
		return r;
	c.selection = selection_of(plan, buft, &o);
	return choose_matching(&c, glob, o.capacity);
}

static int check_sink(const struct weir_sink *sink)
{
	int r = weir__plan_check_way(sink->way);

	if (!r && sink->way == WEIR_WAY_MAP)
		r = weir__fail(-EINVAL, "WEIR_WAY_MAP: a sink has no memory");
	if (!r && sink->reserved)
		r = weir__fail(-EINVAL, "reserved is %u, not 0",
			       sink->reserved);
	return r;
}

int weir_plan_sink(struct weir_plan *plan, const char *glob,
		   const struct weir_sink *sink)
{
	struct choice c = { .plan = plan };
	int r;

	WEIR__ENTER();
	r = weir__root_enter(plan->model->weir);
	if (!r)
		r = weir__opts_in(&c.selection.sink, sizeof(c.selection.sink),
				  sink);
	if (!r)
		r = check_sink(&c.selection.sink);
	if (r < 0)
		return r;
	c.selection.way = c.selection.sink.way;
	return choose_matching(&c, glob, 0);
}
