/* SPDX-License-Identifier: MIT */
/*
 * Vector clocks of the race checker: what is known of each actor. A clock with
 * one reference may change; others are copied first. Its lock is held.
 */
#ifndef WEIR__RACES_CLOCK_H
#define WEIR__RACES_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Words [0, ORDERED) are the highest number that is known of a source whose
 * numbers are done in their order. The others are bits of tensors of loads.
 */
#define WEIR__CLOCK_ORDERED 128u
#define WEIR__CLOCK_BITS 512u
#define WEIR__CLOCK_WORDS (WEIR__CLOCK_ORDERED + WEIR__CLOCK_BITS)

struct weir__clock {
	struct weir__clock *next, **link; /* all clocks */
	uint32_t refs, n;
	uint64_t host; /* which state of the host this is; 0: of none */
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
/* Add what @other knows to *@c. If that changes it, its host becomes 0. */
void weir__clock_join(struct weir__clocks *all, struct weir__clock **c,
		      const struct weir__clock *other);
/*
 * Set a word to the larger of its value and @value, or a word of bits to all the
 * bits of both. If that changes *@c, its host becomes 0.
 */
void weir__clock_raise(struct weir__clocks *all, struct weir__clock **c,
		       uint32_t i, uint64_t value);
/* Words [i, i + n) are used again: nobody knows anything of them. */
void weir__clocks_reset(struct weir__clocks *all, uint32_t i, uint32_t n);
/* The clock that is the oldest state of the host. */
const struct weir__clock *
weir__clocks_oldest_host(const struct weir__clocks *all);

#endif
