/* SPDX-License-Identifier: MIT */
#include "races/races_clock.h"

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

void weir__clock_join(struct weir__clocks *all, struct weir__clock **c,
		      const struct weir__clock *other)
{
	struct weir__clock *own;

	if (*c == other || clock_covers(*c, other))
		return;
	own = clock_own(all, c);
	for (uint32_t i = 0; own && i < other->n; i++)
		own->word[i] = word_join(i, own->word[i], other->word[i]);
}

void weir__clock_raise(struct weir__clocks *all, struct weir__clock **c,
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

void weir__clocks_reset(struct weir__clocks *all, uint32_t i, uint32_t n)
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
