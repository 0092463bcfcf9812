/* SPDX-License-Identifier: MIT */
/*
 * Programs that replay a trace on one allocator: weir's heaps, malloc of the C
 * library, and those of jemalloc and mimalloc, if they are installed.
 */
#ifndef BENCH_USERS_H
#define BENCH_USERS_H

#include <stdbool.h>
#include <stddef.h>

#include "calls.h"

struct user;

/* An allocator. */
struct allocator {
	const char *name;
	/* Prepare for @threads threads that replay @c, once each. */
	struct user *(*open)(const struct allocator *a, const struct calls *c,
			     unsigned threads);
	/* Replay all of @c as thread number @thread. */
	void (*replay)(struct user *u, const struct calls *c, unsigned thread);
	void (*close)(struct user *u);
	void *(*malloc)(size_t size);
	void (*free)(void *ptr);
	const char *why; /* not NULL: why it is missing */
};

/* weir first, then malloc; exactly these. */
enum {
	USER_WEIR,
	USER_MALLOC,
	USER_JEMALLOC,
	USER_MIMALLOC,
	USERS
};
extern struct allocator allocators[USERS];

/* Heaps that begin without memory: separate buffers, reserved addresses. */
extern const struct allocator growing[2];
/* The most bytes that the heap of @u, one of those, has had. */
uint64_t users_reserved(const struct user *u);

/*
 * Open the libraries of the others. Calls exec once, since some need more
 * static thread-local storage than the dynamic linker keeps free.
 */
void users_find(char **argv);

/*
 * Seconds that @threads threads need to replay @c, all at the same time; of one
 * thread CPU time.
 */
double users_run(const struct allocator *a, struct user *u,
		 const struct calls *c, unsigned threads);

/*
 * System calls of @runs replays on one thread, after the first; they are
 * counted in a child. Negative: it cannot be traced.
 */
long users_system_calls(const struct allocator *a, const struct calls *c,
			unsigned runs);

/*
 * End of the highest block of a weir heap in one buffer of @capacity bytes; 0:
 * a call found no memory.
 */
uint64_t users_height(const struct calls *c, uint64_t capacity);

#endif
