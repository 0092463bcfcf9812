/* SPDX-License-Identifier: MIT */
#include "model/load/plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "core/error.h"
#include "core/sys.h"
#include "core/util.h"
#include "mem/dtype.h"
#include "mem/tensor.h"
#include "model/load/layers.h"

#define MAX_ALIGN 4096u /* a page; direct reads need no more */
#define SPARE_PUTS 16u  /* the most for which a spare plan keeps its array */

/* An empty plan: the one that the model keeps, or a new one. NULL: no memory. */
static struct weir_plan *plan_take(struct weir_model *model)
{
	struct weir_plan *p = atomic_exchange(&model->spare_plan, NULL);

	if (p)
		return p;
	p = weir__calloc(1, sizeof(*p) + model->n_recs * sizeof(p->choice[0]));
	if (p)
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

/* No record is chosen any more. Reads those from the first to the last chosen. */
static void choices_clear(struct weir_plan *plan)
{
	for (size_t i = 0; i < weir__plan_n_targets(plan); i++) {
		uint32_t *choice =
			&plan->choice[plan->targets->item[i].spot.record];

		if (*choice == WEIR__CHOSEN_AS_TARGET)
			*choice = 0;
	}
	for (size_t i = plan->first; plan->n; i++) {
		plan->n -= plan->choice[i] != 0;
		plan->choice[i] = 0;
	}
	plan->first = plan->model->n_recs;
}

/* Make the plan as it was when it was new. Its array of puts stays if small. */
static void plan_clear(struct weir_plan *plan)
{
	for (unsigned i = 0; i < plan->n_puts; i++)
		weir__buf_put(plan->put[i].buf);
	plan->n_puts = 0;
	if (plan->max_puts > SPARE_PUTS) {
		weir__free(plan->put);
		plan->put = NULL;
		plan->max_puts = 0;
	}
	weir__plan_changed(plan);
	choices_clear(plan);
	weir__targets_put(plan->targets);
	plan->targets = NULL;
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
	weir__plan_destroy(atomic_exchange(&model->spare_plan, plan));
	weir__model_put(model);
}

void weir__plan_destroy(struct weir_plan *spare)
{
	if (!spare)
		return;
	weir__free(spare->put);
	weir__free(spare);
}

uint64_t weir__put_align(const struct weir__put *put, enum weir_dtype dtype)
{
	const struct weir_dtype_info *row = weir__dtype(dtype);

	if (put->align)
		return put->align;
	if (!(put->buft->desc.flags & WEIR_BUFT_HOST))
		return put->buft->desc.align;
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
	if (o->buf->buft->desc.flags & WEIR_BUFT_READONLY)
		return weir__fail(-EINVAL, "a buffer of %s cannot be written",
				  o->buf->buft->desc.name);
	if (o->offset > o->buf->bytes)
		return weir__fail(
			-EINVAL,
			"offset %llu is after the end of a buffer of %zu bytes",
			(unsigned long long)o->offset, o->buf->bytes);
	return 0;
}

static int check_align(uint64_t align)
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
		r = check_align(align);
	if (!r)
		plan->align = align;
	return r;
}

static int check_put(const struct weir_plan *plan, struct weir_buft *buft,
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
	r = check_align(o->align);
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

/* fnmatch(3) sees no more than a C string: a name with a NUL matches only "*". */
static bool matches(const char *glob, const struct weir_model *m, size_t i)
{
	const char *name = weir__record_name(m, i);

	if (!glob || !strcmp(glob, "*"))
		return true;
	return strlen(name) == m->rec[i].name_len && !fnmatch(glob, name, 0);
}

/*
 * The records that @glob can match: all of them, or if it has no wildcard the one
 * of that name. So a plan with a put for each tensor takes linear time. True: it
 * matches all of these.
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

static bool same_put(const struct weir__put *a, const struct weir__put *b)
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
 * put, with one buffer: a program may make a call for each tensor. Calls with
 * an equal sink always do, so that it is called by one thread. Returns the
 * number of the put.
 */
static int find_put(const struct weir_plan *plan, const struct weir__put *put)
{
	for (unsigned i = plan->n_puts; i--;) {
		if (same_put(&plan->put[i], put))
			return (int)i;
		if (!put->sink.chunk)
			break;
	}
	return -1;
}

static int add_put(struct weir_plan *plan, const struct weir__put *new_put)
{
	struct weir__put *put;
	int same = find_put(plan, new_put);

	if (same >= 0) {
		put = &plan->put[same];
		if (weir__add_over(put->capacity, new_put->capacity,
				   &put->capacity))
			put->capacity = UINT64_MAX;
		return same;
	}
	if (plan->n_puts == UINT32_MAX / 2)
		return weir__fail(-EINVAL, "more than %u puts", plan->n_puts);
	put = weir__grow(plan->put, &plan->max_puts, plan->n_puts,
			 sizeof(*put));
	if (!put)
		return weir__fail(-ENOMEM,
				  "%s: no memory for more than %u puts",
				  plan->model->path, plan->n_puts);
	plan->put = put;
	put += plan->n_puts++;
	*put = *new_put;
	if (put->buf)
		weir_buf_ref(put->buf);
	return (int)plan->n_puts - 1;
}

static struct weir__put put_of(const struct weir_plan *plan,
			       struct weir_buft *buft,
			       const struct weir_select_opts *o)
{
	struct weir__put put = {
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
		put.slice = *o->slice;
	return put;
}

int weir__put_cut(const struct weir_model *m, const struct weir__put *put,
		  size_t record, struct weir__cut *ret_cut,
		  enum weir_dtype *ret_dtype)
{
	const struct weir__record *rec = &m->rec[record];
	struct weir_tensor t;
	int r;

	if (weir__put_is_whole(put)) {
		*ret_cut = weir__cut_whole(rec->bytes);
		*ret_dtype = rec->dtype;
		return 0;
	}
	r = weir__cut_make(m, record, put->sliced ? &put->slice : NULL,
			   put->dtype, ret_cut, &t);
	*ret_dtype = t.dtype;
	return r;
}

/* A mapped slice is a view of the whole tensor. */
static int mapped_slice(const struct weir_model *m, size_t record,
			const struct weir_slice *slice,
			struct weir_tensor *ret_tensor)
{
	const struct weir__record *rec = &m->rec[record];
	struct weir_tensor whole, part;
	struct weir__cut cut;
	int r = weir__cut_make(m, record, slice, WEIR_DTYPE_NONE, &cut, &part);

	if (r >= 0)
		r = weir__tensor_init(&whole, rec->dtype, rec->ndim,
				      m->dims + rec->shape);
	if (r < 0)
		return r;
	memcpy(whole.shape, part.shape, sizeof(whole.shape));
	*ret_tensor = whole;
	return 0;
}

int weir__plan_tensor(const struct weir_plan *plan,
		      const struct weir__layout *l, size_t i,
		      struct weir_buf *buf, struct weir_tensor *t)
{
	const struct weir_model *m = plan->model;
	const struct weir__spot *s = &l->spot[i];
	const struct weir__record *rec = &m->rec[s->record];
	const struct weir__put *put;
	struct weir__cut cut;
	int r;

	put = &plan->put[plan->choice[s->record] - 1];
	if (weir__put_is_whole(put))
		r = weir__tensor_init(t, rec->dtype, rec->ndim,
				      m->dims + rec->shape);
	else if (put->way == WEIR_WAY_MAP)
		r = mapped_slice(m, s->record, &put->slice, t);
	else
		r = weir__cut_make(m, s->record,
				   put->sliced ? &put->slice : NULL, put->dtype,
				   &cut, t);
	if (r < 0)
		return r;
	t->name = weir__record_name(m, s->record);
	t->buf = buf;
	t->offset = buf ? s->at : 0;
	return 0;
}

/* The tensors that a call chooses: records [first, end) that match. */
struct choice {
	struct weir_plan *plan;
	const char *pattern; /* NULL: all of them */
	size_t first, end;
	struct weir__put put;
	unsigned number; /* of put */
};

static bool choice_has(const struct choice *c, size_t i)
{
	return !c->plan->choice[i] && matches(c->pattern, c->plan->model, i);
}

/* Refuse the whole call if a tensor cannot be sliced or converted. */
static int choice_check(const struct choice *c)
{
	enum weir_dtype dtype;
	struct weir__cut cut;
	int r = 0;

	if (weir__put_is_whole(&c->put))
		return 0;
	for (size_t i = c->first; i < c->end && r >= 0; i++)
		if (choice_has(c, i))
			r = weir__put_cut(c->plan->model, &c->put, i, &cut,
					  &dtype);
	return r;
}

static void choose(struct choice *c, size_t i)
{
	struct weir_plan *plan = c->plan;

	plan->choice[i] = c->number + 1;
	plan->put[c->number].tensors++;
	plan->n++;
	if (i < plan->first)
		plan->first = i;
}

/* The greatest alignment of the tensors that a call may choose. */
static uint64_t choice_align(const struct choice *c)
{
	enum weir_dtype dtype;
	struct weir__cut cut;
	uint64_t most = 1;

	for (size_t i = c->first; i < c->end; i++) {
		uint64_t align;

		if (!choice_has(c, i) ||
		    weir__put_cut(c->plan->model, &c->put, i, &cut, &dtype) < 0)
			continue;
		align = weir__put_align(&c->put, dtype);
		if (align > most)
			most = align;
	}
	return most;
}

/*
 * Choose what fits the capacity: see layers.c. Each tensor counts as if it began
 * at a multiple of the greatest alignment; place.c needs no more than that.
 */
static int choose_layers(struct choice *c, uint64_t capacity)
{
	uint64_t align = choice_align(c), has = c->put.buft->desc.align;
	uint64_t lead = align > has ? align - has : 0;
	struct weir__layers layers;
	enum weir_dtype dtype;
	struct weir__cut cut;
	int r = 0;

	weir__layers_init(&layers, c->plan->model);
	for (size_t i = c->first; i < c->end && r >= 0; i++) {
		if (!choice_has(c, i))
			continue;
		r = weir__put_cut(c->plan->model, &c->put, i, &cut, &dtype);
		if (r >= 0)
			r = weir__layers_add(&layers, i,
					     weir__up(cut.rows * cut.mem_width,
						      align));
	}
	if (r >= 0)
		weir__layers_fit(&layers,
				 capacity > lead ? capacity - lead : 0);
	for (size_t i = 0; i < layers.n && r >= 0; i++)
		choose(c, layers.tensor[i].record);
	weir__layers_fini(&layers);
	return r;
}

/* Choose what matches @glob for c->put. Returns how many tensors. */
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
	weir__plan_changed(c->plan);
	r = choice_check(c);
	if (r >= 0)
		r = add_put(c->plan, &c->put);
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
		r = check_put(plan, buft, &o);
	if (r < 0)
		return r;
	c.put = put_of(plan, buft, &o);
	return choose_matching(&c, glob, o.capacity);
}

static int check_sink(const struct weir_sink *sink)
{
	int r = weir__plan_check_way(sink->way);

	if (!r && sink->way == WEIR_WAY_MAP)
		r = weir__fail(-EINVAL, "WEIR_WAY_MAP: a sink has no memory");
	if (!r && !sink->chunk)
		r = weir__fail(-EINVAL, "a sink without a function");
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
		r = weir__opts_in(&c.put.sink, sizeof(c.put.sink), sink);
	if (!r)
		r = check_sink(&c.put.sink);
	if (r < 0)
		return r;
	c.put.way = c.put.sink.way;
	return choose_matching(&c, glob, 0);
}
