/* SPDX-License-Identifier: MIT */
/* The inside of an object, for object.c, part.c and renew.c. */
#ifndef HTTP_OBJECT_H
#define HTTP_OBJECT_H

#include "http/remote.h"

/*
 * The client's lock guards all but what does not change while it is open: r,
 * u, shown, front, and facts without its target.
 */
struct weir__http_object {
	struct weir__http_object *next; /* at its host, with reads that wait */
	struct weir__http_object *next_stale;
	struct weir__http_remote *r;
	struct weir__http_url u; /* as it was opened */
	char shown[WEIR__HTTP_SHOWN];
	struct weir__http_facts facts;
	struct weir__http_body front; /* the first bytes */
	/* Reads that no part has, in the order of their calls. */
	struct weir_source_read *first, *last;
	uint64_t queued; /* their bytes */
	bool listed;     /* in host->objects */
	bool stale;      /* its target is sought again; nothing is sent */
	/* Parts that wait for that. */
	struct weir__http_part *parts;
	unsigned refs;     /* itself while it is open, parts, a search */
	unsigned renewals; /* since bytes arrived */
	unsigned found;    /* how often its target was found again */
	int64_t renewed;   /* when its target was sought last */
	int64_t progress;  /* when bytes arrived last */
	int failed;        /* of all reads from now on, or 0 */
	char why[WEIR__HTTP_WHY];
};

/* The members of weir_source_read.priv. */
enum {
	WEIR__HTTP_NEXT, /* the next read of the same list */
	WEIR__HTTP_PART, /* the part that has it; NULL: it is queued, or done */
	WEIR__HTTP_GOT,  /* bytes in place, as a number */
	WEIR__HTTP_MARK, /* WEIR__HTTP_QUEUED and so on, as a number */
};
enum {
	WEIR__HTTP_QUEUED = 1,
	WEIR__HTTP_TAKEN,
	WEIR__HTTP_UNWANTED
};

static inline struct weir_source_read *
weir__http_next(const struct weir_source_read *read)
{
	return read->priv[WEIR__HTTP_NEXT];
}

static inline uint64_t weir__http_got(const struct weir_source_read *read)
{
	return (uintptr_t)read->priv[WEIR__HTTP_GOT];
}

static inline void weir__http_set_got(struct weir_source_read *read, uint64_t n)
{
	/* NULL and n is n as a pointer. */
	read->priv[WEIR__HTTP_GOT] = (void *)(uintptr_t)n;
}

/* Put an object with reads that wait to its host. The lock is held. */
void weir__http_list(struct weir__http_object *o);
void weir__http_unlist(struct weir__http_object *o);

/*
 * A request for neighbouring reads. Its list is changed with the lock held,
 * and while it runs only by its thread.
 */
struct weir__http_part {
	struct weir__http_flight f;
	struct weir__http_object *o;
	struct weir__http_part *next; /* of a stale object */
	struct weir_source_read *first;
	uint64_t at, end;   /* bytes that are missing */
	uint64_t at_before; /* when the request began */
	unsigned tries;     /* without a byte */
	int64_t since;      /* when it was made, or a byte arrived last */
	unsigned found;     /* o->found when the request began */
	bool parked;        /* in o->parts */
	atomic_bool look;   /* a read of it is not wanted any more */
	int result;         /* of the headers */
	char why[WEIR__HTTP_WHY];
};

/* Drop a reference. The lock is held. */
void weir__http_object_put(struct weir__http_object *o);
/* End the reads that no part has. The lock is held. */
void weir__http_object_fail(struct weir__http_object *o, int err,
			    const char *why);

/*
 * Make a part of the object's first reads. NULL: no memory. The lock is held
 * in all of these.
 */
struct weir__http_part *weir__http_part_new(struct weir__http_object *o);
/* Describe its request. -ENOMEM. */
int weir__http_part_begin(struct weir__http_part *p);
/* Send parts again whose target was found, or end their reads and them. */
void weir__http_part_resume(struct weir__http_part *parts);
void weir__http_part_fail(struct weir__http_part *parts, int err,
			  const char *why);
/* A read of a part is not wanted any more. */
void weir__http_part_unwant(struct weir__http_part *p,
			    struct weir_source_read *read);

#endif
