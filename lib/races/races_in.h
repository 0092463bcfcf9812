/* SPDX-License-Identifier: MIT */
/* The race checker from the inside: README.md. */
#ifndef WEIR__RACES_IN_H
#define WEIR__RACES_IN_H

#include <pthread.h>

#include "races/races.h"
#include "races/races_clock.h"
#include "races/races_map.h"

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
	uint32_t word, words; /* of clocks: the first of its words, how many */
	/* Of a load: tensors, and how many of them share a bit. */
	size_t n, share;
	/* Of others. The last version is the clock of the newest number. */
	uint64_t tail; /* the highest number that has begun */
	uint64_t host; /* the newest state of the host that it has learned */
	struct weir__clock *extra; /* for the next operation; or NULL */
	struct weir__races_version version[WEIR__RACES_VERSIONS];
	unsigned n_versions;
	/* Of a native stream. */
	bool native;
	const void *dev, *handle; /* of its queue; dev NULL: not known */
	uint64_t given, over;     /* the newest function, each */
	uint64_t open;            /* no function before it is open */
};

struct weir__races_info { /* of an access that is in the map */
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
	pthread_mutex_t lock; /* of all; taken last */
	bool off;             /* no memory: nothing is checked any more */
	struct weir__clocks clocks;
	struct weir__clock *host; /* the clock of the host */
	uint64_t states;          /* of the host so far */
	uint64_t made;            /* actors so far */
	struct weir__races_map map;
	uint32_t prune_at;               /* ranges */
	struct weir__races_actor *actor; /* WEIR__RACES_ACTORS */
	struct weir__races_info *info;   /* WEIR__RACES_INFOS, a ring */
	uint32_t n_infos;
	uint64_t said[WEIR__RACES_REPORTS]; /* hashes of reports */
	unsigned n_said;
	struct weir__races_line *line, **line_end;
	_Atomic bool lines; /* line is not NULL */
};

/* An access that is checked. */
struct weir__races_by {
	struct weir__races_actor *actor; /* NULL: the host */
	uint64_t number;                 /* of the actor */
	const char *what;                /* the operation: "copy" */
	const struct weir__races_bytes *bytes;
	struct weir__clock **clock; /* of the actor, at the number */
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

/* races_actor.c; the lock is held in all functions that follow. */
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

/* races_native.c */
/*
 * Operation @number of @a begins: it comes after all work that has begun in the
 * same queue.
 */
void weir__races_queue_begin(struct weir__races *r, struct weir__races_actor *a,
			     uint64_t number);
/*
 * True if one of the two accesses comes after a function, in a native stream,
 * that has not returned. The function may order them.
 */
bool weir__races_after_call(const struct weir__races *r,
			    const struct weir__races_by *by,
			    const struct weir__races_epoch *other);
/* True if native streams may have ordered the two accesses, outside of weir. */
bool weir__races_by_native(const struct weir__races *r,
			   const struct weir__races_by *by,
			   const struct weir__races_epoch *other);

/* races_report.c */
/* Report that @by races with @other, which wrote or read [lo, hi). */
void weir__races_report(struct weir__races *r, const struct weir__races_by *by,
			const struct weir__races_epoch *other, bool wrote,
			uint64_t lo, uint64_t hi);
/* Queue a line for the log: weir__races_flush writes it. */
void weir__races_say(struct weir__races *r, const char *text);

/*
 * races.c: every call of races.h begins and ends with these. They take and
 * release the lock. NULL, without the lock: nothing is checked.
 */
struct weir__races *weir__races_enter(const struct weir *weir);
/* Also find the actor of @tl. NULL, without the lock: there is none. */
struct weir__races *
weir__races_enter_actor(const struct weir__timeline *tl,
			struct weir__races_actor **ret_actor);
void weir__races_leave(struct weir__races *r);

#endif
