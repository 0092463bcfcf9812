/* SPDX-License-Identifier: MIT */
/*
 * Vector clocks of the race checker: the numbers of each actor that are known.
 * A clock with several references is copied before it changes. The lock of the
 * race checker is held.
 */
#ifndef WEIR__RACES_CLOCK_H
#define WEIR__RACES_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Words [0, ORDERED) are the highest number that is known of a timeline whose
 * numbers are done in their order. The others are bits of tensors of loads.
 */
#define WEIR__CLOCK_ORDERED 128u
#define WEIR__CLOCK_BITS 512u
#define WEIR__CLOCK_WORDS (WEIR__CLOCK_ORDERED + WEIR__CLOCK_BITS)

struct weir__clock {
	struct weir__clock *next, **link; /* all clocks */
	uint32_t refs, n;
	uint64_t host; /* which state of the host it is; 0: none */
	uint64_t word[];
};

struct weir__clocks {
	struct weir__clock *list;
	uint32_t n; /* words that are in use */
	bool no_memory;
};

static inline uint64_t weir__clock_word(const struct weir__clock *c, uint32_t i)
{
	return i < c->n ? c->word[i] : 0;
}

/* NULL: no memory, here and below; all->no_memory is set. */
struct weir__clock *weir__clock_new(struct weir__clocks *all);
static inline struct weir__clock *weir__clock_ref(struct weir__clock *c)
{
	c->refs++;
	return c;
}
void weir__clock_put(struct weir__clock *c); /* NULL is allowed */
/*
 * Add all that @other knows to *@c. If that changes *@c, (*@c)->host becomes 0.
 */
void weir__clock_join(struct weir__clocks *all, struct weir__clock **c,
		      const struct weir__clock *other);
/*
 * Raise a number to at least @value; or, of a load's words, set the bits of
 * @value. If that changes *@c, (*@c)->host becomes 0.
 */
void weir__clock_raise(struct weir__clocks *all, struct weir__clock **c,
		       uint32_t i, uint64_t value);
/* Words [i, i + n) get another actor: set them to 0 in all clocks. */
void weir__clocks_reset(struct weir__clocks *all, uint32_t i, uint32_t n);
/* The oldest state of the host that still has a clock. */
const struct weir__clock *
weir__clocks_oldest_host(const struct weir__clocks *all);

#endif
