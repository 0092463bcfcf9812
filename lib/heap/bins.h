/* SPDX-License-Identifier: MIT */
/*
 * The records of a heap's blocks, and bins of free blocks by size. The
 * functions do not depend on streams and take no lock: the caller holds that of
 * the shard, which guards all members, unless a comment says otherwise.
 *
 * Blocks divide each buffer without gaps. The record of a block is outside of
 * the buffer, never moves, and is freed with the heap, so the record that a
 * stale number refers to can be read safely.
 */
#ifndef WEIR__BINS_H
#define WEIR__BINS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util.h"

enum weir__block_state {
	WEIR__BLOCK_UNUSED, /* the record describes no memory */
	WEIR__BLOCK_FREE,   /* in a stream bin */
	WEIR__BLOCK_USED,   /* the program has it */
	WEIR__BLOCK_CACHED  /* in a cache, or about to be freed */
};

struct weir__block {
	uint64_t addr;
	uint64_t bytes;  /* a multiple of the unit */
	uint64_t number; /* free: its free event, as its stream bin counts */
	uint32_t prev, next; /* neighbours in the buffer; 0: none */
	/*
	 * A free block: its subtrees in a size bin. Otherwise left is the next
	 * block in a cache, and right the next in a list of the index.
	 */
	uint32_t left, right;
	uint32_t before, after; /* free: neighbours in the queue of its bin */
	/*
	 * Generation << 2 | state. The generation grows each time the block is
	 * handed out. Changed under the lock of the shard or, if the block is
	 * used, by the thread that frees it.
	 */
	_Atomic uint32_t tag;
	uint32_t self; /* number of this record */
	uint16_t bin;  /* free: index of its stream bin */
	uint16_t region;
	/*
	 * Used: the place of the thread that allocated it, or WEIR__THREADS if
	 * that thread had no caches. Read without a lock.
	 */
	_Atomic uint16_t home;
	/*
	 * The index of the shard that has the block. While the block is not
	 * free it may change to 0, under the locks of that shard and of the
	 * heap.
	 */
	_Atomic uint16_t shard;
};

/* Slab i has 256 << i records: 24 are enough for all numbers of 32 bits. */
#define WEIR__SLAB_FIRST 8u
#define WEIR__SLABS 24u

/* The records of all blocks of a heap. */
struct weir__block_table {
	unsigned shift; /* the unit is 1 << shift bytes */
	_Atomic(struct weir__block *) slab[WEIR__SLABS];
	_Atomic uint32_t made; /* records that exist; number 0 is never used */
};

/* A list of the records of one shard that are not in use. */
struct weir__spares {
	uint32_t first, n;
};

/*
 * Free blocks by size, in units. Each power of two is a level of 64 bins of
 * equal width, as in two-level segregated fit (TLSF). A bin is a tree of blocks
 * in the order of size and address. @first has one bit for each level with
 * blocks, second[level] one for each bin with blocks.
 */
#define WEIR__LEVELS 48u

struct weir__size_bins {
	uint64_t first;
	uint64_t second[WEIR__LEVELS];
	uint32_t root[WEIR__LEVELS][64]; /* roots of the trees; 0: empty */
};

static inline struct weir__block *
weir__block_at(const struct weir__block_table *p, uint32_t number)
{
	uint32_t i = number + (1u << WEIR__SLAB_FIRST);
	unsigned slab = 31u - (unsigned)__builtin_clz(i);

	return atomic_load_explicit(&p->slab[slab - WEIR__SLAB_FIRST],
				    memory_order_relaxed) +
	       (i - (1u << slab));
}

static inline uint32_t weir__block_tag(const struct weir__block *b)
{
	return atomic_load_explicit(&b->tag, memory_order_relaxed);
}

/* Acquire: the shard with this index can then be found. */
static inline unsigned weir__block_shard(const struct weir__block *b)
{
	return atomic_load_explicit(&b->shard, memory_order_acquire);
}

static inline void weir__block_set_shard(struct weir__block *b, unsigned shard)
{
	atomic_store_explicit(&b->shard, (uint16_t)shard, memory_order_release);
}

static inline bool weir__block_is_free(const struct weir__block *b)
{
	return (weir__block_tag(b) & 3) == WEIR__BLOCK_FREE;
}

static inline void weir__block_set_state(struct weir__block *b,
					 enum weir__block_state state)
{
	uint32_t tag = (weir__block_tag(b) & ~3u) | state;

	if (state == WEIR__BLOCK_USED)
		tag += 4;
	atomic_store_explicit(&b->tag, tag, memory_order_relaxed);
}

struct weir__size_bin {
	unsigned level, bin;
};

/* The bin of blocks of @n units; up to 127 units each size has its own. */
static inline struct weir__size_bin weir__size_bin_of(uint64_t n)
{
	unsigned top;

	if (n < 64)
		return (struct weir__size_bin){ 0, (unsigned)n };
	top = 63u - (unsigned)__builtin_clzll(n);
	return (struct weir__size_bin){ top - 5, (n >> (top - 6)) & 63 };
}

void weir__block_table_init(struct weir__block_table *p, unsigned shift);
void weir__block_table_fini(struct weir__block_table *p);
/*
 * Make sure that @spares, those of the root shard, have @n records. -ENOMEM,
 * with a sentence.
 */
int weir__block_table_reserve(struct weir__block_table *p,
			      struct weir__spares *spares, unsigned n);
/* Take one of the reserved records, with zeroed links; give one back. */
struct weir__block *weir__block_new(struct weir__block_table *p,
				    struct weir__spares *spares);
void weir__block_drop(struct weir__spares *spares, struct weir__block *b);
/* Move @n records. */
void weir__spares_move(struct weir__block_table *p, struct weir__spares *from,
		       struct weir__spares *to, unsigned n);

/*
 * Split @b after @bytes. Returns the rest, a block of the same state, which is
 * in no bin and no queue.
 */
struct weir__block *weir__block_split(struct weir__block_table *p,
				      struct weir__spares *spares,
				      struct weir__block *b, uint64_t bytes);
/* Add its next neighbour to @c. Both are in no bin. */
void weir__block_join(struct weir__block_table *p, struct weir__spares *spares,
		      struct weir__block *b);

void weir__size_bins_add(struct weir__block_table *p,
			 struct weir__size_bins *bins, struct weir__block *b);
void weir__size_bins_del(struct weir__block_table *p,
			 struct weir__size_bins *bins, struct weir__block *b);
/*
 * Find the best fit: the smallest block with room for @bytes at a multiple of
 * @align, of several the one with the lowest address. After @most blocks whose
 * alignment does not fit: the smallest of those that are large enough for any
 * alignment.
 */
struct weir__block *weir__size_bins_find(const struct weir__block_table *p,
					 const struct weir__size_bins *bins,
					 uint64_t bytes, uint64_t align,
					 unsigned most);
/* The size of the largest block; 0: there is none. */
uint64_t weir__size_bins_largest(const struct weir__block_table *p,
				 const struct weir__size_bins *bins);

#endif
