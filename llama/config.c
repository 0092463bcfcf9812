/* SPDX-License-Identifier: MIT */
/*
 * Hyperparameters are read from the files of a model and checked against each
 * other.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "llama.h"

/*
 * The numbers of a model are far below this, so that products of two of them
 * fit.
 */
#define MOST INT32_MAX

static int check_range(const char *what, int64_t n)
{
	if (n >= 1 && n <= MOST)
		return 0;
	return llama_fail(-EBADMSG, "%s is %" PRId64 ", not 1 to %d", what, n,
			  MOST);
}

static int check_ranges(const struct llama_config *c)
{
	const struct {
		const char *what;
		int64_t n;
	} all[] = {
		{ "the number of layers", c->layers },
		{ "the length of an embedding", c->embedding },
		{ "the length of the feed-forward network", c->inner },
		{ "the size of the vocabulary", c->vocabulary },
		{ "the context length", c->context },
		{ "the number of heads", c->heads },
		{ "the number of KV heads", c->kv_heads },
		{ "the length of a head", c->head },
	};
	int ret = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all) && ret == 0; i++)
		ret = check_range(all[i].what, all[i].n);
	return ret;
}

static bool positive(double x)
{
	return x > 0 && !isinf(x);
}

static int check_rope(const struct llama_config *c)
{
	const struct weir_op_rope *r = &c->rope;

	if (r->n_dims % 2 || r->n_dims > c->head)
		return llama_fail(-EBADMSG,
				  "%" PRIu32 " dimensions are rotated: not an "
				  "even number up to %" PRId64 ", the length "
				  "of a head",
				  r->n_dims, c->head);
	if (!positive((double)r->base))
		return llama_fail(-EBADMSG, "the base of RoPE is %g",
				  (double)r->base);
	if (!positive((double)r->freq_scale))
		return llama_fail(-EBADMSG, "the factor of RoPE is %g",
				  (double)(1 / r->freq_scale));
	if (!positive((double)r->attn_factor))
		return llama_fail(-EBADMSG,
				  "the attention factor of RoPE is %g",
				  (double)r->attn_factor);
	if (r->ext_factor != 0 && !r->context)
		return llama_fail(-EBADMSG,
				  "the original context length of "
				  "RoPE of type yarn is not 1 to %d",
				  MOST);
	return 0;
}

static int check_scaling(const struct llama_scaling *s)
{
	if (s->type == LLAMA_SCALING_LLAMA3 &&
	    !(positive(s->factor) && positive(s->low) && positive(s->high) &&
	      s->high > s->low && positive(s->context)))
		return llama_fail(-EBADMSG,
				  "RoPE of type llama3 has factor %g, low %g, "
				  "high %g, context %g",
				  s->factor, s->low, s->high, s->context);
	if (s->type == LLAMA_SCALING_YARN &&
	    !(positive(s->factor) && positive(s->fast) && positive(s->slow) &&
	      positive(s->context)))
		return llama_fail(-EBADMSG,
				  "RoPE of type yarn has factor %g, beta_fast "
				  "%g, beta_slow %g, context %g",
				  s->factor, s->fast, s->slow, s->context);
	return 0;
}

static int config_check(const struct llama_config *c)
{
	int ret = check_ranges(c);

	if (ret < 0)
		return ret;
	if (c->heads % c->kv_heads)
		return llama_fail(-EBADMSG,
				  "%" PRId64
				  " heads are no multiple of %" PRId64
				  " KV heads",
				  c->heads, c->kv_heads);
	if (!(c->eps >= 0) || isinf(c->eps))
		return llama_fail(-EBADMSG, "the epsilon of the norms is %g",
				  (double)c->eps);
	if (c->window < 0 || c->window > MOST || c->full_layers < 0)
		return llama_fail(-EBADMSG,
				  "a window of %" PRId64
				  " tokens after %" PRId64
				  " layers: not 0 to %d, and 0 or more",
				  c->window, c->full_layers, MOST);
	ret = check_rope(c);
	return ret < 0 ? ret : check_scaling(&c->scaling);
}

bool llama_has_window(const struct llama_config *c, int64_t layer)
{
	return c->window && layer >= c->full_layers;
}

int llama_config_read(const struct weir_model *model, struct llama_config *c)
{
	struct weir_model_info info = { .size = sizeof(info) };
	int ret = weir_model_info(model, &info);

	*c = (struct llama_config){ .bos = -1,
				    .pad = -1,
				    .rope.freq_scale = 1,
				    .rope.attn_factor = 1 };
	for (unsigned i = 0; i <= LLAMA_DOWN; i++)
		c->has[i] = i != LLAMA_Q_NORM && i != LLAMA_K_NORM;
	if (ret == 0)
		ret = strcmp(info.format, "GGUF") ? llama_config_hf(model, c)
						  : llama_config_gguf(model, c);
	if (ret < 0 || (ret = config_check(c)) < 0)
		return ret;
	if (c->window >= c->context)
		c->window = 0;
	return 0;
}

bool llama_is_end(const struct llama_config *c, int32_t token)
{
	for (size_t i = 0; i < c->ends; i++)
		if (c->end[i] == token)
			return true;
	return false;
}
