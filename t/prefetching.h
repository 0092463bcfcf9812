/* SPDX-License-Identifier: MIT */
/*
 * A prefetcher, with files and streams as they are, and runs that are made up:
 * a number of their progress is done when the test says so.
 */
#ifndef T_PREFETCHING_H
#define T_PREFETCHING_H

#include <stdatomic.h>

#include "core/timeline.h"
#include "graph/prefetch/prefetcher.h"

#define PART 65536u /* bytes of an import */
#define PARTS 24u

struct progress {
	struct weir__timeline timeline;
	_Atomic uint64_t done;
	void (*asked)(void); /* called when its state is asked for, or NULL */
};

/* A list, and what a run of it has. */
struct run {
	struct weir__prefetch prefetch;
	struct progress *progress;
};

extern struct weir *weir;
extern struct weir_buft *buft;
extern struct weir_file *file; /* PARTS parts: part i has pattern i */
extern struct weir__import imports[PARTS];
extern struct weir__prefetcher *prefetcher;

/* A root, and file. */
void prefetching_begin(void);
struct progress *progress_new(void);
/* A file as @file is. */
struct weir_file *file_new(const char *name);
/* Make prefetcher, and imports: part i is read by step i. */
void begin(uint64_t limit);
struct weir__prefetch_list *list_new(uint32_t first, uint32_t n);
void list_end(struct weir__prefetch_list *list);
uint32_t count_prefetched(const struct weir__prefetch_list *list);
void start(struct run *run, struct weir__prefetch_list *list);
void advance(struct run *run, uint64_t number);
void end(struct run *run);
void finish(struct run *run);
int state(const struct run *run, uint32_t k);
/* True if entry @k has its bytes once it has arrived. */
bool arrives(const struct run *run, uint32_t k);
/* The steps from @k on to @to: each entry is there until its step is over. */
bool steps(struct run *run, uint32_t k, uint32_t to);
/* Wait until nothing is queued any more. */
void settle(void);

#endif
