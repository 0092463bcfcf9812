/* SPDX-License-Identifier: MIT */
/*
 * The state of the race checker: clocks, actors, and accesses. README.md
 * describes them. The lock of the checker is held in all functions, unless they
 * say otherwise.
 */
#ifndef WEIR__RACES_STATE_H
#define WEIR__RACES_STATE_H

#include <pthread.h>

#include "races/races.h"
#include "races/races_map.h"

/*
 * Vector clocks: the numbers of each actor that are known. A clock with several
 * references is copied before it changes.
 *
 * Words [0, ORDERED) are the highest number that is known of a timeline whose
 * numbers are done in their order. The others are bits of tensors of loads.
 */
#define WEIR__CLOCK_ORDERED 128u
#define WEIR__CLOCK_BITS 512u
#define WEIR__CLOCK_WORDS (WEIR__CLOCK_ORDERED + WEIR__CLOCK_BITS)

struct weir__clock {
	struct weir__clock *next, **link; /* all clocks */
	uint32_t refs, n;
	uint64_t host; /* the number of a state of the host; 0: it is none */
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

/* NULL: no memory; all->no_memory is set. */
struct weir__clock *weir__clock_new(struct weir__clocks *all);
static inline struct weir__clock *weir__clock_ref(struct weir__clock *c)
{
	c->refs++;
	return c;
}
void weir__clock_put(struct weir__clock *c); /* NULL is allowed */
/* The oldest state of the host that still has a clock. */
const struct weir__clock *
weir__clocks_oldest_host(const struct weir__clocks *all);

#define WEIR__RACES_LOADS 32u
#define WEIR__RACES_ACTORS (WEIR__CLOCK_ORDERED + WEIR__RACES_LOADS)
#define WEIR__RACES_VERSIONS 16u
#define WEIR__RACES_INFOS 16384u /* a power of two */
#define WEIR__RACES_NAME 40u
#define WEIR__RACES_REPORTS 64u /* later ones are not written */

/* The clock of an actor's numbers from @from on, up to the next version. */
struct weir__races_version {
	uint64_t from;
	struct weir__clock *clock;
};

struct weir__races_actor {
	char label[80];
	const char *unit; /* the name of a number: "operation"; loads: NULL */
	bool used; /* its timeline exists, or the map may have its accesses */
	bool live; /* its timeline exists */
	uint64_t made;        /* actors of the root up to this one */
	uint32_t word, words; /* its words in clocks: the first, how many */
	/* A load has n tensors, of which `share` share a bit. */
	size_t n, share;
	/* What follows is for others. The last version is the newest clock. */
	uint64_t tail; /* the highest number that has begun */
	uint64_t host; /* the newest state of the host that it has learned */
	struct weir__clock *extra; /* added at the next operation, or NULL */
	struct weir__races_version version[WEIR__RACES_VERSIONS];
	unsigned n_versions;
	/* What follows is for native streams. */
	bool native;
	const void *dev, *handle; /* those of its queue; dev NULL: not known */
	uint64_t given, over;     /* the newest function that is, each */
	uint64_t open;            /* no function before it is open */
};

struct weir__races_info { /* describes an access that is in the map */
	uint64_t number, base;
	const char *what;
	char name[WEIR__RACES_NAME];
	uint16_t actor;
};

struct weir__races_line { /* a report that waits to be logged */
	struct weir__races_line *next;
	char text[];
};

struct weir__races {
	pthread_mutex_t lock; /* guards all of it; taken last */
	bool off; /* nothing is checked any more: there was no memory */
	struct weir__clocks clocks;
	struct weir__clock *host; /* the clock of the host */
	uint64_t states;          /* how many states the host has had */
	uint64_t made;            /* how many actors were made */
	struct weir__races_map map;
	uint32_t prune_at;               /* number of ranges */
	struct weir__races_actor *actor; /* WEIR__RACES_ACTORS */
	struct weir__races_info *info;   /* WEIR__RACES_INFOS, used in turn */
	uint32_t n_infos;
	uint64_t said[WEIR__RACES_REPORTS]; /* hashes of reports */
	unsigned n_said;
	struct weir__races_line *line, **line_end;
	_Atomic bool lines; /* line is not NULL */
};

/* An access that is checked. */
struct weir__races_by {
	struct weir__races_actor *actor; /* NULL: the host */
	uint64_t number;                 /* the actor's */
	const char *what;                /* the operation: "copy" */
	const struct weir__races_bytes *bytes;
	struct weir__clock **clock; /* the actor's, at the number */
};

static inline uint16_t weir__races_index(const struct weir__races *r,
					 const struct weir__races_actor *a)
{
	return (uint16_t)(a - r->actor);
}

static inline bool weir__races_is_load(const struct weir__races_actor *a)
{
	return a->word >= WEIR__CLOCK_ORDERED;
}

/* races_actor.c */
/* The actor of a timeline, or NULL if the timeline is none. */
struct weir__races_actor *weir__races_actor(struct weir__races *r,
					    const struct weir__timeline *tl);
/* True if @clock knows that the access of @epoch is over. */
bool weir__races_known(const struct weir__races *r,
		       const struct weir__clock *clock,
		       const struct weir__races_epoch *epoch);
/*
 * Add to *@clock that @number of @a is over, and all that @a knew at it. @a
 * NULL, a timeline that is no actor: all numbers that have begun are over.
 */
void weir__races_learn(struct weir__races *r, struct weir__clock **clock,
		       const struct weir__races_actor *a, uint64_t number);
void weir__races_host_learn(struct weir__races *r,
			    const struct weir__races_actor *a, uint64_t number);
void weir__races_host_join(struct weir__races *r,
			   const struct weir__clock *clock);
/*
 * Set the clock of @a's numbers from @number on. Takes over the reference. If
 * @clock is the newest version already, nothing changes.
 */
void weir__races_version_set(struct weir__races_actor *a, uint64_t number,
			     struct weir__clock *clock);
/* The clock of the newest version. */
struct weir__clock *weir__races_now(const struct weir__races_actor *a);
/*
 * The clock of @a, which is no load, at @number; if that is older than the
 * oldest version that is kept, that version's, which knows more.
 */
const struct weir__clock *weir__races_at(const struct weir__races_actor *a,
					 uint64_t number);
/* Operation @number of @a, and all later ones, learn what @clock knows. */
void weir__races_join(struct weir__races *r, struct weir__races_actor *a,
		      uint64_t number, const struct weir__clock *clock);

/*
 * races.c. Each call of races.h begins and ends with these, which take and
 * release the lock. NULL, without the lock: nothing is checked.
 */
struct weir__races *weir__races_enter(const struct weir *weir);
void weir__races_leave(struct weir__races *r);

#endif
