/* SPDX-License-Identifier: MIT */
/*
 * Staging slots of one reactor: host memory, in huge pages, for chunks that
 * cannot be read to their final place. Small slots are for short extents and
 * the block at each end of a long one, large slots for whole chunks. A slot is
 * backed by pages when it is first used; it keeps them until the root is closed
 * or trimmed.
 *
 * The functions run on the reactor's owner, unless they say "any thread".
 */
#ifndef WEIR__ALLOC_SLOTS_H
#define WEIR__ALLOC_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR__SLOT_SMALL (128u << 10)

struct weir__slot {
	struct weir__slot *next; /* free list */
	unsigned char *addr;
	size_t bytes;
	unsigned index; /* among all slots of the reactor */
	bool small;
	bool prefaulted;
	bool shared;     /* was reserved once */
	bool registered; /* the ring knows it; the method sets this */
};

struct weir;
struct weir__slots;

/*
 * Make slots of @bytes in all (0: none), with @chunk bytes in each large one.
 * If that is more than is available there are fewer slots, or none: then
 * weir__error_text() says why. -ENOMEM: more than the root's budget has left.
 */
int weir__slots_new(struct weir *weir, size_t bytes, size_t chunk,
		    struct weir__slots **ret);
void weir__slots_free(struct weir__slots *slots); /* takes NULL */
/* A slot of at least @bytes; NULL: none is free now. */
struct weir__slot *weir__slot_get(struct weir__slots *slots, size_t bytes);
/*
 * Reserve a slot of at least @bytes; false: none is free. Any thread takes it
 * later: weir__slot_take_reserved() returns the free slot that was used last.
 */
bool weir__slot_reserve(struct weir__slots *slots, size_t bytes);
struct weir__slot *weir__slot_take_reserved(struct weir__slots *slots,
					    size_t bytes);
/* Give up a reserved slot without taking it. Any thread. */
void weir__slot_unreserve(struct weir__slots *slots, size_t bytes);
void weir__slot_put(struct weir__slots *slots, struct weir__slot *slot);
unsigned weir__slots_count(const struct weir__slots *slots);
/* The number of slots of the size of which there are fewer. */
unsigned weir__slots_scarcer_count(const struct weir__slots *slots);
/* The bytes that are backed by pages. Any thread. */
size_t weir__slots_bytes(const struct weir__slots *slots);
/* The range of memory that all slots are in. */
void weir__slots_range(const struct weir__slots *slots, void **ret_addr,
		       size_t *ret_bytes);
/*
 * A device is about to page-lock all slots, or has unlocked them. In between no
 * page is returned to the system, not even by weir__slots_free. Any thread.
 */
void weir__slots_pinned(struct weir__slots *slots, bool pinned);
/* Return to the system the pages of free slots that are not registered. */
void weir__slots_trim(struct weir__slots *slots);

#endif
