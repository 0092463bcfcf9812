/* SPDX-License-Identifier: MIT */
/*
 * Helpers for tests that use streams: a root, byte tensors in host memory,
 * streams that are held, files. They bail out rather than fail.
 */
#ifndef T_STREAMS_H
#define T_STREAMS_H

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir.h>

#include "tap.h"

#define MS 1000000ll
#define SEC (1000 * MS)

/* The test cannot go on if this call fails. */
#define must(call)                                                           \
	do {                                                                 \
		if ((call) < 0)                                              \
			bail("%s:%d: %s", __FILE__, __LINE__, weir_error()); \
	} while (0)

struct weir *open_root(uint32_t io);
struct weir_dev *cpu_of(struct weir *weir);
/* The device under test: the one that WEIR_T_DEVICE names, else the CPU. */
struct weir_dev *dev_of(struct weir *weir);
bool on_cpu(struct weir *weir);
/* A stream of the device under test. */
struct weir_stream *new_stream(struct weir *weir, const char *name);
struct weir_event *new_event(struct weir *weir, unsigned flags);

/* A tensor of @n zero bytes in a plain buffer; free it with weir_buf_free. */
struct weir_tensor bytes(struct weir *weir, size_t n);
/* Fill @n bytes; two places or two seeds give different sequences. */
void pattern(void *at, size_t n, unsigned seed);
bool is_pattern(const void *at, size_t n, unsigned seed);
/*
 * A file of @n bytes of pattern @seed, not in the page cache. It has no name
 * left, so it is gone when it is closed.
 */
struct weir_file *temp_file(struct weir *weir, size_t n, unsigned seed);

/* A host function that blocks its stream until release_stream(). */
struct hold {
	sem_t entered, released;
	int result; /* result of the host function */
};

void hold_init(struct hold *hold, int result);
int hold_until_released(void *hold);
/* Queue the host function on @s, and wait until it has begun. */
void hold_stream(struct weir_stream *s, struct hold *hold);
void release_stream(struct hold *hold);

/* Host functions: fail with *@errno_ptr; add 1 to *@counter. */
int fail_with(void *errno_ptr);
int count_up(void *counter);

#endif
