/* SPDX-License-Identifier: MIT */
/*
 * Staging slots of one reactor: host memory in huge pages, for chunks that
 * cannot be read to their place. Two sizes: small slots for short extents and
 * the block at each end of a long one, large slots for whole chunks. A slot is
 * backed by pages when it is first used and kept until the root is closed or
 * trimmed.
 *
 * Only the reactor's owner uses them, except reserved slots.
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
	bool touched;
	bool shared;     /* was reserved once */
	bool registered; /* the method's */
};

struct weir__slots;

/* @budget bytes in all; the large ones have @chunk each. */
int weir__slots_new(size_t budget, size_t chunk, struct weir__slots **ret);
void weir__slots_free(struct weir__slots *slots); /* takes NULL */
/* A slot of at least @bytes; NULL: none is free now. */
struct weir__slot *weir__slot_get(struct weir__slots *slots, size_t bytes);
/*
 * Reserve a slot of at least @bytes for a later weir__slot_take_reserved() on
 * any thread, which takes the one that was used last. False: none is free.
 */
bool weir__slot_reserve(struct weir__slots *slots, size_t bytes);
struct weir__slot *weir__slot_take_reserved(struct weir__slots *slots,
					    size_t bytes);
/* Drop a reservation, instead of taking the slot; on any thread. */
void weir__slot_unreserve(struct weir__slots *slots, size_t bytes);
void weir__slot_put(struct weir__slots *slots, struct weir__slot *slot);
unsigned weir__slots_count(const struct weir__slots *slots);
/* The number of small or of large slots: the lower one. */
unsigned weir__slots_scarcer_count(const struct weir__slots *slots);
/* Bytes backed by pages: any thread. */
size_t weir__slots_bytes(const struct weir__slots *slots);
/* All of them, as one range of memory. */
void weir__slots_range(const struct weir__slots *slots, void **ret_addr,
		       size_t *ret_bytes);
/*
 * A device is about to page-lock all of them, or has let go. In between no page
 * is given back, nor unmapped by weir__slots_free. Any thread.
 */
void weir__slots_pinned(struct weir__slots *slots, bool pinned);
/* Give back the pages of free slots that are not registered. */
void weir__slots_trim(struct weir__slots *slots);

#endif
