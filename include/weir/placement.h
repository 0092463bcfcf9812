/* SPDX-License-Identifier: MIT */
/*
 * Placements: offsets that are computed from lifetimes. A program describes
 * the tensors of a graph as items with lifetimes; items whose lifetimes do not
 * overlap may have the same bytes. A placement never changes: it is computed
 * once, compared, and applied to buffers as often as the program likes. Its
 * computation allocates no memory of a device and changes no buffer.
 */
#ifndef WEIR_PLACEMENT_H
#define WEIR_PLACEMENT_H

#include <weir/base.h>
#include <weir/mem.h>

WEIR__BEGIN

/*
 * An item: @bytes bytes that are needed from step @lower to step @upper, which
 * is excluded. Steps are any numbers that increase with time, such as the
 * numbers of the graph's operations. An operation t that reads an item and
 * writes another needs both: the first has upper t + 1 or more, the second
 * lower t.
 */
struct weir_lifetime {
	int64_t lower, upper; /* lower < upper */
	uint64_t bytes;       /* may be 0 */
	uint64_t align;       /* a power of two; 0: that of its memory */
	uint32_t memory;      /* index of weir_placement_opts.memory */
	uint32_t flags;       /* WEIR_PLACE_* */
	uint64_t over;        /* an item, with WEIR_PLACE_OVER; else 0 */
	uint64_t reserved[2]; /* 0 */
};
/*
 * An input has its bytes from the beginning, before the first step, and an
 * output to the end: no item that runs before or after shares them. An item
 * with both flags shares its bytes with no other item.
 */
#define WEIR_PLACE_INPUT 0x01u
#define WEIR_PLACE_OUTPUT 0x02u
/* The item may take the place of item @over: it is computed in place. */
#define WEIR_PLACE_OVER 0x04u

/*
 * A memory for items, with its own addresses: for instance that of a device.
 */
struct weir_place_memory {
	uint64_t align;    /* default of its items; a power of two, 0: 1 */
	uint64_t capacity; /* bytes for all of its items; 0: no limit */
	uint64_t max;      /* largest buffer, bytes; 0: no limit */
	uint64_t enough;   /* the search ends when the items fit in so many
				 bytes, but they may exceed it without an error;
				 0: the capacity */
	uint64_t reserved; /* 0 */
};

struct weir_placement_opts {
	size_t size;
	const struct weir_place_memory *memory; /* NULL: one, all 0 */
	uint32_t n_memories;                    /* number of them */
	uint32_t threads; /* number of threads that search; 0: one */
	int64_t time_ns;  /* ns for the exact search; 0: only the greedy
			     planner is used; -1: until the result is proved */
};
WEIR__DECLARE_OPTS_INIT(weir_placement_opts)
#define WEIR_PLACEMENT_OPTS_INIT WEIR__OPTS_INIT(weir_placement_opts)

/*
 * Place the @n items. An item with WEIR_PLACE_OVER takes the place of item
 * @over if it begins at the last step of that item (lower + 1 == upper), is of
 * the same memory, needs neither more bytes nor a greater alignment, and that
 * item is no output; else it gets a place of its own.
 *
 * First comes the greedy planner. Where it does not reach the lower bound, the
 * exact search follows for at most opts->time_ns: with a capacity until the
 * items fit it, else until nothing lower is possible. Uses the CPU, no device;
 * does not keep @items. Free the placement with weir_placement_free().
 *
 * -EINVAL: an invalid item; the sentence has its index and both numbers.
 * -ENOSPC: the items exceed a capacity, or one is larger than the largest
 * buffer. -EOVERFLOW: their sizes and, for each, twice its alignment are over
 * 2^60 bytes together, or there are over 2^32 - 2 items. -ENOMEM.
 */
WEIR_API int weir_placement_new(const struct weir_lifetime *items, size_t n,
				const struct weir_placement_opts *opts,
				struct weir_placement **ret_placement)
	WEIR_NONNULL(4) WEIR_NODISCARD;
/* NULL is allowed. Buffers and tensors to which it was applied stay. */
WEIR_API void weir_placement_free(struct weir_placement *p);

struct weir_placement_info {
	size_t size;       /* set by the caller */
	uint64_t items;    /* number of items in this memory */
	uint64_t in_place; /* items that took another item's place */
	uint64_t bytes;    /* bytes needed: the end of the highest item */
	uint64_t bound;    /* a lower bound of bytes for any placement */
	uint64_t align;    /* the greatest alignment of an item */
	uint64_t nodes;    /* nodes that the exact search visited */
	int64_t time_ns;   /* ns to compute the placement, of all memories */
	uint32_t members;  /* number of buffers: over 1 if @bytes exceeds the
			      largest buffer */
	uint32_t flags;    /* WEIR_PLACED_* */
	uint64_t fingerprint[2]; /* hash of items, memories and offsets */
};
/* No placement with the same items in place is lower. */
#define WEIR_PLACED_OPTIMAL 0x01u

/*
 * Describe the part of the placement in one memory. Sizes of items are rounded
 * up to multiples of the least alignment of the items of the memory.
 * -EINVAL: @memory is not the index of a memory.
 */
WEIR_API int weir_placement_info(const struct weir_placement *p,
				 unsigned memory,
				 struct weir_placement_info *ret_info)
	WEIR_NONNULL(1, 3);

/*
 * The offset of item @i in its memory; UINT64_MAX: @i is not an item. If the
 * memory has several members, they follow one another as in a joined buffer.
 */
WEIR_API uint64_t weir_placement_offset(const struct weir_placement *p,
					size_t i) WEIR_NONNULL(1);
/* Bytes of member @i of a memory; 0: it has no such member, or no items. */
WEIR_API uint64_t weir_placement_member(const struct weir_placement *p,
					unsigned memory, unsigned i)
	WEIR_NONNULL(1);

/*
 * Make sure that bufs[m] has room for what is placed in memory m, for every
 * memory that has items: a buffer of bufts[m] that is large enough stays; else
 * a new one is allocated (joined, if it needs several members), bufs[m] is set
 * to it, and the old one, unless NULL, is freed. If the call fails, @bufs and
 * the buffers are as before. Free the buffers with weir_buf_free().
 *
 * Errors of weir_buf_alloc().
 */
WEIR_API int weir_placement_alloc(const struct weir_placement *p,
				  struct weir_buft *const *bufts,
				  struct weir_buf **bufs)
	WEIR_NONNULL(1, 2, 3) WEIR_NODISCARD;
/*
 * Place tensors: t[i], for each item i, at its offset in the buffer bufs[] of
 * its memory, even if it was placed before; then the views that follow in the
 * list and are not placed (weir_tensor.of). The buffers may be the caller's;
 * bytes are skipped until their addresses are aligned. Writes no byte of them.
 * If the call fails, no tensor has changed.
 *
 * -EINVAL: @n is less than the number of items, or a view is invalid. -ENOSPC:
 * a tensor is larger than its item, or a buffer is too small; the sentence has
 * both numbers.
 */
WEIR_API int weir_placement_apply(const struct weir_placement *p,
				  struct weir_buf *const *bufs,
				  struct weir_tensor *t, size_t n)
	WEIR_NONNULL(1, 2);

WEIR__END

#endif
