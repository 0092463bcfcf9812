/* SPDX-License-Identifier: MIT */
/*
 * The records of a heap's pieces, and bins of free pieces by size. These
 * functions take no lock and know no streams: the caller holds the lock of the
 * shard, which guards everything, except where a member says otherwise.
 *
 * Pieces divide each buffer without gaps; the record of a piece is outside of
 * the buffer. A record never moves, and its memory is kept until the end, so
 * that a stale number of a record can be examined safely.
 */
#ifndef WEIR__BINS_H
#define WEIR__BINS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/util.h"

enum weir__piece_state {
	WEIR__PIECE_UNUSED, /* the record describes no memory */
	WEIR__PIECE_FREE,   /* in the bins of its lane */
	WEIR__PIECE_LIVE,   /* a block of the caller */
	WEIR__PIECE_KEPT    /* in a cache, or on its way into bins */
};

struct weir__piece {
	uint64_t addr;
	uint64_t bytes;      /* a multiple of the unit */
	uint64_t number;     /* free: its free point, as its lane counts */
	uint32_t prev, next; /* neighbours in the buffer; 0: none */
	/*
	 * Free: in its bin. Otherwise left is the next in a list, and right the
	 * next in a list of the index.
	 */
	uint32_t left, right;
	uint32_t before, after; /* free: in the queue of its lane */
	/*
	 * Generation << 2 | state. The generation grows each time the piece
	 * becomes a block. Changed under the heap's lock or, of a block, by the
	 * thread that ends it.
	 */
	_Atomic uint32_t tag;
	uint32_t self; /* number of this record */
	uint16_t lane; /* free: in the bins of this lane */
	uint16_t region;
	/*
	 * Of a block: the number of the caches of the thread that allocated it;
	 * WEIR__THREADS: that thread had none. Read without a lock.
	 */
	_Atomic uint16_t home;
	/*
	 * The shard that has the piece: shards.c. Of a piece that is not free
	 * it changes to 0, under the locks of that shard and of the heap.
	 */
	_Atomic uint16_t shard;
};

/* Slab i has 256 << i records: 24 are enough for all numbers of 32 bits. */
#define WEIR__SLAB_FIRST 8u
#define WEIR__SLABS 24u

/* The records of all pieces of a heap. */
struct weir__heap_pieces {
	unsigned shift; /* the unit is 1 << shift bytes */
	_Atomic(struct weir__piece *) slab[WEIR__SLABS];
	_Atomic uint32_t made; /* records that exist; number 0 is never used */
};

/* Records that are not in use, of one shard: a list. */
struct weir__spares {
	uint32_t first, n;
};

/*
 * Free pieces by size in units: a level for each power of two, of 64 bins of
 * equal width. Each bin is a tree of pieces in the order of size and address.
 * @first has a bit for each level that has pieces, second[level] for each bin.
 */
#define WEIR__LEVELS 48u

struct weir__bins {
	uint64_t first;
	uint64_t second[WEIR__LEVELS];
	uint32_t root[WEIR__LEVELS][64]; /* of the trees; 0: empty */
};

static inline struct weir__piece *weir__piece(const struct weir__heap_pieces *p,
					      uint32_t number)
{
	uint32_t i = number + (1u << WEIR__SLAB_FIRST);
	unsigned slab = 31u - (unsigned)__builtin_clz(i);

	return atomic_load_explicit(&p->slab[slab - WEIR__SLAB_FIRST],
				    memory_order_relaxed) +
	       (i - (1u << slab));
}

static inline uint32_t weir__piece_tag(const struct weir__piece *c)
{
	return atomic_load_explicit(&c->tag, memory_order_relaxed);
}

/* Acquire: the shard itself can then be found by its number. */
static inline unsigned weir__piece_shard(const struct weir__piece *c)
{
	return atomic_load_explicit(&c->shard, memory_order_acquire);
}

static inline void weir__piece_move(struct weir__piece *c, unsigned shard)
{
	atomic_store_explicit(&c->shard, (uint16_t)shard, memory_order_release);
}

static inline bool weir__piece_is_free(const struct weir__piece *c)
{
	return (weir__piece_tag(c) & 3) == WEIR__PIECE_FREE;
}

static inline void weir__piece_set(struct weir__piece *c,
				   enum weir__piece_state state)
{
	uint32_t tag = (weir__piece_tag(c) & ~3u) | state;

	if (state == WEIR__PIECE_LIVE)
		tag += 4;
	atomic_store_explicit(&c->tag, tag, memory_order_relaxed);
}

/* Is there a place for @bytes at a multiple of @align? */
static inline bool weir__piece_fits(const struct weir__piece *c, uint64_t bytes,
				    uint64_t align)
{
	uint64_t pad = -c->addr & (align - 1);

	return c->bytes >= bytes && c->bytes - bytes >= pad;
}

struct weir__bin {
	unsigned level, bin;
};

/* The bin of pieces of @n units; up to 127 units each size has its own. */
static inline struct weir__bin weir__bin_of(uint64_t n)
{
	unsigned top;

	if (n < 64)
		return (struct weir__bin){ 0, (unsigned)n };
	top = 63u - (unsigned)__builtin_clzll(n);
	return (struct weir__bin){ top - 5, (n >> (top - 6)) & 63 };
}

void weir__heap_pieces_init(struct weir__heap_pieces *p, unsigned shift);
void weir__heap_pieces_fini(struct weir__heap_pieces *p);
/*
 * Make sure that @n records can be taken from @spares, those of the heap.
 * -ENOMEM with a sentence.
 */
int weir__heap_pieces_reserve(struct weir__heap_pieces *p,
			      struct weir__spares *spares, unsigned n);
/* Take one of the reserved records, with zeroed links; give one back. */
struct weir__piece *weir__piece_new(struct weir__heap_pieces *p,
				    struct weir__spares *spares);
void weir__piece_drop(struct weir__spares *spares, struct weir__piece *c);
/* Move @n records. */
void weir__spares_move(struct weir__heap_pieces *p, struct weir__spares *from,
		       struct weir__spares *to, unsigned n);

/*
 * Cut @c after @bytes and return the rest, a piece in the same state and lane
 * that is in no bin and no queue.
 */
struct weir__piece *weir__piece_split(struct weir__heap_pieces *p,
				      struct weir__spares *spares,
				      struct weir__piece *c, uint64_t bytes);
/* Add its next neighbour to @c. Both are in no bin. */
void weir__piece_join(struct weir__heap_pieces *p, struct weir__spares *spares,
		      struct weir__piece *c);

void weir__bins_add(struct weir__heap_pieces *p, struct weir__bins *b,
		    struct weir__piece *c);
void weir__bins_del(struct weir__heap_pieces *p, struct weir__bins *b,
		    struct weir__piece *c);
/*
 * The best fit: the smallest piece with a place for @bytes at a multiple of
 * @align, of several the one with the lowest address. If its alignment is bad
 * for @most pieces, the smallest of those that have a place in any case.
 */
struct weir__piece *weir__bins_find(const struct weir__heap_pieces *p,
				    const struct weir__bins *b, uint64_t bytes,
				    uint64_t align, unsigned most);
/* The size of the largest piece; 0: there is none. */
uint64_t weir__bins_largest(const struct weir__heap_pieces *p,
			    const struct weir__bins *b);

#endif
