/* SPDX-License-Identifier: MIT */
/* The parameters of RoPE in config.json, as transformers 5 reads them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hf.h"

enum {
	TYPE_BYTES = 32
};

/* The object with the parameters, its name, and what it belongs to. */
struct parameters {
	json_t *o;
	const char *in;
	struct llama_config *config;
};

static int parameter(const struct parameters *p, const char *key, double *x)
{
	return hf_real(p->o, p->in, key, x);
}

static int linear(const struct parameters *p)
{
	double factor = 0;
	int ret = parameter(p, "factor", &factor);

	p->config->rope.freq_scale = (float)(1 / factor);
	return ret;
}

/*
 * The dynamic type changes the base only for positions beyond the context,
 * which are never computed.
 */
static int dynamic(const struct parameters *p)
{
	double factor = 0;

	return parameter(p, "factor", &factor);
}

static int llama3(const struct parameters *p)
{
	struct llama_scaling *s = &p->config->scaling;
	int ret;

	s->type = LLAMA_SCALING_LLAMA3;
	if ((ret = parameter(p, "factor", &s->factor)) < 0 ||
	    (ret = parameter(p, "low_freq_factor", &s->low)) < 0 ||
	    (ret = parameter(p, "high_freq_factor", &s->high)) < 0)
		return ret;
	s->context = (double)p->config->context;
	return parameter(p, "original_max_position_embeddings", &s->context);
}

/*
 * mscale has an effect only together with mscale_all_dim; 0 means that it is
 * not there.
 */
static int read_magnitude(const struct parameters *p)
{
	const double factor = p->config->scaling.factor;
	double mscale = 0, all_dim = 0, magnitude;
	int ret;

	if ((ret = parameter(p, "mscale", &mscale)) < 0 ||
	    (ret = parameter(p, "mscale_all_dim", &all_dim)) < 0)
		return ret;
	if (mscale == 0 || all_dim == 0) {
		mscale = 1;
		all_dim = 0;
	}
	magnitude = llama_yarn_magnitude(factor, mscale) /
		    llama_yarn_magnitude(factor, all_dim);
	ret = parameter(p, "attention_factor", &magnitude);
	p->config->rope.attn_factor = (float)magnitude;
	return ret;
}

static int yarn(const struct parameters *p)
{
	struct llama_scaling *s = &p->config->scaling;
	int ret;

	s->type = LLAMA_SCALING_YARN;
	s->truncate = true;
	s->context = (double)p->config->context;
	if ((ret = parameter(p, "factor", &s->factor)) < 0 ||
	    (ret = parameter(p, "beta_fast", &s->fast)) < 0 ||
	    (ret = parameter(p, "beta_slow", &s->slow)) < 0 ||
	    (ret = parameter(p, "original_max_position_embeddings",
			     &s->context)) < 0 ||
	    (ret = hf_bool(p->o, p->in, "truncate", &s->truncate)) < 0)
		return ret;
	if (s->fast == 0)
		s->fast = 32;
	if (s->slow == 0)
		s->slow = 1;
	return read_magnitude(p);
}

static int none(const struct parameters *p)
{
	(void)p;
	return 0;
}

static const struct {
	const char *name;
	int (*read)(const struct parameters *p);
} types[] = {
	{ "default", none },  { "linear", linear }, { "dynamic", dynamic },
	{ "llama3", llama3 }, { "yarn", yarn },
};

/* Read the type, whose key has had two names. */
static int take_type(const struct parameters *p, char *type)
{
	json_t *old = hf_take(p->o, "type"), *new = hf_take(p->o, "rope_type");
	json_t *v = new ? new : old;
	int ret = 0;

	snprintf(type, TYPE_BYTES, "%s", v ? "" : "default");
	if (json_is_string(v))
		snprintf(type, TYPE_BYTES, "%s", json_string_value(v));
	else if (v)
		ret = llama_fail(-EBADMSG,
				 "config.json: %srope_type is not a string",
				 p->in);
	json_decref(old);
	json_decref(new);
	return ret;
}

static int read_parameters(const struct parameters *p)
{
	char type[TYPE_BYTES];
	int ret = take_type(p, type);

	for (size_t i = 0; ret == 0 && i < sizeof(types) / sizeof(*types); i++)
		if (!strcmp(type, types[i].name)) {
			ret = types[i].read(p);
			return ret < 0 ? ret : hf_refuse_rest(p->o, p->in);
		}
	return ret < 0 ? ret
		       : llama_fail(-EOPNOTSUPP,
				    "RoPE scaling of type '%s' is not "
				    "supported",
				    type);
}

/* Older files have the base beside the parameters. */
static int read_base(json_t *o, const struct parameters *p)
{
	double base = 10000;
	int ret = hf_real(o, "", "rope_theta", &base);

	if (ret == 0)
		ret = parameter(p, "rope_theta", &base);
	p->config->rope.base = (float)base;
	return ret;
}

static int check_object(const json_t *v, const char *name)
{
	if (!v || json_is_object(v) || json_is_null(v))
		return 0;
	return llama_fail(-EBADMSG, "config.json: %s is not an object", name);
}

/* rope_scaling, as older files have it, is used rather than rope_parameters. */
int hf_rope(json_t *o, struct llama_config *c)
{
	json_t *older = hf_take(o, "rope_scaling");
	json_t *newer = hf_take(o, "rope_parameters");
	bool use_older = json_object_size(older) > 0;
	const struct parameters p = {
		.o = use_older ? older : newer,
		.in = use_older ? "rope_scaling." : "rope_parameters.",
		.config = c,
	};
	int ret = check_object(older, "rope_scaling");

	c->rope.mode = WEIR_ROPE_NEOX;
	c->rope.n_dims = c->head > 0 && c->head <= INT32_MAX ? (uint32_t)c->head
							     : 0;
	if (ret == 0)
		ret = check_object(newer, "rope_parameters");
	if (ret == 0)
		ret = read_base(o, &p);
	if (ret == 0 && json_object_size(p.o) > 0)
		ret = read_parameters(&p);
	json_decref(older);
	json_decref(newer);
	return ret;
}
