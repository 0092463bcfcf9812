/* SPDX-License-Identifier: MIT */
/*
 * The accesses that the race checker remembers: of each range of bytes the last
 * write, and the reads since. The ranges do not overlap. They are a skip list
 * in the order of (space, address).
 */
#ifndef WEIR__RACES_MAP_H
#define WEIR__RACES_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR__RACES_READERS 4u /* reads that a range remembers */
#define WEIR__RACES_RANGES 65536u
#define WEIR__RACES_LEVELS 8u
#define WEIR__RACES_NOBODY UINT16_MAX

/* An access: the index of its actor, and the actor's number. */
struct weir__races_epoch {
	uint64_t number;
	uint32_t info;  /* index of its description, which may be another's */
	uint16_t actor; /* NOBODY: there is no access */
};

struct weir__races_range {
	uint64_t space, lo, hi; /* [lo, hi) */
	struct weir__races_epoch write, read[WEIR__RACES_READERS];
	uint8_t n_reads, levels;
	struct weir__races_range *next[];
};

struct weir__races_map {
	struct weir__races_range *first[WEIR__RACES_LEVELS];
	uint32_t n;      /* ranges */
	uint32_t random; /* state of the generator of levels */
	bool no_memory;
};

/* A visit of [lo, hi) of a space. */
struct weir__races_visit {
	uint64_t space, lo, hi;
	bool write;
	struct weir__races_epoch by; /* actor NOBODY: it is not recorded */
	/* Called for each remembered access that conflicts with the visit. */
	void (*conflict)(void *arg, const struct weir__races_epoch *other,
			 bool wrote, uint64_t lo, uint64_t hi);
	/* Returns true if the read is one to forget first. */
	bool (*old)(void *arg, const struct weir__races_epoch *epoch);
	void *arg;
};

void weir__races_map_fini(struct weir__races_map *map);
/* Find the conflicts of a visit, then remember its access. */
void weir__races_map_visit(struct weir__races_map *map,
			   const struct weir__races_visit *visit);
/* Forget [lo, hi) of a space. */
void weir__races_map_forget(struct weir__races_map *map, uint64_t space,
			    uint64_t lo, uint64_t hi);
/*
 * Forget each access for which @old returns true, and if that leaves more than
 * @most ranges, the first of them.
 */
void weir__races_map_prune(struct weir__races_map *map, uint32_t most,
			   bool (*old)(void *arg,
				       const struct weir__races_epoch *epoch),
			   void *arg);

#endif
