/* SPDX-License-Identifier: MIT */
/*
 * The memory of the weights, and their load, in the order in which a pass uses
 * them.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "llama.h"

/* Llama 3: long waves are stretched, short ones are not. */
static int set_factors(const struct llama_config *c,
		       const struct weir_tensor *t)
{
	const struct llama3_scaling *s = &c->llama3;
	int ret = 0;

	for (int64_t i = 0; i < t->shape[0] && ret == 0; i++) {
		double turn =
			pow(c->rope.base, 2.0 * (double)i / c->rope.n_dims);
		double waves = s->context / (2 * M_PI * turn);
		double share = (waves - s->low) / (s->high - s->low);
		float factor;

		share = fmin(fmax(share, 0), 1);
		factor = (float)(1 / ((1 - share) / s->factor + share));
		ret = weir_tensor_set(t, (size_t)i * sizeof(factor), &factor,
				      sizeof(factor));
	}
	return ret;
}

/* The tensors as the load has placed them, and their numbers in it. */
static int take_places(const struct weir_model *model, struct llama_weights *w,
		       size_t n)
{
	const size_t all = weir_model_count(model);
	size_t *of = calloc(all + 1, sizeof(*of)); /* 1 + number in @w */
	size_t number = 0;

	if (!of)
		return llama_fail(-ENOMEM, "no memory for %zu numbers", all);
	for (size_t i = 0; i < n; i++)
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
static int record_events(struct weir *weir, struct llama_weights *w, size_t n)
{
	int ret = 0;

	for (size_t i = 0; i < n && ret == 0; i++) {
		ret = weir_event_new(weir, 0, &w->event[i]);
		if (ret == 0)
			ret = weir_load_record(w->load, w->source[i].number,
					       w->event[i]);
	}
	return ret;
}

static int put(struct weir_plan *plan, const struct llama_weights *w, size_t n,
	       struct weir_buft *buft)
{
	struct weir_put_opts opts = WEIR_PUT_OPTS_INIT;
	int ret = 0;

	for (size_t i = 0; i < n && ret >= 0; i++) {
		opts.priority = (int32_t)-w->source[i].order;
		ret = weir_plan_put(plan, w->tensor[i].name, buft, &opts);
	}
	return ret;
}

/*
 * Load the first @n tensors. The plan places them where direct reads can write
 * to them: their addresses follow their offsets in the file.
 */
static int start_load(struct weir *weir, struct weir_model *model,
		      struct llama_weights *w, size_t n, struct weir_buft *buft)
{
	struct weir_plan *plan = NULL;
	int ret;

	if ((ret = weir_plan_new(model, &plan)) == 0 &&
	    (ret = put(plan, w, n, buft)) >= 0 &&
	    (ret = weir_load_start(plan, NULL, &w->load)) == 0)
		ret = weir_load_weights(w->load, &w->weights);
	weir_plan_free(plan);
	if (ret < 0 || (ret = take_places(model, w, n)) < 0)
		return ret;
	return record_events(weir, w, n);
}

int llama_weights_load(struct weir *weir, struct weir_model *model,
		       const struct llama_config *c, struct llama_weights *w)
{
	const bool computed = w->factors < w->n &&
			      w->source[w->factors].entry == LLAMA_COMPUTED;
	struct weir_buft *huge;
	int ret;

	if ((ret = weir_dev_buft(weir_dev_get(weir, 0), WEIR_MEM_HUGE, &huge)) <
	    0)
		return ret;
	if (computed && ((ret = weir_tensors_alloc(huge, &w->tensor[w->factors],
						   1, &w->buf)) < 0 ||
			 (ret = set_factors(c, &w->tensor[w->factors])) < 0))
		return ret;
	return start_load(weir, model, w, w->n - computed, huge);
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
