/* SPDX-License-Identifier: MIT */
/*
 * Mutators that know a format. They parse an input loosely, change counts,
 * lengths, types, places and names where they are, and copy, move and remove
 * fields. libFuzzer calls them (LLVMFuzzerCustomMutator), and so does replay.c,
 * without libFuzzer and with the same result for the same seed.
 */
#ifndef MUTATE_H
#define MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An input while it is changed. */
struct edit {
	uint8_t *bytes;
	size_t n, max;
	uint64_t random; /* state of the generator */
};

struct span {
	size_t at, len;
};

uint64_t edit_random(struct edit *e);
/* A number below @n, which is not 0. */
size_t edit_below(struct edit *e, size_t n);
/* Once in @n calls. */
bool edit_one_in(struct edit *e, size_t n);

/*
 * Put a copy of @n bytes in the place of @at, and move what follows it. False:
 * there is no room, and nothing has changed.
 */
bool edit_put(struct edit *e, struct span at, const void *bytes, size_t n);
/* Put a copy of another part of the input there. */
bool edit_copy(struct edit *e, struct span at, struct span from);
/* Exchange two parts, if they do not overlap. */
void edit_swap(struct edit *e, struct span a, struct span b);
/* A mutation of the bytes of a part, by libFuzzer if it is there. */
void edit_bytes(struct edit *e, struct span at);
/* A number that is near a limit, or near @old. */
uint64_t edit_number(struct edit *e, uint64_t old);

/* Change one thing in the JSON text at @at, which is all that is changed. */
void mutate_json(struct edit *e, struct span at);
/* Change a file of each format. */
void mutate_st(struct edit *e);
void mutate_gguf(struct edit *e);
void mutate_csv(struct edit *e);

#endif
