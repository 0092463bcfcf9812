/* SPDX-License-Identifier: MIT */
#include "graph/exec/pins.h"

#include <fnmatch.h>
#include <stdatomic.h>
#include <string.h>

#include "core/array.h"
#include "core/error.h"
#include "core/refs.h"
#include "core/sys.h"
#include "dev/dev.h"
#include "graph/exec/sched.h"
#include "graph/graph.h"

struct pin {
	const char *pattern; /* in the same memory */
	size_t literal;      /* bytes before its first wildcard */
	uint8_t dev;
};

struct weir__pins {
	_Atomic uint32_t refs;
	uint32_t n;
	struct pin pin[];
};

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

/* All of @old without @pattern, and then @pattern, unless @dev is NONE. */
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

void weir__pins_put(struct weir__pins *pins)
{
	if (pins && weir__refs_drop(&pins->refs))
		weir__free(pins);
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

/* The last pin that matches counts. */
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
	weir__pins_put(old);
	return pins || !pattern ? 0
				: weir__fail(-ENOMEM, "no memory for a pin");
}

/* Those that the program has set, or those that the device has. */
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

int weir__choice(struct weir_sched *sched, const struct weir_graph *g,
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
	weir__pins_put(pins);
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
