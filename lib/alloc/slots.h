/* SPDX-License-Identifier: MIT */
/*
 * Staging slots of one reactor: host memory in huge pages that chunks go
 * through which cannot be read to their place. Two sizes: small ones for short
 * runs and the block at each end of a long one, large ones for whole chunks. A
 * slot is backed by pages when it is first used and kept until the root is
 * closed or trimmed.
 *
 * Belongs to its reactor's thread, but for promised slots.
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
	bool shared;     /* was promised once */
	bool registered; /* the method's */
};

struct weir__slots;

/* @budget bytes in all; the large ones have @chunk each. */
int weir__slots_new(size_t budget, size_t chunk, struct weir__slots **ret);
void weir__slots_free(struct weir__slots *slots); /* takes NULL */
/* A slot of at least @bytes; NULL: none is free now. */
struct weir__slot *weir__slot_get(struct weir__slots *slots, size_t bytes);
/*
 * Promise a slot of at least @bytes to whoever asks for it later, on any
 * thread: that has the one that was used last by then. False: none is free.
 */
bool weir__slot_reserve(struct weir__slots *slots, size_t bytes);
struct weir__slot *weir__slot_take_reserved(struct weir__slots *slots,
					    size_t bytes);
/* It will not be asked for; on any thread. */
void weir__slot_unreserve(struct weir__slots *slots, size_t bytes);
void weir__slot_put(struct weir__slots *slots, struct weir__slot *slot);
unsigned weir__slots_count(const struct weir__slots *slots);
/* Of the size of which there are fewer. */
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
/* Give the pages of free slots that are not registered back. */
void weir__slots_trim(struct weir__slots *slots);

#endif
