/* SPDX-License-Identifier: MIT */
#include "model/load/weights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"

static int take_buf(struct weir_weights *w, size_t i)
{
	const struct weir__layout_buf *b = &w->layout->buf[i];
	struct weir_buf_opts opts = WEIR_BUF_OPTS_INIT;

	if (b->given) {
		/* A buffer that can be parked is the library's. */
		int r = b->foreign
				? 0
				: weir__buf_check_there(b->given, "a buffer");

		if (r < 0)
			return r;
		w->buf[i] = i < w->layout->n_selected_bufs
				    ? weir_buf_ref(b->given)
				    : b->given;
		return 0;
	}
	if (b->buft->desc.kind == WEIR_MEM_MAPPED)
		return weir__buf_map(b->buft, w->model->file[b->map_shard],
				     b->map_off, b->bytes, &w->buf[i]);
	opts.flags = b->flags;
	return weir__buf_alloc(b->buft, weir__layout_bytes(b), &opts,
			       &w->buf[i]);
}

/* Allocate the buffers, and move the tensors in each to an aligned address. */
static int take_bufs(struct weir_weights *w)
{
	bool lead = false;

	for (size_t i = 0; i < w->layout->n_bufs; i++) {
		struct weir__layout_buf *b = &w->layout->buf[i];
		int r = take_buf(w, i);

		if (r < 0)
			return r;
		if (b->given)
			continue;
		b->base = w->buf[i]->mem.base;
		b->lead = -(uintptr_t)b->base & (b->align - 1);
		lead |= b->lead != 0;
	}
	if (lead)
		weir__layout_lead(w->layout);
	return 0;
}

static void weights_destroy(struct weir_weights *w)
{
	weir__parked_put(w->parked);
	for (size_t i = 0; i < w->layout->n_selected_bufs; i++)
		weir__buf_put(w->buf[i]);
	weir__targets_put(w->targets);
	weir__arrival_put(w->arrival);
	weir__layout_put(w->layout);
	weir__free(w->by_record);
	weir__model_put(w->model);
	pthread_mutex_destroy(&w->lock);
	weir__free(w);
}

static int by_record(const void *a, const void *b, void *arg)
{
	const struct weir__tensor_placement *place = arg;
	size_t i = *(const size_t *)a, k = *(const size_t *)b;

	if (place[i].record != place[k].record)
		return place[i].record < place[k].record ? -1 : 1;
	return i < k ? -1 : i > k;
}

/*
 * Targets are in any order: the first call of weir_weights_find sorts them by
 * record. False: no memory.
 */
static bool sort_targets(struct weir_weights *w)
{
	size_t n = w->layout->n - w->n_selected, *sorted;

	pthread_mutex_lock(&w->lock);
	sorted = w->by_record;
	if (!sorted && n)
		sorted = weir__malloc(n * sizeof(*sorted));
	if (sorted && !w->by_record) {
		for (size_t i = 0; i < n; i++)
			sorted[i] = w->n_selected + i;
		qsort_r(sorted, n, sizeof(*sorted), by_record,
			w->layout->placement);
		w->by_record = sorted;
	}
	pthread_mutex_unlock(&w->lock);
	return sorted;
}

/* Set tensor @i, which a selection has chosen; a sink has no buffer. */
static int set_tensor(struct weir_weights *w, const struct weir_plan *plan,
		      size_t i)
{
	const struct weir__tensor_placement *place = &w->layout->placement[i];
	struct weir_tensor *t = &w->tensor[i];
	int r = weir__selection_tensor(
		plan->model,
		&plan->selection[weir__plan_choice(plan, place->record)],
		place->record, t);

	if (r < 0 || place->buf == WEIR__NO_BUF)
		return r;
	t->buf = w->buf[place->buf];
	t->offset = place->at;
	return 0;
}

int weir__weights_new(const struct weir_plan *plan, struct weir__layout *layout,
		      struct weir_weights **ret_weights)
{
	struct weir_model *model = plan->model;
	struct weir_weights *w =
		weir__calloc(1, sizeof(*w) + plan->n * sizeof(w->tensor[0]) +
					layout->n_bufs * sizeof(w->buf[0]));
	int r;

	if (!w) {
		weir__fail(
			-ENOMEM,
			"%s: no memory for weights of %zu tensors of %zu bytes",
			model->path, plan->n, sizeof(w->tensor[0]));
		weir__layout_put(layout);
		return -ENOMEM;
	}
	atomic_init(&w->refs, 1);
	pthread_mutex_init(&w->lock, NULL);
	w->model = weir__model_ref(model);
	w->layout = layout;
	w->n_selected = plan->n;
	w->targets = weir__targets_ref(plan->targets);
	w->buf = (struct weir_buf **)(w->tensor + w->n_selected);
	r = take_bufs(w);
	for (size_t i = 0; i < w->n_selected && r >= 0; i++)
		r = set_tensor(w, plan, i);
	if (r < 0) {
		weights_destroy(w);
		return r;
	}
	*ret_weights = w;
	return 0;
}

static bool same_record(const struct weir_model *a, const struct weir_model *b,
			size_t i)
{
	const struct weir__record *x = &a->rec[i], *y = &b->rec[i];

	return x->name_len == y->name_len && x->dtype == y->dtype &&
	       x->ndim == y->ndim && x->bytes == y->bytes &&
	       x->shard == y->shard && x->off == y->off &&
	       !memcmp(a->text + x->name, b->text + y->name, x->name_len) &&
	       !memcmp(a->dims + x->shape, b->dims + y->shape,
		       x->ndim * sizeof(*a->dims));
}

/* Weights keep their mapping, so the file must be the same. */
static int same_mapping(const struct weir_weights *w,
			const struct weir_model *model, size_t i)
{
	const struct weir__layout_buf *b = &w->layout->buf[i];
	const struct weir__file_id *x, *y;

	if (b->buft->desc.kind != WEIR_MEM_MAPPED)
		return 0;
	x = &w->model->file[b->map_shard]->id;
	y = &model->file[b->map_shard]->id;
	if (x->dev == y->dev && x->ino == y->ino && x->bytes == y->bytes)
		return 0;
	return weir__fail(-ESTALE, "%s: is not the file that is mapped",
			  model->file[b->map_shard]->base);
}

int weir__weights_reuse(const struct weir_weights *w,
			const struct weir_model *model,
			const struct weir__layout *layout)
{
	if (!w->model->n_files)
		return weir__fail(-EROFS,
				  "the weights are shared, and only read");
	if (model->n_recs != w->model->n_recs ||
	    model->n_files != w->model->n_files)
		return weir__fail(
			-EINVAL,
			"the weights are of a model of %zu tensors in %u files, not of %zu in %u",
			w->model->n_recs, w->model->n_files, model->n_recs,
			model->n_files);
	for (size_t i = 0; i < model->n_recs; i++)
		if (!same_record(model, w->model, i))
			return weir__fail(
				-EINVAL,
				"tensor '%s' differs from that of the weights",
				weir__quote(weir__record_name(model, i),
					    model->rec[i].name_len));
	for (size_t i = 0; i < w->layout->n_bufs; i++) {
		int r = same_mapping(w, model, i);

		if (r < 0)
			return r;
	}
	return weir__layout_same(layout, w->layout);
}

int weir__weights_attach(struct weir_weights *w, struct weir__arrival *arrival)
{
	struct weir__arrival *old;
	int r = 0;

	pthread_mutex_lock(&w->lock);
	old = w->arrival;
	if (old && !atomic_load(&old->finished))
		r = weir__fail(-EBUSY,
			       "the weights are being filled by another load");
	else if (old && atomic_load(&old->leaked))
		r = weir__fail(
			-EIO,
			"reads of an earlier load were lost and may still write to these weights");
	if (r < 0) {
		old = NULL;
	} else {
		weir__timeline_ref(&arrival->timeline);
		w->arrival = arrival;
	}
	pthread_mutex_unlock(&w->lock);
	weir__arrival_put(old);
	return r;
}

size_t weir_weights_count(const struct weir_weights *weights)
{
	return weir__root_is_ours(weights->model->weir) ? weights->layout->n
							: 0;
}

const struct weir_tensor *weir_weights_get(const struct weir_weights *weights,
					   size_t i)
{
	return i < weir_weights_count(weights)
		       ? weir__weights_tensor(weights, i)
		       : NULL;
}

/*
 * The first of the @n placements @order[], which are sorted by record (NULL:
 * they are placements 0 to n - 1), that is of @record.
 */
static size_t find_place(const struct weir_weights *w, const size_t *order,
			 size_t n, size_t record)
{
	const struct weir__tensor_placement *place = w->layout->placement;
	size_t lo = 0, hi = n, i;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (place[order ? order[mid] : mid].record < record)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == n)
		return WEIR__NONE;
	i = order ? order[lo] : lo;
	return place[i].record == record ? i : WEIR__NONE;
}

static size_t tensor_of(struct weir_weights *w, size_t record)
{
	size_t i = find_place(w, NULL, w->n_selected, record);

	if (i != WEIR__NONE)
		return i;
	if (sort_targets(w))
		return find_place(w, w->by_record, w->layout->n - w->n_selected,
				  record);
	/* There are none, or no memory to sort them. */
	for (i = w->n_selected; i < w->layout->n; i++)
		if (w->layout->placement[i].record == record)
			return i;
	return WEIR__NONE;
}

size_t weir__weights_lookup(struct weir_weights *w, const char *name)
{
	size_t record = weir__model_lookup(w->model, name, strlen(name));

	return record == WEIR__NONE ? WEIR__NONE : tensor_of(w, record);
}

const struct weir_tensor *weir_weights_find(const struct weir_weights *weights,
					    const char *name)
{
	/* Not const for us: the lock, and what it guards. */
	struct weir_weights *w = (void *)(uintptr_t)weights;
	size_t i;

	/* After a fork the lock may be held for ever. */
	if (!weir__root_is_ours(w->model->weir))
		return NULL;
	i = weir__weights_lookup(w, name);
	return i == WEIR__NONE ? NULL : weir_weights_get(weights, i);
}

int weir_weights_entry(const struct weir_weights *weights, size_t i,
		       struct weir_entry *ret_entry)
{
	int r;

	WEIR__ENTER();
	r = weir__root_read(weights->model->weir);
	if (r < 0)
		return r;
	if (i >= weights->layout->n)
		return weir__fail(-EINVAL, "tensor %zu of %zu", i,
				  weights->layout->n);
	return weir_model_tensor(weights->model,
				 weights->layout->placement[i].record,
				 ret_entry);
}

struct weir_weights *weir_weights_ref(struct weir_weights *weights)
{
	weir__refs_add(&weights->refs, 1);
	return weights;
}

void weir_weights_free(struct weir_weights *weights)
{
	if (weights && weir__root_is_ours(weights->model->weir) &&
	    weir__refs_drop(&weights->refs))
		weights_destroy(weights);
}
