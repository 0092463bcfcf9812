/* SPDX-License-Identifier: MIT */
/* The actors of the race checker: their clocks, and the versions of these. */
#include "races/races_state.h"

#include <stdio.h>
#include <string.h>

#include "core/sys.h"

struct weir__clock *weir__clock_new(struct weir__clocks *all)
{
	struct weir__clock *c =
		weir__calloc(1, sizeof(*c) + all->n * sizeof(*c->word));

	if (!c) {
		all->no_memory = true;
		return NULL;
	}
	c->refs = 1;
	c->n = all->n;
	c->next = all->list;
	c->link = &all->list;
	if (c->next)
		c->next->link = &c->next;
	all->list = c;
	return c;
}

void weir__clock_put(struct weir__clock *c)
{
	if (!c || --c->refs)
		return;
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	weir__free(c);
}

static uint64_t word_join(uint32_t i, uint64_t a, uint64_t b)
{
	if (i >= WEIR__CLOCK_ORDERED)
		return a | b;
	return a > b ? a : b;
}

/* True if @c knows all that @other does. */
static bool clock_covers(const struct weir__clock *c,
			 const struct weir__clock *other)
{
	for (uint32_t i = 0; i < other->n; i++) {
		uint64_t has = weir__clock_word(c, i);

		if (word_join(i, has, other->word[i]) != has)
			return false;
	}
	return true;
}

/* Make *@c a clock with one reference, which has all words and no state. */
static struct weir__clock *clock_own(struct weir__clocks *all,
				     struct weir__clock **c)
{
	struct weir__clock *old = *c, *own;

	if (old->refs == 1 && old->n == all->n) {
		old->host = 0;
		return old;
	}
	own = weir__clock_new(all);
	if (!own)
		return NULL;
	memcpy(own->word, old->word, old->n * sizeof(*old->word));
	weir__clock_put(old);
	*c = own;
	return own;
}

/*
 * Add all that @other knows to *@c. If that changes *@c, (*@c)->host becomes 0.
 */
static void clock_join(struct weir__clocks *all, struct weir__clock **c,
		       const struct weir__clock *other)
{
	struct weir__clock *own;

	if (*c == other || clock_covers(*c, other))
		return;
	own = clock_own(all, c);
	for (uint32_t i = 0; own && i < other->n; i++)
		own->word[i] = word_join(i, own->word[i], other->word[i]);
}

/*
 * Raise a number to at least @value; or, of a load's words, set the bits of
 * @value. If that changes *@c, (*@c)->host becomes 0.
 */
static void clock_raise(struct weir__clocks *all, struct weir__clock **c,
			uint32_t i, uint64_t value)
{
	uint64_t has = weir__clock_word(*c, i);
	struct weir__clock *own;

	value = word_join(i, has, value);
	if (value == has)
		return;
	own = clock_own(all, c);
	if (own)
		own->word[i] = value;
}

/* Words [i, i + n) get another actor: set them to 0 in all clocks. */
static void clocks_reset(struct weir__clocks *all, uint32_t i, uint32_t n)
{
	for (struct weir__clock *c = all->list; c; c = c->next)
		for (uint32_t k = i; k < i + n && k < c->n; k++)
			c->word[k] = 0;
}

const struct weir__clock *
weir__clocks_oldest_host(const struct weir__clocks *all)
{
	const struct weir__clock *oldest = NULL;

	for (const struct weir__clock *c = all->list; c; c = c->next)
		if (c->host && (!oldest || c->host < oldest->host))
			oldest = c;
	return oldest;
}

struct weir__races_actor *weir__races_actor(struct weir__races *r,
					    const struct weir__timeline *tl)
{
	return tl->actor ? &r->actor[tl->actor - 1] : NULL;
}

static uint32_t load_bit(const struct weir__races_actor *a, uint64_t tensor)
{
	return (uint32_t)(tensor / a->share);
}

bool weir__races_known(const struct weir__races *r,
		       const struct weir__clock *clock,
		       const struct weir__races_epoch *epoch)
{
	const struct weir__races_actor *a = &r->actor[epoch->actor];
	uint32_t bit;

	if (!weir__races_is_load(a))
		return weir__clock_word(clock, a->word) >= epoch->number;
	bit = load_bit(a, epoch->number);
	return weir__clock_word(clock, a->word + bit / 64) >> bit % 64 & 1;
}

const struct weir__clock *weir__races_at(const struct weir__races_actor *a,
					 uint64_t number)
{
	unsigned i = a->n_versions - 1;

	while (i && a->version[i].from > number)
		i--;
	return a->version[i].clock;
}

struct weir__clock *weir__races_now(const struct weir__races_actor *a)
{
	return a->version[a->n_versions - 1].clock;
}

static void learn_load(struct weir__races *r, struct weir__clock **clock,
		       const struct weir__races_actor *a, uint64_t tensor)
{
	uint32_t bit;

	for (uint32_t i = 0; tensor >= a->n && i < a->words; i++)
		clock_raise(&r->clocks, clock, a->word + i, UINT64_MAX);
	if (tensor >= a->n)
		return;
	bit = load_bit(a, tensor);
	clock_raise(&r->clocks, clock, a->word + bit / 64,
		    UINT64_C(1) << bit % 64);
}

static void learn_all(struct weir__races *r, struct weir__clock **clock)
{
	for (uint32_t i = 0; i < WEIR__RACES_ACTORS; i++) {
		const struct weir__races_actor *a = &r->actor[i];

		if (a->used)
			weir__races_learn(r, clock, a,
					  weir__races_is_load(a) ? a->n
								 : a->tail);
	}
}

void weir__races_learn(struct weir__races *r, struct weir__clock **clock,
		       const struct weir__races_actor *a, uint64_t number)
{
	if (!a) {
		learn_all(r, clock);
	} else if (weir__races_is_load(a)) {
		learn_load(r, clock, a, number);
	} else {
		/*
		 * Also if @number was known: since then its clock may have
		 * grown.
		 */
		clock_join(&r->clocks, clock, weir__races_at(a, number));
		clock_raise(&r->clocks, clock, a->word, number);
	}
}

/* If the host's clock has changed, it is a new state of the host. */
static void host_number(struct weir__races *r)
{
	if (!r->host->host)
		r->host->host = ++r->states;
}

void weir__races_host_learn(struct weir__races *r,
			    const struct weir__races_actor *a, uint64_t number)
{
	weir__races_learn(r, &r->host, a, number);
	host_number(r);
}

void weir__races_host_join(struct weir__races *r,
			   const struct weir__clock *clock)
{
	clock_join(&r->clocks, &r->host, clock);
	host_number(r);
}

static void version_forget(struct weir__races_actor *a)
{
	weir__clock_put(a->version[0].clock);
	memmove(&a->version[0], &a->version[1],
		--a->n_versions * sizeof(*a->version));
}

void weir__races_version_set(struct weir__races_actor *a, uint64_t number,
			     struct weir__clock *clock)
{
	if (a->n_versions && weir__races_now(a) == clock) {
		weir__clock_put(clock);
		return;
	}
	/* @clock includes the newest version, so it replaces later ones. */
	while (a->n_versions && a->version[a->n_versions - 1].from >= number)
		weir__clock_put(a->version[--a->n_versions].clock);
	if (a->n_versions == WEIR__RACES_VERSIONS)
		version_forget(a);
	a->version[a->n_versions++] =
		(struct weir__races_version){ number, clock };
}

/* Put a version before that of index @i. */
static void version_insert(struct weir__races_actor *a, unsigned i,
			   uint64_t number, struct weir__clock *clock)
{
	if (a->n_versions == WEIR__RACES_VERSIONS) {
		version_forget(a);
		i--;
	}
	memmove(&a->version[i + 1], &a->version[i],
		(a->n_versions++ - i) * sizeof(*a->version));
	a->version[i] = (struct weir__races_version){ number, clock };
}

void weir__races_join(struct weir__races *r, struct weir__races_actor *a,
		      uint64_t number, const struct weir__clock *clock)
{
	unsigned i = a->n_versions;
	struct weir__clock *now;

	for (; i && a->version[i - 1].from >= number; i--)
		clock_join(&r->clocks, &a->version[i - 1].clock, clock);
	if (!i || (i < a->n_versions && a->version[i].from == number))
		return;
	now = weir__clock_ref(a->version[i - 1].clock);
	clock_join(&r->clocks, &now, clock);
	if (now == a->version[i - 1].clock)
		weir__clock_put(now);
	else
		version_insert(a, i, number, now);
}

static bool is_of_actor(void *arg, const struct weir__races_epoch *epoch)
{
	return epoch->actor == *(const uint16_t *)arg;
}

static void actor_clear(struct weir__races *r, struct weir__races_actor *a)
{
	uint16_t index = weir__races_index(r, a);

	weir__races_map_prune(&r->map, WEIR__RACES_RANGES, is_of_actor, &index);
	clocks_reset(&r->clocks, a->word, a->words);
	while (a->n_versions)
		weir__clock_put(a->version[--a->n_versions].clock);
	weir__clock_put(a->extra);
	memset(a, 0, sizeof(*a));
}

static struct weir__races_actor *actor_make(struct weir__races *r,
					    uint32_t index, uint32_t word,
					    uint32_t words, const char *label)
{
	struct weir__races_actor *a = &r->actor[index];

	if (a->used)
		actor_clear(r, a);
	a->used = true;
	a->live = true;
	a->made = ++r->made;
	a->word = word;
	a->words = words;
	if (r->clocks.n < word + words)
		r->clocks.n = word + words;
	snprintf(a->label, sizeof(a->label), "%s", label);
	return a;
}

/*
 * A place that was never used; else the oldest actor whose timeline was freed.
 */
static uint32_t find_place(const struct weir__races *r)
{
	uint32_t best = WEIR__CLOCK_ORDERED;

	for (uint32_t i = 0; i < WEIR__CLOCK_ORDERED; i++) {
		const struct weir__races_actor *a = &r->actor[i];

		if (!a->used)
			return i;
		if (!a->live && (best == WEIR__CLOCK_ORDERED ||
				 a->made < r->actor[best].made))
			best = i;
	}
	return best;
}

void weir__races_add(struct weir__timeline *tl, const char *label,
		     const char *unit)
{
	struct weir__races *r = weir__races_enter(tl->weir);
	struct weir__races_actor *a;
	struct weir__clock *clock;
	uint32_t i;

	if (!r)
		return;
	i = find_place(r);
	if (i < WEIR__CLOCK_ORDERED) {
		a = actor_make(r, i, i, 1, label);
		a->unit = unit;
		tl->actor = (uint16_t)(i + 1);
		clock = weir__clock_new(&r->clocks);
		if (clock)
			weir__races_version_set(a, 0, clock);
	}
	weir__races_leave(r);
}

/* The first of @words free words for bits; 0: there are not so many. */
static uint32_t find_words(const struct weir__races *r, uint32_t words)
{
	uint32_t at = WEIR__CLOCK_ORDERED, end = WEIR__CLOCK_WORDS;

	for (uint32_t i = WEIR__CLOCK_ORDERED; i < WEIR__RACES_ACTORS; i++) {
		const struct weir__races_actor *a = &r->actor[i];

		if (a->used && at < a->word + a->words &&
		    a->word < at + words) {
			at = a->word + a->words;
			i = WEIR__CLOCK_ORDERED - 1;
		}
	}
	return at + words <= end ? at : 0;
}

/* If there are many tensors, several share a bit, and are known together. */
void weir__races_add_load(struct weir__timeline *tl, const char *label,
			  size_t n)
{
	const size_t most = WEIR__CLOCK_BITS * 64 / 4;
	struct weir__races *r = weir__races_enter(tl->weir);
	size_t share = (n + most - 1) / most + !n;
	struct weir__races_actor *a;
	uint32_t i = WEIR__CLOCK_ORDERED, words, word;

	if (!r)
		return;
	words = (uint32_t)((n / share + 1 + 63) / 64);
	word = find_words(r, words);
	while (i < WEIR__RACES_ACTORS && r->actor[i].used)
		i++;
	if (word && i < WEIR__RACES_ACTORS) {
		a = actor_make(r, i, word, words, label);
		a->n = n;
		a->share = share;
		tl->actor = (uint16_t)(i + 1);
	}
	weir__races_leave(r);
}

/*
 * Work of a freed stream may still race with other work: its accesses stay
 * until another actor needs its place. A freed load has no memory, so no
 * accesses.
 */
void weir__races_del(struct weir__timeline *tl)
{
	struct weir__races *r;
	struct weir__races_actor *a;

	if (!weir__races_on(tl->weir) || !tl->actor)
		return;
	r = tl->weir->races;
	pthread_mutex_lock(&r->lock);
	a = weir__races_actor(r, tl);
	if (weir__races_is_load(a))
		actor_clear(r, a);
	else
		a->live = false;
	tl->actor = 0;
	pthread_mutex_unlock(&r->lock);
}
