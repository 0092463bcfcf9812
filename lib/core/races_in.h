/* SPDX-License-Identifier: MIT */
/* The race checker from the inside: RACES.md. */
#ifndef WEIR__RACES_IN_H
#define WEIR__RACES_IN_H

#include <pthread.h>

#include "core/races.h"
#include "core/races_clock.h"
#include "core/races_map.h"

#define WEIR__RACES_LOADS 32u
#define WEIR__RACES_ACTORS (WEIR__CLOCK_ORDERED + WEIR__RACES_LOADS)
#define WEIR__RACES_VERSIONS 16u
#define WEIR__RACES_INFOS 16384u /* a power of two */
#define WEIR__RACES_NAME 40u
#define WEIR__RACES_REPORTS 64u /* that are written; and different ones */

/* What is known to somebody who knows of a number from @from on. */
struct weir__races_version {
	uint64_t from;
	struct weir__clock *clock;
};

/* In use: it has a source, or accesses of it may still be in the map. */
struct weir__races_actor {
	char label[80];
	const char *unit; /* what its numbers are; of a load: tensors */
	bool used, live;  /* live: its source exists */
	uint64_t made;    /* which actor of the root it is: 1, 2, ... */
	uint32_t word, words;
	/* Of a load: tensors, and how many of them share a bit. */
	size_t n, share;
	/* Of others; the last version is what the newest operation knows. */
	uint64_t tail; /* of operations that have begun */
	uint64_t host; /* the state of the host that it has joined */
	struct weir__clock *extra; /* for the next operation; or NULL */
	struct weir__races_version version[WEIR__RACES_VERSIONS];
	unsigned n_versions;
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
	struct weir__clock *host; /* its newest state */
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
	_Atomic bool lines; /* there are some */
};

/* Who makes an access: actor NULL is the host. */
struct weir__races_by {
	struct weir__races_actor *actor;
	uint64_t number;
	const char *what;
	const struct weir__races_bytes *bytes;
	struct weir__clock **clock; /* what it knows */
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

/* races_actor.c; the lock is held in all that follows. */
/* Of a source; NULL: it is none. */
struct weir__races_actor *weir__races_actor(struct weir__races *r,
					    const struct weir__source *src);
bool weir__races_known(const struct weir__races *r,
		       const struct weir__clock *clock,
		       const struct weir__races_epoch *epoch);
/* Add to *@clock that @number of @a is over (a NULL: all that has begun). */
void weir__races_learn(struct weir__races *r, struct weir__clock **clock,
		       const struct weir__races_actor *a, uint64_t number);
void weir__races_host_learn(struct weir__races *r,
			    const struct weir__races_actor *a, uint64_t number);
void weir__races_host_join(struct weir__races *r,
			   const struct weir__clock *clock);
/*
 * From operation @number on @a knows @clock. Takes over the reference. If @clock
 * is the newest version already, nothing changes.
 */
void weir__races_version_set(struct weir__races_actor *a, uint64_t number,
			     struct weir__clock *clock);
/* The newest version. */
struct weir__clock *weir__races_now(const struct weir__races_actor *a);

/* races_report.c */
/* @by conflicts with @other, which wrote or read [lo, hi). */
void weir__races_report(struct weir__races *r, const struct weir__races_by *by,
			const struct weir__races_epoch *other, bool wrote,
			uint64_t lo, uint64_t hi);
void weir__races_say(struct weir__races *r, const char *text);

/* races.c: every call of races.h begins and ends with these. */
struct weir__races *weir__races_enter(const struct weir *weir);
void weir__races_leave(struct weir__races *r);

#endif
