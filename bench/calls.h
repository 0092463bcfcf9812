/* SPDX-License-Identifier: MIT */
/*
 * Traces of calls of an allocator: made by the shapes of shapes.c, or read from
 * a file that weir_heap_record() wrote.
 */
#ifndef BENCH_CALLS_H
#define BENCH_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_STREAMS 64u

/* One call. A slot holds one block at a time; slots are used again. */
struct call {
	uint64_t size; /* bytes to allocate; 0: free the block in the slot */
	uint32_t slot;
	uint32_t stream; /* below MAX_STREAMS; 0: none */
};

struct calls {
	char name[32];
	struct call *list;
	size_t n, room;
	uint32_t slots;    /* slots that are used */
	uint32_t streams;  /* one more than the largest stream */
	uint64_t live;     /* bytes */
	uint64_t peak;     /* the highest value of live */
	uint64_t *size_of; /* each slot's block; 0: free */
	uint32_t *spare;   /* free slots, the last one is used next */
	uint32_t n_spare, slot_room;
};

void calls_init(struct calls *c, const char *name);
void calls_free(struct calls *c);
/* Append a call. calls_alloc() returns the slot. */
uint32_t calls_alloc(struct calls *c, uint64_t size, uint32_t stream);
void calls_drop(struct calls *c, uint32_t slot, uint32_t stream);
/* Append calls that free all blocks. */
void calls_end(struct calls *c);
/* Make all calls in stream 1. */
void calls_in_stream(struct calls *c);
/*
 * calls_text.c. Read a recorded trace. Exits with a message that names the
 * line.
 */
void calls_read(struct calls *c, const char *path);
/* Write it as weir_heap_record() would. */
void calls_write(const struct calls *c, const char *path);

/* A shape of real programs' calls, made from a fixed seed. */
struct shape {
	const char *name;
	const char *what; /* a line of help */
	void (*make)(struct calls *c, uint32_t seed, bool tiny);
	bool timed; /* blocks are small enough for host memory */
};
extern const struct shape shapes[];
extern const unsigned n_shapes;

#endif
