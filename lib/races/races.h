/* SPDX-License-Identifier: MIT */
/*
 * The race checker, WEIR_DEBUG=races: finds two accesses of queued work to the
 * same bytes, one of them a write, that nothing orders. README.md describes the
 * model and its words. A root without it has weir->races NULL: then each call
 * below costs one branch, which is always taken the same way.
 *
 * Timelines are actors: an actor knows a number of another one after it
 * has waited for it. The program with all of its threads is an actor too, the
 * host: it knows each number for which a call has waited. An operation knows
 * all numbers that the host knew at the time when the operation was queued.
 *
 * Any thread calls these functions. They take one lock, inside of all others,
 * and call nothing back. Without memory for a record the checker turns itself
 * off and says so in the log.
 */
#ifndef WEIR__RACES_H
#define WEIR__RACES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/root.h"
#include "core/timeline.h"

struct weir__races;
struct weir__clock; /* the numbers that an actor knows */

static inline bool weir__races_on(const struct weir *weir)
{
	return __builtin_expect(weir->races != NULL, 0);
}

/*
 * From weir_open(), before the root has a timeline. The checker is freed with
 * the root. -ENOMEM with a sentence.
 */
int weir__races_start(struct weir *weir);
/* Write the reports to the log. The caller holds no lock. */
void weir__races_flush(struct weir *weir);

/*
 * Make @tl an actor called @label, which is copied. Its numbers are done in
 * their order, and each is a @unit (a constant: "operation"). If there are too
 * many actors, @tl becomes none: a wait for such a timeline is treated as a
 * wait for all work that has begun.
 */
void weir__races_add(struct weir__timeline *tl, const char *label,
		     const char *unit);
/* Make a load of @n tensors, which arrive in any order, an actor. */
void weir__races_add_load(struct weir__timeline *tl, const char *label,
			  size_t n);
/*
 * The actor @tl is a native stream: other code queues work there too, and
 * orders it in ways that are not seen. Reports that this may concern say so.
 */
void weir__races_native(struct weir__timeline *tl);
/*
 * The native stream @tl is around the queue @handle of @dev, as others may be.
 * NULL is the queue that the device orders with its others. The device runs the
 * work of such timelines in the order in which it began.
 */
void weir__races_queue(struct weir__timeline *tl, const void *dev,
		       const void *handle);
/* @tl is being freed. */
void weir__races_del(struct weir__timeline *tl);

/* The program has learned that @number of @tl is done or has failed. */
void weir__races_host_knew(struct weir__timeline *tl, uint64_t number);
static inline void weir__races_host_knows(struct weir__timeline *tl,
					  uint64_t number)
{
	if (weir__races_on(tl->weir))
		weir__races_host_knew(tl, number);
}

/*
 * References to the clock of the host, and to that of weir__races_next_knew, or
 * NULL. They are taken when an operation is queued, which learns them when it
 * begins.
 */
struct weir__races_order {
	struct weir__clock *host, *extra;
};

/*
 * Work that is queued on @tl from now on comes after @number of @other, which
 * is over already, so that nothing waits for it.
 */
void weir__races_next_knew(struct weir__timeline *tl,
			   struct weir__timeline *other, uint64_t number);
static inline void weir__races_next_knows(struct weir__timeline *tl,
					  struct weir__timeline *other,
					  uint64_t number)
{
	if (weir__races_on(tl->weir))
		weir__races_next_knew(tl, other, number);
}
/* An operation is queued on @tl: fill in its @order. */
void weir__races_queued(struct weir__timeline *tl,
			struct weir__races_order *order);
/*
 * Operation @number, which was queued with @order, begins; all before it have
 * begun. Drops the references.
 */
void weir__races_begin(struct weir__timeline *tl, uint64_t number,
		       struct weir__races_order *order);
void weir__races_order_drop(struct weir *weir, struct weir__races_order *order);
/* Operation @at of @tl, and all later ones, come after @number of @other. */
void weir__races_waited(struct weir__timeline *tl, uint64_t at,
			struct weir__timeline *other, uint64_t number);
/*
 * Number @at of @tl, and all later ones, are work inside operation @number of
 * @other: they know what that operation knew when it began.
 */
void weir__races_inside(struct weir__timeline *tl, uint64_t at,
			struct weir__timeline *other, uint64_t number);
/*
 * Operation @at of @tl runs a function of the program. At its begin the host
 * learns that all operations before it are done; at its end operation @at, and
 * all later ones, learn what the host knows.
 */
void weir__races_call_begin(struct weir__timeline *tl, uint64_t at);
void weir__races_call_end(struct weir__timeline *tl, uint64_t at);
/*
 * Operation @at of the native stream @tl runs a function. It is given to the
 * device, which gets later operations before the function has returned. It is
 * over when it has returned, or will never be called. In between it may wait
 * for any other work.
 */
void weir__races_call_given(struct weir__timeline *tl, uint64_t at);
void weir__races_call_over(struct weir__timeline *tl, uint64_t at);

/*
 * @rows rows of @width bytes, @pitch apart, at addresses of the host, of a
 * device, or at offsets in a file.
 */
struct weir__races_bytes {
	uint64_t space; /* 0: the host; else weir__races_device or _file */
	uint64_t lo, width, pitch, rows;
	bool write;
	const char *name; /* the tensor's, which is copied; or NULL */
	uint64_t base;    /* the address of its first byte; 0: unknown */
};
uint64_t weir__races_device(const void *dev);
uint64_t weir__races_file(uint64_t dev, uint64_t inode);

/* Operation @number of @tl accesses bytes. @what is a constant, as "copy". */
void weir__races_access(struct weir__timeline *tl, uint64_t number,
			const char *what,
			const struct weir__races_bytes *bytes);
/* The load of the timeline @tl writes the bytes of tensor @i. */
void weir__races_load_writes(struct weir__timeline *tl, uint64_t i,
			     const struct weir__races_bytes *bytes);
/* The call @what accesses bytes for the program without waiting for others. */
void weir__races_host_access(struct weir *weir, const char *what,
			     const struct weir__races_bytes *bytes);
/*
 * A call of the program has waited for all queued work that conflicts with its
 * access to the bytes.
 */
void weir__races_host_waited(struct weir *weir,
			     const struct weir__races_bytes *bytes);
/* Forget the bytes [lo, hi) of a space, which no work uses any more. */
void weir__races_forget(struct weir *weir, uint64_t space, uint64_t lo,
			uint64_t hi);

#endif
