/* SPDX-License-Identifier: MIT */
/*
 * The memory of the weights, and their load, in the order in which a pass uses
 * them. With a budget the large weights remain in their files.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "llama.h"

static int set_factors(const struct llama_config *c,
		       const struct weir_tensor *t)
{
	int ret = 0;

	for (int64_t i = 0; i < t->shape[0] && ret == 0; i++) {
		float factor = (float)llama_rope_divisor(c, i);

		ret = weir_tensor_set(t, (size_t)i * sizeof(factor), &factor,
				      sizeof(factor));
	}
	return ret;
}

/* Small tensors, and tensors that are converted, are loaded. */
static bool stays_in_file(const struct llama *l, size_t i)
{
	const struct llama_source *s = &l->weights.source[i];

	return l->opts.budget && s->same && l->weights.tensor[i].ndim > 1;
}

static int find_file(struct llama *l, size_t i)
{
	struct llama_source *s = &l->weights.source[i];
	struct weir_entry e = { .size = sizeof(e) };
	int ret = weir_model_tensor(l->model, s->entry, &e);

	if (ret < 0)
		return ret;
	s->file = weir_model_file(l->model, e.shard);
	s->offset = e.offset;
	return 0;
}

/* Find the files of weights that stay there, and count bytes of the others. */
static int divide_bytes(struct llama *l)
{
	const struct llama_weights *w = &l->weights;
	int ret = 0;

	for (size_t i = 0; i < w->n && ret == 0; i++) {
		size_t bytes;

		if (stays_in_file(l, i)) {
			ret = find_file(l, i);
			continue;
		}
		ret = weir_tensor_bytes(&w->tensor[i], &bytes);
		if (ret == 0)
			l->part[w->source[i].part].bytes += (int64_t)bytes;
	}
	return ret;
}

static int check_budget(const struct llama *l)
{
	for (unsigned i = 0; i < l->n_parts && l->opts.budget; i++)
		if (l->part[i].bytes >= l->opts.budget)
			return llama_fail(-ENOMEM,
					  "a budget of %" PRId64
					  " bytes for weights, of which "
					  "%" PRId64 " always stay in memory",
					  l->opts.budget, l->part[i].bytes);
	return 0;
}

static bool is_loaded(const struct llama_weights *w, size_t i)
{
	return w->source[i].entry != LLAMA_COMPUTED && !w->source[i].file;
}

/* Take the places that the load gave to tensors, and their numbers in it. */
static int take_places(const struct weir_model *model, struct llama_weights *w)
{
	const size_t all = weir_model_count(model);
	size_t *of = calloc(all + 1, sizeof(*of)); /* 1 + number in @w */
	size_t number = 0;

	if (!of)
		return llama_fail(-ENOMEM, "no memory for %zu numbers", all);
	for (size_t i = 0; i < w->n; i++)
		if (is_loaded(w, i))
			of[w->source[i].entry] = 1 + i;
	for (size_t k = 0; k < all; k++) {
		if (!of[k])
			continue;
		w->tensor[of[k] - 1] = *weir_weights_get(w->weights, number);
		w->source[of[k] - 1].number = number++;
	}
	free(of);
	return 0;
}

/* One event for each tensor that is loaded. */
static int record_events(struct weir *weir, struct llama_weights *w)
{
	int ret = 0;

	for (size_t i = 0; i < w->n && ret == 0; i++) {
		if (!is_loaded(w, i))
			continue;
		ret = weir_event_new(weir, 0, &w->event[i]);
		if (ret == 0)
			ret = weir_load_record(w->load, w->source[i].number,
					       w->event[i]);
	}
	return ret;
}

static int put(struct weir_plan *plan, const struct llama *l)
{
	const struct llama_weights *w = &l->weights;
	struct weir_select_opts opts = WEIR_SELECT_OPTS_INIT;
	int ret = 0;

	for (size_t i = 0; i < w->n && ret >= 0; i++) {
		const struct llama_source *s = &w->source[i];

		if (!is_loaded(w, i))
			continue;
		opts.priority = (int32_t)-s->order;
		opts.dtype = s->same ? 0 : w->tensor[i].dtype;
		ret = weir_plan_add(plan, w->tensor[i].name,
				    l->part[s->part].buft, &opts);
	}
	return ret < 0 ? ret : 0;
}

/*
 * The plan places tensors where direct reads can write to them: their addresses
 * follow their offsets in the file.
 */
static int start_load(struct llama *l)
{
	struct llama_weights *w = &l->weights;
	struct weir_plan *plan = NULL;
	int ret;

	if ((ret = weir_plan_new(l->model, &plan)) == 0 &&
	    (ret = put(plan, l)) == 0 &&
	    (ret = weir_load_start(plan, NULL, &w->load)) == 0)
		ret = weir_load_weights(w->load, &w->weights);
	weir_plan_free(plan);
	if (ret < 0 || (ret = take_places(l->model, w)) < 0)
		return ret;
	return record_events(l->weir, w);
}

static int compute_factors(struct llama *l)
{
	struct llama_weights *w = &l->weights;
	struct weir_tensor *t = &w->tensor[w->factors];
	int ret = weir_tensors_alloc(l->part[0].buft, t, 1, &w->buf);

	return ret < 0 ? ret : set_factors(&l->config, t);
}

/* True if weight @i is one that part @p would load. */
static bool is_weight_of(const struct llama *l, size_t i, unsigned p)
{
	return is_loaded(&l->weights, i) && l->weights.source[i].part == p;
}

static int place_unloaded(struct llama *l)
{
	int ret = 0;

	for (unsigned p = 0; p < l->n_parts && ret == 0; p++)
		ret = llama_part_alloc(l, p, l->weights.tensor, l->weights.n,
				       is_weight_of, &l->part[p].unloaded);
	return ret;
}

int llama_weights_load(struct llama *l)
{
	const struct llama_weights *w = &l->weights;
	int ret;

	if ((ret = divide_bytes(l)) < 0 || (ret = check_budget(l)) < 0)
		return ret;
	if (w->factors < w->n &&
	    w->source[w->factors].entry == LLAMA_COMPUTED &&
	    (ret = compute_factors(l)) < 0)
		return ret;
	return l->opts.unloaded ? place_unloaded(l) : start_load(l);
}

void llama_weights_free(struct llama_weights *w)
{
	for (size_t i = 0; w->event && i < w->n; i++)
		weir_event_free(w->event[i]);
	weir_load_free(w->load);
	weir_weights_free(w->weights);
	weir_buf_free(w->buf);
	free(w->event);
	free(w->source);
	free(w->tensor);
}
