/* SPDX-License-Identifier: MIT */
/*
 * Schedulers: made from devices and options. They have pins by the names of
 * nodes, the rates of devices, and spare streams.
 */
#include "graph/exec/sched.h"

#include <fnmatch.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "graph/graph.h"
#include "stream/stream.h"

#define MAX_COPIES 1024u

static int check_opts(struct weir_sched_opts *o,
		      const struct weir_sched_opts *opts)
{
	int r = weir__opts_in(o, sizeof(*o), opts);

	if (r < 0)
		return r;
	if (o->copies > MAX_COPIES)
		return weir__fail(-EINVAL, "copies %u (at most %u)", o->copies,
				  MAX_COPIES);
	if (!o->copies)
		o->copies = 1;
	return 0;
}

static int check_device(struct weir_dev *const *devs, unsigned i)
{
	if (devs[i]->weir != devs[0]->weir)
		return weir__fail(-EINVAL, "%s and %s are of different roots",
				  devs[0]->desc.name, devs[i]->desc.name);
	for (unsigned k = 0; k < i; k++)
		if (devs[k] == devs[i])
			return weir__fail(-EINVAL, "%s is listed twice",
					  devs[i]->desc.name);
	return weir__dev_use(devs[i]);
}

static int check_devices(struct weir_dev *const *devs, unsigned n)
{
	bool computes = false;
	int r;

	if (!n)
		return weir__fail(-EINVAL, "no device");
	for (unsigned i = 0; i < n; i++)
		if (!devs[i])
			return weir__fail(-EINVAL, "device %u of %u is NULL", i,
					  n);
	r = weir__root_enter(devs[0]->weir);
	if (r == 0 && n > WEIR__LANES)
		r = weir__fail(-EINVAL, "%u devices: a scheduler has up to %u",
			       n, WEIR__LANES);
	for (unsigned i = 0; i < n && !r; i++) {
		r = check_device(devs, i);
		computes |= weir__dev_compute(devs[i]) != NULL;
	}
	if (r == 0 && !computes)
		r = weir__fail(-EOPNOTSUPP, "%s does not compute%s%s",
			       devs[0]->desc.name,
			       *devs[0]->desc.no_compute ? ": " : "",
			       devs[0]->desc.no_compute);
	return r;
}

struct pin {
	const char *pattern; /* in the memory of the list */
	size_t literal;      /* bytes before its first wildcard */
	uint8_t dev;
};

/* A list of pins. It never changes; schedulers exchange it for another. */
struct weir__pins {
	_Atomic uint32_t refs;
	uint32_t n;
	struct pin pin[];
};

/* Drop a reference; @pins may be NULL. */
static void pins_put(struct weir__pins *pins)
{
	if (pins && weir__refs_drop(&pins->refs))
		weir__free(pins);
}

void weir__sched_put(struct weir_sched *sched)
{
	if (!weir__refs_drop(&sched->refs))
		return;
	for (uint32_t i = 0; i < sched->compiler->n_devs; i++)
		for (uint32_t k = 0; k < sched->dev[i].n_spare; k++)
			weir__timeline_put(&sched->dev[i].spare[k]->timeline);
	weir__compiler_free(sched->compiler);
	pins_put(sched->pins);
	pthread_mutex_destroy(&sched->start_lock);
	pthread_mutex_destroy(&sched->lock);
	weir__root_put(sched->weir);
	weir__free(sched);
}

int weir_sched_new(struct weir_dev *const *devs, unsigned n,
		   const struct weir_sched_opts *opts,
		   struct weir_sched **ret_sched)
{
	struct weir__compiler *compiler;
	struct weir_sched_opts o;
	struct weir_sched *s;
	int r;

	WEIR__ENTER();
	r = check_devices(devs, n);
	if (r == 0)
		r = check_opts(&o, opts);
	if (r == 0)
		r = weir__compiler_new(devs, n, &o, &compiler);
	if (r < 0)
		return r;
	s = weir__calloc(1, sizeof(*s) + n * sizeof(*s->dev));
	if (!s) {
		weir__compiler_free(compiler);
		return weir__fail(-ENOMEM, "no memory for a scheduler");
	}
	atomic_init(&s->refs, 1);
	s->weir = weir__root_ref(devs[0]->weir);
	pthread_mutex_init(&s->start_lock, NULL);
	pthread_mutex_init(&s->lock, NULL);
	s->compiler = compiler;
	s->opts = o;
	s->opts.budgets = NULL;
	s->opts.weights = NULL;
	*ret_sched = s;
	return 0;
}

void weir_sched_free(struct weir_sched *sched)
{
	if (!sched || !weir__root_is_ours(sched->weir))
		return;
	pthread_mutex_lock(&sched->lock);
	sched->freed = true;
	pthread_mutex_unlock(&sched->lock);
	weir__compiler_close(sched->compiler);
	weir__sched_put(sched);
}

int weir__sched_stream_get(struct weir_sched *sched,
			   const struct weir__compiler_dev *on,
			   struct weir_stream **ret_stream)
{
	struct weir__sched_dev *d = &sched->dev[on - sched->compiler->dev];
	struct weir_stream *s = NULL;
	char name[48];

	pthread_mutex_lock(&sched->lock);
	if (d->n_spare)
		s = d->spare[--d->n_spare];
	pthread_mutex_unlock(&sched->lock);
	snprintf(name, sizeof(name), "run %s", on->dev->desc.name);
	if (!s)
		return weir__stream_new(on->dev, 0, name, ret_stream);
	*ret_stream = s;
	return 0;
}

/* The stream becomes a spare one, unless it has failed. */
void weir__sched_stream_put(struct weir_sched *sched,
			    const struct weir__compiler_dev *on,
			    struct weir_stream *s)
{
	struct weir__sched_dev *d = &sched->dev[on - sched->compiler->dev];
	struct weir_failure f;
	bool keep = s->timeline.ops->state(&s->timeline, weir__stream_tail(s),
					   &f) == 1;

	pthread_mutex_lock(&sched->lock);
	keep = keep && !sched->freed && d->n_spare < WEIR__SCHED_STREAMS;
	if (keep)
		d->spare[d->n_spare++] = s;
	pthread_mutex_unlock(&sched->lock);
	if (!keep)
		weir__timeline_put(&s->timeline);
}

static void pins_add(struct weir__pins *to, const char *pattern, uint8_t dev,
		     char **text)
{
	struct pin *pin = &to->pin[to->n++];
	size_t length = strlen(pattern) + 1;

	memcpy(*text, pattern, length);
	pin->pattern = *text;
	pin->literal = strcspn(pattern, "*?[\\");
	pin->dev = dev;
	*text += length;
}

/* A list of @old without @pattern, and then @pattern unless @dev is NONE. */
static struct weir__pins *pins_with(const struct weir__pins *old,
				    const char *pattern, uint8_t dev)
{
	size_t n = old ? old->n : 0, bytes = strlen(pattern) + 1;
	struct weir__pins *pins;
	char *text;

	for (size_t i = 0; i < n; i++)
		bytes += strlen(old->pin[i].pattern) + 1;
	pins = weir__calloc(1, sizeof(*pins) + (n + 1) * sizeof(*pins->pin) +
				       bytes);
	if (!pins)
		return NULL;
	atomic_init(&pins->refs, 1);
	text = (char *)&pins->pin[n + 1];
	for (size_t i = 0; i < n; i++)
		if (strcmp(old->pin[i].pattern, pattern))
			pins_add(pins, old->pin[i].pattern, old->pin[i].dev,
				 &text);
	if (dev != WEIR__ASSIGN_NONE)
		pins_add(pins, pattern, dev, &text);
	return pins;
}

/* The list that the scheduler has now, referenced; NULL: there are no pins. */
static struct weir__pins *pins_now(struct weir_sched *sched)
{
	struct weir__pins *pins;

	pthread_mutex_lock(&sched->lock);
	pins = sched->pins;
	if (pins)
		weir__refs_add(&pins->refs, 1);
	pthread_mutex_unlock(&sched->lock);
	return pins;
}

static bool pin_matches(const struct pin *pin, const char *name)
{
	const char *rest = pin->pattern + pin->literal;

	if (strncmp(name, pin->pattern, pin->literal))
		return false;
	name += pin->literal;
	return *rest ? !fnmatch(rest, name, 0) : !*name;
}

/* The device of the last pin that matches. */
static uint8_t pins_find(const struct weir__pins *pins, const char *name)
{
	for (uint32_t i = pins->n; name && i-- > 0;)
		if (pin_matches(&pins->pin[i], name))
			return pins->pin[i].dev;
	return WEIR__ASSIGN_NONE;
}

static int check_pin(const struct weir_sched *sched, const char *pattern,
		     const struct weir_dev *dev, uint8_t *ret)
{
	uint32_t i = dev ? weir__compiler_dev_index(sched->compiler, dev) : 0;

	*ret = WEIR__ASSIGN_NONE;
	if (!dev)
		return 0;
	if (!pattern)
		return weir__fail(-EINVAL, "a pin to %s without a pattern",
				  dev->desc.name);
	if (i == sched->compiler->n_devs)
		return weir__fail(-EINVAL,
				  "'%s': %s is no device of the scheduler",
				  weir__quote(pattern, strlen(pattern)),
				  dev->desc.name);
	if (!sched->compiler->dev[i].compute)
		return weir__fail(-EINVAL, "'%s': %s does not compute",
				  weir__quote(pattern, strlen(pattern)),
				  dev->desc.name);
	*ret = (uint8_t)i;
	return 0;
}

int weir_sched_pin(struct weir_sched *sched, const char *pattern,
		   struct weir_dev *dev)
{
	struct weir__pins *old, *pins = NULL;
	uint8_t index;
	int r;

	WEIR__ENTER();
	r = weir__root_enter(sched->weir);
	if (r == 0)
		r = check_pin(sched, pattern, dev, &index);
	if (r < 0)
		return r;
	pthread_mutex_lock(&sched->lock);
	old = sched->pins;
	if (pattern)
		pins = pins_with(old, pattern, index);
	if (pins || !pattern)
		sched->pins = pins;
	else
		old = NULL;
	pthread_mutex_unlock(&sched->lock);
	pins_put(old);
	return pins || !pattern ? 0
				: weir__fail(-ENOMEM, "no memory for a pin");
}

/* The rates that the program has set, else those of the device. */
static struct weir_rates rates_now(struct weir_sched *sched, uint32_t i)
{
	struct weir_rates rates;

	pthread_mutex_lock(&sched->lock);
	rates = sched->dev[i].rates;
	pthread_mutex_unlock(&sched->lock);
	return rates.size ? rates
			  : weir__dev_rates(sched->compiler->dev[i].dev);
}

static int check_rates(const struct weir_sched *sched, unsigned i)
{
	int r = weir__root_enter(sched->weir);

	if (r < 0 || i < sched->compiler->n_devs)
		return r;
	return weir__fail(-EINVAL, "device %u of %u", i,
			  sched->compiler->n_devs);
}

int weir_sched_rates(struct weir_sched *sched, unsigned i,
		     struct weir_rates *ret_rates)
{
	struct weir_rates rates;
	int r;

	WEIR__ENTER();
	r = check_rates(sched, i);
	if (r < 0)
		return r;
	rates = rates_now(sched, i);
	return weir__info_out(ret_rates, &rates, sizeof(rates));
}

int weir_sched_set_rates(struct weir_sched *sched, unsigned i,
			 const struct weir_rates *rates)
{
	struct weir_rates own;
	int r;

	WEIR__ENTER();
	r = check_rates(sched, i);
	if (r == 0)
		r = weir__opts_in(&own, sizeof(own), rates);
	if (r < 0)
		return r;
	if (!weir__rates_are_sound(&own))
		return weir__fail(
			-EINVAL,
			"flops %g, bytes %g, link %g: rates are positive",
			own.flops, own.bytes, own.link);
	own.size = sizeof(own);
	pthread_mutex_lock(&sched->lock);
	sched->dev[i].rates = own;
	pthread_mutex_unlock(&sched->lock);
	return 0;
}

static uint64_t mixed(uint64_t key, uint64_t value)
{
	key = (key ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return key ^ key >> 29;
}

static uint64_t mixed_rate(uint64_t key, double rate)
{
	uint64_t bits;

	memcpy(&bits, &rate, sizeof(bits));
	return mixed(key, bits);
}

static int choice_pins(const struct weir__pins *pins,
		       const struct weir_graph *g, struct weir__choice *c)
{
	c->pin = weir__array_alloc(g->n + 1, sizeof(*c->pin));
	if (!c->pin)
		return weir__fail(-ENOMEM,
				  "no memory for the pins of %zu nodes", g->n);
	for (size_t i = 0; i < g->n; i++) {
		c->pin[i] = pins ? pins_find(pins, g->node[i]->t.name)
				 : WEIR__ASSIGN_NONE;
		if (c->pin[i] != WEIR__ASSIGN_NONE)
			c->key = mixed(c->key, i << 8 | c->pin[i]);
	}
	return 0;
}

static int choice_rates(struct weir_sched *sched, struct weir__choice *c)
{
	c->rates =
		weir__array_alloc(sched->compiler->n_devs, sizeof(*c->rates));
	if (!c->rates)
		return weir__fail(-ENOMEM,
				  "no memory for the rates of devices");
	for (uint32_t i = 0; i < sched->compiler->n_devs; i++) {
		c->rates[i] = rates_now(sched, i);
		c->key = mixed_rate(c->key, c->rates[i].flops);
		c->key = mixed_rate(c->key, c->rates[i].bytes);
		c->key = mixed_rate(c->key, c->rates[i].link);
	}
	return 0;
}

int weir__sched_choice(struct weir_sched *sched, const struct weir_graph *g,
		       struct weir__choice *ret)
{
	struct weir__choice c = { 0 };
	struct weir__pins *pins;
	int r;

	*ret = c;
	if (sched->compiler->n_devs == 1)
		return 0;
	pins = pins_now(sched);
	r = choice_rates(sched, &c);
	if (r == 0)
		r = choice_pins(pins, g, &c);
	pins_put(pins);
	if (r < 0)
		weir__choice_free(&c);
	else
		*ret = c;
	return r;
}

void weir__choice_free(struct weir__choice *choice)
{
	weir__array_free(choice->pin);
	weir__array_free(choice->rates);
	memset(choice, 0, sizeof(*choice));
}
